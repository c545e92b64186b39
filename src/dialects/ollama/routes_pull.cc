// Ollama's pull and delete, which add models of the hub and take them away: for administrators, and
// only where the server was started for it.
#include <optional>

#include "api/model_store.h"
#include "base/sha256.h"
#include "dialects/ollama/ollama.h"
#include "dialects/shared/answer.h"
#include "dialects/shared/rows.h"
#include "http/stream.h"
#include "http/stream_formats.h"
#include "json/json_writer.h"

namespace penstock::dialects {
namespace {

using serving::About;
using serving::ErrorBody;
using serving::PrintError;
using serving::Route;
using serving::RouteCall;

// A client that has so much to read yet is not told of progress.
constexpr size_t kUnreadBytesMax = 16 << 10;

// One pull, answered in lines of progress or at its end. Used by the store's thread alone.
class PullAnswer {
 public:
  PullAnswer(const RouteCall& call, bool streams)
      : request_(call.request),
        respond_(call.respond),
        error_body_(call.route->error_body),
        streams_(streams) {}

  // False: the client waits for it no more.
  bool Tell(const api::PullProgress& now) {
    if (!request_->context.CheckWanted(Clock::now()).ok()) return false;
    if (!streams_) return true;
    Begin();
    if (stream_->gone()) return false;
    if (stream_->unread() > kUnreadBytesMax) return true;
    std::string text;
    JsonWriter json(&text);
    json.BeginObject().Field("status",
                             now.checking ? "verifying " + now.file : "pulling " + now.file);
    json.Field("digest", "sha256:" + Sha256Hex(now.file));
    if (now.bytes_total > 0) json.Field("total", now.bytes_total);
    json.Field("completed", now.bytes_done).EndObject();
    return stream_->Write(text + "\n");
  }

  void End(const Status& status) {
    if (!streams_ || (stream_ == nullptr && !status.ok())) {
      http::HttpResponse response = PrintError(error_body_, status, request_->id);
      if (status.ok()) response = http::HttpResponse{.body = R"({"status":"success"})"};
      return respond_.Send(std::move(response));
    }
    Begin();
    if (status.ok()) return stream_->End("{\"status\":\"success\"}\n");
    const http::HttpResponse error = PrintError(error_body_, status, request_->id);
    stream_->End(error.body + "\n", error.status);
  }

 private:
  void Begin() {
    if (stream_ != nullptr) return;
    http::HttpResponse head;
    head.content_type = http::kNdjsonType;
    stream_ = respond_.Begin(std::move(head), [] {});
    stream_->Write("{\"status\":\"pulling manifest\"}\n");
  }

  const std::shared_ptr<const http::HttpRequest> request_;
  const http::Responder respond_;
  const ErrorBody error_body_;
  const bool streams_;
  std::unique_ptr<http::Stream> stream_;
};

// What both routes need: where models are kept, and the model that the body names.
struct StoreCall {
  api::ModelStore* store;
  std::string model;
  bool stream;
};

// nullopt: the call was refused and is answered.
std::optional<StoreCall> ParseCall(const RouteCall& call) {
  api::ModelStore* const store = call.service->model_store();
  if (store == nullptr) {
    const auto refusal =
        MakeStatus(StatusCode::kUnauthenticated,
                   "this server takes no models from clients; it does with --allow-pull, or from "
                   "administrators with --admin-api-key");
    call.respond.Send(PrintError(call.route->error_body, 403, refusal, call.request->id));
    return std::nullopt;
  }
  const auto parse = [&]() -> Expected<StoreCall> {
    PENSTOCK_ASSIGN_OR_RETURN(const RequestBody body, RequestBody::Parse(call.body));
    PENSTOCK_ASSIGN_OR_RETURN(std::string model, OllamaModelOf(body.object()));
    PENSTOCK_ASSIGN_OR_RETURN(const bool stream, body.object().GetBoolOr("stream", true));
    return StoreCall{store, std::move(model), stream};
  };
  auto parsed = parse();
  if (parsed.ok()) return *std::move(parsed);
  call.Fail(parsed.status());
  return std::nullopt;
}

// {"model": "owner/name", "stream": true}
void Pull(const RouteCall& call) {
  const auto parsed = ParseCall(call);
  if (!parsed) return;
  const auto answer = std::make_shared<PullAnswer>(call, parsed->stream);
  const Status begun = parsed->store->Pull(
      parsed->model, [answer](const api::PullProgress& now) { return answer->Tell(now); },
      [answer](const Status& status) { answer->End(status); });
  if (!begun.ok()) call.Fail(begun);
}

// {"model": NAME}
void Delete(const RouteCall& call) {
  const auto parsed = ParseCall(call);
  if (!parsed) return;
  const auto work = [parsed = *parsed, respond = call.respond, request = call.request,
                     error_body = call.route->error_body] {
    const Status status = parsed.store->Delete(parsed.model);
    http::HttpResponse response;
    response.body = R"({"status":"success"})";
    if (!status.ok()) response = PrintError(error_body, status, request->id);
    respond.Send(std::move(response));
  };
  const Status taken =
      call.service->RunOnWorker(call.request->context.priority, api::Service::kLongWorkBytes, work);
  if (!taken.ok()) call.Fail(taken);
}

constexpr Route kPullRoutes[] = {
    {"POST", "/api/pull", kOllamaErrors, Pull,
     About("Downloads a model of the hub and serves it", "OllamaPullRequest", "OllamaPulled"),
     frontend::RouteFor::kAdmins},
    {"DELETE", "/api/delete", kOllamaErrors, Delete,
     About("Deletes a model of the hub's cache", "ModelCall", "OllamaPulled"),
     frontend::RouteFor::kAdmins},
};

}  // namespace

std::span<const serving::Route> PullRoutes() { return kPullRoutes; }

}  // namespace penstock::dialects

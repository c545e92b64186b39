// Ollama's pull and delete, which add models of the hub and take them away: for administrators, and
// only where the server was started for it.
#include <chrono>

#include "api/model_store.h"
#include "common/json_writer.h"
#include "http/stream.h"
#include "http/stream_formats.h"
#include "routes/ollama.h"
#include "routes/routes.h"
#include "routes/sha256.h"

namespace penstock {
namespace {

// A client that has so much to read yet is not told of progress.
constexpr size_t kUnreadBytesMax = 16 << 10;

Expected<ModelStore*> StoreOf(const RouteCall& call) {
  if (ModelStore* const store = call.service->model_store()) return store;
  return Status(StatusCode::kUnauthenticated,
                "this server takes no models from clients; it does with --allow-pull, or from "
                "administrators with --admin-api-key");
}

void Refuse(const RouteCall& call, const Status& status) {
  const int http_status =
      status.code() == StatusCode::kUnauthenticated ? 403 : HttpStatusOf(status.code());
  call.respond.Send(PrintError(call.route->error_body, http_status, status, call.request->id));
}

// One pull, answered in lines of progress or at its end. Used by the store's thread alone.
class PullAnswer {
 public:
  PullAnswer(const RouteCall& call, bool streams)
      : request_(call.request),
        respond_(call.respond),
        error_body_(call.route->error_body),
        streams_(streams) {}

  // False: nobody waits for it any more.
  bool Tell(const PullProgress& now) {
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
      HttpResponse response = PrintError(error_body_, status, request_->id);
      if (status.ok()) response = HttpResponse{.body = R"({"status":"success"})"};
      return respond_.Send(std::move(response));
    }
    Begin();
    if (status.ok()) return stream_->End("{\"status\":\"success\"}\n");
    const HttpResponse error = PrintError(error_body_, status, request_->id);
    stream_->End(error.body + "\n", error.status);
  }

 private:
  void Begin() {
    if (stream_ != nullptr) return;
    HttpResponse head;
    head.content_type = kNdjsonType;
    stream_ = respond_.Begin(std::move(head), [] {});
    stream_->Write("{\"status\":\"pulling manifest\"}\n");
  }

  const std::shared_ptr<const HttpRequest> request_;
  const Responder respond_;
  const ErrorBody error_body_;
  const bool streams_;
  std::unique_ptr<Stream> stream_;
};

// {"model": "owner/name", "stream": true}
void Pull(const RouteCall& call) {
  const auto store = StoreOf(call);
  if (!store.ok()) return Refuse(call, store.status());
  const auto body = RequestBody::Parse(call.body);
  if (!body.ok()) return call.Fail(body.status());
  const auto name = OllamaModelOf(body->object());
  if (!name.ok()) return call.Fail(name.status());
  const auto streams = body->object().GetBoolOr("stream", true);
  if (!streams.ok()) return call.Fail(streams.status());
  const auto answer = std::make_shared<PullAnswer>(call, *streams);
  const Status begun = (*store)->Pull(
      *name, [answer](const PullProgress& now) { return answer->Tell(now); },
      [answer](const Status& status) { answer->End(status); });
  if (!begun.ok()) call.Fail(begun);
}

// {"model": NAME}
void Delete(const RouteCall& call) {
  const auto store = StoreOf(call);
  if (!store.ok()) return Refuse(call, store.status());
  const auto body = RequestBody::Parse(call.body);
  if (!body.ok()) return call.Fail(body.status());
  const auto name = OllamaModelOf(body->object());
  if (!name.ok()) return call.Fail(name.status());
  const auto work = [store = *store, name = *name, respond = call.respond, request = call.request,
                     error_body = call.route->error_body] {
    const Status status = store->Delete(name);
    HttpResponse response;
    response.body = R"({"status":"success"})";
    if (!status.ok()) response = PrintError(error_body, status, request->id);
    respond.Send(std::move(response));
  };
  const Status taken =
      call.service->RunOnWorker(call.request->context.priority, Service::kLongWorkBytes, work);
  if (!taken.ok()) call.Fail(taken);
}

constexpr Route kRoutes[] = {
    {"POST", "/api/pull", ErrorBody::kOllama, Pull, RouteFor::kAdmins},
    {"DELETE", "/api/delete", ErrorBody::kOllama, Delete, RouteFor::kAdmins},
};

}  // namespace

std::span<const Route> PullRoutes() { return kRoutes; }

}  // namespace penstock

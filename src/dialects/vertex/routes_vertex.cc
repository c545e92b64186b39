// Vertex AI's route, as text-embeddings-inference and text-generation-inference have it: each
// instance is a request to POST /.
#include <mutex>
#include <optional>
#include <utility>

#include "dialects/shared/answer.h"
#include "dialects/shared/rows.h"
#include "json/json_writer.h"
#include "serving/inner_call.h"
#include "serving/route_table.h"

namespace penstock::dialects {
namespace {

using serving::About;
using serving::CallInner;
using serving::PrintError;
using serving::Route;
using serving::RouteCall;

std::string InstanceName(size_t index) { return "instances[" + std::to_string(index) + "]"; }

http::HttpResponse PrintOne(const RouteCall& call, const http::Exchange::Print& print) {
  if (print) return print();
  return PrintError(call.route->error_body, Status::Internal("the request was lost"),
                    call.request->id);
}

// Writes only the text of an answer with generated text, any other answer as it is. Only an object
// is parsed: an answer with embeddings may be large.
void WritePrediction(const std::string& body, JsonWriter* json) {
  if (!body.starts_with('{')) {
    json->Raw(body);
    return;
  }
  const auto document = JsonDocument::Parse(body);
  const auto object = document.ok() ? document->Object() : document.status();
  if (object.ok() && object->Has("generated_text")) {
    json->String(object->GetStringOr("generated_text", "").value());
  } else {
    json->Raw(body);
  }
}

// An error of POST /, with the instance before its message and its field.
http::HttpResponse NameInstance(size_t index, http::HttpResponse error) {
  const auto document = JsonDocument::Parse(error.body);
  const auto object = document.ok() ? document->Object() : document.status();
  if (!object.ok()) return error;
  const std::string name = InstanceName(index);
  const auto text = [&](const char* key) {
    const auto value = object->GetStringOr(key, "");
    return value.ok() ? *value : std::string();
  };
  std::string body;
  JsonWriter json(&body);
  json.BeginObject().Field("error", name + ": " + text("error"));
  json.Field("error_type", text("error_type"));
  if (const std::string field = text("field"); !field.empty()) {
    json.Field("field", name + "." + field);
  }
  json.EndObject();
  error.body = std::move(body);
  return error;
}

// One request: its instances, a few of them under way at once so that they leave room for others.
class VertexCall : public std::enable_shared_from_this<VertexCall> {
 public:
  VertexCall(const RouteCall& call, std::vector<std::string> bodies)
      : call_(call.WithoutBody()),
        bodies_(std::move(bodies)),
        prints_(bodies_.size()),
        left_(bodies_.size()) {
    root_ = call_.table->FindPost("/", &root_index_);
    // Without the headers: they are about the answer to the whole.
    auto inner = std::make_shared<http::HttpRequest>(*call.request);
    inner->headers.clear();
    inner_ = std::move(inner);
  }

  // Begins as many as may be under way. Where one ends at once, the loop goes on.
  void Begin() {
    std::unique_lock lock(mutex_);
    if (std::exchange(beginning_, true)) return;
    while (under_way_ < kUnderWay && next_ < bodies_.size()) {
      const size_t index = next_++;
      ++under_way_;
      lock.unlock();
      CallInner({call_.service, call_.metrics, call_.options, call_.table}, root_, inner_,
                std::move(bodies_[index]),
                [self = shared_from_this(), index](http::Exchange::Print print) {
                  self->OnAnswer(index, std::move(print));
                });
      lock.lock();
    }
    beginning_ = false;
  }

 private:
  static constexpr size_t kUnderWay = 32;

  void OnAnswer(size_t index, http::Exchange::Print print) {
    bool last = false;
    {
      const std::lock_guard lock(mutex_);
      prints_[index] = std::move(print);
      --under_way_;
      last = --left_ == 0;
      if (!last && (beginning_ || next_ == bodies_.size())) return;
    }
    call_.service->FinishOnWorker(call_.request->context.priority, api::Service::kLongWorkBytes,
                                  [self = shared_from_this(), last] {
                                    try {
                                      if (!last) return self->Begin();
                                      self->call_.respond.Send(self->PrintAll());
                                    } catch (...) {
                                      self->call_.Fail(ExceptionStatus());
                                    }
                                  });
  }

  // {"predictions": [...]}, or the first error. An error of one text may end others, with 499.
  http::HttpResponse PrintAll() const {
    http::HttpResponse all;
    std::optional<http::HttpResponse> ended;
    JsonWriter json(&all.body);
    json.BeginObject().Key("predictions").BeginArray();
    for (size_t i = 0; i < prints_.size(); ++i) {
      http::HttpResponse one = PrintOne(call_, prints_[i]);
      if (one.status >= 400 && one.status != 499) return NameInstance(i, std::move(one));
      if (one.status == 499) {
        if (!ended) ended = NameInstance(i, std::move(one));
        continue;
      }
      WritePrediction(one.body, &json);
    }
    json.EndArray().EndObject();
    return ended ? *std::move(ended) : all;
  }

  const RouteCall call_;  // without the body, which goes with its handler
  const Route* root_ = nullptr;
  int32_t root_index_ = 0;
  std::shared_ptr<const http::HttpRequest> inner_;
  std::vector<std::string> bodies_;  // each is used by the call that begins it

  std::mutex mutex_;
  // All guarded by mutex_, `prints_` until the last has come.
  std::vector<http::Exchange::Print> prints_;
  size_t next_ = 0;
  size_t under_way_ = 0;
  size_t left_;
  bool beginning_ = false;
};

// {"instances": [...]}
void Vertex(const RouteCall& call) {
  const auto body = RequestBody::Parse(call.body);
  if (!body.ok()) return call.Fail(body.status());
  const auto instances = body->object().GetArray("instances");
  if (!instances.ok()) return call.Fail(instances.status());
  const Status entries = CheckEntries(*instances, "instances", call.service->options());
  if (!entries.ok()) return call.Fail(entries);
  if (instances->begin() == instances->end()) {
    return call.Fail(Status::InvalidArgument("'instances' is empty", "instances"));
  }
  std::vector<std::string> bodies;
  for (const JsonElement instance : *instances) {
    bool streams = false;
    const std::string field = InstanceName(bodies.size());
    if (!instance.is_object()) {
      return call.Fail(Status::InvalidArgument(
          "'" + field + "' must be an object, such as {\"inputs\": \"a text\"}, is " +
              JsonTypeName(instance),
          field));
    }
    if (instance["stream"].Get(&streams) && streams) {
      return call.Fail(Status::InvalidArgument(
          "'" + field + ".stream' is not supported: the answers come as a whole",
          field + ".stream"));
    }
    bodies.push_back(instance.Text());
  }
  std::make_shared<VertexCall>(call, std::move(bodies))->Begin();
}

constexpr Route kVertexRoutes[] = {
    {"POST", "/vertex", kTeiErrors, Vertex,
     About("Several requests to /, as Vertex AI has it", "VertexRequest", "VertexAnswer")},
};

}  // namespace

std::span<const serving::Route> VertexRoutes() { return kVertexRoutes; }

}  // namespace penstock::dialects

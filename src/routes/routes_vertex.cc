// Vertex AI's route, as text-embeddings-inference and text-generation-inference have it: each
// instance is a request to POST /.
#include <mutex>

#include "common/json_writer.h"
#include "routes/inner_call.h"
#include "routes/routes.h"

namespace penstock {
namespace {

// The answers to the instances of one request.
struct Gathered {
  explicit Gathered(size_t count) : prints(count), left(count) {}
  std::mutex mutex;
  std::vector<Exchange::Print> prints;  // guarded by mutex, until the last has come
  size_t left;                          // guarded by mutex
};

std::string InstanceName(size_t index) { return "instances[" + std::to_string(index) + "]"; }

HttpResponse PrintOne(const RouteCall& call, const Exchange::Print& print) {
  if (print) return print();
  return PrintError(call.route->error_body, Status::Internal("the request was lost"),
                    call.request->id);
}

// Of generated text the text alone; else the answer as it is. Only an object is parsed: an answer
// of embeddings may be large.
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
HttpResponse NameInstance(size_t index, HttpResponse error) {
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

// {"predictions": [...]}, or the first error.
HttpResponse PrintAll(const RouteCall& call, const Gathered& gathered) {
  HttpResponse all;
  JsonWriter json(&all.body);
  json.BeginObject().Key("predictions").BeginArray();
  for (size_t i = 0; i < gathered.prints.size(); ++i) {
    HttpResponse one = PrintOne(call, gathered.prints[i]);
    if (one.status >= 400) return NameInstance(i, std::move(one));
    WritePrediction(one.body, &json);
  }
  json.EndArray().EndObject();
  return all;
}

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
  for (const simdjson::dom::element instance : *instances) {
    bool streams = false;
    const std::string field = InstanceName(bodies.size());
    if (!instance.is_object()) {
      return call.Fail(Status::InvalidArgument(
          "'" + field + "' must be an object, such as {\"inputs\": \"a text\"}, is " +
              JsonTypeName(instance),
          field));
    }
    if (instance["stream"].get(streams) == simdjson::SUCCESS && streams) {
      return call.Fail(Status::InvalidArgument(
          "'" + field + ".stream' is not supported: the answers come as a whole",
          field + ".stream"));
    }
    bodies.push_back(simdjson::minify(instance));
  }
  const auto gathered = std::make_shared<Gathered>(bodies.size());
  // The body goes with this handler.
  const auto owned = std::make_shared<const RouteCall>(RouteCall{
      call.service, call.metrics, call.options, call.route, call.request, "", call.respond});
  int32_t index = 0;
  const Route* const root = FindPostRoute("/", &index);
  for (size_t i = 0; i < bodies.size(); ++i) {
    CallInner({call.service, call.metrics, call.options}, root, call.request, std::move(bodies[i]),
              [owned, gathered, i](Exchange::Print print) {
                {
                  const std::lock_guard lock(gathered->mutex);
                  gathered->prints[i] = std::move(print);
                  if (--gathered->left > 0) return;
                }
                owned->service->FinishOnWorker(owned->request->context.priority,
                                               Service::kLongWorkBytes, [owned, gathered] {
                                                 try {
                                                   owned->respond.Send(PrintAll(*owned, *gathered));
                                                 } catch (...) {
                                                   owned->Fail(ExceptionStatus());
                                                 }
                                               });
              });
  }
}

constexpr Route kRoutes[] = {
    {"POST", "/vertex", ErrorBody::kTei, Vertex},
};

}  // namespace

std::span<const Route> VertexRoutes() { return kRoutes; }

}  // namespace penstock

// Loading, unloading and pinning of models: for administrators.
#include "dialects/shared/answer.h"
#include "dialects/shared/fields.h"
#include "dialects/shared/rows.h"
#include "json/json_writer.h"

namespace penstock::dialects {
namespace {

using serving::About;
using serving::Route;
using serving::RouteCall;

std::string PrintState(const api::ModelInfo& model) {
  std::string body;
  JsonWriter json(&body);
  json.BeginObject().Field("id", model.name).Field("object", "model");
  WriteModelState(model, &json);
  json.EndObject();
  return body;
}

// {"model": NAME}
Expected<std::string> NameIn(const RequestBody& body) {
  PENSTOCK_ASSIGN_OR_RETURN(std::string name, GetName(body.object(), "model"));
  if (!name.empty()) return name;
  return Status::InvalidArgument("model is required: the name of a served model", "model");
}

// Answers with the model's state after `act(name)`.
template <typename Act>
void AnswerState(const RouteCall& call, Act act) {
  const auto body = RequestBody::Parse(call.body);
  if (!body.ok()) return call.Fail(body.status());
  const auto name = NameIn(*body);
  if (!name.ok()) return call.Fail(name.status());
  const Expected<api::ModelInfo> model = act(*name);
  if (!model.ok()) return call.Fail(model.status());
  call.Ok(PrintState(*model));
}

// {"model": NAME, "keep_alive": 300 or "5m"}: answers when it is loaded.
void LoadOne(const RouteCall& call) {
  const auto body = RequestBody::Parse(call.body);
  if (!body.ok()) return call.Fail(body.status());
  const auto name = NameIn(*body);
  if (!name.ok()) return call.Fail(name.status());
  RequestContext context = call.request->context;
  const auto keep_alive = GetKeepAlive(body->object());
  if (!keep_alive.ok()) return call.Fail(keep_alive.status());
  if (*keep_alive) context.keep_alive = *keep_alive;
  call.service->LoadModel(*name, context, Answer<api::ModelInfo>(call, {}, PrintState));
}

void Preload(const RouteCall& call) {
  AnswerState(call, [&](const std::string& name) { return call.service->StartLoadModel(name); });
}
void Unload(const RouteCall& call) {
  AnswerState(call, [&](const std::string& name) { return call.service->UnloadModel(name); });
}
void Pin(const RouteCall& call) {
  AnswerState(call, [&](const std::string& name) { return call.service->PinModel(name, true); });
}
void Unpin(const RouteCall& call) {
  AnswerState(call, [&](const std::string& name) { return call.service->PinModel(name, false); });
}

constexpr Route kModelsRoutes[] = {
    {"POST", "/admin/models/load", kOpenAiErrors, LoadOne,
     About("Loads a model, and answers when it is there", "LoadCall", "ModelState"),
     frontend::RouteFor::kAdmins},
    {"POST", "/admin/models/preload", kOpenAiErrors, Preload,
     About("The same, and answers at once", "ModelCall", "ModelState"),
     frontend::RouteFor::kAdmins},
    {"POST", "/admin/models/unload", kOpenAiErrors, Unload,
     About("Unloads a model once its requests are answered", "ModelCall", "ModelState"),
     frontend::RouteFor::kAdmins},
    {"POST", "/admin/models/pin", kOpenAiErrors, Pin,
     About("The model is never unloaded by itself", "ModelCall", "ModelState"),
     frontend::RouteFor::kAdmins},
    {"POST", "/admin/models/unpin", kOpenAiErrors, Unpin,
     About("The model may be unloaded when it is idle", "ModelCall", "ModelState"),
     frontend::RouteFor::kAdmins},
};

}  // namespace

std::span<const serving::Route> ModelRoutes() { return kModelsRoutes; }

}  // namespace penstock::dialects

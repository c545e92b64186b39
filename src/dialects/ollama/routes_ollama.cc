// Ollama: embeddings, text, and what is said of models. Its pull and delete are in routes_pull.cc.
#include <fmt/format.h>

#include <chrono>

#include "dialects/ollama/ollama.h"
#include "dialects/ollama/ollama_models.h"
#include "dialects/ollama/ollama_print.h"
#include "dialects/shared/answer.h"
#include "dialects/shared/event_stream.h"
#include "dialects/shared/rows.h"
#include "json/json_writer.h"

namespace penstock::dialects {
namespace {

using serving::About;
using serving::PrintError;
using serving::Route;
using serving::RouteCall;

using Lookup = Expected<api::ModelInfo> (api::Service::*)(const std::string& name) const;

// Ollama's names have a tag, "latest" where a client gives none.
Expected<api::ModelInfo> FindModel(const api::Service& service, Lookup look_up, std::string* name) {
  constexpr std::string_view kLatest = ":latest";
  auto model = (service.*look_up)(*name);
  if (model.ok() || !name->ends_with(kLatest)) return model;
  auto untagged = (service.*look_up)(name->substr(0, name->size() - kLatest.size()));
  if (!untagged.ok()) return model;
  name->resize(name->size() - kLatest.size());
  return untagged;
}

// Whether the model, as far as it is known, does what the route is for.
Status CheckTask(const api::ModelInfo& model, std::string_view task) {
  if (model.task.empty() || model.task == task) return Status::Ok();
  return Status::InvalidArgument(
      fmt::format("model '{}' is for {}, this route for {}", model.name, model.task, task),
      "model");
}

std::chrono::nanoseconds Elapsed(const http::HttpRequest& request) {
  return Clock::now() - request.begin;
}

// Unloads the model now, whatever else uses it: what is under way is finished, and it is not listed
// as loaded any more when the answer comes. False: the call was refused.
bool UnloadNow(const RouteCall& call, const api::ModelInfo& model) {
  if (!call.request->context.rules_models) {
    const auto refusal = MakeStatus(
        StatusCode::kUnauthenticated,
        "unloading a model asks for a key of an administrator (--admin-api-key); keep_alive of "
        "others counts from 60 s to --keep-alive");
    call.respond.Send(PrintError(call.route->error_body, 403, refusal, call.request->id));
    return false;
  }
  if (model.state != "ready" && model.state != "parked") return true;
  const auto unloaded = call.service->UnloadModel(model.name);
  if (!unloaded.ok()) call.Fail(unloaded.status());
  return unloaded.ok();
}

bool Unloads(const std::optional<std::chrono::milliseconds>& keep_alive) {
  return keep_alive && keep_alive->count() == 0;
}

// `kPrint` may use the time since the request began.
template <typename Print>
void AnswerEmbed(const RouteCall& call, Expected<OllamaEmbedCall> parsed, const char* field,
                 Print print) {
  if (!parsed.ok()) return call.Fail(parsed.status());
  api::EmbedRequest& request = parsed->request;
  const auto model = FindModel(*call.service, &api::Service::EmbeddingModel, &request.model);
  if (!model.ok()) return call.Fail(model.status());
  if (parsed->loads) {
    if (const Status status = CheckTask(*model, "embedding"); !status.ok()) {
      return call.Fail(status);
    }
    api::EmbedResponse empty;
    empty.model = request.model;
    if (Unloads(request.text.keep_alive)) {
      if (UnloadNow(call, *model)) call.Ok(print(empty));
      return;
    }
    RequestContext context = call.request->context;
    if (request.text.keep_alive) context.keep_alive = request.text.keep_alive;
    return call.service->LoadModel(
        model->name, context,
        Answer<api::ModelInfo>(call, {},
                               [print, empty](const api::ModelInfo&) { return print(empty); }));
  }
  call.service->Embed(std::move(request), call.request->context,
                      Answer<api::EmbedResponse>(call, {{"inputs", field}}, print));
}

void EmbedAsOllama(const RouteCall& call) {
  const auto body = RequestBody::Parse(call.body);
  if (!body.ok()) return call.Fail(body.status());
  AnswerEmbed(call, ParseOllamaEmbed(body->object(), call.service->options()), "input",
              [request = call.request](const api::EmbedResponse& response) {
                return PrintOllamaEmbed(response, Elapsed(*request));
              });
}

void Embeddings(const RouteCall& call) {
  const auto body = RequestBody::Parse(call.body);
  if (!body.ok()) return call.Fail(body.status());
  AnswerEmbed(call, ParseOllamaEmbeddings(body->object()), "prompt", PrintOllamaEmbeddings);
}

// A request without a prompt: the model is loaded and kept, or let go.
void LoadOnly(const RouteCall& call, const OllamaTextCall& parsed, const api::ModelInfo& model) {
  const auto& keep_alive = parsed.request.keep_alive;
  if (Unloads(keep_alive)) {
    if (UnloadNow(call, model)) call.Ok(PrintOllamaLoaded(parsed, "unload"));
    return;
  }
  RequestContext context = call.request->context;
  if (keep_alive) context.keep_alive = keep_alive;
  const auto owned = std::make_shared<const OllamaTextCall>(parsed);
  call.service->LoadModel(model.name, context,
                          Answer<api::ModelInfo>(call, {}, [owned](const api::ModelInfo&) {
                            return PrintOllamaLoaded(*owned, "load");
                          }));
}

// The model is there, so it is known whether it has a chat template.
void Generate(const RouteCall& call, OllamaTextCall parsed, const api::ModelInfo& model) {
  if (parsed.plain && !model.chat) {
    parsed.request.prompts[0].value = *std::move(parsed.plain);
    parsed.request.parses_reply = false;
  }
  auto printer = NewOllamaPrinter(parsed, call.request->begin);
  AnswerWithText(call, std::move(parsed.request), std::move(printer), std::move(parsed.names));
}

void AnswerText(const RouteCall& call, Expected<OllamaTextCall> parsed) {
  if (!parsed.ok()) return call.Fail(parsed.status());
  api::TextRequest& request = parsed->request;
  const auto model = FindModel(*call.service, &api::Service::TextModel, &request.model);
  if (!model.ok()) return call.Fail(model.status());
  // Before a model is loaded in vain.
  if (const Status status = CheckTask(*model, api::kGenerationTask); !status.ok()) {
    return call.Fail(status);
  }
  if (parsed->loads) return LoadOnly(call, *parsed, *model);
  if (!parsed->plain || model->ready) return Generate(call, *std::move(parsed), *model);
  const auto owned = std::make_shared<OllamaTextCall>(*std::move(parsed));
  call.service->LoadModel(model->name, call.request->context,
                          [call = call.WithoutBody(), owned](Expected<api::ModelInfo> loaded) {
                            if (!loaded.ok()) return call.Fail(loaded.status());
                            Generate(call, std::move(*owned), *loaded);
                          });
}

template <Expected<OllamaTextCall> (*kParse)(const JsonObject& object,
                                             const RequestContext* context)>
void Text(const RouteCall& call) {
  const auto body = RequestBody::Parse(call.body);
  if (!body.ok()) return call.Fail(body.status());
  AnswerText(call, kParse(body->object(), &call.request->context));
}

// The version of Ollama's API that is spoken: the first one with all that these routes have, the
// log-probabilities being the last of it. Clients compare it with what they need.
constexpr std::string_view kOllamaVersion = "0.12.11";

void Tags(const RouteCall& call) { call.Ok(PrintOllamaTags(call.service->Models())); }
void Loaded(const RouteCall& call) { call.Ok(PrintOllamaLoadedModels(call.service->Models())); }
void Version(const RouteCall& call) {
  std::string body;
  JsonWriter json(&body);
  json.BeginObject().Field("version", kOllamaVersion);
  json.Field("penstock", PENSTOCK_VERSION).EndObject();
  call.Ok(std::move(body));
}

void Show(const RouteCall& call) {
  const auto body = RequestBody::Parse(call.body);
  if (!body.ok()) return call.Fail(body.status());
  auto name = OllamaModelOf(body->object());
  if (!name.ok()) return call.Fail(name.status());
  const auto model = FindModel(*call.service, &api::Service::Model, &*name);
  if (!model.ok()) return call.Fail(model.status());
  call.Ok(PrintOllamaShow(*model));
}

constexpr Route kOllamaRoutes[] = {
    {"POST", "/api/embed", kOllamaErrors, EmbedAsOllama,
     About("Embeddings, as Ollama has them", "OllamaEmbedRequest", "OllamaEmbeddings")},
    {"POST", "/api/embeddings", kOllamaErrors, Embeddings,
     About("The embedding of one text, as older clients of Ollama ask for it",
           "OllamaEmbeddingRequest", "OllamaEmbedding")},
    {"POST", "/api/generate", kOllamaErrors, Text<ParseOllamaGenerate>,
     About("A text, as Ollama has it; in lines unless \"stream\" is false", "OllamaGenerateRequest",
           "OllamaText")},
    {"POST", "/api/chat", kOllamaErrors, Text<ParseOllamaChat>,
     About("The next message of a chat, as Ollama has it", "OllamaChatRequest", "OllamaText")},
    {"GET", "/api/tags", kOllamaErrors, Tags,
     About("The models for text and embeddings by each of their names, as Ollama has it", nullptr,
           "OllamaModels")},
    {"POST", "/api/show", kOllamaErrors, Show,
     About("One model, as Ollama has it", "ModelCall", "OllamaModel")},
    {"GET", "/api/ps", kOllamaErrors, Loaded,
     About("The models that are loaded, as Ollama has it", nullptr, "LoadedModels")},
    {"GET", "/api/version", kOllamaErrors, Version,
     About("The version of Ollama's API that is spoken, and that of Penstock", nullptr,
           "OllamaVersion")},
};

}  // namespace

std::span<const serving::Route> OllamaRoutes() { return kOllamaRoutes; }

}  // namespace penstock::dialects

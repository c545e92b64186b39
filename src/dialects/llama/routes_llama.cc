// The routes that llama.cpp's server alone has. Its form of /tokenize is in routes_tei.cc, and
// /apply-template in routes_chat.cc.
#include "dialects/llama/llama.h"
#include "dialects/shared/answer.h"
#include "dialects/shared/event_stream.h"
#include "dialects/shared/query.h"
#include "dialects/shared/rows.h"
#include "telemetry/snapshot.h"

namespace penstock::dialects {
namespace {

using serving::About;
using serving::Route;
using serving::RouteCall;

void Complete(const RouteCall& call, const JsonObject& object) {
  auto parsed = ParseLlamaCompletion(object, call.service->options());
  if (!parsed.ok()) return call.Fail(parsed.status());
  auto printer = NewLlamaPrinter(*parsed);
  AnswerWithText(call, std::move(parsed->request), std::move(printer), std::move(parsed->names));
}

void Infill(const RouteCall& call, const JsonObject& object) {
  auto parsed = ParseLlamaInfill(object);
  if (!parsed.ok()) return call.Fail(parsed.status());
  auto printer = NewLlamaPrinter(*parsed);
  AnswerWithText(call, std::move(parsed->request), std::move(printer), std::move(parsed->names));
}

void Detokenize(const RouteCall& call, const JsonObject& object) {
  auto parsed = ParseDetokenize(object, call.service->options());
  if (!parsed.ok()) return call.Fail(parsed.status());
  call.service->Decode(*std::move(parsed), call.request->context,
                       Answer<api::DecodeResponse>(call, {{"inputs", "tokens"}}, PrintDetokenized));
}

// The model of the query, or the first that generates text. What is known of a model only once it
// is loaded is 0 or "" before.
Expected<api::ModelInfo> FindTextModel(const RouteCall& call) {
  PENSTOCK_ASSIGN_OR_RETURN(api::ModelInfo model,
                            call.service->TextModel(QueryValue(call.request->target, "model")));
  if (model.task.empty() || model.task == api::kGenerationTask) return model;
  return Status::InvalidArgument(
      "model '" + model.name + "' is for " + model.task + ", and generates no text", "model");
}

void Props(const RouteCall& call) {
  const auto model = FindTextModel(call);
  if (!model.ok()) return call.Fail(model.status());
  call.Ok(PrintLlamaProps(*model));
}

void Slots(const RouteCall& call) {
  const auto model = FindTextModel(call);
  if (!model.ok()) return call.Fail(model.status());
  int32_t running = 0;
  for (const telemetry::Snapshot::Model& each : call.service->TakeSnapshot().models) {
    if (each.name == model->name && each.text) running = each.text->running;
  }
  const bool wants_one = QueryValue(call.request->target, "fail_on_no_slot") == "1";
  if (wants_one && running >= model->sequences_max) {
    return call.Fail({StatusCode::kUnavailable, "no slot is free"});
  }
  call.Ok(PrintLlamaSlots(*model, running));
}

constexpr Route kLlamaRoutes[] = {
    {"POST", "/completion", kOpenAiErrors, WithObject<Complete>,
     About("A text that goes on after another, as llama.cpp's server has it", "LlamaRequest",
           "LlamaText", "LlamaEvent")},
    {"POST", "/infill", kOpenAiErrors, WithObject<Infill>,
     About("The text between two others, as llama.cpp's server has it", "LlamaInfillRequest",
           "LlamaText", "LlamaEvent")},
    {"POST", "/detokenize", kOpenAiErrors, WithObject<Detokenize>,
     About("The text of token ids, as llama.cpp's server and vLLM have it", "DetokenizeRequest",
           "Detokenized")},
    {"GET", "/props", kOpenAiErrors, Props,
     About("A model that generates text, as llama.cpp's server has it", nullptr, "LlamaProps")
         .Query("Model")},
    {"GET", "/slots", kOpenAiErrors, Slots,
     About("The places for texts of a model, as llama.cpp's server has it", nullptr, "LlamaSlots")
         .Query("Model")},
};

}  // namespace

std::span<const serving::Route> LlamaRoutes() { return kLlamaRoutes; }

}  // namespace penstock::dialects

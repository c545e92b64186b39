#include "plan/served_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "json/json.h"
#include "load/prometheus_text.h"
#include "metrics/metrics.h"
#include "metrics/stages.h"

namespace penstock::plan {
namespace {

constexpr size_t kSaidMax = 300;  // of a server's error
constexpr int64_t kMost = std::numeric_limits<int32_t>::max();

Expected<int32_t> Number(const JsonObject& object, const char* key) {
  PENSTOCK_ASSIGN_OR_RETURN(const int64_t number, object.GetIntOr(key, 0, 0, kMost));
  return static_cast<int32_t>(number);
}

std::string IdOf(const JsonObject& model) {
  std::string id;
  model["id"].Get(&id);
  return id;
}

bool HasName(const JsonObject& model, const std::string& name) {
  if (name.empty() || IdOf(model) == name) return true;
  const auto aliases = model.GetStringsOrEmpty("aliases");
  return aliases.ok() && std::ranges::find(*aliases, name) != aliases->end();
}

// What the list of models says.
Expected<ServedModel> ReadListed(const std::string& body, const std::string& name) {
  PENSTOCK_ASSIGN_OR_RETURN(const JsonDocument document, JsonDocument::Parse(body));
  PENSTOCK_ASSIGN_OR_RETURN(const JsonObject object, document.Object());
  JsonArray all;
  object["data"].Get(&all);
  JsonObject found;
  std::string names;
  size_t count = 0;
  for (const JsonElement& element : all) {
    JsonObject model;
    if (!element.Get(&model)) continue;
    names += (names.empty() ? "" : ", ") + IdOf(model);
    if (!HasName(model, name)) continue;
    ++count;
    found = model;
  }
  if (count == 0) {
    return Status::NotFound(fmt::format("the server has no model '{}'; it has {}", name, names));
  }
  if (count > 1) {
    return Status::InvalidArgument("the server has several models; name one of " + names, "model");
  }
  ServedModel served;
  PENSTOCK_ASSIGN_OR_RETURN(served.name, found.GetString("id"));
  PENSTOCK_ASSIGN_OR_RETURN(served.task, found.GetString("task"));
  PENSTOCK_ASSIGN_OR_RETURN(served.length_max, Number(found, "max_tokens"));
  PENSTOCK_ASSIGN_OR_RETURN(served.batch_tokens, Number(found, "max_batch_tokens"));
  PENSTOCK_ASSIGN_OR_RETURN(served.context, Number(found, "context_length"));
  JsonElement chat = found["chat"];
  chat.Get(&served.chat);
  return served;
}

double Total(const std::string& text, const char* name, const std::string& model) {
  return load::SumOfSeries(text, name, {metrics::MetricLabel("model", model)});
}

// One request: a model is loaded by the first.
Status AskOnce(const load::HttpTarget& target, const ServedModel& model) {
  std::string body;
  JsonWriter json(&body);
  json.BeginObject().Field("model", model.name);
  const char* path = "/v1/completions";
  if (model.task == "generation") {
    json.Field("prompt", "a").Field("max_tokens", 1);
  } else if (model.route() == load::LoadRoute::kRerank) {
    path = "/v1/rerank";
    json.Field("query", "a").Key("documents").BeginArray().String("a").EndArray();
  } else {
    path = model.route() == load::LoadRoute::kClassify ? "/v1/classify" : "/v1/embeddings";
    json.Field("input", "a");
  }
  json.EndObject();
  PENSTOCK_ASSIGN_OR_RETURN(const load::HttpAnswer answer, load::HttpPostJson(target, path, body));
  if (answer.status == 200) return Status::Ok();
  return Status(StatusCode::kUnavailable,
                fmt::format("POST {}{}: status {}: {}", UrlOf(target), path, answer.status,
                            answer.body.substr(0, kSaidMax)));
}

}  // namespace

Expected<ServedModel> ServedModel::Find(const load::HttpTarget& target, const std::string& name) {
  PENSTOCK_ASSIGN_OR_RETURN(std::string list, load::HttpGet(target, "/v1/models"));
  PENSTOCK_ASSIGN_OR_RETURN(ServedModel model, ReadListed(list, name));
  PENSTOCK_RETURN_IF_ERROR(AskOnce(target, model));
  PENSTOCK_ASSIGN_OR_RETURN(list, load::HttpGet(target, "/v1/models"));
  PENSTOCK_ASSIGN_OR_RETURN(model, ReadListed(list, model.name));
  if (!model.generates() && model.batch_tokens == 0) {
    return Status::Unsupported("model '" + model.name + "' takes neither texts nor prompts");
  }
  if (!model.generates()) return model;
  PENSTOCK_ASSIGN_OR_RETURN(const std::string text, load::HttpGet(target, "/metrics"));
  model.cache_blocks = static_cast<int32_t>(Total(text, "penstock_kv_blocks", model.name));
  // llama.cpp's route is the one that says how many texts run at once.
  model.sequences = 64;
  const auto props = load::HttpGet(target, "/props");
  if (!props.ok()) return model;
  const auto document = JsonDocument::Parse(*props);
  const auto object = document.ok() ? document->Object() : document.status();
  if (object.ok()) {
    PENSTOCK_ASSIGN_OR_RETURN(const int32_t slots, Number(*object, "total_slots"));
    if (slots > 0) model.sequences = slots;
  }
  return model;
}

load::LoadRoute ServedModel::route() const {
  if (task == "reranking") return load::LoadRoute::kRerank;
  return task == "classification" ? load::LoadRoute::kClassify : load::LoadRoute::kOpenAiEmbeddings;
}

Expected<BatchTotals> BatchTotals::Read(const load::HttpTarget& target, const std::string& model) {
  PENSTOCK_ASSIGN_OR_RETURN(const std::string text, load::HttpGet(target, "/metrics"));
  double inside_s = 0;
  for (const metrics::Stage stage :
       {metrics::Stage::kQueue, metrics::Stage::kForm, metrics::Stage::kForward}) {
    inside_s += load::SumOfSeries(text, "penstock_stage_duration_seconds_sum",
                                  {metrics::MetricLabel("stage", metrics::StageName(stage))});
  }
  return BatchTotals{Total(text, "penstock_batch_duration_seconds_count", model),
                     Total(text, "penstock_batch_sequences_sum", model),
                     Total(text, "penstock_batch_tokens_sum", model),
                     Total(text, "penstock_batch_duration_seconds_sum", model), inside_s};
}

Expected<StepTotals> StepTotals::Read(const load::HttpTarget& target, const std::string& model) {
  PENSTOCK_ASSIGN_OR_RETURN(const std::string text, load::HttpGet(target, "/metrics"));
  return StepTotals{Total(text, "penstock_generate_step_duration_seconds_count", model),
                    Total(text, "penstock_generate_step_rows_sum", model),
                    Total(text, "penstock_generate_step_duration_seconds_sum", model)};
}

}  // namespace penstock::plan

#include "api/request_checks.h"

#include <fmt/format.h>

namespace penstock::api {
namespace {

bool Offers(families::ModelTask task, Behaviour behaviour) {
  switch (behaviour) {
    case Behaviour::kEmbed:
    case Behaviour::kEmbedAll:
    case Behaviour::kSimilarity:
      return task == families::ModelTask::kEmbedding;
    case Behaviour::kRerank:
      return task == families::ModelTask::kReranking;
    case Behaviour::kClassify:
      return task == families::ModelTask::kClassification ||
             task == families::ModelTask::kReranking;
    case Behaviour::kTokenize:
    case Behaviour::kDecode:
      return true;
    case Behaviour::kGenerate:
    case Behaviour::kRender:
    case Behaviour::kInfer:
      return false;
  }
  return false;
}

}  // namespace

const char* OfferedBy(families::ModelTask task) {
  switch (task) {
    case families::ModelTask::kEmbedding:
      return "embed, embed_all and similarity";
    case families::ModelTask::kReranking:
      return "rerank and classify";
    case families::ModelTask::kClassification:
      return "classify";
  }
  return "nothing";
}

std::string PurposeText(const engine::ModelPurpose& purpose) {
  switch (purpose.capability) {
    case engine::Capability::kGenerate:
      return "generates text: it offers chat and completions";
    case engine::Capability::kTensors:
      return "takes and gives tensors: it offers infer (/v2/models/NAME/infer)";
    case engine::Capability::kEncode:
      break;
  }
  return fmt::format("is for {}: it offers {}", families::ModelTaskName(purpose.task),
                     OfferedBy(purpose.task));
}

Status CannotInfer(const registry::Registry& registry, const std::string& name) {
  const auto known = registry.Look(name, {});
  const auto other = registry.Look("", {.capability = engine::Capability::kTensors});
  return Status::InvalidArgument(
      fmt::format("model '{}' {}, and takes no tensors{}", known ? known->name : name,
                  known ? PurposeText(known->purpose) : "does something else",
                  other ? fmt::format("; '{}' does", other->name) : ""),
      "model");
}

Status CheckTask(const std::string& model, families::ModelTask task, Behaviour behaviour) {
  if (Offers(task, behaviour)) return Status::Ok();
  return {StatusCode::kUnprocessable,
          fmt::format("model '{}' is for {}: it offers {}, not {}", model,
                      families::ModelTaskName(task), OfferedBy(task), BehaviourName(behaviour)),
          "model"};
}

Status CheckCount(size_t count, const char* field, const ServiceOptions& limits) {
  if (count == 0) return Status::InvalidArgument(fmt::format("{} is empty", field), field);
  if (count > static_cast<size_t>(limits.inputs_per_request)) {
    return {StatusCode::kPayloadTooLarge,
            fmt::format("{} has {} entries; the limit is {} (--max-client-batch-size)", field,
                        count, limits.inputs_per_request),
            field};
  }
  return Status::Ok();
}

Status CheckBytes(std::string_view text, const std::string& field, const ServiceOptions& limits) {
  if (text.size() <= static_cast<size_t>(limits.input_bytes)) return Status::Ok();
  return {StatusCode::kPayloadTooLarge,
          fmt::format("{} has {} bytes; the limit is {} (--max-input-bytes)", field, text.size(),
                      limits.input_bytes),
          field};
}

Expected<std::string> PromptByName(const engine::EncoderEngine& engine, const std::string& name) {
  const auto& prompts = engine.folder().prompts;
  const auto found = prompts.find(name);
  if (found != prompts.end()) return found->second;
  std::string known;
  for (const auto& [prompt_name, text] : prompts) {
    known += known.empty() ? "" : ", ";
    known += prompt_name;
  }
  return Status::InvalidArgument(fmt::format("model '{}' has no prompt named '{:.100}'; it has {}",
                                             engine.name(), name, known.empty() ? "none" : known),
                                 "prompt_name");
}

namespace {

// The prompt and the field that asked for it ("" = the model's own default).
struct Choice {
  std::string prompt;
  const char* field = "";
};

Expected<Choice> ChoosePrompt(const engine::EncoderEngine& engine, const TextOptions& options) {
  if (options.prompt && options.prompt_name) {
    return Status::InvalidArgument("prompt and prompt_name exclude each other", "prompt_name");
  }
  if (options.prompt) return Choice{*options.prompt, "prompt"};
  if (options.prompt_name) {
    PENSTOCK_ASSIGN_OR_RETURN(auto prompt, PromptByName(engine, *options.prompt_name));
    return Choice{std::move(prompt), "prompt_name"};
  }
  const auto& prompts = engine.folder().prompts;
  const auto try_name = [&](const char* name) { return prompts.find(name); };
  auto found = prompts.end();
  if (options.input_type == InputType::kQuery) found = try_name("query");
  if (options.input_type == InputType::kDocument) {
    found = try_name("document");
    if (found == prompts.end()) found = try_name("passage");
  }
  if (found != prompts.end()) return Choice{found->second, "input_type"};
  const std::string& by_default = engine.folder().default_prompt_name;
  if (by_default.empty()) return Choice{};
  PENSTOCK_ASSIGN_OR_RETURN(auto prompt, PromptByName(engine, by_default));
  return Choice{std::move(prompt), ""};
}

}  // namespace

Expected<std::string> ResolvePrompt(const engine::EncoderEngine& engine, const TextOptions& options,
                                    bool with_ids, const ServiceOptions& limits) {
  PENSTOCK_ASSIGN_OR_RETURN(auto choice, ChoosePrompt(engine, options));
  PENSTOCK_RETURN_IF_ERROR(CheckBytes(choice.prompt, "prompt", limits));
  if (choice.prompt.empty()) return std::string();
  if (with_ids && (options.prompt || options.prompt_name)) {
    return Status::InvalidArgument(
        fmt::format("{} cannot be put before inputs that are token ids", choice.field),
        choice.field);
  }
  return std::move(choice.prompt);
}

Status CheckNoPrompt(const TextOptions& options, Behaviour behaviour) {
  const char* field = options.prompt ? "prompt" : options.prompt_name ? "prompt_name" : nullptr;
  if (field == nullptr) return Status::Ok();
  return Status::InvalidArgument(
      fmt::format("{} takes no {}: prompts are for embeddings", BehaviourName(behaviour), field),
      field);
}

}  // namespace penstock::api

// A served engine as the model of a request for text.
#include <fmt/format.h>

#include "api/generate.h"
#include "api/request_checks.h"
#include "reply/reply_format.h"

namespace penstock::api {
namespace {

// Whether the template has a place for what the conversation brings. Without it the model would
// never see the tools, and the client would wait for calls in vain.
Status CheckPlaces(const ChatPrompt& chat, const std::string& source, const std::string& model) {
  if (!chat.tools.is_null() && !reply::TakesTools(source)) {
    return Status::InvalidArgument(
        fmt::format("model '{}' does not support tools: its chat template has no place for them",
                    model),
        "tools");
  }
  if (!chat.thinking_field.empty() && !reply::TakesThinking(source)) {
    return Status::InvalidArgument(
        fmt::format("model '{}' does not support thinking, which '{}' asks for: its chat template "
                    "has no place for it",
                    model, chat.thinking_field),
        chat.thinking_field);
  }
  return Status::Ok();
}

class EngineModel final : public GenerateModel {
 public:
  explicit EngineModel(registry::Lease<engine::DecoderEngine> engine)
      : engine_(std::move(engine)) {}

  const std::string& name() const override { return engine_->name(); }
  const text::Tokenizer& tokenizer() const override { return engine_->tokenizer(); }
  int32_t context() const override { return engine_->context(); }
  const sample::GenerationDefaults& defaults() const override { return engine_->model().defaults; }

  Expected<std::string> Render(ChatPrompt chat, const RequestContext& request) const override {
    const Expected<chat::ChatTemplate>& made = TemplateOf(chat);
    if (!made.ok()) {
      return Status::InvalidArgument(
          made.status().message() + " when it is served, and /v1/completions needs none",
          "messages");
    }
    PENSTOCK_RETURN_IF_ERROR(CheckPlaces(chat, made->source(), engine_->name()));
    chat::ChatInput input;
    input.messages = std::move(chat.messages);
    if (!chat.tools.is_null()) input.tools = std::move(chat.tools);
    if (!chat.kwargs.is_null()) input.variables = std::move(chat.kwargs);
    input.add_generation_prompt = chat.add_generation_prompt;
    input.continue_final_message = chat.continue_final_message;
    input.special_tokens = engine_->model().special_tokens;
    return made->Render(input, &request);
  }

  reply::ReplyFormat reply_format(const ChatPrompt& chat) const override {
    const Expected<chat::ChatTemplate>& made = TemplateOf(chat);
    return made.ok() ? reply::DetectReplyFormat(made->source()) : reply::ReplyFormat();
  }

  void GetGrammar(grammar::GrammarSpec spec, std::function<Status()> wanted,
                  grammar::GrammarCache::Done done) override {
    engine_->grammars().Get(std::move(spec), std::move(wanted), std::move(done));
  }

  Status Submit(std::unique_ptr<generate::DecodeJob> job) override {
    return engine_->scheduler().Submit(std::move(job));
  }

 private:
  const Expected<chat::ChatTemplate>& TemplateOf(const ChatPrompt& chat) const {
    return engine_->chat_template(!chat.tools.is_null());
  }

  const registry::Lease<engine::DecoderEngine> engine_;
};

}  // namespace

Expected<std::shared_ptr<GenerateModel>> FindGenerateModel(const registry::Registry& registry,
                                                           const std::string& name) {
  auto found = registry.Find<engine::DecoderEngine>(name);
  if (found.ok()) return std::shared_ptr<GenerateModel>(new EngineModel(*std::move(found)));
  if (found.code() != StatusCode::kUnsupported) return found.status();
  const auto known = registry.Look(name, {});
  if (!known || known->purpose.capability == engine::Capability::kGenerate) return found.status();
  const auto other = registry.Look("", {.capability = engine::Capability::kGenerate});
  return Status::InvalidArgument(fmt::format("model '{}' {}, and generates no text{}", known->name,
                                             PurposeText(known->purpose),
                                             other ? fmt::format("; '{}' does", other->name) : ""),
                                 "model");
}

Status CannotEncode(const registry::Registry& registry, const std::string& name,
                    Behaviour behaviour, const registry::ModelUse& use) {
  // Without a name it is the first model, whatever it does.
  auto known = registry.Look(name, {});
  if (!known) known = registry.Look(name, {.capability = engine::Capability::kGenerate});
  if (!known) known = registry.Look(name, {.capability = engine::Capability::kTensors});
  const auto other = registry.Look("", use);
  return Status::InvalidArgument(
      fmt::format("model '{}' {}, not {}{}", known ? known->name : name,
                  known ? PurposeText(known->purpose) : "does something else",
                  BehaviourName(behaviour), other ? fmt::format("; '{}' does", other->name) : ""),
      "model");
}

}  // namespace penstock::api

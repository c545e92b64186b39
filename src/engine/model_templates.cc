#include "engine/model_templates.h"

#include <fmt/format.h>

#include <utility>

#include "base/regular_file.h"
#include "log/log.h"

namespace penstock::engine {
namespace {

std::string NamesOf(const families::ChatTemplates& templates) {
  std::string names;
  for (const auto& [name, source] : templates.by_name) names += (names.empty() ? "" : ", ") + name;
  return names;
}

Expected<chat::ChatTemplate> ParseAsked(std::string source, const std::string& given) {
  auto parsed = chat::ChatTemplate::Parse(std::move(source));
  if (!parsed.ok()) return parsed.status().Annotate("chat template '" + given + "'");
  return parsed;
}

Expected<chat::ChatTemplate> Asked(const families::ChatTemplates& own, const std::string& given,
                                   const std::string& model) {
  if (const std::string* const source = own.Choose(given, false)) {
    return ParseAsked(*source, given);
  }
  auto source = ReadRegularFile(given, chat::ChatTemplate::kSourceBytesMax);
  if (source.ok()) return ParseAsked(*std::move(source), given);
  const std::string names = NamesOf(own);
  return Status(
      source.status().code(),
      fmt::format("--chat-template {}: no such template of model '{}', which has {}; and "
                  "as a file: {}",
                  given, model, names.empty() ? "none" : names, source.status().message()),
      "chat-template");
}

Expected<chat::ChatTemplate> ParseOwn(const std::string& source, const std::string& model) {
  auto parsed = chat::ChatTemplate::Parse(source);
  if (parsed.ok()) return parsed;
  LogWarn("{}: no chat: {}", model, parsed.status().message());
  return Status::Unsupported(fmt::format("the chat template of model '{}' cannot be used: {}; "
                                         "--chat-template FILE gives it another",
                                         model, parsed.status().message()),
                             "messages");
}

Expected<chat::ChatTemplate> Default(const families::ChatTemplates& own, const std::string& model) {
  if (const std::string* const source = own.Choose({}, false)) return ParseOwn(*source, model);
  if (own.by_name.empty()) {
    return Status::Unsupported(
        fmt::format("model '{}' has no chat template; --chat-template FILE gives it one", model),
        "messages");
  }
  return Status::Unsupported(
      fmt::format("model '{}' has no default chat template; it has {}, and --chat-template NAME "
                  "chooses one",
                  model, NamesOf(own)),
      "messages");
}

}  // namespace

Expected<ModelTemplates> ModelTemplates::Make(const families::ChatTemplates& own,
                                              const std::string& given, const std::string& model) {
  if (!given.empty()) {
    PENSTOCK_ASSIGN_OR_RETURN(chat::ChatTemplate asked, Asked(own, given, model));
    return ModelTemplates(std::move(asked));
  }
  ModelTemplates made(Default(own, model));
  const std::string* const for_tools = own.Choose({}, true);
  if (for_tools != own.Choose({}, false)) made.for_tools_ = ParseOwn(*for_tools, model);
  return made;
}

}  // namespace penstock::engine

// The chat templates in a model's files, by name, as text (chat/ parses them).
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>

#include "base/status.h"
#include "files/gguf_metadata.h"

namespace penstock::families {

struct ChatTemplates {
  static constexpr size_t kBytesMax = 4 << 20;  // of each
  static constexpr size_t kCountMax = 64;

  // Of a Hugging Face folder. chat_template.jinja ("default") and additional_chat_templates/*.jinja
  // go before the chat_template of tokenizer_config.json, which is a text or a list of names with
  // templates, and that before the one of chat_template.json, as transformers reads them. A folder
  // without any gives none. Errors name the file: kInvalidArgument: malformed, or past a limit.
  static Expected<ChatTemplates> OfFolder(const std::string& path);
  // Keys tokenizer.chat_template ("default") and tokenizer.chat_template.NAME.
  static Expected<ChatTemplates> OfGguf(const files::GgufMetadata& metadata);

  // The template of this name. An empty name means, as in transformers, "tool_use" where there are
  // tools and such a template, else "default". nullptr: no template has the name.
  const std::string* Choose(std::string_view name, bool has_tools) const;

  std::map<std::string, std::string, std::less<>> by_name;
};

}  // namespace penstock::families

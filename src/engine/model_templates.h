// ModelTemplates: the chat templates that a model is used with, parsed: its own, or the one that
// --chat-template chooses. What is wrong with a template is known when the model is loaded.
#pragma once

#include <optional>
#include <string>

#include "base/status.h"
#include "chat/chat_template.h"
#include "families/chat_template_files.h"

namespace penstock::engine {

// Plain values; any thread.
class ModelTemplates {
 public:
  // `own`: those of the model's files. `given`: "", the name of one of them, or the path of a file
  // with a template; a name goes first, so that a file of that name is "./name". `model` is for
  // messages. A template that was not asked for and cannot be parsed is For's error, since such a
  // model still completes texts. One that was asked for is an error here: kNotFound: `given` is
  // neither; kInvalidArgument or kUnsupported: it cannot be parsed, and the message says why.
  static Expected<ModelTemplates> Make(const families::ChatTemplates& own, const std::string& given,
                                       const std::string& model);

  // The template of a conversation: of those of the model "tool_use" where there are tools and such
  // a template, else "default". kUnsupported, field messages: the model has no template, or it
  // failed to parse.
  const Expected<chat::ChatTemplate>& For(bool has_tools) const {
    return has_tools && for_tools_ ? *for_tools_ : for_all_;
  }

 private:
  explicit ModelTemplates(Expected<chat::ChatTemplate> for_all) : for_all_(std::move(for_all)) {}

  Expected<chat::ChatTemplate> for_all_;
  std::optional<Expected<chat::ChatTemplate>> for_tools_;  // where it is another one
};

}  // namespace penstock::engine

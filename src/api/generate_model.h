// GenerateModel: what the generation of text needs of a model, be it a served engine or that of a
// test. Any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "api/generate_types.h"
#include "base/status.h"
#include "generate/decode_job.h"
#include "grammar/grammar_cache.h"
#include "reply/reply_format.h"
#include "sample/generation_defaults.h"
#include "text/tokenizer.h"

namespace penstock::api {

class GenerateModel {
 public:
  virtual ~GenerateModel() = default;
  virtual const std::string& name() const = 0;
  virtual const text::Tokenizer& tokenizer() const = 0;
  virtual int32_t context() const = 0;  // tokens of prompt and text together
  virtual const sample::GenerationDefaults& defaults() const = 0;
  // The chat template's text of a conversation, which goes as soon as there is a text. The
  // rendering takes its memory of the request's. kInvalidArgument: the model has no template, or
  // the template refuses the conversation.
  virtual Expected<std::string> Render(ChatPrompt chat, const RequestContext& request) const = 0;
  // How the model writes thinking and calls of tools; by the template of that conversation.
  virtual reply::ReplyFormat reply_format(const ChatPrompt& chat) const = 0;
  // As GrammarCache::Get, for the model's vocabulary.
  virtual void GetGrammar(grammar::GrammarSpec spec, std::function<Status()> wanted,
                          grammar::GrammarCache::Done done) = 0;
  // As DecodeScheduler::Submit.
  virtual Status Submit(std::unique_ptr<generate::DecodeJob> job) = 0;
};

}  // namespace penstock::api

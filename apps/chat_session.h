// One conversation with a model in this process: replies are made by a decode scheduler, whose
// cache of prefixes keeps what was said.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "chat/chat_template.h"
#include "chat_signals.h"
#include "conversation.h"
#include "generate/decode_scheduler.h"
#include "generate/text_model.h"
#include "reply/reply_format.h"
#include "reply/reply_parser.h"

namespace penstock::cli {

class ChatSession final : public Conversation {
 public:
  // `model`, `metrics` and `signals` must outlive it. `variables`: an object for the template.
  static Expected<std::unique_ptr<ChatSession>> Make(const generate::TextModel* model,
                                                     chat::ChatTemplate made,
                                                     chat::JsonValue variables,
                                                     metrics::Metrics* metrics,
                                                     ChatSignals* signals);

  sample::SamplingOptions& sampling() { return sampling_; }
  Status Set(const std::string& given) override;
  std::string Settings() const override;

 protected:
  Expected<ChatReply> MakeReply(const OnDelta& on_delta) override;

 private:
  class Sink;
  ChatSession(const generate::TextModel* model, chat::ChatTemplate made, chat::JsonValue variables,
              ChatSignals* signals);
  Expected<std::string> Render() const;
  // Hands the reply's text on until it has ended.
  Status Follow(Sink* sink, CancelToken* cancel, reply::ReplyParser* parser,
                const OnDelta& on_delta, ChatReply* reply);

  const generate::TextModel* const model_;
  const chat::ChatTemplate template_;
  const chat::JsonValue variables_;
  ChatSignals* const signals_;
  reply::ReplyFormat format_;
  std::vector<int32_t> shown_;  // special tokens that the parser of replies reads
  std::unique_ptr<generate::DecodeScheduler> scheduler_;
  sample::SamplingOptions sampling_;
};

}  // namespace penstock::cli

#include "chat_session.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <utility>

#include "base/kv_block.h"
#include "chat_message.h"
#include "engine/decoder_engine.h"
#include "generate/text_stream.h"

namespace penstock::cli {
namespace {

// Contexts that the cache has blocks for: earlier versions of a turn stay cached beside it.
constexpr int32_t kContexts = 2;

}  // namespace

// Takes a reply from the step thread.
class ChatSession::Sink final : public generate::DecodeSink {
 public:
  Sink() : came_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) { PENSTOCK_CHECK(came_ >= 0); }
  ~Sink() override { close(came_); }

  void OnToken(int32_t, const generate::GeneratedToken&, std::string_view text) noexcept override {
    if (text.empty()) return;
    const std::lock_guard lock(mutex_);
    text_ += text;
    Wake();
  }
  void OnSampleEnd(int32_t, generate::FinishReason reason, std::string_view text,
                   int) noexcept override {
    const std::lock_guard lock(mutex_);
    text_ += text;
    finish_ = reason;
  }
  void OnEnd(const Status& status, const generate::DecodeUsage& usage) noexcept override {
    const std::lock_guard lock(mutex_);
    status_ = status;
    usage_ = usage;
    ended_ = true;
    Wake();
  }

  // Readable once Take has something to give.
  int fd() const { return came_; }
  // The text that came; true: the reply has ended.
  bool Take(std::string* text, ChatReply* reply, Status* status) {
    const std::lock_guard lock(mutex_);
    uint64_t ignored = 0;
    (void)!read(came_, &ignored, sizeof ignored);
    *text = std::exchange(text_, {});
    reply->finish = finish_;
    reply->usage = usage_;
    *status = status_;
    return ended_;
  }

 private:
  void Wake() const {
    const uint64_t one = 1;
    PENSTOCK_CHECK(write(came_, &one, sizeof one) == sizeof one);
  }

  const int came_;  // eventfd
  std::mutex mutex_;
  std::string text_;
  generate::FinishReason finish_ = generate::FinishReason::kStop;
  generate::DecodeUsage usage_;
  Status status_;
  bool ended_ = false;
};

ChatSession::ChatSession(const generate::TextModel* model, chat::ChatTemplate made,
                         chat::JsonValue variables, ChatSignals* signals)
    : model_(model),
      template_(std::move(made)),
      variables_(std::move(variables)),
      signals_(signals),
      format_(reply::DetectReplyFormat(template_.source())) {
  format_.tools = reply::ToolForm::kNone;  // `penstock chat` offers no tools
  for (const std::string& marker : reply::MarkerTokens(format_)) {
    const int32_t id = model_->tokenizer->TokenToId(marker);
    if (id >= 0 && model_->tokenizer->IsSpecial(id)) shown_.push_back(id);
  }
}

Expected<std::unique_ptr<ChatSession>> ChatSession::Make(const generate::TextModel* model,
                                                         chat::ChatTemplate made,
                                                         chat::JsonValue variables,
                                                         metrics::Metrics* metrics,
                                                         ChatSignals* signals) {
  std::unique_ptr<ChatSession> session(
      new ChatSession(model, std::move(made), std::move(variables), signals));
  generate::DecodeSchedulerOptions options;
  options.sequences_max = 1;
  options.cache_blocks = {std::min(kContexts * BlocksOfTokens(model->context()),
                                   engine::FitCacheBlocks(*model, options.sequences_max)[0])};
  // One text is never beside another, so that costs decide nothing and are not measured.
  options.cost = {.fixed_s = 1e-3, .row_s = 1e-5, .work_s = 0};
  PENSTOCK_ASSIGN_OR_RETURN(session->scheduler_,
                            generate::DecodeScheduler::Make(model, options, metrics));
  return session;
}

Expected<std::string> ChatSession::Render() const {
  chat::ChatInput input;
  input.messages = AllMessages();
  input.variables = variables_;
  input.add_generation_prompt = true;
  input.special_tokens = model_->special_tokens;
  return template_.Render(input);
}

Status ChatSession::Set(const std::string& given) {
  return SetChatOption(given, static_cast<int32_t>(generate::VocabularyOf(*model_)), &sampling_);
}

std::string ChatSession::Settings() const { return ListChatOptions(sampling_); }

Expected<ChatReply> ChatSession::MakeReply(const OnDelta& on_delta) {
  PENSTOCK_ASSIGN_OR_RETURN(const std::string prompt, Render());
  text::EncodeOptions encode;
  encode.add_special_tokens = false;
  text::Encoding encoding;
  PENSTOCK_RETURN_IF_ERROR(model_->tokenizer->Encode(prompt, encode, &encoding));
  const size_t tokens = encoding.ids.size();
  const auto context = static_cast<size_t>(model_->context());
  if (tokens >= context) {
    return Status::InvalidArgument(
        fmt::format("the conversation has {} tokens with this message; the context holds {}, the "
                    "reply included. /reset begins a new one; a larger --context may help",
                    tokens, context));
  }
  auto job = std::make_unique<generate::DecodeJob>();
  job->prompt = std::move(encoding.ids);
  job->sampling = sampling_;
  job->shown = shown_;
  if (job->sampling.seed) *job->sampling.seed += retries();
  // Cut to the room that is left; a reply that reaches the end of the context says so.
  auto& most = job->sampling.max_tokens;
  if (most && tokens + static_cast<size_t>(*most) > context) most.reset();
  const auto cancel = std::make_shared<CancelToken>();
  const auto sink = std::make_shared<Sink>();
  job->context.cancel = cancel;
  job->sink = sink;
  reply::ReplyOptions options;
  options.format = format_;
  options.format.begins_thinking = reply::PromptOpensThinking(format_, prompt);
  reply::ReplyParser parser(options);
  PENSTOCK_RETURN_IF_ERROR(scheduler_->Submit(std::move(job)));
  ChatReply reply;
  PENSTOCK_RETURN_IF_ERROR(Follow(sink.get(), cancel.get(), &parser, on_delta, &reply));
  return reply;
}

Status ChatSession::Follow(Sink* sink, CancelToken* cancel, reply::ReplyParser* parser,
                           const OnDelta& on_delta, ChatReply* reply) {
  std::string content, reasoning, text;
  std::vector<reply::ReplyDelta> deltas;
  Status status;
  std::array<pollfd, 2> polled = {{{sink->fd(), POLLIN, 0}, {signals_->fd(), POLLIN, 0}}};
  for (bool ended = false; !ended;) {
    if (poll(polled.data(), polled.size(), -1) <= 0) continue;
    if (polled[1].revents != 0) {
      const int signal = signals_->Take();
      if (signal == SIGTSTP) raise(SIGSTOP);
      if (signal == SIGINT || signal == SIGTERM) {
        reply->signal = signal;
        cancel->Cancel();
      }
    }
    ended = sink->Take(&text, reply, &status);
    deltas.clear();
    parser->Add(text, &deltas);
    if (ended) parser->Finish(&deltas);
    for (const reply::ReplyDelta& delta : deltas) {
      if (delta.kind == reply::ReplyDelta::Kind::kContent) content += delta.text;
      if (delta.kind == reply::ReplyDelta::Kind::kReasoning) reasoning += delta.text;
      on_delta(delta);
    }
  }
  if (status.code() == StatusCode::kCancelled && reply->signal != 0) status = Status::Ok();
  reply->kept = status.ok() && (reply->signal == 0 || !content.empty() || !reasoning.empty());
  if (!reply->kept) return status;
  Keep(std::move(content), std::move(reasoning));
  return Status::Ok();
}

}  // namespace penstock::cli

#include "remote_chat.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "chat_message.h"
#include "log/exception_status.h"
#include "remote_text.h"

namespace penstock::cli {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// One request in a thread of its own, so that signals are heard while it runs.
class RemoteExchange {
 public:
  RemoteExchange(client::ServerClient* client, std::string body)
      : came_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), thread_([this, client, body] {
          Expected<RemoteText> text = Status(StatusCode::kInternal, "no answer");
          try {
            text = StreamText(client, "/v1/chat/completions", body,
                              [this](const reply::ReplyDelta& delta) { Push(delta); });
          } catch (...) {
            text = ExceptionStatus();
          }
          const std::lock_guard lock(mutex_);
          text_ = std::move(text);
          Wake();
        }) {
    PENSTOCK_CHECK(came_ >= 0);
  }
  ~RemoteExchange() {
    thread_.join();
    close(came_);
  }
  RemoteExchange(const RemoteExchange&) = delete;
  RemoteExchange& operator=(const RemoteExchange&) = delete;

  // Readable once Take has something to give.
  int fd() const { return came_; }
  // What came; the end, once it has ended.
  std::optional<Expected<RemoteText>> Take(std::vector<reply::ReplyDelta>* deltas) {
    const std::lock_guard lock(mutex_);
    uint64_t ignored = 0;
    (void)!read(came_, &ignored, sizeof ignored);
    *deltas = std::exchange(deltas_, {});
    return text_;
  }

 private:
  void Push(const reply::ReplyDelta& delta) {
    const std::lock_guard lock(mutex_);
    deltas_.push_back(delta);
    Wake();
  }
  void Wake() const {
    const uint64_t one = 1;
    PENSTOCK_CHECK(write(came_, &one, sizeof one) == sizeof one);
  }

  const int came_;  // eventfd
  std::mutex mutex_;
  std::vector<reply::ReplyDelta> deltas_;
  std::optional<Expected<RemoteText>> text_;
  std::thread thread_;  // last: it uses the others
};

client::ServerClientOptions ForAPerson(client::ServerClientOptions options) {
  options.interactive = true;
  return options;
}

}  // namespace

RemoteChat::RemoteChat(client::ServerClientOptions server, std::string model,
                       SamplingFlags sampling, chat::JsonValue variables, ChatSignals* signals)
    : client_(ForAPerson(std::move(server))),
      model_(std::move(model)),
      sampling_(std::move(sampling)),
      variables_(std::move(variables)),
      signals_(signals) {}

Status RemoteChat::Set(const std::string& given) {
  sample::SamplingOptions all = sampling_.For(sample::GenerationDefaults());
  PENSTOCK_RETURN_IF_ERROR(SetChatOption(given, std::numeric_limits<int32_t>::max(), &all));
  const auto is = [&](std::string_view with_dash, std::string_view plain) {
    return given.starts_with(with_dash) || given.starts_with(plain);
  };
  // What is set from now on goes with each message.
  if (is("temperature", "temperature")) sampling_.temperature = all.temperature;
  if (is("top-k", "top_k")) sampling_.top_k = all.top_k;
  if (is("top-p", "top_p")) sampling_.top_p = all.top_p;
  if (is("min-p", "min_p")) sampling_.min_p = all.min_p;
  if (is("repetition-penalty", "repetition_penalty")) {
    sampling_.repetition_penalty = all.repetition_penalty;
  }
  sampling_.options.presence_penalty = all.presence_penalty;
  sampling_.options.frequency_penalty = all.frequency_penalty;
  sampling_.options.max_tokens = all.max_tokens;
  sampling_.options.seed = all.seed;
  return Status::Ok();
}

std::string RemoteChat::Settings() const {
  std::string text;
  JsonWriter json(&text);
  json.BeginObject();
  WriteSampling(sampling_, &json);
  json.EndObject();
  return "  sent with each message: " + text + "; all others are the server's\n";
}

std::string RemoteChat::Body() const {
  std::string body;
  JsonWriter json(&body);
  json.BeginObject();
  if (!model_.empty()) json.Field("model", model_);
  json.Key("messages").Raw(chat::JsonValue(AllMessages()).Print());
  json.Field("stream", true);
  json.Key("stream_options").BeginObject().Field("include_usage", true).EndObject();
  SamplingFlags sampling = sampling_;
  if (sampling.options.seed) *sampling.options.seed += retries();
  WriteSampling(sampling, &json);
  if (variables_.object() != nullptr && !variables_.object()->empty()) {
    json.Key("chat_template_kwargs").Raw(variables_.Print());
  }
  json.EndObject();
  return body;
}

Expected<ChatReply> RemoteChat::MakeReply(const OnDelta& on_delta) {
  ChatReply reply;
  std::string content, reasoning;
  std::optional<Expected<RemoteText>> end;
  const auto begin = Clock::now();
  {
    RemoteExchange exchange(&client_, Body());
    std::array<pollfd, 2> polled = {{{exchange.fd(), POLLIN, 0}, {signals_->fd(), POLLIN, 0}}};
    std::vector<reply::ReplyDelta> deltas;
    while (!end) {
      if (poll(polled.data(), polled.size(), -1) <= 0) continue;
      if (polled[1].revents != 0) {
        const int signal = signals_->Take();
        if (signal == SIGTSTP) raise(SIGSTOP);
        if (signal == SIGINT || signal == SIGTERM) {
          reply.signal = signal;
          client_.Abort();
        }
      }
      end = exchange.Take(&deltas);
      for (const reply::ReplyDelta& delta : deltas) {
        if (content.empty() && reasoning.empty()) reply.usage.prompt_s = SecondsSince(begin);
        (delta.kind == reply::ReplyDelta::Kind::kReasoning ? reasoning : content) += delta.text;
        on_delta(delta);
      }
    }
  }
  if (reply.signal != 0) client_.Continue();
  if (end->ok()) {
    reply.finish = (*end)->finish;
    reply.usage.prompt_tokens = static_cast<int32_t>(std::max<int64_t>(0, (*end)->prompt_tokens));
    reply.usage.cached_tokens = static_cast<int32_t>(std::max<int64_t>(0, (*end)->cached_tokens));
    reply.usage.completion_tokens =
        static_cast<int32_t>(std::max<int64_t>(0, (*end)->completion_tokens));
    reply.usage.decode_s = SecondsSince(begin) - reply.usage.prompt_s;
  } else if (reply.signal == 0) {
    return end->status();
  }
  reply.kept = reply.signal == 0 || !content.empty() || !reasoning.empty();
  if (reply.kept) Keep(std::move(content), std::move(reasoning));
  return reply;
}

}  // namespace penstock::cli

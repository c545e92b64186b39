#include "load/chat_load.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <random>
#include <vector>

#include "load/chat_client.h"
#include "load/clock_units.h"
#include "load/load_run.h"

namespace penstock::load {
namespace {

using Clock = ChatTurn::Clock;

// After a refusal or a lost connection.
constexpr std::chrono::milliseconds kPauseAfterFailure{50};

class ChatRun final : public ChatClient::Owner {
 public:
  ChatRun(const HttpTarget& target, const ChatLoad& load)
      : load_(load),
        requests_(target, load.request, load.scale, load.seed),
        random_(load.seed + 1),
        clients_(
            &run_, {load.rate, 1, load.concurrency, kPauseAfterFailure, load.next_arrival_s},
            &random_, [this] { return std::make_unique<ChatClient>(&place_, this); },
            [this](ChatClient* client, Clock::time_point intended) { Issue(client, intended); }) {}

  Expected<ChatResult> Run(const HttpTarget& target, const LoadWindow& window);

  void OnWritten() override { ++result_.sent; }
  void OnToken(const ChatTurn& turn, double gap_ms) override;
  void OnDone(ChatClient* client, ChatClient::Outcome outcome) override;

 private:
  double Uniform() { return std::uniform_real_distribution<double>(0, 1)(random_); }
  void Issue(ChatClient* client, Clock::time_point intended);
  void CountAnswer(const ChatTurn& turn);
  void CountWhole(const ChatTurn& turn);
  bool Meets(double first_ms, double token_ms, double whole_ms) const;
  void AbandonAll();

  LoadRun run_;
  const ChatLoad load_;
  ChatRequests requests_;
  std::mt19937_64 random_;
  ChatClient::Place place_;
  ClientPool<ChatClient> clients_;
  ChatResult result_;
};

Expected<ChatResult> ChatRun::Run(const HttpTarget& target, const LoadWindow& window) {
  PENSTOCK_RETURN_IF_ERROR(run_.Open(target, window));
  place_ = {&run_.context, run_.tls.get(), run_.endpoint, target.host, load_.slow_bytes_per_s};
  run_.Drive([this] { clients_.Begin(); }, [this] { clients_.Stop(); });
  AbandonAll();
  result_.not_sent = clients_.not_sent();
  result_.seconds = run_.seconds();
  result_.client_cpu_s = run_.client_cpu_s();
  result_.server_cpu_s = run_.server_cpu_s();
  return std::move(result_);
}

void ChatRun::Issue(ChatClient* client, Clock::time_point intended) {
  ChatTurn turn;
  turn.slow = load_.slow_share > 0 && Uniform() < load_.slow_share;
  // A deadline is for the whole answer: a slow reader would miss it by that alone.
  turn.with_timeout = !turn.slow && load_.request.timeout_ms > 0 && Uniform() < load_.timeout_share;
  auto request = requests_.Next(turn.with_timeout, turn.slow);
  if (load_.leave_share > 0 && Uniform() < load_.leave_share) {
    if (Uniform() < 0.5) {
      turn.leave_ms = load_.leave_ms_max * Uniform();
    } else {
      turn.leave_token = static_cast<int64_t>(Uniform() * request.output_tokens);
    }
  }
  turn.bytes = std::move(request.bytes);
  turn.intended = intended;
  turn.measured = run_.InWindow(intended);
  client->Start(std::move(turn));
}

void ChatRun::OnToken(const ChatTurn& turn, double gap_ms) {
  if (gap_ms < 0 && turn.measured) result_.first_token.Add(Ms(turn.first - turn.intended));
  if (!run_.InWindow(turn.last)) return;
  ++result_.tokens;
  if (gap_ms >= 0 && !turn.slow) result_.between_tokens.Add(gap_ms);
}

bool ChatRun::Meets(double first_ms, double token_ms, double whole_ms) const {
  const auto within = [](double ms, double limit) { return limit <= 0 || ms <= limit; };
  return within(first_ms, load_.goodput.first_token_ms) &&
         within(token_ms, load_.goodput.token_ms) && within(whole_ms, load_.goodput.whole_ms);
}

void ChatRun::CountWhole(const ChatTurn& turn) {
  const auto now = Clock::now();
  const double whole_ms = Ms(now - turn.intended);
  const int64_t tokens = std::max(turn.completion_tokens, turn.events);
  const double token_ms =
      tokens < 2 || turn.events == 0
          ? 0
          : Ms(std::max(turn.finish, turn.last) - turn.first) / static_cast<double>(tokens - 1);
  if (turn.slow) ++result_.slow_whole;
  if (turn.measured) {
    result_.whole_answer.Add(whole_ms);
    if (token_ms > 0 && !turn.slow) result_.per_token.Add(token_ms);
  }
  if (!run_.InWindow(now)) {
    ++result_.outside;
    return;
  }
  ++result_.whole;
  const bool good = Meets(Ms(turn.first - turn.intended), token_ms, whole_ms);
  if (good && turn.events > 0) ++result_.good;
  // Counts tokens that came with the text of others, or without text.
  result_.tokens += static_cast<uint64_t>(tokens - turn.events);
  result_.prompt_tokens += static_cast<uint64_t>(std::max<int64_t>(turn.prompt_tokens, 0));
  result_.cached_tokens += static_cast<uint64_t>(std::max<int64_t>(turn.cached_tokens, 0));
}

void ChatRun::CountAnswer(const ChatTurn& turn) {
  ++result_.by_status[turn.status];
  if (turn.status == 429 && !turn.retry_after) ++result_.no_retry_after;
  if (turn.with_timeout) {
    result_.deadline_over_ms_max =
        std::max(result_.deadline_over_ms_max,
                 Ms(Clock::now() - turn.sent) - static_cast<double>(load_.request.timeout_ms));
  }
  int error = 0;
  if (turn.status != 200) {
    error = turn.status;
  } else if (turn.error) {
    error = ChatResult::kErrorEvent;
    ++result_.error_events;
  } else if (!turn.done) {
    error = ChatResult::kCut;
    ++result_.cut;
  }
  const bool expired = turn.status == 503 || error == ChatResult::kErrorEvent;
  if (expired && !turn.with_timeout) ++result_.expired_without_deadline;
  if (error == 0) return CountWhole(turn);
  if (turn.measured) ++result_.errors[error];
}

void ChatRun::OnDone(ChatClient* client, ChatClient::Outcome outcome) {
  const ChatTurn& turn = client->turn();
  bool failed = false;
  switch (outcome) {
    case ChatClient::Outcome::kAnswered:
      CountAnswer(turn);
      failed = turn.status != 200;
      break;
    case ChatClient::Outcome::kLeft:
      ++result_.left;
      break;
    case ChatClient::Outcome::kLost:
      ++result_.lost;
      if (turn.measured) ++result_.errors[ChatResult::kLost];
      failed = true;
      break;
  }
  clients_.Free(client, failed);
}

void ChatRun::AbandonAll() {
  for (const auto& client : clients_.all()) {
    if (!client->busy()) continue;
    ++result_.no_answer;
    if (client->turn().measured) ++result_.errors[ChatResult::kNoAnswer];
    client->Abandon();
  }
}

Status CheckLoad(const ChatLoad& load) {
  if (load.concurrency < 1 || load.concurrency > HttpLoad::kConnectionsMax) {
    return Status::InvalidArgument(
        fmt::format("concurrency must be from 1 to {}", HttpLoad::kConnectionsMax), "concurrency");
  }
  if (!(load.rate >= 0 && load.rate <= 1e7)) {
    return Status::InvalidArgument("rate must be from 0 to 10000000", "rate");
  }
  if (!(load.slow_bytes_per_s > 0)) {
    return Status::InvalidArgument("slow_bytes_per_s must be more than 0", "slow_bytes_per_s");
  }
  return Status::Ok();
}

}  // namespace

Expected<Goodput> Goodput::Parse(const std::string& text) {
  Goodput goodput;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string_view one = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(one.size() + 1, rest.size()));
    const size_t colon = std::min(one.find(':'), one.size());
    const std::string_view name = one.substr(0, colon);
    double* const limit = name == "ttft"                    ? &goodput.first_token_ms
                          : name == "itl" || name == "tpot" ? &goodput.token_ms
                          : name == "e2el"                  ? &goodput.whole_ms
                                                            : nullptr;
    const char* const end = one.data() + one.size();
    const char* const begin = one.data() + std::min(colon + 1, one.size());
    const auto read = limit == nullptr ? std::from_chars_result{begin, std::errc::invalid_argument}
                                       : std::from_chars(begin, end, *limit);
    if (read.ec != std::errc() || read.ptr != end || !(*limit > 0)) {
      return Status::InvalidArgument(
          "limits are ttft:MS, itl:MS and e2el:MS with commas between, "
          "not '" +
          text + "'");
    }
  }
  return goodput;
}

uint64_t ChatResult::ErrorCount() const {
  uint64_t count = not_sent;
  for (const auto& [status, n] : errors) count += n;
  return count;
}

std::string ChatResult::ErrorsText() const {
  std::string text;
  const auto add = [&text](const std::string& what, uint64_t count) {
    if (count > 0) text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", what, count);
  };
  for (const auto& [status, count] : errors) {
    add(status == kLost         ? "lost"
        : status == kNoAnswer   ? "no answer"
        : status == kCut        ? "cut"
        : status == kErrorEvent ? "error in a stream"
                                : std::to_string(status),
        count);
  }
  add("not sent", not_sent);
  return text.empty() ? "-" : text;
}

Expected<ChatResult> RunChatLoad(const HttpTarget& target, const ChatLoad& load,
                                 const LoadWindow& window) {
  PENSTOCK_RETURN_IF_ERROR(CheckLoad(load));
  return ChatRun(target, load).Run(target, window);
}

}  // namespace penstock::load

#include "load/chat_load.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <deque>
#include <memory>
#include <random>
#include <vector>

#include "load/chat_client.h"
#include "load/clock_units.h"
#include "load/process_stat.h"

namespace penstock {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using Clock = ChatTurn::Clock;

// After a refusal or a lost connection: a server would be asked again as fast as the processor can.
constexpr std::chrono::milliseconds kPauseAfterFailure{50};
constexpr std::chrono::milliseconds kGiveUpInterval{200};

class ChatRun final : public ChatClient::Owner {
 public:
  ChatRun(const HttpTarget& target, const ChatLoad& load, const LoadWindow& window)
      : target_(target),
        load_(load),
        during_(window),
        requests_(target, load.request, load.scale, load.seed),
        random_(load.seed + 1) {}

  Expected<ChatResult> Run();

  void OnWritten() override { ++result_.sent; }
  void OnToken(const ChatTurn& turn, double gap_ms) override;
  void OnDone(ChatClient* client, ChatClient::Outcome outcome) override;

 private:
  bool InWindow(Clock::time_point t) const { return t >= begin_ && t < end_; }
  bool MayIssue() const {
    return !stopped_ && Clock::now() < end_ &&
           (during_.requests_max == 0 || issued_ < during_.requests_max);
  }
  void StopIfDone() {
    if (outstanding_ == 0 && !MayIssue()) context_.stop();
  }
  double Uniform() { return std::uniform_real_distribution<double>(0, 1)(random_); }

  ChatClient* NewClient() {
    clients_.push_back(std::make_unique<ChatClient>(&place_, this));
    return clients_.back().get();
  }
  void Issue(ChatClient* client, Clock::time_point intended);
  void IssueAfterPause(ChatClient* client);
  void ScheduleArrival();
  void Arrive();
  void CountAnswer(const ChatTurn& turn);
  void CountWhole(const ChatTurn& turn);
  bool Meets(double first_ms, double token_ms, double whole_ms) const;

  void BeginWindow();
  void EndWindow();
  void AskWhetherToGiveUp();
  void ReadClocks();
  void AbandonAll();

  asio::io_context context_{1};
  const HttpTarget target_;
  const ChatLoad load_;
  const LoadWindow during_;
  ChatRequests requests_;
  std::mt19937_64 random_;
  std::unique_ptr<asio::ssl::context> tls_;
  ChatClient::Place place_;
  asio::steady_timer arrival_timer_{context_}, phase_timer_{context_}, give_up_timer_{context_};
  Clock::time_point begin_, end_, next_arrival_, last_answer_;
  uint64_t issued_ = 0, outstanding_ = 0;
  bool stopped_ = false, began_ = false, ended_ = false;
  std::vector<std::unique_ptr<ChatClient>> clients_;
  std::vector<ChatClient*> idle_;          // open loop
  std::deque<Clock::time_point> backlog_;  // open loop: arrived, no connection free
  ChatResult result_;
};

Expected<ChatResult> ChatRun::Run() {
  PENSTOCK_ASSIGN_OR_RETURN(const auto endpoint, ResolveTarget(target_, &context_));
  PENSTOCK_ASSIGN_OR_RETURN(tls_, MakeTlsContext(target_));
  PENSTOCK_RETURN_IF_ERROR(CheckReachable(target_, endpoint, &context_, tls_.get()));
  place_ = {&context_, tls_.get(), endpoint, target_.host, load_.slow_bytes_per_s};
  begin_ = Clock::now() + Seconds(during_.warmup_s);
  end_ = begin_ + Seconds(during_.duration_s);
  phase_timer_.expires_at(begin_);
  phase_timer_.async_wait([this](error_code ec) {
    if (!ec) BeginWindow();
  });
  if (during_.give_up) AskWhetherToGiveUp();
  if (load_.rate > 0) {
    next_arrival_ = Clock::now();
    ScheduleArrival();
  } else {
    for (int i = 0; i < load_.concurrency; ++i) Issue(NewClient(), Clock::now());
  }
  context_.run();
  if (began_ && !ended_) ReadClocks();
  AbandonAll();
  const auto over = during_.requests_max == 0 ? end_ : std::min(end_, last_answer_);
  result_.seconds = std::max(1e-9, Ms(over - begin_) / 1000);
  return std::move(result_);
}

void ChatRun::BeginWindow() {
  began_ = true;
  result_.client_cpu_s = ThreadCpuSeconds();
  if (during_.server_pid > 0) result_.server_cpu_s = ProcessCpuSeconds(during_.server_pid);
  phase_timer_.expires_at(end_);
  phase_timer_.async_wait([this](error_code ec) {
    if (!ec) EndWindow();
  });
}

void ChatRun::EndWindow() {
  ReadClocks();
  stopped_ = true;
  arrival_timer_.cancel();
  if (outstanding_ == 0) return context_.stop();
  phase_timer_.expires_at(end_ + Seconds(during_.drain_s));
  phase_timer_.async_wait([this](error_code ec) {
    if (!ec) context_.stop();
  });
}

void ChatRun::ReadClocks() {
  ended_ = true;
  result_.client_cpu_s = ThreadCpuSeconds() - result_.client_cpu_s;
  if (during_.server_pid == 0) return;
  result_.server_cpu_s = ProcessCpuSeconds(during_.server_pid) - result_.server_cpu_s;
}

void ChatRun::AskWhetherToGiveUp() {
  give_up_timer_.expires_after(kGiveUpInterval);
  give_up_timer_.async_wait([this](error_code) {
    if (!during_.give_up()) return AskWhetherToGiveUp();
    stopped_ = true;
    end_ = std::min(end_, Clock::now());
    context_.stop();
  });
}

void ChatRun::Issue(ChatClient* client, Clock::time_point intended) {
  if (!MayIssue()) {
    if (load_.rate > 0) idle_.push_back(client);
    return StopIfDone();
  }
  ++issued_;
  ++outstanding_;
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
  turn.measured = InWindow(intended);
  client->Start(std::move(turn));
}

void ChatRun::IssueAfterPause(ChatClient* client) {
  auto timer = std::make_shared<asio::steady_timer>(context_, kPauseAfterFailure);
  timer->async_wait([this, client, timer](error_code) { Issue(client, Clock::now()); });
}

void ChatRun::ScheduleArrival() {
  next_arrival_ += Seconds(std::exponential_distribution<double>(load_.rate)(random_));
  arrival_timer_.expires_at(next_arrival_);
  arrival_timer_.async_wait([this](error_code ec) {
    if (!ec) Arrive();
  });
}

void ChatRun::Arrive() {
  if (!MayIssue()) return StopIfDone();
  if (!idle_.empty()) {
    ChatClient* const client = idle_.back();
    idle_.pop_back();
    Issue(client, next_arrival_);
  } else if (clients_.size() < static_cast<size_t>(load_.concurrency)) {
    Issue(NewClient(), next_arrival_);
  } else if (backlog_.size() < LoadResult::kBacklogMax) {
    backlog_.push_back(next_arrival_);
  } else {
    ++result_.not_sent;
  }
  ScheduleArrival();
}

void ChatRun::OnToken(const ChatTurn& turn, double gap_ms) {
  if (gap_ms < 0 && turn.measured) result_.first_token.Add(Ms(turn.first - turn.intended));
  if (!InWindow(turn.last)) return;
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
  if (!InWindow(now)) {
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
  last_answer_ = Clock::now();
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
  --outstanding_;
  if (load_.rate <= 0 && failed) {
    IssueAfterPause(client);
  } else if (load_.rate <= 0) {
    Issue(client, Clock::now());
  } else if (!backlog_.empty()) {
    const auto intended = backlog_.front();
    backlog_.pop_front();
    Issue(client, intended);
  } else {
    idle_.push_back(client);
  }
  StopIfDone();
}

void ChatRun::AbandonAll() {
  for (const auto& client : clients_) {
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
  return ChatRun(target, load, window).Run();
}

}  // namespace penstock

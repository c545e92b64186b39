// What the generators of load share: the window of a run and its clocks, and which client sends a
// request when. One event loop. Exposes Boost types, so only .cc files of the generators include
// it.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "base/status.h"
#include "load/clock_units.h"
#include "load/http_load.h"

namespace penstock::load {

class LoadRun {
 public:
  using Clock = std::chrono::steady_clock;

  // Finds the server. Errors as RunHttpLoads has them.
  Status Open(const HttpTarget& to, const LoadWindow& during);
  // `start` sends the first requests; `stop` ends arrivals at the end of the window. Returns when
  // all answers are there, or the drain is over.
  void Drive(const std::function<void()>& start, std::function<void()> stop);

  bool InWindow(Clock::time_point t) const { return t >= begin_ && t < end_; }
  bool MayIssue() const {
    return !stopped_ && Clock::now() < end_ &&
           (window_.requests_max == 0 || issued < window_.requests_max);
  }
  void StopIfDone() {
    if (outstanding == 0 && !MayIssue()) context.stop();
  }
  // How long the window was: up to the last answer where the number of requests ended it.
  double seconds() const;
  // Processor time of this thread and of the server, in the window.
  double client_cpu_s() const { return client_cpu_s_; }
  double server_cpu_s() const { return server_cpu_s_; }

  boost::asio::io_context context{1};
  HttpTarget target;
  boost::asio::ip::tcp::endpoint endpoint;
  std::unique_ptr<boost::asio::ssl::context> tls;  // null: plain
  uint64_t issued = 0;
  uint64_t outstanding = 0;
  Clock::time_point last_answer;

 private:
  void BeginWindow();
  void EndWindow();
  void ReadClocks();
  void AskWhetherToGiveUp();
  template <typename Act>
  void At(Clock::time_point when, Act act);
  double ServerCpu() const;

  LoadWindow window_;
  Clock::time_point begin_, end_;
  std::function<void()> stop_;
  boost::asio::steady_timer timer_{context}, give_up_timer_{context};
  bool stopped_ = false, began_ = false, ended_ = false;
  double client_cpu_s_ = 0;
  double server_cpu_s_ = 0;
};

// The clients of one load. Closed loop (rate 0): each gets its next request when it is free. Open
// loop: requests arrive at random times, and wait where all clients are busy.
template <typename Client>
class ClientPool {
 public:
  using Clock = LoadRun::Clock;
  struct Plan {
    double rate;
    int burst;
    int concurrency;
    // After a failure, closed loop: a server would be asked again as fast as the processor can.
    std::chrono::milliseconds pause;
    // As HttpLoad::next_arrival_s; may be empty.
    std::function<double()> next_arrival_s = {};
    bool open() const { return rate > 0 || next_arrival_s != nullptr; }
  };
  using Make = std::function<std::unique_ptr<Client>()>;
  // Gives a client a request that was to be sent at that time.
  using Start = std::function<void(Client*, Clock::time_point)>;

  ClientPool(LoadRun* run, const Plan& plan, std::mt19937_64* random, Make make, Start start)
      : run_(run),
        plan_(plan),
        random_(random),
        make_(std::move(make)),
        start_(std::move(start)),
        timer_(run->context) {}

  void Begin() {
    if (plan_.open()) {
      next_ = begin_ = Clock::now();
      return Schedule();
    }
    for (int i = 0; i < plan_.concurrency; ++i) Issue(NewClient(), Clock::now());
  }
  void Stop() { timer_.cancel(); }

  // The client's request is over.
  void Free(Client* client, bool failed) {
    run_->last_answer = Clock::now();
    --run_->outstanding;
    if (!plan_.open() && failed) {
      auto timer = std::make_shared<boost::asio::steady_timer>(run_->context, plan_.pause);
      timer->async_wait(
          [this, client, timer](const boost::system::error_code&) { Issue(client, Clock::now()); });
    } else if (!plan_.open()) {
      Issue(client, Clock::now());
    } else if (!backlog_.empty()) {
      const auto intended = backlog_.front();
      backlog_.pop_front();
      Issue(client, intended);
    } else {
      idle_.push_back(client);
    }
    run_->StopIfDone();
  }

  const std::vector<std::unique_ptr<Client>>& all() const { return clients_; }
  // Requests for which there was no room among those that wait.
  uint64_t not_sent() const { return not_sent_; }

 private:
  Client* NewClient() { return clients_.emplace_back(make_()).get(); }

  void Issue(Client* client, Clock::time_point intended) {
    if (!run_->MayIssue()) {
      if (plan_.open()) idle_.push_back(client);
      return run_->StopIfDone();
    }
    ++run_->issued;
    ++run_->outstanding;
    start_(client, intended);
  }

  void Schedule() {
    if (plan_.next_arrival_s != nullptr) {
      const double arrival_s = plan_.next_arrival_s();
      if (std::isinf(arrival_s)) return;
      next_ = begin_ + Seconds(arrival_s);
    } else {
      next_ += Seconds(std::exponential_distribution<double>(plan_.rate / plan_.burst)(*random_));
    }
    timer_.expires_at(next_);
    timer_.async_wait([this](const boost::system::error_code& ec) {
      if (!ec) Arrive();
    });
  }

  void Arrive() {
    if (!run_->MayIssue()) return run_->StopIfDone();
    for (int i = 0; i < plan_.burst; ++i) {
      if (!idle_.empty()) {
        Client* const client = idle_.back();
        idle_.pop_back();
        Issue(client, next_);
      } else if (clients_.size() < static_cast<size_t>(plan_.concurrency)) {
        Issue(NewClient(), next_);
      } else if (backlog_.size() < LoadResult::kBacklogMax) {
        backlog_.push_back(next_);
      } else {
        ++not_sent_;
      }
    }
    Schedule();
  }

  LoadRun* const run_;
  const Plan plan_;
  std::mt19937_64* const random_;
  const Make make_;
  const Start start_;
  boost::asio::steady_timer timer_;
  Clock::time_point begin_, next_;
  std::vector<std::unique_ptr<Client>> clients_;
  std::vector<Client*> idle_;              // open loop
  std::deque<Clock::time_point> backlog_;  // open loop: arrived, no client free
  uint64_t not_sent_ = 0;
};

}  // namespace penstock::load

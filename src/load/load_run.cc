#include "load/load_run.h"

#include <algorithm>

#include "load/http_link.h"
#include "load/process_stat.h"

namespace penstock::load {

Status LoadRun::Open(const HttpTarget& to, const LoadWindow& during) {
  target = to;
  window_ = during;
  PENSTOCK_ASSIGN_OR_RETURN(endpoint, ResolveTarget(target, &context));
  PENSTOCK_ASSIGN_OR_RETURN(tls, MakeTlsContext(target));
  return CheckReachable(target, endpoint, &context, tls.get());
}

void LoadRun::Drive(const std::function<void()>& start, std::function<void()> stop) {
  stop_ = std::move(stop);
  begin_ = Clock::now() + Seconds(window_.warmup_s);
  end_ = begin_ + Seconds(window_.duration_s);
  At(begin_, [this] { BeginWindow(); });
  if (window_.give_up) AskWhetherToGiveUp();
  start();
  context.run();
  if (began_ && !ended_) ReadClocks();  // the run was over before its window was
}

double LoadRun::seconds() const {
  const auto over = window_.requests_max == 0 ? end_ : std::min(end_, last_answer);
  return std::max(1e-9, Ms(over - begin_) / 1000);
}

template <typename Act>
void LoadRun::At(Clock::time_point when, Act act) {
  timer_.expires_at(when);
  timer_.async_wait([act](const boost::system::error_code& ec) {
    if (!ec) act();
  });
}

void LoadRun::BeginWindow() {
  began_ = true;
  client_cpu_s_ = ThreadCpuSeconds();
  server_cpu_s_ = ServerCpu();
  At(end_, [this] { EndWindow(); });
}

void LoadRun::EndWindow() {
  ReadClocks();
  stopped_ = true;
  stop_();
  if (outstanding == 0) return context.stop();
  At(end_ + Seconds(window_.drain_s), [this] { context.stop(); });
}

void LoadRun::ReadClocks() {
  ended_ = true;
  client_cpu_s_ = ThreadCpuSeconds() - client_cpu_s_;
  server_cpu_s_ = ServerCpu() - server_cpu_s_;
}

double LoadRun::ServerCpu() const {
  return window_.server_pid > 0 ? ProcessCpuSeconds(window_.server_pid) : 0;
}

void LoadRun::AskWhetherToGiveUp() {
  constexpr std::chrono::milliseconds kInterval{200};
  give_up_timer_.expires_after(kInterval);
  give_up_timer_.async_wait([this](const boost::system::error_code&) {
    if (!window_.give_up()) return AskWhetherToGiveUp();
    stopped_ = true;
    end_ = std::min(end_, Clock::now());
    context.stop();
  });
}

}  // namespace penstock::load

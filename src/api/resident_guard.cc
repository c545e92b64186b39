#include "api/resident_guard.h"

#include <fmt/format.h>

#include <utility>

#include "log/log.h"

namespace penstock::api {
namespace {

constexpr int kRetryAfterS = 1;
constexpr const char* kNames[kPriorities] = {"interactive", "bulk"};

}  // namespace

ResidentGuard::ResidentGuard(uint64_t bytes_max, std::function<uint64_t()> read,
                             metrics::Metrics* metrics)
    : read_(std::move(read)), bytes_max_(bytes_max) {
  classes_[static_cast<int>(Priority::kBulk)].limit = bytes_max;
  classes_[static_cast<int>(Priority::kInteractive)].limit = bytes_max + bytes_max / 24;
  for (int i = 0; i < kPriorities; ++i) {
    const std::string label = fmt::format("class=\"{}\"", kNames[i]);
    classes_[i].count = &metrics->AddCounter(
        "penstock_overload_refused_total",
        "Requests refused because the process has too much memory (--max-resident-bytes).", label);
    metrics->AddFunction(
        "penstock_overload_active", "1 while new work of this class is refused for want of memory.",
        metrics::Metrics::Kind::kGauge,
        [refused = classes_[i].refused] { return refused->load() ? 1 : 0; }, label);
  }
  metrics->AddFunction(
      "penstock_overload_limit_bytes",
      "Memory of the process over which new bulk work is refused, mapped files aside; 0: no limit.",
      metrics::Metrics::Kind::kGauge, [bytes_max] { return static_cast<double>(bytes_max); });
}

bool ResidentGuard::IsDue(std::atomic<int64_t>* next, Clock::duration every,
                          Clock::time_point now) {
  int64_t then = next->load(std::memory_order_relaxed);
  const int64_t at = now.time_since_epoch().count();
  return at >= then && next->compare_exchange_strong(then, at + every.count());
}

void ResidentGuard::Look(Clock::time_point now) {
  if (!IsDue(&next_look_, kLookEvery, now)) return;
  const uint64_t bytes = read_();
  bytes_ = bytes;
  for (int i = 0; i < kPriorities; ++i) Judge(&classes_[i], kNames[i], bytes);
}

void ResidentGuard::Judge(Class* of, const char* what, uint64_t bytes) {
  const bool was = of->refused->load(std::memory_order_relaxed);
  const bool is = bytes > (was ? of->limit - of->limit / 32 : of->limit);
  if (is == was || of->refused->exchange(is) == is) return;
  if (is) {
    LogWarn("memory: the process has {} bytes, over {}: new {} work is refused", bytes, of->limit,
            what);
  } else {
    LogInfo("memory: the process has {} bytes: {} work is taken again", bytes, what);
  }
}

bool ResidentGuard::Refuses(Priority priority, Clock::time_point now) {
  if (bytes_max_ == 0) return false;
  Look(now);
  return classes_[static_cast<int>(priority)].refused->load(std::memory_order_relaxed);
}

Status ResidentGuard::Check(Priority priority, Clock::time_point now) {
  if (!Refuses(priority, now)) return Status::Ok();
  const Class& of = classes_[static_cast<int>(priority)];
  of.count->Add();
  return Status(StatusCode::kUnavailable,
                fmt::format("the server is short of memory: it has {} bytes; over {} no {} work is "
                            "begun (--max-resident-bytes)",
                            bytes_.load(), of.limit, priority == Priority::kBulk ? "bulk" : "new"))
      .WithRetryAfter(kRetryAfterS);
}

bool ResidentGuard::TrimDue(Clock::time_point now) {
  return Refuses(Priority::kBulk, now) && IsDue(&next_trim_, kTrimEvery, now);
}

}  // namespace penstock::api

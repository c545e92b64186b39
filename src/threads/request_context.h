// RequestContext: a request's client, priority, deadline and cancel flag, by which the waiting side
// tells the working side to stop.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/status.h"

namespace penstock::metrics {
class RequestTrace;  // metrics/stages.h
}  // namespace penstock::metrics

namespace penstock {

class CancelToken {
 public:
  enum class Cause : uint8_t { kNone, kClientLeft, kShutdown };

  // The first cause stays.
  void Cancel(Cause cause = Cause::kClientLeft) {
    Cause none = Cause::kNone;
    cause_.compare_exchange_strong(none, cause, std::memory_order_relaxed);
  }
  Cause cause() const { return cause_.load(std::memory_order_relaxed); }
  bool cancelled() const { return cause() != Cause::kNone; }

 private:
  // Relaxed: the flag orders nothing; a late reader merely does work in vain.
  std::atomic<Cause> cause_{Cause::kNone};
};

using Clock = std::chrono::steady_clock;

// When to stop work. Checked every 64 Ki units of work (threads/work.h), about a millisecond;
// shorter work ends unchecked.
struct StopCondition {
  const CancelToken* cancel = nullptr;  // null: cannot be cancelled; outlives the call
  Clock::time_point deadline = Clock::time_point::max();
};

// Interactive work goes before bulk; ageing in sched/ keeps bulk moving.
enum class Priority { kInteractive, kBulk };
inline constexpr int kPriorities = 2;

class RequestMemory;  // threads/byte_budget.h

// A request's client, priority and deadline. Travels with it through every stage.
struct RequestContext {
  std::shared_ptr<CancelToken> cancel;  // null: cannot be cancelled
  Clock::time_point deadline = Clock::time_point::max();
  Priority priority = Priority::kInteractive;
  std::string bulk_run;  // id of the run it belongs to (api/bulk_runs.h), "": none
  std::shared_ptr<metrics::RequestTrace> trace;  // null: its stages are not timed
  // The request's share of the budget of bytes in flight; null: not bounded (local commands).
  std::shared_ptr<RequestMemory> memory;
  // For how long the model is to stay loaded after this use; negative: for good; nullopt: as set
  // for the model.
  std::optional<std::chrono::milliseconds> keep_alive;
  // False: keep_alive counts within bounds alone, as keys of administrators rule the models.
  bool rules_models = true;
  // Requests share what is cached of prompts, tokens and results with those of the same salt alone
  // (cache/cache_salt.h).
  uint64_t cache_salt = 0;
  uint64_t client = 0;         // tells clients apart: a hash of the API key, or of the address
  uint32_t client_weight = 1;  // its share beside other clients; of the key (key files)
  bool cancelled() const { return cancel != nullptr && cancel->cancelled(); }
  // OK while the answer is wanted. kCancelled: the client left; kUnavailable: the server is
  // shutting down; kDeadlineExceeded, with `message`.
  Status CheckWanted(
      Clock::time_point now,
      const char* message = "the request's time ran out before its turn came") const noexcept;
};

}  // namespace penstock

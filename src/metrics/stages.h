// The stages of a request, and RequestTrace, which adds up the time in each.
//
// A request is in exactly one stage at any moment, from its first byte until the last byte of its
// answer was handed to the kernel: Enter() ends one stage and begins the next. So the stages of a
// request sum up to its wall time, never to more, however many threads and batches it passes.
//
//   kReceive    first byte read .. body complete
//   kParse      .. checked, planned and handed to the tokenization workers
//   kLoad       waits for its model to be loaded
//   kTokenize   .. the last text has its ids; waiting for a worker included
//   kQueue      none of its rows is in a batch: they wait for the model
//   kForm       a batch with rows of it is sealed and laid out
//   kForward    the model works on a batch with rows of it
//   kPrefill    of generated text: the model reads the prompt
//   kDecode     from the first token on: the model writes, and the tokens are sent
//   kComplete   results taken out, finished (cut, normalised, sorted), waiting for the io thread
//   kSerialise  the answer is printed
//   kSend       .. its last byte is with the kernel
//
// A request of many rows goes through queue, form and forward again for each of its batches. With
// rows in several batches at once, the stage entered last counts; kQueue comes again only when no
// row is under way.
//
// The front end makes the trace and ends it (Finish); every thread that moves the request on calls
// Enter. Writers synchronise through one compare-exchange; nothing is allocated.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "threads/request_context.h"

namespace penstock::metrics {

enum class Stage : uint8_t {
  kReceive,
  kParse,
  kLoad,
  kTokenize,
  kQueue,
  kForm,
  kForward,
  kPrefill,
  kDecode,
  kComplete,
  kSerialise,
  kSend,
};
inline constexpr size_t kStages = 12;

// As in metrics and statistics: "receive", ...
constexpr const char* StageName(Stage stage) {
  constexpr const char* kNames[kStages] = {"receive", "parse",    "load",      "tokenize",
                                           "queue",   "form",     "forward",   "prefill",
                                           "decode",  "complete", "serialise", "send"};
  return kNames[static_cast<size_t>(stage)];
}

class RequestTrace {
 public:
  static constexpr size_t kModelBytesMax = 63;

  // In kReceive since `begin`.
  explicit RequestTrace(Clock::time_point begin) : begin_(begin) {}
  RequestTrace(const RequestTrace&) = delete;
  RequestTrace& operator=(const RequestTrace&) = delete;

  // The stage so far ends at `now`, `stage` begins. A `now` before the last one counts as the last
  // one. Any thread. Has no effect after Finish; a late thread (a deadline sent the answer without
  // it) cannot take the request back from kSerialise and kSend.
  void Enter(Stage stage, Clock::time_point now = Clock::now()) {
    Move(static_cast<uint64_t>(stage), now);
  }
  // A batch that held rows of this request, reported once it is over, with the times the scheduler
  // has anyway. `last`: no row is left, else the rest is in the queue again.
  void Batched(Clock::time_point sealed, Clock::time_point forward, Clock::time_point done,
               bool last) {
    Enter(Stage::kForm, sealed);
    Enter(Stage::kForward, forward);
    Enter(last ? Stage::kComplete : Stage::kQueue, done);
  }
  // The request is over. Called once, by its owner; later calls are ignored.
  void Finish(Clock::time_point now = Clock::now()) { Move(kFinished, now); }

  // Nanoseconds in a stage, the present one left out. Complete after Finish, but for a thread that
  // was late: then up to one interval is missing.
  int64_t ns(Stage stage) const {
    return ns_[static_cast<size_t>(stage)].load(std::memory_order_relaxed);
  }
  // From the begin to the last Enter, or Finish.
  int64_t wall_ns() const {
    return static_cast<int64_t>(state_.load(std::memory_order_relaxed) >> kStageBits);
  }

  // Figures for the log. SetModel: the first call counts. It may come late, from a thread that
  // waited for the model, while another one logs the request after its deadline.
  void SetModel(std::string_view name) {
    if (model_set_.exchange(true, std::memory_order_relaxed)) return;
    const size_t size = std::min(name.size(), kModelBytesMax);
    std::memcpy(model_, name.data(), size);
    model_shown_.store(true, std::memory_order_release);
  }
  const char* model() const { return model_shown_.load(std::memory_order_acquire) ? model_ : ""; }
  void SetRows(int64_t rows) { rows_.store(rows, std::memory_order_relaxed); }
  void SetTokens(int64_t tokens) { tokens_.store(tokens, std::memory_order_relaxed); }
  // For a request that is worked on part by part.
  void AddTokens(int64_t tokens) { tokens_.fetch_add(tokens, std::memory_order_relaxed); }
  // For generated text: the tokens of the longest text so far.
  void SetTextTokens(int64_t tokens) { text_tokens_.store(tokens, std::memory_order_relaxed); }
  int64_t rows() const { return rows_.load(std::memory_order_relaxed); }
  int64_t tokens() const { return tokens_.load(std::memory_order_relaxed); }
  int64_t text_tokens() const { return text_tokens_.load(std::memory_order_relaxed); }

 private:
  static constexpr uint64_t kStageBits = 4;
  static constexpr uint64_t kStageMask = (1 << kStageBits) - 1;
  static constexpr uint64_t kFinished = kStages;

  void Move(uint64_t stage, Clock::time_point now) {
    const int64_t elapsed_ns =
        std::chrono::duration_cast<std::chrono::nanoseconds>(now - begin_).count();
    const uint64_t at_ns = elapsed_ns > 0 ? static_cast<uint64_t>(elapsed_ns) : 0;
    uint64_t old = state_.load(std::memory_order_relaxed);
    uint64_t next;
    do {
      const uint64_t from = old & kStageMask;
      constexpr auto kAnswering = static_cast<uint64_t>(Stage::kSerialise);
      if (from == kFinished || (from >= kAnswering && stage < kAnswering)) return;
      next = std::max(at_ns, old >> kStageBits) << kStageBits | stage;
      // Relaxed: the intervals are disjoint by the order of changes of this one word; a reader of
      // the sums was handed the request by the thread that wrote them.
    } while (!state_.compare_exchange_weak(old, next, std::memory_order_relaxed));
    ns_[old & kStageMask].fetch_add(
        static_cast<int64_t>((next >> kStageBits) - (old >> kStageBits)),
        std::memory_order_relaxed);
  }

  const Clock::time_point begin_;
  std::atomic<uint64_t> state_{0};  // nanoseconds since begin_ << 4 | stage
  std::array<std::atomic<int64_t>, kStages> ns_{};
  std::atomic<int64_t> rows_{0};
  std::atomic<int64_t> tokens_{0};
  std::atomic<int64_t> text_tokens_{0};
  char model_[kModelBytesMax + 1] = {};  // read once shown, which comes after its only write
  std::atomic<bool> model_set_{false};
  std::atomic<bool> model_shown_{false};
};

}  // namespace penstock::metrics

// One measurement of `penstock-lab batcher`: producers submit rows, batches are formed of them, a
// model that does next to nothing runs over each batch, and every producer gets its results.
//
// Every contender does the same work. A producer makes a row: all its bytes are new. The model
// wants the rows of a batch in one contiguous buffer, reads the first and the last word of each,
// and writes a result word; the producer reads and checks every result. Penstock's producers make
// the row where the model will read it; a queue's producers make it in memory of their own, and the
// batcher thread copies it. A producer has up to `window` rows under way (closed loop,
// asynchronous), submits `burst` of them in one call, where its queue has such a call, and looks
// for results at least every kRowsPerLook rows. One row in kRowsPerSample is timed, so that the
// clock costs all of them next to nothing.
#pragma once

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "load/latency.h"

namespace penstock::lab {

struct BatcherCell {
  uint32_t producers = 2;
  uint32_t row_bytes = 128;   // a multiple of 4
  uint32_t batch_rows = 256;  // at most
  uint32_t window = 1024;     // rows a producer; a power of two
  uint32_t burst = 1;         // rows submitted in one call: those of one request
  double seconds = 0.25;      // measured; a fifth of it more to warm up
};

struct BatcherMeasurement {
  double rows_per_s = 0;
  uint64_t wrong_results = 0;
  load::LatencyHistogram sealed;  // submit -> the batch is closed
  load::LatencyHistogram result;  // submit -> the producer has the result
};

struct BatcherContender {
  const char* name;
  bool is_peer;
  BatcherMeasurement (*run)(const BatcherCell& cell);
};

// Penstock's ring. The peers are in bench/queue_peers.cc.
std::vector<BatcherContender> RingContenders();

constexpr uint32_t kRowsPerLook = 64;
constexpr uint32_t kRowsPerSample = 64;

inline int64_t BenchNowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// A row is `row_bytes` / 4 words; each holds the row's number plus its own.
inline void MakeRow(uint64_t n, uint8_t* row, uint32_t row_bytes) {
  const auto first = static_cast<uint32_t>(n);
  for (uint32_t i = 0; i < row_bytes / 4; ++i) {
    const uint32_t word = first + i;
    std::memcpy(row + size_t{4} * i, &word, sizeof word);
  }
}
inline uint32_t WordOf(const uint8_t* row, uint32_t i) {
  uint32_t word;
  std::memcpy(&word, row + size_t{4} * i, sizeof word);
  return word;
}
// The model: the first word plus the last.
inline void RunNoopModel(const uint8_t* rows, uint32_t row_bytes, uint32_t count,
                         uint32_t* results) {
  const uint32_t last = row_bytes / 4 - 1;
  for (uint32_t i = 0; i < count; ++i) {
    const uint8_t* row = rows + size_t{i} * row_bytes;
    results[i] = WordOf(row, 0) + WordOf(row, last);
  }
}
inline uint32_t ResultOfRow(uint64_t n, uint32_t row_bytes) {
  return static_cast<uint32_t>(2 * n) + row_bytes / 4 - 1;
}

// The state of a producer. Row number n has place n % window.
class alignas(128) BatcherProducer {
 public:
  explicit BatcherProducer(const BatcherCell& cell) : cell_(cell), submitted_ns_(cell.window) {}

  uint32_t PlaceOf(uint64_t n) const { return static_cast<uint32_t>(n & (cell_.window - 1)); }
  static bool IsSampled(uint32_t place) { return place % kRowsPerSample == 0; }
  // Called before the row is made.
  void Begin(uint64_t n) {
    const uint32_t place = PlaceOf(n);
    if (IsSampled(place)) submitted_ns_[place] = BenchNowNs();
  }
  void TakeResult(uint64_t n, uint32_t result, int64_t sealed_ns) {
    wrong_ += result != ResultOfRow(n, cell_.row_bytes);
    const uint32_t place = PlaceOf(n);
    if (!IsSampled(place)) return;
    sealed_.Add(static_cast<double>(sealed_ns - submitted_ns_[place]) * 1e-6);
    result_.Add(static_cast<double>(BenchNowNs() - submitted_ns_[place]) * 1e-6);
  }

  // Called after each look for results: how many rows may be submitted until the next; nothing:
  // this producer is through.
  std::optional<uint64_t> RowsUntilLook(bool stopping, uint64_t submitted, uint64_t rows_taken) {
    taken.store(rows_taken, std::memory_order_relaxed);
    if (stopping && rows_taken == submitted) return std::nullopt;
    if (stopping) return 0;
    return std::min<uint64_t>(cell_.window - (submitted - rows_taken), kRowsPerLook);
  }

  // Rows whose results were taken. Written by the producer, read by the measuring thread.
  std::atomic<uint64_t> taken{0};
  uint64_t wrong_ = 0;
  load::LatencyHistogram sealed_, result_;

 private:
  const BatcherCell cell_;
  std::vector<int64_t> submitted_ns_;
};

// Runs produce(i) in a thread each and `consumers` beside them, measures over `cell.seconds`, then
// sets `stop`. Producers end when their rows are back; after them consumers_stop() is called.
BatcherMeasurement MeasureBatcher(const BatcherCell& cell,
                                  std::vector<std::unique_ptr<BatcherProducer>>* producers,
                                  std::atomic<bool>* stop,
                                  const std::function<void(uint32_t)>& produce,
                                  const std::vector<std::function<void()>>& consumers,
                                  const std::function<void()>& stop_consumers);

}  // namespace penstock::lab

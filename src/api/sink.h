// Sink: a queue of events from their producer to the front end that sends them.
//
// One producer and one consumer, each one thread at a time; bounded; no lock. The consumer is woken
// when the sink stops being empty and not for each event, so a consumer that is behind costs its
// producer nothing.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

namespace penstock::api {

template <typename Event>
class Sink {
 public:
  // `wake` runs on the producer's thread, must not block, and has the consumer call Pop until it
  // gives nothing. It may be called once too often.
  Sink(size_t capacity, std::function<void()> wake)
      : slots_(capacity + 1), wake_(std::move(wake)) {}
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;

  // Producer. False: the sink is full, and nothing happened.
  bool Push(Event event) {
    const size_t tail = tail_.load(std::memory_order_relaxed);
    const size_t next = After(tail);
    if (next == head_.load(std::memory_order_acquire)) return false;
    slots_[tail].emplace(std::move(event));
    // seq_cst, as in Pop: either the consumer sees this event before it stops, or Push sees that
    // the consumer has taken all earlier ones.
    tail_.store(next, std::memory_order_seq_cst);
    if (head_.load(std::memory_order_seq_cst) == tail) wake_();
    return true;
  }

  // Consumer. nullopt: the sink is empty, and the next Push wakes.
  std::optional<Event> Pop() {
    const size_t head = head_.load(std::memory_order_relaxed);
    if (head == tail_.load(std::memory_order_seq_cst)) return std::nullopt;
    std::optional<Event> event = std::move(slots_[head]);
    slots_[head].reset();
    head_.store(After(head), std::memory_order_seq_cst);
    return event;
  }

  // How many wait; may be stale. Any thread.
  size_t size() const {
    const size_t head = head_.load(std::memory_order_acquire);
    const size_t tail = tail_.load(std::memory_order_acquire);
    return tail >= head ? tail - head : tail + slots_.size() - head;
  }

 private:
  size_t After(size_t index) const { return index + 1 == slots_.size() ? 0 : index + 1; }

  std::vector<std::optional<Event>> slots_;  // one stays empty, to tell full from empty
  const std::function<void()> wake_;
  alignas(64) std::atomic<size_t> head_{0};  // next to pop
  alignas(64) std::atomic<size_t> tail_{0};  // next to push
};

}  // namespace penstock::api

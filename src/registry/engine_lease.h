// EngineLease: the right to use an engine that the registry may unload.
//
// While a lease lives its engine does: it is neither stopped nor freed. A lease frees nothing
// itself: the last one to go after the engine was closed only hands it to the registry's reaper
// (registry.h), so it may go on any thread, the engine's own executor included.
//
// Taking one is a compare-and-swap, copying one and dropping it an addition; no lock.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

namespace penstock {

class Engine;        // engine.h
class TextEngine;    // text_engine.h
class TensorEngine;  // tensor_engine.h

// The leases of one engine. A word: bit 63 says whether new ones are given, the rest counts.
class LeaseCount {
 public:
  LeaseCount() = default;
  LeaseCount(const LeaseCount&) = delete;
  LeaseCount& operator=(const LeaseCount&) = delete;

  // From here on leases are given; the engine is complete. Not while there are leases.
  void Open() { word_.store(kOpen, std::memory_order_release); }
  // From here on none are given. True: there were none. Else dropping the last one calls Drained.
  bool Close() { return word_.fetch_and(~kOpen, std::memory_order_acq_rel) == kOpen; }

  // Close, but only where there are no leases; false: there are some, and nothing has changed.
  bool CloseIfUnused() {
    uint64_t unused = kOpen;
    return word_.compare_exchange_strong(unused, 0, std::memory_order_acq_rel,
                                         std::memory_order_relaxed);
  }
  // Whether leases are given. May change at once.
  bool open() const { return (word_.load(std::memory_order_relaxed) & kOpen) != 0; }

  // False: closed.
  bool TryAdd() {
    uint64_t seen = word_.load(std::memory_order_relaxed);
    while ((seen & kOpen) != 0) {
      if (word_.compare_exchange_weak(seen, seen + 1, std::memory_order_acquire,
                                      std::memory_order_relaxed)) {
        return true;
      }
    }
    return false;
  }
  // Only by a holder of a lease.
  void Add() { word_.fetch_add(1, std::memory_order_relaxed); }
  // acq_rel: the thread that frees the engine sees all earlier use of it.
  void Drop() {
    if (word_.fetch_sub(1, std::memory_order_acq_rel) == 1) Drained();
  }
  uint64_t leases() const { return word_.load(std::memory_order_relaxed) & ~kOpen; }

 protected:
  ~LeaseCount() = default;

 private:
  static constexpr uint64_t kOpen = uint64_t{1} << 63;

  // Once for each Close that found leases. The count is not touched after it returns.
  virtual void Drained() = 0;

  std::atomic<uint64_t> word_{0};
};

template <typename T>
class Lease {
 public:
  Lease() = default;
  // Of an engine that is never unloaded and outlives the lease.
  explicit Lease(T* engine) : engine_(engine) {}
  // Takes over a lease that `count` has counted.
  Lease(LeaseCount* count, T* engine) : count_(count), engine_(engine) {}

  Lease(const Lease& other) : count_(other.count_), engine_(other.engine_) {
    if (count_ != nullptr) count_->Add();
  }
  Lease(Lease&& other) noexcept
      : count_(std::exchange(other.count_, nullptr)),
        engine_(std::exchange(other.engine_, nullptr)) {}
  Lease& operator=(Lease other) noexcept {
    std::swap(count_, other.count_);
    std::swap(engine_, other.engine_);
    return *this;
  }
  ~Lease() {
    if (count_ != nullptr) count_->Drop();
  }

  T* get() const { return engine_; }
  T* operator->() const { return engine_; }
  T& operator*() const { return *engine_; }
  explicit operator bool() const { return engine_ != nullptr; }

 private:
  LeaseCount* count_ = nullptr;
  T* engine_ = nullptr;
};

using EngineLease = Lease<Engine>;
using TextLease = Lease<TextEngine>;
using TensorLease = Lease<TensorEngine>;

}  // namespace penstock

// Lease: the right to use a model that the registry may unload.
//
// While a lease lives its model does: it is neither stopped nor freed. A lease frees nothing
// itself: the last one to go after the model was closed only hands it to the registry's reaper
// (registry.h), so it may go on any thread, the model's own executor included.
//
// Taking one is a compare-and-swap, copying one an addition; no lock. Dropping one also stores the
// time, from which a model is idle; not with `is_use` false: metrics do not keep a model loaded.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include "threads/request_context.h"

namespace penstock::registry {

// The leases of one model. A word: bit 63 says whether new ones are given, the rest counts.
class LeaseCount {
 public:
  LeaseCount() = default;
  LeaseCount(const LeaseCount&) = delete;
  LeaseCount& operator=(const LeaseCount&) = delete;

  // From here on leases are given; the model is complete. Not while there are leases.
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
  // acq_rel: the thread that frees the model sees all earlier use of it.
  void Drop() {
    if (word_.fetch_sub(1, std::memory_order_acq_rel) == 1) Drained();
  }
  // acquire: where there are none, last_use() is not before the end of the last use.
  uint64_t leases() const { return word_.load(std::memory_order_acquire) & ~kOpen; }

  // The model is used now: its idle time begins anew.
  void Use() { last_use_.store(Clock::now(), std::memory_order_relaxed); }
  Clock::time_point last_use() const { return last_use_.load(std::memory_order_relaxed); }

 protected:
  ~LeaseCount() = default;

 private:
  static constexpr uint64_t kOpen = uint64_t{1} << 63;

  // Once for each Close that found leases. The count is not touched after it returns.
  virtual void Drained() = 0;

  std::atomic<uint64_t> word_{0};
  std::atomic<Clock::time_point> last_use_{Clock::time_point()};
};

template <typename T>
class Lease {
 public:
  Lease() = default;
  // Of a model that is never unloaded and outlives the lease.
  explicit Lease(T* model) : model_(model) {}
  // Takes over a lease that `count` has counted.
  Lease(LeaseCount* count, T* model, bool is_use = true)
      : count_(count), model_(model), is_use_(is_use) {}

  Lease(const Lease& other) : count_(other.count_), model_(other.model_), is_use_(other.is_use_) {
    if (count_ != nullptr) count_->Add();
  }
  Lease(Lease&& other) noexcept
      : count_(std::exchange(other.count_, nullptr)),
        model_(std::exchange(other.model_, nullptr)),
        is_use_(other.is_use_) {}
  Lease& operator=(Lease other) noexcept {
    std::swap(count_, other.count_);
    std::swap(model_, other.model_);
    std::swap(is_use_, other.is_use_);
    return *this;
  }
  ~Lease() {
    if (count_ == nullptr) return;
    if (is_use_) count_->Use();
    count_->Drop();
  }

  T* get() const { return model_; }
  T* operator->() const { return model_; }
  T& operator*() const { return *model_; }
  explicit operator bool() const { return model_ != nullptr; }

  // The same lease of what the model is known to be, or is derived from.
  template <typename U>
  Lease<U> Cast() && {
    return Lease<U>(std::exchange(count_, nullptr), static_cast<U*>(std::exchange(model_, nullptr)),
                    is_use_);
  }

 private:
  LeaseCount* count_ = nullptr;
  T* model_ = nullptr;
  bool is_use_ = true;
};

}  // namespace penstock::registry

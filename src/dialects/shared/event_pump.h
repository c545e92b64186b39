// EventPump: has workers of the service handle events that producers announce from any thread, for
// an answer that is streamed. One thread at a time is in Drain: a producer that raises the count of
// signals from 0 queues it on a worker, which loops until it has seen all signals.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "api/service.h"
#include "threads/request_context.h"

namespace penstock::dialects {

class EventPump : public std::enable_shared_from_this<EventPump> {
 public:
  virtual ~EventPump() = default;
  EventPump(const EventPump&) = delete;
  EventPump& operator=(const EventPump&) = delete;

 protected:
  // `bytes`: that a Drain prints, as Service::FinishOnWorker has it.
  EventPump(api::Service* service, Priority priority, size_t bytes)
      : service_(service), priority_(priority), bytes_(bytes) {}

  // Announces events; holds this object as long as it lives.
  std::function<void()> Waker() {
    return [self = shared_from_this()] { self->Signal(); };
  }
  // Signals between the two wait. Without a Resume nothing is ever drained.
  void Hold() { signals_ = 1; }
  void Resume() {
    if (signals_.fetch_sub(1, std::memory_order_acq_rel) > 1) RunOnWorker();
  }

  // Handles all events that wait. After an exception Lose is called, then Drain again.
  virtual void Drain() = 0;
  // Gives the answer up: there was no memory for a part of it.
  virtual void Lose() noexcept = 0;

 private:
  void Signal() noexcept;
  void RunOnWorker() noexcept;  // only by the thread that may call Run
  void Run() noexcept;

  api::Service* const service_;
  const Priority priority_;
  const size_t bytes_;
  std::atomic<uint32_t> signals_{0};
};

}  // namespace penstock::dialects

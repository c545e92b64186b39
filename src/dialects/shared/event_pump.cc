#include "dialects/shared/event_pump.h"

#include "log/exception_status.h"

namespace penstock::dialects {

void EventPump::Signal() noexcept {
  if (signals_.fetch_add(1, std::memory_order_acq_rel) == 0) RunOnWorker();
}

void EventPump::RunOnWorker() noexcept {
  const bool handed = RunGuarded("stream", [this] {
    service_->FinishOnWorker(priority_, bytes_, [self = shared_from_this()] { self->Run(); });
  });
  if (!handed) Run();
}

void EventPump::Run() noexcept {
  const auto self = shared_from_this();  // the last event releases the last other owner
  uint32_t seen = 0;
  do {
    seen = signals_.load(std::memory_order_acquire);
    // Again after a failure: other events that wait give no signal of their own.
    while (!RunGuarded("stream", [this] { Drain(); })) Lose();
  } while (signals_.fetch_sub(seen, std::memory_order_acq_rel) != seen);
}

}  // namespace penstock::dialects

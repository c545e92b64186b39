// One admitted request: its slot among the concurrent ones, and the callback that answers it.
// However the request ends, also by an exception, the slot is released and the callback called
// exactly once.
#pragma once

#include <atomic>
#include <memory>
#include <utility>

#include "api/client_slots.h"
#include "api/service_metrics.h"
#include "api/types.h"
#include "log/exception_status.h"

namespace penstock::api {

// Releases what a request holds at its end; Service::Impl implements it.
class RequestSlots {
 public:
  // Called before the answer, as the client may send its next request at once.
  virtual void ReleaseSlot(const ClientShare& from) = 0;
  // Called last: the Service may be destroyed as soon as no request is left.
  virtual void CountAnswered() = 0;

 protected:
  ~RequestSlots() = default;
};

template <typename Response>
class AdmittedRequest {
 public:
  // Releases to `slots` what SetCounted and SetSlot say it holds.
  AdmittedRequest(RequestSlots* slots, ServiceMetrics* metrics, Behaviour behaviour,
                  Callback<Response> done)
      : slots_(slots), metrics_(metrics), behaviour_(behaviour), done_(std::move(done)) {}
  ~AdmittedRequest() {
    if (counted_ && !answered_.load()) {
      RunGuarded("request", [this] {
        Answer(MakeStatus(StatusCode::kInternal,
                          "the request was lost by a failed allocation or a bug; the log of the "
                          "server says more"));
      });
    }
    if (has_slot_ && !answered_.load()) slots_->ReleaseSlot(from_);
    done_ = nullptr;
    run_.reset();
    if (counted_) slots_->CountAnswered();
  }
  AdmittedRequest(const AdmittedRequest&) = delete;
  AdmittedRequest& operator=(const AdmittedRequest&) = delete;

  // The request is counted: the destructor answers it if it is not answered, and counts it out.
  void SetCounted() { counted_ = true; }
  void SetSlot(const ClientShare& from, std::shared_ptr<const void> run) {
    has_slot_ = true;
    from_ = from;
    run_ = std::move(run);
  }

  // Only the first answer counts.
  void Answer(Expected<Response> result) {
    if (answered_.exchange(true)) return;
    // Nothing that allocates before the slot is released: the destructor leaves it to this.
    if (has_slot_) slots_->ReleaseSlot(from_);
    const std::chrono::duration<double> took = Clock::now() - start_;
    metrics_->CountRequest(behaviour_, result.code(), has_slot_ ? took.count() : 0);
    done_(std::move(result));
  }

 private:
  RequestSlots* const slots_;
  ServiceMetrics* const metrics_;
  const Behaviour behaviour_;
  const Clock::time_point start_ = Clock::now();
  Callback<Response> done_;
  std::shared_ptr<const void> run_;  // the bulk run it belongs to
  bool counted_ = false;
  bool has_slot_ = false;
  ClientShare from_;
  std::atomic<bool> answered_{false};
};

}  // namespace penstock::api

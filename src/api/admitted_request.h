// One admitted request: its slot among the concurrent ones, and the callback that answers it.
// However the request ends, also by an exception, the slot is released and the callback called
// exactly once.
#pragma once

#include <atomic>
#include <memory>
#include <utility>

#include "api/service_metrics.h"
#include "api/types.h"
#include "common/exception_status.h"

namespace penstock {

// Releases what a request holds at its end; Service::Impl implements it.
class RequestSlots {
 public:
  // Called before the answer, as the client may send its next request at once.
  virtual void ReleaseSlot() = 0;
  // Called last: the Service may be destroyed as soon as no request is left.
  virtual void CountAnswered() = 0;

 protected:
  ~RequestSlots() = default;
};

template <typename Response>
class AdmittedRequest {
 public:
  // Releases to `places` what SetCounted and SetSlot say it holds.
  AdmittedRequest(RequestSlots* places, ServiceMetrics* metrics, Behaviour behaviour,
                  Callback<Response> done)
      : places_(places), metrics_(metrics), behaviour_(behaviour), done_(std::move(done)) {}
  ~AdmittedRequest() {
    if (counted_ && !answered_.load()) {
      RunGuarded("request", [this] {
        Answer(
            Status::Internal("the request was lost by a failed allocation or a bug; the log of "
                             "the server says more"));
      });
    }
    if (placed_ && !answered_.load()) places_->ReleaseSlot();
    done_ = nullptr;
    run_.reset();
    if (counted_) places_->CountAnswered();
  }
  AdmittedRequest(const AdmittedRequest&) = delete;
  AdmittedRequest& operator=(const AdmittedRequest&) = delete;

  // The request is counted: the destructor answers it if it is not answered, and counts it out.
  void SetCounted() { counted_ = true; }
  void SetSlot(std::shared_ptr<const void> run) {
    placed_ = true;
    run_ = std::move(run);
  }

  // Only the first answer counts.
  void Answer(Expected<Response> result) {
    if (answered_.exchange(true)) return;
    const std::chrono::duration<double> took = Clock::now() - start_;
    metrics_->CountRequest(behaviour_, result.status().code(), placed_ ? took.count() : 0);
    if (placed_) places_->ReleaseSlot();
    done_(std::move(result));
  }

 private:
  RequestSlots* const places_;
  ServiceMetrics* const metrics_;
  const Behaviour behaviour_;
  const Clock::time_point start_ = Clock::now();
  Callback<Response> done_;
  std::shared_ptr<const void> run_;  // the bulk run it belongs to
  bool counted_ = false;
  bool placed_ = false;
  std::atomic<bool> answered_{false};
};

}  // namespace penstock

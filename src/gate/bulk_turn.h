// BulkTurn: a turn at the gate for work outside any queue, such as batches run while a model loads.
// In the bulk class, so models that serve interactive work go first and none waits for more than
// the batch that runs; bulk batches are short meanwhile. Waits until granted.
#pragma once

#include "gate/compute_gate.h"
#include "threads/request_context.h"

namespace penstock::gate {

class BulkTurn {
 public:
  struct Client final : GateClient {
    GateDemand Demand() const override { return {.bulk = true, .bulk_pending = true}; }
  };

  explicit BulkTurn(ComputeGate* gate) : BulkTurn(gate, nullptr) {}
  // `client`: of all turns whose times count together; it outlives them. Null: of this one only.
  BulkTurn(ComputeGate* gate, Client* client) : turn_(gate, client != nullptr ? client : &own_) {
    const std::chrono::nanoseconds now = Clock::now().time_since_epoch();
    gate->SeeLoad(now.count());
    ComputeGate::Answer answer = turn_.Ask();
    while (answer != ComputeGate::Answer::kGranted) {
      answer = answer == ComputeGate::Answer::kWaits ? turn_.Wait() : turn_.Ask();
    }
    begin_ = Clock::now();
  }
  ~BulkTurn() {
    const std::chrono::nanoseconds took = Clock::now() - begin_;
    turn_.End(device_ns_ > 0 ? device_ns_ : took.count(), {});
    turn_.Drop();
  }
  // What the work took of a device, which has other batches in line; 0: the time since the turn began
  // counts.
  void SetDeviceTime(double seconds) { device_ns_ = static_cast<int64_t>(seconds * 1e9); }
  BulkTurn(const BulkTurn&) = delete;
  BulkTurn& operator=(const BulkTurn&) = delete;

 private:
  Client own_;
  ComputeGate::Turn turn_;
  Clock::time_point begin_;
  int64_t device_ns_ = 0;
};

}  // namespace penstock::gate

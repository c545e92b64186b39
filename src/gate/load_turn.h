// LoadTurn: the turns of one load. A load is many short works, and for a turn each could wait for a
// whole batch of others: so works in a row share a turn, for a while.
#pragma once

#include <optional>

#include "base/status.h"
#include "gate/bulk_turn.h"

namespace penstock::gate {

// How long works share a turn: once it has been held for so long, it is given back at the end of a
// work.
struct LoadTurnLimits {
  Clock::duration beside_interactive = std::chrono::milliseconds(5);  // seen within a second
  Clock::duration beside_bulk = std::chrono::milliseconds(50);
};

// One thread. The turn is held between two works, so GiveBack goes before what may take long, such
// as reading a file.
class LoadTurn {
 public:
  explicit LoadTurn(ComputeGate* gate, const LoadTurnLimits& limits = {})
      : gate_(gate), limits_(limits) {}
  LoadTurn(const LoadTurn&) = delete;
  LoadTurn& operator=(const LoadTurn&) = delete;

  // Waits for a turn, unless one is held and not over.
  void Begin() {
    GiveBackIfOver();
    if (turn_) return;
    turn_.emplace(gate_, &client_);
    device_s_ = 0;
    began_ = Clock::now();
  }
  // A work is over, which took `device_s` of a device that has other batches in line; 0: what it took
  // of the clock.
  void End(double device_s = 0) { EndAt(Clock::now(), device_s); }
  void EndAt(Clock::time_point now, double device_s = 0) {
    PENSTOCK_CHECK(turn_.has_value());
    device_s_ += device_s;
    turn_->SetDeviceTime(device_s_);
    if (IsOver(now)) GiveBack();
  }
  void GiveBack() { turn_.reset(); }
  // Between two works, where what lies between takes long.
  void GiveBackIfOver() {
    if (turn_ && IsOver(Clock::now())) GiveBack();
  }
  bool held() const { return turn_.has_value(); }

 private:
  bool IsOver(Clock::time_point now) const {
    const std::chrono::nanoseconds time = now.time_since_epoch();
    const bool interactive = gate_->InteractiveSeen(time.count());
    return now - began_ >= (interactive ? limits_.beside_interactive : limits_.beside_bulk);
  }

  ComputeGate* const gate_;
  const LoadTurnLimits limits_;
  BulkTurn::Client client_;  // one for all turns: their times count together
  std::optional<BulkTurn> turn_;
  Clock::time_point began_;  // of the turn that is held
  double device_s_ = 0;      // of its works
};

}  // namespace penstock::gate

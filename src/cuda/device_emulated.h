// The emulated device: kernels run in the emulator, when an event is waited for. Copies to and from
// pinned memory happen then as well, so that what is written over too early is seen.
//
// Memory is NaN after it is allocated. Calls fail on demand, and the device can be lost.
#pragma once

#include <cstdint>
#include <memory>

#include "cuda/device.h"
#include "cuda/emulator.h"

namespace penstock::cuda {

struct EmulatedOptions {
  TensorCore tensor_core = kHopper;
  emulator::WakeOrder order = emulator::WakeOrder::kFirst;
  uint64_t seed = 1;
  bool late_copies = false;
  // Every other kernel begins before the one before it has ended, up to its wait.
  bool overlaps = false;
  uint64_t memory_bytes = uint64_t{1} << 30;
  int multiprocessors = 4;  // that it says it has
};

class EmulatedDevice : public Device {
 public:
  // The n-th call from now on fails, 1: the next one; with `lost` all after it do as well.
  virtual void FailCall(int64_t n, bool lost) = 0;
  virtual uint64_t allocated_bytes() const = 0;  // of the device, and pinned
  virtual uint64_t kernels_run() const = 0;
  virtual uint64_t graphs() const = 0;           // that are kept
  virtual uint64_t graphs_captured() const = 0;  // since the start
};

std::unique_ptr<EmulatedDevice> NewEmulatedDevice(const EmulatedOptions& options);

}  // namespace penstock::cuda

// CheckMemory: what a case of the self check gives a kernel, and its hash.
#pragma once

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <span>
#include <vector>

#include "base/int_math.h"
#include "cuda/device.h"
#include "cuda/epilogue-inl.h"

namespace penstock::cuda {

// A region of the memory of a case, which the host has a copy of.
template <typename T>
struct Region {
  T* on_device;
  std::span<T> on_host;
};

// The memory of a case, laid out alike on the host and on the device: inputs, then results.
class CheckMemory {
 public:
  static constexpr uint64_t kMemoryBytes = uint64_t{2} << 20;

  static Expected<CheckMemory> Make(Device* device) {
    CheckMemory memory(device);
    PENSTOCK_ASSIGN_OR_RETURN(memory.device_memory_, DeviceBlock::OnDevice(device, kMemoryBytes));
    PENSTOCK_ASSIGN_OR_RETURN(memory.host_memory_, DeviceBlock::OnHost(device, kMemoryBytes));
    PENSTOCK_ASSIGN_OR_RETURN(memory.event_, device->NewEvent());
    memory.has_event_ = true;
    return memory;
  }
  CheckMemory(CheckMemory&& other) noexcept = default;
  CheckMemory& operator=(CheckMemory&&) = delete;
  ~CheckMemory() {
    if (device_memory_.data() != nullptr && has_event_) device_->FreeEvent(event_);
  }

  // Another case begins. Numbers that are drawn depend on the kernel alone.
  void Begin(KernelId kernel) {
    used_ = 0;
    draws_ = static_cast<uint64_t>(kernel) << 32;
    std::memset(host_memory_.data(), 0xFF, kMemoryBytes);
  }

  template <typename T>
  Region<T> Room(size_t count) {
    const uint64_t at = used_;
    used_ = RoundUp(used_ + count * sizeof(T), 256);
    PENSTOCK_CHECK(used_ <= kMemoryBytes);
    return {reinterpret_cast<T*>(device_memory_.data() + at),
            {reinterpret_cast<T*>(host_memory_.data() + at), count}};
  }
  // Uniform between -scale and scale.
  const float* Floats(size_t count, float scale) {
    const Region<float> region = Room<float>(count);
    for (float& value : region.on_host) value = Draw(scale);
    return region.on_device;
  }
  Region<uint16_t> Operands(size_t count, float scale, bool half) {
    const Region<uint16_t> region = Room<uint16_t>(count);
    for (uint16_t& value : region.on_host) {
      value = static_cast<uint16_t>(PackOperands(Draw(scale), 0, half));
    }
    return region;
  }
  template <typename T>
  const T* Put(std::initializer_list<T> values) {
    const Region<T> region = Room<T>(values.size());
    std::copy(values.begin(), values.end(), region.on_host.begin());
    return region.on_device;
  }

  // Copies all in, runs the launches, copies all out. Results are then in the regions of the host.
  Status Run(std::span<const KernelLaunch> launches) {
    PENSTOCK_RETURN_IF_ERROR(device_->CopyIn(device_memory_.data(), host_memory_.data(), used_));
    for (const KernelLaunch& launch : launches) PENSTOCK_RETURN_IF_ERROR(device_->Launch(launch));
    PENSTOCK_RETURN_IF_ERROR(device_->CopyOut(host_memory_.data(), device_memory_.data(), used_));
    PENSTOCK_RETURN_IF_ERROR(device_->Record(event_));
    return device_->Wait(event_);
  }
  // All bytes, inputs as well: a kernel that writes outside its result is seen. FNV-1a
  // (RFC 9923).
  uint64_t Hash() const {
    uint64_t hash = 0xCBF29CE484222325;
    for (uint64_t i = 0; i < used_; ++i) {
      hash = (hash ^ std::to_integer<uint64_t>(host_memory_.data()[i])) * 0x100000001B3;
    }
    return hash;
  }

 private:
  explicit CheckMemory(Device* device) : device_(device) {}

  // SplitMix64 of a counter (Steele, Lea and Flood 2014, doi 10.1145/2660193.2660195).
  float Draw(float scale) {
    uint64_t z = ++draws_ * 0x9E3779B97F4A7C15;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
    z = (z ^ z >> 27) * 0x94D049BB133111EB;
    return (static_cast<float>((z ^ z >> 31) >> 40) * 0x1p-23F - 1.0F) * scale;
  }

  Device* const device_;
  DeviceBlock device_memory_, host_memory_;
  EventId event_{};
  bool has_event_ = false;
  uint64_t used_ = 0, draws_ = 0;
};

// Launches of a kernel; empty: it is not one of programs with a cache.
std::vector<KernelLaunch> CachedLaunches(KernelId id, CheckMemory* memory,
                                         const DeviceInfo& device);

}  // namespace penstock::cuda

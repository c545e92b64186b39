// Devices: where models lie and compute. Each has a backend, and memory that its models share.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "program/backend.h"

namespace penstock::devices {

// Memory for models: bytes if they are not 0, else a share of what is available at the start.
struct MemoryLimit {
  uint64_t bytes = 0;
  double share = 1;
  uint64_t Of(uint64_t available) const {
    return bytes > 0 ? bytes : static_cast<uint64_t>(share * static_cast<double>(available));
  }
};

struct Device {
  std::string name;                     // "cpu"
  program::Backend* backend = nullptr;  // outlives all that use the device
  uint64_t memory_bytes = 0;            // of all its models together; 0: not bounded
};

// Never empty. The first one is the host, and that of models that name none.
class Devices {
 public:
  static constexpr const char* kAuto = "auto";

  // One device, the host.
  Devices(program::Backend* backend, uint64_t memory_bytes = 0)
      : list_{{"cpu", backend, memory_bytes}} {}
  // The first one is the host.
  explicit Devices(std::vector<Device> list) : list_(std::move(list)) {}

  const Device& host() const { return list_.front(); }
  size_t size() const { return list_.size(); }
  const std::vector<Device>& list() const { return list_; }
  // Where a model lies; "" and kAuto: on the host. Null: there is no such device.
  const Device* Find(const std::string& name) const {
    if (name.empty() || name == kAuto) return &list_.front();
    for (const Device& device : list_) {
      if (device.name == name) return &device;
    }
    return nullptr;
  }
  // "cpu, other".
  std::string Names() const {
    std::string names;
    for (const Device& device : list_) names += (names.empty() ? "" : ", ") + device.name;
    return names;
  }

 private:
  std::vector<Device> list_;
};

}  // namespace penstock::devices

// The one place that makes backends: a row for each kind of device that models can lie and compute
// on. A device that is asked for and is not on this machine is refused by name.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "devices/devices.h"
#include "program/backend.h"
#include "program/kernel_difference.h"
#include "program/kernel_time.h"

namespace penstock::devices {

struct DeviceOptions {
  std::string device = Devices::kAuto;  // as ParseDevice
  int threads = 0;                      // those of CpuOptions
  bool pin = true;
  std::string isa;
};

// kAuto, or the name of a device: "cpu", "cuda" (also given as "cuda:0"), "cuda:1". kInvalidArgument
// lists them.
Expected<std::string> ParseDevice(const std::string& name);
// Whether a device of ParseDevice is the host.
bool IsHost(const std::string& name);
// "cpu, ...": of all devices that this program knows.
std::string DeviceNames();

// Errors: those of ParseDevice, and of the device.
Expected<std::unique_ptr<program::Backend>> NewBackend(const DeviceOptions& options);

// A device of this machine, and its memory.
struct MadeDevice {
  std::string name;
  std::unique_ptr<program::Backend> backend;
};
// The host first, then those of `names`, each once. No other device is looked at: a driver takes
// time and memory. Errors: those of ParseDevice, and of the devices.
Expected<std::vector<MadeDevice>> NewDevices(const DeviceOptions& options,
                                             std::span<const std::string> names);
// As a registry takes them: the host's models may have `host_bytes`, those of each other device
// `others`. With 0 the host is not bounded, and the others are by bytes alone.
Devices DevicesOf(const std::vector<MadeDevice>& made, uint64_t host_bytes,
                  const MemoryLimit& others = {});

// Each kernel of a device (kAuto: those that are taken where none is named) beside plain arithmetic,
// or, of a GPU, its bits beside the emulator's. Errors: those of ParseDevice, and of the device.
Expected<std::vector<program::KernelDifference>> CheckKernels(const std::string& device);

// What each kernel of a device that is not the host takes. kUnsupported: it is the host.
Expected<std::vector<program::KernelTime>> TimeKernels(const std::string& device,
                                                       const program::KernelTimeOptions& options);

}  // namespace penstock::devices

// The one place that makes backends: a row for each device that models can lie and compute on.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/status.h"
#include "devices/devices.h"
#include "program/backend.h"
#include "program/kernel_difference.h"

namespace penstock {

struct DeviceOptions {
  std::string device = Devices::kAuto;  // as ParseDevice; kAuto: the best there is
  int threads = 0;                      // those of CpuOptions
  bool pin = true;
  std::string isa;
};

// kAuto, or the name of a device; kInvalidArgument lists them.
Expected<std::string> ParseDevice(const std::string& name);
// "cpu, ...": of all devices that this program knows.
std::string DeviceNames();

// Errors: those of ParseDevice, and of the device.
Expected<std::unique_ptr<Backend>> NewBackend(const DeviceOptions& options);

// Each kernel of each device that this machine has beside the plain one, on random input.
std::vector<KernelDifference> CheckKernels();

}  // namespace penstock

#include "devices/backends.h"

#include <fmt/format.h>

#include <algorithm>

#include "cpu/cpu_backend.h"
#include "cpu/self_check.h"

namespace penstock {
namespace {

struct DeviceRow {
  const char* name;
  Expected<std::unique_ptr<Backend>> (*make)(const DeviceOptions& options);
  std::vector<KernelDifference> (*check_kernels)();
};

// The best one first.
constexpr DeviceRow kDevices[] = {
    {"cpu",
     [](const DeviceOptions& options) {
       return NewCpuBackend({options.threads, options.pin, options.isa});
     },
     cpu::CheckKernels},
};

}  // namespace

std::string DeviceNames() {
  std::string names;
  for (const DeviceRow& row : kDevices)
    names += (names.empty() ? "" : ", ") + std::string(row.name);
  return names;
}

Expected<std::string> ParseDevice(const std::string& name) {
  if (name == Devices::kAuto) return name;
  for (const DeviceRow& row : kDevices) {
    if (name == row.name) return name;
  }
  return Status::InvalidArgument(fmt::format("there is no device '{:.100}'; known: {}, {}", name,
                                             Devices::kAuto, DeviceNames()),
                                 "device");
}

Expected<std::unique_ptr<Backend>> NewBackend(const DeviceOptions& options) {
  PENSTOCK_RETURN_IF_ERROR(ParseDevice(options.device).status());
  if (options.device == Devices::kAuto) return kDevices[0].make(options);
  return std::find_if(std::begin(kDevices), std::end(kDevices),
                      [&](const DeviceRow& row) { return options.device == row.name; })
      ->make(options);
}

std::vector<KernelDifference> CheckKernels() {
  std::vector<KernelDifference> all;
  for (const DeviceRow& row : kDevices) {
    for (KernelDifference& one : row.check_kernels()) all.push_back(std::move(one));
  }
  return all;
}

}  // namespace penstock

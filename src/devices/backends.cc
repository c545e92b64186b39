#include "devices/backends.h"

#include <fmt/format.h>

#include <algorithm>

#include "cpu/cpu_backend.h"
#include "cpu/self_check.h"

namespace penstock::devices {
namespace {

struct DeviceRow {
  const char* name;
  Expected<std::unique_ptr<program::Backend>> (*make)(const DeviceOptions& options);
  bool (*is_here)();  // on this machine
  std::vector<program::KernelDifference> (*check_kernels)();
};

bool Always() { return true; }

// The host first, the best one last.
constexpr DeviceRow kDevices[] = {
    {"cpu",
     [](const DeviceOptions& options) {
       return cpu::NewCpuBackend({options.threads, options.pin, options.isa});
     },
     Always, cpu::CheckKernels},
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

Expected<std::unique_ptr<program::Backend>> NewBackend(const DeviceOptions& options) {
  PENSTOCK_RETURN_IF_ERROR(ParseDevice(options.device).status());
  const bool any = options.device == Devices::kAuto;
  return std::find_if(
             std::rbegin(kDevices), std::rend(kDevices),
             [&](const DeviceRow& row) { return any ? row.is_here() : options.device == row.name; })
      ->make(options);
}

Expected<std::vector<MadeDevice>> NewDevices(const DeviceOptions& options) {
  std::vector<MadeDevice> made;
  for (const DeviceRow& row : kDevices) {
    if (!row.is_here()) continue;
    PENSTOCK_ASSIGN_OR_RETURN(auto backend, row.make(options));
    made.push_back({row.name, std::move(backend)});
  }
  return made;
}

Devices DevicesOf(const std::vector<MadeDevice>& made, uint64_t host_bytes) {
  std::vector<Device> list;
  for (const MadeDevice& one : made) {
    const uint64_t other_bytes = host_bytes == 0 ? 0 : one.backend->AvailableBytes();
    list.push_back({one.name, one.backend.get(), list.empty() ? host_bytes : other_bytes});
  }
  return Devices(std::move(list));
}

std::vector<program::KernelDifference> CheckKernels() {
  std::vector<program::KernelDifference> all;
  for (const DeviceRow& row : kDevices) {
    if (!row.is_here()) continue;
    for (program::KernelDifference& one : row.check_kernels()) all.push_back(std::move(one));
  }
  return all;
}

}  // namespace penstock::devices

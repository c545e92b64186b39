#include "devices/backends.h"

#include <fmt/format.h>

#include <algorithm>

#include "cpu/cpu_backend.h"
#include "cpu/self_check.h"
#include "cuda/cuda_backend.h"
#include "cuda/device_driver.h"

namespace penstock::devices {
namespace {

struct DeviceRow {
  const char* name;
  Expected<std::unique_ptr<program::Backend>> (*make)(const DeviceOptions& options);
  Status (*is_here)();  // on this machine; else why not
  bool automatic;       // taken where none is named
  std::vector<program::KernelDifference> (*check_kernels)();
};

Status Always() { return Status::Ok(); }

Expected<std::unique_ptr<program::Backend>> NewGpu() {
  PENSTOCK_ASSIGN_OR_RETURN(std::unique_ptr<cuda::Device> device, cuda::OpenDriverDevice());
  return cuda::NewCudaBackend(std::move(device));
}

// The host first, the best one last.
constexpr DeviceRow kDevices[] = {
    {"cpu",
     [](const DeviceOptions& options) {
       return cpu::NewCpuBackend({options.threads, options.pin, options.isa});
     },
     Always, true, cpu::CheckKernels},
    // Named only: nothing of it has been measured on a GPU.
    {"cuda", [](const DeviceOptions&) { return NewGpu(); },
     [] { return cuda::OpenDriverDevice().status(); }, false,
     [] { return std::vector<program::KernelDifference>(); }},
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

Status CheckDevice(const std::string& name) {
  PENSTOCK_RETURN_IF_ERROR(ParseDevice(name).status());
  for (const DeviceRow& row : kDevices) {
    if (name == row.name) return row.is_here().Annotate("device '" + name + "'");
  }
  return Status::Ok();
}

Expected<std::unique_ptr<program::Backend>> NewBackend(const DeviceOptions& options) {
  PENSTOCK_RETURN_IF_ERROR(ParseDevice(options.device).status());
  const bool any = options.device == Devices::kAuto;
  return std::find_if(
             std::rbegin(kDevices), std::rend(kDevices),
             [&](const DeviceRow& row) { return any ? row.automatic : options.device == row.name; })
      ->make(options);
}

Expected<std::vector<MadeDevice>> NewDevices(const DeviceOptions& options) {
  std::vector<MadeDevice> made;
  for (const DeviceRow& row : kDevices) {
    auto backend = row.make(options);
    if (!backend.ok() && !row.automatic) continue;  // it is not on this machine
    PENSTOCK_RETURN_IF_ERROR(backend.status());
    made.push_back({row.name, *std::move(backend)});
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
    if (!row.is_here().ok()) continue;
    for (program::KernelDifference& one : row.check_kernels()) all.push_back(std::move(one));
  }
  return all;
}

}  // namespace penstock::devices

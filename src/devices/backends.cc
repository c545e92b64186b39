#include "devices/backends.h"

#include <fmt/format.h>

#include <algorithm>

#include "cpu/cpu_backend.h"
#include "cpu/self_check.h"
#include "cuda/cuda_backend.h"
#include "cuda/device_driver.h"
#include "cuda/self_check.h"

namespace penstock::devices {
namespace {

struct DeviceRow {
  const char* name;
  Expected<std::unique_ptr<program::Backend>> (*make)(const DeviceOptions& options);
  Status (*is_here)();  // on this machine; else why not
  bool automatic;       // taken where none is named
  Expected<std::vector<program::KernelDifference>> (*check_kernels)();
};

Status Always() { return Status::Ok(); }

Expected<std::unique_ptr<program::Backend>> NewGpu() {
  PENSTOCK_ASSIGN_OR_RETURN(std::unique_ptr<cuda::Device> device, cuda::OpenDriverDevice());
  return cuda::NewCudaBackend(std::move(device));
}

Expected<std::vector<program::KernelDifference>> CheckGpu() {
  PENSTOCK_ASSIGN_OR_RETURN(const std::unique_ptr<cuda::Device> device, cuda::OpenDriverDevice());
  PENSTOCK_ASSIGN_OR_RETURN(const auto results, cuda::CheckKernelHashes(device.get()));
  std::vector<program::KernelDifference> all;
  for (const cuda::KernelHash& one : results) {
    all.push_back({std::string("cuda ") + one.kernel, one.ok() ? 0.0 : 1.0, 0});
  }
  return all;
}

// The host first, the best one last.
constexpr DeviceRow kDevices[] = {
    {"cpu",
     [](const DeviceOptions& options) {
       return cpu::NewCpuBackend({options.threads, options.pin, options.isa});
     },
     Always, true,
     [] { return Expected<std::vector<program::KernelDifference>>(cpu::CheckKernels()); }},
    // Named only: nothing of it has been measured on a GPU.
    {"cuda", [](const DeviceOptions&) { return NewGpu(); },
     [] { return cuda::OpenDriverDevice().status(); }, false, CheckGpu},
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

bool IsHost(const std::string& name) { return name == Devices::kAuto || name == kDevices[0].name; }

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

Expected<std::vector<program::KernelDifference>> CheckKernels(const std::string& device) {
  PENSTOCK_RETURN_IF_ERROR(ParseDevice(device).status());
  std::vector<program::KernelDifference> all;
  for (const DeviceRow& row : kDevices) {
    if (device == Devices::kAuto ? !row.automatic : device != row.name) continue;
    PENSTOCK_ASSIGN_OR_RETURN(std::vector<program::KernelDifference> found, row.check_kernels());
    for (program::KernelDifference& one : found) all.push_back(std::move(one));
  }
  return all;
}

}  // namespace penstock::devices

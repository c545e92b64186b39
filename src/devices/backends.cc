#include "devices/backends.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <iterator>

#include "cpu/cpu_backend.h"
#include "cpu/self_check.h"
#include "cuda/cuda_backend.h"
#include "cuda/device_driver.h"
#include "cuda/kernel_times.h"
#include "cuda/self_check.h"

namespace penstock::devices {
namespace {

// A kind of device. Where there may be several on a machine they are numbered from 0, and the first
// one has the kind's name.
struct DeviceRow {
  const char* name;
  bool several;
  bool automatic;  // taken where none is named
  Expected<std::unique_ptr<program::Backend>> (*make)(const DeviceOptions& options, int number);
  Expected<std::vector<program::KernelDifference>> (*check_kernels)(int number);
  Expected<std::vector<program::KernelTime>> (*time_kernels)(
      int number, const program::KernelTimeOptions& options);
};

constexpr uint32_t kNumberMax = 63;

Expected<std::unique_ptr<program::Backend>> NewGpu(const DeviceOptions&, int number) {
  PENSTOCK_ASSIGN_OR_RETURN(std::unique_ptr<cuda::Device> device,
                            cuda::OpenDriverDevice({.number = number}));
  return cuda::NewCudaBackend(std::move(device));
}

Expected<std::vector<program::KernelDifference>> CheckGpu(int number) {
  PENSTOCK_ASSIGN_OR_RETURN(const std::unique_ptr<cuda::Device> device,
                            cuda::OpenDriverDevice({.number = number}));
  PENSTOCK_ASSIGN_OR_RETURN(const auto results, cuda::CheckKernelHashes(device.get()));
  std::vector<program::KernelDifference> all;
  for (const cuda::KernelHash& one : results) {
    all.push_back({std::string("cuda ") + one.kernel, one.ok() ? 0.0 : 1.0, 0});
  }
  return all;
}

Expected<std::vector<program::KernelTime>> TimeGpu(int number,
                                                   const program::KernelTimeOptions& options) {
  PENSTOCK_ASSIGN_OR_RETURN(const std::unique_ptr<cuda::Device> device,
                            cuda::OpenDriverDevice({.number = number}));
  return cuda::TimeKernels(device.get(), options);
}

// The host first, the best one last.
constexpr DeviceRow kDevices[] = {
    {"cpu", false, true,
     [](const DeviceOptions& options, int) {
       return cpu::NewCpuBackend({options.threads, options.pin, options.isa});
     },
     [](int) { return Expected<std::vector<program::KernelDifference>>(cpu::CheckKernels()); },
     [](int, const program::KernelTimeOptions&) -> Expected<std::vector<program::KernelTime>> {
       return Status::Unsupported(
           "kernels of the CPU are timed by `penstock-lab kernels`, those of a GPU with --device "
           "cuda");
     }},
    // Named only: nothing of it has been measured on a GPU.
    {"cuda", true, false, NewGpu, CheckGpu, TimeGpu},
};

struct NumberedDevice {
  const DeviceRow* row;
  int number;
  std::string Name() const {
    return number == 0 ? row->name : fmt::format("{}:{}", row->name, number);
  }
  // Errors name it, but for the host.
  Expected<std::unique_ptr<program::Backend>> Make(const DeviceOptions& options) const {
    auto made = row->make(options, number);
    if (!made.ok() && row != kDevices) return made.status().Annotate("device '" + Name() + "'");
    return made;
  }
};

// kAuto: the best of those that are taken without a name.
Expected<NumberedDevice> FindDevice(const std::string& name) {
  for (auto row = std::rbegin(kDevices); row != std::rend(kDevices); ++row) {
    if (name == Devices::kAuto ? row->automatic : name == row->name)
      return NumberedDevice{&*row, 0};
    const std::string prefix = std::string(row->name) + ":";
    if (!row->several || !name.starts_with(prefix)) continue;
    uint32_t number = 0;  // unsigned: a minus is refused
    const char* const end = name.data() + name.size();
    const auto read = std::from_chars(name.data() + prefix.size(), end, number);
    if (read.ec == std::errc() && read.ptr == end && number <= kNumberMax) {
      return NumberedDevice{&*row, static_cast<int>(number)};
    }
  }
  return Status::InvalidArgument(fmt::format("there is no device '{:.100}'; known: {}, {}", name,
                                             Devices::kAuto, DeviceNames()),
                                 "device");
}

}  // namespace

std::string DeviceNames() {
  std::string names;
  for (const DeviceRow& row : kDevices) {
    names += (names.empty() ? "" : ", ") + std::string(row.name);
    if (row.several) names += fmt::format(", {}:N", row.name);
  }
  return names;
}

Expected<std::string> ParseDevice(const std::string& name) {
  if (name == Devices::kAuto) return name;
  PENSTOCK_ASSIGN_OR_RETURN(const NumberedDevice device, FindDevice(name));
  return device.Name();
}

bool IsHost(const std::string& name) {
  const auto device = FindDevice(name);
  return device.ok() && device->row == kDevices;
}

Expected<std::unique_ptr<program::Backend>> NewBackend(const DeviceOptions& options) {
  PENSTOCK_ASSIGN_OR_RETURN(const NumberedDevice device, FindDevice(options.device));
  return device.Make(options);
}

Expected<std::vector<MadeDevice>> NewDevices(const DeviceOptions& options,
                                             std::span<const std::string> names) {
  std::vector<NumberedDevice> wanted = {{kDevices, 0}};  // the host
  for (const std::string& name : names) {
    PENSTOCK_ASSIGN_OR_RETURN(const NumberedDevice device, FindDevice(name));
    const auto is_it = [&](const NumberedDevice& one) { return one.Name() == device.Name(); };
    if (std::none_of(wanted.begin(), wanted.end(), is_it)) wanted.push_back(device);
  }
  std::vector<MadeDevice> made;
  for (const NumberedDevice& device : wanted) {
    PENSTOCK_ASSIGN_OR_RETURN(auto backend, device.Make(options));
    made.push_back({device.Name(), std::move(backend)});
  }
  return made;
}

Devices DevicesOf(const std::vector<MadeDevice>& made, uint64_t host_bytes,
                  const MemoryLimit& others) {
  std::vector<Device> list;
  for (const MadeDevice& one : made) {
    const bool unbounded = host_bytes == 0 && others.bytes == 0;
    const uint64_t other_bytes = unbounded ? 0 : others.Of(one.backend->AvailableBytes());
    list.push_back({one.name, one.backend.get(), list.empty() ? host_bytes : other_bytes});
  }
  return Devices(std::move(list));
}

Expected<std::vector<program::KernelDifference>> CheckKernels(const std::string& device) {
  PENSTOCK_ASSIGN_OR_RETURN(const NumberedDevice found, FindDevice(device));
  return found.row->check_kernels(found.number);
}

Expected<std::vector<program::KernelTime>> TimeKernels(const std::string& device,
                                                       const program::KernelTimeOptions& options) {
  PENSTOCK_ASSIGN_OR_RETURN(const NumberedDevice found, FindDevice(device));
  return found.row->time_kernels(found.number, options);
}

}  // namespace penstock::devices

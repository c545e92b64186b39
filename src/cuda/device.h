// Device: a GPU, or the emulated one, as the backend sees it: memory, one stream of copies and
// kernels, graphs of kernels, events.
//
// What is put into the stream runs in its order, some time later; Wait tells when. Errors are
// Statuses: kResourceExhausted for memory that is not there, kUnavailable once the device is lost,
// for every call from then on. Free and Wait may be called from any thread; the rest by one thread
// at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>

#include "base/status.h"
#include "cuda/kernels.h"

namespace penstock::cuda {

struct DeviceInfo {
  std::string name;
  int major = 0, minor = 0;  // compute capability
  int multiprocessors = 0;
  uint64_t memory_bytes = 0;
  std::string driver;  // its version
  // Peak rates, by its clocks; 0: not known.
  double operations_per_s = 0;  // of tensor cores, 16-bit operands and float sums
  double bytes_per_s = 0;       // of its memory

  // Whether a kernel runs there: those with tile maps are for the tensor cores of 9.0 alone.
  bool Has(KernelId kernel) const { return major == 9 || !RowOf(kernel).has_tile_map; }
};

// A kernel, its grid and what it takes.
struct KernelLaunch {
  KernelId kernel = KernelId::kCount;
  int grid_x = 1, grid_y = 1;
  // May begin before the kernel before it has ended, where the device can; all kernels wait.
  bool early = true;
  alignas(alignof(TileMap)) std::array<std::byte, kArgsBytesMax> args{};

  template <typename Args>
  static KernelLaunch Of(KernelId kernel, int grid_x, int grid_y, const Args& args) {
    static_assert(std::is_trivially_copyable_v<Args> && sizeof(Args) <= kArgsBytesMax);
    KernelLaunch launch;
    launch.kernel = kernel;
    launch.grid_x = grid_x;
    launch.grid_y = grid_y;
    std::memcpy(launch.args.data(), &args, sizeof(args));
    return launch;
  }
};

// Blocks of `tile` that cover `count`.
inline int BlocksOf(int count, int tile) { return (count + tile - 1) / tile; }
// A product in 16-bit operands: `rows` of x and of the grid; `columns` of the result, with a gate those
// of both matrices.
KernelLaunch GemmLaunch(KernelId kernel, const GemmArgs& args, int rows, int columns,
                        const DeviceInfo& device);

enum class EventId : uint32_t {};
enum class GraphId : uint32_t {};

class Device {
 public:
  virtual ~Device() = default;
  virtual const DeviceInfo& info() const = 0;
  // What its memory has left; 0: it does not tell.
  virtual uint64_t AvailableBytes() const = 0;
  // kUnavailable once it is lost, with the reason. Any thread.
  virtual Status Health() const = 0;

  // At a multiple of 256 bytes, undefined at first. Free waits for what is in the stream.
  virtual Expected<std::byte*> Alloc(uint64_t bytes) = 0;
  virtual void Free(std::byte* at) = 0;
  // Memory of the host that copies read and write by themselves (pinned).
  virtual Expected<std::byte*> AllocHost(uint64_t bytes) = 0;
  virtual void FreeHost(std::byte* at) = 0;

  // Between memory of AllocHost and the device's. The host's is in use until the stream is past it.
  virtual Status CopyIn(std::byte* to, const std::byte* from, uint64_t bytes) = 0;
  virtual Status CopyOut(std::byte* to, const std::byte* from, uint64_t bytes) = 0;
  virtual Status Launch(const KernelLaunch& launch) = 0;
  // What is launched between the two is kept, and not run. Both calls, and Replay, which puts it
  // into the stream again and again.
  virtual Status BeginCapture() = 0;
  virtual Expected<GraphId> EndCapture() = 0;
  virtual Status Replay(GraphId graph) = 0;
  virtual void FreeGraph(GraphId graph) = 0;

  virtual Expected<EventId> NewEvent() = 0;
  virtual void FreeEvent(EventId event) = 0;
  // The event is what is in the stream so far; Wait returns once that is done.
  virtual Status Record(EventId event) = 0;
  virtual Status Wait(EventId event) = 0;
  // Seconds of the device between two events that were waited for.
  virtual double SecondsBetween(EventId begin, EventId end) const = 0;
};

// Memory of a device, or pinned memory of the host, that is freed with it.
class DeviceBlock {
 public:
  DeviceBlock() = default;
  DeviceBlock(Device* device, std::byte* data, uint64_t bytes, bool host)
      : device_(device), data_(data), bytes_(bytes), host_(host) {}
  DeviceBlock(DeviceBlock&& other) noexcept { *this = std::move(other); }
  DeviceBlock& operator=(DeviceBlock&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(host_, other.host_);
    return *this;
  }
  ~DeviceBlock() {
    if (data_ == nullptr) return;
    host_ ? device_->FreeHost(data_) : device_->Free(data_);
  }

  static Expected<DeviceBlock> OnDevice(Device* device, uint64_t bytes) {
    PENSTOCK_ASSIGN_OR_RETURN(std::byte* const data, device->Alloc(bytes));
    return DeviceBlock(device, data, bytes, false);
  }
  static Expected<DeviceBlock> OnHost(Device* device, uint64_t bytes) {
    PENSTOCK_ASSIGN_OR_RETURN(std::byte* const data, device->AllocHost(bytes));
    return DeviceBlock(device, data, bytes, true);
  }

  std::byte* data() const { return data_; }
  uint64_t bytes() const { return bytes_; }

 private:
  Device* device_ = nullptr;
  std::byte* data_ = nullptr;
  uint64_t bytes_ = 0;
  bool host_ = false;
};

}  // namespace penstock::cuda

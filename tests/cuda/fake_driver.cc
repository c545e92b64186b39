// A driver library of NVIDIA's names, whose one GPU is the emulated device: what opens a driver at
// run time is tested with it on any machine. Kernels are found by name; images are not read.
//
// Environment: PENSTOCK_FAKE_GPUS (1), PENSTOCK_FAKE_VERSION (13000), PENSTOCK_FAKE_CAPABILITY (90: 9.0), PENSTOCK_FAKE_LOST: after
// that many calls every one fails.
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "cuda/device_emulated.h"
#include "cuda/driver_api.h"

namespace {

using namespace penstock::cuda;          // NOLINT: this file is one library
using namespace penstock::cuda::driver;  // NOLINT

constexpr Result kInvalidValue = 1, kLaunchFailed = 719;

long Setting(const char* name, long otherwise) {
  const char* const value = std::getenv(name);
  return value != nullptr ? std::atol(value) : otherwise;
}

EmulatedDevice& Gpu() {
  static const auto gpu = NewEmulatedDevice(
      {.tensor_core = Setting("PENSTOCK_FAKE_CAPABILITY", 90) < 90 ? kAmpere : kHopper});
  return *gpu;
}

// Counts a call that may fail.
bool Lost() {
  static long calls = 0;
  const long most = Setting("PENSTOCK_FAKE_LOST", 0);
  return most > 0 && ++calls > most;
}

template <typename Function>
Result Do(Function&& function) {
  if (Lost()) return kLaunchFailed;
  const penstock::Status status = function();
  if (status.ok()) return kSuccess;
  return status.code() == penstock::StatusCode::kResourceExhausted ? kOutOfMemory : kLaunchFailed;
}

// What was put into the stream last, and launches that began before the one before had ended.
bool behind_kernel = false;
int overlaps_seen = 0;

// Handles are numbers.
template <typename Handle>
Handle HandleOf(uint64_t number) {
  return reinterpret_cast<Handle>(number);
}
template <typename Handle>
uint32_t NumberOf(Handle handle) {
  return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(handle));
}
std::byte* BytesAt(Pointer at) { return reinterpret_cast<std::byte*>(at); }

}  // namespace

extern "C" {

int FakeDriverOverlaps() { return overlaps_seen; }

Result cuInit(unsigned) { return Setting("PENSTOCK_FAKE_GPUS", 1) > 0 ? kSuccess : kNoDevice; }
Result cuGetErrorString(Result, const char** text) {
  *text = "a fake error";
  return kSuccess;
}
Result cuDriverGetVersion(int* version) {
  *version = static_cast<int>(Setting("PENSTOCK_FAKE_VERSION", 13000));
  return kSuccess;
}
Result cuDeviceGetCount(int* count) {
  *count = static_cast<int>(Setting("PENSTOCK_FAKE_GPUS", 1));
  return kSuccess;
}
Result cuDeviceGet(DeviceNumber* device, int number) {
  *device = number;
  return kSuccess;
}
Result cuDeviceGetName(char* name, int bytes, DeviceNumber) {
  std::strncpy(name, "Fake GPU", static_cast<size_t>(bytes));
  return kSuccess;
}
Result cuDeviceGetAttribute(int* value, int attribute, DeviceNumber) {
  const int capability = static_cast<int>(Setting("PENSTOCK_FAKE_CAPABILITY", 90));
  if (attribute == kCapabilityMajor) {
    *value = capability / 10;
  } else if (attribute == kCapabilityMinor) {
    *value = capability % 10;
  } else if (attribute == kMultiprocessorCount) {
    *value = Gpu().info().multiprocessors;
  } else {
    *value = 1000;  // clocks and bus
  }
  return kSuccess;
}
Result cuDeviceTotalMem_v2(size_t* bytes, DeviceNumber) {
  *bytes = Gpu().info().memory_bytes;
  return kSuccess;
}
Result cuDevicePrimaryCtxRetain(Context* context, DeviceNumber) {
  *context = HandleOf<Context>(1);
  return kSuccess;
}
Result cuDevicePrimaryCtxRelease_v2(DeviceNumber) { return kSuccess; }
Result cuCtxSetCurrent(Context) { return kSuccess; }
Result cuMemGetInfo_v2(size_t* free, size_t* all) {
  *free = Gpu().AvailableBytes();
  *all = Gpu().info().memory_bytes;
  return kSuccess;
}

Result cuMemAlloc_v2(Pointer* at, size_t bytes) {
  return Do([&] {
    const auto made = Gpu().Alloc(bytes);
    if (made.ok()) *at = reinterpret_cast<Pointer>(*made);
    return made.status();
  });
}
Result cuMemFree_v2(Pointer at) {
  Gpu().Free(BytesAt(at));
  return kSuccess;
}
Result cuMemHostAlloc(void** at, size_t bytes, unsigned) {
  return Do([&] {
    const auto made = Gpu().AllocHost(bytes);
    if (made.ok()) *at = *made;
    return made.status();
  });
}
Result cuMemFreeHost(void* at) {
  Gpu().FreeHost(static_cast<std::byte*>(at));
  return kSuccess;
}
Result cuMemcpyHtoDAsync_v2(Pointer to, const void* from, size_t bytes, Stream) {
  behind_kernel = false;
  return Do([&] { return Gpu().CopyIn(BytesAt(to), static_cast<const std::byte*>(from), bytes); });
}
Result cuMemcpyDtoHAsync_v2(void* to, Pointer from, size_t bytes, Stream) {
  behind_kernel = false;
  return Do([&] { return Gpu().CopyOut(static_cast<std::byte*>(to), BytesAt(from), bytes); });
}

Result cuStreamCreate(Stream* stream, unsigned) {
  *stream = HandleOf<Stream>(1);
  return kSuccess;
}
Result cuStreamDestroy_v2(Stream) { return kSuccess; }
Result cuStreamSynchronize(Stream) {
  return Do([&]() -> penstock::Status {
    const auto event = Gpu().NewEvent();
    PENSTOCK_RETURN_IF_ERROR(event.status());
    PENSTOCK_RETURN_IF_ERROR(Gpu().Record(*event));
    const penstock::Status status = Gpu().Wait(*event);
    Gpu().FreeEvent(*event);
    return status;
  });
}

Result cuModuleLoadData(Module* module, const void*) {
  *module = HandleOf<Module>(1);
  return kSuccess;
}
Result cuModuleUnload(Module) { return kSuccess; }
Result cuModuleGetFunction(Function* function, Module, const char* name) {
  for (size_t i = 0; i < kKernels; ++i) {
    if (std::string(RowOf(static_cast<KernelId>(i)).name) != name) continue;
    *function = HandleOf<Function>(i + 1);
    return kSuccess;
  }
  return kInvalidValue;
}
Result cuFuncSetAttribute(Function, int, int bytes) {
  const long capability = Setting("PENSTOCK_FAKE_CAPABILITY", 90);
  const int most = capability == 80 ? 163 << 10 : capability / 10 == 9 ? 227 << 10 : 99 << 10;
  return bytes <= most ? kSuccess : kInvalidValue;
}
Result cuLaunchKernelEx(const LaunchConfig* config, Function function, void** arguments,
                        void** extra) {
  KernelLaunch launch;
  launch.kernel = static_cast<KernelId>(NumberOf(function) - 1);
  launch.grid_x = static_cast<int>(config->grid_x);
  launch.grid_y = static_cast<int>(config->grid_y);
  const KernelRow& row = RowOf(launch.kernel);
  const bool overlaps = config->attribute_count == 1;
  const bool may_overlap = std::exchange(behind_kernel, true);
  const bool fits = config->grid_z == 1 && config->block_y == 1 && config->block_z == 1 &&
                    extra == nullptr && static_cast<int>(config->block_x) == row.threads &&
                    static_cast<int>(config->shared_bytes) == row.shared_bytes &&
                    config->attribute_count <= 1 &&
                    (!overlaps || (config->attributes[0].id == kProgrammaticSerialization &&
                                   config->attributes[0].value.allowed == 1 && may_overlap &&
                                   Setting("PENSTOCK_FAKE_CAPABILITY", 90) >= 90));
  if (!fits) return kInvalidValue;
  overlaps_seen += overlaps ? 1 : 0;
  std::memcpy(launch.args.data(), arguments[0], row.args_bytes);
  return Do([&] { return Gpu().Launch(launch); });
}

// As the emulator knows it.
Result cuTensorMapEncodeTiled(void* to, int type, unsigned rank, void* data, const uint64_t* sizes,
                              const uint64_t* strides, const uint32_t* tile, const uint32_t* steps,
                              int interleave, int swizzle, int promotion, int fill) {
  const bool aligned = reinterpret_cast<uintptr_t>(to) % 128 == 0 &&
                       reinterpret_cast<uintptr_t>(data) % 16 == 0 && strides[0] % 16 == 0;
  const bool fits = aligned && type == kUint16 && rank == 2 && tile[0] == 64 && tile[1] <= 256 &&
                    steps[0] == 1 && steps[1] == 1 && interleave == 0 && swizzle == kSwizzle128 &&
                    promotion == kPromote256 && fill == 0;
  if (!fits) return kInvalidValue;
  TileMap map = {};
  map.data = static_cast<const uint16_t*>(data);
  map.rows = static_cast<int>(sizes[1]);
  map.width = static_cast<int>(sizes[0]);
  map.stride = static_cast<int>(strides[0] / sizeof(uint16_t));
  map.tile_rows = static_cast<int>(tile[1]);
  std::memcpy(to, &map, sizeof(map));
  return kSuccess;
}

Result cuStreamBeginCapture_v2(Stream, int) {
  behind_kernel = false;
  return Do([] { return Gpu().BeginCapture(); });
}
Result cuStreamEndCapture(Stream, Graph* graph) {
  behind_kernel = false;
  return Do([&] {
    const auto made = Gpu().EndCapture();
    if (made.ok()) *graph = HandleOf<Graph>(static_cast<uint64_t>(*made));
    return made.status();
  });
}
Result cuGraphInstantiateWithFlags(GraphExec* made, Graph graph, unsigned long long) {
  *made = HandleOf<GraphExec>(NumberOf(graph));
  return kSuccess;
}
Result cuGraphDestroy(Graph) { return kSuccess; }
Result cuGraphLaunch(GraphExec graph, Stream) {
  behind_kernel = false;
  return Do([&] { return Gpu().Replay(GraphId{NumberOf(graph)}); });
}
Result cuGraphExecDestroy(GraphExec graph) {
  Gpu().FreeGraph(GraphId{NumberOf(graph)});
  return kSuccess;
}

Result cuEventCreate(Event* event, unsigned) {
  return Do([&] {
    const auto made = Gpu().NewEvent();
    if (made.ok()) *event = HandleOf<Event>(static_cast<uint64_t>(*made));
    return made.status();
  });
}
Result cuEventDestroy_v2(Event event) {
  Gpu().FreeEvent(EventId{NumberOf(event)});
  return kSuccess;
}
Result cuEventRecord(Event event, Stream) {
  behind_kernel = false;
  return Do([&] { return Gpu().Record(EventId{NumberOf(event)}); });
}
Result cuEventSynchronize(Event event) {
  return Do([&] { return Gpu().Wait(EventId{NumberOf(event)}); });
}
Result cuEventElapsedTime(float* milliseconds, Event begin, Event end) {
  *milliseconds = 1e3F * static_cast<float>(Gpu().SecondsBetween(EventId{NumberOf(begin)},
                                                                 EventId{NumberOf(end)}));
  return kSuccess;
}

}  // extern "C"

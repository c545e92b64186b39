#include "cuda/device_driver.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "base/printable.h"
#include "cuda/driver_api.h"

namespace penstock::cuda {
namespace {

constexpr size_t kReasonBytesMax = 200;
constexpr int kMajorMin = 8;              // compute capability
constexpr int kMajorOverlaps = 9;         // of images whose kernels wait for the one before
constexpr int kDriverVersionMin = 13000;  // kernels are compiled by CUDA 13
// What the driver itself takes beside what is free, about.
constexpr double kFreePart = 0.95;

Expected<driver::Api> OpenApi(const std::string& library) {
  // Never closed: a driver has threads of its own.
  void* const handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* const reason = dlerror();
    return Status(StatusCode::kUnavailable,
                  "there is no NVIDIA driver: " +
                      Printable(reason != nullptr ? reason : library, kReasonBytesMax));
  }
  driver::Api api;
  const char* missing = nullptr;
#define PENSTOCK_DRIVER_FIND(name, arguments)                                     \
  api.name = reinterpret_cast<driver::Result(*) arguments>(dlsym(handle, #name)); \
  if (api.name == nullptr) missing = #name;
  using namespace driver;  // NOLINT: types of the arguments
  PENSTOCK_DRIVER_FUNCTIONS(PENSTOCK_DRIVER_FIND)
#undef PENSTOCK_DRIVER_FIND
  if (missing != nullptr) {
    return Status::Unsupported(
        fmt::format("the NVIDIA driver is too old: it has no {} (CUDA 12.0 has)", missing));
  }
  return api;
}

class DriverDevice final : public Device {
 public:
  DriverDevice(const driver::Api& api, int index) : api_(api), index_(index) {}
  ~DriverDevice() override {
    if (context_ == nullptr) return;
    (void)api_.cuCtxSetCurrent(context_);
    if (stream_ != nullptr) (void)api_.cuStreamSynchronize(stream_);
    for (const auto& [id, graph] : graphs_) (void)api_.cuGraphExecDestroy(graph);
    for (const auto& [id, event] : events_) (void)api_.cuEventDestroy_v2(event);
    if (module_ != nullptr) (void)api_.cuModuleUnload(module_);
    if (stream_ != nullptr) (void)api_.cuStreamDestroy_v2(stream_);
    (void)api_.cuDevicePrimaryCtxRelease_v2(number_);
  }

  // Reads what the GPU is.
  Status Look(std::span<const KernelImage> images) {
    const driver::Result begun = api_.cuInit(0);
    int count = 0;
    if (begun != driver::kNoDevice) {
      PENSTOCK_RETURN_IF_ERROR(Opened(begun, "cuInit"));
      PENSTOCK_RETURN_IF_ERROR(Opened(api_.cuDeviceGetCount(&count), "cuDeviceGetCount"));
    }
    if (count == 0) return Status(StatusCode::kUnavailable, "the NVIDIA driver has no GPU");
    if (index_ >= count) {
      return Status(StatusCode::kUnavailable,
                    fmt::format("the NVIDIA driver has {} GPUs, numbered from 0", count));
    }
    PENSTOCK_RETURN_IF_ERROR(Opened(api_.cuDeviceGet(&number_, index_), "cuDeviceGet"));
    char name[128] = {};
    PENSTOCK_RETURN_IF_ERROR(
        Opened(api_.cuDeviceGetName(name, sizeof(name) - 1, number_), "cuDeviceGetName"));
    info_.name = Printable(name, sizeof(name));
    for (const auto& [to, attribute] : {std::pair(&info_.major, driver::kCapabilityMajor),
                                        {&info_.minor, driver::kCapabilityMinor},
                                        {&info_.multiprocessors, driver::kMultiprocessorCount}}) {
      PENSTOCK_RETURN_IF_ERROR(
          Opened(api_.cuDeviceGetAttribute(to, attribute, number_), "cuDeviceGetAttribute"));
    }
    ReadRates();
    size_t bytes = 0;
    PENSTOCK_RETURN_IF_ERROR(Opened(api_.cuDeviceTotalMem_v2(&bytes, number_), "cuDeviceTotalMem"));
    info_.memory_bytes = bytes;
    int version = 0;
    PENSTOCK_RETURN_IF_ERROR(Opened(api_.cuDriverGetVersion(&version), "cuDriverGetVersion"));
    info_.driver = fmt::format("{}.{}", version / 1000, version % 1000 / 10);
    if (version < kDriverVersionMin) {
      return Status::Unsupported(fmt::format(
          "the NVIDIA driver is too old: it is for CUDA {}, the kernels need one for 13",
          info_.driver));
    }
    const std::string what =
        fmt::format("{} (compute capability {}.{})", info_.name, info_.major, info_.minor);
    if (info_.major < kMajorMin) {
      return Status::Unsupported(what + " is too old: 8.0 is the least that is supported");
    }
    image_ = FindKernelImage(images, info_.major, info_.minor);
    if (image_ == nullptr) {
      return Status::Unsupported("this program has no kernels for the " + what);
    }
    return Status::Ok();
  }

  const DeviceInfo& info() const override { return info_; }
  uint64_t AvailableBytes() const override {
    const std::lock_guard lock(mutex_);
    size_t free = 0, all = 0;
    if (ready_ && api_.cuCtxSetCurrent(context_) == driver::kSuccess &&
        api_.cuMemGetInfo_v2(&free, &all) == driver::kSuccess) {
      return free;
    }
    if (!Health().ok()) return 0;
    return static_cast<uint64_t>(kFreePart * static_cast<double>(info_.memory_bytes));
  }

  Status Health() const override {
    if (!lost_.load(std::memory_order_acquire)) return Status::Ok();
    const std::lock_guard lock(lost_mutex_);
    return why_lost_;
  }

  Expected<std::byte*> Alloc(uint64_t bytes) override {
    const std::lock_guard lock(mutex_);
    PENSTOCK_RETURN_IF_ERROR(Begin());
    driver::Pointer at = 0;
    PENSTOCK_RETURN_IF_ERROR(
        Checked(api_.cuMemAlloc_v2(&at, std::max<uint64_t>(bytes, 1)), "cuMemAlloc"));
    return reinterpret_cast<std::byte*>(at);
  }
  void Free(std::byte* at) override {
    const std::scoped_lock lock(capture_, mutex_);
    if (!Begin().ok()) return;
    (void)Checked(api_.cuStreamSynchronize(stream_), "cuStreamSynchronize");
    (void)Checked(api_.cuMemFree_v2(PointerOf(at)), "cuMemFree");
  }
  Expected<std::byte*> AllocHost(uint64_t bytes) override {
    const std::lock_guard lock(mutex_);
    PENSTOCK_RETURN_IF_ERROR(Begin());
    void* at = nullptr;
    PENSTOCK_RETURN_IF_ERROR(
        Checked(api_.cuMemHostAlloc(&at, std::max<uint64_t>(bytes, 1), 0), "cuMemHostAlloc"));
    return static_cast<std::byte*>(at);
  }
  void FreeHost(std::byte* at) override {
    const std::scoped_lock lock(capture_, mutex_);
    if (!Begin().ok()) return;
    (void)Checked(api_.cuStreamSynchronize(stream_), "cuStreamSynchronize");
    (void)Checked(api_.cuMemFreeHost(at), "cuMemFreeHost");
  }

  Status CopyIn(std::byte* to, const std::byte* from, uint64_t bytes) override {
    const std::lock_guard lock(mutex_);
    PENSTOCK_RETURN_IF_ERROR(Begin());
    return Checked(api_.cuMemcpyHtoDAsync_v2(PointerOf(to), from, bytes, stream_), "cuMemcpyHtoD");
  }
  Status CopyOut(std::byte* to, const std::byte* from, uint64_t bytes) override {
    const std::lock_guard lock(mutex_);
    PENSTOCK_RETURN_IF_ERROR(Begin());
    return Checked(api_.cuMemcpyDtoHAsync_v2(to, PointerOf(from), bytes, stream_), "cuMemcpyDtoH");
  }
  Status Launch(const KernelLaunch& launch) override {
    const std::lock_guard lock(mutex_);
    const bool overlap = launch.early && behind_kernel_ && image_->major >= kMajorOverlaps;
    PENSTOCK_RETURN_IF_ERROR(Begin());
    const KernelRow& row = RowOf(launch.kernel);
    KernelLaunch one = launch;
    if (row.has_tile_map) PENSTOCK_RETURN_IF_ERROR(EncodeTileMap(one.args.data()));
    void* arguments[] = {one.args.data()};
    // Behind a kernel it begins before that one has ended: all kernels wait by themselves.
    driver::LaunchAttribute overlaps = {};
    overlaps.id = driver::kProgrammaticSerialization;
    overlaps.value.allowed = 1;
    driver::LaunchConfig config = {};
    config.grid_x = static_cast<unsigned>(launch.grid_x);
    config.grid_y = static_cast<unsigned>(launch.grid_y);
    config.block_x = static_cast<unsigned>(row.threads);
    config.grid_z = config.block_y = config.block_z = 1;
    config.shared_bytes = static_cast<unsigned>(row.shared_bytes);
    config.stream = stream_;
    config.attributes = &overlaps;
    config.attribute_count = overlap ? 1 : 0;
    behind_kernel_ = true;
    return Checked(api_.cuLaunchKernelEx(&config, functions_[static_cast<size_t>(launch.kernel)],
                                         arguments, nullptr),
                   row.name);
  }

  Status BeginCapture() override {
    std::unique_lock captures(capture_);
    const std::lock_guard lock(mutex_);
    PENSTOCK_RETURN_IF_ERROR(Begin());
    PENSTOCK_RETURN_IF_ERROR(
        Checked(api_.cuStreamBeginCapture_v2(stream_, driver::kCaptureThreadLocal),
                "cuStreamBeginCapture"));
    captures.release();
    return Status::Ok();
  }
  Expected<GraphId> EndCapture() override {
    const std::unique_lock captures(capture_, std::adopt_lock);
    const std::lock_guard lock(mutex_);
    PENSTOCK_RETURN_IF_ERROR(Begin());
    driver::Graph graph = nullptr;
    PENSTOCK_RETURN_IF_ERROR(
        Checked(api_.cuStreamEndCapture(stream_, &graph), "cuStreamEndCapture"));
    driver::GraphExec made = nullptr;
    const Status status =
        Checked(api_.cuGraphInstantiateWithFlags(&made, graph, 0), "cuGraphInstantiate");
    (void)api_.cuGraphDestroy(graph);
    PENSTOCK_RETURN_IF_ERROR(status);
    graphs_[++last_id_] = made;
    return GraphId{last_id_};
  }
  Status Replay(GraphId graph) override {
    const std::lock_guard lock(mutex_);
    PENSTOCK_RETURN_IF_ERROR(Begin());
    return Checked(api_.cuGraphLaunch(graphs_.at(static_cast<uint32_t>(graph)), stream_),
                   "cuGraphLaunch");
  }
  void FreeGraph(GraphId graph) override {
    const std::lock_guard lock(mutex_);
    const auto found = graphs_.find(static_cast<uint32_t>(graph));
    if (found == graphs_.end() || !Begin().ok()) return;
    (void)api_.cuGraphExecDestroy(found->second);
    graphs_.erase(found);
  }

  Expected<EventId> NewEvent() override {
    const std::lock_guard lock(mutex_);
    PENSTOCK_RETURN_IF_ERROR(Begin());
    driver::Event event = nullptr;
    PENSTOCK_RETURN_IF_ERROR(Checked(api_.cuEventCreate(&event, 0), "cuEventCreate"));
    events_[++last_id_] = event;
    return EventId{last_id_};
  }
  void FreeEvent(EventId event) override {
    const std::lock_guard lock(mutex_);
    const auto found = events_.find(static_cast<uint32_t>(event));
    if (found == events_.end() || !Begin().ok()) return;
    (void)api_.cuEventDestroy_v2(found->second);
    events_.erase(found);
  }
  Status Record(EventId event) override {
    const std::lock_guard lock(mutex_);
    PENSTOCK_RETURN_IF_ERROR(Begin());
    return Checked(api_.cuEventRecord(events_.at(static_cast<uint32_t>(event)), stream_),
                   "cuEventRecord");
  }
  // Waits without the mutex: others go on meanwhile.
  Status Wait(EventId event) override {
    driver::Event one = nullptr;
    {
      const std::lock_guard lock(mutex_);
      // A wait puts nothing into the stream; another thread may be between two kernels.
      const bool behind_kernel = behind_kernel_;
      PENSTOCK_RETURN_IF_ERROR(Begin());
      behind_kernel_ = behind_kernel;
      one = events_.at(static_cast<uint32_t>(event));
    }
    return Checked(api_.cuEventSynchronize(one), "cuEventSynchronize");
  }
  double SecondsBetween(EventId begin, EventId end) const override {
    const std::lock_guard lock(mutex_);
    float milliseconds = 0;
    (void)api_.cuEventElapsedTime(&milliseconds, events_.at(static_cast<uint32_t>(begin)),
                                  events_.at(static_cast<uint32_t>(end)));
    return static_cast<double>(milliseconds) * 1e-3;
  }

 private:
  static driver::Pointer PointerOf(const std::byte* at) {
    return reinterpret_cast<driver::Pointer>(at);
  }

  // Rates that the driver does not tell stay 0. (Source: NVIDIA's architecture white papers: products
  // of 16 bits that a multiprocessor adds to float sums in a cycle. GeForce cards do half of the 512.)
  void ReadRates() {
    const auto read = [&](int attribute) {
      int value = 0;
      const bool ok = api_.cuDeviceGetAttribute(&value, attribute, number_) == driver::kSuccess;
      return ok && value > 0 ? static_cast<double>(value) : 0.0;
    };
    const int products = info_.major == 10 || info_.major == 11 ? 4096
                         : info_.major == 9                     ? 2048
                         : info_.major == 8 && info_.minor == 0 ? 1024
                                                                : 512;
    info_.operations_per_s =
        2.0 * products * info_.multiprocessors * read(driver::kClockKilohertz) * 1e3;
    // Two bits a cycle.
    info_.bytes_per_s =
        2.0 / 8 * read(driver::kMemoryBusBits) * read(driver::kMemoryClockKilohertz) * 1e3;
  }

  // The driver's form of a tile map, in its place. (Source: the CUDA driver API, tensor maps.)
  Status EncodeTileMap(std::byte* at) {
    TileMap map;
    std::memcpy(&map, at, sizeof(map));
    const uint64_t sizes[] = {static_cast<uint64_t>(map.width), static_cast<uint64_t>(map.rows)};
    const uint64_t strides[] = {static_cast<uint64_t>(map.stride) * sizeof(uint16_t)};
    const uint32_t tile[] = {64, static_cast<uint32_t>(map.tile_rows)};
    const uint32_t steps[] = {1, 1};
    return Checked(api_.cuTensorMapEncodeTiled(
                       at, driver::kUint16, 2, const_cast<uint16_t*>(map.data), sizes, strides,
                       tile, steps, 0, driver::kSwizzle128, driver::kPromote256, 0),
                   "cuTensorMapEncodeTiled");
  }

  // A call that makes the GPU ready; it may be made again.
  Status Opened(driver::Result result, const char* what) const {
    if (result == driver::kSuccess) return Status::Ok();
    const char* reason = nullptr;
    (void)api_.cuGetErrorString(result, &reason);
    const std::string message =
        fmt::format("{}: {} ({})", what, reason != nullptr ? reason : "error", result);
    if (result == driver::kOutOfMemory) {
      return Status(StatusCode::kResourceExhausted, "the GPU has no memory left: " + message);
    }
    return Status(StatusCode::kUnavailable, message);
  }
  // All others. The first error but for memory is the last: the driver answers all calls with it
  // from then on.
  Status Checked(driver::Result result, const char* what) {
    const Status status = Opened(result, what);
    if (status.ok() || status.code() == StatusCode::kResourceExhausted) return status;
    const std::lock_guard lock(lost_mutex_);
    if (!lost_.load(std::memory_order_relaxed)) {
      why_lost_ = status.Annotate("the GPU is lost");
      lost_.store(true, std::memory_order_release);
    }
    return why_lost_;
  }

  // Under the mutex: makes the context current in this thread; the first time, makes it.
  Status Begin() {
    behind_kernel_ = false;
    PENSTOCK_RETURN_IF_ERROR(Health());
    if (ready_) return Checked(api_.cuCtxSetCurrent(context_), "cuCtxSetCurrent");
    // What a call before this one has made, which then failed, is kept.
    if (context_ == nullptr) {
      PENSTOCK_RETURN_IF_ERROR(
          Opened(api_.cuDevicePrimaryCtxRetain(&context_, number_), "cuDevicePrimaryCtxRetain"));
    }
    PENSTOCK_RETURN_IF_ERROR(Opened(api_.cuCtxSetCurrent(context_), "cuCtxSetCurrent"));
    if (stream_ == nullptr) {
      PENSTOCK_RETURN_IF_ERROR(
          Opened(api_.cuStreamCreate(&stream_, driver::kStreamNonBlocking), "cuStreamCreate"));
    }
    if (module_ == nullptr) {
      PENSTOCK_ASSIGN_OR_RETURN(const std::vector<char> image, UnpackKernelImage(*image_));
      PENSTOCK_RETURN_IF_ERROR(Opened(api_.cuModuleLoadData(&module_, image.data()), image_->name));
    }
    for (size_t i = 0; i < kKernels; ++i) {
      const KernelRow& row = RowOf(static_cast<KernelId>(i));
      if (!info_.Has(static_cast<KernelId>(i))) continue;  // its shared memory would be refused
      PENSTOCK_RETURN_IF_ERROR(
          Opened(api_.cuModuleGetFunction(&functions_[i], module_, row.name), row.name));
      PENSTOCK_RETURN_IF_ERROR(Opened(
          api_.cuFuncSetAttribute(functions_[i], driver::kMaxDynamicSharedBytes, row.shared_bytes),
          row.name));
    }
    ready_ = true;
    return Status::Ok();
  }

  const driver::Api api_;
  const int index_;
  DeviceInfo info_;
  const KernelImage* image_ = nullptr;
  driver::DeviceNumber number_ = 0;
  // Held from BeginCapture to EndCapture: a stream that is captured cannot be waited for.
  std::mutex capture_;
  mutable std::mutex mutex_;  // after it
  bool ready_ = false;        // all of these are made
  driver::Context context_ = nullptr;
  driver::Stream stream_ = nullptr;
  driver::Module module_ = nullptr;
  std::array<driver::Function, kKernels> functions_{};
  std::map<uint32_t, driver::GraphExec> graphs_;
  std::map<uint32_t, driver::Event> events_;
  uint32_t last_id_ = 0;
  bool behind_kernel_ = false;  // the last call launched one
  std::atomic<bool> lost_{false};
  mutable std::mutex lost_mutex_;  // after the others
  Status why_lost_;                // set before lost_, and never again
};

}  // namespace

Expected<std::unique_ptr<Device>> OpenDriverDevice(const DriverOptions& options) {
  if (options.images.empty()) {
    return Status::Unsupported("this program was built without kernels for GPUs (PENSTOCK_CUDA)");
  }
  std::string library = options.library;
  if (library.empty()) {
    const char* const named = std::getenv("PENSTOCK_CUDA_DRIVER");
    library = named != nullptr && *named != '\0' ? named : "libcuda.so.1";
  }
  PENSTOCK_ASSIGN_OR_RETURN(const driver::Api api, OpenApi(library));
  auto device = std::make_unique<DriverDevice>(api, options.number);
  PENSTOCK_RETURN_IF_ERROR(device->Look(options.images));
  return std::unique_ptr<Device>(std::move(device));
}

}  // namespace penstock::cuda

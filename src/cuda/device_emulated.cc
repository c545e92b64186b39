#include "cuda/device_emulated.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "cuda/kernels_emulated.h"

namespace penstock::cuda {
namespace {

constexpr size_t kMemoryAlignment = 256;
constexpr int kUndefined = 0xFF;  // NaN in every type of float

// What is in the stream.
struct Task {
  // A kernel, or a copy.
  KernelLaunch launch;
  std::byte* to = nullptr;  // null: a kernel
  const std::byte* from = nullptr;
  uint64_t bytes = 0;
};

class DeviceImpl final : public EmulatedDevice {
 public:
  explicit DeviceImpl(const EmulatedOptions& options) : options_(options) {
    info_ = {"emulated",
             options.tensor_core.products == kAmpere.products ? 8 : 9,
             0,
             options.multiprocessors,
             options.memory_bytes,
             "none",
             0,
             0};
  }
  ~DeviceImpl() override {
    for (const auto& [at, bytes] : blocks_) std::free(at);
  }

  const DeviceInfo& info() const override { return info_; }
  uint64_t AvailableBytes() const override {
    const std::lock_guard lock(mutex_);
    return options_.memory_bytes - std::min(options_.memory_bytes, device_bytes_);
  }

  Expected<std::byte*> Alloc(uint64_t bytes) override {
    const std::lock_guard lock(mutex_);
    PENSTOCK_RETURN_IF_ERROR(Call(StatusCode::kResourceExhausted));
    if (device_bytes_ + bytes > options_.memory_bytes) {
      return Status(StatusCode::kResourceExhausted, "the device has no memory left");
    }
    device_bytes_ += bytes;
    return Allocated(bytes, true);
  }
  Expected<std::byte*> AllocHost(uint64_t bytes) override {
    const std::lock_guard lock(mutex_);
    PENSTOCK_RETURN_IF_ERROR(Call(StatusCode::kResourceExhausted));
    return Allocated(bytes, false);
  }
  void Free(std::byte* at) override { Freed(at); }
  void FreeHost(std::byte* at) override { Freed(at); }

  Status CopyIn(std::byte* to, const std::byte* from, uint64_t bytes) override {
    return Put({{}, to, from, bytes});
  }
  Status CopyOut(std::byte* to, const std::byte* from, uint64_t bytes) override {
    return Put({{}, to, from, bytes});
  }
  Status Launch(const KernelLaunch& launch) override {
    // As a driver, which is lost then.
    const bool possible = launch.grid_x > 0 && launch.grid_y > 0 && launch.grid_y <= 65535;
    return possible ? Put({launch, nullptr, nullptr, 0}) : Status::Internal("an impossible grid");
  }

  Status BeginCapture() override {
    const std::lock_guard lock(mutex_);
    PENSTOCK_RETURN_IF_ERROR(Call(StatusCode::kUnavailable));
    captures_ = true;
    captured_.clear();
    return Status::Ok();
  }
  Expected<GraphId> EndCapture() override {
    const std::lock_guard lock(mutex_);
    captures_ = false;
    PENSTOCK_RETURN_IF_ERROR(Call(StatusCode::kResourceExhausted));
    graphs_.emplace(++last_graph_, std::move(captured_));
    return GraphId{last_graph_};
  }
  Status Replay(GraphId graph) override {
    const std::lock_guard lock(mutex_);
    PENSTOCK_RETURN_IF_ERROR(Call(StatusCode::kUnavailable));
    for (const Task& task : graphs_.at(static_cast<uint32_t>(graph))) stream_.push_back(task);
    put_ += graphs_.at(static_cast<uint32_t>(graph)).size();
    return Status::Ok();
  }
  void FreeGraph(GraphId graph) override {
    const std::lock_guard lock(mutex_);
    graphs_.erase(static_cast<uint32_t>(graph));
  }

  Expected<EventId> NewEvent() override {
    const std::lock_guard lock(mutex_);
    PENSTOCK_RETURN_IF_ERROR(Call(StatusCode::kUnavailable));
    events_[++last_event_] = 0;
    return EventId{last_event_};
  }
  void FreeEvent(EventId event) override {
    const std::lock_guard lock(mutex_);
    events_.erase(static_cast<uint32_t>(event));
  }
  Status Record(EventId event) override {
    const std::lock_guard lock(mutex_);
    PENSTOCK_RETURN_IF_ERROR(Call(StatusCode::kUnavailable));
    events_.at(static_cast<uint32_t>(event)) = put_;
    return Status::Ok();
  }
  Status Wait(EventId event) override {
    const std::lock_guard lock(mutex_);
    PENSTOCK_RETURN_IF_ERROR(Call(StatusCode::kUnavailable));
    return RunUntil(events_.at(static_cast<uint32_t>(event)));
  }
  Status Health() const override {
    const std::lock_guard lock(mutex_);
    return lost_ ? Status(StatusCode::kUnavailable, "the device is lost") : Status::Ok();
  }
  double SecondsBetween(EventId begin, EventId end) const override {
    const std::lock_guard lock(mutex_);
    // A task is a microsecond.
    return 1e-6 * static_cast<double>(events_.at(static_cast<uint32_t>(end)) -
                                      events_.at(static_cast<uint32_t>(begin)));
  }

  void FailCall(int64_t n, bool lost) override {
    const std::lock_guard lock(mutex_);
    fail_at_ = calls_ + n;
    lost_after_ = lost;
  }
  uint64_t allocated_bytes() const override {
    const std::lock_guard lock(mutex_);
    uint64_t bytes = 0;
    for (const auto& [at, size] : blocks_) bytes += size;
    return bytes;
  }
  uint64_t kernels_run() const override {
    const std::lock_guard lock(mutex_);
    return kernels_run_;
  }
  uint64_t graphs() const override {
    const std::lock_guard lock(mutex_);
    return graphs_.size();
  }
  uint64_t graphs_captured() const override {
    const std::lock_guard lock(mutex_);
    return last_graph_;
  }

 private:
  // All under the mutex.
  Status Call(StatusCode code) {
    if (lost_) return Status(StatusCode::kUnavailable, "the device is lost");
    if (++calls_ != fail_at_) return Status::Ok();
    lost_ = lost_after_;
    return Status(lost_ ? StatusCode::kUnavailable : code,
                  lost_ ? "the device is lost" : "a call failed on demand");
  }
  std::byte* Allocated(uint64_t bytes, bool device) {
    void* at = nullptr;
    if (posix_memalign(&at, kMemoryAlignment, std::max<uint64_t>(bytes, 1)) != 0)
      throw std::bad_alloc();
    std::memset(at, kUndefined, bytes);
    blocks_[static_cast<std::byte*>(at)] = bytes;
    if (device) on_device_.insert(static_cast<std::byte*>(at));
    return static_cast<std::byte*>(at);
  }
  void Freed(std::byte* at) {
    const std::lock_guard lock(mutex_);
    (void)RunUntil(put_);
    const auto found = blocks_.find(at);
    if (on_device_.erase(at) > 0) device_bytes_ -= found->second;
    blocks_.erase(found);
    std::free(at);
  }
  Status Put(const Task& task) {
    const std::lock_guard lock(mutex_);
    PENSTOCK_RETURN_IF_ERROR(Call(StatusCode::kUnavailable));
    if (captures_) {
      captured_.push_back(task);
    } else {
      stream_.push_back(task);
      ++put_;
    }
    return Status::Ok();
  }

  // Runs the stream up to its n-th task. An error ends the stream: the device is lost.
  Status RunUntil(uint64_t n) {
    while (!lost_ && put_ - stream_.size() < n) {
      Task task = std::move(stream_.front());
      stream_.pop_front();
      if (task.to != nullptr) {
        std::memcpy(task.to, task.from, task.bytes);
        continue;
      }
      Status status;
      if (options_.overlaps && !stream_.empty() && stream_.front().to == nullptr &&
          stream_.front().launch.early) {
        const Task next = std::move(stream_.front());
        stream_.pop_front();
        Status before;
        status = RunKernel(next.launch, [&] { before = RunKernel(task.launch, {}); });
        if (!before.ok()) status = before;
      } else {
        status = RunKernel(task.launch, {});
      }
      if (!status.ok()) {
        lost_ = true;
        return status;
      }
    }
    return lost_ ? Status(StatusCode::kUnavailable, "the device is lost") : Status::Ok();
  }
  Status RunKernel(const KernelLaunch& launch, std::function<void()> before) {
    ++kernels_run_;
    const KernelRow& row = RowOf(launch.kernel);
    emulator::LaunchOptions options;
    options.tensor_core = options_.tensor_core;
    options.order = options_.order;
    options.seed = options_.seed + kernels_run_;
    options.late_copies = options_.late_copies;
    options.before = std::move(before);
    Status status = emulator::Launch(
        {launch.grid_x, launch.grid_y, row.threads, static_cast<size_t>(row.shared_bytes)}, options,
        EmulatedKernel(launch));
    if (status.ok()) return status;
    return Status::Internal(std::string(row.name) + ": " + status.message());
  }

  const EmulatedOptions options_;
  DeviceInfo info_;
  mutable std::mutex mutex_;
  std::map<std::byte*, uint64_t> blocks_;
  std::set<std::byte*> on_device_;
  uint64_t device_bytes_ = 0;
  std::deque<Task> stream_;
  uint64_t put_ = 0;  // tasks since the start
  bool captures_ = false;
  std::vector<Task> captured_;
  std::map<uint32_t, std::vector<Task>> graphs_;
  uint32_t last_graph_ = 0;
  std::map<uint32_t, uint64_t> events_;  // tasks before it
  uint32_t last_event_ = 0;
  uint64_t kernels_run_ = 0;
  int64_t calls_ = 0;
  int64_t fail_at_ = -1;
  bool lost_after_ = false;
  bool lost_ = false;
};

}  // namespace

std::unique_ptr<EmulatedDevice> NewEmulatedDevice(const EmulatedOptions& options) {
  return std::make_unique<DeviceImpl>(options);
}

}  // namespace penstock::cuda

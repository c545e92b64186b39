// What a step costs the host: with a device that does nothing, no allocation, and its time.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <set>
#include <vector>

#include "base/failing_new.h"
#include "cuda/cuda_backend.h"
#include "program/tiny_decoder_test_util.h"

namespace penstock::cuda {
namespace {

// Takes everything and runs nothing.
class IdleDevice final : public Device {
 public:
  IdleDevice() {
    info_.name = "idle";
    info_.major = 9;
    info_.multiprocessors = 132;
    info_.memory_bytes = uint64_t{1} << 40;
  }
  const DeviceInfo& info() const override { return info_; }
  uint64_t AvailableBytes() const override { return info_.memory_bytes; }
  Status Health() const override { return Status::Ok(); }
  Expected<std::byte*> Alloc(uint64_t bytes) override {
    return static_cast<std::byte*>(std::aligned_alloc(256, (bytes + 255) / 256 * 256));
  }
  void Free(std::byte* at) override { std::free(at); }
  Expected<std::byte*> AllocHost(uint64_t bytes) override { return Alloc(bytes); }
  void FreeHost(std::byte* at) override { std::free(at); }
  Status CopyIn(std::byte*, const std::byte*, uint64_t) override { return Done(); }
  Status CopyOut(std::byte*, const std::byte*, uint64_t) override { return Done(); }
  Status Launch(const KernelLaunch&) override { return Done(); }
  Status BeginCapture() override { return Status::Ok(); }
  Expected<GraphId> EndCapture() override { return GraphId{1}; }
  Status Replay(GraphId) override { return Done(); }
  void FreeGraph(GraphId) override {}
  Expected<EventId> NewEvent() override { return EventId{1}; }
  void FreeEvent(EventId) override {}
  Status Record(EventId) override { return Done(); }
  Status Wait(EventId) override { return Done(); }
  double SecondsBetween(EventId, EventId) const override { return 0; }
  int calls() const { return calls_; }

 private:
  Status Done() {
    ++calls_;
    return Status::Ok();
  }

  DeviceInfo info_;
  int calls_ = 0;
};

// A text of 1,000 tokens, the next one, again and again.
TEST(CudaStepHost, AllocatesNothingForAToken) {
  program::TinyShape shape;
  shape.context = 2048;
  const program::TinyWeights weights(shape, numbers::DType::kF32, 1);
  auto device = std::make_unique<IdleDevice>();
  IdleDevice* const idle = device.get();
  program::TinyDecoder decoder(weights, numbers::DType::kF16, NewCudaBackend(std::move(device)));
  auto run = decoder.NewRun(numbers::DType::kBf16, 64);
  std::vector<int32_t> blocks(64);
  std::iota(blocks.begin(), blocks.end(), 0);
  const int32_t id = 5, row = 0;
  const program::PickWant want = program::PickWant::kBestAndSums;
  const program::SingleSequence sequence(1, 1000, blocks);
  const program::PackedBatch batch = sequence.Batch({&id, 1}, {&row, 1}, {&want, 1});
  ASSERT_TRUE(run->Run(batch).ok());  // captures the graph
  constexpr int kSteps = 10000;
  const long allocations = FailingNew::Allocations();
  const int calls = idle->calls();
  const auto begin = std::chrono::steady_clock::now();
  bool ok = true;
  for (int i = 0; i < kSteps; ++i) ok = ok && run->Run(batch).ok();
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
  EXPECT_TRUE(ok);
  EXPECT_EQ(FailingNew::Allocations(), allocations);
  // A copy in, a graph, a copy out, two events, a wait.
  EXPECT_EQ(idle->calls() - calls, 6 * kSteps);
  RecordProperty("host_us_a_token", std::to_string(spent.count() / kSteps * 1e6));
  std::printf("%.2f us of the host a token\n", spent.count() / kSteps * 1e6);
}

}  // namespace
}  // namespace penstock::cuda

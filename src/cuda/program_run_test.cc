// The backend on the emulated device, by a small program.
#include "cuda/program_run.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "cuda/cuda_backend.h"
#include "cuda/device_emulated.h"
#include "program/dry_backend.h"

namespace penstock::cuda {
namespace {

using numbers::DType;
using program::Rows;

// embed, a gated feed-forward, the mean of each sequence.
class CudaRunTest : public testing::Test {
 protected:
  static constexpr int32_t kWidth = 24, kInner = 40, kWords = 50, kLength = 300;

  void Make(const RunOptions& options = {}, const EmulatedOptions& device_options = {}) {
    run_.reset();
    words_.reset();
    for (auto* const weight : {&in_, &up_, &out_}) weight->reset();
    auto device = NewEmulatedDevice(device_options);
    device_ = device.get();
    backend_ = NewCudaBackend(std::move(device), options);
    std::mt19937 random(7);
    const auto draw = [&](std::span<float> to) {
      std::normal_distribution<float> normal(0, 0.3F);
      for (float& value : to) value = normal(random);
    };
    words_ = backend_->Keep(kWords, kWidth, [&](int64_t, std::span<float> rows) { draw(rows); });
    const auto pack = [&](int32_t in, int32_t out) {
      std::vector<float> weight(static_cast<size_t>(in * out)), bias(static_cast<size_t>(out));
      draw(weight);
      draw(bias);
      const program::LinearRows rows{program::ViewOf(weight, in), program::ViewOf(bias, out)};
      auto packed = backend_->Pack({&rows, 1}, {.dtype = DType::kF16});
      EXPECT_TRUE(packed.ok()) << packed.status().ToString();
      return std::move(*packed);
    };
    in_ = pack(kWidth, kInner);
    up_ = pack(kWidth, kInner);
    out_ = pack(kInner, kWidth);
    program_ = {};
    program_.max_length = kLength;
    const auto x = program_.AddValue(Rows::kTokens, kWidth);
    const auto pooled = program_.AddValue(Rows::kSequences, kWidth);
    program_.ops.push_back(program::EmbedOp{.words = words_.get(), .y = x});
    program_.ops.push_back(program::FeedForwardOp{.x = x,
                                                  .in = in_.get(),
                                                  .activation = program::Activation::kSilu,
                                                  .up = up_.get(),
                                                  .out = out_.get(),
                                                  .residual = {.value = x},
                                                  .y = x});
    program_.ops.push_back(program::PoolOp{.x = x, .y = pooled});
    program_.result = pooled;
    ASSERT_TRUE(program::CheckProgram(program_).ok());
    run_ = Prepare();
  }
  std::unique_ptr<program::ProgramRun> Prepare() {
    auto run = backend_->Prepare(program_);
    EXPECT_TRUE(run.ok()) << run.status().ToString();
    return run.ok() ? std::move(*run) : nullptr;
  }

  // Sequences of these lengths.
  static Expected<std::vector<float>> Run(program::ProgramRun* run,
                                          const std::vector<int32_t>& lengths) {
    std::vector<int32_t> ids, offsets{0};
    for (const int32_t length : lengths) {
      for (int32_t t = 0; t < length; ++t) ids.push_back((7 * t + length) % kWords);
      offsets.push_back(static_cast<int32_t>(ids.size()));
    }
    std::vector<float> out(lengths.size() * kWidth);
    std::vector<float*> sinks;
    for (size_t s = 0; s < lengths.size(); ++s) sinks.push_back(out.data() + s * kWidth);
    program::PackedBatch batch;
    batch.ids = ids;
    batch.offsets = offsets;
    PENSTOCK_RETURN_IF_ERROR(run->Run(0, batch, sinks));
    return out;
  }
  std::vector<float> Run(const std::vector<int32_t>& lengths) {
    auto out = Run(run_.get(), lengths);
    EXPECT_TRUE(out.ok()) << out.status().ToString();
    return out.ok() ? *out : std::vector<float>();
  }

  EmulatedDevice* device_ = nullptr;
  std::unique_ptr<program::Backend> backend_;
  std::unique_ptr<program::Table> words_;
  std::unique_ptr<program::PackedLinear> in_, up_, out_;
  program::Program program_;
  std::unique_ptr<program::ProgramRun> run_;
};

TEST_F(CudaRunTest, GraphsAreCapturedOnceABucketAndGiveTheSameBits) {
  Make({.graphs = false});
  const std::vector<std::vector<int32_t>> batches = {{1}, {31}, {32}, {33, 1}, {5, 60, 200}, {31}};
  std::vector<std::vector<float>> eager;
  for (const auto& lengths : batches) eager.push_back(Run(lengths));
  EXPECT_EQ(device_->graphs(), 0u);
  Make();
  for (int round = 0; round < 2; ++round) {
    for (size_t i = 0; i < batches.size(); ++i) EXPECT_EQ(Run(batches[i]), eager[i]);
  }
  // {1} {31} {32}: 32 tokens; {33, 1}: 64; the next 512.
  EXPECT_EQ(device_->graphs(), 3u);
}

// The more multiprocessors a device has, the smaller are the tiles: other kernels run.
TEST_F(CudaRunTest, LargeAndSmallTilesGiveTheSameBits) {
  const std::vector<int32_t> lengths = {100, 7, 150};
  Make();
  std::vector<float> want;
  for (const int32_t length : lengths) {
    const auto one = Run({length});
    want.insert(want.end(), one.begin(), one.end());
  }
  for (const int multiprocessors : {1, 4, 12, 1000}) {
    Make({}, {.overlaps = true, .multiprocessors = multiprocessors});
    EXPECT_EQ(Run(lengths), want) << multiprocessors;
  }
}

TEST_F(CudaRunTest, TheGraphThatWasNotUsedForLongestGoes) {
  Make({.graphs_max = 2});
  ASSERT_TRUE(run_->Reserve(256, 1).ok());
  std::vector<std::vector<float>> first;
  for (const int32_t length : {20, 40, 100, 20, 200}) {
    first.push_back(Run({length}));
    EXPECT_LE(device_->graphs(), 2u);
  }
  EXPECT_EQ(first[0], first[3]);
  const uint64_t before = device_->graphs_captured();
  (void)Run({20});
  (void)Run({200});
  EXPECT_EQ(device_->graphs_captured(), before);
  (void)Run({100});
  EXPECT_EQ(device_->graphs_captured(), before + 1);
}

TEST_F(CudaRunTest, RunsShareOneSetOfActivations) {
  Make();
  const auto want = Run({20, 3});
  const auto other = Prepare();
  ASSERT_TRUE(run_->Reserve(64, 2).ok());
  const uint64_t one = run_->HeldBytes();
  EXPECT_EQ(one, run_->BytesFor(64, 2));
  ASSERT_TRUE(other->Reserve(64, 2).ok());
  EXPECT_EQ(other->HeldBytes() + run_->HeldBytes(), one);
  // Both have the larger set; graphs of the set before are void.
  ASSERT_TRUE(other->Reserve(1000, 4).ok());
  EXPECT_EQ(other->HeldBytes() + run_->HeldBytes(), run_->BytesFor(1000, 4));
  EXPECT_EQ(Run({20, 3}), want);
  EXPECT_EQ(*Run(other.get(), {20, 3}), want);
  EXPECT_EQ(run_->Release(), 0u);
  EXPECT_GT(other->Release(), 0u);
  EXPECT_EQ(device_->graphs(), 0u);
  // The run that needed the most leaves, and the other has a smaller set at once.
  ASSERT_TRUE(other->Reserve(1000, 4).ok());
  EXPECT_EQ(Run({20, 3}), want);
  EXPECT_EQ(other->Release(), other->BytesFor(1000, 4) - run_->BytesFor(23, 2));
  EXPECT_EQ(run_->HeldBytes(), run_->BytesFor(23, 2));
  EXPECT_EQ(Run({20, 3}), want);
  EXPECT_EQ(run_->HeldBytes(), run_->BytesFor(23, 2));
  // One of two that need the same leaves: nothing changes for the other.
  ASSERT_TRUE(other->Reserve(23, 2).ok());
  const uint64_t captured = device_->graphs_captured();
  EXPECT_EQ(other->Release(), 0u);
  EXPECT_EQ(Run({20, 3}), want);
  EXPECT_EQ(device_->graphs_captured(), captured);
  // What is reserved grows in both directions.
  ASSERT_TRUE(run_->Reserve(1000, 2).ok());
  ASSERT_TRUE(run_->Reserve(64, 16).ok());
  EXPECT_EQ(run_->HeldBytes(), run_->BytesFor(1000, 16));
  EXPECT_EQ(Run({20, 3}), want);
}

// The emulated device has a microsecond a task.
TEST_F(CudaRunTest, TellsTheDevicesSeconds) {
  Make();
  EXPECT_EQ(run_->device_seconds(), 0);
  (void)Run({20, 3});
  const double seconds = run_->device_seconds();
  EXPECT_GT(seconds, 3e-6);
  EXPECT_EQ(backend_->counters()->busy_s.load(), seconds);
  (void)Run({20, 3});
  EXPECT_EQ(run_->device_seconds(), seconds);
}

TEST_F(CudaRunTest, ADryBackendTakesWhatTheDeviceWould) {
  Make();
  program::DryBackend dry(backend_.get());
  EXPECT_EQ(dry.preferred_dtype(), DType::kF16);
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBf16}) {
    const std::vector<float> weight(9 * 70), bias(9);
    const program::LinearRows rows{program::ViewOf(weight, 70), program::ViewOf(bias, 9)};
    const auto packed = backend_->Pack({&rows, 1}, {.dtype = dtype});
    const auto sized = dry.Pack({&rows, 1}, {.dtype = dtype});
    ASSERT_TRUE(packed.ok() && sized.ok());
    EXPECT_EQ((*packed)->bytes(), (*sized)->bytes());  // both padded
    EXPECT_EQ(dry.Pack({&rows, 1}, {.dtype = DType::kI8}).status().message(),
              backend_->Pack({&rows, 1}, {.dtype = DType::kI8}).status().message());
  }
}

TEST_F(CudaRunTest, RunsOfSeveralThreadsTakeTurnsOnTheDevice) {
  Make({}, {.late_copies = true});
  const auto want = Run({40, 7}), other_want = Run({9});
  const auto second = Prepare(), third = Prepare();
  const auto repeat = [&](program::ProgramRun* run, const std::vector<int32_t>& lengths,
                          const std::vector<float>& wanted) {
    for (int i = 0; i < 20; ++i) EXPECT_EQ(*Run(run, lengths), wanted);
  };
  std::thread one([&] { repeat(second.get(), {9}, other_want); });
  std::thread two([&] { repeat(third.get(), {40, 7}, want); });
  repeat(run_.get(), {40, 7}, want);
  one.join();
  two.join();
}

TEST_F(CudaRunTest, AllMemoryComesBack) {
  Make();
  run_.reset();
  const uint64_t weights = device_->allocated_bytes();
  run_ = Prepare();
  (void)Run({20, 3});
  EXPECT_GT(device_->allocated_bytes(), weights);
  run_.reset();
  EXPECT_EQ(device_->allocated_bytes(), weights);
  words_.reset();
  in_.reset();
  up_.reset();
  out_.reset();
  EXPECT_EQ(device_->allocated_bytes(), Staging::kHalfBytes);  // kept for the next copies
}

// Whatever call fails, the run says so, and the next one works.
TEST_F(CudaRunTest, ACallThatFailsFailsItsBatchAlone) {
  Make();
  const auto want = Run({20, 3});
  int failed = 0;
  for (int64_t n = 1; n <= 12; ++n) {
    run_->Release();  // so that it allocates and captures again
    device_->FailCall(n, false);
    const auto out = Run(run_.get(), {20, 3});
    if (!out.ok()) {
      ++failed;
      EXPECT_TRUE(out.status().code() == StatusCode::kResourceExhausted ||
                  out.status().code() == StatusCode::kUnavailable)
          << out.status().ToString();
    }
    device_->FailCall(-1, false);
    EXPECT_EQ(Run({20, 3}), want) << n;
  }
  EXPECT_GE(failed, 10);
}

// A batch that is halved for want of memory comes after one that failed.
TEST_F(CudaRunTest, ASmallerBatchRunsAfterOneThatFoundNoMemory) {
  Make();
  const std::vector<int32_t> lengths = {200, 200, 200};
  const auto want = Run(lengths);
  for (int64_t n = 1; n <= 6; ++n) {
    device_->FailCall(n, false);
    const auto larger = Run(run_.get(), std::vector<int32_t>(20, 250));
    device_->FailCall(-1, false);
    EXPECT_EQ(Run(lengths), want) << n << (larger.ok() ? "" : larger.status().message());
    run_->Release();
    EXPECT_EQ(Run(lengths), want);
  }
}

TEST_F(CudaRunTest, ALostDeviceSaysSoFromThenOn) {
  for (int64_t n = 1; n <= 8; ++n) {
    Make();
    (void)Run({20, 3});
    device_->FailCall(n, true);
    Status status;
    for (int i = 0; i < 3 && status.ok(); ++i) status = Run(run_.get(), {20, 3}).status();
    EXPECT_EQ(status.code(), StatusCode::kUnavailable);
    EXPECT_EQ(Run(run_.get(), {1}).status().code(), StatusCode::kUnavailable);
  }
}

TEST_F(CudaRunTest, MemoryThatIsNotThereIsAnError) {
  Make({}, {.memory_bytes = 40 << 10});
  EXPECT_EQ(run_->Reserve(4096, 16).code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(run_->Run(0, {}, {}).code(), StatusCode::kInvalidArgument);
  EXPECT_FALSE(Run({20, 3}).empty());
}

TEST_F(CudaRunTest, RefusesWhatItDoesNotRun) {
  Make();
  EXPECT_EQ(backend_->preferred_dtype(), DType::kF16);
  const std::vector<float> weight(64);
  const program::LinearRows rows{program::ViewOf(weight, 8), {}};
  EXPECT_EQ(backend_->Pack({&rows, 1}, {.dtype = DType::kI8}).status().code(),
            StatusCode::kUnsupported);
  program_.ops[0] = program::PicksOp();
  const auto made = backend_->Prepare(program_);
  EXPECT_EQ(made.status().code(), StatusCode::kUnsupported);
  EXPECT_EQ(made.status().message(), "op 0 (picks): the GPU does not run picked rows");
}

}  // namespace
}  // namespace penstock::cuda

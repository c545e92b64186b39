#include "checks/known_answers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "base/temp_folder_test_util.h"
#include "cpu/cpu_backend.h"
#include "engine/fake_engine.h"
#include "families/decoder_files.h"
#include "models/decoder.h"
#include "models/encoder.h"

namespace penstock::checks {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// Seconds that the test sets.
struct FakeTime {
  double seconds = 0;
  CheckClock Limit(double limit_s) {
    const auto now = [this] {
      return Clock::time_point(
          std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds)));
    };
    return {std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(limit_s)),
            nullptr, now};
  }
};

// Sums of ids, spoilt in one way.
class SpoiltRunner final : public program::EncoderRunner {
 public:
  enum class Fault { kNone, kNan, kInfinite, kZeros, kConstant, kBatch };
  explicit SpoiltRunner(Fault fault, FakeTime* time = nullptr, int32_t width = 4,
                        double token_s = 0.001)
      : fault_(fault), time_(time), width_(width), token_s_(token_s) {}
  int32_t OutputWidth(program::EncoderOutput) const override { return width_; }
  Status Run(const program::PackedBatch& batch, program::EncoderOutput,
             std::span<float* const> sinks) override {
    ++runs;
    if (time_ != nullptr) time_->seconds += token_s_ * static_cast<double>(batch.tokens());
    for (size_t s = 0; s < batch.sequences(); ++s) {
      float sum = 0;
      for (int32_t t = batch.offsets[s]; t < batch.offsets[s + 1]; ++t) {
        sum += static_cast<float>(batch.ids[static_cast<size_t>(t)]);
      }
      for (int32_t i = 0; i < width_; ++i) {
        float number = sum + static_cast<float>(i);
        const bool last = i + 1 == width_;
        if (fault_ == Fault::kNan && last) number = std::numeric_limits<float>::quiet_NaN();
        if (fault_ == Fault::kInfinite && last) number = std::numeric_limits<float>::infinity();
        if (fault_ == Fault::kZeros) number = 0;
        if (fault_ == Fault::kConstant) number = 7;
        if (fault_ == Fault::kBatch && batch.sequences() > 1 && s == 1) number *= 1.0000002f;
        sinks[s][i] = number;
      }
    }
    return Status::Ok();
  }
  int runs = 0;

 private:
  const Fault fault_;
  FakeTime* const time_;
  const int32_t width_;
  const double token_s_;
};
using Fault = SpoiltRunner::Fault;

// The checks of a first load.
Status CheckRunner(const RunnerToCheck& model, const LinearChecker& linear, CheckClock* clock) {
  const auto results = ResultsOf(&model, clock);
  CheckSubject subject = {.name = "m", .results = results.get(), .clock = clock};
  subject.linear = linear;
  return RunChecks(CheckTime::kFirstLoad, subject);
}
Status CheckSteps(std::unique_ptr<program::ProgramRun> run, int32_t vocab_size, int32_t context,
                  double step_s, CheckClock* clock) {
  const auto prepare = [&](double* seconds) -> Expected<std::unique_ptr<program::ProgramRun>> {
    *seconds = step_s;
    return std::move(run);
  };
  const auto results = ResultsOf({vocab_size, context, prepare}, clock);
  return RunChecks(CheckTime::kFirstLoad, {.name = "m", .results = results.get(), .clock = clock});
}

Status CheckSpoilt(Fault fault, int32_t width = 4) {
  SpoiltRunner runner(fault, nullptr, width);
  CheckClock clock(std::chrono::hours(1), nullptr);
  return CheckRunner({&runner, program::EncoderOutput::kPooled, 100, 512, {}}, nullptr, &clock);
}

TEST(KnownAnswers, ARunnerThatIsRightPasses) {
  EXPECT_TRUE(CheckSpoilt(Fault::kNone).ok());
  EXPECT_TRUE(CheckSpoilt(Fault::kNone, 1).ok());
  engine::FakeEncoderRunner fake(1);
  CheckClock clock(std::chrono::hours(1), nullptr);
  for (const program::EncoderOutput output :
       {program::EncoderOutput::kPooled, program::EncoderOutput::kLogits}) {
    const Status status = CheckRunner({&fake, output, 100, 8, {}}, nullptr, &clock);
    EXPECT_TRUE(status.ok()) << status.ToString();
  }
  EXPECT_TRUE(clock.complete());
}

TEST(KnownAnswers, ResultsThatCannotBeRightAreRefused) {
  for (const auto& [fault, says] :
       {std::pair(Fault::kNan, "number 3 of the result of 3 tokens is nan"),
        std::pair(Fault::kInfinite, "is infinite"),
        std::pair(Fault::kZeros, "results are 0 wherever"),
        std::pair(Fault::kConstant, "results are 7 wherever"),
        std::pair(Fault::kBatch, "of 17 tokens is")}) {
    const Status status = CheckSpoilt(fault);
    EXPECT_EQ(status.code(), StatusCode::kInternal) << says;
    EXPECT_THAT(status.message(), HasSubstr(says));
    EXPECT_THAT(status.message(), HasSubstr("penstock doctor"));
    EXPECT_THAT(status.message(), HasSubstr("--no-check-models"));
  }
  // One number a text: a score.
  EXPECT_THAT(CheckSpoilt(Fault::kZeros, 1).message(), HasSubstr("results are 0"));
  EXPECT_THAT(CheckSpoilt(Fault::kNan, 1).message(), HasSubstr("is nan"));
}

TEST(KnownAnswers, TimeIsAHundredthOfTheLoadOrTwoTenths) {
  EXPECT_EQ(CheckTimeOf(std::chrono::milliseconds(30)), std::chrono::milliseconds(200));
  EXPECT_EQ(CheckTimeOf(std::chrono::seconds(60)), std::chrono::milliseconds(600));
}

TEST(KnownAnswers, WhatTheTimeDoesNotAllowIsLeftOut) {
  // Batches take a millisecond a token: of 3, 17 and 40, and together as far as they were run.
  const sched::BatchTimes times = {.token_s = 0.001};
  for (const auto& [limit_ms, runs] : {std::pair(2, 0), std::pair(5, 1), std::pair(22, 2),
                                       std::pair(45, 3), std::pair(100, 3), std::pair(121, 4)}) {
    FakeTime time;
    SpoiltRunner runner(Fault::kNone, &time);
    CheckClock clock = time.Limit(limit_ms / 1000.0);
    EXPECT_TRUE(
        CheckRunner({&runner, program::EncoderOutput::kPooled, 100, 512, times}, nullptr, &clock)
            .ok());
    EXPECT_EQ(runner.runs, runs) << limit_ms;
    EXPECT_EQ(clock.complete(), runs == 4) << limit_ms;
    EXPECT_LE(time.seconds, limit_ms / 1000.0);
  }
}

TEST(KnownAnswers, AMachineThatIsSlowerThanMeasuredIsNoticed) {
  FakeTime time;
  SpoiltRunner runner(Fault::kNone, &time, 4, 0.002);
  CheckClock clock = time.Limit(0.03);
  EXPECT_TRUE(CheckRunner({&runner, program::EncoderOutput::kPooled, 100, 512, {.token_s = 0.001}},
                          nullptr, &clock)
                  .ok());
  EXPECT_EQ(runner.runs, 1);  // 17 tokens take 34 ms, and 24 ms are left
}

TEST(KnownAnswers, ALinearLayerThatDiffersIsRefused) {
  SpoiltRunner runner(Fault::kNone);
  const RunnerToCheck model = {&runner, program::EncoderOutput::kPooled, 100, 512, {}};
  CheckClock clock(std::chrono::hours(1), nullptr);
  const auto with = [&](program::KernelDifference check) {
    return CheckRunner(
        model, [check] { return Expected<program::KernelDifference>(check); }, &clock);
  };
  EXPECT_TRUE(with({"layer.0", 9e-4, 1e-3}).ok());
  EXPECT_THAT(with({"layer.0", 2e-3, 1e-3}).message(), HasSubstr("layer.0 differs from plain"));
  EXPECT_FALSE(with({"layer.0", std::nan(""), 1e-3}).ok());
}

// Logits are sums of a sequence's ids, spoilt in one way.
class SpoiltSteps final : public program::ProgramRun {
 public:
  explicit SpoiltSteps(Fault fault, int* runs = nullptr) : fault_(fault), runs_(runs) {}
  uint64_t block_bytes(size_t) const override { return 1; }
  uint64_t HeldBytes() const override { return 0; }
  Status Run(size_t /*index*/, const program::PackedBatch& batch,
             std::span<float* const> /*sinks*/) override {
    if (runs_ != nullptr) ++*runs_;
    logits_.clear();
    EXPECT_LE(batch.ids.size(), static_cast<size_t>(kCheckRows));
    EXPECT_LE(batch.picks.size(), static_cast<size_t>(kCheckLogitRows));
    for (const int32_t row : batch.picks) {
      float logit = static_cast<float>(batch.ids[static_cast<size_t>(row)]);
      if (fault_ == Fault::kNan) logit = std::numeric_limits<float>::quiet_NaN();
      if (fault_ == Fault::kBatch && batch.sequences() > 1) logit *= 1.0000002f;
      logits_.push_back(fault_ == Fault::kConstant ? std::vector<float>(3, 7)
                                                   : std::vector<float>{1, 2, logit});
    }
    return Status::Ok();
  }
  Expected<std::span<const float>> Rows(size_t first, size_t) override {
    return std::span<const float>(logits_[first]);
  }

 private:
  const Fault fault_;
  int* const runs_;
  std::vector<std::vector<float>> logits_;
};

TEST(KnownAnswers, StepsOfADecoder) {
  const auto check = [](Fault fault, int32_t context = 100) {
    CheckClock clock(std::chrono::hours(1), nullptr);
    return CheckSteps(std::make_unique<SpoiltSteps>(fault), 1000, context, 0.01, &clock);
  };
  EXPECT_TRUE(check(Fault::kNone).ok());
  EXPECT_TRUE(check(Fault::kNone, 1).ok());
  EXPECT_THAT(check(Fault::kNan).message(), HasSubstr("token 0 is nan"));
  EXPECT_THAT(check(Fault::kConstant).message(), HasSubstr("results are 7"));
  EXPECT_THAT(check(Fault::kBatch).message(), HasSubstr("among others"));
  FakeTime time;
  CheckClock clock = time.Limit(0.2);
  int runs = 0;
  EXPECT_TRUE(
      CheckSteps(std::make_unique<SpoiltSteps>(Fault::kBatch, &runs), 1000, 100, 0.3, &clock).ok());
  EXPECT_EQ(runs, 0);
  EXPECT_FALSE(clock.complete());
}

// A copy of a golden model that a test may spoil.
std::string CopyOf(const std::string& model, const TempFolder& place) {
  fs::copy(PENSTOCK_GOLDEN_DIR "/" + model, place.path(), fs::copy_options::recursive);
  return place.text();
}

// Puts zeros in the place of all weights, in another file of the same name.
void ZeroWeights(const std::string& folder) {
  const fs::path file = fs::path(folder) / "model.safetensors";
  std::ifstream in(file, std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(in)), {});
  uint64_t header = 0;
  std::memcpy(&header, bytes.data(), sizeof header);
  std::fill(bytes.begin() + static_cast<ptrdiff_t>(8 + header), bytes.end(), '\0');
  fs::remove(file);
  std::ofstream(file, std::ios::binary) << bytes;
}

TEST(LinearCheckTest, EncodersOfEveryArchitectureAndType) {
  const auto backend = *cpu::NewCpuBackend({.threads = 2, .pin = false});
  for (const auto& entry : fs::directory_iterator(PENSTOCK_GOLDEN_DIR "/models")) {
    const auto folder = families::ModelFolder::Read(entry.path().string());
    if (!folder.ok()) continue;
    for (const numbers::DType dtype :
         {numbers::DType::kF32, numbers::DType::kBf16, numbers::DType::kI8}) {
      const auto model = models::EncoderModel::Load(*folder, backend.get(), dtype);
      ASSERT_TRUE(model.ok()) << model.status().ToString();
      const auto check = CheckEncoderLinear(**model, backend.get());
      ASSERT_TRUE(check.ok()) << check.status().ToString();
      EXPECT_TRUE(check->ok()) << entry.path() << numbers::DTypeName(dtype) << check->error;
      EXPECT_GT(check->error, 0) << entry.path();
      EXPECT_FALSE(check->of.empty());
    }
  }
}

TEST(LinearCheckTest, DecodersOfEveryArchitecture) {
  const auto backend = *cpu::NewCpuBackend({.threads = 2, .pin = false});
  for (const auto& entry : fs::directory_iterator(PENSTOCK_GOLDEN_DIR "/decoders")) {
    const auto files = families::DecoderFiles::Open(entry.path().string());
    if (!files.ok()) continue;
    for (const numbers::DType dtype : {numbers::DType::kF32, numbers::DType::kBf16}) {
      const auto model = models::DecoderModel::Load(*files, backend.get(), {.dtype = dtype});
      ASSERT_TRUE(model.ok()) << model.status().ToString();
      const auto check = CheckDecoderLinear(**model, *files, numbers::DType::kBf16, backend.get());
      ASSERT_TRUE(check.ok()) << check.status().ToString();
      EXPECT_TRUE(check->ok()) << entry.path() << numbers::DTypeName(dtype) << check->error;
      EXPECT_FALSE(check->of.empty());
    }
  }
}

TEST(LinearCheckTest, WeightsThatAreNotThoseOfTheFileAreFound) {
  const auto backend = *cpu::NewCpuBackend({.threads = 2, .pin = false});
  const TempFolder encoder_place, decoder_place;
  const std::string encoder = CopyOf("models/bert_mean_normalize", encoder_place);
  const auto folder = families::ModelFolder::Read(encoder);
  ASSERT_TRUE(folder.ok());
  const auto model = models::EncoderModel::Load(*folder, backend.get());
  ASSERT_TRUE(model.ok());
  ZeroWeights(encoder);
  EXPECT_FALSE(CheckEncoderLinear(**model, backend.get())->ok());

  const std::string decoder = CopyOf("decoders/qwen3", decoder_place);
  const auto files = families::DecoderFiles::Open(decoder);
  ASSERT_TRUE(files.ok()) << files.status().ToString();
  const auto text = models::DecoderModel::Load(*files, backend.get(), {});
  ASSERT_TRUE(text.ok());
  ZeroWeights(decoder);
  const auto other = families::DecoderFiles::Open(decoder);
  ASSERT_TRUE(other.ok());
  EXPECT_FALSE(CheckDecoderLinear(**text, *other, numbers::DType::kF32, backend.get())->ok());
}

TEST(KnownAnswers, ALargeDecoderIsCheckedByItsFirstLayers) {
  const auto backend = *cpu::NewCpuBackend({.threads = 2, .pin = false});
  const auto files = families::DecoderFiles::Open(PENSTOCK_GOLDEN_DIR "/decoders/qwen3");
  ASSERT_TRUE(files.ok());
  const auto model = models::DecoderModel::Load(*files, backend.get(), {});
  ASSERT_TRUE(model.ok());
  const program::Program& whole = (*model)->program();
  double whole_s = 0, cut_s = 0;
  const program::Program all = ProgramWithin(whole, 10, &whole_s);
  EXPECT_EQ(all.ops.size(), whole.ops.size());
  EXPECT_GT(whole_s, 0);
  const program::Program cut = ProgramWithin(whole, 0, &cut_s);
  EXPECT_EQ(cut.ops.size(), 5u);  // lookup, one layer of three, logits
  EXPECT_LT(cut_s, whole_s);
  EXPECT_TRUE(program::CheckProgram(cut).ok()) << program::CheckProgram(cut).message();
  program::PrepareOptions options;
  options.rows = kCheckRows;
  options.picks = kCheckLogitRows;
  options.blocks = {2};
  auto run = backend->Prepare(cut, options);
  ASSERT_TRUE(run.ok());
  CheckClock clock(std::chrono::hours(1), &backend->gate());
  const Status status = CheckSteps(*std::move(run), (*model)->config().vocab_size,
                                   (*model)->context(), cut_s, &clock);
  EXPECT_TRUE(status.ok()) << status.ToString();
}

}  // namespace
}  // namespace penstock::checks

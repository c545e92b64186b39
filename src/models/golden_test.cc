// Every golden model of tests/golden/models, against outputs computed in float64 by the reference
// implementation (tests/golden/README.md), with every instruction set this processor has.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "cpu/cpu_backend.h"
#include "cpu/dispatch.h"
#include "models/encoder.h"
#include "models/golden_test_util.h"

namespace penstock::models {
namespace {

class GoldenModel : public testing::TestWithParam<std::string> {};

TEST_P(GoldenModel, AgreesWithReference) {
  auto folder = families::ModelFolder::Read(PENSTOCK_GOLDEN_DIR "/models/" + GetParam());
  ASSERT_TRUE(folder.ok()) << folder.status().ToString();
  const std::vector<GoldenCase> cases = LoadCases(GetParam(), &*folder);
  ASSERT_FALSE(cases.empty());
  for (const cpu::Kernels* kernels : cpu::AllKernels()) {
    SCOPED_TRACE(kernels->name);
    auto backend = cpu::NewCpuBackend({.threads = 2, .pin = false, .isa = kernels->name});
    ASSERT_TRUE(backend.ok());
    auto model = EncoderModel::Load(*folder, backend->get());
    ASSERT_TRUE(model.ok()) << model.status().ToString();
    const double worst = WorstError(**model, *folder, cases);
    EXPECT_LE(worst, kErrorMax);
    RecordProperty(std::string("error_max_") + kernels->name, std::to_string(worst));
  }
}

// `first`: each case's result as it came out first; filled where empty.
void CheckBits(const families::ModelFolder& folder, const std::vector<GoldenCase>& cases,
               program::EncoderOutput output, const LinearTypes& types, int threads,
               std::vector<std::vector<float>>* first) {
  auto backend = cpu::NewCpuBackend({.threads = threads, .pin = false, .exact_threads = true});
  ASSERT_TRUE(backend.ok());
  auto model = EncoderModel::Load(folder, backend->get(), types);
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  const size_t width = static_cast<size_t>((*model)->OutputWidth(output));
  for (int repeats : {1, 3}) {
    GoldenBatch all;
    for (int r = 0; r < repeats; ++r) {
      for (const GoldenCase& c : cases) all.Add(c);
    }
    std::vector<float> together = RunBatch(**model, all, output);
    for (size_t i = 0; i < cases.size() * static_cast<size_t>(repeats); ++i) {
      GoldenBatch alone;
      alone.Add(cases[i % cases.size()]);
      const std::vector<float> single = RunBatch(**model, alone, output);
      if (first->size() < cases.size()) first->push_back(single);
      ASSERT_EQ(
          0, std::memcmp(single.data(), (*first)[i % cases.size()].data(), width * sizeof(float)));
      ASSERT_EQ(0, std::memcmp(single.data(), together.data() + i * width, width * sizeof(float)))
          << "case " << i % cases.size() << ", " << threads << " threads";
    }
  }
}

// The same text gives the same bits, alone or in any batch, at any thread count.
TEST_P(GoldenModel, BitsDoNotDependOnTheBatchOrThreads) {
  auto folder = families::ModelFolder::Read(PENSTOCK_GOLDEN_DIR "/models/" + GetParam());
  ASSERT_TRUE(folder.ok()) << folder.status().ToString();
  const std::vector<GoldenCase> cases = LoadCases(GetParam(), &*folder);
  const program::EncoderOutput output = OutputOf(*folder);
  std::vector<LinearTypes> all = {numbers::DType::kF32, numbers::DType::kBf16, numbers::DType::kI8};
  for (const char* kept : {"ff-in,0.attention-out", "-1,0.qkv,ff-out"}) {
    for (const numbers::DType higher : {numbers::DType::kF32, numbers::DType::kBf16}) {
      LinearTypes& types = all.emplace_back(numbers::DType::kI8);
      types.override_dtype = higher;
      types.kept = *ParseTypeOverrides(kept);
    }
  }
  for (const LinearTypes& types : all) {
    SCOPED_TRACE(std::string(numbers::DTypeName(types.dtype)) + " " +
                 TypeOverridesText(types.kept));
    std::vector<std::vector<float>> first;
    for (int threads : {1, 2, 3, 5}) CheckBits(*folder, cases, output, types, threads, &first);
  }
}

// A model whose linear layers are all overridden equals one of that type, to the bit; an override
// of a layer it lacks is refused.
TEST_P(GoldenModel, KeptPartsAreOfTheirType) {
  auto folder = families::ModelFolder::Read(PENSTOCK_GOLDEN_DIR "/models/" + GetParam());
  ASSERT_TRUE(folder.ok()) << folder.status().ToString();
  const std::vector<GoldenCase> cases = LoadCases(GetParam(), &*folder);
  auto backend = cpu::NewCpuBackend({.threads = 2, .pin = false});
  ASSERT_TRUE(backend.ok());
  GoldenBatch all;
  for (const GoldenCase& c : cases) all.Add(c);
  const auto hidden = [&](const LinearTypes& types) {
    auto model = EncoderModel::Load(*folder, backend->get(), types);
    EXPECT_TRUE(model.ok()) << model.status().ToString();
    return RunBatch(**model, all, program::EncoderOutput::kTokens);
  };
  LinearTypes types = numbers::DType::kI8;
  types.override_dtype = numbers::DType::kF32;
  types.kept = *ParseTypeOverrides("qkv,attention-out,ff-in,ff-out");
  EXPECT_EQ(hidden(types), hidden(numbers::DType::kF32));
  types.kept = *ParseTypeOverrides("-1");
  EXPECT_NE(hidden(types), hidden(numbers::DType::kI8));
  types.kept = *ParseTypeOverrides("99.qkv");
  EXPECT_THAT(EncoderModel::Load(*folder, backend->get(), types).status().message(),
              testing::HasSubstr("'99.qkv': the model has"));
}

// Random weights of 32 columns are harder on bf16 and int8 than a trained model: these bounds tell
// a mistake from rounding, no more.
TEST_P(GoldenModel, Bf16AndInt8StayClose) {
  auto folder = families::ModelFolder::Read(PENSTOCK_GOLDEN_DIR "/models/" + GetParam());
  ASSERT_TRUE(folder.ok()) << folder.status().ToString();
  const std::vector<GoldenCase> cases = LoadCases(GetParam(), &*folder);
  for (const cpu::Kernels* kernels : cpu::AllKernels()) {
    auto backend = cpu::NewCpuBackend({.threads = 2, .pin = false, .isa = kernels->name});
    ASSERT_TRUE(backend.ok());
    for (const auto& [dtype, cosine_min] :
         {std::pair{numbers::DType::kBf16, 0.999}, {numbers::DType::kI8, 0.99}}) {
      auto model = EncoderModel::Load(*folder, backend->get(), dtype);
      ASSERT_TRUE(model.ok()) << model.status().ToString();
      EXPECT_GT(WorstCosine(**model, cases), cosine_min)
          << kernels->name << " " << numbers::DTypeName(dtype);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, GoldenModel, testing::ValuesIn(GoldenModels()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace penstock::models

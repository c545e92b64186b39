// Every golden encoder on the emulated device, as architectures with both kinds of tensor cores.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "cuda/golden_device_test_util.h"
#include "cuda/race_hooks.h"
#include "families/model_folder.h"
#include "models/golden_test_util.h"

namespace penstock::cuda {
namespace {

using models::EncoderModel;
using models::GoldenBatch;
using models::GoldenCase;
using numbers::DType;

struct Variant {
  const char* name;
  EmulatedOptions device;
  RunOptions run;
};

class CudaGoldenModel : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    // Many times slower: one model of each kind of kernel.
    const std::set<std::string> some = {"bert_rerank_identity", "modernbert_rerank_cls",
                                        "mpnet_rerank", "nomic_native_config"};
    if (!some.contains(GetParam())) GTEST_SKIP() << "not under a sanitizer";
#endif
    const std::string path = PENSTOCK_GOLDEN_DIR "/models/" + GetParam();
    auto folder = families::ModelFolder::Read(path);
    ASSERT_TRUE(folder.ok()) << folder.status().ToString();
    folder_ = *folder;
    cases_ = models::LoadCases(GetParam(), &folder_);
  }
  std::unique_ptr<EncoderModel> Load(const models::LinearTypes& types,
                                     const EmulatedOptions& device = {},
                                     const RunOptions& run = {}) {
    backend_ = NewCudaBackend(TestDevice(device), run);
    auto model = EncoderModel::Load(folder_, backend_.get(), types);
    EXPECT_TRUE(model.ok()) << model.status().ToString();
    return model.ok() ? std::move(*model) : nullptr;
  }

  families::ModelFolder folder_;
  std::vector<GoldenCase> cases_;
  std::unique_ptr<program::Backend> backend_;
};

TEST_P(CudaGoldenModel, AgreesWithReference) {
  if (race::kOn) GTEST_SKIP() << "races are sought by BitsAreAFunctionOfTheText";
  const auto model = Load(DType::kF32);
  ASSERT_NE(model, nullptr);
  EXPECT_LE(models::WorstError(*model, folder_, cases_), models::kErrorMax);
}

TEST_P(CudaGoldenModel, OperandsOfTensorCoresStayClose) {
  if (race::kOn) GTEST_SKIP() << "races are sought by BitsAreAFunctionOfTheText";
  for (const TensorCore& core : {kHopper, kAmpere}) {
    for (const DType dtype : {DType::kF16, DType::kBf16}) {
      const auto model = Load(dtype, {.tensor_core = core});
      ASSERT_NE(model, nullptr);
      const double cosine = models::WorstCosine(*model, cases_);
      EXPECT_GE(cosine, 0.9999) << numbers::DTypeName(dtype) << " " << core.products;
    }
  }
}

// The same bits alone and among others, from graphs and without them, whatever order threads, copies
// and kernels take.
TEST_P(CudaGoldenModel, BitsAreAFunctionOfTheText) {
  const program::EncoderOutput output = models::OutputOf(folder_);
  // Short ones: an order of threads costs time.
  std::ranges::sort(cases_, {}, [](const GoldenCase& one) { return one.ids.size(); });
  cases_.resize(std::min<size_t>(cases_.size(), 3));
  std::vector<std::vector<float>> first;
  for (const Variant& variant : {
           Variant{"plain", {}, {}},
           {"eager, late, by warps",
            {.order = emulator::WakeOrder::kWarps, .late_copies = true},
            {.graphs = false}},
           {"overlapping, random", {.order = emulator::WakeOrder::kRandom, .overlaps = true}, {}},
       }) {
    SCOPED_TRACE(variant.name);
    const auto model = Load(DType::kF16, variant.device, variant.run);
    ASSERT_NE(model, nullptr);
    const auto width = static_cast<size_t>(model->OutputWidth(output));
    const auto run = [&](std::span<const GoldenCase> cases) {
      GoldenBatch batch;
      for (const GoldenCase& one : cases) batch.Add(one);
      return models::RunBatch(*model, batch, output);
    };
    const std::vector<float> together = run(cases_);
    for (size_t i = 0; i < cases_.size(); ++i) {
      if (first.size() < cases_.size()) first.push_back(run({&cases_[i], 1}));
      ASSERT_EQ(0, std::memcmp(together.data() + i * width, first[i].data(), width * sizeof(float)))
          << i;
    }
  }
}

// A GPU has the bits of the emulator that has its tensor cores.
TEST(CudaGolden, AGpuHasTheBitsOfTheEmulator) {
  if (!OnGpu()) GTEST_SKIP() << "PENSTOCK_TEST_DEVICE=cuda runs this on a GPU";
  const bool ampere = TestDevice({})->info().major < 9;
  for (const std::string& name : models::GoldenModels()) {
    auto folder = families::ModelFolder::Read(PENSTOCK_GOLDEN_DIR "/models/" + name);
    ASSERT_TRUE(folder.ok()) << folder.status().ToString();
    GoldenBatch batch;
    for (const GoldenCase& one : models::LoadCases(name, &*folder)) batch.Add(one);
    for (const DType dtype : {DType::kF32, DType::kF16, DType::kBf16}) {
      std::vector<std::vector<float>> results;
      for (const bool gpu : {true, false}) {
        const EmulatedOptions alike = {.tensor_core = ampere ? kAmpere : kHopper};
        const auto backend = NewCudaBackend(gpu ? TestDevice(alike) : NewEmulatedDevice(alike));
        const auto model = EncoderModel::Load(*folder, backend.get(), dtype);
        ASSERT_TRUE(model.ok()) << model.status().ToString();
        results.push_back(models::RunBatch(**model, batch, models::OutputOf(*folder)));
      }
      EXPECT_EQ(results[0], results[1]) << name << " " << numbers::DTypeName(dtype);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, CudaGoldenModel, testing::ValuesIn(models::GoldenModels()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace penstock::cuda

// Texts and embeddings of decoders on the emulated device, through the scheduler and the runner that
// a server has: what the CPU gives.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "cpu/cpu_backend.h"
#include "cuda/cuda_backend.h"
#include "cuda/device_emulated.h"
#include "engine/decoder_runner.h"
#include "families/decoder_files.h"
#include "generate/decode_scheduler_test_util.h"

namespace penstock::devices {
namespace {

using generate::DecodeJob;
using generate::Prompt;
using generate::Recorder;
using numbers::DType;

std::unique_ptr<program::Backend> MakeBackend(bool device) {
  if (device) return cuda::NewCudaBackend(cuda::NewEmulatedDevice({}));
  return *cpu::NewCpuBackend({.threads = 1, .pin = false});
}

class Texts : public generate::DecodeFixture {
 public:
  explicit Texts(bool device) : DecodeFixture(MakeBackend(device), /*window=*/40) {}
  void TestBody() override {}

  // Prompts of several chunks and of one token, some that begin alike; greedy, drawn, with
  // penalties, with several samples, and a text that repeats itself.
  std::vector<std::vector<int32_t>> Ids() {
    tiny_.SetCacheType(DType::kF32);
    Start();
    std::vector<std::unique_ptr<DecodeJob>> jobs;
    for (const size_t length : {1u, 40u, 150u, 70u, 40u}) {
      jobs.push_back(Job(Prompt(length, 3), 12, length));
    }
    jobs[0]->sampling.temperature = 0;
    jobs[1]->sampling.temperature = 0.7F;
    jobs[1]->sampling.top_p = 0.9F;
    jobs[2]->sampling.repetition_penalty = 1.3F;
    jobs[2]->samples = 3;
    jobs[3]->sampling.temperature = 0;
    std::vector<std::shared_ptr<Recorder>> sinks;
    for (auto& job : jobs) sinks.push_back(Submit(std::move(job)));
    std::vector<std::vector<int32_t>> ids;
    for (const auto& sink : sinks) {
      EXPECT_TRUE(sink->Wait().ok());
      for (int32_t sample = 0; sample < 3; ++sample) ids.push_back(sink->got(sample).ids);
    }
    return ids;
  }
};

TEST(CudaTexts, AreThoseOfTheCpu) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "step_run_test.cc runs the same kernels";
#endif
  const auto want = Texts(false).Ids();
  const auto got = Texts(true).Ids();
  EXPECT_EQ(got, want);
  for (const size_t text : {0u, 3u, 6u, 7u, 8u}) EXPECT_EQ(got[text].size(), 12u) << text;
}

using Rows = std::vector<std::vector<float>>;

Rows Embed(const std::string& name, bool device, DType dtype,
           const std::vector<std::vector<int32_t>>& texts) {
  const auto backend = MakeBackend(device);
  auto folder = families::ModelFolder::Read(PENSTOCK_GOLDEN_DIR "/embedders/" + name);
  EXPECT_TRUE(folder.ok()) << folder.status().ToString();
  auto files = families::DecoderFiles::Open(folder->path, families::DecoderUse::kEmbed);
  EXPECT_TRUE(files.ok()) << files.status().ToString();
  if (folder->logit_score) folder->logit_score->true_id = 257;
  auto model = models::EmbeddingDecoder::Load(*folder, *files, backend.get(), {dtype, 400});
  EXPECT_TRUE(model.ok()) << model.status().ToString();
  engine::DecoderRunner runner(*std::move(model), backend.get(),
                               dtype == DType::kF32 ? DType::kF32 : DType::kBf16);
  const auto output = runner.OutputWidth(program::EncoderOutput::kPooled) > 0
                          ? program::EncoderOutput::kPooled
                          : program::EncoderOutput::kLogits;
  std::vector<int32_t> ids, offsets{0};
  Rows rows;
  std::vector<float*> sinks;
  for (const auto& text : texts) {
    ids.insert(ids.end(), text.begin(), text.end());
    offsets.push_back(static_cast<int32_t>(ids.size()));
    rows.emplace_back(static_cast<size_t>(runner.OutputWidth(output)));
  }
  for (auto& row : rows) sinks.push_back(row.data());
  const Status status = runner.Run({ids, {}, offsets, {}}, output, sinks);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return rows;
}

TEST(CudaTexts, EmbeddingsAreThoseOfTheCpu) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "step_run_test.cc runs the same kernels";
#endif
  const std::vector<std::vector<int32_t>> texts = {Prompt(5, 1), Prompt(130, 2), Prompt(33, 3)};
  for (const char* name :
       {"gemma3_mean_dense", "llama_mean_causal", "llama_seq_cls", "mistral_window",
        "qwen2_both_directions", "qwen3_lasttoken", "qwen3_lasttoken_gguf", "qwen3_logit_score"}) {
    const Rows want = Embed(name, false, DType::kF32, texts);
    const Rows same = Embed(name, true, DType::kF32, texts);
    const Rows close = Embed(name, true, DType::kF16, texts);
    for (size_t text = 0; text < texts.size(); ++text) {
      double products = 0, squares = 0, want_squares = 0;
      for (size_t i = 0; i < want[text].size(); ++i) {
        EXPECT_NEAR(same[text][i], want[text][i], 2e-5 + 2e-5 * std::abs(want[text][i])) << name;
        const double got = close[text][i], exact = want[text][i];
        products += got * exact;
        squares += got * got;
        want_squares += exact * exact;
      }
      EXPECT_GE(products / std::sqrt(squares * want_squares), 0.999) << name;
    }
  }
}

}  // namespace
}  // namespace penstock::devices

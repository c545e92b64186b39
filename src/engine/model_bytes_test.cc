// What models are said to take, beside what they take.
#include "engine/model_bytes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <future>

#include "cpu/cpu_backend.h"
#include "engine/decoder_engine.h"
#include "engine/encoder_engine.h"

namespace penstock::engine {
namespace {

using testing::HasSubstr;

class ModelBytesTest : public testing::Test {
 protected:
  void SetUp() override {
    auto backend = cpu::NewCpuBackend({.threads = 2});
    ASSERT_TRUE(backend.ok());
    backend_ = *std::move(backend);
  }
  // A model of the goldens, or of the folder that the variable names; "": it is not there.
  static std::string Folder(const char* golden, const char* variable) {
    if (variable != nullptr) {
      const char* const given = std::getenv(variable);
      return given == nullptr ? "" : given;
    }
    return std::string(PENSTOCK_GOLDEN_DIR "/") + golden;
  }
  void CheckEncoder(const std::string& folder, std::optional<numbers::DType> dtype);

  std::unique_ptr<program::Backend> backend_;
  metrics::Metrics metrics_;
};

void ModelBytesTest::CheckEncoder(const std::string& folder, std::optional<numbers::DType> dtype) {
  SCOPED_TRACE(folder);
  EncoderEngineOptions options;
  options.name = "m";
  options.dtype = dtype;
  options.scheduler.max_batch_tokens = 2048;
  const auto needs = ModelNeedsOf(folder, options, {}, backend_.get());
  ASSERT_TRUE(needs.ok()) << needs.status().ToString();
  auto engine = EncoderEngine::Load(folder, options, backend_.get(), &metrics_);
  ASSERT_TRUE(engine.ok()) << engine.status().ToString();
  // Of weights no less than they take, and at most a quarter more, besides the tokenizer.
  const uint64_t weights = (*engine)->info().weight_bytes;
  EXPECT_GE(needs->wanted.weights, weights);
  if (dtype != numbers::DType::kI8) {
    const auto tokenizer = std::filesystem::file_size((*engine)->folder().tokenizer_path);
    EXPECT_LE(needs->wanted.weights, weights + weights / 4 + 4 * tokenizer + (64 << 10));
  }
  EXPECT_GE(needs->wanted.activations, (*engine)->info().activation_bytes * 9 / 10);
  EXPECT_LE(needs->least.activations, needs->wanted.activations);
  // The largest batch holds what it was said to.
  std::promise<Status> done;
  auto job = std::make_unique<sched::EncodeJob>();
  const int32_t length = std::min((*engine)->info().max_tokens, 128);
  for (int32_t tokens = 0; tokens + length <= 2048; tokens += length) {
    job->lengths.push_back(length);
    job->ids.insert(job->ids.end(), static_cast<size_t>(length), 5);
  }
  job->output = (*engine)->info().num_labels > 0 ? program::EncoderOutput::kLogits
                                                 : program::EncoderOutput::kPooled;
  job->done = [&](std::unique_ptr<sched::EncodeJob>, Status status) {
    done.set_value(std::move(status));
  };
  ASSERT_TRUE((*engine)->scheduler().Submit(std::move(job)).ok());
  ASSERT_TRUE(done.get_future().get().ok());
  const uint64_t held = (*engine)->HeldBytes();
  EXPECT_GT(held, 0u);
  EXPECT_LE(held, (*engine)->info().activation_bytes * 11 / 10 + (1 << 20));
}

TEST_F(ModelBytesTest, EncodersTakeWhatTheySay) {
  for (const char* name : {"bert_mean_normalize", "bert_rerank_identity", "modernbert_mean"}) {
    const std::string folder = Folder((std::string("models/") + name).c_str(), nullptr);
    if (!std::filesystem::exists(folder)) continue;
    for (const numbers::DType dtype :
         {numbers::DType::kF32, numbers::DType::kBf16, numbers::DType::kI8}) {
      CheckEncoder(folder, dtype);
    }
  }
}

TEST_F(ModelBytesTest, ARealEncoderTakesWhatItSays) {
  const std::string folder = Folder("", "PENSTOCK_MINILM");
  if (folder.empty()) GTEST_SKIP() << "PENSTOCK_MINILM is not set";
  CheckEncoder(folder, numbers::DType::kF32);
  CheckEncoder(folder, numbers::DType::kBf16);
}

TEST_F(ModelBytesTest, BatchesFollowWhatIsGranted) {
  const std::string folder = Folder("models/bert_mean_normalize", nullptr);
  EncoderEngineOptions options;
  options.name = "m";
  options.scheduler.max_batch_tokens = 8192;
  const auto needs = ModelNeedsOf(folder, options, {}, backend_.get());
  ASSERT_TRUE(needs.ok());
  options.granted = needs->least;
  auto engine = EncoderEngine::Load(folder, options, backend_.get(), &metrics_);
  ASSERT_TRUE(engine.ok());
  EXPECT_LT((*engine)->scheduler().limits().tokens, 8192u);
  EXPECT_LE((*engine)->info().activation_bytes, needs->least.activations);
}

TEST_F(ModelBytesTest, DecodersTakeWhatTheySay) {
  const std::string folder = Folder("", "PENSTOCK_SMOLLM2");
  if (folder.empty()) GTEST_SKIP() << "PENSTOCK_SMOLLM2 is not set";
  DecoderEngineOptions options;
  options.name = "m";
  options.model.context = 2048;
  const auto needs = ModelNeedsOf(folder, {}, options, backend_.get());
  ASSERT_TRUE(needs.ok()) << needs.status().ToString();
  options.granted = needs->wanted;
  auto engine = DecoderEngine::Load(folder, options, backend_.get(), &metrics_);
  ASSERT_TRUE(engine.ok()) << engine.status().ToString();
  const ModelBytes bytes = (*engine)->bytes();
  EXPECT_GE(needs->wanted.weights, bytes.weights);
  EXPECT_LE(needs->wanted.weights, bytes.weights * 13 / 10);
  EXPECT_GE(needs->wanted.cache, bytes.cache);
  EXPECT_GE(needs->wanted.cache, bytes.cache * 9 / 10);
  EXPECT_LE((*engine)->HeldBytes(), needs->wanted.activations + needs->wanted.cache);
}

TEST_F(ModelBytesTest, NamesItsParts) {
  EXPECT_EQ(ModelBytesText({2'000'000, 500'000, 0}), "2.5 MB (weights 2.0, activations 0.5)");
}

}  // namespace
}  // namespace penstock::engine

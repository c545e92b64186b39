#include "engine/onnx_runner.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <map>

#include "cpu/cpu_backend.h"
#include "openvino/openvino_test_util.h"

namespace penstock::engine {
namespace {

using openvino::CanOpenRuntime;
using openvino::Golden;
using ::testing::HasSubstr;

constexpr int kHidden = 4, kLabels = 3;

// tools/make_tensor_goldens.py, encoder_models.
float State(int32_t id, int32_t type, int h) {
  return static_cast<float>((id * 7 + h * 3) % 11 - 5) / 8 + static_cast<float>(type * (h + 1)) / 4;
}

struct Text {
  std::vector<int32_t> ids, types;

  std::vector<float> Sum() const {
    std::vector<float> sum(kHidden);
    for (size_t i = 0; i < ids.size(); ++i) {
      for (int h = 0; h < kHidden; ++h) sum[h] += State(ids[i], types[i], h);
    }
    return sum;
  }
  std::vector<float> Tokens() const {
    std::vector<float> states;
    const std::vector<float> sum = Sum();
    for (size_t i = 0; i < ids.size(); ++i) {
      for (int h = 0; h < kHidden; ++h) states.push_back(State(ids[i], types[i], h) + sum[h]);
    }
    return states;
  }
  std::vector<float> Mean(size_t skip) const {
    std::vector<float> mean(kHidden);
    const std::vector<float> states = Tokens();
    for (size_t i = skip * kHidden; i < states.size(); ++i) mean[i % kHidden] += states[i];
    for (float& x : mean) x /= static_cast<float>(ids.size() - skip);
    return mean;
  }
  std::vector<float> Logits() const {
    std::vector<float> logits(kLabels);
    const std::vector<float> sum = Sum();
    for (int i = 0; i < kHidden * kLabels; ++i) {
      logits[i % kLabels] += sum[i / kLabels] * static_cast<float>(i % 5 - 2) / 4;
    }
    return logits;
  }
};

class OnnxRunnerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const Status can = CanOpenRuntime(); !can.ok()) {
      GTEST_SKIP() << "NOT TESTED: " << can.message();
    }
    auto backend = cpu::NewCpuBackend({.threads = 2, .pin = false});
    ASSERT_TRUE(backend.ok()) << backend.status().ToString();
    backend_ = *std::move(backend);
    folder_.onnx = Golden("encoder.onnx");
    folder_.encoder.vocab_size = 32;
    folder_.encoder.hidden_size = kHidden;
    folder_.encoder.type_vocab_size = 2;
    folder_.max_tokens = 100;
    folder_.pooling = families::PoolingMode::kMean;
  }

  Status Load() {
    auto model = OnnxEncoder::Load(folder_, backend_.get());
    if (!model.ok()) return model.status();
    runner_ = std::make_unique<OnnxRunner>(std::move(*model));
    return Status::Ok();
  }

  static std::vector<Text> Texts(const std::vector<int>& lengths) {
    std::vector<Text> texts;
    for (const int length : lengths) {
      Text& text = texts.emplace_back();
      for (int i = 0; i < length; ++i) {
        text.ids.push_back((i * 5 + length) % 32);
        text.types.push_back(i % 3 == 2 ? 1 : 0);
      }
    }
    return texts;
  }

  // Results of each text, `width(text)` floats.
  template <typename Width>
  Status Run(const std::vector<Text>& texts, program::EncoderOutput output, Width width,
             std::vector<std::vector<float>>* results, std::vector<int32_t> skip = {}) {
    std::vector<int32_t> ids, types, offsets{0};
    std::vector<float*> sinks;
    results->clear();
    for (const Text& text : texts) {
      ids.insert(ids.end(), text.ids.begin(), text.ids.end());
      types.insert(types.end(), text.types.begin(), text.types.end());
      offsets.push_back(static_cast<int32_t>(ids.size()));
      results->emplace_back(width(text), -1.f);
    }
    for (auto& result : *results) sinks.push_back(result.data());
    return runner_->Run({ids, types, offsets, skip, {}}, output, sinks);
  }

  std::unique_ptr<program::Backend> backend_;
  families::ModelFolder folder_;
  std::unique_ptr<OnnxRunner> runner_;
};

// More than a group, of lengths that share one and lengths that do not.
const std::vector<int> kLengths = {3,  100, 1, 17, 16, 15, 40, 41, 99, 2, 2,  2,  2,  5, 7, 9, 30,
                                   31, 32,  8, 8,  8,  8,  8,  8,  8,  8, 8,  8,  8,  8, 8, 8, 8,
                                   8,  8,   8, 8,  8,  8,  8,  8,  8,  8, 64, 50, 12, 1, 90};

TEST_F(OnnxRunnerTest, StatesOfTokens) {
  ASSERT_TRUE(Load().ok());
  EXPECT_EQ(runner_->OutputWidth(program::EncoderOutput::kTokens), kHidden);
  EXPECT_EQ(runner_->OutputWidth(program::EncoderOutput::kLogits), 0);
  const std::vector<Text> texts = Texts(kLengths);
  std::vector<std::vector<float>> results;
  const auto status = Run(
      texts, program::EncoderOutput::kTokens,
      [](const Text& text) { return text.ids.size() * kHidden; }, &results);
  ASSERT_TRUE(status.ok()) << status.ToString();
  // The sum would have padding in it if the mask did not reach the model.
  for (size_t i = 0; i < texts.size(); ++i) EXPECT_EQ(results[i], texts[i].Tokens()) << i;
}

TEST_F(OnnxRunnerTest, PoolsAsTheFolderSays) {
  ASSERT_TRUE(Load().ok());
  const std::vector<Text> texts = Texts(kLengths);
  std::vector<int32_t> skip;
  for (const Text& text : texts) skip.push_back(text.ids.size() > 2 ? 2 : 0);
  std::vector<std::vector<float>> results;
  const auto width = [](const Text&) { return size_t{kHidden}; };
  ASSERT_TRUE(Run(texts, program::EncoderOutput::kPooled, width, &results, skip).ok());
  for (size_t i = 0; i < texts.size(); ++i) {
    const std::vector<float> mean = texts[i].Mean(static_cast<size_t>(skip[i]));
    for (int h = 0; h < kHidden; ++h) EXPECT_NEAR(results[i][h], mean[h], 1e-4) << i;
  }
  folder_.pooling = families::PoolingMode::kLastToken;
  ASSERT_TRUE(Load().ok());
  ASSERT_TRUE(Run(texts, program::EncoderOutput::kPooled, width, &results).ok());
  for (size_t i = 0; i < texts.size(); ++i) {
    const std::vector<float> states = texts[i].Tokens();
    EXPECT_EQ(results[i], std::vector<float>(states.end() - kHidden, states.end())) << i;
  }
  // Memory goes and comes.
  EXPECT_GT(runner_->HeldBytes(), 0u);
  EXPECT_GT(runner_->ReleaseMemory(), 0u);
  EXPECT_EQ(runner_->HeldBytes(), 0u);
  EXPECT_EQ(runner_->ReleaseMemory(), 0u);
  ASSERT_TRUE(Run(texts, program::EncoderOutput::kPooled, width, &results).ok());
}

TEST_F(OnnxRunnerTest, Logits) {
  folder_.onnx = Golden("encoder_logits.onnx");
  folder_.task = families::ModelTask::kClassification;
  folder_.encoder.num_labels = kLabels;
  const Status loaded = Load();
  ASSERT_TRUE(loaded.ok()) << loaded.ToString();
  EXPECT_EQ(runner_->OutputWidth(program::EncoderOutput::kLogits), kLabels);
  EXPECT_EQ(runner_->OutputWidth(program::EncoderOutput::kPooled), 0);
  const std::vector<Text> texts = Texts(kLengths);
  std::vector<std::vector<float>> results;
  ASSERT_TRUE(Run(
                  texts, program::EncoderOutput::kLogits,
                  [](const Text&) { return size_t{kLabels}; }, &results)
                  .ok());
  for (size_t i = 0; i < texts.size(); ++i) {
    const std::vector<float> logits = texts[i].Logits();
    for (int l = 0; l < kLabels; ++l) EXPECT_NEAR(results[i][l], logits[l], 1e-3) << i;
  }
}

class CountingPause : public program::BatchPause {
 public:
  bool Pause() override {
    ++count;
    return false;
  }
  bool Wanted(size_t sequence) override { return sequence != unwanted || count == 0; }
  int count = 0;
  size_t unwanted = SIZE_MAX;  // from the first pause on
};

TEST_F(OnnxRunnerTest, OthersHaveATurnBetweenGroups) {
  ASSERT_TRUE(Load().ok());
  CountingPause pause;
  runner_->SetPause(&pause);
  std::vector<std::vector<float>> results;
  const auto width = [](const Text&) { return size_t{kHidden}; };
  ASSERT_TRUE(Run(Texts({8, 8, 8, 8}), program::EncoderOutput::kPooled, width, &results).ok());
  EXPECT_EQ(pause.count, 0);
  // 100 with 90; 40; 3 with 3: what is padded stays under a quarter.
  ASSERT_TRUE(
      Run(Texts({3, 100, 40, 90, 3}), program::EncoderOutput::kPooled, width, &results).ok());
  EXPECT_EQ(pause.count, 2);
  // The text of 40 has left before its group begins.
  pause.count = 0;
  pause.unwanted = 2;
  std::vector<std::vector<float>> left;
  ASSERT_TRUE(Run(Texts({3, 100, 40, 90, 3}), program::EncoderOutput::kPooled, width, &left).ok());
  EXPECT_EQ(pause.count, 1);
  EXPECT_NE(results[2], left[2]);
  left[2] = results[2];
  EXPECT_EQ(results, left);
}

TEST_F(OnnxRunnerTest, RefusesBadBatches) {
  ASSERT_TRUE(Load().ok());
  std::vector<std::vector<float>> results;
  const auto width = [](const Text&) { return size_t{kHidden}; };
  std::vector<Text> texts = Texts({4, 101});
  EXPECT_THAT(Run(texts, program::EncoderOutput::kPooled, width, &results).message(),
              HasSubstr("1 to 100"));
  for (const int32_t id : {-1, 32}) {
    texts = Texts({4, 5});
    texts[1].ids[2] = id;
    EXPECT_EQ(Run(texts, program::EncoderOutput::kPooled, width, &results).code(),
              StatusCode::kInvalidArgument);
  }
  texts = Texts({4});
  texts[0].types[0] = 2;
  EXPECT_THAT(Run(texts, program::EncoderOutput::kPooled, width, &results).message(),
              HasSubstr("type id 2"));
  EXPECT_EQ(Run(Texts({4}), program::EncoderOutput::kLogits, width, &results).code(),
            StatusCode::kInvalidArgument);
  ASSERT_TRUE(Run(Texts({4}), program::EncoderOutput::kPooled, width, &results).ok());
}

TEST_F(OnnxRunnerTest, RefusesOtherModels) {
  folder_.onnx = Golden("matmul.onnx");
  EXPECT_THAT(Load().message(), HasSubstr("this one takes x [-1,4]"));
  folder_.onnx = Golden("encoder_logits.onnx");
  EXPECT_THAT(Load().message(), HasSubstr("is to give last_hidden_state"));
  folder_.onnx = Golden("encoder.onnx");
  folder_.encoder.hidden_size = 5;
  EXPECT_THAT(Load().message(), HasSubstr("config.json says 5 hidden_size"));
  folder_.encoder.hidden_size = 0;  // then the file's
  EXPECT_TRUE(Load().ok());
  folder_.task = families::ModelTask::kReranking;
  EXPECT_THAT(Load().message(), HasSubstr("a model for reranking is to give logits"));
}

}  // namespace
}  // namespace penstock::engine

// A decoder of random weights whose tokens are letters, put together in memory: for tests.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <list>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "generate/text_model.h"
#include "program/backend.h"

namespace penstock::generate {

// Ids of TinyModel: <s>, </s>, then a to z and the space, each a token.
inline constexpr int32_t kTinyBegin = 0, kTinyEnd = 1, kTinyVocabulary = 29;
inline int32_t TinyId(char letter) { return letter == ' ' ? 28 : 2 + letter - 'a'; }

class TinyModel {
 public:
  // window: of one of the two layers; 0: none.
  TinyModel(int32_t context, std::unique_ptr<program::Backend> backend, int32_t window = 0,
            families::RopeScaling scaling = {})
      : backend_(std::move(backend)) {
    FillFiles(context);
    files_.config.rope_scaling = std::move(scaling);
    files_.config.layers.front().window = window;
    auto decoder = models::DecoderModel::Load(files_, backend_.get(), {numbers::DType::kF32, 0});
    EXPECT_TRUE(decoder.ok()) << decoder.status().ToString();
    model_.decoder = *std::move(decoder);
    auto tokenizer = text::Tokenizer::FromJson(TokenizerJson());
    EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
    model_.tokenizer = *std::move(tokenizer);
    model_.end_ids = {kTinyEnd};
  }

  const TextModel& model() const { return model_; }
  void SetCacheType(numbers::DType type) { model_.cache_type = type; }
  // Longrope that changes what the model says: short factors up to `original` tokens.
  static families::RopeScaling Longrope(int32_t original) {
    families::RopeScaling scaling;
    scaling.kind = families::RopeScalingKind::kLongrope;
    scaling.original_context = original;
    scaling.attention_factor = 1.25f;
    for (int32_t i = 0; i < kHeadSize / 2; ++i) {
      scaling.short_factors.push_back(1 + 0.1f * static_cast<float>(i));
      scaling.long_factors.push_back(2 + 3 * static_cast<float>(i));
    }
    return scaling;
  }
  static std::string TokenizerJson() {
    std::string vocabulary = R"("<s>":0,"</s>":1)";
    for (char letter = 'a'; letter <= 'z'; ++letter) {
      vocabulary += std::string(",\"") + letter + "\":" + std::to_string(TinyId(letter));
    }
    vocabulary += ",\" \":" + std::to_string(TinyId(' '));
    const std::string special =
        R"("single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true)";
    return R"({"version":"1.0","added_tokens":[{"id":0,"content":"<s>",)" + special +
           R"(},{"id":1,"content":"</s>",)" + special +
           R"(}],"normalizer":null,"pre_tokenizer":null,"post_processor":null,)"
           R"("decoder":{"type":"Fuse"},"model":{"type":"BPE","merges":[],"vocab":{)" +
           vocabulary + "}}}";
  }

 private:
  static constexpr int32_t kHidden = 32, kHeads = 2, kHeadSize = 16, kInner = 48, kLayers = 2;

  files::TensorRecord Tensor(std::vector<int64_t> shape, float mean, float spread) {
    size_t count = 1;
    for (const int64_t size : shape) count *= static_cast<size_t>(size);
    std::normal_distribution<float> normal(mean, spread);
    std::vector<float>& values = memory_.emplace_back(count);
    for (float& x : values) x = normal(random_);
    return {"", numbers::DType::kF32, std::move(shape), std::as_bytes(std::span(values))};
  }
  files::TensorRecord Matrix(int64_t rows, int64_t columns) {
    return Tensor({rows, columns}, 0, 1 / std::sqrt(static_cast<float>(columns)));
  }
  files::TensorRecord Norm() { return Tensor({kHidden}, 1, 0.1f); }

  void FillFiles(int32_t context) {
    families::DecoderConfig& config = files_.config;
    config.architecture = "llama";
    config.vocab_size = kTinyVocabulary;
    config.hidden_size = kHidden;
    config.heads = kHeads;
    config.kv_heads = 1;
    config.head_size = config.rope_size = kHeadSize;
    config.intermediate_size = kInner;
    config.context = context;
    config.rms_epsilon = 1e-5f;
    config.attention_scale = 1 / std::sqrt(static_cast<float>(kHeadSize));
    config.layers.resize(kLayers, {.rope_theta = 10000});
    families::DecoderTensors& tensors = files_.tensors;
    tensors.embedding = Matrix(kTinyVocabulary, kHidden);
    tensors.output_norm = Norm();
    tensors.output = {Matrix(kTinyVocabulary, kHidden), {}};
    for (int32_t i = 0; i < kLayers; ++i) {
      families::DecoderLayerTensors layer;
      layer.attention_norm = Norm();
      layer.q = {Matrix(kHeads * kHeadSize, kHidden), {}};
      layer.k = {Matrix(kHeadSize, kHidden), {}};
      layer.v = {Matrix(kHeadSize, kHidden), {}};
      layer.attention_out = {Matrix(kHidden, kHeads * kHeadSize), {}};
      layer.ff_norm = Norm();
      layer.gate = {Matrix(kInner, kHidden), {}};
      layer.up = {Matrix(kInner, kHidden), {}};
      layer.down = {Matrix(kHidden, kInner), {}};
      tensors.layers.push_back(std::move(layer));
    }
  }

  std::mt19937 random_{7};
  std::list<std::vector<float>> memory_;
  families::DecoderFiles files_;
  std::unique_ptr<program::Backend> backend_;
  TextModel model_;
};

}  // namespace penstock::generate

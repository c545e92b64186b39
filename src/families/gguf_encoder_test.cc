#include "families/gguf_encoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "base/temp_folder_test_util.h"
#include "files/gguf_files.h"
#include "files/gguf_test_util.h"
#include "files/tensor_store.h"

namespace penstock::families {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class GgufEncoderTest : public testing::Test {
 protected:
  GgufEncoderTest() {
    Text("general.architecture", "bert");
    for (const auto& [key, value] : std::map<std::string, uint32_t>{{"embedding_length", 8},
                                                                    {"block_count", 2},
                                                                    {"attention.head_count", 2},
                                                                    {"feed_forward_length", 16},
                                                                    {"context_length", 32}}) {
      Int("bert." + key, value);
    }
  }

  void Text(const std::string& key, std::string_view text) {
    keys_[key] = files::RawKey(key, files::GgufType::kString, files::RawText(text));
  }
  void Int(const std::string& key, uint32_t value) {
    keys_[key] = files::RawKey(key, files::GgufType::kUint32, files::Raw(value));
  }
  void Flag(const std::string& key, bool value) {
    keys_[key] = files::RawKey(key, files::GgufType::kBool, std::string(1, value ? '\1' : '\0'));
  }
  void Float(const std::string& key, float value) {
    keys_[key] = files::RawKey(key, files::GgufType::kFloat32, files::Raw(value));
  }
  std::string Write(const std::string& name = "m.gguf") {
    std::vector<std::string> keys;
    for (const auto& [key, raw] : keys_) keys.push_back(raw);
    const std::string path = (folder_ / name).string();
    std::ofstream(path, std::ios::binary)
        << files::RawGguf(keys,
                          {files::RawTensor("token_embd.weight", {8, 20}, 0, 0),
                           files::RawTensor("token_types.weight", {8, 2}, 0, 640),
                           files::RawTensor("blk.1.ffn_down.bias", {8}, 0, 704)},
                          std::string(768, '\0'));
    return path;
  }
  std::string Error() {
    const auto folder = ModelFolder::Read(Write());
    return folder.ok() ? "reads" : folder.status().ToString();
  }

  const TempFolder temp_;
  const fs::path folder_ = temp_.path();
  std::map<std::string, std::string> keys_;
};

TEST_F(GgufEncoderTest, BertByItsKeys) {
  Float("bert.attention.layer_norm_epsilon", 1e-5f);
  Int("bert.pooling_type", 2);
  const std::string path = Write();
  const auto folder = ModelFolder::Read(path);
  ASSERT_TRUE(folder.ok()) << folder.status().ToString();
  EXPECT_EQ(folder->path, path);
  EXPECT_EQ(folder->tokenizer_path, path);
  EXPECT_EQ(folder->task, ModelTask::kEmbedding);
  const EncoderConfig& config = folder->encoder;
  EXPECT_EQ(config.model_type, "bert");
  EXPECT_EQ(config.vocab_size, 20);
  EXPECT_EQ(config.hidden_size, 8);
  EXPECT_EQ(config.num_hidden_layers, 2);
  EXPECT_EQ(config.num_attention_heads, 2);
  EXPECT_EQ(config.intermediate_size, 16);
  EXPECT_EQ(config.max_position_embeddings, 32);
  EXPECT_EQ(config.type_vocab_size, 2);
  EXPECT_FLOAT_EQ(config.layer_norm_eps, 1e-5f);
  EXPECT_EQ(folder->max_tokens, 32);
  EXPECT_TRUE(folder->pooling_declared);
  EXPECT_EQ(folder->pooling, PoolingMode::kCls);
  EXPECT_TRUE(folder->normalize);
}

TEST_F(GgufEncoderTest, NomicHasRotation) {
  Text("general.architecture", "nomic-bert");
  for (const char* key : {"embedding_length", "block_count", "attention.head_count",
                          "feed_forward_length", "context_length"}) {
    Int(std::string("nomic-bert.") + key, 2);
  }
  Float("nomic-bert.rope.freq_base", 1000);
  const auto folder = ModelFolder::Read(Write());
  ASSERT_TRUE(folder.ok()) << folder.status().ToString();
  EXPECT_EQ(folder->encoder.model_type, "nomic_bert");
  EXPECT_EQ(folder->encoder.rope_theta, 1000);
  EXPECT_EQ(folder->encoder.rope_fraction, 1);
  EXPECT_EQ(folder->encoder.hidden_act, HiddenActivation::kSilu);
  EXPECT_FALSE(folder->pooling_declared);
}

TEST_F(GgufEncoderTest, WhatIsNotSupportedIsNamed) {
  Flag("bert.attention.causal", true);
  EXPECT_THAT(Error(), HasSubstr("'bert.attention.causal' is true"));
  Flag("bert.attention.causal", false);
  Text("bert.rope.scaling.type", "yarn");
  EXPECT_THAT(Error(), HasSubstr("'bert.rope.scaling.type': 'yarn' is not supported"));
  Text("bert.rope.scaling.type", "none");
  Int("bert.pooling_type", 4);
  EXPECT_THAT(Error(), HasSubstr("rerankers as GGUF files are not supported"));
  Int("bert.pooling_type", 9);
  EXPECT_THAT(Error(), HasSubstr("bert.pooling_type"));
  Int("bert.pooling_type", 0);
  EXPECT_EQ(Error(), "reads");
  Int("bert.attention.head_count", 3);
  EXPECT_THAT(Error(), HasSubstr("'bert.embedding_length' 8 is not a multiple of the 3"));
  Int("bert.attention.head_count", 0);
  EXPECT_THAT(Error(), HasSubstr("bert.attention.head_count"));
  keys_.erase("bert.context_length");
  Int("bert.attention.head_count", 1);
  EXPECT_THAT(Error(), HasSubstr("bert.context_length"));
  Text("general.architecture", "llama");
  EXPECT_THAT(Error(), HasSubstr("'llama' is not an encoder that is supported; supported are bert, "
                                 "nomic-bert"));
  std::ofstream(folder_ / "x.gguf") << "GGUF";
  EXPECT_FALSE(ModelFolder::Read((folder_ / "x.gguf").string()).ok());
}

TEST_F(GgufEncoderTest, TensorsHaveTheNamesOfAFolder) {
  const auto store = OpenEncoderTensors(Write());
  ASSERT_TRUE(store.ok()) << store.status().ToString();
  EXPECT_NE((*store)->Find("embeddings.word_embeddings.weight"), nullptr);
  EXPECT_NE((*store)->Find("encoder.layer.1.output.dense.bias"), nullptr);
  EXPECT_EQ((*store)->Find("blk.1.ffn_down.bias"), nullptr);
  EXPECT_EQ(EncoderTensorName("bert", "blk.12.attn_output_norm.weight"),
            "encoder.layer.12.attention.output.LayerNorm.weight");
  EXPECT_EQ(EncoderTensorName("nomic-bert", "blk.0.ffn_gate.weight"),
            "encoder.layers.0.mlp.fc12.weight");
  for (const char* other : {"blk.0.x.weight", "blk.0", "x", "", ".", "blk.", "rope_freqs.weight"}) {
    EXPECT_EQ(EncoderTensorName("bert", other), other);
  }
  EXPECT_EQ(EncoderTensorName("llama", "token_embd.weight"), "token_embd.weight");
}

TEST_F(GgufEncoderTest, OneModelStandsForItsFolder) {
  const std::string path = Write();
  std::ofstream(folder_ / "mmproj-f16.gguf") << "GGUF";
  std::ofstream(folder_ / "config.json") << "{}";
  EXPECT_EQ(*files::FindGguf(folder_.string(), {}), path);
  EXPECT_EQ(*files::FindGguf(path, {}), path);
  EXPECT_EQ(*files::FindGguf(folder_.string(), {"config.json"}), "");
  const auto folder = ModelFolder::Read(folder_.string());
  ASSERT_TRUE(folder.ok()) << folder.status().ToString();
  EXPECT_EQ(folder->path, path);
  fs::remove(path);
  EXPECT_EQ(*files::FindGguf(folder_.string(), {}), "");
  for (const char* part : {"b-00001-of-00002.gguf", "b-00002-of-00002.gguf"}) {
    std::ofstream(folder_ / part) << "GGUF";
  }
  EXPECT_EQ(*files::FindGguf(folder_.string(), {}), (folder_ / "b-00001-of-00002.gguf").string());
  std::ofstream(folder_ / "a.gguf") << "GGUF";
  const Status several = files::FindGguf(folder_.string(), {}).status();
  EXPECT_THAT(several.message(),
              HasSubstr("has 2 GGUF models (a.gguf, b-00001-of-00002.gguf); name the file of one"));
}

TEST_F(GgufEncoderTest, ForTokenizingAnyArchitectureWillDo) {
  Text("general.architecture", "llama");
  Int("llama.context_length", 77);
  const std::string path = Write();
  for (const std::string& given : {path, folder_.string()}) {
    const auto folder = ModelFolder::ReadForTokenizer(given);
    ASSERT_TRUE(folder.ok()) << folder.status().ToString();
    EXPECT_EQ(folder->tokenizer_path, path);
    EXPECT_EQ(folder->max_tokens, 77);
  }
  Int("llama.context_length", 0);
  EXPECT_THAT(ModelFolder::ReadForTokenizer(Write()).status().message(),
              HasSubstr("llama.context_length"));
}

}  // namespace
}  // namespace penstock::families

// Decoders of the test data, from both formats.
#include <gtest/gtest.h>

#include <cmath>
#include <list>

#include "families/decoder_test_util.h"
#include "families/model_kind.h"

namespace penstock::families {
namespace {

namespace fs = std::filesystem;

class DecoderFixtures : public ::testing::Test {
 protected:
  void SetUp() override {
    data_ = TestData();
    if (data_.empty()) GTEST_SKIP() << "NO TEST DATA: set PENSTOCK_TESTDATA";
  }
  fs::path Fixture(const std::string& name) const {
    return fs::path(data_) / "joaopauloschuler__neural-api/fixtures" / name;
  }
  // A model folder with the config.json and the weights of a fixture.
  std::string Folder(const std::string& name) {
    TempFolder& folder = folders_.emplace_back();
    folder.Link(Fixture(name + "_config.json"), "config.json");
    folder.Link(Fixture(name + ".safetensors"), "model.safetensors");
    return folder.text();
  }
  DecoderFiles Open(const std::string& path) {
    auto files = DecoderFiles::Open(path);
    EXPECT_TRUE(files.ok()) << files.status().ToString();
    return files.ok() ? *std::move(files) : DecoderFiles();
  }

  std::string data_;
  std::list<TempFolder> folders_;
};

std::vector<float> Values(const files::TensorRecord& tensor) {
  std::vector<float> values(static_cast<size_t>(tensor.elements()));
  EXPECT_TRUE(tensor.CopyToF32(values).ok());
  return values;
}

TEST_F(DecoderFixtures, LlamaIsTheSameFromBothFormats) {
  const DecoderFiles folder = Open(Folder("tiny_llama"));
  for (const char* name : {"tiny_llama_f32.gguf", "tiny_llama_f16.gguf"}) {
    const DecoderFiles gguf = Open(Fixture(name).string());
    ASSERT_EQ(gguf.tensors.layers.size(), 2u);
    EXPECT_EQ(gguf.config.architecture, "llama");
    for (const DecoderConfig* c : {&folder.config, &gguf.config}) {
      EXPECT_EQ(c->vocab_size, 11);
      EXPECT_EQ(c->hidden_size, 8);
      EXPECT_EQ(c->heads, 2);
      EXPECT_EQ(c->kv_heads, 1);
      EXPECT_EQ(c->head_size, 4);
      EXPECT_EQ(c->rope_size, 4);
      EXPECT_EQ(c->intermediate_size, 12);
      EXPECT_EQ(c->context, 16);
      EXPECT_FLOAT_EQ(c->rms_epsilon, 1e-5f);
      EXPECT_FLOAT_EQ(c->attention_scale, 0.5f);
      EXPECT_FLOAT_EQ(c->layers.at(1).rope_theta, 1e4f);
      EXPECT_EQ(c->rope_scaling.kind, RopeScalingKind::kNone);
      EXPECT_EQ(KvBytesPerToken(*c, 2), 2 * 2 * 1 * 4 * 2);
    }
    EXPECT_FALSE(folder.config.rope_interleaved);
    EXPECT_TRUE(gguf.config.rope_interleaved);
    EXPECT_EQ(folder.store->gguf(), nullptr);
    EXPECT_EQ(gguf.store->gguf()->version, 3u);
    EXPECT_EQ(gguf.store->gguf()->parts, 1);
    EXPECT_EQ(gguf.tokenizer->path, Fixture(name));
    EXPECT_NE(gguf.tokenizer->gguf, nullptr);
    const float close = std::string(name).find("f16") != std::string::npos ? 1e-3f : 0;
    const auto same = [&](const files::TensorRecord& a, const files::TensorRecord& b) {
      ASSERT_EQ(a.shape, b.shape) << a.name << ' ' << b.name;
      const std::vector<float> x = Values(a), y = Values(b);
      for (size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(x[i], y[i], close) << b.name;
    };
    same(folder.tensors.embedding, gguf.tensors.embedding);
    same(folder.tensors.output.weight, gguf.tensors.output.weight);
    same(folder.tensors.layers[1].v.weight, gguf.tensors.layers[1].v.weight);
    same(folder.tensors.layers[1].down.weight, gguf.tensors.layers[1].down.weight);
    same(folder.tensors.layers[0].ff_norm, gguf.tensors.layers[0].ff_norm);
    EXPECT_EQ(gguf.unused_tensors, 0);
  }
}

TEST_F(DecoderFixtures, RopePairsOfAGgufFileLieSideBySide) {
  const DecoderFiles folder = Open(Folder("tiny_llama"));
  const DecoderFiles gguf = Open(Fixture("tiny_llama_f32.gguf").string());
  const std::vector<float> plain = Values(folder.tensors.layers[0].q.weight);
  const std::vector<float> pairs = Values(gguf.tensors.layers[0].q.weight);
  const int columns = 8;
  for (int head = 0; head < 2; ++head) {
    for (int i = 0; i < 4; ++i) {  // value 2i was i, value 2i + 1 was i + 2
      const int other = i % 2 * 2 + i / 2;
      for (int c = 0; c < columns; ++c) {
        EXPECT_EQ(pairs[(head * 4 + i) * columns + c], plain[(head * 4 + other) * columns + c]);
      }
    }
  }
}

TEST_F(DecoderFixtures, Q8KeepsItsBlocks) {
  const DecoderFiles files = Open(Fixture("tiny_llama_q8.gguf").string());
  EXPECT_TRUE(files.tensors.tied);
  EXPECT_EQ(files.tensors.output.weight.data.data(), files.tensors.embedding.data.data());
  EXPECT_EQ(files.tensors.embedding.dtype, numbers::DType::kQ8_0);
  const auto types = TypesInFiles(*files.store);
  ASSERT_EQ(types.size(), 2u);
  EXPECT_EQ(types[0].dtype, numbers::DType::kQ8_0);
  EXPECT_EQ(types[0].tensors, 15);
  EXPECT_EQ(types[0].bytes, types[0].elements / 32 * 34);
  EXPECT_EQ(types[1].tensors, 5);
  EXPECT_EQ(files.parameters, types[0].elements + types[1].elements);
}

TEST_F(DecoderFixtures, SeveralFilesOfSafetensors) {
  TempFolder folder;
  folder.Link(Fixture("tiny_llama_config.json"), "config.json");
  for (const char* part :
       {"tiny_llama-00001-of-00002.safetensors", "tiny_llama-00002-of-00002.safetensors"}) {
    folder.Link(Fixture(part), part);
  }
  folder.Link(Fixture("tiny_llama.safetensors.index.json"), "model.safetensors.index.json");
  const DecoderFiles files = Open(folder.text());
  EXPECT_EQ(files.tensors.layers.size(), 2u);
  EXPECT_EQ(files.config.end_ids, std::vector<int32_t>{2});
}

TEST_F(DecoderFixtures, UnusedTensorsAreCounted) {
  const DecoderFiles files = Open(Folder("tiny_llama"));
  EXPECT_EQ(files.unused_tensors, 1);  // a rotary_emb.inv_freq
  EXPECT_EQ(files.parameters, 2 * 11 * 8 + 8 + 2 * (2 * 8 + 2 * 8 * 8 + 2 * 4 * 8 + 3 * 8 * 12));
}

TEST_F(DecoderFixtures, Qwen) {
  const DecoderFiles qwen2 = Open(Folder("tiny_qwen2"));
  ASSERT_EQ(qwen2.tensors.layers.size(), 2u);
  EXPECT_TRUE(qwen2.tensors.layers[1].q.bias && qwen2.tensors.layers[1].v.bias);
  EXPECT_FALSE(qwen2.tensors.layers[1].attention_out.bias);
  EXPECT_FALSE(qwen2.tensors.tied);
  EXPECT_EQ(qwen2.config.eos_id, -1);
  EXPECT_TRUE(qwen2.config.end_ids.empty());
  EXPECT_EQ(qwen2.config.layers[0].window, 0);
  const DecoderFiles qwen3 = Open(Folder("tiny_qwen3"));
  EXPECT_EQ(qwen3.config.head_size, 6);
  EXPECT_TRUE(qwen3.tensors.tied);
  ASSERT_EQ(qwen3.tensors.layers.size(), 2u);
  EXPECT_EQ(qwen3.tensors.layers[0].q_norm->shape, std::vector<int64_t>{6});
  EXPECT_FALSE(qwen3.tensors.layers[0].q.bias);
}

TEST_F(DecoderFixtures, MistralHasAWindow) {
  const DecoderFiles files = Open(Folder("tiny_mistral"));
  for (const DecoderLayerConfig& layer : files.config.layers) EXPECT_EQ(layer.window, 4);
  EXPECT_EQ(files.config.architecture, "mistral");
}

TEST_F(DecoderFixtures, Gemma2) {
  for (const char* name : {"tiny_gemma2", "tiny_gemma2_q8"}) {
    const DecoderFiles files = Open(Folder(name));
    const DecoderConfig& config = files.config;
    ASSERT_EQ(config.layers.size(), 2u);
    EXPECT_EQ(config.layers[0].window, 4);
    EXPECT_EQ(config.layers[1].window, 0);
    EXPECT_TRUE(config.unit_offset_norms);
    EXPECT_EQ(config.activation, HiddenActivation::kGeluTanh);
    EXPECT_FLOAT_EQ(config.attention_soft_cap, 5);
    EXPECT_FLOAT_EQ(config.logit_soft_cap, 0.5);
    EXPECT_FLOAT_EQ(config.embedding_scale, std::sqrt(static_cast<float>(config.hidden_size)));
    EXPECT_TRUE(files.tensors.layers[0].post_attention_norm &&
                files.tensors.layers[0].post_ff_norm);
    EXPECT_EQ(files.tensors.layers[0].ff_norm.name,
              "model.layers.0.pre_feedforward_layernorm.weight");
  }
  EXPECT_FLOAT_EQ(Open(Folder("tiny_gemma2")).config.attention_scale, 1 / std::sqrt(12.0f));
}

TEST_F(DecoderFixtures, Gemma3HasTwoThetas) {
  const DecoderFiles files = Open(Folder("tiny_gemma3"));
  ASSERT_EQ(files.config.layers.size(), 3u);
  for (const size_t i : {0u, 1u}) {
    EXPECT_EQ(files.config.layers[i].window, 4);
    EXPECT_FLOAT_EQ(files.config.layers[i].rope_theta, 10);
    EXPECT_FALSE(files.config.layers[i].rope_scaled);
  }
  EXPECT_EQ(files.config.layers[2].window, 0);
  EXPECT_FLOAT_EQ(files.config.layers[2].rope_theta, 1000);
  EXPECT_TRUE(files.config.layers[2].rope_scaled);
  EXPECT_EQ(files.config.attention_soft_cap, 0);
  EXPECT_TRUE(files.tensors.layers[2].q_norm.has_value());
}

TEST_F(DecoderFixtures, Phi3IsDivided) {
  const DecoderFiles files = Open(Folder("tiny_phi3"));
  ASSERT_EQ(files.tensors.layers.size(), 2u);
  EXPECT_EQ(files.config.rope_size, 6);
  EXPECT_EQ(files.config.head_size, 8);
  EXPECT_EQ(files.config.layers[1].window, 4);
  EXPECT_EQ(files.config.pad_id, 0);
  const DecoderLayerTensors& layer = files.tensors.layers[1];
  const files::TensorRecord* fused = files.store->Find("model.layers.1.self_attn.qkv_proj.weight");
  ASSERT_NE(fused, nullptr);
  const std::vector<float> all = Values(*fused);
  size_t at = 0;
  for (const files::TensorRecord* part : {&layer.q.weight, &layer.k.weight, &layer.v.weight}) {
    for (const float value : Values(*part)) ASSERT_EQ(value, all[at++]);
  }
  EXPECT_EQ(at, all.size());
  EXPECT_EQ(layer.k.weight.name, "model.layers.1.self_attn.qkv_proj.weight[32:48]");
  EXPECT_EQ(layer.k.weight.shape, (std::vector<int64_t>{16, 32}));
  EXPECT_EQ(layer.up.weight.name, "model.layers.1.mlp.gate_up_proj.weight[24:48]");
  EXPECT_EQ(files.unused_tensors, 0);
}

TEST_F(DecoderFixtures, Phi3Longrope) {
  const DecoderFiles partial = Open(Folder("tiny_phi3_longrope"));
  const RopeScaling& scaling = partial.config.rope_scaling;
  EXPECT_EQ(scaling.kind, RopeScalingKind::kLongrope);
  EXPECT_EQ(scaling.original_context, 8);
  EXPECT_EQ(partial.config.context, 32);
  EXPECT_EQ(partial.config.rope_size, 6);
  EXPECT_EQ(scaling.long_factors, (std::vector<float>{1.0f, 1.3f, 1.8f}));
  EXPECT_FLOAT_EQ(scaling.attention_factor, std::sqrt(1 + std::log(4.0f) / std::log(8.0f)));
  EXPECT_EQ(Open(Folder("tiny_phi3_longrope_full")).config.rope_scaling.short_factors.size(), 4u);
}

TEST_F(DecoderFixtures, GraniteScales) {
  const DecoderConfig config = Open(Folder("tiny_granite")).config;
  EXPECT_FLOAT_EQ(config.embedding_scale, 1.7f);
  EXPECT_FLOAT_EQ(config.residual_scale, 0.6f);
  EXPECT_FLOAT_EQ(config.attention_scale, 2.0f);
  EXPECT_FLOAT_EQ(config.logit_scale, 1 / 2.5f);
}

TEST_F(DecoderFixtures, SmolLm2) {
  const DecoderFiles files = Open(Folder("tiny_smollm2"));
  EXPECT_EQ(files.config.architecture, "llama");
  EXPECT_EQ(files.tensors.embedding.dtype, numbers::DType::kBf16);
  EXPECT_FLOAT_EQ(files.config.layers.at(0).rope_theta, 1e5f);
  EXPECT_FALSE(files.tokenizer.has_value());
}

TEST_F(DecoderFixtures, OtherModelsAreRefusedByName) {
  for (const char* name :
       {"tiny_granitemoe", "tiny_qwen3_moe", "tiny_qwen3_5", "tiny_llama4", "tiny_gpt2"}) {
    std::error_code ignored;
    if (!fs::exists(Fixture(std::string(name) + "_config.json"), ignored)) continue;
    const std::string folder = Folder(name);
    const auto files = DecoderFiles::Open(folder);
    ASSERT_FALSE(files.ok()) << name;
    EXPECT_EQ(files.status().code(), StatusCode::kUnsupported) << files.status().ToString();
    EXPECT_EQ(files.status().field(), "model_type");
    EXPECT_NE(files.status().message().find("supported decoders are llama"), std::string::npos);
    EXPECT_EQ(KindOfModel(folder).status().code(), StatusCode::kUnsupported);
  }
}

TEST_F(DecoderFixtures, KindsOfModels) {
  EXPECT_EQ(*KindOfModel(Folder("tiny_gemma3")), ModelKind::kDecoder);
  EXPECT_EQ(*KindOfModel(Folder("tiny_distilbert_seqcls")), ModelKind::kEncoder);
  EXPECT_EQ(*KindOfModel(Fixture("tiny_llama_q8.gguf").string()), ModelKind::kDecoder);
  EXPECT_EQ(*KindOfModel(data_ + "/mayouni__stzlib/tiny_bert.gguf"), ModelKind::kEncoder);
  const auto unknown = KindOfModel(Fixture("tiny_kquant.gguf").string());
  EXPECT_EQ(unknown.status().code(), StatusCode::kUnsupported);
}

TEST_F(DecoderFixtures, Stories260K) {
  const DecoderFiles gguf = Open(data_ + "/vespa-engine__vespa/tinyllm.gguf");
  const DecoderFiles folder = Open(data_ + "/derived/stories260K_hf");
  for (const DecoderFiles* files : {&gguf, &folder}) {
    const DecoderConfig& config = files->config;
    EXPECT_EQ(config.layers.size(), 5u);
    EXPECT_EQ(config.vocab_size, 512);
    EXPECT_EQ(config.heads, 8);
    EXPECT_EQ(config.kv_heads, 4);
    EXPECT_EQ(config.bos_id, 1);
    EXPECT_EQ(config.pad_id, -1);  // of GGUF: 2^32 - 1
    EXPECT_EQ(config.end_ids, std::vector<int32_t>{2});
    EXPECT_FALSE(config.add_bos.has_value());
    EXPECT_FLOAT_EQ(config.layers[0].rope_theta, 1e4f);
  }
  EXPECT_EQ(Values(gguf.tensors.embedding), Values(folder.tensors.embedding));
}

TEST_F(DecoderFixtures, OllamaAndPagedInfer) {
  EXPECT_EQ(Open(data_ + "/ollama__ollama/llama-2-tiny-random.gguf").config.vocab_size, 32000);
  const auto phi = DecoderFiles::Open(data_ + "/ggerganov__llama.cpp/ggml-vocab-phi-3.gguf");
  ASSERT_FALSE(phi.ok());  // a vocabulary alone
  EXPECT_EQ(phi.status().field(), "token_embd.weight");
}

// The demonstration model, where PENSTOCK_SMOLLM2 names its file.
TEST(DecoderSmolLm2, Opens) {
  const char* path = std::getenv("PENSTOCK_SMOLLM2");
  if (path == nullptr) GTEST_SKIP() << "NO SMOLLM2: set PENSTOCK_SMOLLM2";
  const auto files = DecoderFiles::Open(path);
  ASSERT_TRUE(files.ok()) << files.status().ToString();
  EXPECT_EQ(files->config.layers.size(), 30u);
  EXPECT_EQ(files->config.context, 8192);
  EXPECT_EQ(files->config.head_size, 64);
  EXPECT_TRUE(files->tensors.tied);
  EXPECT_EQ(files->unused_tensors, 0);
  EXPECT_EQ(files->parameters, 134515008);
  EXPECT_EQ(files->config.end_ids, (std::vector<int32_t>{0, 2}));  // <|endoftext|>, <|im_end|>
  EXPECT_EQ(files->config.add_bos, false);
  EXPECT_EQ(KvBytesPerToken(files->config, 2), 30 * 2 * 3 * 64 * 2);
  EXPECT_NE(files->chat_template.find("<|im_start|>"), std::string::npos);
}

}  // namespace
}  // namespace penstock::families

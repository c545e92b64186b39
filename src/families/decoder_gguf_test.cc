// GGUF decoders put together key by key, good ones and broken ones.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "families/decoder_test_util.h"

namespace penstock::families {
namespace {

class DecoderGguf : public ::testing::Test {
 protected:
  Expected<DecoderFiles> Open(const TestKeys& keys, const TestTensors& tensors) {
    folder_.Write("model.gguf", GgufOf(keys, tensors));
    return DecoderFiles::Open(folder_ / "model.gguf");
  }
  // SmallKeys of `architecture` with `more`, which replace those of the same name.
  DecoderConfig Good(const std::string& architecture, const std::vector<std::string>& more,
                     TestTensors tensors = SmallGgufTensors()) {
    auto files = Open(With(architecture, more), tensors);
    EXPECT_TRUE(files.ok()) << files.status().ToString();
    return files.ok() ? std::move(files->config) : DecoderConfig();
  }
  void ExpectStatus(const TestKeys& keys, const TestTensors& tensors, StatusCode code,
                    const std::string& field) {
    const auto files = Open(keys, tensors);
    ASSERT_FALSE(files.ok()) << field;
    EXPECT_EQ(files.status().code(), code) << files.status().ToString();
    EXPECT_EQ(files.status().field(), field) << files.status().ToString();
    EXPECT_NE(files.status().message().find(field), std::string::npos);
  }
  void ExpectInvalid(const std::vector<std::string>& more, const std::string& field) {
    ExpectStatus(With("llama", more), SmallGgufTensors(), StatusCode::kInvalidArgument, field);
  }
  void ExpectRefused(const std::vector<std::string>& more, const std::string& field) {
    ExpectStatus(With("llama", more), SmallGgufTensors(), StatusCode::kUnsupported, field);
  }
  static TestKeys With(const std::string& architecture, const std::vector<std::string>& more) {
    TestKeys keys = SmallKeys(architecture);
    for (const std::string& entry : more) {
      uint64_t length = 0;
      std::memcpy(&length, entry.data(), sizeof length);
      keys[entry.substr(sizeof length, length)] = entry;
    }
    return keys;
  }

  TempFolder folder_;
};

const TestTensors kQkNorms = {{"attn_q_norm.weight", {4}}, {"attn_k_norm.weight", {4}}};
const TestTensors kPostNorms = {{"post_attention_norm.weight", {8}}, {"post_ffw_norm.weight", {8}}};

TestTensors GemmaTensors(bool qk_norm) {
  TestTensors extra = kPostNorms;
  if (qk_norm) extra.insert(kQkNorms.begin(), kQkNorms.end());
  TestTensors tensors = SmallGgufTensors(extra);
  tensors.erase("output.weight");
  return tensors;
}

TEST_F(DecoderGguf, ADefaultsWhereKeysAreAbsent) {
  const DecoderConfig config = Good("llama", {});
  EXPECT_EQ(config.head_size, 4);
  EXPECT_EQ(config.rope_size, 4);
  EXPECT_TRUE(config.rope_interleaved);
  EXPECT_FLOAT_EQ(config.layers.at(0).rope_theta, 1e4f);
  EXPECT_EQ(config.vocab_size, 11);
  EXPECT_EQ(config.bos_id, -1);
  EXPECT_FALSE(config.unit_offset_norms);
}

TEST_F(DecoderGguf, ArraysOfEqualNumbersAreOneNumber) {
  const std::string key = "llama.attention.head_count";
  const auto array = [&](uint32_t first, uint32_t second) {
    return files::RawKey(
        key, files::GgufType::kArray,
        files::RawArray(files::GgufType::kUint32, 2, files::Raw(first) + files::Raw(second)));
  };
  EXPECT_EQ(Good("llama", {array(2, 2)}).heads, 2);
  ExpectRefused({array(2, 1)}, key);
  ExpectInvalid({array(0, 0)}, key);
  ExpectInvalid({files::RawKey(key, files::GgufType::kArray,
                               files::RawArray(files::GgufType::kUint32, 0, ""))},
                key);
}

TEST_F(DecoderGguf, NumbersHaveLimits) {
  for (const char* name : {"block_count", "context_length", "embedding_length",
                           "feed_forward_length", "attention.head_count", "attention.head_count_kv",
                           "attention.key_length", "rope.dimension_count"}) {
    const std::string key = std::string("llama.") + name;
    for (const uint64_t value : {uint64_t{0}, uint64_t{1} << 31, UINT64_MAX}) {
      ExpectInvalid({files::RawKey(key, files::GgufType::kUint64, files::Raw(value))}, key);
    }
    ExpectInvalid({RawF32(key, 2)}, key);
    ExpectInvalid({RawString(key, "2")}, key);
  }
  ExpectInvalid({RawF32("llama.attention.layer_norm_rms_epsilon", NAN)},
                "llama.attention.layer_norm_rms_epsilon");
  ExpectInvalid({RawF32("llama.rope.freq_base", 0)}, "llama.rope.freq_base");
  ExpectInvalid({RawU32("llama.rope.dimension_count", 3)}, "llama.rope.dimension_count");
  ExpectInvalid({RawU32("llama.attention.head_count", 3)}, "llama.embedding_length");
  ExpectInvalid({RawU32("llama.attention.head_count_kv", 4)}, "llama.attention.head_count_kv");
  ExpectRefused({RawU32("llama.attention.value_length", 8)}, "llama.attention.value_length");
}

TEST_F(DecoderGguf, RequiredKeysAreNamed) {
  for (const char* name :
       {"block_count", "context_length", "embedding_length", "feed_forward_length",
        "attention.head_count", "attention.layer_norm_rms_epsilon"}) {
    TestKeys keys = SmallKeys("llama");
    const std::string key = std::string("llama.") + name;
    ASSERT_EQ(keys.erase(key), 1u);
    ExpectStatus(keys, SmallGgufTensors(), StatusCode::kInvalidArgument, key);
  }
  TestKeys keys = SmallKeys("llama");
  keys.erase("general.architecture");
  ExpectStatus(keys, SmallGgufTensors(), StatusCode::kInvalidArgument, "general.architecture");
}

TEST_F(DecoderGguf, WhatIsUnknownIsRefusedByName) {
  const auto mamba = Open(SmallKeys("mamba"), SmallGgufTensors());
  EXPECT_EQ(mamba.status().code(), StatusCode::kUnsupported);
  EXPECT_NE(mamba.status().message().find("'mamba'"), std::string::npos);
  EXPECT_NE(mamba.status().message().find("llama, granite, smollm3"), std::string::npos)
      << mamba.status().message();
  ExpectRefused({RawU32("llama.expert_count", 8)}, "llama.expert_count");
  ExpectRefused({RawF32("llama.attention.clamp_kqv", 8)}, "llama.attention.clamp_kqv");
  ExpectRefused({RawBool("llama.use_parallel_residual", true)}, "llama.use_parallel_residual");
  ExpectRefused({RawBool("llama.attention.causal", false)}, "llama.attention.causal");
  ExpectRefused({RawF32("llama.logit_scale", 8)}, "llama.logit_scale");
  ExpectRefused({RawString("llama.rope.scaling.type", "dynamic")}, "llama.rope.scaling.type");
  Good("llama", {RawU32("llama.expert_count", 0), RawF32("llama.attention.clamp_kqv", 0),
                 RawBool("llama.use_parallel_residual", false), RawU32("llama.vocab_size", 11)});
}

TEST_F(DecoderGguf, TensorsAreNamedWithBothShapes) {
  for (const auto& [name, shape] : SmallGgufTensors()) {
    if (name == "output.weight") continue;  // its absence is a tied model
    TestTensors tensors = SmallGgufTensors();
    tensors.erase(name);
    ExpectStatus(SmallKeys("llama"), tensors, StatusCode::kInvalidArgument, name);
    if (name == "token_embd.weight") continue;
    tensors[name] = {shape[0] + 1};
    if (shape.size() == 2) tensors[name].push_back(shape[1]);
    ExpectStatus(SmallKeys("llama"), tensors, StatusCode::kInvalidArgument, name);
  }
  TestTensors tensors = SmallGgufTensors();
  tensors["blk.1.attn_k.weight"] = {8, 4};
  const auto files = Open(SmallKeys("llama"), tensors);
  EXPECT_NE(files.status().message().find(
                "tensor 'blk.1.attn_k.weight' has shape [8, 4], the configuration asks for [4, 8]"),
            std::string::npos)
      << files.status().message();
}

TEST_F(DecoderGguf, FewerLayersThanClaimed) {
  ExpectStatus(With("llama", {RawU32("llama.block_count", 1024)}), SmallGgufTensors(),
               StatusCode::kInvalidArgument, "blk.2.attn_norm.weight");
}

TEST_F(DecoderGguf, TiedOutput) {
  TestTensors tensors = SmallGgufTensors();
  tensors.erase("output.weight");
  const auto files = Open(SmallKeys("llama"), tensors);
  ASSERT_TRUE(files.ok()) << files.status().ToString();
  EXPECT_TRUE(files->tensors.tied);
  EXPECT_EQ(files->tensors.output.weight.name, "token_embd.weight");
}

TEST_F(DecoderGguf, BiasesThatAreThereAreTaken) {
  const auto files =
      Open(SmallKeys("llama"), SmallGgufTensors({{"attn_q.bias", {8}}, {"attn_output.bias", {8}}}));
  ASSERT_TRUE(files.ok()) << files.status().ToString();
  EXPECT_TRUE(files->tensors.layers[1].q.bias && files->tensors.layers[1].attention_out.bias);
  EXPECT_FALSE(files->tensors.layers[1].k.bias);
  // Qwen 2 has them always.
  ExpectStatus(SmallKeys("qwen2"), SmallGgufTensors({{"attn_q.bias", {8}}}),
               StatusCode::kInvalidArgument, "blk.0.attn_k.bias");
}

TEST_F(DecoderGguf, Qwen3) {
  const DecoderConfig config = Good("qwen3", {}, SmallGgufTensors(kQkNorms));
  EXPECT_FALSE(config.rope_interleaved);
  ExpectStatus(SmallKeys("qwen3"), SmallGgufTensors(), StatusCode::kInvalidArgument,
               "blk.0.attn_q_norm.weight");
  ExpectStatus(With("qwen3", {RawU32("qwen3.attention.sliding_window", 5)}),
               SmallGgufTensors(kQkNorms), StatusCode::kUnsupported,
               "qwen3.attention.sliding_window");
}

TEST_F(DecoderGguf, FusedTensorsAreDivided) {
  TestTensors tensors;
  for (const auto& [name, shape] : SmallGgufTensors()) {
    if (name.find("attn_q.") != std::string::npos || name.find("attn_k.") != std::string::npos ||
        name.find("attn_v.") != std::string::npos || name.find("ffn_gate.") != std::string::npos) {
      continue;
    }
    tensors[name] = shape;
  }
  for (const std::string layer : {"blk.0.", "blk.1."}) {
    tensors[layer + "attn_qkv.weight"] = {16, 8};
    tensors[layer + "attn_qkv.bias"] = {16};
    tensors[layer + "ffn_up.weight"] = {24, 8};
  }
  const auto files = Open(SmallKeys("phi3"), tensors);
  ASSERT_TRUE(files.ok()) << files.status().ToString();
  const DecoderLayerTensors& layer = files->tensors.layers[1];
  const files::TensorRecord* qkv = files->store->Find("blk.1.attn_qkv.weight");
  const files::TensorRecord* up = files->store->Find("blk.1.ffn_up.weight");
  EXPECT_EQ(layer.v.weight.name, "blk.1.attn_qkv.weight[12:16]");
  EXPECT_EQ(layer.v.weight.data.data(), qkv->data.data() + 12 * 8 * 4);
  EXPECT_EQ(layer.v.weight.data.size(), 4u * 8 * 4);
  EXPECT_EQ(layer.v.bias->shape, std::vector<int64_t>{4});
  EXPECT_EQ(layer.gate.weight.data.data(), up->data.data());
  EXPECT_EQ(layer.up.weight.data.data(), up->data.data() + 12 * 8 * 4);
  tensors["blk.1.attn_qkv.weight"] = {15, 8};
  ExpectStatus(SmallKeys("phi3"), tensors, StatusCode::kInvalidArgument, "blk.1.attn_qkv.weight");
}

TEST_F(DecoderGguf, GemmaWindows) {
  const DecoderConfig gemma2 =
      Good("gemma2", {RawU32("gemma2.attention.sliding_window", 5)}, GemmaTensors(false));
  EXPECT_EQ(gemma2.layers.at(0).window, 5);
  EXPECT_EQ(gemma2.layers.at(1).window, 0);
  EXPECT_FLOAT_EQ(gemma2.layers.at(0).rope_theta, 1e4f);
  EXPECT_TRUE(gemma2.layers.at(0).rope_scaled);
  EXPECT_FLOAT_EQ(gemma2.attention_soft_cap, 50);
  EXPECT_FLOAT_EQ(gemma2.logit_soft_cap, 30);
  EXPECT_FALSE(gemma2.unit_offset_norms);
  EXPECT_FLOAT_EQ(gemma2.embedding_scale, std::sqrt(8.0f));
  const std::vector<std::string> keys = {
      RawU32("gemma3.attention.sliding_window", 5), RawF32("gemma3.rope.freq_base", 1e6f),
      RawF32("gemma3.rope.scaling.factor", 8), RawString("gemma3.rope.scaling.type", "linear"),
      RawU32("gemma3.attention.sliding_window_pattern", 2)};
  const DecoderConfig gemma3 = Good("gemma3", keys, GemmaTensors(true));
  EXPECT_EQ(gemma3.layers.at(0).window, 5);
  EXPECT_FLOAT_EQ(gemma3.layers.at(0).rope_theta, 1e4f);
  EXPECT_FALSE(gemma3.layers.at(0).rope_scaled);
  EXPECT_EQ(gemma3.layers.at(1).window, 0);
  EXPECT_FLOAT_EQ(gemma3.layers.at(1).rope_theta, 1e6f);
  EXPECT_EQ(gemma3.rope_scaling.kind, RopeScalingKind::kLinear);
  EXPECT_FLOAT_EQ(gemma3.rope_scaling.factor, 8);
  ExpectStatus(SmallKeys("gemma3"), GemmaTensors(true), StatusCode::kInvalidArgument,
               "gemma3.attention.sliding_window");
  // The pattern may also be a flag a layer.
  const std::string pattern = "gemma3.attention.sliding_window_pattern";
  const auto flags = [&](const std::string& bytes) {
    return files::RawKey(pattern, files::GgufType::kArray,
                         files::RawArray(files::GgufType::kBool, bytes.size(), bytes));
  };
  EXPECT_EQ(Good("gemma3", {keys[0], flags(std::string("\0\1", 2))}, GemmaTensors(true))
                .layers.at(1)
                .window,
            5);
  ExpectStatus(With("gemma3", {keys[0], flags("\1")}), GemmaTensors(true),
               StatusCode::kInvalidArgument, pattern);
}

TEST_F(DecoderGguf, GraniteScales) {
  const DecoderConfig config = Good(
      "granite", {RawF32("granite.logit_scale", 8), RawF32("granite.residual_scale", 0.25f),
                  RawF32("granite.embedding_scale", 12), RawF32("granite.attention.scale", 2)});
  EXPECT_FLOAT_EQ(config.logit_scale, 0.125f);
  EXPECT_FLOAT_EQ(config.residual_scale, 0.25f);
  EXPECT_FLOAT_EQ(config.embedding_scale, 12);
  EXPECT_FLOAT_EQ(config.attention_scale, 2);
  ExpectStatus(SmallKeys("granite"), SmallGgufTensors(), StatusCode::kInvalidArgument,
               "granite.logit_scale");
}

TEST_F(DecoderGguf, SmolLm3HasLayersWithoutRope) {
  TestTensors tensors = SmallGgufTensors();
  for (const auto& [name, shape] : SmallGgufTensors()) {
    if (!name.starts_with("blk.")) continue;
    tensors["blk." + std::to_string(name[4] - '0' + 2) + name.substr(5)] = shape;
  }
  const DecoderConfig config = Good("smollm3", {RawU32("smollm3.block_count", 4)}, tensors);
  EXPECT_TRUE(config.layers.at(2).rope);
  EXPECT_FALSE(config.layers.at(3).rope);
}

TEST_F(DecoderGguf, RopeScaling) {
  const std::string type = "llama.rope.scaling.type", factor = "llama.rope.scaling.factor";
  EXPECT_EQ(Good("llama", {RawF32(factor, 2)}).rope_scaling.kind, RopeScalingKind::kLinear);
  EXPECT_EQ(Good("llama", {RawF32("llama.rope.scale_linear", 2)}).rope_scaling.factor, 2);
  EXPECT_EQ(Good("llama", {RawF32(factor, 2), RawString(type, "none")}).rope_scaling.kind,
            RopeScalingKind::kNone);
  ExpectInvalid({RawF32(factor, 0.5)}, factor);
  const DecoderConfig yarn =
      Good("llama", {RawF32(factor, 4), RawString(type, "yarn"),
                     RawU32("llama.rope.scaling.original_context_length", 100)});
  EXPECT_EQ(yarn.rope_scaling.kind, RopeScalingKind::kYarn);
  EXPECT_EQ(yarn.context, 400);
  EXPECT_FLOAT_EQ(yarn.rope_scaling.attention_factor, 0.1f * std::log(4.0f) + 1);
  TestTensors divided = SmallGgufTensors();
  divided["rope_freqs.weight"] = {2};
  folder_.Write("below.gguf", GgufOf(SmallKeys("llama"), divided, -1e6f));
  EXPECT_EQ(DecoderFiles::Open(folder_ / "below.gguf").status().field(), "rope_freqs.weight");
  const DecoderConfig llama3 = Good("llama", {}, divided);
  EXPECT_EQ(llama3.rope_scaling.kind, RopeScalingKind::kLlama3);
  EXPECT_EQ(llama3.rope_scaling.factors.size(), 2u);
  ExpectStatus(With("llama", {RawF32(factor, 2)}), divided, StatusCode::kUnsupported, type);
  divided["rope_freqs.weight"] = {3};
  ExpectStatus(SmallKeys("llama"), divided, StatusCode::kInvalidArgument, "rope_freqs.weight");
}

TEST_F(DecoderGguf, Longrope) {
  TestTensors tensors = SmallGgufTensors();
  tensors["rope_factors_long.weight"] = {2};
  tensors["rope_factors_short.weight"] = {2};
  const std::string original = "llama.rope.scaling.original_context_length";
  const DecoderConfig config = Good("llama", {RawU32(original, 16)}, tensors);
  EXPECT_EQ(config.rope_scaling.kind, RopeScalingKind::kLongrope);
  EXPECT_EQ(config.rope_scaling.long_factors.size(), 2u);
  EXPECT_FLOAT_EQ(config.rope_scaling.attention_factor,
                  std::sqrt(1 + std::log(4.0f) / std::log(16.0f)));
  EXPECT_FLOAT_EQ(Good("llama", {RawF32("llama.rope.scaling.attn_factor", 1.5)}, tensors)
                      .rope_scaling.attention_factor,
                  1.5);
  tensors.erase("rope_factors_short.weight");
  ExpectStatus(SmallKeys("llama"), tensors, StatusCode::kInvalidArgument,
               "rope_factors_short.weight");
}

TEST_F(DecoderGguf, Tokens) {
  const std::vector<std::string> keys = {
      RawU32("tokenizer.ggml.bos_token_id", 1),
      RawU32("tokenizer.ggml.eos_token_id", 2),
      RawU32("tokenizer.ggml.eot_token_id", 9),
      RawU32("tokenizer.ggml.padding_token_id", UINT32_MAX),
      RawBool("tokenizer.ggml.add_bos_token", true),
      RawStrings("tokenizer.ggml.tokens", {"a", "<s>", "</s>", "<|im_end|>", "b", "<|eot_id|>"})};
  const DecoderConfig config = Good("llama", keys);
  EXPECT_EQ(config.bos_id, 1);
  EXPECT_EQ(config.eos_id, 2);
  EXPECT_EQ(config.pad_id, -1);
  EXPECT_EQ(config.end_ids, (std::vector<int32_t>{2, 3, 5, 9}));
  EXPECT_EQ(config.add_bos, true);
  ExpectInvalid({RawU32("tokenizer.ggml.bos_token_id", 11)}, "tokenizer.ggml.bos_token_id");
  ExpectInvalid({RawStrings("tokenizer.ggml.tokens", std::vector<std::string>(12, "x"))},
                "tokenizer.ggml.tokens");
  ExpectInvalid({RawU32("tokenizer.ggml.tokens", 11)}, "tokenizer.ggml.tokens");
}

TEST_F(DecoderGguf, OneTokenManyTimesDoesNotGrowTheEnds) {
  TestTensors tensors = SmallGgufTensors();
  tensors["token_embd.weight"] = tensors["output.weight"] = {500, 8};
  const DecoderConfig config =
      Good("llama", {RawStrings("tokenizer.ggml.tokens", std::vector<std::string>(500, "<|end|>"))},
           tensors);
  EXPECT_EQ(config.end_ids.size(), kDecoderEndIdsMax);
}

TEST_F(DecoderGguf, SamplingKeys) {
  const auto files = Open(
      With("llama", {files::RawKey("general.sampling.top_k", files::GgufType::kInt32,
                                   files::Raw(int32_t{20})),
                     RawF32("general.sampling.temp", 0.6f), RawF32("general.sampling.min_p", 0.05f),
                     RawString("tokenizer.chat_template", "{{ messages }}")}),
      SmallGgufTensors());
  ASSERT_TRUE(files.ok()) << files.status().ToString();
  EXPECT_EQ(files->sampling.top_k, 20);
  EXPECT_EQ(files->sampling.temperature, 0.6f);
  EXPECT_EQ(files->sampling.min_p, 0.05f);
  EXPECT_FALSE(files->sampling.top_p.has_value());
  EXPECT_EQ(files->chat_template, "{{ messages }}");
  EXPECT_FALSE(files->tokenizer.has_value());  // no tokens
  ExpectInvalid({RawF32("general.sampling.top_p", 2)}, "general.sampling.top_p");
  ExpectInvalid({RawF32("general.sampling.temp", INFINITY)}, "general.sampling.temp");
}

TEST_F(DecoderGguf, NamedChatTemplates) {
  const auto files = Open(With("llama", {RawString("tokenizer.chat_template.tool_use", "t"),
                                         RawString("tokenizer.chat_template", "d"),
                                         RawStrings("tokenizer.chat_templates", {"tool_use"})}),
                          SmallGgufTensors());
  ASSERT_TRUE(files.ok()) << files.status().ToString();
  EXPECT_EQ(files->chat_templates.by_name.size(), 2u);
  EXPECT_EQ(*files->chat_templates.Choose("", true), "t");
  EXPECT_EQ(*files->chat_templates.Choose("", false), "d");
  EXPECT_EQ(files->chat_template, "d");
  ExpectInvalid({RawU32("tokenizer.chat_template.rag", 1)}, "tokenizer.chat_template.rag");
}

TEST_F(DecoderGguf, UnusedTensorsAreCounted) {
  TestTensors tensors = SmallGgufTensors({{"attn_sinks.weight", {2}}});
  tensors["v.patch_embd.weight"] = {4, 4};
  const auto files = Open(SmallKeys("llama"), tensors);
  ASSERT_TRUE(files.ok()) << files.status().ToString();
  EXPECT_EQ(files->unused_tensors, 3);
}

// Any one byte of the header changed: a model, or an error, within the time of a test.
TEST_F(DecoderGguf, ChangedBytesGiveAModelOrAnError) {
  const std::string good =
      GgufOf(With("llama", {RawStrings("tokenizer.ggml.tokens", {"a", "<|end|>", "c"}),
                            RawU32("tokenizer.ggml.eos_token_id", 2)}),
             SmallGgufTensors());
  const size_t header = good.size() - good.size() / 2;
  int opened = 0, refused = 0;
  for (size_t at = 0; at < header; at += 11) {
    std::string changed = good;
    changed[at] = static_cast<char>(changed[at] ^ (1 << (at % 8)));
    folder_.Write("changed.gguf", changed);
    const auto files = DecoderFiles::Open(folder_ / "changed.gguf");
    ++(files.ok() ? opened : refused);
    if (!files.ok()) {
      EXPECT_FALSE(files.status().message().empty());
    }
  }
  EXPECT_GT(opened, 0);
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace penstock::families

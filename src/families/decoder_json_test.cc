// config.json of decoders: defaults, every kind of setting, and what is refused by name.
#include <gtest/gtest.h>

#include <cmath>

#include "families/decoder_readers.h"
#include "families/decoder_rope.h"

namespace penstock::families {
namespace {

Expected<DecoderReading> Read(const std::string& json) {
  const auto document = JsonDocument::Parse(json);
  EXPECT_TRUE(document.ok()) << document.status().ToString() << json;
  return ReadDecoderJson(*document->Object());
}

DecoderConfig Good(const std::string& json) {
  auto reading = Read(json);
  EXPECT_TRUE(reading.ok()) << reading.status().ToString() << ' ' << json;
  return reading.ok() ? std::move(reading->config) : DecoderConfig();
}

void ExpectStatus(const std::string& json, StatusCode code, const std::string& field) {
  const auto reading = Read(json);
  ASSERT_FALSE(reading.ok()) << json;
  EXPECT_EQ(reading.status().code(), code) << reading.status().ToString();
  EXPECT_EQ(reading.status().field(), field) << reading.status().ToString();
}
void ExpectRefused(const std::string& json, const std::string& field) {
  ExpectStatus(json, StatusCode::kUnsupported, field);
}
void ExpectInvalid(const std::string& json, const std::string& field) {
  ExpectStatus(json, StatusCode::kInvalidArgument, field);
}
// {"model_type": TYPE, FIELDS}
std::string Of(const std::string& type, const std::string& fields = "") {
  return R"({"model_type": ")" + type + '"' + (fields.empty() ? "" : ", " + fields) + '}';
}

TEST(DecoderJson, DefaultsAreThoseOfTheReference) {
  const DecoderConfig llama = Good(Of("llama"));
  EXPECT_EQ(llama.vocab_size, 32000);
  EXPECT_EQ(llama.kv_heads, 32);
  EXPECT_EQ(llama.head_size, 128);
  EXPECT_EQ(llama.context, 2048);
  EXPECT_EQ(llama.activation, HiddenActivation::kSilu);
  EXPECT_EQ(llama.bos_id, 1);
  EXPECT_EQ(llama.eos_id, 2);
  EXPECT_EQ(llama.pad_id, -1);
  EXPECT_FALSE(Read(Of("llama"))->wiring.tied);
  EXPECT_EQ(Good(Of("mistral")).kv_heads, 8);
  EXPECT_EQ(Good(Of("mistral")).layers.at(31).window, 4096);
  EXPECT_EQ(Good(Of("qwen3")).head_size, 128);
  EXPECT_EQ(Good(Of("qwen2", R"("use_sliding_window": true)")).layers.at(28).window, 4096);
  EXPECT_EQ(Good(Of("qwen2", R"("use_sliding_window": true)")).layers.at(27).window, 0);
  const DecoderConfig gemma2 = Good(Of("gemma2"));
  EXPECT_FLOAT_EQ(gemma2.attention_soft_cap, 50);
  EXPECT_FLOAT_EQ(gemma2.logit_soft_cap, 30);
  EXPECT_FLOAT_EQ(gemma2.attention_scale, 1.0f / 16);
  EXPECT_FLOAT_EQ(gemma2.embedding_scale, 48);
  EXPECT_EQ(gemma2.pad_id, 0);
  EXPECT_TRUE(Read(Of("gemma2"))->wiring.tied);
  const DecoderConfig gemma3 = Good(Of("gemma3_text"));
  EXPECT_EQ(gemma3.architecture, "gemma3");
  EXPECT_EQ(gemma3.layers.at(4).window, 4096);
  EXPECT_EQ(gemma3.layers.at(5).window, 0);
  EXPECT_FLOAT_EQ(gemma3.layers.at(4).rope_theta, 1e4f);
  EXPECT_FLOAT_EQ(gemma3.layers.at(5).rope_theta, 1e6f);
  EXPECT_FLOAT_EQ(Good(Of("phi3")).rms_epsilon, 1e-5f);
  EXPECT_EQ(Good(Of("phi3")).eos_id, 32000);
  EXPECT_EQ(Good(Of("phi3")).layers.at(0).window, 0);
  const DecoderConfig smollm3 = Good(Of("smollm3"));
  EXPECT_FLOAT_EQ(smollm3.layers.at(0).rope_theta, 2e6f);
  EXPECT_TRUE(smollm3.layers.at(2).rope);
  EXPECT_FALSE(smollm3.layers.at(3).rope);
  EXPECT_FLOAT_EQ(Good(Of("granite")).attention_scale, 1);
}

TEST(DecoderJson, NullMeansNoneWhereADefaultExists) {
  EXPECT_EQ(Good(Of("mistral", R"("sliding_window": null)")).layers.at(0).window, 0);
  EXPECT_EQ(Good(Of("gemma2", R"("attn_logit_softcapping": null)")).attention_soft_cap, 0);
  EXPECT_EQ(Good(Of("llama", R"("eos_token_id": null)")).eos_id, -1);
  EXPECT_EQ(Good(Of("mistral", R"("num_key_value_heads": null)")).kv_heads, 32);
  EXPECT_EQ(Good(Of("llama", R"("head_dim": null)")).head_size, 128);
}

TEST(DecoderJson, Tokens) {
  EXPECT_EQ(Good(Of("llama", R"("eos_token_id": [128001, 128008], "vocab_size": 128256)")).end_ids,
            (std::vector<int32_t>{128001, 128008}));
  EXPECT_EQ(Good(Of("llama", R"("pad_token_id": -1)")).pad_id, -1);
  EXPECT_EQ(Good(Of("phi3", R"("vocab_size": 13)")).eos_id, -1);  // a default that does not fit
  ExpectInvalid(Of("llama", R"("eos_token_id": 32000)"), "eos_token_id");
  ExpectInvalid(Of("llama", R"("eos_token_id": [1, 32000])"), "eos_token_id");
  ExpectInvalid(Of("llama", R"("eos_token_id": [1, "2"])"), "eos_token_id");
  ExpectInvalid(Of("llama", R"("bos_token_id": 4294967296)"), "bos_token_id");
  std::string many = "1";
  for (int i = 0; i < 64; ++i) many += ", 1";
  ExpectInvalid(Of("llama", R"("eos_token_id": [)" + many + "]"), "eos_token_id");
}

TEST(DecoderJson, WindowsByLayerTypes) {
  const std::string three = R"("num_hidden_layers": 3, "sliding_window": 7, )";
  const DecoderConfig gemma = Good(Of("gemma3_text", three + R"("layer_types":
      ["full_attention", "sliding_attention", "full_attention"])"));
  EXPECT_EQ(gemma.layers.at(0).window, 0);
  EXPECT_EQ(gemma.layers.at(1).window, 7);
  EXPECT_FLOAT_EQ(gemma.layers.at(1).rope_theta, 1e4f);
  // The window counts only where use_sliding_window says so.
  const std::string sliding = R"("layer_types": ["sliding_attention", "sliding_attention",
      "sliding_attention"])";
  EXPECT_EQ(Good(Of("qwen3", three + sliding)).layers.at(1).window, 0);
  EXPECT_EQ(
      Good(Of("qwen3", three + sliding + R"(, "use_sliding_window": true)")).layers.at(1).window,
      7);
  ExpectInvalid(Of("gemma2", three + R"("layer_types": ["full_attention"])"), "layer_types");
  ExpectRefused(Of("gemma2", three + R"("layer_types": ["chunked_attention"])"), "layer_types");
  ExpectRefused(Of("mistral", three + sliding), "layer_types");
  ExpectInvalid(Of("mistral", R"("sliding_window": 0)"), "sliding_window");
  ExpectRefused(Of("gemma3_text", R"("sliding_window": null)"), "sliding_window");
  // One that reaches over the whole context is none.
  EXPECT_EQ(Good(Of("phi3", R"("sliding_window": 4096)")).layers.at(0).window, 0);
  EXPECT_EQ(Good(Of("phi3", R"("sliding_window": 4095)")).layers.at(0).window, 4095);
}

TEST(DecoderJson, LayersWithoutRope) {
  const DecoderConfig config =
      Good(Of("smollm3", R"("num_hidden_layers": 3, "no_rope_layers": [0, 1, 1, 0, 1],
                            "use_sliding_window": true, "sliding_window": 9)"));
  EXPECT_FALSE(config.layers.at(0).rope);
  EXPECT_TRUE(config.layers.at(1).rope);
  EXPECT_EQ(config.layers.at(0).window, 9);
  EXPECT_EQ(config.layers.at(1).window, 0);
  ExpectInvalid(Of("smollm3", R"("num_hidden_layers": 3, "no_rope_layers": [1, 1])"),
                "no_rope_layers");
  ExpectInvalid(Of("smollm3", R"("num_hidden_layers": 1, "no_rope_layers": [2])"),
                "no_rope_layers");
}

TEST(DecoderJson, RopeOldAndNew) {
  EXPECT_FLOAT_EQ(Good(Of("llama", R"("rope_theta": 500000)")).layers.at(0).rope_theta, 5e5f);
  const DecoderConfig newer = Good(
      Of("llama", R"("rope_parameters": {"rope_type": "linear", "factor": 2, "rope_theta": 70})"));
  EXPECT_FLOAT_EQ(newer.layers.at(0).rope_theta, 70);
  EXPECT_EQ(newer.rope_scaling.kind, RopeScalingKind::kLinear);
  EXPECT_FLOAT_EQ(newer.rope_scaling.factor, 2);
  const DecoderConfig older =
      Good(Of("llama", R"("rope_scaling": {"type": "linear", "factor": 3})"));
  EXPECT_FLOAT_EQ(older.rope_scaling.factor, 3);
  EXPECT_EQ(older.context, 2048);
  const std::string local = R"("rope_parameters": {
      "full_attention": {"rope_type": "linear", "factor": 8, "rope_theta": 77},
      "sliding_attention": {"rope_type": "default", "rope_theta": 55}})";
  const DecoderConfig gemma = Good(Of("gemma3_text", local));
  EXPECT_FLOAT_EQ(gemma.layers.at(0).rope_theta, 55);
  EXPECT_FALSE(gemma.layers.at(0).rope_scaled);
  EXPECT_FLOAT_EQ(gemma.layers.at(5).rope_theta, 77);
  EXPECT_TRUE(gemma.layers.at(5).rope_scaled);
  EXPECT_EQ(gemma.rope_scaling.kind, RopeScalingKind::kLinear);
  ExpectRefused(Of("gemma3_text", R"("rope_parameters": {"rope_theta": 5})"), "rope_parameters");
  ExpectRefused(
      Of("gemma3_text", R"("rope_parameters": {"sliding_attention": {"rope_type": "yarn"}})"),
      "rope_parameters.sliding_attention.rope_type");
}

TEST(DecoderJson, Yarn) {
  const DecoderConfig config = Good(Of("qwen2", R"("rope_scaling": {"type": "yarn", "factor": 4.0,
      "original_max_position_embeddings": 32768})"));
  EXPECT_EQ(config.rope_scaling.kind, RopeScalingKind::kYarn);
  EXPECT_EQ(config.rope_scaling.original_context, 32768);
  EXPECT_EQ(config.context, 131072);
  EXPECT_FLOAT_EQ(config.rope_scaling.attention_factor, 0.1f * std::log(4.0f) + 1);
  EXPECT_FLOAT_EQ(config.rope_scaling.beta_fast, 32);
  const RopeScaling mscale = Good(Of("llama", R"("rope_scaling": {"rope_type": "yarn", "factor": 40,
      "mscale": 0.5, "mscale_all_dim": 1.0, "beta_slow": 2, "truncate": false})"))
                                 .rope_scaling;
  EXPECT_FLOAT_EQ(mscale.attention_factor,
                  (0.05f * std::log(40.0f) + 1) / (0.1f * std::log(40.0f) + 1));
  EXPECT_FLOAT_EQ(mscale.beta_slow, 2);
  EXPECT_FALSE(mscale.truncate);
  EXPECT_EQ(mscale.original_context, 2048);
  ExpectInvalid(Of("llama", R"("rope_scaling": {"rope_type": "yarn", "factor": 0.5})"),
                "rope_scaling.factor");
}

// Llama 3.2's; what transformers' function gives for heads of 64 by its frequencies' ratio.
TEST(DecoderJson, Llama3) {
  const std::string fields = R"("rope_theta": 500000.0, "head_dim": 64, "rope_scaling": {
      "factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
      "original_max_position_embeddings": 8192, "rope_type": "llama3"})";
  const RopeScaling scaling = Good(Of("llama", fields)).rope_scaling;
  EXPECT_EQ(scaling.kind, RopeScalingKind::kLlama3);
  ASSERT_EQ(scaling.factors.size(), 32u);
  EXPECT_EQ(scaling.factors[0], 1);
  EXPECT_EQ(scaling.factors[14], 1);
  EXPECT_NEAR(scaling.factors[15], 1.6513, 1e-4);
  EXPECT_NEAR(scaling.factors[16], 3.2923, 1e-4);
  EXPECT_NEAR(scaling.factors[17], 9.6667, 1e-4);
  EXPECT_EQ(scaling.factors[18], 32);
  EXPECT_EQ(scaling.factors[31], 32);
  ExpectInvalid(Of("llama", R"("rope_scaling": {"rope_type": "llama3"})"), "rope_scaling.factor");
  ExpectInvalid(Of("llama", R"("rope_scaling": {"rope_type": "llama3", "factor": 8,
      "low_freq_factor": 4, "high_freq_factor": 4})"),
                "rope_scaling.high_freq_factor");
}

TEST(DecoderJson, Longrope) {
  const std::string head = R"("hidden_size": 8, "num_attention_heads": 2, "rope_scaling": )";
  const std::string fields = R"({"type": "su", "short_factor": [1, 1], "long_factor": [1.5, 2]})";
  const DecoderConfig config =
      Good(Of("phi3", R"("max_position_embeddings": 131072, )" + head + fields));
  EXPECT_EQ(config.rope_scaling.kind, RopeScalingKind::kLongrope);
  EXPECT_EQ(config.rope_scaling.original_context, 4096);
  EXPECT_EQ(config.rope_scaling.long_factors, (std::vector<float>{1.5f, 2}));
  EXPECT_NEAR(config.rope_scaling.attention_factor, 1.1902, 1e-4);  // Phi-3-mini-128k's
  EXPECT_EQ(config.context, 131072);
  ExpectInvalid(Of("phi3", head + R"({"type": "longrope", "short_factor": [1, 1]})"),
                "rope_scaling.long_factor");
  ExpectInvalid(
      Of("phi3", head + R"({"type": "longrope", "short_factor": [1], "long_factor": [1, 1]})"),
      "rope_scaling.short_factor");
  ExpectInvalid(
      Of("phi3", head + R"({"type": "longrope", "short_factor": [1, 0], "long_factor": [1, 1]})"),
      "rope_scaling.short_factor");
}

// Within max_position_embeddings, the longest context, the frequencies are those without scaling.
TEST(DecoderJson, Dynamic) {
  const DecoderConfig plain = Good(Of("llama"));
  const DecoderConfig config =
      Good(Of("llama", R"("rope_scaling": {"type": "dynamic", "factor": 2.0})"));
  EXPECT_EQ(config.rope_scaling.kind, RopeScalingKind::kNone);
  EXPECT_EQ(config.rope_scaling.attention_factor, 1);
  EXPECT_EQ(config.context, plain.context);
  EXPECT_EQ(config.layers.at(0).rope_theta, plain.layers.at(0).rope_theta);
  ExpectInvalid(Of("llama", R"("rope_scaling": {"type": "dynamic"})"), "rope_scaling.factor");
  ExpectInvalid(Of("llama", R"("rope_scaling": {"type": "dynamic", "factor": 0.5})"),
                "rope_scaling.factor");
  ExpectRefused(Of("llama", R"("rope_scaling": {"type": "dynamic", "factor": 1, "alpha": 9})"),
                "rope_scaling.alpha");
}

TEST(DecoderJson, CapsOfGemma3) {
  EXPECT_FLOAT_EQ(Good(Of("gemma3_text", R"("final_logit_softcapping": 7)")).logit_soft_cap, 7);
  EXPECT_EQ(Good(Of("gemma3_text", R"("final_logit_softcapping": null)")).logit_soft_cap, 0);
  ExpectRefused(Of("gemma3_text", R"("attn_logit_softcapping": 50)"), "attn_logit_softcapping");
  const auto images = [](const std::string& fields) {
    return R"({"model_type": "gemma3", "text_config": {)" + fields + "}}";
  };
  ExpectRefused(images(R"("attn_logit_softcapping": 50)"), "text_config.attn_logit_softcapping");
  ExpectRefused(images(R"("final_logit_softcapping": 7)"), "text_config.final_logit_softcapping");
  EXPECT_EQ(Good(images(R"("final_logit_softcapping": null, "attn_logit_softcapping": null)"))
                .logit_soft_cap,
            0);
}

TEST(DecoderJson, RotaryPartsOfAHead) {
  EXPECT_EQ(Good(Of("phi3", R"("partial_rotary_factor": 0.75)")).rope_size, 72);
  for (const char* type : {"llama", "mistral", "granite", "smollm3", "qwen2", "qwen3", "gemma2"}) {
    const DecoderConfig config = Good(Of(type, R"("head_dim": 80, "partial_rotary_factor": 0.4)"));
    EXPECT_EQ(config.rope_size, 32) << type;
    EXPECT_EQ(config.head_size, 80) << type;
  }
  EXPECT_EQ(Good(Of("llama", R"("rope_parameters": {"rope_type": "default", "rope_theta": 1e4,
                                 "partial_rotary_factor": 0.5})"))
                .rope_size,
            64);
  // Frequencies, and llama3's share of them, are those of the rotated part.
  const std::string llama3 = R"("rope_scaling": {"rope_type": "llama3", "factor": 8,
      "low_freq_factor": 1, "high_freq_factor": 4, "original_max_position_embeddings": 8192})";
  EXPECT_EQ(Good(Of("llama", R"("head_dim": 64, "partial_rotary_factor": 0.5, )" + llama3))
                .rope_scaling.factors,
            Good(Of("llama", R"("head_dim": 32, )" + llama3)).rope_scaling.factors);
  ExpectRefused(Of("gemma3_text", R"("partial_rotary_factor": 0.5)"), "partial_rotary_factor");
  ExpectRefused(Of("gemma3_text",
                   R"("rope_parameters": {"sliding_attention": {"partial_rotary_factor": 0.5}})"),
                "rope_parameters.sliding_attention.partial_rotary_factor");
  ExpectInvalid(Of("llama", R"("head_dim": 5)"), "head_dim");
  ExpectInvalid(Of("phi3", R"("partial_rotary_factor": 0.001)"), "partial_rotary_factor");
}

TEST(DecoderJson, UnknownThingsAreRefusedByName) {
  ExpectRefused(R"({"model_type": "mixtral"})", "model_type");
  ExpectInvalid(R"({"hidden_size": 8})", "model_type");
  ExpectRefused(Of("llama", R"("rope_scaling": {"type": "ntk", "factor": 2})"),
                "rope_scaling.type");
  ExpectRefused(Of("llama", R"("hidden_act": "relu6")"), "hidden_act");
  ExpectRefused(Of("llama", R"("quantization_config": {"bits": 4})"), "quantization_config");
  ExpectRefused(Of("llama", R"("num_local_experts": 8)"), "num_local_experts");
  ExpectRefused(Of("gemma3_text", R"("use_bidirectional_attention": true)"),
                "use_bidirectional_attention");
  ExpectRefused(Of("llama", R"("architectures": ["LlamaForSequenceClassification"])"),
                "architectures");
  EXPECT_TRUE(Read(Of("llama", R"("architectures": ["LlamaForCausalLM"], "num_experts": 0,
                                  "quantization_config": null)"))
                  .ok());
}

TEST(DecoderJson, NumbersHaveLimits) {
  for (const char* field :
       {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
        "num_attention_heads", "num_key_value_heads", "head_dim", "max_position_embeddings"}) {
    for (const char* value : {"0", "-1", "4294967295", "1e300", "\"8\"", "[8]", "true"}) {
      ExpectInvalid(Of("llama", '"' + std::string(field) + "\": " + value), field);
    }
  }
  ExpectInvalid(Of("llama", R"("rms_norm_eps": -1)"), "rms_norm_eps");
  ExpectInvalid(Of("llama", R"("rope_theta": 1)"), "rope_theta");
  ExpectInvalid(Of("llama", R"("hidden_size": 9, "num_attention_heads": 2)"), "hidden_size");
  ExpectInvalid(Of("llama", R"("num_attention_heads": 8, "num_key_value_heads": 3)"),
                "num_key_value_heads");
  ExpectInvalid(Of("granite", R"("logits_scaling": 0)"), "logits_scaling");
  ExpectInvalid(Of("gemma2", R"("query_pre_attn_scalar": 0)"), "query_pre_attn_scalar");
  ExpectInvalid(Of("gemma2", R"("final_logit_softcapping": -3)"), "final_logit_softcapping");
}

TEST(DecoderJson, BiasesAreWhatTheFileSays) {
  const auto biases = Read(Of("llama", R"("attention_bias": true, "mlp_bias": true)"))->wiring;
  EXPECT_EQ(biases.qkv_bias, Bias::kRequired);
  EXPECT_EQ(biases.attention_out_bias, Bias::kRequired);
  EXPECT_EQ(biases.ff_bias, Bias::kRequired);
  const auto qwen2 = Read(Of("qwen2"))->wiring;
  EXPECT_EQ(qwen2.qkv_bias, Bias::kRequired);
  EXPECT_EQ(qwen2.attention_out_bias, Bias::kNone);
}

TEST(DecoderJson, TheTextModelOfAModelWithImages) {
  const DecoderConfig config = Good(R"({"model_type": "gemma3", "eos_token_id": [1, 106],
      "architectures": ["Gemma3ForConditionalGeneration"], "vision_config": {"hidden_size": 1152},
      "text_config": {"model_type": "gemma3_text", "hidden_size": 2560, "num_hidden_layers": 34,
                      "sliding_window": 1024, "rope_scaling": {"factor": 8.0, "rope_type": "linear"}}})");
  EXPECT_EQ(config.hidden_size, 2560);
  EXPECT_EQ(config.end_ids, (std::vector<int32_t>{1, 106}));
  EXPECT_EQ(config.bos_id, 2);
  EXPECT_EQ(config.rope_scaling.kind, RopeScalingKind::kLinear);
  ExpectInvalid(R"({"model_type": "gemma3"})", "text_config");
  ExpectInvalid(R"({"model_type": "gemma3", "text_config": {"hidden_size": 0}})",
                "text_config.hidden_size");
}

}  // namespace
}  // namespace penstock::families

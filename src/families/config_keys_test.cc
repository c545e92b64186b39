// Every key of config.json that transformers knows for a decoder (tests/golden/config_keys.tsv):
// when it is changed, the reading changes or the file is refused, unless the key is listed here as
// one that cannot change what the model computes.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "families/decoder_readers.h"
#include "families/list.h"

namespace penstock::families {
namespace {

const std::set<std::string> kMeansNothing = {
    // Training.
    "attention_dropout",
    "embd_pdrop",
    "gradient_checkpointing",
    "initializer_range",
    "resid_pdrop",
    "tf_legacy_loss",
    // How the library computes, holds or returns the same numbers.
    "attn_implementation",
    "chunk_size_feed_forward",
    "dtype",
    "experts_implementation",
    "output_attentions",
    "output_hidden_states",
    "pretraining_tp",
    "return_dict",
    "torch_dtype",
    "torchscript",
    "use_bfloat16",
    "use_cache",
    // Of encoders with a decoder; is_encoder_decoder and add_cross_attention are refused.
    "decoder_start_token_id",
    "is_decoder",
    "tie_encoder_decoder",
    // Names and notes.
    "finetuning_task",
    "name_or_path",
    "prefix",
    "sep_token_id",
    "task_specific_params",
    "tokenizer_class",
    "transformers_version",
    // Of classifiers, whose folders are read elsewhere; their `architectures` are refused here.
    "id2label",
    "label2id",
    "num_labels",
    "problem_type",
};

// A value besides that of Base and the default; it need not make sense together with the others.
const std::map<std::string, std::string> kOther = {
    {"add_cross_attention", "true"},
    {"architectures", R"(["OtherForTokenClassification"])"},
    {"attention_bias", "true"},
    {"attention_dropout", "0.5"},
    {"attention_multiplier", "0.25"},
    {"attn_implementation", "\"eager\""},
    {"attn_logit_softcapping", "12.5"},
    {"bos_token_id", "7"},
    {"chunk_size_feed_forward", "8"},
    {"cross_attention_hidden_size", "64"},
    {"decoder_start_token_id", "7"},
    {"dtype", "\"float16\""},
    {"embd_pdrop", "0.5"},
    {"embedding_multiplier", "3.5"},
    {"eos_token_id", "[7, 8]"},
    {"experts_implementation", "\"eager\""},
    {"final_logit_softcapping", "12.5"},
    {"finetuning_task", "\"other\""},
    {"gradient_checkpointing", "true"},
    {"head_dim", "32"},
    {"hidden_act", "\"gelu\""},
    {"hidden_activation", "\"silu\""},
    {"hidden_size", "128"},
    {"id2label", R"({"0": "a", "1": "b", "2": "c"})"},
    {"initializer_range", "0.5"},
    {"intermediate_size", "128"},
    {"is_decoder", "true"},
    {"is_encoder_decoder", "true"},
    {"label2id", R"({"a": 0})"},
    {"layer_types", "LAYERS"},
    {"logits_scaling", "2.5"},
    {"max_position_embeddings", "512"},
    {"max_window_layers", "3"},
    {"mlp_bias", "true"},
    {"name_or_path", "\"other\""},
    {"no_rope_layer_interval", "2"},
    {"no_rope_layers", "[1, 0, 1, 1, 1, 1]"},
    {"num_attention_heads", "8"},
    {"num_hidden_layers", "4"},
    {"num_key_value_heads", "4"},
    {"num_labels", "3"},
    {"original_max_position_embeddings", "64"},
    {"output_attentions", "true"},
    {"output_hidden_states", "true"},
    {"pad_token_id", "7"},
    {"partial_rotary_factor", "0.5"},
    {"per_layer_config", R"({"0": {"hidden_size": 8}})"},
    {"prefix", "\"other\""},
    {"pretraining_tp", "2"},
    {"problem_type", "\"regression\""},
    {"pruned_heads", R"({"0": [1]})"},
    {"query_pre_attn_scalar", "30"},
    {"resid_pdrop", "0.5"},
    {"residual_multiplier", "0.5"},
    {"return_dict", "false"},
    {"rms_norm_eps", "0.001"},
    {"rope_local_base_freq", "500"},
    {"rope_parameters", R"({"rope_type": "linear", "factor": 4, "rope_theta": 5000})"},
    {"rope_scaling", R"({"rope_type": "linear", "factor": 4})"},
    {"rope_theta", "5000"},
    {"sep_token_id", "7"},
    {"sliding_window", "24"},
    {"sliding_window_pattern", "2"},
    {"task_specific_params", R"({"other": {"num_beams": 4}})"},
    {"tf_legacy_loss", "true"},
    {"tie_encoder_decoder", "true"},
    {"tie_word_embeddings", "TIED"},
    {"tokenizer_class", "\"other\""},
    {"torch_dtype", "\"float16\""},
    {"torchscript", "true"},
    {"transformers_version", "\"9.9\""},
    {"use_bfloat16", "true"},
    {"use_bidirectional_attention", "true"},
    {"use_cache", "false"},
    {"use_sliding_window", "false"},
    {"vocab_size", "180000"},
};

using Fields = std::map<std::string, std::string>;

// Small, with each switch so that the settings it switches count.
Fields Base(const std::string& family) {
  Fields fields = {{"model_type", '"' + family + '"'},
                   {"vocab_size", "150000"},
                   {"hidden_size", "64"},
                   {"intermediate_size", "96"},
                   {"num_hidden_layers", "6"},
                   {"num_attention_heads", "4"},
                   {"num_key_value_heads", "2"},
                   {"max_position_embeddings", "256"},
                   {"sliding_window", "16"}};
  if (family == "qwen2" || family == "qwen3" || family == "smollm3") {
    fields["use_sliding_window"] = "true";
    fields["max_window_layers"] = "2";
  }
  if (family == "phi3") {
    fields["original_max_position_embeddings"] = "128";
    fields["rope_scaling"] = R"({"type": "longrope", "short_factor": [1, 1, 1, 1, 1, 1, 1, 1],
                                 "long_factor": [1, 2, 3, 4, 5, 6, 7, 8]})";
  }
  return fields;
}

std::string Other(const std::string& family, const std::string& key) {
  const std::string value = kOther.at(key);
  if (value == "TIED") return family.starts_with("gemma") || family == "smollm3" ? "false" : "true";
  if (value != "LAYERS") return value;
  return R"(["full_attention", "full_attention", "sliding_attention", "full_attention",
             "full_attention", "full_attention"])";
}

// Everything that a reading says, or the status; an error is never equal to a reading.
std::string Said(const Fields& fields) {
  std::string json = "{";
  for (const auto& [key, value] : fields) {
    json += (json.size() > 1 ? ", \"" : "\"") + key + "\": " + value;
  }
  const auto document = JsonDocument::Parse(json + "}");
  EXPECT_TRUE(document.ok()) << json;
  const auto reading = ReadDecoderJson(*document->Object());
  if (!reading.ok()) return "refused: " + reading.status().ToString();
  const DecoderConfig& c = reading->config;
  std::ostringstream out;
  const auto list = [&](const auto& values) {
    for (const auto value : values) out << value << ',';
    out << ' ';
  };
  for (const auto value :
       {c.vocab_size, c.hidden_size, c.heads, c.kv_heads, c.head_size, c.intermediate_size,
        c.context, c.rope_size, c.bos_id, c.eos_id, c.pad_id, c.rope_scaling.original_context}) {
    out << value << ' ';
  }
  for (const auto value :
       {c.rms_epsilon, c.embedding_scale, c.attention_scale, c.residual_scale, c.logit_scale,
        c.attention_soft_cap, c.logit_soft_cap, c.rope_scaling.factor,
        c.rope_scaling.attention_factor, c.rope_scaling.beta_fast, c.rope_scaling.beta_slow}) {
    out << value << ' ';
  }
  list(c.rope_scaling.factors);
  list(c.rope_scaling.short_factors);
  list(c.rope_scaling.long_factors);
  list(c.end_ids);
  out << static_cast<int>(c.activation) << static_cast<int>(c.rope_scaling.kind) << c.causal
      << c.unit_offset_norms << c.rope_scaling.truncate << reading->wiring.tied
      << static_cast<int>(reading->wiring.qkv_bias)
      << static_cast<int>(reading->wiring.attention_out_bias)
      << static_cast<int>(reading->wiring.ff_bias);
  for (const DecoderLayerConfig& layer : c.layers) {
    out << ' ' << layer.window << '/' << layer.rope << '/' << layer.rope_theta << '/'
        << layer.rope_scaled;
  }
  return out.str();
}

struct Key {
  std::string family, name;
};

std::vector<Key> KnownKeys() {
  std::ifstream file(PENSTOCK_GOLDEN_DIR "/config_keys.tsv");
  std::vector<Key> keys;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#')) continue;
    std::istringstream fields(line);
    Key& key = keys.emplace_back();
    std::getline(fields, key.family, '\t');
    std::getline(fields, key.name, '\t');
  }
  return keys;
}

TEST(ConfigKeys, EachIsUsedOrRefusedOrMeansNothing) {
  const std::vector<Key> keys = KnownKeys();
  ASSERT_GT(keys.size(), 400u);
  std::set<std::string> families;
  for (const auto& [family, name] : keys) {
    SCOPED_TRACE(family + ": " + name);
    families.insert(family);
    if (!kOther.contains(name)) {
      ADD_FAILURE() << "transformers knows a key that this test does not";
      continue;
    }
    Fields fields = Base(family);
    if (name == "rope_parameters") fields.erase("rope_scaling");  // which goes before it
    const std::string before = Said(fields);
    ASSERT_FALSE(before.starts_with("refused")) << before;
    ASSERT_NE(fields[name], Other(family, name));
    fields[name] = Other(family, name);
    EXPECT_EQ(Said(fields) == before, kMeansNothing.contains(name)) << before;
  }
  for (const DecoderFamily* family : Families<DecoderFamily>()) {
    EXPECT_EQ(families.erase(std::string(family->model_type)), 1u) << family->model_type;
  }
  EXPECT_TRUE(families.empty());
}

}  // namespace
}  // namespace penstock::families

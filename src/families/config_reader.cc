#include "families/config_reader.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "common/printable.h"
#include "families/config_fields.h"

namespace penstock {
namespace {

struct Defaults {
  int32_t vocab_size, hidden_size, layers, heads, intermediate_size, positions, types, pad;
  double norm_eps;
};

constexpr Defaults kBert = {30522, 768, 12, 12, 3072, 512, 2, 0, 1e-12};
constexpr Defaults kRoberta = {50265, 768, 12, 12, 3072, 512, 2, 1, 1e-12};
constexpr Defaults kXlmRoberta = {30522, 768, 12, 12, 3072, 512, 2, 1, 1e-12};
constexpr Defaults kMpNet = {30527, 768, 12, 12, 3072, 512, 0, 1, 1e-12};
constexpr Defaults kDistilBert = {30522, 768, 6, 12, 3072, 512, 0, 0, 1e-12};
constexpr Defaults kNomic = {30528, 768, 12, 12, 3072, 2048, 2, 0, 1e-12};
constexpr Defaults kModernBert = {50368, 768, 22, 12, 1152, 8192, 0, 50283, 1e-5};

// Settings that all encoder families share, each by its newer and, if any, its older name.
Status ReadSizes(const JsonObject& config, const Defaults& d, EncoderConfig* out) {
  PENSTOCK_RETURN_IF_ERROR(
      ReadInt(config, {"vocab_size"}, d.vocab_size, 1, kEncoderVocabularyMax, &out->vocab_size));
  PENSTOCK_RETURN_IF_ERROR(ReadInt(config, {"hidden_size", "dim", "n_embd"}, d.hidden_size, 1,
                                   kEncoderHiddenMax, &out->hidden_size));
  PENSTOCK_RETURN_IF_ERROR(ReadInt(config, {"num_hidden_layers", "n_layers", "n_layer"}, d.layers,
                                   1, kEncoderLayersMax, &out->num_hidden_layers));
  PENSTOCK_RETURN_IF_ERROR(ReadInt(config, {"num_attention_heads", "n_heads", "n_head"}, d.heads, 1,
                                   kEncoderHeadsMax, &out->num_attention_heads));
  PENSTOCK_RETURN_IF_ERROR(ReadInt(config, {"intermediate_size", "hidden_dim", "n_inner"},
                                   d.intermediate_size, 1, kEncoderIntermediateMax,
                                   &out->intermediate_size));
  PENSTOCK_RETURN_IF_ERROR(ReadInt(config, {"max_position_embeddings", "n_positions"}, d.positions,
                                   1, kEncoderPositionsMax, &out->max_position_embeddings));
  PENSTOCK_RETURN_IF_ERROR(ReadInt(config, {"type_vocab_size"}, d.types, 0, kEncoderVocabularyMax,
                                   &out->type_vocab_size));
  PENSTOCK_RETURN_IF_ERROR(
      ReadInt(config, {"pad_token_id"}, d.pad, -1, out->vocab_size - 1, &out->pad_token_id));
  PENSTOCK_RETURN_IF_ERROR(ReadFloat(config, {"layer_norm_eps", "layer_norm_epsilon"}, d.norm_eps,
                                     0, 1, &out->layer_norm_eps));
  if (out->hidden_size % out->num_attention_heads != 0) {
    const std::string name(PresentField(config, {"hidden_size", "dim", "n_embd"}));
    return Status::InvalidArgument(
        "'" + name + "' " + std::to_string(out->hidden_size) + " is not a multiple of the " +
            std::to_string(out->num_attention_heads) + " attention heads",
        name);
  }
  return Status::Ok();
}

Status RefusePositionsOtherThan(const JsonObject& config, FieldNames supported) {
  PENSTOCK_ASSIGN_OR_RETURN(const std::string type,
                            config.GetStringOr("position_embedding_type", *supported.begin()));
  if (std::find(supported.begin(), supported.end(), type) != supported.end()) return Status::Ok();
  return Status::Unsupported("'position_embedding_type': '" + Shown(type) + "' is not supported",
                             "position_embedding_type");
}

// ---- BERT, RoBERTa, XLM-RoBERTa, CamemBERT, MPNet

Status ReadBertLike(const JsonObject& config, const Defaults& defaults, EncoderConfig* out) {
  PENSTOCK_RETURN_IF_ERROR(ReadSizes(config, defaults, out));
  PENSTOCK_RETURN_IF_ERROR(RefusePositionsOtherThan(config, {"absolute"}));
  return ReadActivation(config, "hidden_act", "gelu", &out->hidden_act);
}

Status ReadBert(const JsonObject& config, EncoderConfig* out) {
  return ReadBertLike(config, kBert, out);
}
Status ReadRoberta(const JsonObject& config, EncoderConfig* out) {
  return ReadBertLike(config, kRoberta, out);
}
Status ReadXlmRoberta(const JsonObject& config, EncoderConfig* out) {
  return ReadBertLike(config, kXlmRoberta, out);
}

Status ReadMpNet(const JsonObject& config, EncoderConfig* out) {
  PENSTOCK_RETURN_IF_ERROR(ReadBertLike(config, kMpNet, out));
  out->type_vocab_size = 0;
  return ReadInt(config, {"relative_attention_num_buckets"}, 32, 2, 1 << 16,
                 &out->relative_attention_num_buckets);
}

// ---- DistilBERT

// sinusoidal_pos_embds changes how the position table was made; the file holds it either way.
Status ReadDistilBert(const JsonObject& config, EncoderConfig* out) {
  PENSTOCK_RETURN_IF_ERROR(ReadSizes(config, kDistilBert, out));
  PENSTOCK_RETURN_IF_ERROR(RefusePositionsOtherThan(config, {"absolute"}));
  out->type_vocab_size = 0;
  out->layer_norm_eps = 1e-12f;  // fixed in the reference implementation
  return ReadActivation(config, "activation", "gelu", &out->hidden_act);
}

// ---- Rotary embeddings

// theta of rope_parameters (or of the older rope_scaling), when it is the plain kind.
Status ReadRopeParameters(const JsonObject& rope, double absent, float* theta) {
  for (const std::string_view key : {"rope_type", "type"}) {
    PENSTOCK_ASSIGN_OR_RETURN(const std::string type, rope.GetStringOr(key, "default"));
    if (type != "default") {
      return Status::Unsupported(std::string("'") + rope.PathOf(key) + "': rotary scaling '" +
                                     Shown(type) + "' is not supported",
                                 rope.PathOf(key));
    }
  }
  return ReadFloat(rope, {"rope_theta"}, absent, 1, 1e12, theta);
}

// ---- NomicBERT

// As transformers 5 writes it: fixed shape, no biases.
Status ReadNomicNative(const JsonObject& config, EncoderConfig* out) {
  PENSTOCK_RETURN_IF_ERROR(ReadSizes(config, kNomic, out));
  PENSTOCK_ASSIGN_OR_RETURN(const int64_t head_dim,
                            config.GetIntOr("head_dim", out->hidden_size / out->num_attention_heads,
                                            1, kEncoderHiddenMax));
  if (head_dim * out->num_attention_heads != out->hidden_size) {
    return Status::Unsupported("'head_dim' other than hidden_size / num_attention_heads",
                               "head_dim");
  }
  PENSTOCK_ASSIGN_OR_RETURN(const double flat_theta,
                            config.GetNumberOr("rope_theta", 1000.0, 1, 1e12));
  PENSTOCK_ASSIGN_OR_RETURN(const JsonObject rope, config.GetObjectOrEmpty("rope_parameters"));
  PENSTOCK_RETURN_IF_ERROR(ReadRopeParameters(rope, flat_theta, &out->rope_theta));
  PENSTOCK_ASSIGN_OR_RETURN(const JsonObject scaling, config.GetObjectOrEmpty("rope_scaling"));
  float ignored = 0;
  PENSTOCK_RETURN_IF_ERROR(ReadRopeParameters(scaling, flat_theta, &ignored));
  const std::string_view partial = "partial_rotary_factor";
  PENSTOCK_RETURN_IF_ERROR(
      ReadFloat(rope.Has(partial) ? rope : config, {partial}, 1.0, 1.0, 1.0, &out->rope_fraction));
  PENSTOCK_ASSIGN_OR_RETURN(const std::string act, config.GetStringOr("hidden_act", "silu"));
  if (act != "silu" && act != "swish" && act != "swiglu") {
    return Status::Unsupported("'hidden_act': '" + Shown(act) + "' is not supported for nomic_bert",
                               "hidden_act");
  }
  out->qkv_bias = out->mlp_bias = out->attention_out_bias = false;
  return Status::Ok();
}

// As nomic-ai publishes it, with the names of GPT-2.
Status ReadNomicOriginal(const JsonObject& config, EncoderConfig* out) {
  Defaults defaults = kNomic;
  defaults.norm_eps = 1e-5;
  defaults.positions = 1024;
  PENSTOCK_ASSIGN_OR_RETURN(const int64_t embedding, config.GetInt("n_embd", 1, kEncoderHiddenMax));
  defaults.intermediate_size = static_cast<int32_t>(4 * embedding);
  PENSTOCK_RETURN_IF_ERROR(ReadSizes(config, defaults, out));
  PENSTOCK_RETURN_IF_ERROR(
      RefuseIfSet(config, {"prenorm", "parallel_block", "use_rms_norm", "causal",
                           "rotary_emb_scale_base", "scale_attn_by_inverse_layer_idx",
                           "num_experts", "moe_every_n_layers", "num_shared_experts"}));
  PENSTOCK_RETURN_IF_ERROR(RefuseIfFalse(config, "scale_attn_weights"));

  PENSTOCK_ASSIGN_OR_RETURN(const std::string act,
                            config.GetStringOr("activation_function", "gelu_new"));
  if (act != "swiglu") {
    return Status::Unsupported("'activation_function': '" + Shown(act) +
                                   "' is not supported for nomic_bert, only swiglu is",
                               "activation_function");
  }
  PENSTOCK_ASSIGN_OR_RETURN(out->qkv_bias, config.GetBoolOr("qkv_proj_bias", true));
  out->attention_out_bias = out->qkv_bias;
  PENSTOCK_ASSIGN_OR_RETURN(out->mlp_bias, config.GetBoolOr("mlp_fc1_bias", true));
  PENSTOCK_ASSIGN_OR_RETURN(const bool fc2_bias, config.GetBoolOr("mlp_fc2_bias", true));
  if (fc2_bias != out->mlp_bias) {
    return Status::Unsupported("'mlp_fc1_bias' and 'mlp_fc2_bias' differ", "mlp_fc2_bias");
  }
  // 0, the default, would mean a learned table of positions.
  PENSTOCK_RETURN_IF_ERROR(
      ReadFloat(config, {"rotary_emb_fraction"}, 0.0, 0, 1, &out->rope_fraction));
  if (out->rope_fraction == 0) {
    return Status::Unsupported("'rotary_emb_fraction' is 0: only rotary positions are supported",
                               "rotary_emb_fraction");
  }
  PENSTOCK_ASSIGN_OR_RETURN(out->rope_interleaved,
                            config.GetBoolOr("rotary_emb_interleaved", false));
  PENSTOCK_RETURN_IF_ERROR(
      ReadFloat(config, {"rotary_emb_base"}, 10000.0, 1, 1e12, &out->rope_theta));
  // A scaling factor changes the angles only beyond the trained length.
  if (config.Has("rotary_scaling_factor")) {
    int32_t trained = 0;
    PENSTOCK_RETURN_IF_ERROR(
        ReadInt(config, {"max_trained_positions"}, 2048, 1, kEncoderPositionsMax, &trained));
    out->max_position_embeddings = std::min(out->max_position_embeddings, trained);
  }
  return Status::Ok();
}

Status ReadNomic(const JsonObject& config, EncoderConfig* out) {
  PENSTOCK_RETURN_IF_ERROR(RefusePositionsOtherThan(config, {"rotary", "absolute"}));
  out->hidden_act = HiddenActivation::kSilu;
  return config.Has("n_embd") ? ReadNomicOriginal(config, out) : ReadNomicNative(config, out);
}

// ---- ModernBERT

// layer_types, the newer form, names each layer; the older form says that every n-th is global.
Status ReadLayerTypes(const JsonObject& config, EncoderConfig* out) {
  PENSTOCK_RETURN_IF_ERROR(ReadInt(config, {"global_attn_every_n_layers"}, 3, 1, kEncoderLayersMax,
                                   &out->global_attn_every_n_layers));
  if (!config.Has("layer_types")) return Status::Ok();
  PENSTOCK_ASSIGN_OR_RETURN(const auto types,
                            config.GetStringsOrEmpty("layer_types", kEncoderLayersMax));
  const auto refuse = [](const std::string& why) {
    return Status::Unsupported("'layer_types': " + why, "layer_types");
  };
  if (types.size() != static_cast<size_t>(out->num_hidden_layers)) {
    return Status::InvalidArgument("'layer_types' has " + std::to_string(types.size()) +
                                       " entries for " + std::to_string(out->num_hidden_layers) +
                                       " layers",
                                   "layer_types");
  }
  const auto second = std::find(types.begin() + 1, types.end(), "full_attention");
  const auto every = static_cast<size_t>(second - types.begin());
  for (size_t i = 0; i < types.size(); ++i) {
    if (types[i] != "full_attention" && types[i] != "sliding_attention") {
      return refuse("'" + Shown(types[i]) + "' is not supported");
    }
    if ((types[i] == "full_attention") != (i % every == 0)) {
      return refuse("only 'full_attention' at every n-th layer from the first on is supported");
    }
  }
  out->global_attn_every_n_layers = static_cast<int32_t>(every);
  return Status::Ok();
}

Status ReadModernRope(const JsonObject& config, EncoderConfig* out) {
  PENSTOCK_ASSIGN_OR_RETURN(const double global,
                            config.GetNumberOr("global_rope_theta", 160000.0, 1, 1e12));
  PENSTOCK_ASSIGN_OR_RETURN(const double local,
                            config.GetNumberOr("local_rope_theta", 10000.0, 1, 1e12));
  PENSTOCK_ASSIGN_OR_RETURN(const JsonObject scaling, config.GetObjectOrEmpty("rope_scaling"));
  float scaled_theta = 0;
  PENSTOCK_RETURN_IF_ERROR(ReadRopeParameters(scaling, 0.0, &scaled_theta));
  PENSTOCK_ASSIGN_OR_RETURN(const JsonObject rope, config.GetObjectOrEmpty("rope_parameters"));
  PENSTOCK_ASSIGN_OR_RETURN(const JsonObject full, rope.GetObjectOrEmpty("full_attention"));
  PENSTOCK_ASSIGN_OR_RETURN(const JsonObject sliding, rope.GetObjectOrEmpty("sliding_attention"));
  PENSTOCK_RETURN_IF_ERROR(ReadRopeParameters(full, global, &out->rope_theta));
  PENSTOCK_RETURN_IF_ERROR(ReadRopeParameters(sliding, local, &out->rope_theta_local));
  if (rope.Has("rope_theta") || rope.Has("rope_type")) {
    return Status::Unsupported(
        "'rope_parameters' of modernbert must name full_attention and sliding_attention",
        "rope_parameters");
  }
  if (scaled_theta > 0) out->rope_theta = out->rope_theta_local = scaled_theta;
  return Status::Ok();
}

Status ReadModernBert(const JsonObject& config, EncoderConfig* out) {
  PENSTOCK_RETURN_IF_ERROR(ReadSizes(config, kModernBert, out));
  out->type_vocab_size = 0;
  PENSTOCK_RETURN_IF_ERROR(RefusePositionsOtherThan(config, {"rotary", "absolute"}));
  PENSTOCK_RETURN_IF_ERROR(ReadFloat(config, {"norm_eps"}, 1e-5, 0, 1, &out->layer_norm_eps));
  PENSTOCK_RETURN_IF_ERROR(ReadActivation(config, "hidden_activation", "gelu", &out->hidden_act));
  PENSTOCK_ASSIGN_OR_RETURN(out->norm_bias, config.GetBoolOr("norm_bias", false));
  PENSTOCK_ASSIGN_OR_RETURN(out->qkv_bias, config.GetBoolOr("attention_bias", false));
  out->attention_out_bias = out->qkv_bias;
  PENSTOCK_ASSIGN_OR_RETURN(out->mlp_bias, config.GetBoolOr("mlp_bias", false));
  PENSTOCK_RETURN_IF_ERROR(
      ReadInt(config, {"local_attention"}, 128, 1, kEncoderPositionsMax, &out->local_attention));
  PENSTOCK_RETURN_IF_ERROR(ReadLayerTypes(config, out));
  PENSTOCK_RETURN_IF_ERROR(ReadModernRope(config, out));
  PENSTOCK_ASSIGN_OR_RETURN(out->classifier_pooling,
                            config.GetStringOr("classifier_pooling", "cls"));
  if (out->classifier_pooling != "cls" && out->classifier_pooling != "mean") {
    return Status::Unsupported(
        "'classifier_pooling': '" + Shown(out->classifier_pooling) + "' is not supported",
        "classifier_pooling");
  }
  PENSTOCK_ASSIGN_OR_RETURN(out->classifier_bias, config.GetBoolOr("classifier_bias", false));
  return ReadActivation(config, "classifier_activation", "gelu", &out->classifier_activation);
}

// ---- Heads

// id2label {"0": "a", "1": "b"}, by number; the keys must be 0, 1, ... in some order.
Status ReadIdToLabel(const JsonObject& config, std::vector<std::string>* labels) {
  PENSTOCK_ASSIGN_OR_RETURN(const auto by_id, config.GetStringMapOrEmpty("id2label"));
  if (by_id.size() > static_cast<size_t>(kEncoderLabelsMax)) {
    return Status::InvalidArgument(
        "'id2label' has more than " + std::to_string(kEncoderLabelsMax) + " labels", "id2label");
  }
  labels->resize(by_id.size());
  for (size_t i = 0; i < by_id.size(); ++i) {
    const auto found = by_id.find(std::to_string(i));
    if (found == by_id.end()) {
      return Status::InvalidArgument("'id2label' has " + std::to_string(by_id.size()) +
                                         " labels but none for id " + std::to_string(i),
                                     "id2label");
    }
    (*labels)[i] = found->second;
  }
  return Status::Ok();
}

Status ReadLabels(const JsonObject& config, EncoderConfig* out) {
  PENSTOCK_RETURN_IF_ERROR(ReadIdToLabel(config, &out->labels));
  const auto named = static_cast<int32_t>(out->labels.size());
  PENSTOCK_RETURN_IF_ERROR(ReadInt(config, {"num_labels"}, named > 0 ? named : 2, 1,
                                   kEncoderLabelsMax, &out->num_labels));
  if (named > 0 && named != out->num_labels) {
    return Status::InvalidArgument("'num_labels' is " + std::to_string(out->num_labels) +
                                       ", 'id2label' has " + std::to_string(named) + " labels",
                                   "num_labels");
  }
  for (int32_t i = named; i < out->num_labels; ++i) {
    out->labels.push_back("LABEL_" + std::to_string(i));
  }
  PENSTOCK_ASSIGN_OR_RETURN(out->problem_type, config.GetStringOr("problem_type", ""));
  return Status::Ok();
}

Status ReadCrossEncoderActivation(const JsonObject& config, EncoderConfig* out) {
  PENSTOCK_ASSIGN_OR_RETURN(const JsonObject newer,
                            config.GetObjectOrEmpty("sentence_transformers"));
  PENSTOCK_ASSIGN_OR_RETURN(std::string name, newer.GetStringOr("activation_fn", ""));
  if (name.empty()) {
    PENSTOCK_ASSIGN_OR_RETURN(name, config.GetStringOr("sbert_ce_default_activation_function", ""));
  }
  if (name.empty()) return Status::Ok();
  PENSTOCK_ASSIGN_OR_RETURN(out->cross_encoder_activation, CrossEncoderActivationNamed(name));
  return Status::Ok();
}

// Refuses settings that would change the numbers in any architecture.
Status RefuseCommon(const JsonObject& config) {
  return RefuseIfSet(config, {"is_decoder", "add_cross_attention", "is_encoder_decoder",
                              "quantization_config", "pruned_heads"});
}

struct Architecture {
  std::string_view model_type;
  Status (*read)(const JsonObject&, EncoderConfig*);
};

constexpr std::array kArchitectures = {
    Architecture{"bert", ReadBert},
    Architecture{"camembert", ReadXlmRoberta},
    Architecture{"distilbert", ReadDistilBert},
    Architecture{"modernbert", ReadModernBert},
    Architecture{"mpnet", ReadMpNet},
    Architecture{"nomic_bert", ReadNomic},
    Architecture{"roberta", ReadRoberta},
    Architecture{"xlm-roberta", ReadXlmRoberta},
};

}  // namespace

std::string EncoderModelTypes() {
  std::string names;
  for (const Architecture& a : kArchitectures) {
    names += (names.empty() ? "" : ", ") + std::string(a.model_type);
  }
  return names;
}

bool IsEncoderModelType(std::string_view model_type) {
  return std::any_of(kArchitectures.begin(), kArchitectures.end(),
                     [&](const Architecture& a) { return a.model_type == model_type; });
}

Expected<std::string> CrossEncoderActivationNamed(const std::string& name) {
  if (name == "torch.nn.modules.activation.Sigmoid" || name == "torch.nn.Sigmoid") {
    return std::string("sigmoid");
  }
  if (name == "torch.nn.modules.linear.Identity" || name == "torch.nn.Identity") {
    return std::string("identity");
  }
  return Status::Unsupported("'activation_fn': '" + Shown(name) + "' is not supported",
                             "activation_fn");
}

int32_t PositionsUsable(const EncoderConfig& encoder) {
  // RoBERTa and its kin number positions from padding_idx + 1; MPNet's padding_idx is always 1.
  const std::string& type = encoder.model_type;
  if (type == "mpnet") return encoder.max_position_embeddings - 2;
  if (type == "roberta" || type == "xlm-roberta" || type == "camembert") {
    return encoder.max_position_embeddings - encoder.pad_token_id - 1;
  }
  return encoder.max_position_embeddings;
}

Expected<EncoderConfig> ReadEncoderConfig(const JsonObject& config) {
  EncoderConfig out;
  PENSTOCK_ASSIGN_OR_RETURN(out.model_type, config.GetString("model_type"));
  PENSTOCK_ASSIGN_OR_RETURN(out.architectures, config.GetStringsOrEmpty("architectures", 64));
  const auto known =
      std::find_if(kArchitectures.begin(), kArchitectures.end(),
                   [&](const Architecture& a) { return a.model_type == out.model_type; });
  if (known == kArchitectures.end()) {
    return Status::Unsupported("'model_type': '" + Shown(out.model_type) +
                                   "' is not supported; supported are " + EncoderModelTypes(),
                               "model_type");
  }
  PENSTOCK_RETURN_IF_ERROR(RefuseCommon(config));
  PENSTOCK_RETURN_IF_ERROR(known->read(config, &out));
  if (PositionsUsable(out) < 1) {
    return Status::InvalidArgument("'max_position_embeddings' leaves no position for a token",
                                   "max_position_embeddings");
  }
  PENSTOCK_RETURN_IF_ERROR(ReadClassifier(config, &out));
  return out;
}

Status ReadClassifier(const JsonObject& config, EncoderConfig* out) {
  if (out->architectures.empty() || !out->architectures[0].ends_with(kClassifierSuffix)) {
    return Status::Ok();
  }
  PENSTOCK_RETURN_IF_ERROR(ReadLabels(config, out));
  return ReadCrossEncoderActivation(config, out);
}

}  // namespace penstock

#include "families/config_reader.h"

#include <algorithm>

#include "base/printable.h"
#include "families/encoder_json.h"
#include "families/list.h"

namespace penstock::families {
namespace {

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

}  // namespace

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
  const EncoderFamily* const family = EncoderOfModelType(encoder.model_type);
  if (family == nullptr || family->architecture.position_scheme != PositionScheme::kPadded) {
    return encoder.max_position_embeddings;
  }
  const int fixed = family->architecture.position_padding;
  return encoder.max_position_embeddings - (fixed >= 0 ? fixed : encoder.pad_token_id) - 1;
}

Expected<EncoderConfig> ReadEncoderConfig(const JsonObject& config) {
  EncoderConfig out;
  PENSTOCK_ASSIGN_OR_RETURN(out.model_type, config.GetString("model_type"));
  PENSTOCK_ASSIGN_OR_RETURN(out.architectures, config.GetStringsOrEmpty("architectures", 64));
  const EncoderFamily* const family = EncoderOfModelType(out.model_type);
  if (family == nullptr) {
    return Status::Unsupported("'model_type': '" + Shown(out.model_type) +
                                   "' is not supported; supported are " + EncoderModelTypes(),
                               "model_type");
  }
  PENSTOCK_RETURN_IF_ERROR(RefuseCommon(config));
  PENSTOCK_RETURN_IF_ERROR(family->read_json(config, &out));
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

}  // namespace penstock::families

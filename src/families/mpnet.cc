// MPNet: BERT without token types, with a bias by distance in the attention.
#include "families/bert.h"
#include "families/encoder_json.h"

namespace penstock::families {
namespace {

constexpr EncoderArchitecture MpnetArchitecture() {
  EncoderArchitecture out = BertArchitecture("mpnet.");
  out.types = "";
  out.query = "attention.attn.q";
  out.key = "attention.attn.k";
  out.value = "attention.attn.v";
  out.attention_out = "attention.attn.o";
  out.attention_norm = "attention.LayerNorm";
  out.relative_bias = "encoder.relative_attention_bias";
  out.position_scheme = PositionScheme::kPadded;
  out.position_padding = 1;
  out.head = {.dense = "classifier.dense",
              .activation = HiddenActivation::kTanh,
              .classifier = "classifier.out_proj"};
  return out;
}

Status ReadMpNet(const JsonObject& config, EncoderConfig* out) {
  PENSTOCK_RETURN_IF_ERROR(ReadBertLike(config, {.vocab_size = 30527, .pad = 1}, out));
  out->type_vocab_size = 0;
  return ReadInt(config, {"relative_attention_num_buckets"}, 32, 2, 1 << 16,
                 &out->relative_attention_num_buckets);
}

}  // namespace

extern constexpr EncoderFamily kMpnet = {
    .model_type = "mpnet", .read_json = ReadMpNet, .architecture = MpnetArchitecture()};

}  // namespace penstock::families

// DistilBERT: BERT without token types, under other names.
#include "families/encoder_family.h"
#include "families/encoder_json.h"

namespace penstock::families {
namespace {

// sinusoidal_pos_embds changes how the position table was made; the file holds it either way.
Status ReadDistilBert(const JsonObject& config, EncoderConfig* out) {
  PENSTOCK_RETURN_IF_ERROR(ReadEncoderSizes(config, {.vocab_size = 30522, .layers = 6}, out));
  PENSTOCK_RETURN_IF_ERROR(RefuseEncoderPositions(config, {"absolute"}));
  out->type_vocab_size = 0;
  out->layer_norm_eps = 1e-12f;  // fixed in the reference implementation
  return ReadActivation(config, "activation", "gelu", &out->hidden_act);
}

}  // namespace

extern constexpr EncoderFamily kDistilbert = {
    .model_type = "distilbert",
    .read_json = ReadDistilBert,
    .architecture = {.prefix = "distilbert.",
                     .words = "embeddings.word_embeddings",
                     .positions = "embeddings.position_embeddings",
                     .embed_norm = "embeddings.LayerNorm",
                     .layer = "transformer.layer.",
                     .query = "attention.q_lin",
                     .key = "attention.k_lin",
                     .value = "attention.v_lin",
                     .attention_out = "attention.out_lin",
                     .attention_norm = "sa_layer_norm",
                     .ff_in = "ffn.lin1",
                     .ff_out = "ffn.lin2",
                     .ff_norm = "output_layer_norm",
                     .head = {.dense = "pre_classifier",
                              .activation = HiddenActivation::kRelu,
                              .classifier = "classifier"}},
};

}  // namespace penstock::families

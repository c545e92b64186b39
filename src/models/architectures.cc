#include "models/architectures.h"

#include <array>

namespace penstock {
namespace {

// Names as transformers writes them (modeling_bert.py and its kin); NomicBERT as the published
// nomic-embed-text checkpoints have them.
constexpr Architecture Bert(std::string_view model_type, std::string_view prefix) {
  return {.model_type = model_type,
          .prefix = prefix,
          .words = "embeddings.word_embeddings",
          .positions = "embeddings.position_embeddings",
          .types = "embeddings.token_type_embeddings",
          .embed_norm = "embeddings.LayerNorm",
          .layer = "encoder.layer.",
          .query = "attention.self.query",
          .key = "attention.self.key",
          .value = "attention.self.value",
          .attention_out = "attention.output.dense",
          .attention_norm = "attention.output.LayerNorm",
          .ff_in = "intermediate.dense",
          .ff_out = "output.dense",
          .ff_norm = "output.LayerNorm",
          .head = {.dense = "pooler.dense",
                   .activation = HiddenActivation::kTanh,
                   .classifier = "classifier"}};
}

constexpr Architecture Roberta(std::string_view model_type) {
  Architecture out = Bert(model_type, "roberta.");
  out.position_scheme = PositionScheme::kPadded;
  out.head = {.dense = "classifier.dense",
              .activation = HiddenActivation::kTanh,
              .classifier = "classifier.out_proj"};
  return out;
}

constexpr Architecture Distilbert() {
  return {.model_type = "distilbert",
          .prefix = "distilbert.",
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
                   .classifier = "classifier"}};
}

constexpr Architecture Mpnet() {
  Architecture out = Bert("mpnet", "mpnet.");
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

constexpr Architecture NomicBert() {
  return {.model_type = "nomic_bert",
          .prefix = "nomic_bert.",
          .words = "embeddings.word_embeddings",
          .types = "embeddings.token_type_embeddings",
          .embed_norm = "emb_ln",
          .layer = "encoder.layers.",
          .qkv = "attn.Wqkv",
          .attention_out = "attn.out_proj",
          .attention_norm = "norm1",
          .ff_in = "mlp.fc11",
          .ff_gate = "mlp.fc12",
          .ff_out = "mlp.fc2",
          .ff_norm = "norm2",
          .position_scheme = PositionScheme::kNone,
          .gated = true,
          .head = {}};  // no published checkpoint classifies: refused
}

constexpr Architecture ModernBert() {
  return {.model_type = "modernbert",
          .prefix = "model.",
          .words = "embeddings.tok_embeddings",
          .embed_norm = "embeddings.norm",
          .layer = "layers.",
          .qkv = "attn.Wqkv",
          .attention_out = "attn.Wo",
          .attention_norm = "attn_norm",
          .ff_in = "mlp.Wi",
          .ff_out = "mlp.Wo",
          .ff_norm = "mlp_norm",
          .final_norm = "final_norm",
          .position_scheme = PositionScheme::kNone,
          .pre_norm = true,
          .gated = true,
          .first_norm_absent = true,
          .head = {.dense = "head.dense",
                   .config_activation = true,
                   .norm = "head.norm",
                   .classifier = "classifier"}};
}

constexpr std::array kArchitectures = {
    Bert("bert", "bert."), Distilbert(), Roberta("roberta"), Roberta("xlm-roberta"),
    Roberta("camembert"),  Mpnet(),      NomicBert(),        ModernBert(),
};

}  // namespace

const Architecture* FindArchitecture(std::string_view model_type) {
  for (const Architecture& architecture : kArchitectures) {
    if (architecture.model_type == model_type) return &architecture;
  }
  return nullptr;
}

std::string_view ArchitectureNames() {
  return "bert, distilbert, roberta, xlm-roberta, camembert, mpnet, nomic_bert, modernbert";
}

}  // namespace penstock

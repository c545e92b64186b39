#include "models/decoder_program.h"

#include "models/activations.h"

namespace penstock::models {

program::Program DecoderProgram(const families::DecoderConfig& config,
                                const DecoderWeights& weights, families::DecoderUse use) {
  program::Program program;
  program.max_length = weights.context;
  program.rope_switch = weights.rope_switch;
  const program::PackedLinear* output =
      weights.untied_output == nullptr ? weights.embedding.get() : weights.untied_output.get();
  const program::ValueId x = program.AddValue(program::Rows::kTokens, config.hidden_size);
  const program::ValueId attended =
      program.AddValue(program::Rows::kTokens, config.heads * config.head_size);
  const bool states = use == families::DecoderUse::kEmbed;
  program.result =
      program.AddValue(program::Rows::kSequences, states ? config.hidden_size : output->out());

  program.ops.push_back(
      program::EmbedOp{.matrix = weights.embedding.get(), .scale = config.embedding_scale, .y = x});
  for (size_t i = 0; i < weights.layers.size(); ++i) {
    const DecoderLayer& layer = weights.layers[i];
    program::AttentionShape shape;
    shape.layer = static_cast<int32_t>(i);
    shape.heads = config.heads;
    shape.kv_heads = config.kv_heads;
    shape.head_size = config.head_size;
    shape.scale = config.attention_scale;
    shape.soft_cap = config.attention_soft_cap;
    shape.window = layer.window;
    shape.causal = config.causal;
    shape.rope_cos = layer.rope_cos;
    shape.rope_sin = layer.rope_sin;
    shape.long_rope_cos = layer.long_rope_cos;
    shape.long_rope_sin = layer.long_rope_sin;
    shape.rope_size = config.rope_size;
    shape.rope_interleaved = config.rope_interleaved;
    shape.q_norm = layer.q_norm;
    shape.k_norm = layer.k_norm;
    const auto residual = [&](const program::Norm& norm) {
      return program::Residual{.value = x, .norm = norm, .scale = config.residual_scale};
    };
    program.ops.push_back(program::AttentionOp{.x = x,
                                               .norm = layer.attention_norm,
                                               .q = layer.q.get(),
                                               .k = layer.k.get(),
                                               .v = layer.v.get(),
                                               .shape = shape,
                                               .y = attended});
    program.ops.push_back(program::LinearOp{.x = attended,
                                            .weight = layer.attention_out.get(),
                                            .residual = residual(layer.post_attention_norm),
                                            .y = x});
    program.ops.push_back(program::FeedForwardOp{.x = x,
                                                 .norm = layer.ff_norm,
                                                 .in = layer.gate.get(),
                                                 .activation = ToActivation(config.activation),
                                                 .up = layer.up.get(),
                                                 .out = layer.down.get(),
                                                 .residual = residual(layer.post_ff_norm),
                                                 .y = x});
  }
  program::PicksOp picks{.x = x, .norm = weights.output_norm, .y = program.result};
  if (!states) {
    picks.weight = output;
    picks.scale = config.logit_scale;
    picks.soft_cap = config.logit_soft_cap;
  }
  program.ops.push_back(picks);
  return program;
}

}  // namespace penstock::models

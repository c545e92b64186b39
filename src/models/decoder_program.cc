#include "models/decoder_program.h"

#include "models/activations.h"

namespace penstock {

Program DecoderProgram(const DecoderConfig& config, const DecoderWeights& weights, DecoderUse use) {
  Program program;
  program.max_length = weights.context;
  program.rope_switch = weights.rope_switch;
  const PackedLinear* output =
      weights.untied_output == nullptr ? weights.embedding.get() : weights.untied_output.get();
  const ValueId x = program.AddValue(Rows::kTokens, config.hidden_size);
  const ValueId attended = program.AddValue(Rows::kTokens, config.heads * config.head_size);
  const bool states = use == DecoderUse::kEmbed;
  program.result = program.AddValue(Rows::kSequences, states ? config.hidden_size : output->out());

  program.ops.push_back(LookupOp{weights.embedding.get(), config.embedding_scale, x});
  for (size_t i = 0; i < weights.layers.size(); ++i) {
    const DecoderLayer& layer = weights.layers[i];
    CachedAttentionShape shape;
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
    program.ops.push_back(CachedAttentionOp{x, layer.attention_norm, layer.q.get(), layer.k.get(),
                                            layer.v.get(), shape, attended});
    program.ops.push_back(ResidualLinearOp{attended, layer.attention_out.get(),
                                           layer.post_attention_norm, config.residual_scale, x, x});
    program.ops.push_back(GatedResidualOp{x, layer.ff_norm, layer.gate.get(), layer.up.get(),
                                          ToActivation(config.activation), layer.down.get(),
                                          layer.post_ff_norm, config.residual_scale, x, x});
  }
  if (states) {
    program.ops.push_back(StatesOp{x, weights.output_norm, program.result});
    return program;
  }
  program.ops.push_back(LogitsOp{x, weights.output_norm, output, config.logit_scale,
                                 config.logit_soft_cap, program.result});
  return program;
}

}  // namespace penstock

#include "models/encoder_program.h"

#include <cmath>

namespace penstock::models {
namespace {

program::Pick PickOf(program::Pooling pooling) {
  if (pooling == program::Pooling::kCls) return program::Pick::kFirst;
  return pooling == program::Pooling::kLastToken ? program::Pick::kLast : program::Pick::kAll;
}

// The values a layer works on, of rows of tokens or of sequences. In pre-norm models x is the
// residual stream and `normed` its norm; else both are x.
struct LayerValues {
  program::ValueId x;
  program::ValueId normed;
  program::ValueId context;  // attention's output
};

class Builder {
 public:
  Builder(const EncoderWeights& weights, int32_t max_length) : weights_(weights) {
    program_.max_length = max_length;
    tokens_ = NewValues(program::Rows::kTokens);
  }

  program::ValueId x() const { return tokens_.x; }

  void Embed() {
    program_.ops.push_back(program::EmbedOp{.words = weights_.words,
                                            .positions = weights_.positions,
                                            .types = weights_.types,
                                            .position_padding = weights_.position_padding,
                                            .norm = weights_.embed_norm,
                                            .y = tokens_.x});
  }
  void Input() { program_.ops.push_back(program::InputOp{tokens_.x}); }

  // norm(x), or x itself if there is no norm.
  program::ValueId Normed(const program::Norm& norm) {
    if (norm.gamma == nullptr) return tokens_.x;
    if (tokens_.normed == tokens_.x)
      tokens_.normed = program_.AddValue(program::Rows::kTokens, Hidden());
    program_.ops.push_back(program::NormOp{tokens_.x, norm, tokens_.normed});
    return tokens_.normed;
  }
  // The input of the layer's attention, if x has not been normed yet.
  program::ValueId AttentionInput(const EncoderLayer& layer) {
    return pre_norm() ? Normed(layer.attention_norm) : tokens_.x;
  }

  // Attention over `input`, for all tokens or for one of each sequence. Returns the values that the
  // rest of the layer works on.
  LayerValues Attention(const EncoderLayer& layer, program::ValueId input, program::Pick queries) {
    if (tokens_.context == program::kNoValue) {
      qkv_ = program_.AddValue(program::Rows::kTokens, 3 * Hidden());
      tokens_.context = program_.AddValue(program::Rows::kTokens, Hidden());
    }
    program_.ops.push_back(program::LinearOp{.x = input, .weight = layer.qkv.get(), .y = qkv_});
    LayerValues values = tokens_;
    if (queries != program::Pick::kAll) {
      values = NewValues(program::Rows::kSequences);
      values.context = program_.AddValue(program::Rows::kSequences, Hidden());
    }
    program_.ops.push_back(program::AttentionOp{
        .x = qkv_, .shape = Shape(layer), .queries = queries, .y = values.context});
    if (queries != program::Pick::kAll) {
      const program::Pooling pooling =
          queries == program::Pick::kFirst ? program::Pooling::kCls : program::Pooling::kLastToken;
      program_.ops.push_back(program::PoolOp{tokens_.x, pooling, 0, values.x});
    }
    return values;
  }

  // x = x + attention_out(context); returns `norm` of it. Post-norm models have only the norm.
  program::ValueId AddAttention(const EncoderLayer& layer, const LayerValues& values,
                                const program::Norm& norm) {
    program_.ops.push_back(program::LinearOp{.x = values.context,
                                             .weight = layer.attention_out.get(),
                                             .residual = AddTo(values, norm),
                                             .y = values.normed});
    return values.normed;
  }
  // x = x + feed_forward(input); returns `norm` of it.
  program::ValueId AddFeedForward(const EncoderLayer& layer, const LayerValues& values,
                                  program::ValueId input, const program::Norm& norm) {
    program_.ops.push_back(program::FeedForwardOp{.x = input,
                                                  .in = layer.ff_in.get(),
                                                  .activation = weights_.activation,
                                                  .up = layer.ff_gate.get(),
                                                  .out = layer.ff_out.get(),
                                                  .residual = AddTo(values, norm),
                                                  .y = values.normed});
    return values.normed;
  }

  // All layers. `last`: the tokens wanted of the last one. Returns its result.
  program::ValueId Layers(program::Pick last) {
    const std::vector<EncoderLayer>& layers = weights_.layers;
    program::ValueId input = layers.empty() ? tokens_.x : AttentionInput(layers[0]);
    for (size_t i = 0; i < layers.size(); ++i) {
      const EncoderLayer& layer = layers[i];
      const bool is_last = i + 1 == layers.size();
      const LayerValues values = Attention(layer, input, is_last ? last : program::Pick::kAll);
      // Each sum takes the norm of its next reader.
      input = AddAttention(layer, values, pre_norm() ? layer.ff_norm : layer.attention_norm);
      const program::Norm& next = is_last ? weights_.final_norm : layers[i + 1].attention_norm;
      input = AddFeedForward(layer, values, input, pre_norm() ? next : layer.ff_norm);
    }
    return input;
  }

  program::ValueId Pool(program::ValueId x, const std::vector<program::Pooling>& poolings) {
    const program::ValueId pooled = program_.AddValue(
        program::Rows::kSequences, Hidden() * static_cast<int32_t>(poolings.size()));
    int32_t column = 0;
    for (const program::Pooling pooling : poolings) {
      program_.ops.push_back(program::PoolOp{x, pooling, column, pooled});
      column += Hidden();
    }
    return pooled;
  }

  program::ValueId Dense(program::ValueId x, const std::vector<DenseStep>& steps) {
    for (const DenseStep& step : steps) {
      const program::ValueId y = program_.AddValue(program::Rows::kSequences, step.linear->out());
      program_.ops.push_back(program::LinearOp{
          .x = x, .weight = step.linear.get(), .activation = step.activation, .y = y});
      if (step.norm.gamma != nullptr) program_.ops.push_back(program::NormOp{y, step.norm, y});
      x = y;
    }
    return x;
  }

  LayerValues& tokens() { return tokens_; }
  program::Program Finish(program::ValueId result) {
    program_.result = result;
    return std::move(program_);
  }

 private:
  // Heads alone have no architecture.
  bool pre_norm() const {
    return weights_.architecture != nullptr && weights_.architecture->pre_norm;
  }
  int32_t Hidden() const { return weights_.hidden; }

  // Values without a context.
  LayerValues NewValues(program::Rows rows) {
    LayerValues values;
    values.x = program_.AddValue(rows, Hidden());
    values.normed = pre_norm() ? program_.AddValue(rows, Hidden()) : values.x;
    values.context = program::kNoValue;
    return values;
  }

  // x += a result; the layer's next input is `norm` of the sum.
  static program::Residual AddTo(const LayerValues& values, const program::Norm& norm) {
    return {.value = values.x,
            .after = norm,
            .sum = values.normed != values.x ? values.x : program::kNoValue};
  }

  program::AttentionShape Shape(const EncoderLayer& layer) const {
    program::AttentionShape shape;
    shape.heads = shape.kv_heads = weights_.heads;
    shape.head_size = weights_.hidden / weights_.heads;
    shape.scale = 1.0f / std::sqrt(static_cast<float>(shape.head_size));
    shape.dtype = layer.qkv->dtype();
    shape.rope_cos = layer.rope_cos;
    shape.rope_sin = layer.rope_sin;
    shape.rope_size = weights_.rope_size;
    shape.rope_interleaved = weights_.rope_interleaved;
    shape.relative_bias = weights_.relative_bias;
    // The layer counts the keys on each side.
    shape.window = layer.window > 0 ? layer.window + 1 : 0;
    return shape;
  }

  const EncoderWeights& weights_;
  program::Program program_;
  LayerValues tokens_;
  program::ValueId qkv_ = program::kNoValue;
};

}  // namespace

program::Program EncoderProgram(const EncoderWeights& weights, program::EncoderOutput output) {
  Builder builder(weights, weights.max_tokens);
  builder.Embed();
  if (output == program::EncoderOutput::kTokens)
    return builder.Finish(builder.Layers(program::Pick::kAll));
  const bool logits = output == program::EncoderOutput::kLogits;
  const std::vector<program::Pooling> poolings =
      logits ? std::vector<program::Pooling>{weights.head_pooling} : weights.pooling;
  const bool one_token = poolings.size() == 1 && !weights.layers.empty();
  const program::Pick pick = one_token ? PickOf(poolings[0]) : program::Pick::kAll;
  program::ValueId rows = builder.Layers(pick);
  if (pick == program::Pick::kAll) rows = builder.Pool(rows, poolings);
  return builder.Finish(builder.Dense(rows, logits ? weights.head : weights.dense));
}

program::Program HeadProgram(const EncoderWeights& weights, program::EncoderOutput output,
                             int32_t max_length) {
  Builder builder(weights, max_length);
  builder.Input();
  const bool logits = output == program::EncoderOutput::kLogits;
  const program::ValueId rows = builder.Pool(
      builder.x(), logits ? std::vector<program::Pooling>{weights.head_pooling} : weights.pooling);
  return builder.Finish(builder.Dense(rows, logits ? weights.head : weights.dense));
}

program::Program EmbeddingProgram(const EncoderWeights& weights, int32_t max_length) {
  Builder builder(weights, max_length);
  builder.Embed();
  return builder.Finish(builder.x());
}

program::Program NormProgram(const EncoderWeights& weights, const program::Norm& norm,
                             int32_t max_length) {
  Builder builder(weights, max_length);
  builder.Input();
  return builder.Finish(builder.Normed(norm));
}

// The sum alone is wanted in pre-norm models: x takes it, and no norm follows.
program::Program AttentionProgram(const EncoderWeights& weights, const EncoderLayer& layer,
                                  int32_t max_length) {
  Builder builder(weights, max_length);
  builder.Input();
  LayerValues values = builder.Attention(layer, builder.AttentionInput(layer), program::Pick::kAll);
  values.normed = values.x;
  const bool pre_norm = weights.architecture->pre_norm;
  return builder.Finish(
      builder.AddAttention(layer, values, pre_norm ? program::Norm() : layer.attention_norm));
}

program::Program FeedForwardProgram(const EncoderWeights& weights, const EncoderLayer& layer,
                                    int32_t max_length) {
  Builder builder(weights, max_length);
  builder.Input();
  const bool pre_norm = weights.architecture->pre_norm;
  const program::ValueId input = pre_norm ? builder.Normed(layer.ff_norm) : builder.x();
  LayerValues values = builder.tokens();
  values.normed = values.x;
  return builder.Finish(
      builder.AddFeedForward(layer, values, input, pre_norm ? program::Norm() : layer.ff_norm));
}

}  // namespace penstock::models

#include "models/encoder_program.h"

#include <cmath>

namespace penstock {
namespace {

Pick PickOf(Pooling pooling) {
  if (pooling == Pooling::kCls) return Pick::kFirst;
  return pooling == Pooling::kLastToken ? Pick::kLast : Pick::kAll;
}

// The values a layer works on, of rows of tokens or of sequences. In pre-norm models x is the
// residual stream and `normed` its norm; else both are x.
struct LayerValues {
  ValueId x;
  ValueId normed;
  ValueId context;  // attention's output
};

class Builder {
 public:
  Builder(const EncoderWeights& weights, int32_t max_length) : weights_(weights) {
    program_.max_length = max_length;
    tokens_ = NewValues(Rows::kTokens);
  }

  ValueId x() const { return tokens_.x; }

  void Embed() {
    program_.ops.push_back(EmbedOp{.words = weights_.words,
                                   .positions = weights_.positions,
                                   .types = weights_.types,
                                   .position_padding = weights_.position_padding,
                                   .norm = weights_.embed_norm,
                                   .y = tokens_.x});
  }
  void Input() { program_.ops.push_back(InputOp{tokens_.x}); }

  // norm(x), or x itself if there is no norm.
  ValueId Normed(const Norm& norm) {
    if (norm.gamma == nullptr) return tokens_.x;
    if (tokens_.normed == tokens_.x) tokens_.normed = program_.AddValue(Rows::kTokens, Hidden());
    program_.ops.push_back(NormOp{tokens_.x, norm, tokens_.normed});
    return tokens_.normed;
  }
  // The input of the layer's attention, if x has not been normed yet.
  ValueId AttentionInput(const EncoderLayer& layer) {
    return pre_norm() ? Normed(layer.attention_norm) : tokens_.x;
  }

  // Attention over `input`, for all tokens or for one of each sequence. Returns the values that the
  // rest of the layer works on.
  LayerValues Attention(const EncoderLayer& layer, ValueId input, Pick queries) {
    if (tokens_.context == kNoValue) {
      qkv_ = program_.AddValue(Rows::kTokens, 3 * Hidden());
      tokens_.context = program_.AddValue(Rows::kTokens, Hidden());
    }
    program_.ops.push_back(LinearOp{.x = input, .weight = layer.qkv.get(), .y = qkv_});
    LayerValues values = tokens_;
    if (queries != Pick::kAll) {
      values = NewValues(Rows::kSequences);
      values.context = program_.AddValue(Rows::kSequences, Hidden());
    }
    program_.ops.push_back(
        AttentionOp{.x = qkv_, .shape = Shape(layer), .queries = queries, .y = values.context});
    if (queries != Pick::kAll) {
      const Pooling pooling = queries == Pick::kFirst ? Pooling::kCls : Pooling::kLastToken;
      program_.ops.push_back(PoolOp{tokens_.x, pooling, 0, values.x});
    }
    return values;
  }

  // x = x + attention_out(context); returns `norm` of it. Post-norm models have only the norm.
  ValueId AddAttention(const EncoderLayer& layer, const LayerValues& values, const Norm& norm) {
    program_.ops.push_back(LinearOp{.x = values.context,
                                    .weight = layer.attention_out.get(),
                                    .residual = AddTo(values, norm),
                                    .y = values.normed});
    return values.normed;
  }
  // x = x + feed_forward(input); returns `norm` of it.
  ValueId AddFeedForward(const EncoderLayer& layer, const LayerValues& values, ValueId input,
                         const Norm& norm) {
    program_.ops.push_back(FeedForwardOp{.x = input,
                                         .in = layer.ff_in.get(),
                                         .activation = weights_.activation,
                                         .up = layer.ff_gate.get(),
                                         .out = layer.ff_out.get(),
                                         .residual = AddTo(values, norm),
                                         .y = values.normed});
    return values.normed;
  }

  // All layers. `last`: the tokens wanted of the last one. Returns its result.
  ValueId Layers(Pick last) {
    const std::vector<EncoderLayer>& layers = weights_.layers;
    ValueId input = layers.empty() ? tokens_.x : AttentionInput(layers[0]);
    for (size_t i = 0; i < layers.size(); ++i) {
      const EncoderLayer& layer = layers[i];
      const bool is_last = i + 1 == layers.size();
      const LayerValues values = Attention(layer, input, is_last ? last : Pick::kAll);
      // Each sum takes the norm of its next reader.
      input = AddAttention(layer, values, pre_norm() ? layer.ff_norm : layer.attention_norm);
      const Norm& next = is_last ? weights_.final_norm : layers[i + 1].attention_norm;
      input = AddFeedForward(layer, values, input, pre_norm() ? next : layer.ff_norm);
    }
    return input;
  }

  ValueId Pool(ValueId x, const std::vector<Pooling>& poolings) {
    const ValueId pooled =
        program_.AddValue(Rows::kSequences, Hidden() * static_cast<int32_t>(poolings.size()));
    int32_t column = 0;
    for (const Pooling pooling : poolings) {
      program_.ops.push_back(PoolOp{x, pooling, column, pooled});
      column += Hidden();
    }
    return pooled;
  }

  ValueId Dense(ValueId x, const std::vector<DenseStep>& steps) {
    for (const DenseStep& step : steps) {
      const ValueId y = program_.AddValue(Rows::kSequences, step.linear->out());
      program_.ops.push_back(
          LinearOp{.x = x, .weight = step.linear.get(), .activation = step.activation, .y = y});
      if (step.norm.gamma != nullptr) program_.ops.push_back(NormOp{y, step.norm, y});
      x = y;
    }
    return x;
  }

  LayerValues& tokens() { return tokens_; }
  Program Finish(ValueId result) {
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
  LayerValues NewValues(Rows rows) {
    LayerValues values;
    values.x = program_.AddValue(rows, Hidden());
    values.normed = pre_norm() ? program_.AddValue(rows, Hidden()) : values.x;
    values.context = kNoValue;
    return values;
  }

  // x += a result; the layer's next input is `norm` of the sum.
  static Residual AddTo(const LayerValues& values, const Norm& norm) {
    return {
        .value = values.x, .after = norm, .sum = values.normed != values.x ? values.x : kNoValue};
  }

  AttentionShape Shape(const EncoderLayer& layer) const {
    AttentionShape shape;
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
  Program program_;
  LayerValues tokens_;
  ValueId qkv_ = kNoValue;
};

}  // namespace

Program EncoderProgram(const EncoderWeights& weights, EncoderOutput output) {
  Builder builder(weights, weights.max_tokens);
  builder.Embed();
  if (output == EncoderOutput::kTokens) return builder.Finish(builder.Layers(Pick::kAll));
  const bool logits = output == EncoderOutput::kLogits;
  const std::vector<Pooling> poolings =
      logits ? std::vector<Pooling>{weights.head_pooling} : weights.pooling;
  const bool one_token = poolings.size() == 1 && !weights.layers.empty();
  const Pick pick = one_token ? PickOf(poolings[0]) : Pick::kAll;
  ValueId rows = builder.Layers(pick);
  if (pick == Pick::kAll) rows = builder.Pool(rows, poolings);
  return builder.Finish(builder.Dense(rows, logits ? weights.head : weights.dense));
}

Program HeadProgram(const EncoderWeights& weights, EncoderOutput output, int32_t max_length) {
  Builder builder(weights, max_length);
  builder.Input();
  const bool logits = output == EncoderOutput::kLogits;
  const ValueId rows = builder.Pool(
      builder.x(), logits ? std::vector<Pooling>{weights.head_pooling} : weights.pooling);
  return builder.Finish(builder.Dense(rows, logits ? weights.head : weights.dense));
}

Program EmbeddingProgram(const EncoderWeights& weights, int32_t max_length) {
  Builder builder(weights, max_length);
  builder.Embed();
  return builder.Finish(builder.x());
}

Program NormProgram(const EncoderWeights& weights, const Norm& norm, int32_t max_length) {
  Builder builder(weights, max_length);
  builder.Input();
  return builder.Finish(builder.Normed(norm));
}

// The sum alone is wanted in pre-norm models: x takes it, and no norm follows.
Program AttentionProgram(const EncoderWeights& weights, const EncoderLayer& layer,
                         int32_t max_length) {
  Builder builder(weights, max_length);
  builder.Input();
  LayerValues values = builder.Attention(layer, builder.AttentionInput(layer), Pick::kAll);
  values.normed = values.x;
  const bool pre_norm = weights.architecture->pre_norm;
  return builder.Finish(
      builder.AddAttention(layer, values, pre_norm ? Norm() : layer.attention_norm));
}

Program FeedForwardProgram(const EncoderWeights& weights, const EncoderLayer& layer,
                           int32_t max_length) {
  Builder builder(weights, max_length);
  builder.Input();
  const bool pre_norm = weights.architecture->pre_norm;
  const ValueId input = pre_norm ? builder.Normed(layer.ff_norm) : builder.x();
  LayerValues values = builder.tokens();
  values.normed = values.x;
  return builder.Finish(
      builder.AddFeedForward(layer, values, input, pre_norm ? Norm() : layer.ff_norm));
}

}  // namespace penstock

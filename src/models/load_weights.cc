#include "models/load_weights.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>

#include "families/gguf_encoder.h"
#include "families/list.h"
#include "models/activations.h"
#include "models/calibration.h"
#include "models/weight_reader.h"

namespace penstock::models {
namespace {

// Distances at and beyond which MPNet's bucket no longer changes (91, see RelativeBucket).
constexpr int32_t kBiasReach = 96;
constexpr int32_t kRelativeBuckets = 32;

program::Pooling ToPooling(families::PoolingMode mode) {
  switch (mode) {
    case families::PoolingMode::kCls:
      return program::Pooling::kCls;
    case families::PoolingMode::kMean:
      return program::Pooling::kMean;
    case families::PoolingMode::kMax:
      return program::Pooling::kMax;
    case families::PoolingMode::kLastToken:
      return program::Pooling::kLastToken;
    case families::PoolingMode::kMeanSqrtLen:
      return program::Pooling::kMeanSqrtLen;
    case families::PoolingMode::kWeightedMean:
      return program::Pooling::kWeightedMean;
  }
  return program::Pooling::kMean;
}

// cos or sin of position * theta^(-2i / size), as [positions, size / 2].
const program::Table* MakeRope(WeightReader* reader, int32_t positions, int32_t size, float theta,
                               double (*wave)(double)) {
  const size_t half = static_cast<size_t>(size) / 2;
  std::vector<double> frequencies(half);
  for (size_t i = 0; i < half; ++i) {
    frequencies[i] = std::pow(static_cast<double>(theta), -2.0 * static_cast<double>(i) / size);
  }
  return reader->Keep(
      positions, static_cast<int32_t>(half), [&](int64_t first, std::span<float> rows) {
        for (size_t i = 0; i < rows.size(); ++i) {
          const int64_t position = first + static_cast<int64_t>(i / half);
          rows[i] = static_cast<float>(wave(static_cast<double>(position) * frequencies[i % half]));
        }
      });
}
double Cosine(double x) { return std::cos(x); }
double Sine(double x) { return std::sin(x); }

// Refuses tables that are too large, before memory is asked for.
Status CheckTableBytes(const std::string& what, int64_t tokens, uint64_t bytes,
                       uint64_t bytes_max) {
  if (bytes <= bytes_max) return Status::Ok();
  return {StatusCode::kPayloadTooLarge,
          "inputs of " + std::to_string(tokens) + " tokens need " + what + " of " +
              std::to_string(bytes) + " bytes; at most " + std::to_string(bytes_max) +
              " are allowed: lower max_position_embeddings, or max_seq_length in "
              "sentence_bert_config.json",
          "max_position_embeddings"};
}

// The rows of the learned table that inputs can reach.
Status LoadPositions(const families::ModelFolder& folder, WeightReader* reader,
                     EncoderWeights* out) {
  PENSTOCK_ASSIGN_OR_RETURN(
      const program::TensorView table,
      reader->View(std::string(out->architecture->positions) + ".weight", {-1, out->hidden}));
  const int64_t rows = int64_t{folder.max_tokens} + out->position_padding + 1;
  if (rows > table.rows) {
    return Status::InvalidArgument("inputs of " + std::to_string(folder.max_tokens) +
                                       " tokens need more than the position table's " +
                                       std::to_string(table.rows) + " rows",
                                   "max_position_embeddings");
  }
  PENSTOCK_RETURN_IF_ERROR(CheckTableBytes(
      "a table of positions", folder.max_tokens,
      static_cast<uint64_t>(rows) * static_cast<uint64_t>(out->hidden) * sizeof(float),
      kPositionBytesMax));
  out->positions = reader->Keep(table.Rows(0, rows));
  return Status::Ok();
}

Status LoadEmbeddings(const families::ModelFolder& folder, WeightReader* reader,
                      EncoderWeights* out) {
  const families::EncoderArchitecture& arch = *out->architecture;
  const families::EncoderConfig& config = folder.encoder;
  PENSTOCK_ASSIGN_OR_RETURN(
      out->words, reader->ReadTable(std::string(arch.words) + ".weight", {-1, out->hidden}));
  if (out->words->rows() < config.vocab_size) {
    return Status::InvalidArgument("the word table has " + std::to_string(out->words->rows()) +
                                       " rows, vocab_size is " + std::to_string(config.vocab_size),
                                   "vocab_size");
  }
  if (arch.position_scheme == families::PositionScheme::kPadded) {
    out->position_padding =
        arch.position_padding >= 0 ? arch.position_padding : config.pad_token_id;
  }
  if (!arch.positions.empty()) PENSTOCK_RETURN_IF_ERROR(LoadPositions(folder, reader, out));
  if (!arch.types.empty() && config.type_vocab_size > 0) {
    PENSTOCK_ASSIGN_OR_RETURN(out->types, reader->ReadTable(std::string(arch.types) + ".weight",
                                                            {config.type_vocab_size, out->hidden}));
  }
  PENSTOCK_ASSIGN_OR_RETURN(out->embed_norm, reader->ReadNorm(std::string(arch.embed_norm),
                                                              out->hidden, config.layer_norm_eps));
  return Status::Ok();
}

// Rotary tables, for local layers and the others.
struct RopeTables {
  const program::Table *cos = nullptr, *sin = nullptr, *local_cos = nullptr, *local_sin = nullptr;
};

Expected<RopeTables> MakeRopes(const families::ModelFolder& folder, WeightReader* reader,
                               EncoderWeights* out) {
  const families::EncoderConfig& config = folder.encoder;
  const int32_t head_size = out->hidden / out->heads;
  RopeTables ropes;
  if (config.rope_theta <= 0) return ropes;
  out->rope_size =
      static_cast<int32_t>(static_cast<float>(head_size) * config.rope_fraction) / 2 * 2;
  if (out->rope_size == 0) return ropes;
  out->rope_interleaved = config.rope_interleaved;
  const bool has_local = config.local_attention > 0 && config.rope_theta_local > 0 &&
                         config.rope_theta_local != config.rope_theta;
  const uint64_t pair = static_cast<uint64_t>(folder.max_tokens) *
                        static_cast<uint64_t>(out->rope_size) * sizeof(float);
  PENSTOCK_RETURN_IF_ERROR(CheckTableBytes("rotary tables", folder.max_tokens,
                                           has_local ? 2 * pair : pair, kRopeBytesMax));
  const auto make = [&](float theta, double (*wave)(double)) {
    return MakeRope(reader, folder.max_tokens, out->rope_size, theta, wave);
  };
  ropes.cos = make(config.rope_theta, Cosine);
  ropes.sin = make(config.rope_theta, Sine);
  ropes.local_cos = has_local ? make(config.rope_theta_local, Cosine) : ropes.cos;
  ropes.local_sin = has_local ? make(config.rope_theta_local, Sine) : ropes.sin;
  return ropes;
}

// Reads and packs the layers, one after the other.
class LayerLoader {
 public:
  LayerLoader(const families::ModelFolder& folder, const LinearTypes& types,
              const RopeTables& ropes, WeightReader* reader, EncoderWeights* out)
      : folder_(folder),
        types_(types),
        arch_(*out->architecture),
        reader_(reader),
        out_(out),
        ropes_(ropes) {
    // Decided by the main type: overrides are higher types, which need no calibration.
    if (types.dtype == numbers::DType::kI8) calibration_.emplace(*out, folder.max_tokens);
  }

  Status Begin() { return calibration_ ? calibration_->Start() : Status::Ok(); }

  Status Load(int32_t index) {
    base_ = std::string(arch_.layer) + std::to_string(index) + ".";
    index_ = index;
    EncoderLayer layer;
    Wire(&layer);
    PENSTOCK_RETURN_IF_ERROR(LoadNorms(&layer));
    PENSTOCK_RETURN_IF_ERROR(LoadAttention(&layer));
    PENSTOCK_RETURN_IF_ERROR(LoadFeedForward(&layer));
    if (calibration_) PENSTOCK_RETURN_IF_ERROR(calibration_->EndLayer(layer));
    out_->layers.push_back(std::move(layer));
    return Status::Ok();
  }

 private:
  std::string Name(std::string_view part) const { return base_ + std::string(part); }
  numbers::DType Type(LinearKind linear) const {
    return types_.Of(index_, folder_.encoder.num_hidden_layers, linear);
  }

  // Attention's window and rotary tables. Local layers: all but every n-th, counted from 0.
  void Wire(EncoderLayer* layer) const {
    const families::EncoderConfig& config = folder_.encoder;
    const bool local =
        config.local_attention > 0 && index_ % std::max(1, config.global_attn_every_n_layers) != 0;
    layer->rope_cos = local ? ropes_.local_cos : ropes_.cos;
    layer->rope_sin = local ? ropes_.local_sin : ropes_.sin;
    layer->window = local ? std::max(1, config.local_attention / 2) : 0;
  }

  Status LoadNorms(EncoderLayer* layer) {
    const float epsilon = folder_.encoder.layer_norm_eps;
    if (!(index_ == 0 && arch_.first_norm_absent)) {
      PENSTOCK_ASSIGN_OR_RETURN(layer->attention_norm, reader_->ReadNorm(Name(arch_.attention_norm),
                                                                         out_->hidden, epsilon));
    }
    PENSTOCK_ASSIGN_OR_RETURN(layer->ff_norm,
                              reader_->ReadNorm(Name(arch_.ff_norm), out_->hidden, epsilon));
    return Status::Ok();
  }

  Status LoadAttention(EncoderLayer* layer) {
    const int32_t hidden = out_->hidden;
    const numbers::DType type = Type(LinearKind::kQkv);
    std::vector<std::string> names = {Name(arch_.qkv)};
    if (arch_.qkv.empty()) names = {Name(arch_.query), Name(arch_.key), Name(arch_.value)};
    PENSTOCK_ASSIGN_OR_RETURN(
        const std::vector<program::LinearRows> qkv,
        reader_->Linears(names, 3 * hidden / static_cast<int32_t>(names.size()), hidden));
    std::vector<float> factors;
    if (calibration_ && type == numbers::DType::kI8) {
      PENSTOCK_ASSIGN_OR_RETURN(const std::vector<float> maxima,
                                calibration_->AttentionMaxima(*layer));
      factors = ColumnFactors(maxima, qkv);
    }
    PENSTOCK_ASSIGN_OR_RETURN(layer->qkv, reader_->Pack(qkv, type, factors));
    PENSTOCK_ASSIGN_OR_RETURN(layer->attention_out,
                              reader_->Linear(Name(arch_.attention_out), hidden, hidden,
                                              Type(LinearKind::kAttentionOut)));
    return Status::Ok();
  }

  Status LoadFeedForward(EncoderLayer* layer) {
    const int32_t hidden = out_->hidden;
    const files::TensorRecord* ff_out = reader_->Find(Name(arch_.ff_out) + ".weight");
    int32_t width = folder_.encoder.intermediate_size;
    if (arch_.ff_width_in_file && ff_out != nullptr && ff_out->shape.size() == 2) {
      width = static_cast<int32_t>(ff_out->shape[1]);
    }
    const numbers::DType type = Type(LinearKind::kFfIn);
    // Gated: the activated part's rows first.
    std::vector<std::string> names = {Name(arch_.ff_in)};
    if (!arch_.ff_gate.empty()) names.insert(names.begin(), Name(arch_.ff_gate));
    const int32_t rows = arch_.gated ? 2 * width : width;
    PENSTOCK_ASSIGN_OR_RETURN(
        const std::vector<program::LinearRows> in,
        reader_->Linears(names, rows / static_cast<int32_t>(names.size()), hidden));
    std::vector<float> factors;
    if (calibration_) PENSTOCK_RETURN_IF_ERROR(calibration_->EndAttention(*layer));
    if (calibration_ && type == numbers::DType::kI8) {
      PENSTOCK_ASSIGN_OR_RETURN(const std::vector<float> maxima,
                                calibration_->FeedForwardMaxima(*layer));
      factors = ColumnFactors(maxima, in);
    }
    PENSTOCK_ASSIGN_OR_RETURN(layer->ff_in, reader_->Pack(RowsOf(in, 0, width), type, factors));
    if (arch_.gated) {
      PENSTOCK_ASSIGN_OR_RETURN(layer->ff_gate,
                                reader_->Pack(RowsOf(in, width, width), type, factors));
    }
    PENSTOCK_ASSIGN_OR_RETURN(layer->ff_out, reader_->Linear(Name(arch_.ff_out), hidden, width,
                                                             Type(LinearKind::kFfOut)));
    return Status::Ok();
  }

  const families::ModelFolder& folder_;
  const LinearTypes& types_;
  const families::EncoderArchitecture& arch_;
  WeightReader* reader_;
  EncoderWeights* out_;
  RopeTables ropes_;
  std::optional<Calibration> calibration_;
  // Of the layer under way.
  int32_t index_ = 0;
  std::string base_;
};

Status LoadRelativeBias(const families::ModelFolder& folder, WeightReader* reader,
                        EncoderWeights* out) {
  const std::string name = std::string(out->architecture->relative_bias) + ".weight";
  if (folder.encoder.relative_attention_num_buckets != kRelativeBuckets) {
    return Status::Unsupported("'relative_attention_num_buckets': only 32 is supported",
                               "relative_attention_num_buckets");
  }
  PENSTOCK_ASSIGN_OR_RETURN(const program::TensorView view,
                            reader->View(name, {kRelativeBuckets, out->heads}));
  const size_t heads = static_cast<size_t>(out->heads);
  std::vector<float> table(kRelativeBuckets * heads);
  view.CopyToF32(0, kRelativeBuckets, table.data());
  constexpr size_t kWidth = 2 * kBiasReach + 1;
  out->relative_bias = reader->Keep(out->heads, kWidth, [&](int64_t first, std::span<float> rows) {
    for (size_t i = 0; i < rows.size(); ++i) {
      const size_t head = static_cast<size_t>(first) + i / kWidth;
      const int32_t distance = static_cast<int32_t>(i % kWidth) - kBiasReach;
      rows[i] = table[static_cast<size_t>(RelativeBucket(distance)) * heads + head];
    }
  });
  return Status::Ok();
}

Status LoadDenseModules(const families::ModelFolder& folder, EncoderWeights* out) {
  for (const families::DenseModule& module : folder.dense) {
    auto store = files::TensorStore::OpenFolder(folder.path + "/" + module.folder);
    if (!store.ok()) return store.status();
    WeightReader reader(**store, "", out);
    DenseStep step;
    step.activation = ToActivation(module.activation);
    PENSTOCK_ASSIGN_OR_RETURN(step.linear, reader.Linear("linear", module.out_features,
                                                         module.in_features, numbers::DType::kF32));
    out->dense.push_back(std::move(step));
    PENSTOCK_RETURN_IF_ERROR((*store)->Check());
  }
  const size_t pooled = out->pooling.size() * static_cast<size_t>(out->hidden);
  size_t width = pooled;
  for (const DenseStep& step : out->dense) {
    if (static_cast<size_t>(step.linear->in()) != width) {
      return Status::InvalidArgument("a dense module takes " + std::to_string(step.linear->in()) +
                                         " values and is given " + std::to_string(width),
                                     "in_features");
    }
    width = static_cast<size_t>(step.linear->out());
  }
  return Status::Ok();
}

Status LoadHead(const families::ModelFolder& folder, WeightReader* reader, EncoderWeights* out) {
  const families::HeadSpec& spec = out->architecture->head;
  if (spec.classifier.empty()) {
    return Status::Unsupported(
        "classification heads of " + folder.encoder.model_type + " are not supported",
        "architectures");
  }
  if (folder.encoder.classifier_pooling == "mean") out->head_pooling = program::Pooling::kMean;
  if (!spec.dense.empty()) {
    DenseStep step;
    step.activation = ToActivation(spec.config_activation ? folder.encoder.classifier_activation
                                                          : spec.activation);
    PENSTOCK_ASSIGN_OR_RETURN(step.linear, reader->Linear(std::string(spec.dense), out->hidden,
                                                          out->hidden, numbers::DType::kF32));
    if (!spec.norm.empty()) {
      PENSTOCK_ASSIGN_OR_RETURN(step.norm, reader->ReadNorm(std::string(spec.norm), out->hidden,
                                                            folder.encoder.layer_norm_eps));
    }
    out->head.push_back(std::move(step));
  }
  DenseStep classifier;
  PENSTOCK_ASSIGN_OR_RETURN(classifier.linear,
                            reader->Linear(std::string(spec.classifier), folder.encoder.num_labels,
                                           out->hidden, numbers::DType::kF32));
  out->head.push_back(std::move(classifier));
  return Status::Ok();
}

}  // namespace

Status LoadEmbeddingHead(const families::ModelFolder& folder, EncoderWeights* out) {
  out->pooling.push_back(ToPooling(folder.pooling));
  for (families::PoolingMode mode : folder.more_pooling) out->pooling.push_back(ToPooling(mode));
  return LoadDenseModules(folder, out);
}

int32_t RelativeBucket(int32_t distance) {
  constexpr int32_t kHalf = kRelativeBuckets / 2;
  constexpr int32_t kExact = kHalf / 2;
  const int64_t n = std::abs(distance);
  int64_t bucket = n;
  if (n >= kExact) {
    // 8 + floor(8 log(n / 8) / log(16)) = 8 + the largest k with n^2 >= 64 * 2^k, in integers.
    bucket = kExact;
    while (bucket < kHalf - 1 && n * n >= (int64_t{64} << (bucket + 1 - kExact))) ++bucket;
  }
  return static_cast<int32_t>(bucket) + (distance > 0 ? kHalf : 0);
}

Expected<std::unique_ptr<EncoderWeights>> LoadEncoderWeights(const families::ModelFolder& folder,
                                                             program::Backend* backend,
                                                             const LinearTypes& types) {
  auto out = std::make_unique<EncoderWeights>();
  const families::EncoderFamily* const family =
      families::EncoderOfModelType(folder.encoder.model_type);
  if (family == nullptr) {
    return Status::Unsupported("model_type '" + folder.encoder.model_type +
                                   "' is not supported; supported are " +
                                   families::EncoderModelTypes(),
                               "model_type");
  }
  out->architecture = &family->architecture;
  out->backend = backend;
  out->max_tokens = folder.max_tokens;
  out->hidden = folder.encoder.hidden_size;
  out->heads = folder.encoder.num_attention_heads;
  if (out->heads <= 0 || out->hidden % out->heads != 0) {
    return Status::InvalidArgument("hidden_size must be a multiple of num_attention_heads",
                                   "num_attention_heads");
  }
  out->activation = ToActivation(folder.encoder.hidden_act);
  auto store = families::OpenEncoderTensors(folder.path);
  if (!store.ok()) return store.status();
  WeightReader reader(**store, out->architecture->prefix, out.get());

  PENSTOCK_RETURN_IF_ERROR(types.Check(folder.encoder.num_hidden_layers));
  PENSTOCK_RETURN_IF_ERROR(LoadEmbeddings(folder, &reader, out.get()));
  if (!out->architecture->relative_bias.empty()) {
    PENSTOCK_RETURN_IF_ERROR(LoadRelativeBias(folder, &reader, out.get()));
  }
  {
    PENSTOCK_ASSIGN_OR_RETURN(const RopeTables ropes, MakeRopes(folder, &reader, out.get()));
    LayerLoader layers(folder, types, ropes, &reader, out.get());
    PENSTOCK_RETURN_IF_ERROR(layers.Begin());
    for (int32_t i = 0; i < folder.encoder.num_hidden_layers; ++i) {
      PENSTOCK_RETURN_IF_ERROR(layers.Load(i));
    }
  }
  if (!out->architecture->final_norm.empty()) {
    PENSTOCK_ASSIGN_OR_RETURN(
        out->final_norm, reader.ReadNorm(std::string(out->architecture->final_norm), out->hidden,
                                         folder.encoder.layer_norm_eps));
  }
  if (folder.task == families::ModelTask::kEmbedding) {
    PENSTOCK_RETURN_IF_ERROR(LoadEmbeddingHead(folder, out.get()));
  } else {
    PENSTOCK_RETURN_IF_ERROR(LoadHead(folder, &reader, out.get()));
  }
  PENSTOCK_RETURN_IF_ERROR((*store)->Check());
  return out;
}

}  // namespace penstock::models

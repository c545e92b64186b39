#include "models/weights.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>

#include "models/calibration.h"

namespace penstock {
namespace {

// Distances at and beyond which MPNet's bucket no longer changes (91, see RelativeBucket).
constexpr int32_t kBiasReach = 96;
constexpr int32_t kRelativeBuckets = 32;

Activation ToActivation(HiddenActivation activation) {
  switch (activation) {
    case HiddenActivation::kGelu:
      return Activation::kGelu;
    case HiddenActivation::kGeluTanh:
      return Activation::kGeluTanh;
    case HiddenActivation::kRelu:
      return Activation::kRelu;
    case HiddenActivation::kSilu:
      return Activation::kSilu;
    case HiddenActivation::kTanh:
      return Activation::kTanh;
    case HiddenActivation::kIdentity:
      return Activation::kNone;
  }
  return Activation::kNone;
}

Pooling ToPooling(PoolingMode mode) {
  switch (mode) {
    case PoolingMode::kCls:
      return Pooling::kCls;
    case PoolingMode::kMean:
      return Pooling::kMean;
    case PoolingMode::kMax:
      return Pooling::kMax;
    case PoolingMode::kLastToken:
      return Pooling::kLastToken;
    case PoolingMode::kMeanSqrtLen:
      return Pooling::kMeanSqrtLen;
    case PoolingMode::kWeightedMean:
      return Pooling::kWeightedMean;
  }
  return Pooling::kMean;
}

std::string ShapeText(const std::vector<int64_t>& shape) {
  std::string out = "[";
  for (size_t i = 0; i < shape.size(); ++i) out += (i ? ", " : "") + std::to_string(shape[i]);
  return out + "]";
}

// Linears as they are stored, in F32.
struct Matrix {
  std::vector<float> weight;  // [out, in]
  std::vector<float> bias;    // [out], or empty
  int32_t in = 0;
};

// Fetches tensors by name, in F32, with their shapes checked.
class WeightReader {
 public:
  WeightReader(const TensorStore& store, std::string_view prefix, EncoderWeights* out)
      : store_(store), prefix_(prefix), out_(out) {}

  const TensorRecord* Find(const std::string& name) const {
    if (const TensorRecord* record = store_.Find(std::string(prefix_) + name)) return record;
    return store_.Find(name);
  }

  // The tensor of that name and shape; -1 takes any length there.
  Expected<const TensorRecord*> Checked(const std::string& name,
                                        const std::vector<int64_t>& shape) const {
    const TensorRecord* record = Find(name);
    if (record == nullptr) {
      return Status::InvalidArgument("the weights have no tensor '" + name + "'", name);
    }
    bool fits = record->shape.size() == shape.size();
    for (size_t i = 0; fits && i < shape.size(); ++i) {
      fits = shape[i] == -1 ? record->shape[i] > 0 : record->shape[i] == shape[i];
    }
    if (!fits) {
      return Status::InvalidArgument("tensor '" + name + "' has shape " + ShapeText(record->shape) +
                                         ", the configuration asks for " + ShapeText(shape),
                                     name);
    }
    return record;
  }

  Expected<std::vector<float>> Read(const std::string& name, const std::vector<int64_t>& shape) {
    PENSTOCK_ASSIGN_OR_RETURN(const TensorRecord* record, Checked(name, shape));
    return Copied(name, *record);
  }

  // The first rows of a table; `record` has that many at least.
  Expected<std::vector<float>> ReadRows(const std::string& name, const TensorRecord& record,
                                        int64_t rows) {
    TensorRecord part = record;
    part.shape[0] = rows;
    part.data = part.data.first(static_cast<size_t>(part.elements()) * DTypeBytes(part.dtype));
    return Copied(name, part);
  }

  // Memory of the backend, to be filled.
  float* Alloc(size_t floats) {
    out_->buffers.push_back(out_->backend->Alloc(floats, BufferUse::kWeights));
    out_->bytes += floats * sizeof(float);
    return out_->buffers.back()->data();
  }

  // Puts values into the backend's memory.
  const float* Keep(const std::vector<float>& values) {
    float* const kept = Alloc(values.size());
    CopyIn(values, kept);
    return kept;
  }

  void CopyIn(std::span<const float> values, float* to) {
    out_->backend->CopyIn(values.data(), to, values.size());
  }

  // Rows of one or more Linears put on top of each other; all have a bias or none has.
  Expected<Matrix> Rows(const std::vector<std::string>& names, int32_t out_each, int32_t in) {
    Matrix matrix;
    matrix.in = in;
    const bool has_bias = Find(names[0] + ".bias") != nullptr;
    for (const std::string& name : names) {
      PENSTOCK_ASSIGN_OR_RETURN(const std::vector<float> part,
                                Read(name + ".weight", {out_each, in}));
      matrix.weight.insert(matrix.weight.end(), part.begin(), part.end());
      if ((Find(name + ".bias") != nullptr) != has_bias) {
        return Status::Unsupported("'" + name + ".bias': only some of " + names[0] +
                                   "'s group have one");
      }
      if (!has_bias) continue;
      PENSTOCK_ASSIGN_OR_RETURN(const std::vector<float> shift, Read(name + ".bias", {out_each}));
      matrix.bias.insert(matrix.bias.end(), shift.begin(), shift.end());
    }
    return matrix;
  }

  // `count` rows from `first` on. factors: [in], or empty.
  std::unique_ptr<PackedLinear> Pack(const Matrix& matrix, int32_t first, int32_t count,
                                     DType dtype, const std::vector<float>& factors) {
    const size_t row = static_cast<size_t>(first);
    auto packed =
        out_->backend->Pack(matrix.weight.data() + row * static_cast<size_t>(matrix.in),
                            matrix.bias.empty() ? nullptr : matrix.bias.data() + row, count,
                            matrix.in, dtype, factors.empty() ? nullptr : factors.data());
    out_->bytes += packed->bytes();
    return packed;
  }

  Expected<std::unique_ptr<PackedLinear>> Linear(const std::string& name, int32_t out, int32_t in,
                                                 DType dtype) {
    PENSTOCK_ASSIGN_OR_RETURN(const Matrix matrix, Rows({name}, out, in));
    return Pack(matrix, 0, out, dtype, {});
  }

  // Old checkpoints call the two parts gamma and beta.
  Expected<NormWeights> Norm(const std::string& name, int32_t width, float epsilon) {
    const bool old_names = Find(name + ".weight") == nullptr && Find(name + ".gamma") != nullptr;
    const std::string shift = name + (old_names ? ".beta" : ".bias");
    NormWeights norm;
    norm.epsilon = epsilon;
    PENSTOCK_ASSIGN_OR_RETURN(const std::vector<float> gamma,
                              Read(name + (old_names ? ".gamma" : ".weight"), {width}));
    norm.gamma = Keep(gamma);
    if (Find(shift) != nullptr) {
      PENSTOCK_ASSIGN_OR_RETURN(const std::vector<float> beta, Read(shift, {width}));
      norm.beta = Keep(beta);
    }
    return norm;
  }

 private:
  Expected<std::vector<float>> Copied(const std::string& name, const TensorRecord& record) {
    std::vector<float> values(static_cast<size_t>(record.elements()));
    PENSTOCK_RETURN_IF_ERROR(record.CopyToF32(values).Annotate("tensor '" + name + "'"));
    out_->parameters += values.size();
    return values;
  }

  const TensorStore& store_;
  std::string_view prefix_;
  EncoderWeights* out_;
};

// cos and sin of position * theta^(-2i / size), as [positions, size / 2] each. Made a block of
// positions at a time, so that memory holds the tables once.
void MakeRope(WeightReader* reader, int32_t positions, int32_t size, float theta,
              const float** cos_table, const float** sin_table) {
  constexpr size_t kBlock = 256;
  const size_t half = static_cast<size_t>(size) / 2;
  const auto rows = static_cast<size_t>(positions);
  std::vector<double> frequencies(half);
  for (size_t i = 0; i < half; ++i) {
    frequencies[i] = std::pow(static_cast<double>(theta), -2.0 * static_cast<double>(i) / size);
  }
  float* const cosines = reader->Alloc(rows * half);
  float* const sines = reader->Alloc(rows * half);
  std::vector<float> cos_block, sin_block;
  for (size_t first = 0; first < rows; first += kBlock) {
    const size_t end = std::min(rows, first + kBlock);
    cos_block.clear();
    sin_block.clear();
    for (size_t p = first; p < end; ++p) {
      for (const double frequency : frequencies) {
        cos_block.push_back(static_cast<float>(std::cos(static_cast<double>(p) * frequency)));
        sin_block.push_back(static_cast<float>(std::sin(static_cast<double>(p) * frequency)));
      }
    }
    reader->CopyIn(cos_block, cosines + first * half);
    reader->CopyIn(sin_block, sines + first * half);
  }
  *cos_table = cosines;
  *sin_table = sines;
}

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
Status LoadPositions(const ModelFolder& folder, WeightReader* reader, EncoderWeights* out) {
  const std::string name = std::string(out->architecture->positions) + ".weight";
  PENSTOCK_ASSIGN_OR_RETURN(const TensorRecord* record, reader->Checked(name, {-1, out->hidden}));
  const int64_t rows = int64_t{folder.max_tokens} + out->position_padding + 1;
  if (rows > record->shape[0]) {
    return Status::InvalidArgument("inputs of " + std::to_string(folder.max_tokens) +
                                       " tokens need more than the position table's " +
                                       std::to_string(record->shape[0]) + " rows",
                                   "max_position_embeddings");
  }
  PENSTOCK_RETURN_IF_ERROR(CheckTableBytes(
      "a table of positions", folder.max_tokens,
      static_cast<uint64_t>(rows) * static_cast<uint64_t>(out->hidden) * sizeof(float),
      EncoderWeights::kPositionBytesMax));
  PENSTOCK_ASSIGN_OR_RETURN(const std::vector<float> table, reader->ReadRows(name, *record, rows));
  out->positions = reader->Keep(table);
  out->position_rows = static_cast<int32_t>(rows);
  // Counted are those the file has.
  out->parameters += static_cast<uint64_t>(record->elements()) - table.size();
  return Status::Ok();
}

Status LoadEmbeddings(const ModelFolder& folder, WeightReader* reader, EncoderWeights* out) {
  const Architecture& arch = *out->architecture;
  const EncoderConfig& config = folder.encoder;
  PENSTOCK_ASSIGN_OR_RETURN(const std::vector<float> words,
                            reader->Read(std::string(arch.words) + ".weight", {-1, out->hidden}));
  out->words = reader->Keep(words);
  out->vocab = static_cast<int32_t>(words.size() / static_cast<size_t>(out->hidden));
  if (out->vocab < config.vocab_size) {
    return Status::InvalidArgument("the word table has " + std::to_string(out->vocab) +
                                       " rows, vocab_size is " + std::to_string(config.vocab_size),
                                   "vocab_size");
  }
  if (arch.position_scheme == PositionScheme::kPadded) {
    out->position_padding =
        arch.position_padding >= 0 ? arch.position_padding : config.pad_token_id;
  }
  if (!arch.positions.empty()) PENSTOCK_RETURN_IF_ERROR(LoadPositions(folder, reader, out));
  if (!arch.types.empty() && config.type_vocab_size > 0) {
    PENSTOCK_ASSIGN_OR_RETURN(
        const std::vector<float> rows,
        reader->Read(std::string(arch.types) + ".weight", {config.type_vocab_size, out->hidden}));
    out->types = reader->Keep(rows);
    out->type_rows = config.type_vocab_size;
  }
  PENSTOCK_ASSIGN_OR_RETURN(out->embed_norm, reader->Norm(std::string(arch.embed_norm), out->hidden,
                                                          config.layer_norm_eps));
  return Status::Ok();
}

// Rotary tables, for local layers and the others.
struct RopeTables {
  const float *cos = nullptr, *sin = nullptr, *local_cos = nullptr, *local_sin = nullptr;
};

Expected<RopeTables> MakeRopes(const ModelFolder& folder, WeightReader* reader,
                               EncoderWeights* out) {
  const EncoderConfig& config = folder.encoder;
  const int32_t head_size = out->hidden / out->heads;
  RopeTables ropes;
  if (config.rope_theta <= 0) return ropes;
  out->rope_size =
      static_cast<int32_t>(static_cast<float>(head_size) * config.rope_fraction) / 2 * 2;
  out->rope_interleaved = config.rope_interleaved;
  const bool has_local = config.local_attention > 0 && config.rope_theta_local > 0 &&
                         config.rope_theta_local != config.rope_theta;
  const uint64_t pair = static_cast<uint64_t>(folder.max_tokens) *
                        static_cast<uint64_t>(out->rope_size) * sizeof(float);
  PENSTOCK_RETURN_IF_ERROR(CheckTableBytes("rotary tables", folder.max_tokens,
                                           has_local ? 2 * pair : pair,
                                           EncoderWeights::kRopeBytesMax));
  MakeRope(reader, folder.max_tokens, out->rope_size, config.rope_theta, &ropes.cos, &ropes.sin);
  ropes.local_cos = ropes.cos;
  ropes.local_sin = ropes.sin;
  if (has_local) {
    MakeRope(reader, folder.max_tokens, out->rope_size, config.rope_theta_local, &ropes.local_cos,
             &ropes.local_sin);
  }
  return ropes;
}

// Reads and packs the layers, one after the other.
class LayerLoader {
 public:
  LayerLoader(const ModelFolder& folder, const ProductTypes& types, const RopeTables& ropes,
              WeightReader* reader, EncoderWeights* out)
      : folder_(folder),
        types_(types),
        arch_(*out->architecture),
        reader_(reader),
        out_(out),
        ropes_(ropes) {
    // Parts that are kept are kept because int8 is too coarse for them.
    if (types.dtype == DType::kI8) calibration_.emplace(*out, folder.max_tokens);
  }

  Status Load(int32_t index) {
    base_ = std::string(arch_.layer) + std::to_string(index) + ".";
    index_ = index;
    EncoderLayer layer;
    Wire(&layer);
    PENSTOCK_RETURN_IF_ERROR(LoadNorms(&layer));
    PENSTOCK_RETURN_IF_ERROR(LoadAttention(&layer));
    PENSTOCK_RETURN_IF_ERROR(LoadFeedForward(&layer));
    if (calibration_) calibration_->EndLayer(layer);
    out_->layers.push_back(std::move(layer));
    return Status::Ok();
  }

 private:
  std::string Name(std::string_view part) const { return base_ + std::string(part); }
  DType Type(Product product) const {
    return types_.Of(index_, folder_.encoder.num_hidden_layers, product);
  }

  // Attention's window and rotary tables. Local layers: all but every n-th, counted from 0.
  void Wire(EncoderLayer* layer) const {
    const EncoderConfig& config = folder_.encoder;
    const bool local =
        config.local_attention > 0 && index_ % std::max(1, config.global_attn_every_n_layers) != 0;
    layer->rope_cos = local ? ropes_.local_cos : ropes_.cos;
    layer->rope_sin = local ? ropes_.local_sin : ropes_.sin;
    layer->window = local ? std::max(1, config.local_attention / 2) : 0;
  }

  Status LoadNorms(EncoderLayer* layer) {
    const float epsilon = folder_.encoder.layer_norm_eps;
    if (!(index_ == 0 && arch_.first_norm_absent)) {
      PENSTOCK_ASSIGN_OR_RETURN(layer->attention_norm,
                                reader_->Norm(Name(arch_.attention_norm), out_->hidden, epsilon));
    }
    PENSTOCK_ASSIGN_OR_RETURN(layer->ff_norm,
                              reader_->Norm(Name(arch_.ff_norm), out_->hidden, epsilon));
    return Status::Ok();
  }

  Status LoadAttention(EncoderLayer* layer) {
    const int32_t hidden = out_->hidden;
    const DType type = Type(Product::kQkv);
    std::vector<std::string> names = {Name(arch_.qkv)};
    if (arch_.qkv.empty()) names = {Name(arch_.query), Name(arch_.key), Name(arch_.value)};
    PENSTOCK_ASSIGN_OR_RETURN(
        const Matrix qkv,
        reader_->Rows(names, 3 * hidden / static_cast<int32_t>(names.size()), hidden));
    std::vector<float> factors;
    if (calibration_) {
      const std::vector<float> maxima = calibration_->AttentionMaxima(*layer);
      if (type == DType::kI8) factors = ColumnFactors(maxima, qkv.weight);
    }
    layer->qkv = reader_->Pack(qkv, 0, 3 * hidden, type, factors);
    PENSTOCK_ASSIGN_OR_RETURN(
        layer->attention_out,
        reader_->Linear(Name(arch_.attention_out), hidden, hidden, Type(Product::kAttentionOut)));
    return Status::Ok();
  }

  Status LoadFeedForward(EncoderLayer* layer) {
    const int32_t hidden = out_->hidden;
    // NomicBERT rounds the width its configuration names up: the tensor decides.
    const TensorRecord* ff_out = reader_->Find(Name(arch_.ff_out) + ".weight");
    int32_t width = folder_.encoder.intermediate_size;
    if (arch_.model_type == "nomic_bert" && ff_out != nullptr && ff_out->shape.size() == 2) {
      width = static_cast<int32_t>(ff_out->shape[1]);
    }
    out_->intermediate = std::max(out_->intermediate, width);
    const DType type = Type(Product::kFfIn);
    // Gated: the activated part's rows first.
    std::vector<std::string> names = {Name(arch_.ff_in)};
    if (!arch_.ff_gate.empty()) names.insert(names.begin(), Name(arch_.ff_gate));
    const int32_t rows = arch_.gated ? 2 * width : width;
    PENSTOCK_ASSIGN_OR_RETURN(
        const Matrix in, reader_->Rows(names, rows / static_cast<int32_t>(names.size()), hidden));
    std::vector<float> factors;
    if (calibration_) {
      const std::vector<float> maxima = calibration_->FeedForwardMaxima(*layer);
      if (type == DType::kI8) factors = ColumnFactors(maxima, in.weight);
    }
    layer->ff_in = reader_->Pack(in, 0, width, type, factors);
    if (arch_.gated) layer->ff_gate = reader_->Pack(in, width, width, type, factors);
    PENSTOCK_ASSIGN_OR_RETURN(
        layer->ff_out, reader_->Linear(Name(arch_.ff_out), hidden, width, Type(Product::kFfOut)));
    return Status::Ok();
  }

  const ModelFolder& folder_;
  const ProductTypes& types_;
  const Architecture& arch_;
  WeightReader* reader_;
  EncoderWeights* out_;
  RopeTables ropes_;
  std::optional<Calibration> calibration_;
  // Of the layer under way.
  int32_t index_ = 0;
  std::string base_;
};

// Tells each product what is multiplied by after it.
void OrderProducts(EncoderWeights* out) {
  for (size_t i = 0; i < out->layers.size(); ++i) {
    EncoderLayer& layer = out->layers[i];
    layer.qkv->set_next(layer.attention_out.get());
    layer.attention_out->set_next(layer.ff_in.get());
    layer.ff_in->set_next(layer.ff_out.get());
    if (i + 1 < out->layers.size()) layer.ff_out->set_next(out->layers[i + 1].qkv.get());
  }
}

Status LoadRelativeBias(const ModelFolder& folder, WeightReader* reader, EncoderWeights* out) {
  const std::string name = std::string(out->architecture->relative_bias) + ".weight";
  if (folder.encoder.relative_attention_num_buckets != kRelativeBuckets) {
    return Status::Unsupported("'relative_attention_num_buckets': only 32 is supported",
                               "relative_attention_num_buckets");
  }
  PENSTOCK_ASSIGN_OR_RETURN(const std::vector<float> table,
                            reader->Read(name, {kRelativeBuckets, out->heads}));
  out->bias_reach = kBiasReach;
  const size_t width = 2 * kBiasReach + 1;
  const size_t heads = static_cast<size_t>(out->heads);
  std::vector<float> bias(heads * width);
  for (size_t h = 0; h < heads; ++h) {
    for (int32_t distance = -kBiasReach; distance <= kBiasReach; ++distance) {
      bias[h * width + static_cast<size_t>(distance + kBiasReach)] =
          table[static_cast<size_t>(RelativeBucket(distance)) * heads + h];
    }
  }
  out->relative_bias = reader->Keep(bias);
  return Status::Ok();
}

Status LoadDenseModules(const ModelFolder& folder, EncoderWeights* out) {
  for (const DenseModule& module : folder.dense) {
    auto store = TensorStore::OpenFolder(folder.path + "/" + module.folder);
    if (!store.ok()) return store.status();
    WeightReader reader(**store, "", out);
    DenseStep step;
    step.activation = ToActivation(module.activation);
    PENSTOCK_ASSIGN_OR_RETURN(
        step.linear, reader.Linear("linear", module.out_features, module.in_features, DType::kF32));
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

Status LoadHead(const ModelFolder& folder, WeightReader* reader, EncoderWeights* out) {
  const HeadSpec& spec = out->architecture->head;
  if (spec.classifier.empty()) {
    return Status::Unsupported(
        "classification heads of " + folder.encoder.model_type + " are not supported",
        "architectures");
  }
  if (folder.encoder.classifier_pooling == "mean") out->head_pooling = Pooling::kMean;
  if (!spec.dense.empty()) {
    DenseStep step;
    step.activation = ToActivation(spec.config_activation ? folder.encoder.classifier_activation
                                                          : spec.activation);
    PENSTOCK_ASSIGN_OR_RETURN(step.linear, reader->Linear(std::string(spec.dense), out->hidden,
                                                          out->hidden, DType::kF32));
    if (!spec.norm.empty()) {
      PENSTOCK_ASSIGN_OR_RETURN(step.norm, reader->Norm(std::string(spec.norm), out->hidden,
                                                        folder.encoder.layer_norm_eps));
    }
    out->head.push_back(std::move(step));
  }
  DenseStep classifier;
  PENSTOCK_ASSIGN_OR_RETURN(classifier.linear,
                            reader->Linear(std::string(spec.classifier), folder.encoder.num_labels,
                                           out->hidden, DType::kF32));
  out->head.push_back(std::move(classifier));
  return Status::Ok();
}

}  // namespace

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

Expected<std::unique_ptr<EncoderWeights>> LoadEncoderWeights(const ModelFolder& folder,
                                                             Backend* backend,
                                                             const ProductTypes& types) {
  auto out = std::make_unique<EncoderWeights>();
  out->architecture = FindArchitecture(folder.encoder.model_type);
  if (out->architecture == nullptr) {
    return Status::Unsupported("model_type '" + folder.encoder.model_type +
                                   "' is not supported; supported are " +
                                   std::string(ArchitectureNames()),
                               "model_type");
  }
  out->backend = backend;
  out->hidden = folder.encoder.hidden_size;
  out->heads = folder.encoder.num_attention_heads;
  if (out->heads <= 0 || out->hidden % out->heads != 0) {
    return Status::InvalidArgument("hidden_size must be a multiple of num_attention_heads",
                                   "num_attention_heads");
  }
  out->activation = ToActivation(folder.encoder.hidden_act);
  auto store = TensorStore::OpenFolder(folder.path);
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
    for (int32_t i = 0; i < folder.encoder.num_hidden_layers; ++i) {
      PENSTOCK_RETURN_IF_ERROR(layers.Load(i));
    }
  }
  OrderProducts(out.get());
  if (!out->architecture->final_norm.empty()) {
    PENSTOCK_ASSIGN_OR_RETURN(out->final_norm,
                              reader.Norm(std::string(out->architecture->final_norm), out->hidden,
                                          folder.encoder.layer_norm_eps));
  }
  if (folder.task == ModelTask::kEmbedding) {
    out->pooling.push_back(ToPooling(folder.pooling));
    for (PoolingMode mode : folder.more_pooling) out->pooling.push_back(ToPooling(mode));
    PENSTOCK_RETURN_IF_ERROR(LoadDenseModules(folder, out.get()));
  } else {
    PENSTOCK_RETURN_IF_ERROR(LoadHead(folder, &reader, out.get()));
  }
  PENSTOCK_RETURN_IF_ERROR((*store)->Check());
  return out;
}

}  // namespace penstock

// The tensors of a decoder by what they are for.
//
// Names: the modules of huggingface/transformers; the tensor names of gguf-py.
#include <cstring>
#include <string>
#include <string_view>
#include <unordered_set>

#include "families/decoder_readers.h"

namespace penstock::families {
namespace {

constexpr DecoderLayerNames kGgufNames = {
    .attention_norm = "attn_norm",
    .q = "attn_q",
    .k = "attn_k",
    .v = "attn_v",
    .qkv = "attn_qkv",
    .attention_out = "attn_output",
    .q_norm = "attn_q_norm",
    .k_norm = "attn_k_norm",
    .post_attention_norm = "post_attention_norm",
    .ff_norm = "ffn_norm",
    .gate = "ffn_gate",
    .up = "ffn_up",
    .gate_up = "ffn_up",
    .down = "ffn_down",
    .post_ff_norm = "post_ffw_norm",
};

// Where the text model lies: alone, or in a model with images, as older and newer files have it.
// Embedding models were saved without their head, and so without a prefix.
constexpr std::string_view kFolderPrefixes[] = {"model.", "language_model.model.",
                                                "model.language_model.", ""};
constexpr std::string_view kHeads[] = {"lm_head.weight", "language_model.lm_head.weight"};

std::string ShapeText(const std::vector<int64_t>& shape) {
  std::string out = "[";
  for (size_t i = 0; i < shape.size(); ++i) out += (i ? ", " : "") + std::to_string(shape[i]);
  return out + "]";
}

// Finds tensors by name, checks them, and remembers which were found.
class Finder {
 public:
  explicit Finder(const files::TensorStore& store) : store_(store) {}

  bool Has(const std::string& name) const { return store_.Find(name) != nullptr; }

  Status Take(const std::string& name, const std::vector<int64_t>& shape,
              files::TensorRecord* out) {
    const files::TensorRecord* found = store_.Find(name);
    if (found == nullptr) {
      return Status::InvalidArgument("the model has no tensor '" + name + "'", name);
    }
    if (found->shape != shape) {
      return Status::InvalidArgument("tensor '" + name + "' has shape " + ShapeText(found->shape) +
                                         ", the configuration asks for " + ShapeText(shape),
                                     name);
    }
    PENSTOCK_RETURN_IF_ERROR(found->CheckConvertible());
    if (used_.insert(found).second) parameters_ += found->elements();
    *out = *found;
    return Status::Ok();
  }

  Status TakeInto(const std::string& name, const std::vector<int64_t>& shape,
                  std::optional<files::TensorRecord>* out) {
    return Take(name, shape, &out->emplace());
  }

  // NAME.weight and, as `bias` says, NAME.bias.
  Status TakeLinear(const std::string& name, int64_t rows, int64_t columns, Bias bias,
                    DecoderLinear* out) {
    PENSTOCK_RETURN_IF_ERROR(Take(name + ".weight", {rows, columns}, &out->weight));
    const std::string bias_name = name + ".bias";
    if (bias == Bias::kNone || (bias == Bias::kIfThere && !Has(bias_name))) return Status::Ok();
    return TakeInto(bias_name, {rows}, &out->bias);
  }

  // Matrices that are stored as one, below each other.
  Status TakeFused(const std::string& name, const std::vector<int64_t>& rows, int64_t columns,
                   Bias bias, const std::vector<DecoderLinear*>& parts);

  // Of use though it is read elsewhere.
  void Use(const std::string& name) {
    if (const files::TensorRecord* found = store_.Find(name)) used_.insert(found);
  }

  int64_t parameters() const { return parameters_; }
  int64_t unused() const { return static_cast<int64_t>(store_.tensors().size() - used_.size()); }

 private:
  const files::TensorStore& store_;
  std::unordered_set<const files::TensorRecord*> used_;
  int64_t parameters_ = 0;
};

// Rows [first, first + count) of a tensor whose rows are whole blocks.
files::TensorRecord RowsOf(const files::TensorRecord& whole, int64_t first, int64_t count) {
  const size_t row_bytes = whole.data.size() / static_cast<size_t>(whole.shape[0]);
  files::TensorRecord rows = whole;
  rows.name += "[" + std::to_string(first) + ":" + std::to_string(first + count) + "]";
  rows.shape[0] = count;
  rows.data = whole.data.subspan(static_cast<size_t>(first) * row_bytes,
                                 static_cast<size_t>(count) * row_bytes);
  return rows;
}

Status Finder::TakeFused(const std::string& name, const std::vector<int64_t>& rows, int64_t columns,
                         Bias bias, const std::vector<DecoderLinear*>& parts) {
  int64_t all = 0;
  for (const int64_t count : rows) all += count;
  DecoderLinear whole;
  PENSTOCK_RETURN_IF_ERROR(TakeLinear(name, all, columns, bias, &whole));
  if (whole.bias && numbers::IsBlockType(whole.bias->dtype)) {
    return Status::Unsupported("tensor '" + whole.bias->name + "' is a vector of type " +
                                   numbers::DTypeName(whole.bias->dtype) +
                                   ", which cannot be divided",
                               whole.bias->name);
  }
  int64_t first = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    parts[i]->weight = RowsOf(whole.weight, first, rows[i]);
    if (whole.bias) parts[i]->bias = RowsOf(*whole.bias, first, rows[i]);
    first += rows[i];
  }
  return Status::Ok();
}

Status TakeAttention(const DecoderWiring& wiring, const DecoderConfig& config,
                     const DecoderLayerNames& names, const std::string& prefix, Finder* finder,
                     DecoderLayerTensors* layer) {
  const int64_t hidden = config.hidden_size;
  const int64_t q_rows = int64_t{config.heads} * config.head_size;
  const int64_t kv_rows = int64_t{config.kv_heads} * config.head_size;
  const auto name = [&](std::string_view part) { return prefix + std::string(part); };
  const bool in_one = wiring.gguf ? finder->Has(name(names.qkv) + ".weight") : !names.qkv.empty();
  if (in_one) {
    PENSTOCK_RETURN_IF_ERROR(finder->TakeFused(name(names.qkv), {q_rows, kv_rows, kv_rows}, hidden,
                                               wiring.qkv_bias, {&layer->q, &layer->k, &layer->v}));
  } else {
    const Bias bias = wiring.qkv_bias;
    PENSTOCK_RETURN_IF_ERROR(finder->TakeLinear(name(names.q), q_rows, hidden, bias, &layer->q));
    PENSTOCK_RETURN_IF_ERROR(finder->TakeLinear(name(names.k), kv_rows, hidden, bias, &layer->k));
    PENSTOCK_RETURN_IF_ERROR(finder->TakeLinear(name(names.v), kv_rows, hidden, bias, &layer->v));
  }
  if (!wiring.family->tensors.q_norm.empty()) {
    const std::vector<int64_t> shape = {config.head_size};
    PENSTOCK_RETURN_IF_ERROR(
        finder->TakeInto(name(names.q_norm) + ".weight", shape, &layer->q_norm));
    PENSTOCK_RETURN_IF_ERROR(
        finder->TakeInto(name(names.k_norm) + ".weight", shape, &layer->k_norm));
  }
  return finder->TakeLinear(name(names.attention_out), hidden, q_rows, wiring.attention_out_bias,
                            &layer->attention_out);
}

Status TakeFeedForward(const DecoderWiring& wiring, const DecoderConfig& config,
                       const DecoderLayerNames& names, const std::string& prefix, Finder* finder,
                       DecoderLayerTensors* layer) {
  const int64_t hidden = config.hidden_size, inner = config.intermediate_size;
  const auto name = [&](std::string_view part) { return prefix + std::string(part); };
  if (!wiring.family->tensors.gate_up.empty()) {
    PENSTOCK_RETURN_IF_ERROR(finder->TakeFused(name(names.gate_up), {inner, inner}, hidden,
                                               wiring.ff_bias, {&layer->gate, &layer->up}));
  } else {
    PENSTOCK_RETURN_IF_ERROR(
        finder->TakeLinear(name(names.gate), inner, hidden, wiring.ff_bias, &layer->gate));
    PENSTOCK_RETURN_IF_ERROR(
        finder->TakeLinear(name(names.up), inner, hidden, wiring.ff_bias, &layer->up));
  }
  return finder->TakeLinear(name(names.down), hidden, inner, wiring.ff_bias, &layer->down);
}

Status TakeLayer(const DecoderWiring& wiring, const DecoderConfig& config,
                 const DecoderLayerNames& names, const std::string& prefix, Finder* finder,
                 DecoderLayerTensors* layer) {
  const std::vector<int64_t> shape = {config.hidden_size};
  const auto name = [&](std::string_view part) { return prefix + std::string(part) + ".weight"; };
  PENSTOCK_RETURN_IF_ERROR(finder->Take(name(names.attention_norm), shape, &layer->attention_norm));
  PENSTOCK_RETURN_IF_ERROR(TakeAttention(wiring, config, names, prefix, finder, layer));
  PENSTOCK_RETURN_IF_ERROR(finder->Take(name(names.ff_norm), shape, &layer->ff_norm));
  if (!wiring.family->tensors.post_ff_norm.empty()) {
    PENSTOCK_RETURN_IF_ERROR(
        finder->TakeInto(name(names.post_attention_norm), shape, &layer->post_attention_norm));
    PENSTOCK_RETURN_IF_ERROR(
        finder->TakeInto(name(names.post_ff_norm), shape, &layer->post_ff_norm));
  }
  return TakeFeedForward(wiring, config, names, prefix, finder, layer);
}

// The output of a model that is tied by its configuration, and has both tensors all the same, as
// some writers leave it: the same bytes, or it is not clear which of the two is meant.
Status CheckTied(const files::TensorRecord& embedding, const files::TensorRecord& output) {
  if (embedding.dtype == output.dtype && embedding.shape == output.shape &&
      std::memcmp(embedding.data.data(), output.data.data(), embedding.data.size()) == 0) {
    return Status::Ok();
  }
  return Status::Unsupported("'tie_word_embeddings' is true, but tensor '" + output.name +
                                 "' differs from '" + embedding.name + "'",
                             "tie_word_embeddings");
}

Status TakeOutput(const DecoderWiring& wiring, const DecoderConfig& config, Finder* finder,
                  DecoderTensors* out) {
  const std::vector<int64_t> shape = {config.vocab_size, config.hidden_size};
  std::string name = wiring.gguf ? "output.weight" : std::string(kHeads[0]);
  if (!wiring.gguf && !finder->Has(name) && finder->Has(std::string(kHeads[1]))) name = kHeads[1];
  out->tied = wiring.tied || (wiring.use == DecoderUse::kEmbed && !finder->Has(name));
  if (!out->tied) {
    PENSTOCK_RETURN_IF_ERROR(finder->Take(name, shape, &out->output.weight));
  } else {
    if (finder->Has(name)) {
      files::TensorRecord second;
      PENSTOCK_RETURN_IF_ERROR(Finder(*finder).Take(name, shape, &second));
      PENSTOCK_RETURN_IF_ERROR(CheckTied(out->embedding, second));
    }
    out->output.weight = out->embedding;
  }
  if (!wiring.gguf || !finder->Has("output.bias")) return Status::Ok();
  return finder->TakeInto("output.bias", {config.vocab_size}, &out->output.bias);
}

}  // namespace

Status FindDecoderTensors(const DecoderWiring& wiring, DecoderFiles* files) {
  const DecoderConfig& config = files->config;
  DecoderTensors& out = files->tensors;
  Finder finder(*files->store);
  std::string root;  // of the text model
  if (!wiring.gguf) {
    root = kFolderPrefixes[0];
    for (const std::string_view prefix : kFolderPrefixes) {
      if (finder.Has(std::string(prefix) + "embed_tokens.weight")) root = prefix;
    }
  }
  const std::vector<int64_t> matrix = {config.vocab_size, config.hidden_size};
  PENSTOCK_RETURN_IF_ERROR(finder.Take(
      wiring.gguf ? "token_embd.weight" : root + "embed_tokens.weight", matrix, &out.embedding));
  PENSTOCK_RETURN_IF_ERROR(finder.Take(wiring.gguf ? "output_norm.weight" : root + "norm.weight",
                                       {config.hidden_size}, &out.output_norm));
  PENSTOCK_RETURN_IF_ERROR(TakeOutput(wiring, config, &finder, &out));
  const DecoderLayerNames& names = wiring.gguf ? kGgufNames : wiring.family->tensors;
  for (size_t i = 0; i < config.layers.size(); ++i) {
    const std::string prefix = (wiring.gguf ? "blk." : root + "layers.") + std::to_string(i) + ".";
    PENSTOCK_RETURN_IF_ERROR(
        TakeLayer(wiring, config, names, prefix, &finder, &out.layers.emplace_back()));
  }
  for (const char* name :
       {"rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight"}) {
    if (wiring.gguf) finder.Use(name);
  }
  files->parameters = finder.parameters();
  files->unused_tensors = finder.unused();
  return Status::Ok();
}

}  // namespace penstock::families

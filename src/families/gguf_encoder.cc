#include "families/gguf_encoder.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>
#include <vector>

#include "common/printable.h"
#include "families/config_reader.h"
#include "files/gguf.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

struct Renamed {
  std::string_view gguf, folder;
};

// Without ".weight" and ".bias"; those of layers without "blk.N.".
struct Names {
  std::string_view architecture;
  std::string_view layer;  // before the number
  std::array<Renamed, 4> outer;
  std::array<Renamed, 8> inner;
};

constexpr Names kTensorNames[] = {
    {"bert",
     "encoder.layer.",
     {{{"token_embd", "embeddings.word_embeddings"},
       {"position_embd", "embeddings.position_embeddings"},
       {"token_types", "embeddings.token_type_embeddings"},
       {"token_embd_norm", "embeddings.LayerNorm"}}},
     {{{"attn_q", "attention.self.query"},
       {"attn_k", "attention.self.key"},
       {"attn_v", "attention.self.value"},
       {"attn_output", "attention.output.dense"},
       {"attn_output_norm", "attention.output.LayerNorm"},
       {"ffn_up", "intermediate.dense"},
       {"ffn_down", "output.dense"},
       {"layer_output_norm", "output.LayerNorm"}}}},
    {"nomic-bert",
     "encoder.layers.",
     {{{"token_embd", "embeddings.word_embeddings"},
       {"token_types", "embeddings.token_type_embeddings"},
       {"token_embd_norm", "emb_ln"},
       {}}},
     {{{"attn_qkv", "attn.Wqkv"},
       {"attn_output", "attn.out_proj"},
       {"attn_output_norm", "norm1"},
       {"ffn_up", "mlp.fc11"},
       {"ffn_gate", "mlp.fc12"},
       {"ffn_down", "mlp.fc2"},
       {"layer_output_norm", "norm2"},
       {}}}},
};

const Names* NamesOf(std::string_view architecture) {
  const auto found =
      std::find_if(std::begin(kTensorNames), std::end(kTensorNames),
                   [&](const Names& names) { return names.architecture == architecture; });
  return found == std::end(kTensorNames) ? nullptr : found;
}

template <size_t kCount>
std::string_view Find(const std::array<Renamed, kCount>& list, std::string_view name) {
  for (const Renamed& renamed : list) {
    if (!renamed.gguf.empty() && renamed.gguf == name) return renamed.folder;
  }
  return {};
}

// Reads the keys of one architecture.
class KeyReader {
 public:
  KeyReader(const GgufModel& model, std::string_view architecture)
      : model_(model), prefix_(std::string(architecture) + ".") {}

  const GgufMetadata& metadata() const { return model_.metadata; }
  std::string Key(std::string_view name) const { return prefix_ + std::string(name); }

  Status Int(std::string_view name, int64_t max, int32_t* out) const {
    PENSTOCK_ASSIGN_OR_RETURN(const int64_t value, metadata().GetInt(Key(name), 1, max));
    *out = static_cast<int32_t>(value);
    return Status::Ok();
  }
  Status Float(std::string_view name, double absent, double min, double max, float* out) const {
    PENSTOCK_ASSIGN_OR_RETURN(const double value,
                              metadata().GetFloatOr(Key(name), absent, min, max));
    *out = static_cast<float>(value);
    return Status::Ok();
  }
  // Rows of a matrix; 0 where it is not there.
  int64_t RowsOf(std::string_view tensor) const {
    for (const TensorRecord& record : model_.tensors) {
      if (record.name == tensor && record.shape.size() == 2) return record.shape[0];
    }
    return 0;
  }

 private:
  const GgufModel& model_;
  std::string prefix_;
};

Status RefuseUnsupported(const KeyReader& keys) {
  PENSTOCK_ASSIGN_OR_RETURN(const bool causal,
                            keys.metadata().GetBoolOr(keys.Key("attention.causal"), false));
  if (causal) {
    return Status::Unsupported(
        "'" + keys.Key("attention.causal") + "' is true, which is not supported",
        keys.Key("attention.causal"));
  }
  const std::string scaling = keys.Key("rope.scaling.type");
  PENSTOCK_ASSIGN_OR_RETURN(const std::string_view type,
                            keys.metadata().GetStringOr(scaling, "none"));
  if (type != "none") {
    return Status::Unsupported("'" + scaling + "': '" + Shown(type) + "' is not supported",
                               scaling);
  }
  return Status::Ok();
}

// llama.cpp's numbers of ways to pool.
Status ReadPooling(const KeyReader& keys, ModelFolder* out) {
  const std::string key = keys.Key("pooling_type");
  PENSTOCK_ASSIGN_OR_RETURN(const int64_t type, keys.metadata().GetIntOr(key, 0, 0, 4));
  out->pooling_declared = type != 0;
  switch (type) {
    case 1:
      out->pooling = PoolingMode::kMean;
      break;
    case 2:
      out->pooling = PoolingMode::kCls;
      break;
    case 3:
      out->pooling = PoolingMode::kLastToken;
      break;
    case 4:
      return Status::Unsupported("'" + key + "' is 4: rerankers as GGUF files are not supported",
                                 key);
    default:
      break;
  }
  return Status::Ok();
}

Status ReadSizes(const KeyReader& keys, EncoderConfig* out) {
  PENSTOCK_RETURN_IF_ERROR(keys.Int("embedding_length", kEncoderHiddenMax, &out->hidden_size));
  PENSTOCK_RETURN_IF_ERROR(keys.Int("block_count", kEncoderLayersMax, &out->num_hidden_layers));
  PENSTOCK_RETURN_IF_ERROR(
      keys.Int("attention.head_count", kEncoderHeadsMax, &out->num_attention_heads));
  PENSTOCK_RETURN_IF_ERROR(
      keys.Int("feed_forward_length", kEncoderIntermediateMax, &out->intermediate_size));
  PENSTOCK_RETURN_IF_ERROR(
      keys.Int("context_length", kEncoderPositionsMax, &out->max_position_embeddings));
  PENSTOCK_RETURN_IF_ERROR(
      keys.Float("attention.layer_norm_epsilon", 1e-12, 0, 1, &out->layer_norm_eps));
  if (out->hidden_size % out->num_attention_heads != 0) {
    return Status::InvalidArgument(
        "'" + keys.Key("embedding_length") + "' " + std::to_string(out->hidden_size) +
            " is not a multiple of the " + std::to_string(out->num_attention_heads) +
            " attention heads",
        keys.Key("embedding_length"));
  }
  const int64_t words = keys.RowsOf("token_embd.weight");
  if (words < 1 || words > kEncoderPositionsMax) {
    return Status::InvalidArgument("the file has no matrix 'token_embd.weight' of 1 to 2^24 rows",
                                   "token_embd.weight");
  }
  out->vocab_size = static_cast<int32_t>(words);
  out->type_vocab_size =
      static_cast<int32_t>(std::min(keys.RowsOf("token_types.weight"), kEncoderHiddenMax));
  return Status::Ok();
}

Status ReadNomic(const KeyReader& keys, EncoderConfig* out) {
  out->hidden_act = HiddenActivation::kSilu;
  PENSTOCK_RETURN_IF_ERROR(keys.Float("rope.freq_base", 10000, 1, 1e12, &out->rope_theta));
  const std::string key = keys.Key("rope.dimension_count");
  const int32_t head = out->hidden_size / out->num_attention_heads;
  PENSTOCK_ASSIGN_OR_RETURN(const int64_t rotated, keys.metadata().GetIntOr(key, head, 1, head));
  out->rope_fraction = static_cast<float>(rotated) / static_cast<float>(head);
  return Status::Ok();
}

Expected<ModelFolder> FolderOf(const std::string& path, const GgufModel& model) {
  PENSTOCK_ASSIGN_OR_RETURN(const std::string_view architecture,
                            model.metadata.GetString("general.architecture"));
  const Names* const names = NamesOf(architecture);
  if (names == nullptr) {
    return Status::Unsupported("'general.architecture': '" + Shown(architecture) +
                                   "' is not an encoder that is supported; supported are bert, "
                                   "nomic-bert",
                               "general.architecture");
  }
  const KeyReader keys(model, architecture);
  ModelFolder folder;
  folder.path = folder.tokenizer_path = path;
  folder.normalize = true;
  EncoderConfig& encoder = folder.encoder;
  const bool nomic = architecture == "nomic-bert";
  encoder.model_type = nomic ? "nomic_bert" : "bert";
  encoder.architectures = {nomic ? "NomicBertModel" : "BertModel"};
  PENSTOCK_RETURN_IF_ERROR(RefuseUnsupported(keys));
  PENSTOCK_RETURN_IF_ERROR(ReadSizes(keys, &encoder));
  if (nomic) PENSTOCK_RETURN_IF_ERROR(ReadNomic(keys, &encoder));
  PENSTOCK_RETURN_IF_ERROR(ReadPooling(keys, &folder));
  folder.max_tokens = encoder.max_position_embeddings;
  return folder;
}

}  // namespace

std::string EncoderTensorName(std::string_view architecture, std::string_view name) {
  const Names* const names = NamesOf(architecture);
  const size_t dot = name.rfind('.');
  if (names == nullptr || dot == std::string_view::npos) return std::string(name);
  const std::string_view ending = name.substr(dot);
  std::string_view part = name.substr(0, dot);
  if (!part.starts_with("blk.")) {
    const std::string_view found = Find(names->outer, part);
    return std::string(found.empty() ? part : found) + std::string(ending);
  }
  const size_t number_end = part.find('.', 4);
  if (number_end == std::string_view::npos) return std::string(name);
  const std::string_view found = Find(names->inner, part.substr(number_end + 1));
  if (found.empty()) return std::string(name);
  return std::string(names->layer) + std::string(part.substr(4, number_end - 4)) + "." +
         std::string(found) + std::string(ending);
}

Expected<std::unique_ptr<TensorStore>> OpenEncoderTensors(const std::string& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return TensorStore::OpenFolder(path);
  PENSTOCK_ASSIGN_OR_RETURN(GgufModel model, GgufModel::Open(path));
  PENSTOCK_ASSIGN_OR_RETURN(const std::string_view architecture,
                            model.metadata.GetString("general.architecture"));
  for (TensorRecord& tensor : model.tensors) {
    tensor.name = EncoderTensorName(architecture, tensor.name);
  }
  return TensorStore::Of(std::move(model));
}

Expected<ModelFolder> ReadGgufEncoder(const std::string& path) {
  PENSTOCK_ASSIGN_OR_RETURN(const GgufModel model, GgufModel::Open(path));
  auto folder = FolderOf(path, model);
  for (const MappedFile& file : model.files) PENSTOCK_RETURN_IF_ERROR(file.Check());
  if (!folder.ok()) return folder.status().Annotate(path);
  return folder;
}

Expected<ModelFolder> ReadGgufForTokenizer(const std::string& path) {
  constexpr int64_t kUnlimited = 1 << 30;
  PENSTOCK_ASSIGN_OR_RETURN(const GgufModel model, GgufModel::Open(path));
  ModelFolder folder;
  folder.path = folder.tokenizer_path = path;
  folder.max_tokens = kUnlimited;
  const auto architecture = model.metadata.GetString("general.architecture");
  if (!architecture.ok()) return folder;
  const auto tokens = model.metadata.GetIntOr(std::string(*architecture) + ".context_length",
                                              kUnlimited, 1, kUnlimited);
  for (const MappedFile& file : model.files) PENSTOCK_RETURN_IF_ERROR(file.Check());
  if (!tokens.ok()) return tokens.status().Annotate(path);
  folder.max_tokens = static_cast<int32_t>(*tokens);
  return folder;
}

}  // namespace penstock

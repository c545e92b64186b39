#include "families/gguf_encoder.h"

#include <algorithm>
#include <filesystem>
#include <span>
#include <utility>

#include "base/printable.h"
#include "families/architecture_keys.h"
#include "families/encoder_json.h"
#include "families/list.h"
#include "files/gguf.h"

namespace penstock::families {
namespace {

namespace fs = std::filesystem;

// A part of a tensor's name, and the part that the family gives it in a folder.
struct Renamed {
  std::string_view gguf;
  std::string_view EncoderArchitecture::*folder;
};

// Without ".weight" and ".bias".
constexpr Renamed kOuterNames[] = {
    {"token_embd", &EncoderArchitecture::words},
    {"position_embd", &EncoderArchitecture::positions},
    {"token_types", &EncoderArchitecture::types},
    {"token_embd_norm", &EncoderArchitecture::embed_norm},
};
// Without "blk.N." before them.
constexpr Renamed kInnerNames[] = {
    {"attn_q", &EncoderArchitecture::query},
    {"attn_k", &EncoderArchitecture::key},
    {"attn_v", &EncoderArchitecture::value},
    {"attn_qkv", &EncoderArchitecture::qkv},
    {"attn_output", &EncoderArchitecture::attention_out},
    {"attn_output_norm", &EncoderArchitecture::attention_norm},
    {"ffn_up", &EncoderArchitecture::ff_in},
    {"ffn_gate", &EncoderArchitecture::ff_gate},
    {"ffn_down", &EncoderArchitecture::ff_out},
    {"layer_output_norm", &EncoderArchitecture::ff_norm},
};

// "": the family has no such tensor.
std::string_view NameInFolder(const EncoderArchitecture& architecture,
                              std::span<const Renamed> list, std::string_view name) {
  for (const Renamed& renamed : list) {
    if (renamed.gguf == name) return architecture.*renamed.folder;
  }
  return {};
}

// Rows of a matrix; 0 where it is not there.
int64_t RowsOfMatrix(const files::GgufModel& model, std::string_view name) {
  for (const files::TensorRecord& record : model.tensors) {
    if (record.name == name && record.shape.size() == 2) return record.shape[0];
  }
  return 0;
}

Status RefuseUnsupported(const ArchitectureKeys& keys) {
  PENSTOCK_ASSIGN_OR_RETURN(const bool causal,
                            keys.all().GetBoolOr(keys.Name("attention.causal"), false));
  if (causal) {
    return Status::Unsupported(
        "'" + keys.Name("attention.causal") + "' is true, which is not supported",
        keys.Name("attention.causal"));
  }
  const std::string scaling = keys.Name("rope.scaling.type");
  PENSTOCK_ASSIGN_OR_RETURN(const std::string_view type, keys.all().GetStringOr(scaling, "none"));
  if (type != "none") {
    return Status::Unsupported("'" + scaling + "': '" + Shown(type) + "' is not supported",
                               scaling);
  }
  return Status::Ok();
}

// llama.cpp's numbers of ways to pool.
Status ReadPooling(const ArchitectureKeys& keys, ModelFolder* out) {
  const std::string key = keys.Name("pooling_type");
  PENSTOCK_ASSIGN_OR_RETURN(const int64_t type, keys.all().GetIntOr(key, 0, 0, 4));
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

Status ReadSizes(const ArchitectureKeys& keys, const files::GgufModel& model, EncoderConfig* out) {
  PENSTOCK_RETURN_IF_ERROR(keys.Int("embedding_length", 1, kEncoderHiddenMax, &out->hidden_size));
  PENSTOCK_RETURN_IF_ERROR(keys.Int("block_count", 1, kEncoderLayersMax, &out->num_hidden_layers));
  PENSTOCK_RETURN_IF_ERROR(
      keys.Int("attention.head_count", 1, kEncoderHeadsMax, &out->num_attention_heads));
  PENSTOCK_RETURN_IF_ERROR(
      keys.Int("feed_forward_length", 1, kEncoderIntermediateMax, &out->intermediate_size));
  PENSTOCK_RETURN_IF_ERROR(
      keys.Int("context_length", 1, kEncoderPositionsMax, &out->max_position_embeddings));
  PENSTOCK_RETURN_IF_ERROR(
      keys.FloatOr("attention.layer_norm_epsilon", 1e-12, 0, 1, &out->layer_norm_eps));
  if (out->hidden_size % out->num_attention_heads != 0) {
    return Status::InvalidArgument(
        "'" + keys.Name("embedding_length") + "' " + std::to_string(out->hidden_size) +
            " is not a multiple of the " + std::to_string(out->num_attention_heads) +
            " attention heads",
        keys.Name("embedding_length"));
  }
  const int64_t words = RowsOfMatrix(model, "token_embd.weight");
  if (words < 1 || words > kEncoderPositionsMax) {
    return Status::InvalidArgument("the file has no matrix 'token_embd.weight' of 1 to 2^24 rows",
                                   "token_embd.weight");
  }
  out->vocab_size = static_cast<int32_t>(words);
  out->type_vocab_size =
      static_cast<int32_t>(std::min(RowsOfMatrix(model, "token_types.weight"), kEncoderHiddenMax));
  return Status::Ok();
}

Expected<ModelFolder> FolderOf(const std::string& path, const files::GgufModel& model) {
  PENSTOCK_ASSIGN_OR_RETURN(const std::string_view architecture,
                            model.metadata.GetString("general.architecture"));
  const EncoderFamily* const family = EncoderOfGguf(architecture);
  if (family == nullptr) {
    return Status::Unsupported("'general.architecture': '" + Shown(architecture) +
                                   "' is not an encoder that is supported; supported are " +
                                   EncoderGgufNames(),
                               "general.architecture");
  }
  const ArchitectureKeys keys(model.metadata, architecture);
  ModelFolder folder;
  folder.path = folder.tokenizer_path = path;
  folder.normalize = true;
  EncoderConfig& encoder = folder.encoder;
  encoder.model_type = family->model_type;
  encoder.architectures = {std::string(family->gguf.class_name)};
  PENSTOCK_RETURN_IF_ERROR(RefuseUnsupported(keys));
  PENSTOCK_RETURN_IF_ERROR(ReadSizes(keys, model, &encoder));
  if (family->gguf.read != nullptr) PENSTOCK_RETURN_IF_ERROR(family->gguf.read(keys, &encoder));
  PENSTOCK_RETURN_IF_ERROR(ReadPooling(keys, &folder));
  folder.max_tokens = encoder.max_position_embeddings;
  return folder;
}

}  // namespace

std::string EncoderTensorName(std::string_view architecture, std::string_view name) {
  const EncoderFamily* const family = EncoderOfGguf(architecture);
  const size_t dot = name.rfind('.');
  if (family == nullptr || dot == std::string_view::npos) return std::string(name);
  const EncoderArchitecture& names = family->architecture;
  const std::string ending(name.substr(dot));
  const std::string_view part = name.substr(0, dot);
  if (!part.starts_with("blk.")) {
    const std::string_view found = NameInFolder(names, kOuterNames, part);
    return std::string(found.empty() ? part : found) + ending;
  }
  const size_t number_end = part.find('.', 4);
  if (number_end == std::string_view::npos) return std::string(name);
  const std::string_view found = NameInFolder(names, kInnerNames, part.substr(number_end + 1));
  if (found.empty()) return std::string(name);
  return std::string(names.layer) + std::string(part.substr(4, number_end - 4)) + "." +
         std::string(found) + ending;
}

Expected<std::unique_ptr<files::TensorStore>> OpenEncoderTensors(const std::string& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return files::TensorStore::OpenFolder(path);
  PENSTOCK_ASSIGN_OR_RETURN(files::GgufModel model, files::GgufModel::Open(path));
  PENSTOCK_ASSIGN_OR_RETURN(const std::string_view architecture,
                            model.metadata.GetString("general.architecture"));
  for (files::TensorRecord& tensor : model.tensors) {
    tensor.name = EncoderTensorName(architecture, tensor.name);
  }
  return files::TensorStore::Of(std::move(model));
}

Expected<ModelFolder> ReadGgufEncoder(const std::string& path) {
  PENSTOCK_ASSIGN_OR_RETURN(const files::GgufModel model, files::GgufModel::Open(path));
  auto folder = FolderOf(path, model);
  for (const files::MappedFile& file : model.files) PENSTOCK_RETURN_IF_ERROR(file.Check());
  if (!folder.ok()) return folder.status().Annotate(path);
  return folder;
}

Expected<ModelFolder> ReadGgufForTokenizer(const std::string& path) {
  constexpr int64_t kUnlimited = 1 << 30;
  PENSTOCK_ASSIGN_OR_RETURN(const files::GgufModel model, files::GgufModel::Open(path));
  ModelFolder folder;
  folder.path = folder.tokenizer_path = path;
  folder.max_tokens = kUnlimited;
  const auto architecture = model.metadata.GetString("general.architecture");
  if (!architecture.ok()) return folder;
  const auto tokens = model.metadata.GetIntOr(std::string(*architecture) + ".context_length",
                                              kUnlimited, 1, kUnlimited);
  for (const files::MappedFile& file : model.files) PENSTOCK_RETURN_IF_ERROR(file.Check());
  if (!tokens.ok()) return tokens.status().Annotate(path);
  folder.max_tokens = static_cast<int32_t>(*tokens);
  return folder;
}

}  // namespace penstock::families

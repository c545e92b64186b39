// A decoder: a GGUF file, which begins with "GGUF", or the configuration files of a folder, each up
// to a NUL: config.json, generation_config.json, tokenizer_config.json. An empty one is not there.
// The folder's weights are always the same small ones.
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "families/decoder_files.h"
#include "families/model_kind.h"
#include "fuzz_folder.h"
#include "fuzz_util.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

// Two layers of width 8 with what any architecture has; what one does not know is unused.
std::string Weights() {
  std::map<std::string, std::vector<int64_t>> tensors = {{"model.embed_tokens.weight", {11, 8}},
                                                         {"model.norm.weight", {8}}};
  for (const char* const layer : {"model.layers.0.", "model.layers.1."}) {
    const std::map<std::string, std::vector<int64_t>> parts = {
        {"input_layernorm.weight", {8}},
        {"self_attn.q_proj.weight", {8, 8}},
        {"self_attn.q_proj.bias", {8}},
        {"self_attn.k_proj.weight", {4, 8}},
        {"self_attn.k_proj.bias", {4}},
        {"self_attn.v_proj.weight", {4, 8}},
        {"self_attn.v_proj.bias", {4}},
        {"self_attn.qkv_proj.weight", {16, 8}},
        {"self_attn.o_proj.weight", {8, 8}},
        {"self_attn.q_norm.weight", {4}},
        {"self_attn.k_norm.weight", {4}},
        {"post_attention_layernorm.weight", {8}},
        {"pre_feedforward_layernorm.weight", {8}},
        {"post_feedforward_layernorm.weight", {8}},
        {"mlp.gate_proj.weight", {12, 8}},
        {"mlp.up_proj.weight", {12, 8}},
        {"mlp.gate_up_proj.weight", {24, 8}},
        {"mlp.down_proj.weight", {8, 12}}};
    for (const auto& [part, shape] : parts) tensors[layer + part] = shape;
  }
  std::string header = "{";
  int64_t at = 0;
  for (const auto& [name, shape] : tensors) {
    const int64_t end = at + 4 * shape[0] * (shape.size() > 1 ? shape[1] : 1);
    header += (header.size() > 1 ? ",\"" : "\"") + name + R"(":{"dtype":"F32","shape":[)" +
              std::to_string(shape[0]) + (shape.size() > 1 ? "," + std::to_string(shape[1]) : "") +
              "],\"data_offsets\":[" + std::to_string(at) + "," + std::to_string(end) + "]}";
    at = end;
  }
  header += "}";
  const uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + header +
         std::string(static_cast<size_t>(at), '\0');
}

// Has weights for the settings.
class Folder : public FuzzFolder {
 public:
  Folder() { std::ofstream(root() / "model.safetensors", std::ios::binary) << Weights(); }
};

void CheckFactors(const std::vector<float>& factors, size_t count) {
  PENSTOCK_CHECK(factors.size() == count);
  for (const float factor : factors) PENSTOCK_CHECK(std::isfinite(factor) && factor > 0);
}

void CheckRope(const families::DecoderConfig& config) {
  const families::RopeScaling& scaling = config.rope_scaling;
  const auto pairs = static_cast<size_t>(config.rope_size / 2);
  const bool longrope = scaling.kind == families::RopeScalingKind::kLongrope;
  CheckFactors(scaling.factors, scaling.kind == families::RopeScalingKind::kLlama3 ? pairs : 0);
  CheckFactors(scaling.short_factors, longrope ? pairs : 0);
  CheckFactors(scaling.long_factors, longrope ? pairs : 0);
  PENSTOCK_CHECK(std::isfinite(scaling.attention_factor) && scaling.attention_factor > 0);
  PENSTOCK_CHECK(scaling.beta_fast > 0 && scaling.beta_slow > 0);
  if (scaling.kind == families::RopeScalingKind::kYarn ||
      scaling.kind == families::RopeScalingKind::kLinear) {
    PENSTOCK_CHECK(scaling.factor >= 1);
  }
  if (scaling.kind == families::RopeScalingKind::kYarn || longrope) {
    PENSTOCK_CHECK(scaling.original_context > 0);
  }
}

void CheckConfig(const families::DecoderConfig& config) {
  PENSTOCK_CHECK(config.vocab_size > 0 && config.hidden_size > 0 && config.intermediate_size > 0);
  PENSTOCK_CHECK(config.kv_heads > 0 && config.heads % config.kv_heads == 0);
  PENSTOCK_CHECK(config.head_size > 0 && config.context > 0);
  PENSTOCK_CHECK(config.rope_size > 0 && config.rope_size % 2 == 0);
  PENSTOCK_CHECK(config.rope_size <= config.head_size);
  PENSTOCK_CHECK(config.rms_epsilon >= 0 && config.rms_epsilon <= 1);
  for (const float scale : {config.embedding_scale, config.attention_scale, config.residual_scale,
                            config.logit_scale}) {
    PENSTOCK_CHECK(std::isfinite(scale) && scale > 0);
  }
  for (const float cap : {config.attention_soft_cap, config.logit_soft_cap}) {
    PENSTOCK_CHECK(std::isfinite(cap) && cap >= 0);
  }
  for (const int32_t id : {config.bos_id, config.eos_id, config.pad_id}) {
    PENSTOCK_CHECK(id >= -1 && id < config.vocab_size);
  }
  PENSTOCK_CHECK(config.end_ids.size() <= families::kDecoderEndIdsMax);
  int32_t before = -1;
  for (const int32_t id : config.end_ids) {
    PENSTOCK_CHECK(id > before && id < config.vocab_size);
    before = id;
  }
  PENSTOCK_CHECK(!config.layers.empty());
  for (const families::DecoderLayerConfig& layer : config.layers) {
    PENSTOCK_CHECK(layer.window >= 0 && layer.window < config.context);
    PENSTOCK_CHECK(std::isfinite(layer.rope_theta) && layer.rope_theta > 1);
  }
  PENSTOCK_CHECK(families::KvBytesPerToken(config, 2) > 0);
  CheckRope(config);
}

void CheckTensor(const files::TensorRecord& tensor, int64_t rows, int64_t columns) {
  PENSTOCK_CHECK(tensor.shape.size() == (columns == 0 ? 1 : 2) && tensor.shape[0] == rows);
  PENSTOCK_CHECK(columns == 0 || tensor.shape[1] == columns);
  const auto elements = static_cast<size_t>(tensor.elements());
  PENSTOCK_CHECK(tensor.data.size() == numbers::StoredBytes(tensor.dtype, elements));
  std::vector<float> values(elements);
  PENSTOCK_CHECK(tensor.CopyToF32(values).ok());
}

void CheckTensors(const families::DecoderConfig& config, const families::DecoderTensors& tensors) {
  const int64_t hidden = config.hidden_size, inner = config.intermediate_size;
  const int64_t q_rows = int64_t{config.heads} * config.head_size;
  const int64_t kv_rows = int64_t{config.kv_heads} * config.head_size;
  CheckTensor(tensors.embedding, config.vocab_size, hidden);
  CheckTensor(tensors.output.weight, config.vocab_size, hidden);
  PENSTOCK_CHECK(tensors.layers.size() == config.layers.size());
  for (const families::DecoderLayerTensors& layer : tensors.layers) {
    CheckTensor(layer.attention_norm, hidden, 0);
    CheckTensor(layer.q.weight, q_rows, hidden);
    CheckTensor(layer.k.weight, kv_rows, hidden);
    CheckTensor(layer.v.weight, kv_rows, hidden);
    if (layer.v.bias) CheckTensor(*layer.v.bias, kv_rows, 0);
    CheckTensor(layer.attention_out.weight, hidden, q_rows);
    CheckTensor(layer.gate.weight, inner, hidden);
    CheckTensor(layer.up.weight, inner, hidden);
    CheckTensor(layer.down.weight, hidden, inner);
    if (layer.q_norm) CheckTensor(*layer.q_norm, config.head_size, 0);
  }
}

void OpenAndCheck(const std::string& path) {
  const auto kind = families::KindOfModel(path);
  const auto files = families::DecoderFiles::Open(path);
  if (!files.ok()) {
    const std::string message = files.status().message();
    PENSTOCK_CHECK(!message.empty() && message.size() < 4000);
    return;
  }
  PENSTOCK_CHECK(kind.ok() && *kind == families::ModelKind::kDecoder);
  CheckConfig(files->config);
  CheckTensors(files->config, files->tensors);
  PENSTOCK_CHECK(files->parameters > 0 && files->unused_tensors >= 0);
}

}  // namespace

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t size_max);

size_t MutateDecoder(uint8_t* data, size_t size, size_t size_max, unsigned seed) {
  const bool gguf = std::string_view(reinterpret_cast<char*>(data), size).starts_with("GGUF");
  return gguf ? LLVMFuzzerMutate(data, size, size_max)
              : fuzz::MutateJson(data, size, size_max, seed);
}

}  // namespace penstock

PENSTOCK_FUZZ_MUTATE_WITH(penstock::MutateDecoder)

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (bytes.starts_with("GGUF")) {
    const int file = memfd_create("model", MFD_CLOEXEC);
    PENSTOCK_CHECK(file >= 0 && write(file, data, size) == static_cast<ssize_t>(size));
    OpenAndCheck("/proc/self/fd/" + std::to_string(file));
    close(file);
    return 0;
  }
  static const Folder folder;
  fuzz::Input input(data, size);
  for (const char* const name :
       {"config.json", "generation_config.json", "tokenizer_config.json"}) {
    folder.Put(name, input.Part());
  }
  OpenAndCheck(folder.path());
  return 0;
}

// The configuration files of a model folder, each up to a NUL: config.json, modules.json,
// 1_Pooling/config.json, 2_Dense/config.json, sentence_bert_config.json,
// config_sentence_transformers.json, tokenizer_config.json, model.safetensors.index.json. An empty
// one is not there.
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "families/config_reader.h"
#include "families/model_folder.h"
#include "files/tensor_store.h"
#include "fuzz_folder.h"
#include "fuzz_util.h"
#include "json/json.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFiles[] = {"config.json",
                                  "modules.json",
                                  "1_Pooling/config.json",
                                  "2_Dense/config.json",
                                  "sentence_bert_config.json",
                                  "config_sentence_transformers.json",
                                  "tokenizer_config.json",
                                  "model.safetensors.index.json"};

// Has what settings refer to.
class Folder : public FuzzFolder {
 public:
  Folder() {
    fs::create_directory(root() / "1_Pooling");
    fs::create_directory(root() / "2_Dense");
    std::ofstream(root() / "tokenizer.json") << "{}";
    const uint64_t length = 2;
    std::ofstream shard(root() / "a.safetensors", std::ios::binary);
    shard.write(reinterpret_cast<const char*>(&length), sizeof(length)) << "{}";
  }
};

void CheckEncoder(const families::EncoderConfig& encoder) {
  PENSTOCK_CHECK(encoder.vocab_size > 0 && encoder.hidden_size > 0);
  PENSTOCK_CHECK(encoder.num_hidden_layers > 0 && encoder.num_attention_heads > 0);
  PENSTOCK_CHECK(encoder.hidden_size % encoder.num_attention_heads == 0);
  PENSTOCK_CHECK(encoder.intermediate_size > 0 && encoder.max_position_embeddings > 0);
  PENSTOCK_CHECK(encoder.type_vocab_size >= 0 && encoder.pad_token_id >= -1);
  PENSTOCK_CHECK(std::isfinite(encoder.layer_norm_eps) && encoder.layer_norm_eps >= 0);
  PENSTOCK_CHECK(std::isfinite(encoder.rope_theta) && std::isfinite(encoder.rope_theta_local));
  PENSTOCK_CHECK(encoder.rope_fraction >= 0 && encoder.rope_fraction <= 1);
  PENSTOCK_CHECK(encoder.global_attn_every_n_layers > 0 && encoder.num_labels >= 0);
  PENSTOCK_CHECK(encoder.labels.empty() ||
                 encoder.labels.size() == static_cast<size_t>(encoder.num_labels));
}

void CheckFolder(const families::ModelFolder& folder) {
  families::EncoderConfig encoder = folder.encoder;
  if (folder.task == families::ModelTask::kEmbedding)
    encoder.labels.clear();  // nothing uses them then
  CheckEncoder(encoder);
  PENSTOCK_CHECK(folder.max_tokens > 0);
  PENSTOCK_CHECK(folder.max_tokens <= families::PositionsUsable(folder.encoder));
  for (const families::DenseModule& dense : folder.dense) {
    PENSTOCK_CHECK(dense.in_features > 0 && dense.out_features > 0);
    PENSTOCK_CHECK(dense.folder.find("..") == std::string::npos);
  }
  const std::string& prompt = folder.default_prompt_name;
  PENSTOCK_CHECK(prompt.empty() || folder.prompts.count(prompt) == 1);
}

}  // namespace
}  // namespace penstock

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  static const Folder folder;
  fuzz::Input input(data, size);
  for (const char* name : kFiles) folder.Put(name, input.Part());
  const auto read = families::ModelFolder::Read(folder.path());
  if (read.ok()) {
    CheckFolder(*read);
  } else {
    const std::string message = read.status().message();
    PENSTOCK_CHECK(!message.empty() && message.size() < 4000);
  }
  if (const auto store = files::TensorStore::OpenFolder(folder.path()); store.ok()) {
    PENSTOCK_CHECK((*store)->tensors().empty());
  }
  return 0;
}

PENSTOCK_FUZZ_MUTATE_WITH(penstock::fuzz::MutateJson)

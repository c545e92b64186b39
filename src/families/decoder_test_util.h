// Small decoders put together in a temporary folder, for tests: config.json with safetensors, and
// GGUF files.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/temp_folder_test_util.h"
#include "families/decoder_files.h"
#include "files/gguf_test_util.h"

namespace penstock::families {

// Names with shapes, the slowest size first; values count up from 0 over all tensors, as F32.
using TestTensors = std::map<std::string, std::vector<int64_t>>;

inline std::string FloatsFrom(float* next, int64_t count) {
  std::string data;
  for (int64_t i = 0; i < count; ++i) data += files::Raw((*next)++);
  return data;
}

inline int64_t CountOf(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return count;
}

inline std::string SafetensorsOf(const TestTensors& tensors) {
  std::string header = "{", data;
  float next = 0;
  for (const auto& [name, shape] : tensors) {
    const size_t begin = data.size();
    data += FloatsFrom(&next, CountOf(shape));
    header += (header.size() > 1 ? ",\"" : "\"") + name + R"(":{"dtype":"F32","shape":[)";
    for (size_t i = 0; i < shape.size(); ++i) header += (i ? "," : "") + std::to_string(shape[i]);
    header +=
        "],\"data_offsets\":[" + std::to_string(begin) + "," + std::to_string(data.size()) + "]}";
  }
  header += "}";
  return files::Raw(uint64_t{header.size()}) + header + data;
}

inline std::string RawU32(std::string_view key, uint32_t value) {
  return files::RawKey(key, files::GgufType::kUint32, files::Raw(value));
}
inline std::string RawF32(std::string_view key, float value) {
  return files::RawKey(key, files::GgufType::kFloat32, files::Raw(value));
}
inline std::string RawBool(std::string_view key, bool value) {
  return files::RawKey(key, files::GgufType::kBool, std::string(1, value ? '\1' : '\0'));
}
inline std::string RawString(std::string_view key, std::string_view value) {
  return files::RawKey(key, files::GgufType::kString, files::RawText(value));
}
inline std::string RawStrings(std::string_view key, const std::vector<std::string>& values) {
  std::string texts;
  for (const std::string& value : values) texts += files::RawText(value);
  return files::RawKey(key, files::GgufType::kArray,
                       files::RawArray(files::GgufType::kString, values.size(), texts));
}

// Whole entries by their names.
using TestKeys = std::map<std::string, std::string>;

// `next`: the first value.
inline std::string GgufOf(const TestKeys& keys, const TestTensors& tensors, float next = 0) {
  std::vector<std::string> entries, infos;
  for (const auto& [name, entry] : keys) entries.push_back(entry);
  std::string data;
  for (const auto& [name, shape] : tensors) {
    data.resize((data.size() + 31) / 32 * 32);
    std::string info = files::RawText(name) + files::Raw(static_cast<uint32_t>(shape.size()));
    for (auto size = shape.rbegin(); size != shape.rend(); ++size) {
      info += files::Raw(static_cast<uint64_t>(*size));
    }
    infos.push_back(info + files::Raw(uint32_t{0}) + files::Raw(uint64_t{data.size()}));
    data += FloatsFrom(&next, CountOf(shape));
  }
  return files::RawGguf(entries, infos, data);
}

// Two layers, width 8, two heads of 4 with one of keys, feed-forward 12, eleven tokens.
inline TestKeys SmallKeys(const std::string& architecture) {
  TestKeys keys;
  const auto number = [&](const std::string& key, uint32_t value) {
    keys[architecture + key] = RawU32(architecture + key, value);
  };
  keys["general.architecture"] = RawString("general.architecture", architecture);
  number(".block_count", 2);
  number(".context_length", 64);
  number(".embedding_length", 8);
  number(".feed_forward_length", 12);
  number(".attention.head_count", 2);
  number(".attention.head_count_kv", 1);
  const std::string epsilon = architecture + ".attention.layer_norm_rms_epsilon";
  keys[epsilon] = RawF32(epsilon, 1e-5f);
  return keys;
}

// `extra`: parts of a layer besides those of llama, with their shapes.
inline TestTensors SmallGgufTensors(const TestTensors& extra = {}) {
  TestTensors tensors = {
      {"token_embd.weight", {11, 8}}, {"output_norm.weight", {8}}, {"output.weight", {11, 8}}};
  for (const std::string layer : {"blk.0.", "blk.1."}) {
    for (const auto& [part, shape] : TestTensors{{"attn_norm", {8}},
                                                 {"attn_q", {8, 8}},
                                                 {"attn_k", {4, 8}},
                                                 {"attn_v", {4, 8}},
                                                 {"attn_output", {8, 8}},
                                                 {"ffn_norm", {8}},
                                                 {"ffn_gate", {12, 8}},
                                                 {"ffn_up", {12, 8}},
                                                 {"ffn_down", {8, 12}}}) {
      tensors[layer + part + ".weight"] = shape;
    }
    for (const auto& [part, shape] : extra) tensors[layer + part] = shape;
  }
  return tensors;
}

inline TestTensors SmallFolderTensors(const TestTensors& extra = {}) {
  TestTensors tensors = {{"model.embed_tokens.weight", {11, 8}},
                         {"model.norm.weight", {8}},
                         {"lm_head.weight", {11, 8}}};
  for (const std::string layer : {"model.layers.0.", "model.layers.1."}) {
    for (const auto& [part, shape] : TestTensors{{"input_layernorm", {8}},
                                                 {"self_attn.q_proj", {8, 8}},
                                                 {"self_attn.k_proj", {4, 8}},
                                                 {"self_attn.v_proj", {4, 8}},
                                                 {"self_attn.o_proj", {8, 8}},
                                                 {"post_attention_layernorm", {8}},
                                                 {"mlp.gate_proj", {12, 8}},
                                                 {"mlp.up_proj", {12, 8}},
                                                 {"mlp.down_proj", {8, 12}}}) {
      tensors[layer + part + ".weight"] = shape;
    }
    for (const auto& [part, shape] : extra) tensors[layer + part] = shape;
  }
  return tensors;
}

// Fields of a config.json that fit the tensors above, without the braces.
inline const std::string kSmallFields =
    R"("hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 2,
       "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 4, "vocab_size": 11,
       "max_position_embeddings": 64)";

// The folder of the test data, or "" after a message.
inline std::string TestData() {
  const char* given = std::getenv("PENSTOCK_TESTDATA");
  const std::filesystem::path folder =
      given != nullptr ? std::filesystem::path(given)
                       : std::filesystem::path(PENSTOCK_SOURCE_DIR) / "../shared/testdata";
  std::error_code ignored;
  return std::filesystem::is_directory(folder, ignored) ? folder.string() : "";
}

}  // namespace penstock::families

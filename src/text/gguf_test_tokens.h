// GGUF metadata made for tests: put together by hand, or of the contents of a tokenizer.json.
#pragma once

#include <gtest/gtest.h>
#include <simdjson.h>

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/base64.h"
#include "files/gguf_test_util.h"
#include "text/gguf_tokenizer.h"
#include "text/gguf_tokens.h"
#include "text/normalized_text.h"
#include "text/tokenizer.h"

namespace penstock::text {

inline std::string RawStrings(const std::vector<std::string>& texts) {
  std::string bytes;
  for (const std::string& text : texts) bytes += files::RawText(text);
  return files::RawArray(files::GgufType::kString, texts.size(), bytes);
}
template <typename T>
std::string RawNumbers(files::GgufType type, const std::vector<T>& numbers) {
  std::string bytes;
  for (const T number : numbers) bytes += files::Raw(number);
  return files::RawArray(type, numbers.size(), bytes);
}

// The keys of a tokenizer in a GGUF file, by their names after "tokenizer.ggml.".
class GgufTokenizerKeys {
 public:
  GgufTokenizerKeys& Set(const std::string& name, files::GgufType type, std::string value) {
    keys_["tokenizer.ggml." + name] = {type, std::move(value)};
    return *this;
  }
  GgufTokenizerKeys& Text(const std::string& name, std::string_view text) {
    return Set(name, files::GgufType::kString, files::RawText(text));
  }
  GgufTokenizerKeys& Flag(const std::string& name, bool on) {
    return Set(name, files::GgufType::kBool, std::string(1, on ? '\1' : '\0'));
  }
  GgufTokenizerKeys& Id(const std::string& name, uint32_t id) {
    return Set(name + "_token_id", files::GgufType::kUint32, files::Raw(id));
  }
  GgufTokenizerKeys& Texts(const std::string& name, const std::vector<std::string>& texts) {
    return Set(name, files::GgufType::kArray, RawStrings(texts));
  }
  GgufTokenizerKeys& Scores(const std::vector<float>& scores) {
    return Set("scores", files::GgufType::kArray, RawNumbers(files::GgufType::kFloat32, scores));
  }
  GgufTokenizerKeys& Types(const std::vector<int32_t>& types) {
    return Set("token_type", files::GgufType::kArray, RawNumbers(files::GgufType::kInt32, types));
  }
  GgufTokenizerKeys& Drop(const std::string& name) {
    keys_.erase("tokenizer.ggml." + name);
    return *this;
  }
  // Keys outside tokenizer.ggml.
  GgufTokenizerKeys& Name(std::string_view name) {
    keys_["general.name"] = {files::GgufType::kString, files::RawText(name)};
    return *this;
  }

  std::string File() const {
    std::vector<std::string> raw;
    for (const auto& [key, value] : keys_)
      raw.push_back(files::RawKey(key, value.first, value.second));
    return files::RawGguf(raw, {}, "");
  }
  Expected<std::unique_ptr<Tokenizer>> Load() const {
    const std::string file = File();
    PENSTOCK_ASSIGN_OR_RETURN(const files::GgufFile parsed, files::ParseGguf(files::BytesOf(file)));
    return TokenizerFromGguf(parsed.metadata);
  }

 private:
  std::map<std::string, std::pair<files::GgufType, std::string>> keys_;
};

// What a writer of GGUF files makes of a tokenizer.json: tokens, types, merges or scores. `model`
// and `pre` are the names it gives; no special tokens stand around texts.
inline GgufTokenizerKeys KeysOfJson(const std::string& path, const std::string& model,
                                    const std::string& pre) {
  simdjson::dom::parser parser;
  const simdjson::dom::element json = parser.load(path).value();
  const simdjson::dom::element section = json["model"].value();
  std::map<int64_t, std::string> texts;
  std::map<int64_t, double> scores;
  simdjson::dom::object object;
  if (section["vocab"].get(object) == simdjson::SUCCESS) {
    for (const auto& [text, id] : object) texts[id.get_int64().value()] = std::string(text);
  } else {
    for (const simdjson::dom::element entry : section["vocab"].get_array()) {
      const auto id = static_cast<int64_t>(texts.size());
      scores[id] = entry.at(1).get_double().value();
      texts[id] = std::string(entry.at(0).get_string().value());
    }
  }
  std::map<int64_t, int32_t> types;
  for (const simdjson::dom::element added : json["added_tokens"].get_array()) {
    const int64_t id = added["id"].get_int64().value();
    texts[id] = std::string(added["content"].get_string().value());
    types[id] = added["special"].get_bool().value() ? 3 : 4;
  }
  std::vector<std::string> list;
  std::vector<int32_t> type_list;
  std::vector<double> score_list;  // published ones are float32, but those of goldens are not
  for (int64_t id = 0; id <= texts.rbegin()->first; ++id) {
    const bool there = texts.count(id) > 0;
    std::string text = there ? texts[id] : "[PAD" + std::to_string(id) + "]";
    if (model == "bert" && types.count(id) == 0) {
      text = text.starts_with("##") ? text.substr(2) : std::string(kMetaspace) + text;
    }
    list.push_back(text);
    type_list.push_back(!there ? 5 : types.count(id) ? types[id] : 1);
    score_list.push_back(scores.count(id) ? scores[id] : -10000.0);
  }
  GgufTokenizerKeys keys;
  keys.Text("model", model).Texts("tokens", list).Types(type_list);
  keys.Flag("add_bos_token", false).Flag("add_eos_token", false).Flag("add_sep_token", false);
  if (!pre.empty()) keys.Text("pre", pre);
  if (!scores.empty()) {
    keys.Set("scores", files::GgufType::kArray, RawNumbers(files::GgufType::kFloat64, score_list));
  }
  std::string_view charsmap;
  if (json["normalizer"]["precompiled_charsmap"].get(charsmap) == simdjson::SUCCESS) {
    const std::string bytes = DecodeBase64(charsmap).value();
    keys.Set("precompiled_charsmap", files::GgufType::kArray,
             RawNumbers(files::GgufType::kUint8, std::vector<uint8_t>(bytes.begin(), bytes.end())));
  }
  simdjson::dom::array merges;
  if (section["merges"].get(merges) == simdjson::SUCCESS) {
    std::vector<std::string> lines;
    for (const simdjson::dom::element merge : merges) {
      std::string_view line;
      if (merge.get(line) == simdjson::SUCCESS) {
        lines.emplace_back(line);
      } else {
        lines.push_back(std::string(merge.at(0).get_string().value()) + " " +
                        std::string(merge.at(1).get_string().value()));
      }
    }
    keys.Texts("merges", lines);
  }
  return keys;
}

}  // namespace penstock::text

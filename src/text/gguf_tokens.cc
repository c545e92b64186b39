#include "text/gguf_tokens.h"

#include <cmath>

#include "base/printable.h"
#include "text/tokenizer_loader.h"
#include "unicode/utf8.h"

namespace penstock::text {
namespace {

constexpr std::string_view kScoresKey = "tokenizer.ggml.scores";
constexpr std::string_view kTypesKey = "tokenizer.ggml.token_type";

Status Wrong(std::string_view key, size_t index, const std::string& why) {
  return Status::InvalidArgument(std::string(key) + "[" + std::to_string(index) + "] " + why,
                                 std::string(key));
}

Status Refuse(std::string_view key, const std::string& why) {
  return Status::Unsupported(std::string(key) + ": " + why, std::string(key));
}

Status CheckLength(std::string_view key, size_t length, size_t tokens) {
  if (length == tokens) return {};
  return Status::InvalidArgument(std::string(key) + " has " + std::to_string(length) +
                                     " elements, but there are " + std::to_string(tokens) +
                                     " tokens",
                                 std::string(key));
}

Status ReadTexts(const files::GgufMetadata& metadata, GgufTokens* out) {
  PENSTOCK_ASSIGN_OR_RETURN(const files::GgufStrings strings, metadata.GetStrings(kGgufTokensKey));
  if (strings.size() == 0) return Refuse(kGgufTokensKey, "there are no tokens");
  if (strings.size() > size_t(kMaxTokenId) + 1) {
    return Refuse(kGgufTokensKey, "more than 2^24 tokens");
  }
  size_t bytes = 0, empty = 0;
  out->texts.reserve(strings.size());
  for (const std::string_view view : strings) {
    bytes += view.size();
    if (view.size() > kMaxTokenBytes || bytes > kMaxVocabularyBytes) {
      return Refuse(kGgufTokensKey, "a token of more than 64 KiB, or more than 64 MiB of them");
    }
    if (view.empty() && ++empty > GgufTokens::kEmptyMax) {
      return Refuse(kGgufTokensKey,
                    "more than " + std::to_string(GgufTokens::kEmptyMax) + " tokens without text");
    }
    // Checked once it is copied: another process may write to the file.
    const std::string& text = out->texts.emplace_back(view);
    if (!IsValidUtf8(text)) {
      return Wrong(kGgufTokensKey, out->texts.size() - 1,
                   "must be UTF-8, is \"" + Printable(text, kTokenBytesShown) + "\"");
    }
  }
  return {};
}

Status ReadTypes(const files::GgufMetadata& metadata, GgufTokens* out) {
  out->types.assign(out->size(), GgufTokenType::kNormal);
  out->has_types = metadata.Has(kTypesKey);
  if (!out->has_types) return {};
  PENSTOCK_ASSIGN_OR_RETURN(const files::GgufNumbers<int64_t> types, metadata.GetInts(kTypesKey));
  PENSTOCK_RETURN_IF_ERROR(CheckLength(kTypesKey, types.size(), out->size()));
  for (size_t i = 0; i < types.size(); ++i) {
    const int64_t type = types[i];
    if (type < 0 || type > int64_t(GgufTokenType::kByte)) {
      return Wrong(kTypesKey, i, "must be a type from 0 to 6, is " + std::to_string(type));
    }
    out->types[i] = GgufTokenType(type);
  }
  return {};
}

Status ReadScores(const files::GgufMetadata& metadata, GgufTokens* out) {
  out->scores.assign(out->size(), 0);
  if (!metadata.Has(kScoresKey)) return {};
  PENSTOCK_ASSIGN_OR_RETURN(const files::GgufNumbers<double> scores,
                            metadata.GetFloats(kScoresKey));
  PENSTOCK_RETURN_IF_ERROR(CheckLength(kScoresKey, scores.size(), out->size()));
  for (size_t i = 0; i < scores.size(); ++i) {
    out->scores[i] = scores[i];
    if (!std::isfinite(out->scores[i])) return Wrong(kScoresKey, i, "must be a finite number");
  }
  return {};
}

// The id that `key` has, or `absent`.
Expected<int32_t> ReadId(const files::GgufMetadata& metadata, const char* name, size_t tokens,
                         int32_t absent) {
  constexpr int64_t kNone32 = 0xFFFFFFFF;  // -1 in a file that has it as uint32
  if (absent >= 0 && size_t(absent) >= tokens) absent = -1;
  const std::string key = std::string("tokenizer.ggml.") + name + "_token_id";
  PENSTOCK_ASSIGN_OR_RETURN(const int64_t id, metadata.GetIntOr(key, -1, INT64_MIN, INT64_MAX));
  if (id == -1 || id == kNone32) return absent;
  if (id < 0 || id >= int64_t(tokens)) {
    return Status::InvalidArgument(
        key + " must be an id below " + std::to_string(tokens) + ", is " + std::to_string(id), key);
  }
  return int32_t(id);
}

}  // namespace

Expected<GgufTokens> GgufTokens::Read(const files::GgufMetadata& metadata) {
  GgufTokens tokens;
  PENSTOCK_RETURN_IF_ERROR(ReadTexts(metadata, &tokens));
  PENSTOCK_RETURN_IF_ERROR(ReadTypes(metadata, &tokens));
  PENSTOCK_RETURN_IF_ERROR(ReadScores(metadata, &tokens));
  return tokens;
}

Expected<GgufSpecialIds> ReadGgufSpecialIds(const files::GgufMetadata& metadata, size_t tokens,
                                            const GgufSpecialIds& absent) {
  GgufSpecialIds ids;
  const struct {
    const char* name;
    int32_t GgufSpecialIds::*id;
  } keys[] = {{"bos", &GgufSpecialIds::bos},
              {"eos", &GgufSpecialIds::eos},
              {"unknown", &GgufSpecialIds::unk},
              {"seperator", &GgufSpecialIds::sep},  // so spelt in the format
              {"padding", &GgufSpecialIds::pad},
              {"cls", &GgufSpecialIds::cls},
              {"mask", &GgufSpecialIds::mask}};
  for (const auto& [name, id] : keys) {
    PENSTOCK_ASSIGN_OR_RETURN(ids.*id, ReadId(metadata, name, tokens, absent.*id));
  }
  return ids;
}

Expected<Vocabulary> MakeGgufVocabulary(const std::vector<std::string>& texts) {
  Vocabulary vocabulary;
  for (size_t id = 0; id < texts.size(); ++id) {
    if (!texts[id].empty()) vocabulary.Add(texts[id], int32_t(id));
  }
  vocabulary.Build();
  for (size_t id = 0; id < texts.size(); ++id) {
    if (texts[id].empty()) continue;
    const int32_t last = vocabulary.Find(texts[id]);
    if (last == int32_t(id)) continue;
    return Wrong(kGgufTokensKey, id,
                 "is \"" + Printable(texts[id], kTokenBytesShown) + "\", as is token " +
                     std::to_string(last));
  }
  return vocabulary;
}

Expected<std::vector<AddedToken>> MakeGgufAddedTokens(const files::GgufMetadata& metadata,
                                                      const GgufTokens& tokens) {
  PENSTOCK_ASSIGN_OR_RETURN(const GgufSpecialIds ids,
                            ReadGgufSpecialIds(metadata, tokens.size(), {}));
  std::vector<AddedToken> added;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const int32_t id = int32_t(i);
    bool special = false;
    if (tokens.has_types) {
      const GgufTokenType type = tokens.types[i];
      special = type == GgufTokenType::kControl || type == GgufTokenType::kUnknown;
      if (!special && type != GgufTokenType::kUserDefined) continue;
    } else {
      special = id == ids.bos || id == ids.eos || id == ids.unk || id == ids.sep || id == ids.pad ||
                id == ids.cls || id == ids.mask;
      if (!special) continue;
    }
    if (tokens.texts[i].empty()) continue;
    AddedToken token;
    token.content = tokens.texts[i];
    token.id = id;
    token.normalized = false;
    token.special = special;
    added.push_back(std::move(token));
  }
  return added;
}

}  // namespace penstock::text

// Loads "model".
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "base/printable.h"
#include "text/model_bpe.h"
#include "text/model_unigram.h"
#include "text/model_wordpiece.h"
#include "text/tokenizer_loader.h"

namespace penstock::text {
namespace {

using ModelPtr = Expected<std::unique_ptr<TokenizerModel>>;

// Adds a token unless it, or all of them, would be too long.
Status AddToken(const JsonFields& fields, std::string_view token, int32_t id, size_t* bytes,
                Vocabulary* vocabulary) {
  *bytes += token.size();
  if (token.size() > kMaxTokenBytes || *bytes > kMaxVocabularyBytes) {
    return Status::Unsupported("a token of more than 64 KiB, or more than 64 MiB of them",
                               fields.PathOf("vocab"));
  }
  vocabulary->Add(token, id);
  return {};
}

Expected<Vocabulary> LoadVocabulary(const JsonFields& fields) {
  PENSTOCK_ASSIGN_OR_RETURN(JsonFields::Element element, fields.Get("vocab"));
  JsonObject object;
  if (!element.Get(&object)) {
    return JsonFields::Wrong(fields.PathOf("vocab"), "an object");
  }
  Vocabulary vocabulary;
  size_t bytes = 0;
  for (const auto& [token, value] : object) {
    int64_t id = 0;
    if (!value.Get(&id) || id < 0 || id > kMaxTokenId) {
      return JsonFields::Wrong(fields.PathOf("vocab") + "[\"" + Shown(token) + "\"]",
                               "an id from 0 to " + std::to_string(kMaxTokenId));
    }
    PENSTOCK_RETURN_IF_ERROR(AddToken(fields, token, int32_t(id), &bytes, &vocabulary));
  }
  vocabulary.Build();
  return vocabulary;
}

ModelPtr LoadWordPiece(const JsonFields& fields) {
  PENSTOCK_ASSIGN_OR_RETURN(Vocabulary vocabulary, LoadVocabulary(fields));
  PENSTOCK_ASSIGN_OR_RETURN(std::string_view unk, fields.String("unk_token"));
  PENSTOCK_ASSIGN_OR_RETURN(std::string_view prefix,
                            LoadAffix(fields, "continuing_subword_prefix"));
  PENSTOCK_ASSIGN_OR_RETURN(const int64_t limit,
                            fields.Integer("max_input_chars_per_word", 1 << 20));
  return std::unique_ptr<TokenizerModel>(
      std::make_unique<WordPieceModel>(std::move(vocabulary), unk, prefix, size_t(limit)));
}

ModelPtr LoadWordLevel(const JsonFields& fields) {
  PENSTOCK_ASSIGN_OR_RETURN(Vocabulary vocabulary, LoadVocabulary(fields));
  PENSTOCK_ASSIGN_OR_RETURN(std::string_view unk, fields.String("unk_token"));
  return std::unique_ptr<TokenizerModel>(
      std::make_unique<WordLevelModel>(std::move(vocabulary), unk));
}

// Merges are ["a", "b"] pairs, or "a b" strings in older files.
Status LoadMerges(const JsonFields& fields, std::vector<std::pair<std::string, std::string>>* out) {
  PENSTOCK_ASSIGN_OR_RETURN(JsonArray array, fields.Array("merges"));
  for (JsonFields::Element element : array) {
    const auto broken = [&] {
      return JsonFields::Wrong(fields.PathOf("merges") + "[" + std::to_string(out->size()) + "]",
                               "two tokens");
    };
    if (out->size() >= kMaxMerges) {
      return Status::Unsupported("more than 8 Mi merges", fields.PathOf("merges"));
    }
    std::string_view text;
    if (element.Get(&text)) {
      if (text.starts_with("#version")) continue;
      const size_t space = text.find(' ');
      if (space == std::string_view::npos || text.find(' ', space + 1) != std::string_view::npos) {
        return broken();
      }
      out->emplace_back(text.substr(0, space), text.substr(space + 1));
      continue;
    }
    JsonArray pair;
    std::string_view left, right;
    if (!element.Get(&pair) || pair.size() != 2 || !pair[0].Get(&left) || !pair[1].Get(&right)) {
      return broken();
    }
    out->emplace_back(left, right);
  }
  return {};
}

Status LoadOptionalString(const JsonFields& fields, std::string_view name, std::string* out) {
  if (!fields.Has(name)) return {};
  PENSTOCK_ASSIGN_OR_RETURN(std::string_view text, LoadAffix(fields, name));
  *out = text;
  return {};
}

ModelPtr LoadBpe(const JsonFields& fields, bool byte_level) {
  if (fields.Has("dropout")) {
    PENSTOCK_ASSIGN_OR_RETURN(JsonFields::Element dropout, fields.Get("dropout"));
    double value = 0;
    if (!dropout.Get(&value) || value != 0) {
      return Status::Unsupported("BPE dropout", fields.PathOf("dropout"));
    }
  }
  PENSTOCK_ASSIGN_OR_RETURN(Vocabulary vocabulary, LoadVocabulary(fields));
  std::vector<std::pair<std::string, std::string>> merges;
  PENSTOCK_RETURN_IF_ERROR(LoadMerges(fields, &merges));
  BpeOptions options;
  options.has_unk_token = fields.Has("unk_token");
  PENSTOCK_RETURN_IF_ERROR(LoadOptionalString(fields, "unk_token", &options.unk_token));
  PENSTOCK_RETURN_IF_ERROR(
      LoadOptionalString(fields, "continuing_subword_prefix", &options.continuing_prefix));
  PENSTOCK_RETURN_IF_ERROR(LoadOptionalString(fields, "end_of_word_suffix", &options.end_suffix));
  PENSTOCK_ASSIGN_OR_RETURN(options.fuse_unk, fields.BoolOr("fuse_unk", false));
  PENSTOCK_ASSIGN_OR_RETURN(options.byte_fallback, fields.BoolOr("byte_fallback", false));
  PENSTOCK_ASSIGN_OR_RETURN(options.ignore_merges, fields.BoolOr("ignore_merges", false));
  options.bytes = byte_level;
  PENSTOCK_ASSIGN_OR_RETURN(std::unique_ptr<BpeModel> model,
                            BpeModel::Create(std::move(vocabulary), merges, std::move(options)));
  return std::unique_ptr<TokenizerModel>(std::move(model));
}

}  // namespace

double ReferenceDouble(double exact) {
  char text[64] = {};  // atoi below needs an end
  const auto end = std::to_chars(text, text + sizeof(text), exact, std::chars_format::scientific);
  uint64_t digits = 0;
  int exponent = 0;
  const char* p = text;
  for (; p != end.ptr && *p != 'e'; ++p) {
    if (*p < '0' || *p > '9') continue;
    digits = digits * 10 + uint64_t(*p - '0');
  }
  const char* point = std::find(text, const_cast<char*>(p), '.');
  if (point != p) exponent = -int(p - point - 1);
  if (p != end.ptr) exponent += std::atoi(p + 1);
  if (exponent < -300 || exponent > 300) return exact;
  // Literals of powers of ten are correctly rounded, which pow() need not be.
  double power = 1;
  const std::string literal = "1e" + std::to_string(std::abs(exponent));
  std::from_chars(literal.data(), literal.data() + literal.size(), power);
  const double value = exponent < 0 ? double(digits) / power : double(digits) * power;
  return std::signbit(exact) ? -value : value;
}

namespace {

ModelPtr LoadUnigram(const JsonFields& fields) {
  PENSTOCK_ASSIGN_OR_RETURN(JsonArray array, fields.Array("vocab"));
  Vocabulary vocabulary;
  std::vector<double> scores;
  size_t bytes = 0;
  for (JsonFields::Element element : array) {
    JsonArray entry;
    std::string_view token;
    double score = 0;
    if (!element.Get(&entry) || entry.size() != 2 || !entry[0].Get(&token) ||
        !entry[1].Get(&score)) {
      return JsonFields::Wrong(fields.PathOf("vocab") + "[" + std::to_string(scores.size()) + "]",
                               "a token and its score");
    }
    if (int64_t(scores.size()) > kMaxTokenId) {
      return Status::Unsupported("more than 2^24 tokens", fields.PathOf("vocab"));
    }
    PENSTOCK_RETURN_IF_ERROR(AddToken(fields, token, int32_t(scores.size()), &bytes, &vocabulary));
    scores.push_back(ReferenceDouble(score));
  }
  vocabulary.Build();
  int64_t unk_id = -1;
  if (fields.Has("unk_id")) {
    PENSTOCK_ASSIGN_OR_RETURN(unk_id, fields.Integer("unk_id", int64_t(scores.size()) - 1));
  }
  PENSTOCK_ASSIGN_OR_RETURN(const bool byte_fallback, fields.BoolOr("byte_fallback", false));
  return std::unique_ptr<TokenizerModel>(std::make_unique<UnigramModel>(
      std::move(vocabulary), std::move(scores), int32_t(unk_id), byte_fallback));
}

// Old files have no type; the fields tell.
Expected<std::string> ModelType(const JsonFields& fields) {
  if (fields.Has("type")) {
    PENSTOCK_ASSIGN_OR_RETURN(std::string_view type, fields.String("type"));
    return std::string(type);
  }
  if (fields.Has("merges")) return std::string("BPE");
  if (fields.Has("max_input_chars_per_word")) return std::string("WordPiece");
  if (fields.Has("unk_token")) return std::string("WordLevel");
  if (fields.Has("unk_id")) return std::string("Unigram");
  return Status::InvalidArgument("missing", fields.PathOf("type"));
}

}  // namespace

bool ModelCanReadBytes(const JsonFields& fields) {
  const auto type = ModelType(fields);
  if (!type.ok() || *type != "BPE") return false;
  const auto fallback = fields.BoolOr("byte_fallback", false);
  std::string prefix, suffix;
  return fallback.ok() && !*fallback &&
         LoadOptionalString(fields, "continuing_subword_prefix", &prefix).ok() &&
         LoadOptionalString(fields, "end_of_word_suffix", &suffix).ok() && prefix.empty() &&
         suffix.empty();
}

Expected<std::unique_ptr<TokenizerModel>> LoadModel(const JsonFields& fields, bool byte_level) {
  PENSTOCK_ASSIGN_OR_RETURN(const std::string type, ModelType(fields));
  if (type == "WordPiece") return LoadWordPiece(fields);
  if (type == "BPE") return LoadBpe(fields, byte_level);
  if (type == "Unigram") return LoadUnigram(fields);
  if (type == "WordLevel") return LoadWordLevel(fields);
  return Status::Unsupported("model type \"" + Shown(type) + "\"", fields.PathOf("type"));
}

}  // namespace penstock::text

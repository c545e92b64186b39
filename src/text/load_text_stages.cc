// Loads "normalizer" and "pre_tokenizer".
#include "base/printable.h"
#include "text/tokenizer_loader.h"
#include "unicode/unicode.h"
#include "unicode/utf8.h"

namespace penstock::text {

Expected<std::string_view> LoadAffix(const JsonFields& fields, std::string_view name) {
  PENSTOCK_ASSIGN_OR_RETURN(std::string_view text, fields.String(name));
  if (text.size() > kMaxAffixBytes) {
    return Status::Unsupported("is longer than " + std::to_string(kMaxAffixBytes) + " bytes",
                               fields.PathOf(name));
  }
  return text;
}

Expected<regex::Regex> LoadPattern(const JsonFields& parent, std::string_view name,
                                   std::string* regex_text) {
  PENSTOCK_ASSIGN_OR_RETURN(JsonFields pattern, parent.Object(name));
  if (pattern.Has("String")) {
    PENSTOCK_ASSIGN_OR_RETURN(std::string_view text, pattern.String("String"));
    if (text.size() > kMaxTokenBytes) {
      return Status::Unsupported("literal is too long", pattern.PathOf("String"));
    }
    return regex::Regex::Literal(text);
  }
  PENSTOCK_ASSIGN_OR_RETURN(std::string_view text, pattern.String("Regex"));
  *regex_text = text;
  auto regex = regex::Regex::Compile(text);
  if (!regex.ok()) {
    return Status(regex.status().code(), regex.status().message(), pattern.PathOf("Regex"));
  }
  return regex;
}

namespace {

using NormalizerPtr = Expected<std::unique_ptr<Normalizer>>;

template <typename T, typename... Args>
NormalizerPtr MakeNormalizer(Args&&... args) {
  return std::unique_ptr<Normalizer>(std::make_unique<T>(std::forward<Args>(args)...));
}

NormalizerPtr LoadBertNormalizer(const JsonFields& fields) {
  PENSTOCK_ASSIGN_OR_RETURN(const bool clean, fields.Bool("clean_text"));
  PENSTOCK_ASSIGN_OR_RETURN(const bool chinese, fields.Bool("handle_chinese_chars"));
  PENSTOCK_ASSIGN_OR_RETURN(const bool lowercase, fields.Bool("lowercase"));
  PENSTOCK_ASSIGN_OR_RETURN(const bool accents, fields.BoolOr("strip_accents", lowercase));
  return MakeNormalizer<BertNormalizer>(clean, chinese, accents, lowercase);
}

NormalizerPtr LoadReplace(const JsonFields& fields) {
  std::string regex_text;
  PENSTOCK_ASSIGN_OR_RETURN(regex::Regex regex, LoadPattern(fields, "pattern", &regex_text));
  PENSTOCK_ASSIGN_OR_RETURN(std::string_view content, fields.String("content"));
  if (regex.can_be_empty()) {
    return Status::Unsupported("Replace of a pattern that matches the empty string",
                               fields.PathOf("pattern"));
  }
  CutRule rule = ReplaceNormalizer::CutRuleOfRegex(regex_text);
  if (regex_text.empty()) {
    PENSTOCK_ASSIGN_OR_RETURN(JsonFields pattern, fields.Object("pattern"));
    PENSTOCK_ASSIGN_OR_RETURN(std::string_view literal, pattern.String("String"));
    rule = ReplaceNormalizer::CutRuleOfLiteral(literal);
  }
  return MakeNormalizer<ReplaceNormalizer>(std::move(regex), std::string(content), rule);
}

NormalizerPtr LoadNormalizerSequence(const JsonFields& fields, const Nesting& nesting) {
  PENSTOCK_ASSIGN_OR_RETURN(JsonArray array, fields.Array("normalizers"));
  PENSTOCK_RETURN_IF_ERROR(nesting.EnterSequence(fields, "normalizers", array.size()));
  const Nesting inner(&nesting);
  std::vector<std::unique_ptr<Normalizer>> parts;
  for (JsonFields::Element element : array) {
    const std::string path =
        fields.PathOf("normalizers") + "[" + std::to_string(parts.size()) + "]";
    PENSTOCK_ASSIGN_OR_RETURN(JsonFields part, JsonFields::Of(element, path));
    PENSTOCK_ASSIGN_OR_RETURN(std::unique_ptr<Normalizer> loaded, LoadNormalizer(part, inner));
    parts.push_back(std::move(loaded));
  }
  return MakeNormalizer<SequenceNormalizer>(std::move(parts));
}

}  // namespace

Expected<std::unique_ptr<Normalizer>> LoadNormalizer(const JsonFields& fields,
                                                     const Nesting& nesting) {
  PENSTOCK_RETURN_IF_ERROR(nesting.Enter(fields));
  PENSTOCK_ASSIGN_OR_RETURN(std::string_view type, fields.String("type"));
  using Kind = CharNormalizer::Kind;
  if (type == "BertNormalizer") return LoadBertNormalizer(fields);
  if (type == "Sequence") return LoadNormalizerSequence(fields, nesting);
  if (type == "NFC") return MakeNormalizer<FormNormalizer>(unicode::NormalForm::kNfc);
  if (type == "NFD") return MakeNormalizer<FormNormalizer>(unicode::NormalForm::kNfd);
  if (type == "NFKC") return MakeNormalizer<FormNormalizer>(unicode::NormalForm::kNfkc);
  if (type == "NFKD") return MakeNormalizer<FormNormalizer>(unicode::NormalForm::kNfkd);
  if (type == "Lowercase") return MakeNormalizer<CharNormalizer>(Kind::kLowercase);
  if (type == "StripAccents") return MakeNormalizer<CharNormalizer>(Kind::kStripAccents);
  if (type == "Nmt") return MakeNormalizer<CharNormalizer>(Kind::kNmt);
  if (type == "ByteLevel") return MakeNormalizer<CharNormalizer>(Kind::kByteLevel);
  if (type == "Replace") return LoadReplace(fields);
  if (type == "Prepend") {
    PENSTOCK_ASSIGN_OR_RETURN(std::string_view prefix, fields.String("prepend"));
    return MakeNormalizer<PrependNormalizer>(std::string(prefix));
  }
  if (type == "Strip") {
    PENSTOCK_ASSIGN_OR_RETURN(const bool left, fields.Bool("strip_left"));
    PENSTOCK_ASSIGN_OR_RETURN(const bool right, fields.Bool("strip_right"));
    return MakeNormalizer<StripNormalizer>(left, right);
  }
  if (type == "Precompiled") {
    PENSTOCK_ASSIGN_OR_RETURN(std::string_view base64, fields.String("precompiled_charsmap"));
    PENSTOCK_ASSIGN_OR_RETURN(PrecompiledCharsmap map, PrecompiledCharsmap::FromBase64(base64));
    return MakeNormalizer<PrecompiledNormalizer>(std::move(map));
  }
  return Status::Unsupported("normalizer type \"" + Shown(type) + "\"", fields.PathOf("type"));
}

namespace {

Expected<SplitBehavior> LoadBehavior(const JsonFields& fields) {
  PENSTOCK_ASSIGN_OR_RETURN(std::string_view name, fields.String("behavior"));
  if (name == "Removed") return SplitBehavior::kRemoved;
  if (name == "Isolated") return SplitBehavior::kIsolated;
  if (name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (name == "Contiguous") return SplitBehavior::kContiguous;
  return Status::Unsupported("behavior \"" + Shown(name) + "\"", fields.PathOf("behavior"));
}

using PreTokenizerList = std::vector<std::unique_ptr<PreTokenizer>>;

Status LoadSplit(const JsonFields& fields, PreTokenizerList* out) {
  std::string regex_text;
  PENSTOCK_ASSIGN_OR_RETURN(regex::Regex regex, LoadPattern(fields, "pattern", &regex_text));
  PENSTOCK_ASSIGN_OR_RETURN(const SplitBehavior behavior, LoadBehavior(fields));
  PENSTOCK_ASSIGN_OR_RETURN(const bool invert, fields.Bool("invert"));
  out->push_back(std::make_unique<SplitPreTokenizer>(
      std::move(regex), regex::KnownPattern::Find(regex_text), behavior, invert));
  return {};
}

Status LoadMetaspace(const JsonFields& fields, PreTokenizerList* out) {
  using Scheme = MetaspacePreTokenizer::Scheme;
  PENSTOCK_ASSIGN_OR_RETURN(std::string_view replacement, fields.String("replacement"));
  if (unicode::Utf8Count(replacement) != 1) {
    return JsonFields::Wrong(fields.PathOf("replacement"), "one character");
  }
  Scheme scheme = Scheme::kAlways;
  if (fields.Has("prepend_scheme")) {
    PENSTOCK_ASSIGN_OR_RETURN(std::string_view name, fields.String("prepend_scheme"));
    if (name == "first") {
      scheme = Scheme::kFirst;
    } else if (name == "never") {
      scheme = Scheme::kNever;
    } else if (name != "always") {
      return Status::Unsupported("prepend_scheme \"" + Shown(name) + "\"",
                                 fields.PathOf("prepend_scheme"));
    }
  }
  PENSTOCK_ASSIGN_OR_RETURN(const bool prefix, fields.BoolOr("add_prefix_space", true));
  if (!prefix) {
    if (fields.Has("prepend_scheme") && scheme != Scheme::kNever) {
      return Status::InvalidArgument("contradicts prepend_scheme",
                                     fields.PathOf("add_prefix_space"));
    }
    scheme = Scheme::kNever;
  }
  PENSTOCK_ASSIGN_OR_RETURN(const bool split, fields.BoolOr("split", true));
  out->push_back(std::make_unique<MetaspacePreTokenizer>(std::string(replacement), scheme, split));
  return {};
}

Status LoadPreTokenizerSequence(const JsonFields& fields, const Nesting& nesting,
                                PreTokenizerList* out) {
  PENSTOCK_ASSIGN_OR_RETURN(JsonArray array, fields.Array("pretokenizers"));
  PENSTOCK_RETURN_IF_ERROR(nesting.EnterSequence(fields, "pretokenizers", array.size()));
  const Nesting inner(&nesting);
  size_t index = 0;
  for (JsonFields::Element element : array) {
    const std::string path = fields.PathOf("pretokenizers") + "[" + std::to_string(index++) + "]";
    PENSTOCK_ASSIGN_OR_RETURN(JsonFields part, JsonFields::Of(element, path));
    PENSTOCK_RETURN_IF_ERROR(LoadPreTokenizers(part, inner, out));
  }
  return {};
}

}  // namespace

Status LoadPreTokenizers(const JsonFields& fields, const Nesting& nesting, PreTokenizerList* out) {
  PENSTOCK_RETURN_IF_ERROR(nesting.Enter(fields));
  PENSTOCK_ASSIGN_OR_RETURN(std::string_view type, fields.String("type"));
  if (type == "Sequence") return LoadPreTokenizerSequence(fields, nesting, out);
  if (type == "Split") return LoadSplit(fields, out);
  if (type == "Metaspace") return LoadMetaspace(fields, out);
  if (type == "BertPreTokenizer") {
    out->push_back(std::make_unique<BertPreTokenizer>());
  } else if (type == "Whitespace") {
    out->push_back(std::make_unique<WhitespacePreTokenizer>());
  } else if (type == "WhitespaceSplit") {
    out->push_back(std::make_unique<ClassSplit>(unicode::kUniSpace, SplitBehavior::kRemoved));
  } else if (type == "Punctuation") {
    SplitBehavior behavior = SplitBehavior::kIsolated;
    if (fields.Has("behavior")) {
      PENSTOCK_ASSIGN_OR_RETURN(behavior, LoadBehavior(fields));
    }
    out->push_back(std::make_unique<ClassSplit>(unicode::kUniPunct, behavior));
  } else if (type == "Digits") {
    PENSTOCK_ASSIGN_OR_RETURN(const bool single, fields.Bool("individual_digits"));
    out->push_back(std::make_unique<ClassSplit>(
        unicode::kUniNumeric, single ? SplitBehavior::kIsolated : SplitBehavior::kContiguous));
  } else if (type == "ByteLevel") {
    PENSTOCK_ASSIGN_OR_RETURN(const bool prefix, fields.Bool("add_prefix_space"));
    PENSTOCK_ASSIGN_OR_RETURN(const bool regex, fields.BoolOr("use_regex", true));
    out->push_back(std::make_unique<ByteLevelPreTokenizer>(prefix, regex));
  } else if (type == "CharDelimiterSplit" || type == "Delimiter") {
    PENSTOCK_ASSIGN_OR_RETURN(std::string_view delimiter, fields.String("delimiter"));
    if (unicode::Utf8Count(delimiter) != 1) {
      return JsonFields::Wrong(fields.PathOf("delimiter"), "one character");
    }
    int length = 0;
    out->push_back(ClassSplit::OnChar(unicode::DecodeUtf8(delimiter.data(), &length),
                                      SplitBehavior::kRemoved));
  } else if (type == "FixedLength") {
    int64_t length = 5;
    if (fields.Has("length")) {
      PENSTOCK_ASSIGN_OR_RETURN(length, fields.Integer("length", 1 << 30));
    }
    if (length == 0) return JsonFields::Wrong(fields.PathOf("length"), "at least 1");
    out->push_back(std::make_unique<FixedLengthPreTokenizer>(size_t(length)));
  } else {
    return Status::Unsupported("pre_tokenizer type \"" + Shown(type) + "\"", fields.PathOf("type"));
  }
  return {};
}

}  // namespace penstock::text

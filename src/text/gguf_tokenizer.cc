#include "text/gguf_tokenizer.h"

#include <algorithm>

#include "base/printable.h"
#include "text/gguf_models.h"
#include "text/gguf_pre_kinds.h"
#include "text/gguf_tokens.h"
#include "text/tokenizer_parts.h"
#include "unicode/unicode.h"

namespace penstock::text {
namespace {

constexpr std::string_view kModelKey = "tokenizer.ggml.model";
constexpr std::string_view kAddSpaceKey = "tokenizer.ggml.add_space_prefix";

// Which special tokens stand around a text.
struct Around {
  bool bos = false, eos = false, sep = false;
};

// The keys add_..._token, else what `absent` says.
Expected<Around> ReadAround(const files::GgufMetadata& metadata, const Around& absent,
                            const GgufSpecialIds& ids) {
  Around around;
  const struct {
    const char* key;
    const char* id_key;
    bool absent;
    int32_t id;
    bool* value;
  } flags[] = {{"tokenizer.ggml.add_bos_token", "tokenizer.ggml.bos_token_id", absent.bos, ids.bos,
                &around.bos},
               {"tokenizer.ggml.add_eos_token", "tokenizer.ggml.eos_token_id", absent.eos, ids.eos,
                &around.eos},
               {"tokenizer.ggml.add_sep_token", "tokenizer.ggml.seperator_token_id", absent.sep,
                ids.sep, &around.sep}};
  for (const auto& flag : flags) {
    PENSTOCK_ASSIGN_OR_RETURN(*flag.value, metadata.GetBoolOr(flag.key, flag.absent));
    if (!*flag.value || flag.id >= 0) continue;
    return Status::InvalidArgument(std::string(flag.id_key) +
                                       " names no token, but one stands beside every text unless " +
                                       flag.key + " is false",
                                   flag.id_key);
  }
  return around;
}

// `middle`: between the two texts of a pair.
void SetTemplate(const std::vector<int32_t>& before, const std::vector<int32_t>& middle,
                 const std::vector<int32_t>& after, PostProcessor* out) {
  const int32_t second = out->roberta ? 0 : 1;
  const auto put = [](int32_t type_id, const std::vector<int32_t>& ids,
                      std::vector<TemplatePart>* parts) {
    if (!ids.empty()) parts->push_back({-1, type_id, ids});
  };
  put(0, before, &out->single);
  out->single.push_back({0, 0, {}});
  out->pair = out->single;
  put(0, after, &out->single);
  put(0, middle, &out->pair);
  out->pair.push_back({1, second, {}});
  put(second, after, &out->pair);
  out->added_single = before.size() + after.size();
  out->added_pair = out->added_single + middle.size();
  out->has_template = true;
}

// Special tokens around the texts of a generating model. Texts of a pair have them both, or with
// `sep` what RoBERTa has.
void SetTemplate(const Around& around, const GgufSpecialIds& ids, PostProcessor* out) {
  std::vector<int32_t> before, middle, after;
  if (around.bos) before.push_back(ids.bos);
  if (around.eos) after.push_back(ids.eos);
  middle = after;
  if (around.sep) {
    middle.push_back(ids.sep);
    out->roberta = true;
  } else {
    middle.insert(middle.end(), before.begin(), before.end());
  }
  if (!middle.empty()) SetTemplate(before, middle, after, out);
}

void LetTakeSpacesBefore(int32_t id, std::vector<AddedToken>* added) {
  for (AddedToken& token : *added) token.lstrip = token.lstrip || token.id == id;
}

// Replaces spaces by U+2581, perhaps with one before the text.
std::unique_ptr<Normalizer> SpacesToMarks(bool prefix) {
  std::vector<std::unique_ptr<Normalizer>> parts;
  if (prefix) parts.push_back(std::make_unique<PrependNormalizer>(std::string(kMetaspace)));
  parts.push_back(std::make_unique<ReplaceNormalizer>(regex::Regex::Literal(" "),
                                                      std::string(kMetaspace),
                                                      ReplaceNormalizer::CutRuleOfLiteral(" ")));
  return std::make_unique<SequenceNormalizer>(std::move(parts));
}

Expected<TokenizerParts> BpeParts(const files::GgufMetadata& metadata) {
  PENSTOCK_ASSIGN_OR_RETURN(const std::string_view pre,
                            metadata.GetStringOr("tokenizer.ggml.pre", "default"));
  PENSTOCK_ASSIGN_OR_RETURN(GgufPreKind kind, MakeGgufPreKind(pre));
  PENSTOCK_ASSIGN_OR_RETURN(const GgufTokens tokens, GgufTokens::Read(metadata));
  PENSTOCK_ASSIGN_OR_RETURN(const GgufSpecialIds ids,
                            ReadGgufSpecialIds(metadata, tokens.size(), {.bos = 11, .eos = 11}));
  Around absent;
  absent.bos = kind.add_bos;
  absent.sep = kind.add_sep;
  PENSTOCK_ASSIGN_OR_RETURN(const Around around, ReadAround(metadata, absent, ids));
  TokenizerParts parts;
  PENSTOCK_ASSIGN_OR_RETURN(parts.model, MakeGgufBpe(metadata, tokens, kind));
  if (kind.nfc) parts.normalizer = std::make_unique<FormNormalizer>(unicode::NormalForm::kNfc);
  parts.pre_tokenizers = std::move(kind.steps);
  PENSTOCK_ASSIGN_OR_RETURN(parts.added, MakeGgufAddedTokens(metadata, tokens));
  if (kind.mask_lstrip) LetTakeSpacesBefore(ids.mask, &parts.added);
  SetTemplate(around, ids, &parts.post);
  parts.decoder.push_back(MakeByteLevelDecoder());
  return parts;
}

// Phi-3's special tokens take the spaces after them, which the format has no key for.
void LetTakeSpacesAfter(const files::GgufMetadata& metadata, std::vector<AddedToken>* added) {
  const auto name = metadata.GetStringOr("general.name", "");
  if (!name.ok()) return;
  std::string lower(*name);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? char(c + ('a' - 'A')) : c; });
  if (lower.find("phi-3") == std::string::npos && lower.find("phi3") == std::string::npos) return;
  for (AddedToken& token : *added) {
    token.rstrip =
        token.content != "<unk>" && token.content != "<s>" && token.content != "<|endoftext|>";
  }
}

Expected<TokenizerParts> SentencePieceParts(const files::GgufMetadata& metadata) {
  PENSTOCK_ASSIGN_OR_RETURN(const GgufTokens tokens, GgufTokens::Read(metadata));
  PENSTOCK_ASSIGN_OR_RETURN(
      const GgufSpecialIds ids,
      ReadGgufSpecialIds(metadata, tokens.size(), {.bos = 1, .eos = 2, .unk = 0}));
  PENSTOCK_ASSIGN_OR_RETURN(const Around around, ReadAround(metadata, {.bos = true}, ids));
  PENSTOCK_ASSIGN_OR_RETURN(const bool prefix, metadata.GetBoolOr(kAddSpaceKey, true));
  TokenizerParts parts;
  PENSTOCK_ASSIGN_OR_RETURN(parts.model, MakeGgufSentencePiece(tokens, ids.unk));
  parts.normalizer = SpacesToMarks(prefix);
  PENSTOCK_ASSIGN_OR_RETURN(parts.added, MakeGgufAddedTokens(metadata, tokens));
  LetTakeSpacesAfter(metadata, &parts.added);
  SetTemplate(around, ids, &parts.post);
  parts.decoder.push_back(MakeReplaceDecoder(regex::Regex::Literal(kMetaspace), " "));
  parts.decoder.push_back(MakeByteFallbackDecoder());
  parts.decoder.push_back(MakeFuseDecoder());
  if (prefix) parts.decoder.push_back(MakeStripDecoder(" ", 1, 0));
  return parts;
}

Expected<TokenizerParts> WordPieceParts(const files::GgufMetadata& metadata) {
  PENSTOCK_ASSIGN_OR_RETURN(GgufTokens tokens, GgufTokens::Read(metadata));
  PENSTOCK_ASSIGN_OR_RETURN(
      GgufSpecialIds ids,
      ReadGgufSpecialIds(metadata, tokens.size(),
                         {.unk = 100, .sep = 102, .pad = 0, .cls = 101, .mask = 103}));
  if (ids.bos < 0) ids.bos = ids.cls;  // either key may name [CLS]
  PENSTOCK_RETURN_IF_ERROR(ReadAround(metadata, {.bos = true, .sep = true}, ids).status());
  if (ids.unk < 0) {
    return Status::InvalidArgument("tokenizer.ggml.unknown_token_id names no token",
                                   "tokenizer.ggml.unknown_token_id");
  }
  PENSTOCK_ASSIGN_OR_RETURN(const bool lowercase,
                            metadata.GetBoolOr("tokenizer.ggml.normalizer.lowercase", true));
  PENSTOCK_ASSIGN_OR_RETURN(
      const bool strip_accents,
      metadata.GetBoolOr("tokenizer.ggml.normalizer.strip_accents", lowercase));
  for (size_t id = 0; id < tokens.size(); ++id) {
    tokens.texts[id] = WordPieceSpelling(tokens.texts[id], tokens.types[id]);
  }
  TokenizerParts parts;
  PENSTOCK_ASSIGN_OR_RETURN(parts.model, MakeGgufWordPiece(tokens, ids.unk));
  parts.normalizer = std::make_unique<BertNormalizer>(true, true, strip_accents, lowercase);
  parts.pre_tokenizers.push_back(std::make_unique<BertPreTokenizer>());
  PENSTOCK_ASSIGN_OR_RETURN(parts.added, MakeGgufAddedTokens(metadata, tokens));
  SetTemplate({ids.bos}, {ids.sep}, {ids.sep}, &parts.post);
  parts.decoder.push_back(MakeWordPieceDecoder("##", true));
  return parts;
}

// SentencePiece's map of characters; none where the file has none.
Expected<std::unique_ptr<Normalizer>> ReadCharsmap(const files::GgufMetadata& metadata) {
  constexpr const char* kKey = "tokenizer.ggml.precompiled_charsmap";
  if (!metadata.Has(kKey)) return std::unique_ptr<Normalizer>();
  PENSTOCK_ASSIGN_OR_RETURN(const files::GgufArray array, metadata.GetArray(kKey));
  if (array.type() != files::GgufType::kUint8 && array.type() != files::GgufType::kInt8) {
    return Status::InvalidArgument(std::string(kKey) + " must be an array of bytes", kKey);
  }
  if (array.size() == 0) return std::unique_ptr<Normalizer>();
  const std::string bytes(reinterpret_cast<const char*>(array.bytes().data()),
                          array.bytes().size());
  auto map = PrecompiledCharsmap::FromBytes(bytes);
  if (!map.ok()) {
    return Status(map.status().code(), std::string(kKey) + ": " + map.status().message(), kKey);
  }
  return std::unique_ptr<Normalizer>(std::make_unique<PrecompiledNormalizer>(*std::move(map)));
}

Expected<TokenizerParts> UnigramParts(const files::GgufMetadata& metadata) {
  using Scheme = MetaspacePreTokenizer::Scheme;
  PENSTOCK_ASSIGN_OR_RETURN(const GgufTokens tokens, GgufTokens::Read(metadata));
  PENSTOCK_ASSIGN_OR_RETURN(
      const GgufSpecialIds ids,
      ReadGgufSpecialIds(metadata, tokens.size(), {.eos = 1, .unk = 2, .pad = 0}));
  PENSTOCK_ASSIGN_OR_RETURN(const Around around, ReadAround(metadata, {.eos = true}, ids));
  PENSTOCK_ASSIGN_OR_RETURN(const bool prefix, metadata.GetBoolOr(kAddSpaceKey, false));
  PENSTOCK_ASSIGN_OR_RETURN(const bool one_space,
                            metadata.GetBoolOr("tokenizer.ggml.remove_extra_whitespaces", false));
  TokenizerParts parts;
  PENSTOCK_ASSIGN_OR_RETURN(parts.normalizer, ReadCharsmap(metadata));
  PENSTOCK_ASSIGN_OR_RETURN(parts.model, MakeGgufUnigram(tokens, ids.unk));
  if (one_space) {
    parts.pre_tokenizers.push_back(
        std::make_unique<ClassSplit>(unicode::kUniSpace, SplitBehavior::kRemoved));
  }
  parts.pre_tokenizers.push_back(std::make_unique<MetaspacePreTokenizer>(
      std::string(kMetaspace), prefix ? Scheme::kAlways : Scheme::kNever, one_space));
  PENSTOCK_ASSIGN_OR_RETURN(parts.added, MakeGgufAddedTokens(metadata, tokens));
  LetTakeSpacesBefore(ids.mask, &parts.added);  // as XLM-RoBERTa's
  SetTemplate(around, ids, &parts.post);
  parts.decoder.push_back(MakeMetaspaceDecoder(std::string(kMetaspace), prefix));
  return parts;
}

Expected<TokenizerParts> PartsOf(const files::GgufMetadata& metadata) {
  PENSTOCK_ASSIGN_OR_RETURN(const std::string_view model, metadata.GetString(kModelKey));
  if (model == "gpt2") return BpeParts(metadata);
  if (model == "llama") return SentencePieceParts(metadata);
  if (model == "bert") return WordPieceParts(metadata);
  if (model == "t5") return UnigramParts(metadata);
  return Status::Unsupported("tokenizer \"" + Printable(model, 100) +
                                 "\" is not supported; supported are gpt2, llama, bert, t5",
                             std::string(kModelKey));
}

}  // namespace

Expected<std::unique_ptr<Tokenizer>> TokenizerFromGguf(const files::GgufMetadata& metadata) {
  PENSTOCK_ASSIGN_OR_RETURN(TokenizerParts parts, PartsOf(metadata));
  return MakeTokenizer(std::move(parts));
}

}  // namespace penstock::text

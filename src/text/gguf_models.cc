#include "text/gguf_models.h"

#include <algorithm>

#include "base/printable.h"
#include "text/gguf_tokens.h"
#include "text/model_bpe.h"
#include "text/model_unigram.h"
#include "text/model_wordpiece.h"
#include "text/tokenizer_loader.h"
#include "unicode/utf8.h"

namespace penstock::text {
namespace {

constexpr std::string_view kMergesKey = "tokenizer.ggml.merges";
constexpr size_t kWordCharsMax = 100;  // of BERT's words; longer ones are unknown

Status BadMerge(size_t index, const std::string& why) {
  return Status::InvalidArgument(std::string(kMergesKey) + "[" + std::to_string(index) + "] " + why,
                                 std::string(kMergesKey));
}

std::string TextOf(const GgufTokens& tokens, int32_t id) {
  return id < 0 ? std::string() : tokens.texts[size_t(id)];
}

// Others are cut out of a text before the model sees it, or stand for bytes.
bool Merges(GgufTokenType type) {
  return type == GgufTokenType::kNormal || type == GgufTokenType::kUnused ||
         type == GgufTokenType::kUndefined;
}

// 0 for the highest score; equal scores have the same rank.
std::vector<uint32_t> Ranks(const std::vector<double>& scores) {
  std::vector<double> sorted = scores;
  std::sort(sorted.begin(), sorted.end(), std::greater<>());
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  std::vector<uint32_t> ranks;
  ranks.reserve(scores.size());
  for (const double score : scores) {
    const auto place = std::lower_bound(sorted.begin(), sorted.end(), score, std::greater<>());
    ranks.push_back(uint32_t(place - sorted.begin()));
  }
  return ranks;
}

}  // namespace

Expected<std::unique_ptr<TokenizerModel>> MakeGgufBpe(const files::GgufMetadata& metadata,
                                                      const GgufTokens& tokens,
                                                      const GgufPreKind& kind) {
  PENSTOCK_ASSIGN_OR_RETURN(Vocabulary vocabulary, MakeGgufVocabulary(tokens.texts));
  PENSTOCK_ASSIGN_OR_RETURN(const files::GgufStrings strings, metadata.GetStrings(kMergesKey));
  if (strings.size() > kMaxMerges) {
    return Status::Unsupported(std::string(kMergesKey) + ": more than 8 Mi merges",
                               std::string(kMergesKey));
  }
  std::vector<BpeMerge> merges;
  merges.reserve(strings.size());
  std::string merged;
  for (const std::string_view text : strings) {
    const size_t index = merges.size();
    const size_t space = text.find(' ', 1);  // the first byte is of a token
    if (text.size() > 2 * kMaxTokenBytes || space >= text.size()) {
      return BadMerge(index,
                      "must be two tokens, is \"" + Printable(text, kTokenBytesShown) + "\"");
    }
    const std::string_view left = text.substr(0, space), right = text.substr(space + 1);
    merged.assign(left).append(right);
    BpeMerge merge{vocabulary.Find(left), vocabulary.Find(right), vocabulary.Find(merged),
                   uint32_t(index)};
    if (merge.left < 0 || merge.right < 0 || merge.id < 0) {
      const std::string_view missing = merge.left < 0 ? left : merge.right < 0 ? right : merged;
      return BadMerge(index, "needs \"" + Printable(missing, kTokenBytesShown) +
                                 "\", which is not among the tokens");
    }
    merges.push_back(merge);
  }
  BpeOptions options;
  options.ignore_merges = kind.ignore_merges;
  options.bytes = kind.bytes;
  return std::unique_ptr<TokenizerModel>(
      BpeModel::FromMerges(std::move(vocabulary), merges, std::move(options)));
}

Expected<std::unique_ptr<TokenizerModel>> MakeGgufSentencePiece(const GgufTokens& tokens,
                                                                int32_t unk_id) {
  PENSTOCK_ASSIGN_OR_RETURN(Vocabulary vocabulary, MakeGgufVocabulary(tokens.texts));
  const auto find = [&](std::string_view text) {
    const int32_t id = vocabulary.Find(text);
    return id >= 0 && Merges(tokens.types[size_t(id)]) ? id : -1;
  };
  const std::string key(kGgufTokensKey);
  const std::vector<uint32_t> ranks = Ranks(tokens.scores);
  std::vector<BpeMerge> merges;
  for (size_t id = 0; id < tokens.size(); ++id) {
    if (!Merges(tokens.types[id])) continue;
    const std::string_view text = tokens.texts[id];
    if (text.size() > kSentencePieceBytesMax) {
      return Status::Unsupported(key + "[" + std::to_string(id) + "] has more than " +
                                     std::to_string(kSentencePieceBytesMax) + " bytes",
                                 key);
    }
    for (size_t at = 1; at < text.size(); ++at) {
      const int32_t left = find(text.substr(0, at));
      const int32_t right = left < 0 ? -1 : find(text.substr(at));
      if (right >= 0) merges.push_back({left, right, int32_t(id), ranks[id]});
    }
    if (merges.size() > kMaxMerges) {
      return Status::Unsupported(key + ": tokens are made of others in more than 8 Mi ways", key);
    }
  }
  BpeOptions options;
  options.has_unk_token = true;
  options.unk_token = TextOf(tokens, unk_id);
  options.fuse_unk = true;
  options.byte_fallback = true;
  return std::unique_ptr<TokenizerModel>(
      BpeModel::FromMerges(std::move(vocabulary), merges, std::move(options)));
}

std::string WordPieceSpelling(std::string_view text, GgufTokenType type) {
  if (text.empty()) return {};
  if (text.starts_with(kMetaspace)) return std::string(text.substr(kMetaspace.size()));
  // Writers leave [UNK], [unused0] and the like as they are.
  const bool bracketed = text.size() > 2 && text.front() == '[' && text.back() == ']';
  if (bracketed || type == GgufTokenType::kControl || type == GgufTokenType::kUnknown) {
    return std::string(text);
  }
  return "##" + std::string(text);
}

Expected<std::unique_ptr<TokenizerModel>> MakeGgufWordPiece(const GgufTokens& tokens,
                                                            int32_t unk_id) {
  PENSTOCK_ASSIGN_OR_RETURN(Vocabulary vocabulary, MakeGgufVocabulary(tokens.texts));
  return std::unique_ptr<TokenizerModel>(std::make_unique<WordPieceModel>(
      std::move(vocabulary), TextOf(tokens, unk_id), "##", kWordCharsMax));
}

Expected<std::unique_ptr<TokenizerModel>> MakeGgufUnigram(const GgufTokens& tokens,
                                                          int32_t unk_id) {
  PENSTOCK_ASSIGN_OR_RETURN(Vocabulary vocabulary, MakeGgufVocabulary(tokens.texts));
  // Writers give tokens that stand for nothing a very low score; what is unknown is set against the
  // lowest of the others.
  double lowest = 0;
  for (size_t id = 0; id < tokens.size(); ++id) {
    if (tokens.types[id] == GgufTokenType::kNormal) lowest = std::min(lowest, tokens.scores[id]);
  }
  bool bytes = false;
  std::vector<double> scores;
  scores.reserve(tokens.size());
  for (size_t id = 0; id < tokens.size(); ++id) {
    scores.push_back(ReferenceDouble(std::max(tokens.scores[id], lowest)));
    bytes = bytes || tokens.types[id] == GgufTokenType::kByte;
  }
  return std::unique_ptr<TokenizerModel>(
      std::make_unique<UnigramModel>(std::move(vocabulary), std::move(scores), unk_id, bytes));
}

}  // namespace penstock::text

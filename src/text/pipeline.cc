// The pipeline behind the Tokenizer seam: added tokens, normaliser, pre-tokenizers, model,
// truncation, template. Buffers that grow with the text are per thread and reused.
#include <algorithm>
#include <atomic>
#include <unordered_map>

#include "base/seeded_hash.h"
#include "text/byte_level.h"
#include "text/cut_points.h"
#include "text/piece_cache.h"
#include "text/tokenizer_parts.h"
#include "unicode/unicode.h"
#include "unicode/utf8.h"

namespace penstock::text {
namespace {

// A thread's buffers of more than this are freed after a text.
constexpr size_t kKeepBytes = 4 << 20;
constexpr size_t kMaxTextBytes = (size_t(1) << 31) - 1;
// Limits of a file's added tokens: bytes, as written and once normalised, and units of Work to
// normalise them.
constexpr size_t kMaxAddedBytes = 8 << 20;
constexpr int64_t kMaxAddedWork = int64_t(1) << 28;

// A token with what trimming its offsets needs.
struct Trim {
  uint32_t leading, trailing;  // spaces at the ends of the token's string, in characters
};

// The tokens of one text. Offsets and trims are empty unless asked for.
struct Tokens {
  std::vector<int32_t> ids;
  std::vector<TokenOffset> offsets;
  std::vector<Trim> trims;
  size_t begin = 0, end = 0;  // tokens left after truncation

  void Clear() {
    ids.clear();
    offsets.clear();
    trims.clear();
  }
  size_t size() const { return end - begin; }
};

struct Scratch {
  NormalizedText text;
  std::vector<Piece> sections, pieces;
  std::vector<ModelToken> tokens;
  std::vector<uint32_t> char_of_byte;
  std::string sanitized;
  Tokens first, second;

  void Shrink() {
    if (text.text.capacity() + sanitized.capacity() > kKeepBytes) *this = Scratch();
  }
};

// The scratch of this thread for one call; given back within limits however the call ends.
class ScratchLease {
 public:
  ~ScratchLease() { scratch_.Shrink(); }
  ScratchLease() = default;
  ScratchLease(const ScratchLease&) = delete;
  ScratchLease& operator=(const ScratchLease&) = delete;
  Scratch* operator->() { return &scratch_; }
  Scratch* get() { return &scratch_; }

 private:
  static Scratch& OfThread() {
    static thread_local Scratch scratch;
    return scratch;
  }
  Scratch& scratch_ = OfThread();
};

PieceCache& CacheOfThread() {
  static thread_local PieceCache cache;
  return cache;
}

LongPieceCache& LongCacheOfThread() {
  static thread_local LongPieceCache cache;
  return cache;
}

struct HashId {
  uint64_t seed = HashSeed();
  size_t operator()(int32_t id) const { return HashWord(uint32_t(id), seed); }
};

// The remaining budget of one text.
struct TextBudget {
  TextBudget(const StopCondition& stop, size_t text_bytes)
      : work(stop), growth(std::min(GrowthLimit(text_bytes), kMaxTextBytes)) {}
  Work work;
  size_t growth;  // bytes its sections may still grow to
};

Trim CountSpaces(std::string_view token) {
  const auto is_space = [](char32_t c) {
    return c == ByteLevelChar(' ') || (unicode::UnicodeProps(c) & unicode::kUniSpace);
  };
  Trim trim{0, 0};
  int length = 0;
  for (size_t at = 0; at < token.size(); at += length, ++trim.leading) {
    if (!is_space(unicode::DecodeUtf8(token.data() + at, &length))) break;
  }
  for (size_t end = token.size(); end > 0; end -= length, ++trim.trailing) {
    if (!is_space(unicode::DecodeUtf8Before(token.data() + end, &length))) break;
  }
  return trim;
}

// ByteLevel's and Roberta's trimming: whitespace leaves the offsets, except the one space that
// was put before the text.
void TrimOffsets(const OffsetTrim& step, Tokens* tokens) {
  for (size_t i = tokens->begin; i < tokens->end; ++i) {
    TokenOffset& offset = tokens->offsets[i];
    uint32_t leading = tokens->trims[i].leading;
    const uint32_t trailing = tokens->trims[i].trailing;
    if (leading > 0) {
      const bool first = i == tokens->begin || offset.begin == 0;
      if (first && step.add_prefix_space && leading == 1) leading = 0;
      offset.begin = std::min(offset.begin + leading, offset.end);
    }
    if (trailing > 0 && offset.end >= trailing) {
      offset.end = std::max(offset.end - trailing, offset.begin);
    }
  }
}

class Pipeline : public Tokenizer {
 public:
  static Expected<std::unique_ptr<Tokenizer>> Make(TokenizerParts parts);

  Status Encode(std::string_view text, const EncodeOptions& options, Encoding* out) const override;
  Status EncodePair(std::string_view first, std::string_view second, const EncodeOptions& options,
                    Encoding* out) const override;
  Status EncodeText(std::string_view text, std::vector<int32_t>* ids) const override {
    return EncodeTextUntil(text, {}, ids);
  }
  Status EncodeTextUntil(std::string_view text, const StopCondition& stop,
                         std::vector<int32_t>* ids) const override;
  Status Combine(std::span<const int32_t> first, const std::span<const int32_t>* second,
                 const EncodeOptions& options, Encoding* out) const override;
  size_t CutBefore(std::string_view text, size_t low, size_t high, bool both) const override {
    return cuts_.Before(text, low, high, both);
  }
  std::string Decode(std::span<const int32_t> ids, bool skip_special_tokens) const override;
  std::unique_ptr<StreamDecoder> NewStreamDecoder(bool skip_special_tokens,
                                                  std::vector<int32_t> shown) const override;
  int32_t vocab_size() const override { return vocab_size_; }
  std::string_view IdToToken(int32_t id) const override;
  int32_t TokenToId(std::string_view token) const override;
  bool IsSpecial(int32_t id) const override;
  size_t special_tokens_single() const override { return parts_.post.added_single; }
  size_t special_tokens_pair() const override { return parts_.post.added_pair; }
  std::string_view model_type() const override { return parts_.model->type(); }

  // The string decoding starts from; nothing if the id is unknown or to be skipped.
  bool DecodeToken(int32_t id, bool skip_special_tokens, std::string_view* token) const;
  const DecoderChain& decoder() const { return parts_.decoder; }

 private:
  static uint32_t NextSerial() {
    static std::atomic<uint32_t> last{0};
    return last.fetch_add(1, std::memory_order_relaxed) + 1;
  }
  Pipeline() = default;
  Status TokenizeText(std::string_view text, const EncodeOptions& options, Scratch* scratch,
                      Tokens* out) const;
  Status TokenizeSection(std::string_view text, uint32_t begin, uint32_t end, bool with_offsets,
                         TextBudget* budget, Scratch* scratch, Tokens* out) const;
  Status TokenizeIds(Work* work, Scratch* scratch, Tokens* out) const;
  Status TokenizeMissed(const Piece& piece, Work* work, Scratch* scratch) const;
  Status TokenizeWithOffsets(Work* work, Scratch* scratch, Tokens* out) const;
  // The tokens of a piece by the model.
  Status TokenizePiece(std::string_view piece, Work* work, std::vector<ModelToken>* tokens) const;
  Status NormalizeAddedTokens();
  void AddAddedToken(int32_t index, Align range, std::string_view value, bool with_offsets,
                     Tokens* out) const;
  void ConvertOffsets(std::string_view text, Scratch* scratch, Tokens* tokens) const;
  Status Assemble(const std::vector<TemplatePart>& parts, const EncodeOptions& options,
                  Tokens* const sequences[2], int count, Encoding* out) const;

  TokenizerParts parts_;
  AddedTokenMatcher raw_matcher_, normalized_matcher_;
  CutPoints cuts_;
  std::unordered_map<int32_t, size_t, HashId> added_of_id_;
  Vocabulary added_vocabulary_;           // content to id
  Vocabulary special_contents_;           // contents of special tokens
  const uint32_t serial_ = NextSerial();  // its name in caches of pieces
  int32_t vocab_size_ = 0;
  bool always_track_ = false;                            // some pre-tokenizer needs alignment
  std::vector<TemplatePart> plain_single_, plain_pair_;  // without a template
};

// Sets the patterns of added tokens.
Status Pipeline::NormalizeAddedTokens() {
  Work work({}, kMaxAddedWork);
  size_t bytes = 0;
  const auto refuse = [](std::string why) {
    return Status::Unsupported(std::move(why), "added_tokens");
  };
  for (AddedToken& token : parts_.added) {
    token.pattern = token.content;
    if (token.normalized && parts_.normalizer != nullptr) {
      NormalizedText text;
      text.Assign(token.content, 0, uint32_t(token.content.size()), false, kMaxAddedBytes, &work);
      const Status status = parts_.normalizer->Normalize(&text);
      if (!status.ok()) return refuse("cannot be normalised: " + status.message());
      token.pattern = text.text;
    }
    bytes += token.content.size() + token.pattern.size();
    if (bytes > kMaxAddedBytes) return refuse("take more than 8 MiB");
  }
  return {};
}

Expected<std::unique_ptr<Tokenizer>> Pipeline::Make(TokenizerParts parts) {
  std::unique_ptr<Pipeline> self(new Pipeline);
  self->parts_ = std::move(parts);
  auto& added = self->parts_.added;
  int32_t max_id = self->parts_.model->vocabulary().max_id();
  PENSTOCK_RETURN_IF_ERROR(self->NormalizeAddedTokens());
  for (size_t i = 0; i < added.size(); ++i) {
    const AddedToken& token = added[i];
    self->added_of_id_[token.id] = i;
    self->added_vocabulary_.Add(token.content, token.id);
    if (token.special) self->special_contents_.Add(token.content, token.id);
    max_id = std::max(max_id, token.id);
  }
  self->added_vocabulary_.Build();
  self->special_contents_.Build();
  self->vocab_size_ = max_id + 1;
  PENSTOCK_RETURN_IF_ERROR(self->raw_matcher_.Build(added, false));
  PENSTOCK_RETURN_IF_ERROR(self->normalized_matcher_.Build(added, true));
  for (const auto& pre : self->parts_.pre_tokenizers) {
    self->always_track_ = self->always_track_ || pre->needs_alignment();
  }
  self->cuts_.Build(self->parts_);
  const int32_t second_type = self->parts_.post.roberta ? 0 : 1;
  self->plain_single_ = {{0, 0, {}}};
  self->plain_pair_ = {{0, 0, {}}, {1, second_type, {}}};
  return std::unique_ptr<Tokenizer>(std::move(self));
}

void Pipeline::AddAddedToken(int32_t index, Align range, std::string_view value, bool with_offsets,
                             Tokens* out) const {
  out->ids.push_back(parts_.added[index].id);
  if (!with_offsets) return;
  out->offsets.push_back({range.begin, range.end});
  if (!parts_.post.trims.empty()) out->trims.push_back(CountSpaces(value));
}

// One stretch between added tokens. Offsets are bytes of `text` until ConvertOffsets.
Status Pipeline::TokenizeSection(std::string_view text, uint32_t begin, uint32_t end,
                                 bool with_offsets, TextBudget* budget, Scratch* scratch,
                                 Tokens* out) const {
  NormalizedText& normalized = scratch->text;
  std::vector<Piece>& pieces = scratch->pieces;
  normalized.Assign(text, begin, end, with_offsets || always_track_, budget->growth, &budget->work);
  if (parts_.normalizer != nullptr) {
    PENSTOCK_RETURN_IF_ERROR(parts_.normalizer->Normalize(&normalized));
  }
  pieces.clear();
  const uint32_t size = uint32_t(normalized.text.size());
  if (normalized_matcher_.empty()) {
    if (size > 0) pieces.push_back({0, size, -1});
  } else {
    PENSTOCK_RETURN_IF_ERROR(normalized_matcher_.Cut(normalized.text, 0, size, &pieces));
  }
  for (const auto& pre : parts_.pre_tokenizers) {
    if (!budget->work.Spend(normalized.text.size())) return budget->work.status();
    PENSTOCK_RETURN_IF_ERROR(pre->Apply(&normalized, &pieces));
  }
  PENSTOCK_RETURN_IF_ERROR(with_offsets ? TokenizeWithOffsets(&budget->work, scratch, out)
                                        : TokenizeIds(&budget->work, scratch, out));
  budget->growth -= std::min(budget->growth, normalized.text.size());
  return {};
}

// A piece that the first cache of pieces does not know, to the scratch's tokens, by the second cache
// or the model.
Status Pipeline::TokenizeMissed(const Piece& piece, Work* work, Scratch* scratch) const {
  const std::string_view all = scratch->text.text;
  const size_t length = piece.end - piece.begin;
  const std::string_view part = all.substr(piece.begin, length);
  if (length > LongPieceCache::kPieceBytes) return TokenizePiece(part, work, &scratch->tokens);
  LongPieceCache& cache = LongCacheOfThread();
  const LongPieceCache::Key key = LongPieceCache::KeyOf(all, piece.begin, length);
  const size_t place = cache.Fetch(key, serial_);
  int32_t ids[LongPieceCache::kIds];
  const size_t known = cache.Find(key, place, serial_, ids);
  scratch->tokens.clear();
  for (size_t i = 0; i < known; ++i) scratch->tokens.push_back({ids[i], 0, 0});
  if (known > 0) return {};
  PENSTOCK_RETURN_IF_ERROR(TokenizePiece(part, work, &scratch->tokens));
  const size_t count = scratch->tokens.size();
  const bool fits_short = length <= PieceCache::kPieceBytes && count <= PieceCache::kIds;
  if (!fits_short) cache.Put(key, place, serial_, scratch->tokens);
  return {};
}

// The pieces of the section in `scratch`, without offsets: a block of them at a time, while the
// entries of the next one in the cache of pieces are fetched.
Status Pipeline::TokenizeIds(Work* work, Scratch* scratch, Tokens* out) const {
  constexpr size_t kBlock = 16;
  const std::string_view all = scratch->text.text;
  const std::span<const Piece> pieces = scratch->pieces;
  PieceCache& cache = CacheOfThread();
  struct Place {
    PieceCache::Key key;
    size_t set;
  } places[2][kBlock] = {};
  const auto fetch = [&, owner = serial_](size_t first, Place* place) {
    const size_t end = std::min(first + kBlock, pieces.size());
    for (size_t i = first; i < end; ++i, ++place) {
      const size_t length = pieces[i].end - pieces[i].begin;
      if (length > PieceCache::kPieceBytes) continue;
      place->key = PieceCache::KeyOf(all, pieces[i].begin, length);
      place->set = cache.Fetch(place->key, owner);
    }
  };
  fetch(0, places[0]);
  std::vector<int32_t>& ids = out->ids;
  size_t size = ids.size();  // of ids that are there; behind them there is room
  for (size_t first = 0, b = 0; first < pieces.size(); first += kBlock, b ^= 1) {
    fetch(first + kBlock, places[b ^ 1]);
    const size_t end = std::min(first + kBlock, pieces.size());
    ids.resize(size + kBlock * PieceCache::kIds);
    int32_t* to = ids.data() + size;
    for (size_t i = first; i < end; ++i) {
      const Piece& piece = pieces[i];
      const size_t length = piece.end - piece.begin;
      if (!work->Spend(length)) return work->status();
      if (piece.token >= 0) {
        *to++ = parts_.added[static_cast<size_t>(piece.token)].id;
        continue;
      }
      const Place& place = places[b][i - first];
      const bool is_short = length <= PieceCache::kPieceBytes;
      if (is_short) {
        const size_t known = cache.Find(place.key, place.set, serial_, to);
        to += known;
        if (known > 0) continue;
      }
      PENSTOCK_RETURN_IF_ERROR(TokenizeMissed(piece, work, scratch));
      if (is_short) cache.Put(place.key, place.set, serial_, scratch->tokens);
      size = static_cast<size_t>(to - ids.data());
      ids.resize(size + scratch->tokens.size() + (end - i) * PieceCache::kIds);
      to = ids.data() + size;
      for (const ModelToken& token : scratch->tokens) *to++ = token.id;
    }
    size = static_cast<size_t>(to - ids.data());
  }
  ids.resize(size);
  return {};
}

// The same with offsets, which the cache of pieces does not keep.
Status Pipeline::TokenizeWithOffsets(Work* work, Scratch* scratch, Tokens* out) const {
  const NormalizedText& normalized = scratch->text;
  const std::string_view all = normalized.text;
  const bool with_trims = !parts_.post.trims.empty();
  for (const Piece& piece : scratch->pieces) {
    const std::string_view part = all.substr(piece.begin, piece.end - piece.begin);
    if (!work->Spend(part.size())) return work->status();
    if (piece.token >= 0) {
      AddAddedToken(piece.token, normalized.OriginalRange(piece.begin, piece.end), part, true, out);
      continue;
    }
    PENSTOCK_RETURN_IF_ERROR(TokenizePiece(part, work, &scratch->tokens));
    for (const ModelToken& token : scratch->tokens) {
      out->ids.push_back(token.id);
      // Suffixes can make tokens longer than their piece; these stay relative to it.
      Align range{token.begin, token.end};
      if (token.begin < token.end && token.end <= part.size()) {
        range = normalized.OriginalRange(piece.begin + token.begin, piece.begin + token.end);
      }
      out->offsets.push_back({range.begin, range.end});
      if (!with_trims) continue;
      out->trims.push_back(CountSpaces(parts_.model->vocabulary().TokenOf(token.id)));
    }
  }
  return {};
}

Status Pipeline::TokenizePiece(std::string_view piece, Work* work,
                               std::vector<ModelToken>* tokens) const {
  tokens->clear();
  if (parts_.model->Tokenize(piece, work, tokens)) return {};
  PENSTOCK_RETURN_IF_ERROR(work->status());
  return {StatusCode::kUnprocessable,
          "text holds something unknown and the tokenizer has no token for that"};
}

// Byte offsets to code points.
void Pipeline::ConvertOffsets(std::string_view text, Scratch* scratch, Tokens* tokens) const {
  // Whether char has a sign depends on the processor.
  if (std::none_of(text.begin(), text.end(), [](char c) { return (c & 0x80) != 0; })) return;
  std::vector<uint32_t>& chars = scratch->char_of_byte;
  chars.resize(text.size() + 1);
  uint32_t count = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    count += !unicode::IsUtf8Continuation(static_cast<unsigned char>(text[i]));
    chars[i] = count - 1;
  }
  chars[text.size()] = count;
  for (TokenOffset& offset : tokens->offsets) {
    if (offset.begin >= text.size() || offset.end > text.size()) continue;
    offset = {chars[offset.begin], chars[offset.end]};
  }
}

Status Pipeline::TokenizeText(std::string_view text, const EncodeOptions& options, Scratch* scratch,
                              Tokens* out) const {
  if (text.size() > kMaxTextBytes) {
    return {StatusCode::kPayloadTooLarge, "text is 2^31 bytes or more"};
  }
  out->Clear();
  if (!unicode::SanitizeUtf8(text, &scratch->sanitized)) {
    text = scratch->sanitized;
    if (text.size() > kMaxTextBytes) {
      return {StatusCode::kPayloadTooLarge, "text is 2^31 bytes or more"};
    }
  }
  TextBudget budget(options.stop, text.size());
  if (!budget.work.Spend(text.size())) return budget.work.status();
  const uint32_t size = uint32_t(text.size());
  std::vector<Piece>& sections = scratch->sections;
  sections.clear();
  if (raw_matcher_.empty()) {
    if (size > 0) sections.push_back({0, size, -1});
  } else {
    PENSTOCK_RETURN_IF_ERROR(raw_matcher_.Cut(text, 0, size, &sections));
  }
  for (const Piece& section : sections) {
    if (section.token >= 0) {
      AddAddedToken(section.token, {section.begin, section.end},
                    text.substr(section.begin, section.end - section.begin), options.with_offsets,
                    out);
      continue;
    }
    PENSTOCK_RETURN_IF_ERROR(TokenizeSection(text, section.begin, section.end, options.with_offsets,
                                             &budget, scratch, out));
  }
  if (options.with_offsets) ConvertOffsets(text, scratch, out);
  out->begin = 0;
  out->end = out->ids.size();
  return {};
}

void Cut(Tokens* tokens, size_t keep, TruncationSide side) {
  if (keep >= tokens->size()) return;
  if (side == TruncationSide::kRight) {
    tokens->end = tokens->begin + keep;
  } else {
    tokens->begin = tokens->end - keep;
  }
}

// Cuts one text or a pair down to `limit` tokens together.
Status Truncate(const EncodeOptions& options, size_t limit, Tokens* first, Tokens* second) {
  const size_t total = first->size() + (second != nullptr ? second->size() : 0);
  if (total <= limit) return {};
  if (second == nullptr || limit == 0) {
    Cut(first, limit, options.side);
    if (second != nullptr) Cut(second, limit, options.side);
    return {};
  }
  if (options.strategy == TruncationStrategy::kLongestFirst) {
    // The longer one loses tokens; once equal, both do, and the longer keeps the odd token.
    size_t low = first->size(), high = second->size();
    const bool swapped = low > high;
    if (swapped) std::swap(low, high);
    high = low > limit ? low : std::max(low, limit - low);
    if (low + high > limit) {
      low = limit / 2;
      high = low + limit % 2;
    }
    if (swapped) std::swap(low, high);
    Cut(first, low, options.side);
    Cut(second, high, options.side);
    return {};
  }
  const bool only_first = options.strategy == TruncationStrategy::kOnlyFirst;
  Tokens* target = only_first ? first : second;
  const size_t remove = total - limit;
  if (target->size() <= remove) {
    return Status::InvalidArgument(std::string("the ") + (only_first ? "second" : "first") +
                                       " text alone fills the limit of " +
                                       std::to_string(options.max_tokens) +
                                       " tokens, and only the other may be truncated",
                                   "max_tokens");
  }
  Cut(target, target->size() - remove, options.side);
  return {};
}

Status Pipeline::Assemble(const std::vector<TemplatePart>& parts, const EncodeOptions& options,
                          Tokens* const sequences[2], int count, Encoding* out) const {
  const size_t added = !options.add_special_tokens ? 0
                       : count == 2                ? parts_.post.added_pair
                                                   : parts_.post.added_single;
  size_t total = 0;
  for (int i = 0; i < count; ++i) total += sequences[i]->size();
  if (options.max_tokens > 0) {
    if (options.max_tokens < added) {
      return Status::InvalidArgument("limit of " + std::to_string(options.max_tokens) +
                                         " tokens is less than the " + std::to_string(added) +
                                         " special tokens",
                                     "max_tokens");
    }
    PENSTOCK_RETURN_IF_ERROR(Truncate(options, options.max_tokens - added, sequences[0],
                                      count == 2 ? sequences[1] : nullptr));
  }
  size_t kept = 0;
  for (int i = 0; i < count; ++i) kept += sequences[i]->size();
  out->truncated_tokens = total - kept;
  if (options.with_offsets) {
    for (const OffsetTrim& trim : parts_.post.trims) {
      for (int i = 0; i < count; ++i) TrimOffsets(trim, sequences[i]);
    }
  }
  for (const TemplatePart& part : parts) {
    size_t size = 0;
    if (part.sequence < 0) {
      if (!options.add_special_tokens) continue;
      size = part.ids.size();
      out->ids.insert(out->ids.end(), part.ids.begin(), part.ids.end());
      if (options.with_offsets) out->offsets.resize(out->offsets.size() + size);
    } else {
      const Tokens& tokens = *sequences[part.sequence];
      size = tokens.size();
      const auto begin = ptrdiff_t(tokens.begin), end = ptrdiff_t(tokens.end);
      out->ids.insert(out->ids.end(), tokens.ids.begin() + begin, tokens.ids.begin() + end);
      if (options.with_offsets) {
        out->offsets.insert(out->offsets.end(), tokens.offsets.begin() + begin,
                            tokens.offsets.begin() + end);
      }
    }
    out->type_ids.resize(out->ids.size(), part.type_id);
    out->special_mask.resize(out->ids.size(), part.sequence < 0);
    out->sequence_ids.resize(out->ids.size(), int8_t(part.sequence));
  }
  return {};
}

Status Pipeline::Encode(std::string_view text, const EncodeOptions& options, Encoding* out) const {
  ScratchLease scratch;
  out->Clear();
  PENSTOCK_RETURN_IF_ERROR(TokenizeText(text, options, scratch.get(), &scratch->first));
  Tokens* const sequences[2] = {&scratch->first, nullptr};
  return Assemble(parts_.post.has_template ? parts_.post.single : plain_single_, options, sequences,
                  1, out);
}

Status Pipeline::EncodePair(std::string_view first, std::string_view second,
                            const EncodeOptions& options, Encoding* out) const {
  ScratchLease scratch;
  out->Clear();
  PENSTOCK_RETURN_IF_ERROR(TokenizeText(first, options, scratch.get(), &scratch->first));
  PENSTOCK_RETURN_IF_ERROR(TokenizeText(second, options, scratch.get(), &scratch->second));
  Tokens* const sequences[2] = {&scratch->first, &scratch->second};
  return Assemble(parts_.post.has_template ? parts_.post.pair : plain_pair_, options, sequences, 2,
                  out);
}

Status Pipeline::EncodeTextUntil(std::string_view text, const StopCondition& stop,
                                 std::vector<int32_t>* ids) const {
  ScratchLease scratch;
  ids->clear();
  EncodeOptions options;
  options.stop = stop;
  PENSTOCK_RETURN_IF_ERROR(TokenizeText(text, options, scratch.get(), &scratch->first));
  *ids = scratch->first.ids;
  return {};
}

Status Pipeline::Combine(std::span<const int32_t> first, const std::span<const int32_t>* second,
                         const EncodeOptions& options, Encoding* out) const {
  PENSTOCK_CHECK(!options.with_offsets);
  ScratchLease scratch;
  out->Clear();
  const auto take = [](std::span<const int32_t> ids, Tokens* tokens) {
    tokens->Clear();
    tokens->ids.assign(ids.begin(), ids.end());
    tokens->begin = 0;
    tokens->end = ids.size();
  };
  take(first, &scratch->first);
  if (second != nullptr) take(*second, &scratch->second);
  Tokens* const sequences[2] = {&scratch->first, &scratch->second};
  if (second == nullptr) {
    return Assemble(parts_.post.has_template ? parts_.post.single : plain_single_, options,
                    sequences, 1, out);
  }
  return Assemble(parts_.post.has_template ? parts_.post.pair : plain_pair_, options, sequences, 2,
                  out);
}

std::string_view Pipeline::IdToToken(int32_t id) const {
  const auto it = added_of_id_.find(id);
  if (it != added_of_id_.end()) return parts_.added[it->second].pattern;
  return parts_.model->vocabulary().TokenOf(id);
}

int32_t Pipeline::TokenToId(std::string_view token) const {
  const int32_t id = added_vocabulary_.Find(token);
  return id >= 0 ? id : parts_.model->vocabulary().Find(token);
}

bool Pipeline::IsSpecial(int32_t id) const {
  const auto it = added_of_id_.find(id);
  return it != added_of_id_.end() && parts_.added[it->second].special;
}

bool Pipeline::DecodeToken(int32_t id, bool skip_special_tokens, std::string_view* token) const {
  if (added_of_id_.find(id) == added_of_id_.end() && !parts_.model->vocabulary().HasId(id)) {
    return false;
  }
  *token = IdToToken(id);
  // By the string, as in the reference: equal strings are all special.
  return !skip_special_tokens || special_contents_.Find(*token) < 0;
}

std::string Pipeline::Decode(std::span<const int32_t> ids, bool skip_special_tokens) const {
  DecodeRun run(parts_.decoder);
  for (int32_t id : ids) {
    std::string_view token;
    if (DecodeToken(id, skip_special_tokens, &token)) run.Push(token);
  }
  run.Finish();
  return run.Take();
}

class PipelineStream : public StreamDecoder {
 public:
  PipelineStream(const Pipeline& tokenizer, bool skip_special_tokens, std::vector<int32_t> shown)
      : tokenizer_(tokenizer),
        skip_(skip_special_tokens),
        shown_(std::move(shown)),
        run_(tokenizer.decoder(), true) {}
  std::string Push(int32_t id) override {
    const bool skip = skip_ && std::find(shown_.begin(), shown_.end(), id) == shown_.end();
    std::string_view token;
    if (!tokenizer_.DecodeToken(id, skip, &token)) return {};
    run_.Push(token);
    return run_.Take();
  }
  std::string Finish() override {
    run_.Finish();
    return run_.Take();
  }

 private:
  const Pipeline& tokenizer_;
  const bool skip_;
  const std::vector<int32_t> shown_;
  DecodeRun run_;
};

std::unique_ptr<StreamDecoder> Pipeline::NewStreamDecoder(bool skip_special_tokens,
                                                          std::vector<int32_t> shown) const {
  return std::make_unique<PipelineStream>(*this, skip_special_tokens, std::move(shown));
}

}  // namespace

Expected<std::unique_ptr<Tokenizer>> MakeTokenizer(TokenizerParts parts) {
  return Pipeline::Make(std::move(parts));
}

}  // namespace penstock::text

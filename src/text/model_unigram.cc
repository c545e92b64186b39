#include "text/model_unigram.h"

#include <algorithm>
#include <limits>

#include "unicode/utf8.h"

namespace penstock::text {

namespace {
constexpr double kUnkPenalty = 10.0;  // below the lowest score, as in SentencePiece
// Tokens looked at for a byte of a piece; a published vocabulary has some ten that end alike.
constexpr size_t kMaxMatchesPerByte = 400;
constexpr size_t kMaxMatchesBase = 1'000'000;
}  // namespace

UnigramModel::UnigramModel(Vocabulary vocabulary, std::vector<double> scores, int32_t unk_id,
                           bool byte_fallback)
    : vocabulary_(std::move(vocabulary)),
      scores_(std::move(scores)),
      unk_id_(unk_id),
      byte_fallback_(byte_fallback) {
  double lowest = std::numeric_limits<double>::infinity();
  for (double score : scores_) lowest = std::min(lowest, score);
  unk_score_ = lowest - kUnkPenalty;
  std::vector<std::pair<std::string_view, int32_t>> keys;
  for (int32_t id = 0; id <= vocabulary_.max_id(); ++id) {
    const std::string_view token = vocabulary_.TokenOf(id);
    if (!token.empty() && vocabulary_.Find(token) == id) keys.emplace_back(token, id);
  }
  if (vocabulary_.max_token_bytes() > kLongKey) ending_.Build(keys);
  trie_.Build(std::move(keys));
  static constexpr char kHex[] = "0123456789ABCDEF";
  for (int byte = 0; byte < 256; ++byte) {
    const char name[] = {'<', '0', 'x', kHex[byte >> 4], kHex[byte & 15], '>'};
    fallback_id_[byte] = vocabulary_.Find({name, sizeof(name)});
  }
}

// `text` lies at `begin` of the piece and is not a token of the vocabulary.
bool UnigramModel::EmitUnknown(std::string_view text, uint32_t begin,
                               std::vector<ModelToken>* out) const {
  const uint32_t end = begin + uint32_t(text.size());
  if (byte_fallback_ && std::all_of(text.begin(), text.end(), [&](char byte) {
        return fallback_id_[static_cast<unsigned char>(byte)] >= 0;
      })) {
    for (char byte : text) {
      out->push_back({fallback_id_[static_cast<unsigned char>(byte)], begin, end});
    }
    return true;
  }
  if (unk_id_ < 0) return false;
  out->push_back({unk_id_, begin, end});
  return true;
}

// An unknown character at [at, end), of which no token is known.
bool UnigramModel::OfferUnknown(uint32_t at, uint32_t end, Best* best) const {
  const double score = unk_score_ + best[at].score;
  if (best[end].start != kUnset && score <= best[end].score) return true;
  if (unk_id_ < 0) return false;
  best[end] = {score, unk_id_, at};
  return true;
}

// At most kLongKey steps a byte.
bool UnigramModel::ForwardShort(std::string_view piece, Work* work, Best* best) const {
  const uint32_t size = uint32_t(piece.size());
  size_t steps = 0;
  for (uint32_t at = 0; at < size;) {
    const double here = best[at].score;
    const uint32_t length = unicode::Utf8Length(static_cast<unsigned char>(piece[at]));
    bool has_single = false;
    uint32_t node = ByteTrie::kRoot, end = at;
    while (end < size) {
      node = trie_.Child(node, static_cast<unsigned char>(piece[end]));
      if (node == ByteTrie::kNone) break;
      ++end;
      const int32_t id = trie_.Value(node);
      if (id < 0) continue;
      const double score = scores_[id] + here;
      if (best[end].start == kUnset || score > best[end].score) best[end] = {score, id, at};
      has_single = has_single || end == at + length;
    }
    if (!has_single && !OfferUnknown(at, at + length, best)) return false;
    steps += end - at;
    if (steps >= Work::kSlice) {
      if (!work->Spend(steps)) return false;
      steps = 0;
    }
    at += length;
  }
  return true;
}

bool UnigramModel::ForwardLong(std::string_view piece, Work* work, Best* best) const {
  const uint32_t size = uint32_t(piece.size());
  const size_t most = kMaxMatchesBase + kMaxMatchesPerByte * piece.size();
  size_t matches = 0, spent = 0;
  uint32_t state = TokenAutomaton::kStart;
  for (uint32_t at = 0, end = 0; at < size; at = end) {
    end = at + unicode::Utf8Length(static_cast<unsigned char>(piece[at]));
    for (uint32_t i = at; i < end; ++i) {
      state = ending_.Next(state, static_cast<unsigned char>(piece[i]));
    }
    bool has_single = false;
    for (uint32_t key = ending_.Longest(state); key != TokenAutomaton::kNone;
         key = ending_.Shorter(key), ++matches) {
      const uint32_t start = end - ending_.Length(key);
      const int32_t id = ending_.Value(key);
      const double score = scores_[id] + best[start].score;
      if (best[end].start == kUnset || score > best[end].score) best[end] = {score, id, start};
      has_single = has_single || start == at;
    }
    if (!has_single && !OfferUnknown(at, end, best)) return false;
    if (matches > most) {
      return work->Stop(
          {StatusCode::kUnprocessable, "vocabulary takes too many steps for this text"});
    }
    if (matches - spent >= Work::kSlice) {
      if (!work->Spend(matches - spent)) return false;
      spent = matches;
    }
  }
  return true;
}

bool UnigramModel::Tokenize(std::string_view piece, Work* work,
                            std::vector<ModelToken>* out) const {
  static thread_local std::vector<Best> best;
  static thread_local std::vector<ModelToken> backwards;
  const uint32_t size = uint32_t(piece.size());
  best.assign(size + 1, Best{0, 0, kUnset});
  const bool walk = ending_.empty() || size <= kLongKey;
  bool ok = walk ? ForwardShort(piece, work, best.data()) : ForwardLong(piece, work, best.data());
  if (!ok) {
    best = {};
    return false;
  }
  backwards.clear();
  for (uint32_t end = size; end > 0; end = best[end].start) {
    const Best& node = best[end];
    const bool unknown = node.id == unk_id_;
    if (unknown && !backwards.empty() && backwards.back().id == unk_id_) {
      backwards.back().begin = node.start;  // fuse
    } else {
      backwards.push_back({node.id, node.start, end});
    }
  }
  for (auto it = backwards.rbegin(); it != backwards.rend(); ++it) {
    if (it->id != unk_id_) {
      out->push_back(*it);
      continue;
    }
    // The joined text may still be a token, so its id is looked up by its text.
    const std::string_view text = piece.substr(it->begin, it->end - it->begin);
    const int32_t id = vocabulary_.Find(text);
    if (id >= 0) {
      out->push_back({id, it->begin, it->end});
    } else {
      ok = EmitUnknown(text, it->begin, out) && ok;
    }
  }
  if (best.capacity() > (1u << 16)) std::vector<Best>().swap(best);
  return ok;
}

}  // namespace penstock::text

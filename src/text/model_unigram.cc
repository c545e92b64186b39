#include "text/model_unigram.h"

#include <algorithm>
#include <limits>

#include "text/utf8.h"

namespace penstock {

namespace {
constexpr double kUnkPenalty = 10.0;  // below the lowest score, as in SentencePiece
}

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
  trie_.Build(std::move(keys));
  static constexpr char kHex[] = "0123456789ABCDEF";
  for (int byte = 0; byte < 256; ++byte) {
    const char name[] = {'<', '0', 'x', kHex[byte >> 4], kHex[byte & 15], '>'};
    fallback_id_[byte] = vocabulary_.Find({name, sizeof(name)});
  }
}

// `text` lies at `begin` of the piece and is no token of the vocabulary.
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

bool UnigramModel::Tokenize(std::string_view piece, std::vector<ModelToken>* out) const {
  struct Best {
    double score;
    int32_t id;
    uint32_t start;  // kUnset: no path ends here yet
  };
  constexpr uint32_t kUnset = 0xFFFFFFFF;
  static thread_local std::vector<Best> best;
  static thread_local std::vector<ModelToken> backwards;
  const uint32_t size = uint32_t(piece.size());
  best.assign(size + 1, Best{0, 0, kUnset});
  for (uint32_t at = 0; at < size;) {
    const double here = best[at].score;
    const uint32_t length = Utf8Length(static_cast<unsigned char>(piece[at]));
    bool has_single = false;
    const auto offer = [&](uint32_t end, double score, int32_t id) {
      Best& node = best[end];
      if (node.start == kUnset || score > node.score) node = {score, id, at};
    };
    uint32_t node = ByteTrie::kRoot;
    for (uint32_t end = at; end < size;) {
      node = trie_.Child(node, static_cast<unsigned char>(piece[end]));
      if (node == ByteTrie::kNone) break;
      ++end;
      const int32_t id = trie_.Value(node);
      if (id < 0) continue;
      offer(end, scores_[id] + here, id);
      has_single = has_single || end == at + length;
    }
    if (!has_single) {
      if (unk_id_ < 0 &&
          (best[at + length].start == kUnset || unk_score_ + here > best[at + length].score)) {
        return false;
      }
      offer(at + length, unk_score_ + here, unk_id_);
    }
    at += length;
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
  bool ok = true;
  for (auto it = backwards.rbegin(); it != backwards.rend(); ++it) {
    if (it->id != unk_id_) {
      out->push_back(*it);
      continue;
    }
    // What was put together may still be a token, and its id is looked up by its text.
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

}  // namespace penstock

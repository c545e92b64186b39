#include "text/model_wordpiece.h"

#include "unicode/utf8.h"

namespace penstock::text {

WordPieceModel::WordPieceModel(Vocabulary vocabulary, std::string_view unk_token,
                               std::string_view prefix, size_t max_chars_per_word)
    : vocabulary_(std::move(vocabulary)), max_chars_per_word_(max_chars_per_word) {
  std::vector<std::pair<std::string_view, int32_t>> keys;
  for (int32_t id = 0; id <= vocabulary_.max_id(); ++id) {
    const std::string_view token = vocabulary_.TokenOf(id);
    // A token that was given two ids keeps the one that Find gives.
    if (vocabulary_.HasId(id) && vocabulary_.Find(token) == id) keys.emplace_back(token, id);
  }
  std::vector<std::pair<std::string_view, int32_t>> continuing;
  for (const auto& [token, id] : keys) {
    if (token.size() > prefix.size() && token.starts_with(prefix)) {
      continuing.emplace_back(token.substr(prefix.size()), id);
    }
  }
  longest_.Build(continuing);
  trie_.Build(std::move(keys));
  continuing_ = trie_.Walk(ByteTrie::kRoot, prefix);
  unk_id_ = vocabulary_.Find(unk_token);
}

bool WordPieceModel::Tokenize(std::string_view piece, Work* work,
                              std::vector<ModelToken>* out) const {
  const auto unknown = [&] {
    if (unk_id_ < 0) return false;
    out->push_back({unk_id_, 0, uint32_t(piece.size())});
    return true;
  };
  if (piece.size() > max_chars_per_word_ && unicode::Utf8Count(piece) > max_chars_per_word_) {
    return unknown();
  }
  const size_t first = out->size();
  if (piece.size() > kLongKey) {
    if (longest_.empty() ? WalkLong(piece, work, out) : CoverLong(piece, out)) return true;
    out->resize(first);
    return work->status().ok() && unknown();
  }
  uint32_t node = ByteTrie::kRoot;
  for (size_t at = 0; at < piece.size();) {
    size_t length = 0;
    const int32_t id =
        node == ByteTrie::kNone ? -1 : trie_.Longest(node, piece.substr(at), &length);
    if (id < 0) {
      out->resize(first);
      return unknown();
    }
    out->push_back({id, uint32_t(at), uint32_t(at + length)});
    at += length;
    node = continuing_;
  }
  return true;
}

// At most kLongKey steps a byte.
bool WordPieceModel::WalkLong(std::string_view piece, Work* work,
                              std::vector<ModelToken>* out) const {
  uint32_t node = ByteTrie::kRoot;
  for (size_t at = 0; at < piece.size();) {
    if (!work->Spend(kLongKey)) return false;
    size_t length = 0;
    const int32_t id =
        node == ByteTrie::kNone ? -1 : trie_.Longest(node, piece.substr(at), &length);
    if (id < 0) return false;
    out->push_back({id, uint32_t(at), uint32_t(at + length)});
    at += length;
    node = continuing_;
  }
  return true;
}

// Two steps a byte.
bool WordPieceModel::CoverLong(std::string_view piece, std::vector<ModelToken>* out) const {
  size_t length = 0;
  const int32_t first = trie_.Longest(ByteTrie::kRoot, piece, &length);
  if (first < 0) return false;
  out->push_back({first, 0, uint32_t(length)});
  std::vector<LongestKeys::Match> matches;
  const size_t begin = length;
  longest_.Find(piece.substr(begin), &matches);
  for (size_t at = begin; at < piece.size();) {
    const LongestKeys::Match& match = matches[at - begin];
    if (match.value < 0) return false;
    out->push_back({match.value, uint32_t(at), uint32_t(at + match.length)});
    at += match.length;
  }
  return true;
}

WordLevelModel::WordLevelModel(Vocabulary vocabulary, std::string_view unk_token)
    : vocabulary_(std::move(vocabulary)), unk_id_(vocabulary_.Find(unk_token)) {}

bool WordLevelModel::Tokenize(std::string_view piece, Work*, std::vector<ModelToken>* out) const {
  int32_t id = vocabulary_.Find(piece);
  if (id < 0) id = unk_id_;
  if (id < 0) return false;
  out->push_back({id, 0, uint32_t(piece.size())});
  return true;
}

}  // namespace penstock::text

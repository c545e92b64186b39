#include "text/added_tokens.h"

#include <cstring>

#include "base/printable.h"
#include "unicode/unicode.h"
#include "unicode/utf8.h"

namespace penstock::text {

Status AddedTokenMatcher::Build(const std::vector<AddedToken>& tokens, bool normalized) {
  tokens_ = &tokens;
  std::vector<std::pair<std::string_view, int32_t>> keys;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i].normalized != normalized) continue;
    if (tokens[i].pattern.empty()) {
      return Status::InvalidArgument("token " + Shown(tokens[i].content) + " normalises to nothing",
                                     "added_tokens");
    }
    keys.emplace_back(tokens[i].pattern, int32_t(i));
    const auto start = static_cast<unsigned char>(tokens[i].pattern[0]);
    only_start_ = keys.size() == 1 || only_start_ == start ? start : -1;
    starts_[start] = true;
  }
  Vocabulary seen;
  for (const auto& [pattern, index] : keys) seen.Add(pattern, index);
  seen.Build();
  if (seen.size() != keys.size()) {
    return Status::InvalidArgument("two tokens are equal once normalised", "added_tokens");
  }
  longest_.Build(keys);
  trie_.Build(std::move(keys));
  return {};
}

namespace {

// The first byte from `at` with starts[byte], or `end`; `only`: the one such byte, or -1. Cut
// spends most of its time in this loop, which is a function of its own because Cut has no register
// left for it.
[[gnu::noinline]] const unsigned char* NextStart(const bool* starts, int only,
                                                 const unsigned char* at,
                                                 const unsigned char* end) {
  if (only >= 0) {
    const void* const found = std::memchr(at, only, static_cast<size_t>(end - at));
    return found == nullptr ? end : static_cast<const unsigned char*>(found);
  }
  while (at < end && !starts[*at]) ++at;
  return at;
}

}  // namespace

Status AddedTokenMatcher::Cut(std::string_view text, uint32_t begin, uint32_t end,
                              std::vector<Piece>* out) const {
  const std::string_view all = text.substr(0, end);
  uint32_t done = begin;  // all before this is in a piece
  const size_t first_piece = out->size();
  const auto emit = [out](uint32_t b, uint32_t e, int32_t token) {
    if (b < e) out->push_back({b, e, token});
  };
  std::vector<LongestKeys::Match> matches;  // at each byte from `begin`
  if (!longest_.empty()) longest_.Find(all.substr(begin), &matches);
  const auto before = [&](uint32_t at) {
    int length;
    return unicode::UnicodeProps(unicode::DecodeUtf8Before(all.data() + at, &length));
  };
  const auto after = [&](uint32_t at, int* length) {
    return unicode::UnicodeProps(unicode::DecodeUtf8(all.data() + at, length));
  };
  uint32_t spaces_begin = 0, spaces_end = 0;  // of the last run that a token took on its right
  const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
  const LongestKeys::Match* found = matches.empty() ? nullptr : matches.data();
  for (uint32_t at = begin; at < end;) {
    at = uint32_t(NextStart(starts_, only_start_, bytes + at, bytes + end) - bytes);
    if (at == end) break;
    size_t length = 0;
    int32_t index;
    if (found == nullptr) {
      index = trie_.Longest(ByteTrie::kRoot, {text.data() + at, end - at}, &length);
    } else {
      index = found[at - begin].value;
      length = found[at - begin].length;
    }
    if (index < 0) {
      ++at;
      continue;
    }
    const AddedToken& token = (*tokens_)[index];
    uint32_t start = at, stop = at + uint32_t(length);
    at = stop;
    int char_length = 0;
    if (token.single_word && ((start > begin && (before(start) & unicode::kUniWord)) ||
                              (stop < end && (after(stop, &char_length) & unicode::kUniWord)))) {
      continue;
    }
    if (token.lstrip) {
      // Not into what an earlier token took.
      while (start > begin && start > done && (before(start) & unicode::kUniSpace)) {
        do --start;
        while (unicode::IsUtf8Continuation(static_cast<unsigned char>(all[start])));
      }
    }
    if (token.rstrip) {
      // A match within a run of spaces goes to its end, which was found before.
      const uint32_t from = stop;
      if (from >= spaces_begin && from < spaces_end) stop = spaces_end;
      while (stop < end && (after(stop, &char_length) & unicode::kUniSpace)) stop += char_length;
      spaces_begin = from;
      spaces_end = stop;
    }
    emit(done, start, -1);
    emit(start, stop, index);
    done = stop;
  }
  emit(done, end, -1);
  size_t covered = 0;
  for (size_t i = first_piece; i < out->size(); ++i) covered += (*out)[i].end - (*out)[i].begin;
  if (covered > GrowthLimit(end - begin)) {
    return {StatusCode::kUnprocessable, "added tokens overlap too often in this text"};
  }
  return {};
}

}  // namespace penstock::text

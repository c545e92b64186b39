#include "text/added_tokens.h"

#include "text/unicode.h"
#include "text/utf8.h"

namespace penstock {

Status AddedTokenMatcher::Build(const std::vector<AddedToken>& tokens, bool normalized) {
  tokens_ = &tokens;
  std::vector<std::pair<std::string_view, int32_t>> keys;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i].normalized != normalized) continue;
    if (tokens[i].pattern.empty()) {
      return Status::InvalidArgument("token " + tokens[i].content + " normalises to nothing",
                                     "added_tokens");
    }
    keys.emplace_back(tokens[i].pattern, int32_t(i));
    starts_[static_cast<unsigned char>(tokens[i].pattern[0])] = true;
  }
  Vocabulary seen;
  for (const auto& [pattern, index] : keys) seen.Add(pattern, index);
  seen.Build();
  if (seen.size() != keys.size()) {
    return Status::InvalidArgument("two tokens are equal once normalised", "added_tokens");
  }
  trie_.Build(std::move(keys));
  return {};
}

void AddedTokenMatcher::Cut(std::string_view text, uint32_t begin, uint32_t end,
                            std::vector<Piece>* out) const {
  const std::string_view all = text.substr(0, end);
  uint32_t done = begin;  // all before this is in a piece
  const auto emit = [out](uint32_t b, uint32_t e, int32_t token) {
    if (b < e) out->push_back({b, e, token});
  };
  const auto before = [&](uint32_t at) {
    int length;
    return UnicodeProps(DecodeUtf8Before(all.data() + at, &length));
  };
  const auto after = [&](uint32_t at, int* length) {
    return UnicodeProps(DecodeUtf8(all.data() + at, length));
  };
  for (uint32_t at = begin; at < end;) {
    if (!starts_[static_cast<unsigned char>(all[at])]) {
      ++at;
      continue;
    }
    size_t length = 0;
    const int32_t index = trie_.Longest(ByteTrie::kRoot, all.substr(at), &length);
    if (index < 0) {
      ++at;
      continue;
    }
    const AddedToken& token = (*tokens_)[index];
    uint32_t start = at, stop = at + uint32_t(length);
    at = stop;
    int char_length = 0;
    if (token.single_word && ((start > begin && (before(start) & kUniWord)) ||
                              (stop < end && (after(stop, &char_length) & kUniWord)))) {
      continue;
    }
    if (token.lstrip) {
      // Not into what an earlier token took.
      while (start > begin && start > done && (before(start) & kUniSpace)) {
        do --start;
        while (IsUtf8Continuation(static_cast<unsigned char>(all[start])));
      }
    }
    if (token.rstrip) {
      while (stop < end && (after(stop, &char_length) & kUniSpace)) stop += char_length;
    }
    emit(done, start, -1);
    emit(start, stop, index);
    done = stop;
  }
  emit(done, end, -1);
}

}  // namespace penstock

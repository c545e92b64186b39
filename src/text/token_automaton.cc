#include "text/token_automaton.h"

#include <algorithm>

namespace penstock::text {

void TokenAutomaton::Build(std::vector<std::pair<std::string_view, int32_t>> keys) {
  trie_.Build(std::move(keys));
  const uint32_t count = trie_.size();
  shorter_.assign(count, kStart);
  ending_.assign(count, kNone);
  depth_.assign(count, 0);
  // Parents come before their children, and shorter states before longer ones.
  for (uint32_t parent = 0; parent < count; ++parent) {
    const uint32_t first = trie_.FirstChild(parent);
    for (uint32_t child = first; child < first + trie_.Children(parent); ++child) {
      depth_[child] = depth_[parent] + 1;
      if (parent != kStart) shorter_[child] = Next(shorter_[parent], trie_.Label(child));
      ending_[child] = trie_.Value(child) >= 0 ? child : ending_[shorter_[child]];
    }
  }
}

void LongestKeys::Build(const std::vector<std::pair<std::string_view, int32_t>>& keys) {
  const bool any_long = std::any_of(keys.begin(), keys.end(),
                                    [](const auto& key) { return key.first.size() > kLongKey; });
  if (!any_long) return;
  std::string pool;
  size_t bytes = 0;
  for (const auto& [key, value] : keys) bytes += key.size();
  pool.reserve(bytes);  // views into it stay
  std::vector<std::pair<std::string_view, int32_t>> reversed;
  reversed.reserve(keys.size());
  for (const auto& [key, value] : keys) {
    const size_t begin = pool.size();
    pool.append(key.rbegin(), key.rend());
    reversed.emplace_back(std::string_view(pool).substr(begin), value);
  }
  backwards_.Build(std::move(reversed));
}

void LongestKeys::Find(std::string_view text, std::vector<Match>* out) const {
  out->resize(text.size());
  uint32_t state = TokenAutomaton::kStart;
  for (size_t at = text.size(); at-- > 0;) {
    state = backwards_.Next(state, static_cast<unsigned char>(text[at]));
    const uint32_t key = backwards_.Longest(state);
    (*out)[at] = key == TokenAutomaton::kNone
                     ? Match{-1, 0}
                     : Match{backwards_.Value(key), backwards_.Length(key)};
  }
}

}  // namespace penstock::text

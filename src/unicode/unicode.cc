#include "unicode/unicode.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "base/seeded_hash.h"
#include "unicode/unicode_tables.h"
#include "unicode/utf8.h"

namespace penstock::unicode {
namespace {

constexpr uint32_t kSBase = 0xAC00, kLBase = 0x1100, kVBase = 0x1161, kTBase = 0x11A7;
constexpr uint32_t kLCount = 19, kVCount = 21, kTCount = 28, kNCount = kVCount * kTCount;

// `first` followed by `second` composes to `composed`.
struct Pair {
  uint32_t first, second, composed;
};

std::vector<Pair> AllPairs() {
  std::vector<Pair> pairs;
  const uint32_t* const end = tables::kComposition + tables::kCompositionCount;
  for (const uint32_t* at = tables::kComposition; at != end;) {
    const uint32_t second = at[0], count = at[1];
    at += 2;
    for (uint32_t i = 0; i < count; ++i, at += 2) pairs.push_back({at[0], second, at[1]});
  }
  return pairs;
}

// A mapping of unicode_tables.h, unfolded, with an index by code point.
class Mapping {
 public:
  // `pairs`: what they compose to is mapped to its decomposition.
  Mapping(const uint32_t* blocks, size_t count, std::span<const Pair> pairs = {}) {
    Entries entries;
    for (const uint32_t* const end = blocks + count; blocks != end;) {
      blocks = Unfold(blocks, &entries);
    }
    AddComposed(pairs, &entries);
    std::sort(entries.begin(), entries.end());
    for (const auto& [key, at] : entries) {
      keys_.push_back(key);
      at_.push_back(at);
    }
  }
  std::span<const uint32_t> Find(char32_t c) const {
    const auto it = std::lower_bound(keys_.begin(), keys_.end(), uint32_t(c));
    if (it == keys_.end() || *it != c) return {};
    const uint32_t* entry = texts_.data() + at_[it - keys_.begin()];
    return {entry + 1, entry[0]};
  }
  const std::vector<uint32_t>& keys() const { return keys_; }

 private:
  using Entries = std::vector<std::pair<uint32_t, uint32_t>>;  // code point, place in texts_

  // The end of the block.
  const uint32_t* Unfold(const uint32_t* block, Entries* entries) {
    const uint32_t first = block[0], count = block[1], length = block[2], step = block[3];
    const uint32_t rising = step == 0 ? 0 : block[4];
    const uint32_t* text = block + (step == 0 ? 4 : 5);
    for (uint32_t n = 0; n < count; ++n) {
      entries->emplace_back(first + n * std::max(step, 1u), texts_.size());
      texts_.push_back(length);
      for (uint32_t i = 0; i < length; ++i) {
        texts_.push_back(text[i] + (rising >> i & 1) * n * step);
      }
      if (step == 0) text += length;
    }
    return step == 0 ? text : text + length;
  }

  void AddComposed(std::span<const Pair> pairs, Entries* entries) {
    std::unordered_map<uint32_t, const Pair*> pair_of;
    for (const Pair& pair : pairs) pair_of.emplace(pair.composed, &pair);
    for (const Pair& pair : pairs) {
      // The first of a pair may be composed itself, the second is not.
      std::vector<uint32_t> text = {pair.second, pair.first};
      for (auto it = pair_of.find(pair.first); it != pair_of.end();
           it = pair_of.find(text.back())) {
        text.back() = it->second->second;
        text.push_back(it->second->first);
      }
      entries->emplace_back(pair.composed, texts_.size());
      texts_.push_back(static_cast<uint32_t>(text.size()));
      texts_.insert(texts_.end(), text.rbegin(), text.rend());
    }
  }

  std::vector<uint32_t> keys_, at_;
  std::vector<uint32_t> texts_;  // each: its length, then its code points
};

struct Tables {
  UnicodeTable props;
  Mapping lower{tables::kLowercase, tables::kLowercaseCount};
  std::vector<Pair> pairs = AllPairs();
  Mapping canonical{tables::kCanonical, tables::kCanonicalCount, pairs};
  Mapping compatible{tables::kCompatible, tables::kCompatibleCount};
  std::unordered_map<uint64_t, uint32_t> compositions;

  Tables();
};

uint32_t RunValue(const tables::Run* runs, size_t count, char32_t c) {
  const auto* it = std::upper_bound(runs, runs + count, uint32_t(c),
                                    [](uint32_t v, const tables::Run& r) { return v < r.start; });
  return (it - 1)->value;
}

Tables::Tables() {
  std::vector<uint32_t> flat(0x110000);
  for (size_t i = 0; i < tables::kPropertyRunsCount; ++i) {
    const uint32_t end =
        i + 1 < tables::kPropertyRunsCount ? tables::kPropertyRuns[i + 1].start : 0x110000;
    std::fill(flat.begin() + tables::kPropertyRuns[i].start, flat.begin() + end,
              tables::kPropertyValues[tables::kPropertyRuns[i].value]);
  }
  for (size_t i = 0; i < tables::kPeriodicRunsCount; ++i) {
    const tables::PeriodicRun& run = tables::kPeriodicRuns[i];
    for (uint32_t c = run.start; c < run.end; ++c) {
      flat[c] = tables::kPropertyValues[(c - run.start) % run.period == 0 ? run.value : run.other];
    }
  }
  for (size_t i = 0; i < tables::kCombiningRunsCount; ++i) {
    const uint32_t end =
        i + 1 < tables::kCombiningRunsCount ? tables::kCombiningRuns[i + 1].start : 0x110000;
    if (tables::kCombiningRuns[i].value == 0) continue;
    for (uint32_t c = tables::kCombiningRuns[i].start; c < end; ++c) flat[c] |= kUniCombining;
  }
  for (const Pair& pair : pairs) {
    compositions.emplace(uint64_t(pair.first) << 32 | pair.second, pair.composed);
    flat[pair.second] |= kUniComposesBack;
  }
  for (uint32_t c = kVBase; c < kVBase + kVCount; ++c) flat[c] |= kUniComposesBack;
  for (uint32_t c = kTBase + 1; c < kTBase + kTCount; ++c) flat[c] |= kUniComposesBack;
  for (uint32_t c : lower.keys()) flat[c] |= kUniHasLower;
  for (uint32_t c : canonical.keys()) {
    flat[c] |= kUniHasCanonical | kUniHasCompatible | kUniNfcChanges | kUniNfkcChanges;
  }
  // A character that some pair composes to is its own NFC (the generator made sure).
  for (const Pair& pair : pairs) {
    flat[pair.composed] &= ~uint32_t(kUniNfcChanges | kUniNfkcChanges);
  }
  for (uint32_t c : compatible.keys()) flat[c] |= kUniHasCompatible | kUniNfkcChanges;
  for (uint32_t c = kSBase; c < kSBase + kLCount * kNCount; ++c) {
    flat[c] |= kUniHasCanonical | kUniHasCompatible;
  }

  SeededMap<std::string_view, uint16_t> seen;
  props.blocks.reserve(1 << 16);
  for (uint32_t block = 0; block < 0x110000 / 128; ++block) {
    const uint32_t* data = flat.data() + block * 128;
    const std::string_view key(reinterpret_cast<const char*>(data), 128 * sizeof(uint32_t));
    const auto [it, inserted] = seen.emplace(key, static_cast<uint16_t>(props.blocks.size() / 128));
    if (inserted) props.blocks.insert(props.blocks.end(), data, data + 128);
    props.block_of.push_back(it->second);
  }
}

const Tables& GetTables() {
  static const Tables tables;
  return tables;
}

}  // namespace

const UnicodeTable& UnicodePropertyTable() {
  static const UnicodeTable& table = GetTables().props;
  return table;
}

uint32_t UnicodeCategoryMaskByName(std::string_view name) {
  static constexpr const char* kNames[] = {
      "Cn", "Cc", "Cf", "Co", "Cs", "Ll", "Lm", "Lo", "Lt", "Lu", "Mc", "Me", "Mn", "Nd", "Nl",
      "No", "Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "Sc", "Sk", "Sm", "So", "Zl", "Zp", "Zs"};
  uint32_t mask = 0;
  for (size_t i = 0; i < std::size(kNames); ++i) {
    if (name == kNames[i] || (name.size() == 1 && name[0] == kNames[i][0])) mask |= 1u << i;
  }
  return mask;
}

uint8_t CombiningClass(char32_t c) {
  if (!(UnicodeProps(c) & kUniCombining)) return 0;
  return static_cast<uint8_t>(RunValue(tables::kCombiningRuns, tables::kCombiningRunsCount, c));
}

std::span<const uint32_t> LowercaseOf(char32_t c) { return GetTables().lower.Find(c); }

std::span<const uint32_t> CanonicalDecomposition(char32_t c) {
  return GetTables().canonical.Find(c);
}

std::span<const uint32_t> CompatibleDecomposition(char32_t c) {
  const auto found = GetTables().compatible.Find(c);
  return found.empty() ? GetTables().canonical.Find(c) : found;
}

int DecomposeHangul(char32_t c, char32_t out[3]) {
  const uint32_t index = c - kSBase;
  out[0] = kLBase + index / kNCount;
  out[1] = kVBase + index % kNCount / kTCount;
  if (index % kTCount == 0) return 2;
  out[2] = kTBase + index % kTCount;
  return 3;
}

char32_t ComposePair(char32_t first, char32_t second) {
  if (first >= kLBase && first < kLBase + kLCount && second >= kVBase &&
      second < kVBase + kVCount) {
    return kSBase + (first - kLBase) * kNCount + (second - kVBase) * kTCount;
  }
  if (IsHangulSyllable(first) && (first - kSBase) % kTCount == 0 && second > kTBase &&
      second < kTBase + kTCount) {
    return first + (second - kTBase);
  }
  if (!(UnicodeProps(second) & kUniComposesBack)) return 0;
  const auto& map = GetTables().compositions;
  const auto it = map.find(uint64_t(first) << 32 | second);
  return it == map.end() ? 0 : it->second;
}

bool EqualsIgnoreCase(char32_t c, char letter) {
  const char lower = static_cast<char>(letter | 0x20);
  if (c < 0x80) return char(c | 0x20) == lower && ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
  for (size_t i = 0; i < tables::kCaseFoldCount; ++i) {
    if (tables::kCaseFold[i].start == uint32_t(lower) && tables::kCaseFold[i].value == c) {
      return true;
    }
  }
  return false;
}

std::vector<char32_t> CaseVariants(char letter) {
  std::vector<char32_t> out;
  for (size_t i = 0; i < tables::kCaseFoldCount; ++i) {
    if (tables::kCaseFold[i].start == uint32_t(letter)) out.push_back(tables::kCaseFold[i].value);
  }
  return out;
}

namespace {

// The state of the cluster so far that the rules of UAX #29 need.
struct ClusterState {
  GraphemeBreak last;
  bool pictograph_then_extends;  // Extended_Pictographic Extend* [ZWJ]
  bool odd_regional;             // an odd number of Regional_Indicator in a row
  bool indic_consonant;          // Consonant, then only Extend, ZWJ and Linker
  bool indic_linker;             // ... of which one was a Linker
};

bool BreaksBetween(const ClusterState& state, uint32_t props) {
  using GB = GraphemeBreak;
  const GB last = state.last, next = GraphemeBreakOf(props);
  const auto is_control = [](GB g) { return g == GB::kCR || g == GB::kLF || g == GB::kControl; };
  if (last == GB::kCR && next == GB::kLF) return false;   // GB3
  if (is_control(last) || is_control(next)) return true;  // GB4, GB5
  if (last == GB::kL && (next == GB::kL || next == GB::kV || next == GB::kLV || next == GB::kLVT))
    return false;  // GB6
  if ((last == GB::kLV || last == GB::kV) && (next == GB::kV || next == GB::kT)) return false;
  if ((last == GB::kLVT || last == GB::kT) && next == GB::kT) return false;  // GB8
  if (next == GB::kExtend || next == GB::kZwj || next == GB::kSpacing) return false;
  if (last == GB::kPrepend) return false;                                // GB9b
  if (state.indic_linker && (props & kUniIndicConsonant)) return false;  // GB9c
  if (last == GB::kZwj && state.pictograph_then_extends && (props & kUniPictograph)) return false;
  if (last == GB::kRegional && next == GB::kRegional && state.odd_regional) return false;
  return true;
}

void Advance(uint32_t props, ClusterState* state) {
  using GB = GraphemeBreak;
  const GB next = GraphemeBreakOf(props);
  const bool extends = next == GB::kExtend || next == GB::kZwj;
  if (props & kUniPictograph) {
    state->pictograph_then_extends = true;
  } else if (!extends || state->last == GB::kZwj) {
    state->pictograph_then_extends = false;
  }
  state->odd_regional = next == GB::kRegional && !state->odd_regional;
  if (props & kUniIndicConsonant) {
    state->indic_consonant = true;
    state->indic_linker = false;
  } else if (state->indic_consonant && (props & kUniIndicLinker)) {
    state->indic_linker = true;
  } else if (!extends) {
    state->indic_consonant = state->indic_linker = false;
  }
  state->last = next;
}

}  // namespace

size_t GraphemeLength(std::string_view text) {
  if (text.empty()) return 0;
  const UnicodeTable& table = UnicodePropertyTable();
  ClusterState state{GraphemeBreak::kOther, false, false, false, false};
  size_t at = 0;
  while (at < text.size()) {
    int length = 0;
    const uint32_t props = table.Get(DecodeUtf8(text.data() + at, &length));
    if (at > 0 && BreaksBetween(state, props)) break;
    Advance(props, &state);
    at += length;
  }
  return at;
}

}  // namespace penstock::unicode

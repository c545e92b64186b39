// IdSet: which of the ids [0, size) are in a set, and its lowest and highest.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/int_math.h"

namespace penstock::kv {

// A bit an id; above these, levels of bits that say which words of the level below are not 0. An
// operation touches one word a level: 3 levels hold 262,144 ids. Memory is taken when it is made.
class IdSet {
 public:
  explicit IdSet(int32_t size) {
    size_t bits = static_cast<size_t>(std::max(size, 1));
    do {
      bits = CeilDiv(bits, size_t{64});
      levels_.emplace_back(bits);
    } while (bits > 1);
  }

  bool Has(int32_t id) const {
    const auto at = static_cast<size_t>(id);
    return (levels_[0][at / 64] >> (at % 64) & 1) != 0;
  }
  void Insert(int32_t id) {
    auto at = static_cast<size_t>(id);
    for (auto& level : levels_) {
      uint64_t& word = level[at / 64];
      const bool known_above = word != 0;
      word |= uint64_t{1} << (at % 64);
      if (known_above) return;
      at /= 64;
    }
  }
  void Erase(int32_t id) {
    auto at = static_cast<size_t>(id);
    for (auto& level : levels_) {
      uint64_t& word = level[at / 64];
      word &= ~(uint64_t{1} << (at % 64));
      if (word != 0) return;
      at /= 64;
    }
  }
  // -1: the set is empty.
  int32_t First() const {
    return Find([](uint64_t word) { return std::countr_zero(word); });
  }
  int32_t Last() const {
    return Find([](uint64_t word) { return 63 - std::countl_zero(word); });
  }

 private:
  template <typename Bit>
  int32_t Find(Bit bit) const {
    if (levels_.back()[0] == 0) return -1;
    size_t at = 0;
    for (auto level = levels_.rbegin(); level != levels_.rend(); ++level) {
      at = at * 64 + static_cast<size_t>(bit((*level)[at]));
    }
    return static_cast<int32_t>(at);
  }

  std::vector<std::vector<uint64_t>> levels_;  // the ids first
};

}  // namespace penstock::kv

// How often tokens occurred, for penalties: a hash table of the distinct tokens of one sequence. A
// token costs O(1), whatever the vocabulary; to begin anew costs what the last sequence had.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace penstock::sample {

class TokenCounts {
 public:
  struct Entry {
    int32_t id = 0;
    uint32_t generated = 0;  // times among all generated tokens
    uint32_t recent = 0;     // times in the window, prompt included
  };

  // Forgets all. `window`: how many of the last tokens of prompt and generated text are recent;
  // -1: all; 0: none. Memory for `tokens_max` tokens, at most `distinct_max` of them distinct, is
  // kept ready: up to these numbers nothing is allocated, beyond them the tables grow.
  void Reset(int32_t window, size_t tokens_max, size_t distinct_max = SIZE_MAX);

  // What Reset allocates at most.
  static int64_t HeapBytes(int32_t window, size_t tokens_max, size_t distinct_max);

  // Ids are at least 0. Only the end of a prompt that is longer than the window is read.
  void AddPrompt(std::span<const int32_t> ids);
  void AddGenerated(int32_t id);

  // Null: was not counted since Reset. Both counts are 0 once a token of the prompt left the
  // window.
  const Entry* Find(int32_t id) const;
  // Distinct tokens in the order in which they came first.
  std::span<const Entry> entries() const { return entries_; }

 private:
  Entry& At(int32_t id);
  size_t SlotOf(int32_t id) const;
  void Grow(size_t slots);
  void AddRecent(Entry& entry);

  std::vector<Entry> entries_;
  std::vector<uint32_t> slots_;  // 0: free, else 1 + an index into entries_; a power of two of them
  std::vector<int32_t> ring_;    // the last tokens, where there is a window
  size_t ring_next_ = 0;
  int32_t last_ = -1;
};

}  // namespace penstock::sample

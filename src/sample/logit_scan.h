// One pass over logits: are they numbers, which are the best, and the sums of exponentials.
//
// The threads that make the logits scan their part of the vocabulary while it is in their cache,
// each with a LogitScan of its own; the sampler scans a whole row with the same code. What a scan
// gives does not depend on how the vocabulary was cut: sums are kept for blocks of kLogitBlock ids,
// which are never cut, and the best are ordered by logit, equal ones by id.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace penstock::sample {

inline constexpr size_t kLogitBlock = 256;
// The best that a scan keeps at most.
inline constexpr size_t kCandidatesMax = 64;
// A logit that is larger, either sign, is as wrong as NaN: with a penalty it could leave the range
// of a float.
inline constexpr float kLogitMax = 1e30f;

struct Candidate {
  float logit = 0;
  int32_t id = 0;
};

// The order of tokens: the larger logit first, of equal ones the lower id.
inline bool Before(const Candidate& a, const Candidate& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

struct LogitBlock {
  float max = 0;
  float sum = 0;  // of exp(logit - max); 0 where sums were not asked for
};

inline size_t LogitBlocks(size_t vocabulary) {
  return (vocabulary + kLogitBlock - 1) / kLogitBlock;
}

// What a scan found in its part of the vocabulary.
struct LogitPart {
  std::span<const Candidate> best;  // in order
  bool dropped = false;             // there are tokens besides `best`, all behind its last
  // The lowest id whose logit is NaN, infinite or beyond kLogitMax; -1: none. If there is one,
  // `best` is of no use.
  int32_t bad_id = -1;
};

class LogitScan {
 public:
  // What it allocates.
  static constexpr size_t kHeapBytes = (2 * kCandidatesMax + kLogitBlock) * sizeof(Candidate);

  // Begins anew. `keep`: how many of the best, 1 to kCandidatesMax. Allocates at its first call
  // only.
  void Reset(size_t keep, bool sums);

  // Logits of the ids from `first_id`, a multiple of kLogitBlock, on; as many as are a multiple of
  // kLogitBlock, or as reach the end of the vocabulary. Parts may come in any order. `blocks`,
  // where not null, is the vocabulary's array (LogitBlocks entries), of which this part's are
  // written; it may be null without sums.
  void Add(std::span<const float> logits, size_t first_id, LogitBlock* blocks);

  // To be called after the last Add; valid until the next Reset.
  LogitPart Part();

 private:
  void AddBlock(const float* logits, size_t count, size_t first_id);
  void Shrink();

  std::vector<Candidate> kept_;  // unordered; at most 2 * kCandidatesMax + kLogitBlock
  Candidate last_;               // where `full_`: what comes behind it is dropped
  size_t keep_ = 1;
  int32_t bad_id_ = -1;
  bool sums_ = false;
  bool full_ = false;
  bool dropped_ = false;
};

// The logarithm of the sum of exp(logit) over the vocabulary, added up in the order of the blocks.
double LogSumExp(std::span<const LogitBlock> blocks);

}  // namespace penstock::sample

// The tables that tools/gen_unicode_tables.py writes. Only unicode.cc reads them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace penstock::unicode::tables {

// `value` holds from code point `start` up to the next run's start.
struct Run {
  uint32_t start;
  uint32_t value;
};
// From `start` up to `end`: `value` each time `period` code points have passed, else `other`.
struct PeriodicRun {
  uint32_t start, end, period, value, other;
};

// Bits of UnicodeBits in unicode.h; the values of both kinds of runs are indices into them.
extern const uint32_t kPropertyValues[];
extern const Run kPropertyRuns[];
extern const size_t kPropertyRunsCount;
extern const PeriodicRun kPeriodicRuns[];  // these come over the others
extern const size_t kPeriodicRunsCount;
extern const Run kCombiningRuns[];  // canonical combining class
extern const size_t kCombiningRunsCount;
// Mappings are blocks: first code point, how many, length of a text, step, then
// - step 0: the texts of that many code points in a row;
// - else: bits, then the text of the first. The others follow at the step, and rise by it in the
//   characters whose bits are set.
extern const uint32_t kLowercase[];
extern const size_t kLowercaseCount;
extern const uint32_t kCanonical[];  // full decompositions, without Hangul and kComposition
extern const size_t kCanonicalCount;
extern const uint32_t kCompatible[];  // only where it differs from kCanonical
extern const size_t kCompatibleCount;
// Pairs by their second character: it, how many, then of each pair the first and the composite.
extern const uint32_t kComposition[];
extern const size_t kCompositionCount;
// {ASCII letter, character past ASCII}: equal to the letter when case is ignored.
extern const Run kCaseFold[];
extern const size_t kCaseFoldCount;

}  // namespace penstock::unicode::tables

// Counts of an encoded request, and the stages to run.
#pragma once

#include <cstdint>

namespace penstock::encode {

// For measurements: which stages of a request are run. kTokenize stops before the model and answers
// zeros; kInfer makes up as many ids as a text may have, from its length in bytes.
enum class RunStages { kAll, kTokenize, kInfer };

struct Usage {
  int64_t prompt_tokens = 0;  // of all inputs, those a cache knew included
};

struct Truncation {
  int64_t inputs = 0;  // how many inputs were cut
  int64_t tokens = 0;  // how many tokens were cut off, of the text that was read
  // Bytes of texts that were cut off without being read (limited_text.h). Where this is not 0,
  // `tokens` is less than the number cut.
  int64_t unread_bytes = 0;
};

}  // namespace penstock::encode

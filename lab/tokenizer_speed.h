// How fast a tokenizer is by itself: bytes of text a second of one thread, without a cache of texts.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "load/records.h"

namespace penstock::lab {

struct TokenizerSpeedOptions {
  std::string tokenizer;           // tokenizer.json, or a .gguf file
  std::vector<std::string> texts;  // files
  size_t text_bytes = 1000;        // of a text, about: files are cut where words end
  int rounds = 5;                  // the best counts
  std::string name;                // what records call the tokenizer; "": its kind
};

// Prints a line; adds tokenizers.<name>.mb_per_s, .tokens_per_s. Errors: those of the files.
Status MeasureTokenizerSpeed(const TokenizerSpeedOptions& options, load::BenchRecords* records);

}  // namespace penstock::lab

// The pre-tokenizers of byte-level tokenizers in GGUF files, which a file names (key
// tokenizer.ggml.pre) instead of writing their patterns down.
//
// A kind does here what the tokenizer.json of the models it is named after does: normalises to NFC
// where they do, and cuts with their patterns. Names and defaults: llama.cpp, src/llama-vocab.cpp.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/pre_tokenizers.h"

namespace penstock::text {

struct GgufPreKind {
  std::vector<std::unique_ptr<PreTokenizer>> steps;
  bool bytes = true;  // the model reads pieces by bytes; else the steps have spelt them out
  bool nfc = false;   // texts are normalised to NFC first
  bool ignore_merges = false;  // a piece that is a token as a whole is that token
  bool add_bos = false;        // where tokenizer.ggml.add_bos_token is absent
  bool add_sep = false;        // the same for add_sep_token
  bool mask_lstrip = false;    // the mask token takes the spaces before it
};

// kUnsupported: the name is not known; lists those that are.
Expected<GgufPreKind> MakeGgufPreKind(std::string_view name);

// All names, sorted.
std::vector<std::string_view> GgufPreKindNames();

}  // namespace penstock::text

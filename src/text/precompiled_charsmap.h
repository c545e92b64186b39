// SentencePiece's precompiled_charsmap: a double-array trie (Darts) from byte strings to
// offsets into a block of NUL-ended replacements. Layout: u32 bytes of the trie, the trie's u32
// units, the block. Source: the format of sentencepiece's Normalizer and of darts-clone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace penstock::text {

class PrecompiledCharsmap {
 public:
  // `base64`: the field of a tokenizer.json.
  static Expected<PrecompiledCharsmap> FromBase64(std::string_view base64);
  static Expected<PrecompiledCharsmap> FromBytes(std::string_view blob);

  // Replacement of the SHORTEST key that starts `text`, or nothing. (Shortest, and of a prefix,
  // is what the reference does.)
  std::optional<std::string_view> Find(std::string_view text) const;

 private:
  std::vector<uint32_t> units_;
  std::string replacements_;
};

}  // namespace penstock::text

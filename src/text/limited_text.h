// Tokens of a text that will be cut to a limit; reads the text only as far as the limit needs.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/tokenizer.h"

namespace penstock::text {

// As Tokenizer::EncodeText, perhaps through a cache.
using EncodeTextFn = std::function<Status(std::string_view text, std::vector<int32_t>* ids)>;

struct LimitedTokens {
  // All tokens of the text; or, with unread_bytes > 0, more than `limit` of its first (cutting on
  // the right) or of its last (on the left).
  std::vector<int32_t> ids;
  size_t unread_bytes = 0;
};

// Texts of up to about this many times `limit` bytes are read whole: that costs little, and the
// number of tokens cut off is exact. English prose has 4 to 5 bytes a token.
inline constexpr size_t kWholeTextBytesPerToken = 12;

// `limit` > 0. Tokenizer::Combine of the ids to at most `limit` tokens of this text gives the same
// as for all its tokens, except that truncated_tokens does not count unread ones. Reads windows of
// 6, 12, ... bytes for each token; all of the text where the tokenizer finds no cut in a window.
Status EncodeLimited(const Tokenizer& tokenizer, std::string_view text, size_t limit,
                     TruncationSide side, const EncodeTextFn& encode, LimitedTokens* out);

// Whether a pair can be cut to `limit` tokens together (longest first) though texts were not read
// to their ends: if both are over the limit and it is odd, the longer one keeps a token more, so
// their lengths must be known.
bool PairCanBeCut(const LimitedTokens& first, const LimitedTokens& second, size_t limit);

}  // namespace penstock::text

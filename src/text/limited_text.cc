#include "text/limited_text.h"

#include <algorithm>

namespace penstock::text {

Status EncodeLimited(const Tokenizer& tokenizer, std::string_view text, size_t limit,
                     TruncationSide side, const EncodeTextFn& encode, LimitedTokens* out) {
  out->unread_bytes = 0;
  const bool right = side == TruncationSide::kRight;
  // Twice the window is the text: then it is read whole.
  for (size_t window = std::max<size_t>(limit * kWholeTextBytesPerToken / 2, 64);
       window < text.size() / 2; window *= 2) {
    // On the left a cut further back only makes the window longer.
    const size_t at = right ? tokenizer.CutBefore(text, window / 2, window, false)
                            : tokenizer.CutBefore(text, text.size() - 2 * window + window / 2,
                                                  text.size() - window, true);
    if (at == Tokenizer::kNoCut) continue;
    PENSTOCK_RETURN_IF_ERROR(encode(right ? text.substr(0, at) : text.substr(at), &out->ids));
    if (out->ids.size() > limit) {
      out->unread_bytes = right ? text.size() - at : at;
      return Status::Ok();
    }
  }
  return encode(text, &out->ids);
}

bool PairCanBeCut(const LimitedTokens& first, const LimitedTokens& second, size_t limit) {
  if (first.unread_bytes == 0 && second.unread_bytes == 0) return true;
  return limit % 2 == 0 || first.ids.size() <= limit || second.ids.size() <= limit;
}

}  // namespace penstock::text

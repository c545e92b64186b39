// What must hold of any tokenizer, for the targets that make one.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"
#include "unicode/utf8.h"

namespace penstock::fuzz {

using Ids = std::vector<int32_t>;

inline size_t CodePoints(std::string_view text) {
  std::string clean;
  unicode::AppendSanitizedUtf8(text, &clean);
  return static_cast<size_t>(std::count_if(clean.begin(), clean.end(), [](char c) {
    return !unicode::IsUtf8Continuation(static_cast<unsigned char>(c));
  }));
}

inline void CheckShape(const text::Encoding& e, const text::EncodeOptions& options,
                       size_t points_max) {
  const size_t n = e.ids.size();
  PENSTOCK_CHECK(e.type_ids.size() == n && e.special_mask.size() == n);
  PENSTOCK_CHECK(e.sequence_ids.size() == n);
  PENSTOCK_CHECK(e.offsets.size() == (options.with_offsets ? n : 0));
  PENSTOCK_CHECK(options.max_tokens == 0 || n <= options.max_tokens);
  for (const int32_t id : e.ids) PENSTOCK_CHECK(id >= 0);
  for (const text::TokenOffset& at : e.offsets) {
    PENSTOCK_CHECK(at.begin <= at.end && at.end <= points_max);
  }
}

// Encode is EncodeText and Combine.
inline void CheckHalves(const text::Tokenizer& tokenizer, std::string_view text,
                        std::string_view second, text::EncodeOptions options) {
  options.with_offsets = false;
  Ids first_ids, second_ids;
  if (!tokenizer.EncodeText(text, &first_ids).ok()) return;
  text::Encoding whole, combined;
  const Status encoded = tokenizer.Encode(text, options, &whole);
  PENSTOCK_CHECK(encoded.ok() == tokenizer.Combine(first_ids, nullptr, options, &combined).ok());
  if (encoded.ok()) PENSTOCK_CHECK(whole.ids == combined.ids);
  if (!tokenizer.EncodeText(second, &second_ids).ok()) return;
  const std::span<const int32_t> span(second_ids);
  const Status pair = tokenizer.EncodePair(text, second, options, &whole);
  PENSTOCK_CHECK(pair.ok() == tokenizer.Combine(first_ids, &span, options, &combined).ok());
  if (pair.ok()) PENSTOCK_CHECK(whole.ids == combined.ids && whole.type_ids == combined.type_ids);
}

// The tokens of the parts are those of the whole.
inline void CheckCut(const text::Tokenizer& tokenizer, std::string_view text, bool both) {
  const size_t cut = tokenizer.CutBefore(text, text.size() / 4, text.size(), both);
  if (cut == text::Tokenizer::kNoCut) return;
  PENSTOCK_CHECK(cut >= text.size() / 4 && cut <= text.size());
  Ids whole, left, right;
  if (!tokenizer.EncodeText(text, &whole).ok()) return;
  if (!tokenizer.EncodeText(text.substr(0, cut), &left).ok()) return;
  PENSTOCK_CHECK(left.size() <= whole.size() &&
                 std::equal(left.begin(), left.end(), whole.begin()));
  if (!both || !tokenizer.EncodeText(text.substr(cut), &right).ok()) return;
  left.insert(left.end(), right.begin(), right.end());
  PENSTOCK_CHECK(left == whole);
}

inline void CheckDecode(const text::Tokenizer& tokenizer, const Ids& ids, bool skip) {
  const std::string text = tokenizer.Decode(ids, skip);
  const auto decoder = tokenizer.NewStreamDecoder(skip);
  std::string stream;
  for (const int32_t id : ids) stream += decoder->Push(id);
  stream += decoder->Finish();
  // Bytes that are not UTF-8 may come out as other numbers of U+FFFD.
  if (text.find("\xef\xbf\xbd") == std::string::npos) PENSTOCK_CHECK(text == stream);
}

inline void CheckVocabulary(const text::Tokenizer& tokenizer) {
  const int32_t size = tokenizer.vocab_size();
  PENSTOCK_CHECK(size >= 0);
  for (int32_t id = -1; id <= std::min(size, 300); ++id) {
    const std::string_view token = tokenizer.IdToToken(id);
    if (token.empty()) continue;
    const int32_t back = tokenizer.TokenToId(token);
    PENSTOCK_CHECK(back < size);
    (void)tokenizer.IsSpecial(id);
  }
  PENSTOCK_CHECK(tokenizer.TokenToId("\x01no such token") < size);
}

}  // namespace penstock::fuzz

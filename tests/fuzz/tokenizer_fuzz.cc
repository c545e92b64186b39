// A tokenizer.json and texts for it: JSON, NUL, a text, NUL, a second text, NUL, options.
#include <algorithm>

#include "fuzz_util.h"
#include "text/tokenizer.h"
#include "tokenizer_checks.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  using namespace penstock::fuzz;
  fuzz::Input input(data, size);
  const std::string_view json = input.Part();
  const std::string_view text = input.Part();
  const std::string_view second = input.Part();
  text::EncodeOptions options;
  options.max_tokens = input.Number(0, 40);
  const uint8_t bits = input.Byte();
  options.add_special_tokens = (bits & 1) == 0;
  options.side = (bits & 2) == 0 ? text::TruncationSide::kRight : text::TruncationSide::kLeft;
  options.strategy = static_cast<text::TruncationStrategy>((bits >> 2) % 3);
  options.with_offsets = (bits & 16) == 0;

  const auto loaded = text::Tokenizer::FromJson(json);
  if (!loaded.ok()) return 0;
  const text::Tokenizer& tokenizer = **loaded;
  CheckVocabulary(tokenizer);
  const size_t points = CodePoints(text);
  text::Encoding encoding;
  if (tokenizer.Encode(text, options, &encoding).ok()) CheckShape(encoding, options, points);
  if (tokenizer.EncodePair(text, second, options, &encoding).ok()) {
    CheckShape(encoding, options, std::max(points, CodePoints(second)));
    CheckDecode(tokenizer, encoding.ids, (bits & 32) != 0);
  }
  CheckHalves(tokenizer, text, second, options);
  CheckCut(tokenizer, text, (bits & 64) != 0);
  Ids ids;  // any, also those of no token
  for (fuzz::Input rest = input; !rest.Rest().empty();) ids.push_back(rest.Byte() - 2);
  CheckDecode(tokenizer, ids, (bits & 32) != 0);
  return 0;
}

PENSTOCK_FUZZ_MUTATE_WITH(penstock::fuzz::MutateJson)

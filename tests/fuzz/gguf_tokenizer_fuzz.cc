// A GGUF file with a tokenizer: the input is the file. The texts are always the same.
#include "files/gguf.h"
#include "text/gguf_tokenizer.h"
#include "tokenizer_checks.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  using namespace penstock::fuzz;
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  const auto file = files::ParseGguf(bytes);
  if (!file.ok()) return 0;
  const auto loaded = text::TokenizerFromGguf(file->metadata);
  if (!loaded.ok()) {
    PENSTOCK_CHECK(!loaded.status().field().empty() && loaded.status().message().size() < 4000);
    return 0;
  }
  const text::Tokenizer& tokenizer = **loaded;
  CheckVocabulary(tokenizer);
  const std::string_view texts[] = {"ab a\n b1 12345", " <s>a<|e|>b  \xC3\xA9 [SEP]x",
                                    "the cat sat on a mat, a mat sat on the cat", "\xC3\xE2 \xF0"};
  for (const std::string_view text : texts) {
    text::EncodeOptions options;
    options.max_tokens = size % 40;
    options.with_offsets = true;
    const size_t points = CodePoints(text);
    text::Encoding encoding;
    if (tokenizer.Encode(text, options, &encoding).ok()) CheckShape(encoding, options, points);
    if (tokenizer.EncodePair(text, texts[0], options, &encoding).ok()) {
      CheckShape(encoding, options, std::max(points, CodePoints(texts[0])));
      CheckDecode(tokenizer, encoding.ids, true);
    }
    CheckHalves(tokenizer, text, texts[0], options);
    CheckCut(tokenizer, text, true);
  }
  Ids ids;
  for (int32_t id = -1; id <= std::min(tokenizer.vocab_size(), 300); ++id) ids.push_back(id);
  CheckDecode(tokenizer, ids, false);
  return 0;
}

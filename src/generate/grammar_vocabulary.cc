#include "generate/grammar_vocabulary.h"

#include <algorithm>

#include "text/token_texts.h"

namespace penstock::generate {

std::shared_ptr<const grammar::GrammarVocabulary> MakeGrammarVocabulary(
    const text::Tokenizer& tokenizer, size_t count, const std::vector<int32_t>& ends,
    const std::vector<std::string>& markers) {
  auto made = std::make_shared<grammar::GrammarVocabulary>();
  made->tokens.resize(count);
  made->spaces.resize(grammar::MaskWords(count));
  made->ends = ends;
  const text::TokenTexts texts(&tokenizer);
  const size_t known = std::min(count, static_cast<size_t>(tokenizer.vocab_size()));
  for (size_t i = 0; i < known; ++i) {
    const auto id = static_cast<int32_t>(i);
    const bool ends_text = std::find(ends.begin(), ends.end(), id) != ends.end();
    if (ends_text || texts.IsSpecial(id)) continue;
    std::string& token = made->tokens[i];
    token = texts.Bytes(id);
    const bool space = token.find_first_not_of(" \t\r\n") == std::string::npos;
    if (space && !token.empty()) made->spaces[i / 32] |= uint32_t{1} << (i % 32);
  }
  for (const std::string& marker : markers) {
    const int32_t id = tokenizer.TokenToId(marker);
    if (id >= 0 && static_cast<size_t>(id) < count && texts.IsSpecial(id)) {
      made->markers.emplace_back(id, marker);
    }
  }
  return made;
}

}  // namespace penstock::generate

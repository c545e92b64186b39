// The tokens of a model as grammars see them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "grammar/constraint.h"
#include "text/tokenizer.h"

namespace penstock::generate {

// `count` tokens, one for each logit. `markers`: texts of special tokens that calls are written
// with; those that the tokenizer does not have are left out. Special tokens, ends, and ids that the tokenizer does not
// have are never in a text. Decodes each token, which takes some 50 ms for 150,000.
std::shared_ptr<const grammar::GrammarVocabulary> MakeGrammarVocabulary(
    const text::Tokenizer& tokenizer, size_t count, const std::vector<int32_t>& ends,
    const std::vector<std::string>& markers = {});

}  // namespace penstock::generate

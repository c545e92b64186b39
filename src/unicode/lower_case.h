// Lower case as Python's str.lower() gives it, which sentence-transformers applies to texts of
// models whose sentence_bert_config.json says do_lower_case.
#pragma once

#include <string>
#include <string_view>

namespace penstock::unicode {

// Unicode's full mapping, and its one rule by context: a capital sigma that ends a word becomes
// the final form. Bytes that are not UTF-8 become U+FFFD, as the tokenizer would make them.
std::string LowerCase(std::string_view text);

}  // namespace penstock::unicode

// The text that a decoder's types are compared on: narrative, instructions, a list, code, numbers
// and a dialogue, 600 to 800 tokens of most vocabularies. Written for Penstock.
#pragma once

#include <string_view>

namespace penstock::checks {

std::string_view DecoderText();

}  // namespace penstock::checks

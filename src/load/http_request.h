// Builds the requests of a load and reads their answers. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "load/http_load.h"

namespace penstock::load {

struct WireRequest {
  std::string bytes;  // header and body
  uint64_t texts = 0;
};

// The next request of `load`; with its timeout header where `with_timeout`.
WireRequest MakeRequest(const HttpTarget& target, const HttpLoad& load, bool with_timeout);

// Tokens the server says it worked on ("prompt_tokens" or "total_tokens" of a usage), or 0.
uint64_t TokensOfAnswer(std::string_view body);

}  // namespace penstock::load

#include "base/utf8_check.h"

#include <simdjson.h>

namespace penstock {

bool IsValidUtf8(std::string_view text) {
  return simdjson::validate_utf8(text.data(), text.size());
}

}  // namespace penstock

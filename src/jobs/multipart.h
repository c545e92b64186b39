// Parses a body of multipart/form-data. Pure functions.
// Source: RFC 7578, and RFC 2046 section 5.1 for the boundaries.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace penstock::jobs {

struct FormPart {
  std::string name;
  std::string filename;      // "" where the part has none
  std::string_view content;  // inside the body
};

inline constexpr size_t kFormPartsMax = 32;
inline constexpr size_t kFormHeaderBytesMax = 8 << 10;  // of one part

// `content_type`: the request's, with the boundary. kInvalidArgument: another type, or not of this
// form.
Expected<std::vector<FormPart>> ParseForm(std::string_view content_type, std::string_view body);

}  // namespace penstock::jobs

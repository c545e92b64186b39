// Names that clients send: of models, of prompts.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/status.h"

namespace penstock::api {

inline constexpr size_t kNameBytesMax = 512;

// kInvalidArgument for a name with a NUL or of more than kNameBytesMax bytes. `field` is the name's
// field as the client wrote it.
Status CheckName(std::string_view name, const std::string& field);

}  // namespace penstock::api

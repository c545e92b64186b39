// Field names in errors: the Service names fields as the native types do; clients know them by the
// names of their API. Pure functions.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace penstock::frontend {

// {native, wire}, ...
using FieldNames = std::vector<std::pair<std::string_view, std::string_view>>;

// Renames field() and mentions of it ("'inputs'", "inputs[3]", "inputs[0]: ...") in the message.
Status WithWireNames(const Status& status, const FieldNames& native_to_wire);

}  // namespace penstock::frontend

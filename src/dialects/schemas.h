// The schemas of requests and answers of all dialects, for /openapi.json.
#pragma once

#include <string_view>

namespace penstock::dialects {

// One JSON object: the members of dialects/*/schema*.json, which the build puts together
// (cmake/embed_schemas.cmake).
extern const std::string_view kSchemas;

}  // namespace penstock::dialects

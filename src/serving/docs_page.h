// The page of GET /docs: every route with what it is for, and where the OpenAPI document is.
#pragma once

#include <span>
#include <string>

namespace penstock::serving {

struct Route;

// HTML without scripts and without anything from elsewhere.
std::string PrintDocsPage(std::span<const Route> routes);

}  // namespace penstock::serving

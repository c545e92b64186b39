// The OpenAPI 3.1 description of the HTTP API, for GET /openapi.json. Made from the route table,
// whose rows describe themselves.
// Source: the OpenAPI Specification 3.1.0, spec.openapis.org.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace penstock::serving {

struct Route;

// The whole document. `schemas`: a JSON object of the schemas that the routes name.
std::string PrintOpenApi(std::span<const Route> routes, std::string_view schemas);

}  // namespace penstock::serving

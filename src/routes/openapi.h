// The OpenAPI 3.1 description of the HTTP API, for GET /openapi.json. Made from the route table,
// whose rows describe themselves.
// Source: the OpenAPI Specification 3.1.0, spec.openapis.org.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace penstock::routes {

struct Route;

// The schemas of requests and answers, one JSON object: those of routes/schemas/*.json, which the
// build puts together (cmake/embed_schemas.cmake).
extern const std::string_view kOpenApiSchemas;

// The whole document.
std::string PrintOpenApi(std::span<const Route> routes);

}  // namespace penstock::routes

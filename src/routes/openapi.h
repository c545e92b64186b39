// The OpenAPI 3.1 description of the HTTP API, for GET /openapi.json. Made from the route table, so
// every route is in it; requests and answers are in a second table, which a test compares with the
// routes.
// Source: the OpenAPI Specification 3.1.0, spec.openapis.org.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace penstock::routes {

struct Route;

// Request and answer of a route. Schemas are names below components/schemas.
struct RouteDescription {
  const char* method;
  const char* path;  // as in the route table
  const char* summary;
  const char* request = nullptr;  // schema of the body; null: none is read
  const char* answer = nullptr;   // schema of a 200; null: text
  const char* event = nullptr;    // schema of an event of an answer in events; null: none
  int status = 200;               // of the answer: another where the route does nothing but refuse
  const char* type = "text/plain";  // of an answer without a schema; "": there is none but events
};

std::span<const RouteDescription> RouteDescriptions();
// The description of `route`, or null.
const RouteDescription* FindRouteDescription(const Route& route);

// The schemas of requests and answers, one JSON object: those of routes/schemas/*.json, which the
// build puts together (cmake/embed_schemas.cmake).
extern const std::string_view kOpenApiSchemas;

// The whole document. Routes without a description are in it with their path alone.
std::string PrintOpenApi(std::span<const Route> routes);

}  // namespace penstock::routes

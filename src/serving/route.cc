#include "serving/route.h"

#include "serving/path_pattern.h"

namespace penstock::serving {

RouteCall RouteCall::WithoutBody() const {
  return {service, metrics, options, route, table, request, "", respond};
}

std::string RouteCall::PathPart(size_t index) const {
  return std::string(MatchPath(route->path, request->path).value_or(PathParts{})[index]);
}

void RouteCall::Fail(const Status& status) const {
  respond.Send(PrintError(route->error_body, status, request->id));
}

void RouteCall::Ok(std::string text, const char* content_type) const {
  http::HttpResponse response;
  response.content_type = content_type;
  response.body = std::move(text);
  respond.Send(std::move(response));
}

}  // namespace penstock::serving

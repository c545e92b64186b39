#include "frontend/request_policy.h"

#include <gtest/gtest.h>

#include "dialects/list.h"

namespace penstock::server {
namespace {

int32_t RouteOf(std::string_view path) {
  const std::vector<frontend::RouteInfo> routes = dialects::AllRoutes().infos();
  for (size_t i = 0; i < routes.size(); ++i) {
    if (path == routes[i].path && std::string_view(routes[i].method) == "POST") {
      return static_cast<int32_t>(i);
    }
  }
  return -1;
}

http::HttpRequest RequestFor(const char* path,
                             std::vector<std::pair<std::string, std::string>> headers = {}) {
  http::HttpRequest request;
  request.route = RouteOf(path);
  request.headers = std::move(headers);
  request.begin = Clock::now();
  return request;
}

Priority PriorityOf(const http::ServerOptions& options, http::HttpRequest request) {
  const Status status =
      frontend::RequestPolicy(options, dialects::AllRoutes().infos()).Apply(&request);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return request.context.priority;
}

TEST(RequestPolicy, PriorityOfTheHeader) {
  EXPECT_EQ(PriorityOf({}, RequestFor("/embed")), Priority::kInteractive);
  EXPECT_EQ(PriorityOf({}, RequestFor("/embed", {{"x-penstock-priority", "bulk"}})),
            Priority::kBulk);
  EXPECT_EQ(PriorityOf({}, RequestFor("/embed", {{"x-penstock-priority", "interactive"}})),
            Priority::kInteractive);
}

TEST(RequestPolicy, OtherPrioritiesAreRefusedByName) {
  for (const char* wrong : {"Bulk", "high", "bulk ", "1"}) {
    http::HttpRequest request = RequestFor("/embed", {{"x-penstock-priority", wrong}});
    const Status status =
        frontend::RequestPolicy({}, dialects::AllRoutes().infos()).Apply(&request);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << wrong;
    EXPECT_EQ(status.field(), "X-Penstock-Priority");
    EXPECT_EQ(status.message(), "X-Penstock-Priority must be interactive or bulk");
  }
}

TEST(RequestPolicy, ABulkRouteIsADefault) {
  http::ServerOptions options;
  options.bulk_routes = {"/embed"};
  EXPECT_EQ(PriorityOf(options, RequestFor("/embed")), Priority::kBulk);
  EXPECT_EQ(PriorityOf(options, RequestFor("/v1/embeddings")), Priority::kInteractive);
  EXPECT_EQ(PriorityOf(options, RequestFor("/embed", {{"x-penstock-priority", "interactive"}})),
            Priority::kInteractive);
}

TEST(RequestPolicy, ABulkKeyIsAlwaysBulk) {
  http::ServerOptions options;
  options.api_keys = {"mine"};
  options.bulk_api_keys = {"theirs"};
  const auto with_key = [](const char* key) {
    return RequestFor("/embed", {{"authorization", key}, {"x-penstock-priority", "interactive"}});
  };
  EXPECT_EQ(PriorityOf(options, with_key("Bearer theirs")), Priority::kBulk);
  EXPECT_EQ(PriorityOf(options, with_key("Bearer mine")), Priority::kInteractive);
}

TEST(RequestPolicy, RequestsOfABulkRunAreBulk) {
  http::HttpRequest request = RequestFor(
      "/embed", {{"x-penstock-bulk-id", "bulk-1"}, {"x-penstock-priority", "interactive"}});
  ASSERT_TRUE(frontend::RequestPolicy({}, dialects::AllRoutes().infos()).Apply(&request).ok());
  EXPECT_EQ(request.context.priority, Priority::kBulk);
  EXPECT_EQ(request.context.bulk_run, "bulk-1");
  request = RequestFor("/embed", {{"x-penstock-bulk-id", "\xff"}});
  EXPECT_EQ(frontend::RequestPolicy({}, dialects::AllRoutes().infos()).Apply(&request).field(),
            "X-Penstock-Bulk-Id");
}

TEST(RequestPolicy, Deadlines) {
  http::ServerOptions options;
  const frontend::RequestPolicy none(options, dialects::AllRoutes().infos());
  http::HttpRequest request = RequestFor("/embed");
  ASSERT_TRUE(none.Apply(&request).ok());
  EXPECT_EQ(request.context.deadline, Clock::time_point::max());

  options.request_timeout = std::chrono::milliseconds(50);
  const frontend::RequestPolicy some(options, dialects::AllRoutes().infos());
  ASSERT_TRUE(some.Apply(&request).ok());
  EXPECT_EQ(request.context.deadline, request.begin + std::chrono::milliseconds(50));

  // A request can shorten the operator's limit, not lift it.
  request = RequestFor("/embed", {{"x-request-timeout-ms", "86400000"}});
  ASSERT_TRUE(some.Apply(&request).ok());
  EXPECT_EQ(request.context.deadline, request.begin + std::chrono::milliseconds(50));
  ASSERT_TRUE(none.Apply(&request).ok());
  EXPECT_EQ(request.context.deadline, request.begin + std::chrono::hours(24));
  request = RequestFor("/embed", {{"x-request-timeout-ms", "20"}});
  ASSERT_TRUE(some.Apply(&request).ok());
  EXPECT_EQ(request.context.deadline, request.begin + std::chrono::milliseconds(20));

  for (const char* wrong : {"0", "-1", "86400001", "1.5", "1s", "99999999999999999999"}) {
    request = RequestFor("/embed", {{"x-request-timeout-ms", wrong}});
    const Status status = some.Apply(&request);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << wrong;
    EXPECT_EQ(status.field(), "X-Request-Timeout-Ms") << wrong;
  }
}

// The status of refusal, 0 for none.
int OriginStatus(const http::ServerOptions& options,
                 std::vector<std::pair<std::string, std::string>> headers,
                 const char* method = "POST") {
  http::HttpRequest request = RequestFor("/embed", std::move(headers));
  request.method = method;
  const auto refusal =
      frontend::RequestPolicy(options, dialects::AllRoutes().infos()).CheckOrigin(request);
  return refusal ? refusal->http_status : 0;
}

TEST(RequestPolicy, PagesOfOtherOriginsMayOnlyRead) {
  const std::pair<std::string, std::string> origin{"origin", "https://evil.example"};
  const std::pair<std::string, std::string> host{"host", "127.0.0.1:8080"};
  for (const char* type :
       {"text/plain", "text/plain;charset=UTF-8", "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x", "application/json", ""}) {
    for (const char* method : {"POST", "DELETE", "PUT", "PATCH", "post"}) {
      EXPECT_EQ(OriginStatus({}, {host, origin, {"content-type", type}}, method), 403) << type;
    }
    for (const char* site : {"cross-site", "same-site"}) {
      EXPECT_EQ(OriginStatus({}, {host, {"sec-fetch-site", site}, {"content-type", type}}), 403);
    }
    EXPECT_EQ(OriginStatus({}, {host, {"content-type", type}}), 0);  // curl -d, without -H
  }
  EXPECT_EQ(OriginStatus({}, {host, {"origin", "null"}}), 403);
  EXPECT_EQ(OriginStatus({}, {host, {"origin", "http://127.0.0.1:3000"}}), 403);
  EXPECT_EQ(OriginStatus({}, {host, {"origin", "http://127.0.0.1"}}), 403);
  EXPECT_EQ(OriginStatus({}, {host}), 0);
  for (const char* method : {"GET", "HEAD", "OPTIONS"}) {
    EXPECT_EQ(OriginStatus({}, {host, origin}, method), 0) << method;
  }
}

TEST(RequestPolicy, ThePagesOfTheServersOwnOriginAndAllowedOnesMay) {
  const std::pair<std::string, std::string> host{"host", "App.example:8080"};
  EXPECT_EQ(OriginStatus({}, {host, {"origin", "https://app.example:8080"}}), 0);
  EXPECT_EQ(OriginStatus({}, {host, {"sec-fetch-site", "same-origin"}, {"origin", "https://a"}}),
            0);
  EXPECT_EQ(OriginStatus({}, {host, {"sec-fetch-site", "none"}}), 0);
  http::ServerOptions options;
  options.cors_allow_origins = {"https://a.example"};
  EXPECT_EQ(OriginStatus(options, {host, {"origin", "https://a.example"}}), 0);
  EXPECT_EQ(OriginStatus(options, {host, {"origin", "https://b.example"}}), 403);
  EXPECT_EQ(OriginStatus(options, {host, {"sec-fetch-site", "cross-site"}}), 403);
  options.cors_allow_origins = {"*"};
  EXPECT_EQ(OriginStatus(options, {host, {"origin", "https://b.example"}}), 0);
}

int KeyStatus(const http::ServerOptions& options, const char* method, std::string_view path,
              const char* key) {
  http::HttpRequest request;
  if (key != nullptr) request.headers = {{"x-api-key", key}};
  for (const frontend::RouteInfo& route : dialects::AllRoutes().infos()) {
    if (path != route.path || std::string_view(method) != route.method) continue;
    const auto refusal =
        frontend::RequestPolicy(options, dialects::AllRoutes().infos()).CheckKey(&request, &route);
    EXPECT_EQ(refusal && refusal->key_reason == nullptr, false);
    return refusal ? refusal->http_status : 0;
  }
  return -1;
}

TEST(RequestPolicy, KeysOfAdministrators) {
  http::ServerOptions options;
  options.api_keys = {"user"};
  options.bulk_api_keys = {"bulk"};
  for (const char* key : {"user", "bulk"}) {  // without administrators' keys any key will do
    EXPECT_EQ(KeyStatus(options, "POST", "/v1/stats/reset", key), 0);
    EXPECT_EQ(KeyStatus(options, "POST", "/v1/bulk", key), 0);
  }
  options.admin_api_keys = {"admin"};
  for (const char* path : {"/v1/stats/reset", "/v1/bulk"}) {
    EXPECT_EQ(KeyStatus(options, "POST", path, "admin"), 0);
    EXPECT_EQ(KeyStatus(options, "POST", path, "user"), 403);
    EXPECT_EQ(KeyStatus(options, "POST", path, "bulk"), 403);
    EXPECT_EQ(KeyStatus(options, "POST", path, "wrong"), 401);
    EXPECT_EQ(KeyStatus(options, "POST", path, nullptr), 401);
  }
  EXPECT_EQ(KeyStatus(options, "POST", "/embed", "admin"), 0);
  EXPECT_EQ(KeyStatus(options, "POST", "/embed", "user"), 0);
  EXPECT_EQ(KeyStatus(options, "POST", "/embed", "wrong"), 401);
  EXPECT_EQ(KeyStatus(options, "GET", "/livez", nullptr), 0);
  for (const char* path : {"/metrics", "/v1/stats", "/v1/live", "/v1/requests"}) {
    EXPECT_EQ(KeyStatus(options, "GET", path, "user"), 0);
  }
  options.admin_metrics = true;
  for (const char* path : {"/metrics", "/v1/stats", "/v1/live", "/v1/requests"}) {
    EXPECT_EQ(KeyStatus(options, "GET", path, "user"), 403);
    EXPECT_EQ(KeyStatus(options, "GET", path, "admin"), 0);
  }
  EXPECT_EQ(KeyStatus(options, "GET", "/readyz", nullptr), 0);
  EXPECT_EQ(KeyStatus(options, "GET", "/ui", nullptr), 0);  // it holds no data
  EXPECT_EQ(KeyStatus(options, "GET", "/", nullptr), 401);
  // Alone, administrators' keys guard only their own routes.
  options.api_keys = options.bulk_api_keys = {};
  EXPECT_EQ(KeyStatus(options, "POST", "/v1/bulk", nullptr), 401);
  EXPECT_EQ(KeyStatus(options, "POST", "/v1/bulk", "admin"), 0);
  EXPECT_EQ(KeyStatus(options, "POST", "/embed", nullptr), 0);
  EXPECT_EQ(KeyStatus(options, "POST", "/embed", "none"), 0);
}

RequestContext ContextFor(const http::ServerOptions& options, const char* key) {
  http::HttpRequest request = RequestFor("/embed", {{"x-api-key", key}});
  const std::vector<frontend::RouteInfo> routes = dialects::AllRoutes().infos();
  const frontend::RouteInfo& route = routes[static_cast<size_t>(request.route)];
  EXPECT_FALSE(frontend::RequestPolicy(options, routes).CheckKey(&request, &route)) << key;
  return request.context;
}

TEST(RequestPolicy, KeysHaveCachesOfTheirOwn) {
  http::ServerOptions options;
  options.cache_secret = "secret";
  EXPECT_EQ(ContextFor(options, "any").cache_salt, 0u);  // no key is asked for
  options.api_keys = {"a", "b"};
  const uint64_t a = ContextFor(options, "a").cache_salt, b = ContextFor(options, "b").cache_salt;
  EXPECT_NE(a, 0u);
  EXPECT_NE(b, 0u);
  EXPECT_NE(a, b);
  EXPECT_EQ(ContextFor(options, "a").cache_salt, a);
  options.cache_secret = "another";
  EXPECT_NE(ContextFor(options, "a").cache_salt, a);
  options.cache_secret = "";  // they share
  EXPECT_EQ(ContextFor(options, "a").cache_salt, 0u);
}

TEST(RequestPolicy, WithKeysOfAdministratorsOthersDoNotRuleTheModels) {
  http::ServerOptions options;
  EXPECT_TRUE(ContextFor(options, "any").rules_models);
  options.admin_api_keys = {"admin"};
  EXPECT_FALSE(ContextFor(options, "any").rules_models);
  EXPECT_TRUE(ContextFor(options, "admin").rules_models);
  options.api_keys = {"user"};
  EXPECT_FALSE(ContextFor(options, "user").rules_models);
  EXPECT_TRUE(ContextFor(options, "admin").rules_models);
  options.admin_api_keys = {};
  EXPECT_TRUE(ContextFor(options, "user").rules_models);
}

int HostStatus(const http::ServerOptions& options, const char* host) {
  http::HttpRequest request;
  request.host = host;
  const auto refusal =
      frontend::RequestPolicy(options, dialects::AllRoutes().infos()).CheckHost(request);
  return refusal ? refusal->http_status : 0;
}

TEST(RequestPolicy, HostsOfAServerWithoutKeys) {
  http::ServerOptions options;
  EXPECT_EQ(HostStatus(options, "evil.example"), 403);
  EXPECT_EQ(HostStatus(options, "localhost"), 0);
  options.allowed_hosts = {"*"};
  EXPECT_EQ(HostStatus(options, "evil.example"), 0);
  options.allowed_hosts = {};
  options.api_keys = {"k"};  // a page does not know it
  EXPECT_EQ(HostStatus(options, "any.example"), 0);
  options.allowed_hosts = {"api.example"};
  EXPECT_EQ(HostStatus(options, "any.example"), 403);
  EXPECT_EQ(HostStatus(options, "api.example"), 0);
  options = {};
  options.host = "0.0.0.0";  // named as its network names it
  EXPECT_EQ(HostStatus(options, "any.example"), 0);
}

TEST(RequestPolicy, PathsOfTheTable) {
  EXPECT_TRUE(frontend::IsPostRoute("/v1/embeddings", dialects::AllRoutes().infos()));
  EXPECT_FALSE(frontend::IsPostRoute("/info", dialects::AllRoutes().infos()));
  EXPECT_FALSE(frontend::IsPostRoute("/embed/", dialects::AllRoutes().infos()));
}

}  // namespace
}  // namespace penstock::server

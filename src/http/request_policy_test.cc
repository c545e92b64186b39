#include "http/request_policy.h"

#include <gtest/gtest.h>

namespace penstock {
namespace {

int32_t RouteOf(std::string_view path) {
  const auto& routes = AllRoutes();
  for (size_t i = 0; i < routes.size(); ++i) {
    if (path == routes[i].path && std::string_view(routes[i].method) == "POST") {
      return static_cast<int32_t>(i);
    }
  }
  return -1;
}

HttpRequest RequestFor(const char* path,
                       std::vector<std::pair<std::string, std::string>> headers = {}) {
  HttpRequest request;
  request.route = RouteOf(path);
  request.headers = std::move(headers);
  request.begin = Clock::now();
  return request;
}

Priority PriorityOf(const ServerOptions& options, HttpRequest request) {
  const Status status = RequestPolicy(options, AllRoutes()).Apply(&request);
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
    HttpRequest request = RequestFor("/embed", {{"x-penstock-priority", wrong}});
    const Status status = RequestPolicy({}, AllRoutes()).Apply(&request);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << wrong;
    EXPECT_EQ(status.field(), "X-Penstock-Priority");
    EXPECT_EQ(status.message(), "X-Penstock-Priority must be interactive or bulk");
  }
}

TEST(RequestPolicy, ABulkRouteIsADefault) {
  ServerOptions options;
  options.bulk_routes = {"/embed"};
  EXPECT_EQ(PriorityOf(options, RequestFor("/embed")), Priority::kBulk);
  EXPECT_EQ(PriorityOf(options, RequestFor("/v1/embeddings")), Priority::kInteractive);
  EXPECT_EQ(PriorityOf(options, RequestFor("/embed", {{"x-penstock-priority", "interactive"}})),
            Priority::kInteractive);
}

TEST(RequestPolicy, ABulkKeyIsAlwaysBulk) {
  ServerOptions options;
  options.api_keys = {"mine"};
  options.bulk_api_keys = {"theirs"};
  const auto with_key = [](const char* key) {
    return RequestFor("/embed", {{"authorization", key}, {"x-penstock-priority", "interactive"}});
  };
  EXPECT_EQ(PriorityOf(options, with_key("Bearer theirs")), Priority::kBulk);
  EXPECT_EQ(PriorityOf(options, with_key("Bearer mine")), Priority::kInteractive);
}

TEST(RequestPolicy, RequestsOfABulkRunAreBulk) {
  HttpRequest request = RequestFor(
      "/embed", {{"x-penstock-bulk-id", "bulk-1"}, {"x-penstock-priority", "interactive"}});
  ASSERT_TRUE(RequestPolicy({}, AllRoutes()).Apply(&request).ok());
  EXPECT_EQ(request.context.priority, Priority::kBulk);
  EXPECT_EQ(request.context.bulk_run, "bulk-1");
  request = RequestFor("/embed", {{"x-penstock-bulk-id", "\xff"}});
  EXPECT_EQ(RequestPolicy({}, AllRoutes()).Apply(&request).field(), "X-Penstock-Bulk-Id");
}

TEST(RequestPolicy, Deadlines) {
  ServerOptions options;
  const RequestPolicy none(options, AllRoutes());
  HttpRequest request = RequestFor("/embed");
  ASSERT_TRUE(none.Apply(&request).ok());
  EXPECT_EQ(request.context.deadline, Clock::time_point::max());

  options.request_timeout = std::chrono::milliseconds(50);
  const RequestPolicy some(options, AllRoutes());
  ASSERT_TRUE(some.Apply(&request).ok());
  EXPECT_EQ(request.context.deadline, request.begin + std::chrono::milliseconds(50));

  request = RequestFor("/embed", {{"x-request-timeout-ms", "86400000"}});
  ASSERT_TRUE(some.Apply(&request).ok());
  EXPECT_EQ(request.context.deadline, request.begin + std::chrono::hours(24));

  for (const char* wrong : {"0", "-1", "86400001", "1.5", "1s", "99999999999999999999"}) {
    request = RequestFor("/embed", {{"x-request-timeout-ms", wrong}});
    const Status status = some.Apply(&request);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << wrong;
    EXPECT_EQ(status.field(), "X-Request-Timeout-Ms") << wrong;
  }
}

TEST(RequestPolicy, PathsOfTheTable) {
  EXPECT_TRUE(IsPostRoute("/v1/embeddings", AllRoutes()));
  EXPECT_FALSE(IsPostRoute("/info", AllRoutes()));
  EXPECT_FALSE(IsPostRoute("/embed/", AllRoutes()));
}

}  // namespace
}  // namespace penstock

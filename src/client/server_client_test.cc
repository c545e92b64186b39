#include "client/server_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock::client {
namespace {

using testing::HasSubstr;

TEST(ServerClient, ErrorsKeepTheServersWords) {
  const Status status =
      StatusOfAnswer({400, 0, R"({"error":{"message":"input[3] is empty","param":"input[3]"}})"});
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.field(), "input[3]");
  EXPECT_EQ(status.message(), "the server says 400: input[3] is empty");
  for (const char* body :
       {R"({"error":"inputs[3] is empty","error_type":"x","field":"inputs[3]"})",
        R"({"message":"inputs[3] is empty","detail":"x","field":"inputs[3]"})"}) {
    const Status other = StatusOfAnswer({413, 0, body});
    EXPECT_EQ(other.code(), StatusCode::kPayloadTooLarge);
    EXPECT_EQ(other.field(), "inputs[3]");
    EXPECT_EQ(other.message(), "the server says 413: inputs[3] is empty");
  }
  for (const char* body : {"[]", "3", R"({"error":3})", R"({"error":null,"message":1})"}) {
    EXPECT_EQ(StatusOfAnswer({500, 0, body}).message(),
              std::string("the server says 500: ") + body);
  }
  EXPECT_THAT(StatusOfAnswer({502, 0, "<html>"}).message(), HasSubstr("<html>"));
  EXPECT_EQ(StatusOfAnswer({502, 0, ""}).code(), StatusCode::kUnavailable);
}

TEST(ServerClient, BacksOff) {
  const ServerClientOptions options{.backoff_ms = 100};
  EXPECT_EQ(BackoffMs(options, 2, 0, 1), 100);
  EXPECT_EQ(BackoffMs(options, 2, 0, 0), 50);
  EXPECT_EQ(BackoffMs(options, 4, 0, 1), 400);
  EXPECT_EQ(BackoffMs(options, 30, 0, 1), ServerClient::kBackoffMsMax);
  EXPECT_EQ(BackoffMs(options, 2, 3, 1), 3100);
  EXPECT_EQ(BackoffMs(options, 2, 3600, 1), 60'100);
  for (const int status : {408, 429, 502, 503, 504}) EXPECT_TRUE(IsWorthRetrying(status));
  for (const int status : {200, 400, 404, 413, 500, 501}) EXPECT_FALSE(IsWorthRetrying(status));
}

}  // namespace
}  // namespace penstock::client

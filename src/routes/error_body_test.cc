#include "routes/error_body.h"

#include <gtest/gtest.h>

namespace penstock::routes {
namespace {

std::string HeaderOf(const http::HttpResponse& response, std::string_view name) {
  for (const auto& [key, value] : response.headers) {
    if (key == name) return value;
  }
  return "";
}

TEST(ErrorBody, OpenAiError) {
  const auto response = PrintError(
      ErrorBody::kOpenAi, Status::InvalidArgument("'input' must be a string", "input"), "id");
  EXPECT_EQ(response.status, 400);
  EXPECT_EQ(response.body,
            R"({"error":{"message":"'input' must be a string","type":"invalid_request_error",)"
            R"("param":"input","code":"invalid_argument"},"detail":"'input' must be a string"})");
  const auto missing = PrintError(ErrorBody::kOpenAi, Status::NotFound("no", "model"), "id");
  EXPECT_EQ(missing.status, 404);
  EXPECT_NE(missing.body.find(R"("code":"model_not_found")"), std::string::npos);
  const auto other = PrintError(ErrorBody::kOpenAi, Status::Internal("x"), "id");
  EXPECT_EQ(other.status, 500);
  EXPECT_NE(other.body.find(R"("param":null)"), std::string::npos);
}

TEST(ErrorBody, TeiError) {
  const auto response = PrintError(
      ErrorBody::kTei, Status(StatusCode::kResourceExhausted, "full").WithRetryAfter(7), "id");
  EXPECT_EQ(response.status, 429);
  EXPECT_EQ(response.body, R"({"error":"full","error_type":"Overloaded"})");
  EXPECT_EQ(HeaderOf(response, "Retry-After"), "7");
  EXPECT_EQ(PrintError(ErrorBody::kTei, 424, Status::Unsupported("x"), "id").body,
            R"({"error":"x","error_type":"Backend"})");
}

TEST(ErrorBody, OllamaError) {
  EXPECT_EQ(PrintError(ErrorBody::kOllama, Status::NotFound("no", "model"), "id").body,
            R"({"error":"no"})");
}

TEST(ErrorBody, RerankErrorCarriesTheRequestId) {
  const auto response =
      PrintError(ErrorBody::kRerank, Status::InvalidArgument("bad \"x\"", "query"), "r1");
  EXPECT_EQ(response.body, R"({"message":"bad \"x\"","detail":"bad \"x\"","field":"query",)"
                           R"("code":"invalid_argument","id":"r1"})");
}

TEST(ErrorBody, KserveHasTheMessageAlone) {
  const auto response =
      PrintError(ErrorBody::kKserve, Status::InvalidArgument("bad \"x\"", "inputs"), "r1");
  EXPECT_EQ(response.status, 400);
  EXPECT_EQ(response.body, R"({"error":"bad \"x\""})");
}

TEST(ErrorBody, StatusCodes) {
  EXPECT_EQ(HttpStatusOf(StatusCode::kPayloadTooLarge), 413);
  EXPECT_EQ(HttpStatusOf(StatusCode::kUnprocessable), 422);
  EXPECT_EQ(HttpStatusOf(StatusCode::kUnsupported), 422);
  EXPECT_EQ(HttpStatusOf(StatusCode::kDeadlineExceeded), 503);
  const auto unavailable = PrintError(ErrorBody::kTei, Status(StatusCode::kUnavailable, "x"), "");
  EXPECT_EQ(HeaderOf(unavailable, "Retry-After"), "1");
  const auto key = PrintError(ErrorBody::kTei, Status(StatusCode::kUnauthenticated, "x"), "");
  EXPECT_EQ(HeaderOf(key, "WWW-Authenticate"), "Bearer");
}

}  // namespace
}  // namespace penstock::routes

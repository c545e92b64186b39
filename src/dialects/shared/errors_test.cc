#include "dialects/shared/errors.h"

#include <gtest/gtest.h>

namespace penstock::dialects {
namespace {

using serving::HttpStatusOf;
using serving::PrintError;

std::string HeaderOf(const http::HttpResponse& response, std::string_view name) {
  for (const auto& [key, value] : response.headers) {
    if (key == name) return value;
  }
  return "";
}

TEST(Errors, OpenAiError) {
  const auto response =
      PrintError(kOpenAiErrors, Status::InvalidArgument("'input' must be a string", "input"), "id");
  EXPECT_EQ(response.status, 400);
  EXPECT_EQ(response.body,
            R"({"error":{"message":"'input' must be a string","type":"invalid_request_error",)"
            R"("param":"input","code":"invalid_argument"},"detail":"'input' must be a string"})");
  const auto missing = PrintError(kOpenAiErrors, Status::NotFound("no", "model"), "id");
  EXPECT_EQ(missing.status, 404);
  EXPECT_NE(missing.body.find(R"("code":"model_not_found")"), std::string::npos);
  const auto other = PrintError(kOpenAiErrors, Status::Internal("x"), "id");
  EXPECT_EQ(other.status, 500);
  EXPECT_NE(other.body.find(R"("param":null)"), std::string::npos);
}

TEST(Errors, TeiError) {
  const auto response = PrintError(
      kTeiErrors, Status(StatusCode::kResourceExhausted, "full").WithRetryAfter(7), "id");
  EXPECT_EQ(response.status, 429);
  EXPECT_EQ(response.body, R"({"error":"full","error_type":"Overloaded"})");
  EXPECT_EQ(HeaderOf(response, "Retry-After"), "7");
  EXPECT_EQ(PrintError(kTeiErrors, 424, Status::Unsupported("x"), "id").body,
            R"({"error":"x","error_type":"Backend"})");
}

TEST(Errors, OllamaError) {
  EXPECT_EQ(PrintError(kOllamaErrors, Status::NotFound("no", "model"), "id").body,
            R"({"error":"no"})");
}

TEST(Errors, RerankErrorCarriesTheRequestId) {
  const auto response =
      PrintError(kRerankErrors, Status::InvalidArgument("bad \"x\"", "query"), "r1");
  EXPECT_EQ(response.body, R"({"message":"bad \"x\"","detail":"bad \"x\"","field":"query",)"
                           R"("code":"invalid_argument","id":"r1"})");
}

TEST(Errors, KserveHasTheMessageAlone) {
  const auto response =
      PrintError(kKserveErrors, Status::InvalidArgument("bad \"x\"", "inputs"), "r1");
  EXPECT_EQ(response.status, 400);
  EXPECT_EQ(response.body, R"({"error":"bad \"x\""})");
}

TEST(Errors, StatusCodes) {
  EXPECT_EQ(HttpStatusOf(StatusCode::kPayloadTooLarge), 413);
  EXPECT_EQ(HttpStatusOf(StatusCode::kUnprocessable), 422);
  EXPECT_EQ(HttpStatusOf(StatusCode::kUnsupported), 422);
  EXPECT_EQ(HttpStatusOf(StatusCode::kDeadlineExceeded), 503);
  const auto unavailable = PrintError(kTeiErrors, Status(StatusCode::kUnavailable, "x"), "");
  EXPECT_EQ(HeaderOf(unavailable, "Retry-After"), "1");
  const auto key = PrintError(kTeiErrors, Status(StatusCode::kUnauthenticated, "x"), "");
  EXPECT_EQ(HeaderOf(key, "WWW-Authenticate"), "Bearer");
}

}  // namespace
}  // namespace penstock::dialects

#include "client/embed_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

namespace penstock::client {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(EmbedClient, Asks) {
  EXPECT_EQ(EmbedBody({"a", "\"b\""}, {}), R"({"encoding_format":"base64","input":["a","\"b\""]})");
  EmbedClientOptions options;
  options.model = "m";
  options.dimensions = 8;
  options.normalize = false;
  options.prompt_name = "query";
  EXPECT_EQ(EmbedBody({"a"}, options),
            R"({"model":"m","encoding_format":"base64","dimensions":8,"normalize":false,)"
            R"("prompt_name":"query","input":["a"]})");
}

TEST(EmbedClient, ReadsVectorsEitherWay) {
  // 1, 2, -0.5 and 0 as little-endian float32.
  for (const char* vectors :
       {R"([{"index":0,"embedding":"AACAPwAAAEA="},{"index":1,"embedding":"AAAAvwAAAAA="}])",
        R"([{"index":0,"embedding":[1,2.0]},{"index":1,"embedding":[-0.5,0]}])"}) {
    const auto answer =
        ParseEmbedAnswer(std::string(R"({"data":)") + vectors +
                             R"(,"usage":{"prompt_tokens":7},"truncated":{"inputs":1,"tokens":3}})",
                         2);
    ASSERT_TRUE(answer.ok()) << answer.status().ToString();
    EXPECT_EQ(answer->dimensions, 2);
    EXPECT_THAT(answer->values, ElementsAre(1, 2, -0.5f, 0));
    EXPECT_EQ(answer->prompt_tokens, 7);
    EXPECT_EQ(answer->truncated_inputs, 1);
    EXPECT_EQ(answer->truncated_tokens, 3);
  }
}

TEST(EmbedClient, RefusesWhatItCannotTrust) {
  for (const char* body :
       {"", "[]", "{}", R"({"data":[]})", R"({"data":[1]})", R"({"data":[{"index":0}]})",
        R"({"data":[{"index":1,"embedding":[1]}]})", R"({"data":[{"embedding":"A"}]})",
        R"({"data":[{"embedding":"AAAA"}]})", R"({"data":[{"embedding":"AA-A"}]})",
        R"({"data":[{"embedding":[1]},{"embedding":[1]}]})", R"({"data":[{"embedding":[]}]})"}) {
    EXPECT_FALSE(ParseEmbedAnswer(body, 1).ok()) << body;
  }
  EXPECT_FALSE(ParseEmbedAnswer(R"({"data":[{"embedding":[1]},{"embedding":[1,2]}]})", 2).ok());
}

TEST(EmbedClient, RefusesNumbersThatAreNotFinite) {
  // A good row, then NaN or infinity, as base64 or as a number too large for a float.
  for (const char* bad :
       {R"("AADAfwAAAEA=")", R"("AACAPwAAgH8=")", R"("AACA/wAAAEA=")", "[1e39,0]", "[0,-1e300]"}) {
    const auto answer = ParseEmbedAnswer(
        std::string(R"({"data":[{"embedding":"AACAPwAAAEA="},{"embedding":)") + bad + "}]}", 2);
    ASSERT_FALSE(answer.ok()) << bad;
    EXPECT_EQ(answer.status().field(), "input[1]");
    EXPECT_THAT(answer.status().message(), HasSubstr("vector 1 holds a number that is not finite"));
  }
}

// No server listens on port 1 of this host.
TEST(EmbedClient, GivesUpAfterItsAttempts) {
  EmbedClient client(
      {.server = {.url = "http://127.0.0.1:1/v1/", .attempts_max = 3, .backoff_ms = 1}});
  const auto answer = client.Embed({"a"});
  EXPECT_EQ(answer.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(answer.status().message(), HasSubstr("http://127.0.0.1:1/v1/embeddings"));
  EXPECT_EQ(client.retries(), 2);
  EXPECT_LE(client.waited_s(), 0.003);
}

TEST(EmbedClient, StopEndsTheWaiting) {
  EmbedClient client({.server = {.url = "http://127.0.0.1:1", .backoff_ms = 20'000}});
  std::thread stopper([&] {
    while (client.retries() == 0) std::this_thread::yield();
    client.Stop();
  });
  EXPECT_EQ(client.Embed({"a"}).status().code(), StatusCode::kCancelled);
  stopper.join();
}

}  // namespace
}  // namespace penstock::client

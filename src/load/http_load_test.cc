#include "load/http_load.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "load/fake_server.h"
#include "load/http_request.h"

namespace penstock::load {
namespace {

const char kUsage[] = R"({"data":[],"usage":{"prompt_tokens":5,"total_tokens":5}})";

HttpLoad SomeLoad() {
  HttpLoad load;
  load.next_text = [] { return std::string("a text"); };
  return load;
}

TEST(HttpRequestTest, PrintsEveryRoute) {
  const HttpTarget target{.host = "h", .port = 7, .api_key = "k"};
  HttpLoad load = SomeLoad();
  load.batch = 2;
  load.model = "m";
  load.priority = "bulk";
  load.timeout_ms = 9;
  EXPECT_EQ(MakeRequest(target, load, true).bytes,
            "POST /v1/embeddings HTTP/1.1\r\nHost: h:7\r\nContent-Type: application/json\r\n"
            "Content-Length: 68\r\nAuthorization: Bearer k\r\nX-Penstock-Priority: bulk\r\n"
            "X-Request-Timeout-Ms: 9\r\n\r\n"
            R"({"model":"m","encoding_format":"base64","input":["a text","a text"]})");
  load.route = LoadRoute::kTeiEmbed;
  load.model.clear();
  EXPECT_TRUE(
      MakeRequest(target, load, false).bytes.ends_with(R"({"inputs":["a text","a text"]})"));
  EXPECT_EQ(MakeRequest(target, load, false).bytes.find("Timeout"), std::string::npos);
  load.route = LoadRoute::kRerank;
  const std::string rerank = MakeRequest(target, load, false).bytes;
  EXPECT_TRUE(rerank.starts_with("POST /v1/rerank "));
  EXPECT_TRUE(rerank.ends_with(R"("documents":["a text","a text"]})"));
}

TEST(HttpRequestTest, ReadsTokens) {
  EXPECT_EQ(TokensOfAnswer(kUsage), 5u);
  EXPECT_EQ(TokensOfAnswer(R"({"usage":{"total_tokens": 12}})"), 12u);
  EXPECT_EQ(TokensOfAnswer("[[1.0]]"), 0u);
}

TEST(HttpLoadTest, ClosedLoopKeepsItsConnections) {
  FakeServer server([](const std::string&) { return FakeServer::Answer(200, kUsage); });
  HttpLoad load = SomeLoad();
  load.concurrency = 3;
  load.batch = 2;
  auto result =
      RunHttpLoads(server.target(), {load}, {.warmup_s = 0, .duration_s = 10, .requests_max = 300});
  ASSERT_TRUE(result.ok()) << result.status().ToString();
  const LoadResult& one = result->loads[0];
  EXPECT_EQ(one.sent, 300u);
  EXPECT_EQ(one.ok, 300u);
  EXPECT_EQ(one.texts, 600u);
  EXPECT_EQ(one.tokens, 1500u);
  EXPECT_EQ(one.latency.count(), 300u);
  EXPECT_TRUE(one.errors.empty());
  EXPECT_LT(one.seconds, 10);
  EXPECT_EQ(server.connections(), 4);  // with one that checks for the server
}

// While the server stalls, requests go on arriving, and the time they could not be sent counts.
TEST(HttpLoadTest, OpenLoopCountsFromTheIntendedStart) {
  std::atomic<int> count{0};
  FakeServer server([&](const std::string&) {
    // The stall.
    if (++count == 20) std::this_thread::sleep_for(std::chrono::milliseconds(500));
    return FakeServer::Answer(200, kUsage);
  });
  HttpLoad load = SomeLoad();
  load.rate = 200;
  load.concurrency = 1;
  auto result = RunHttpLoads(server.target(), {load}, {.warmup_s = 0, .duration_s = 1.5});
  ASSERT_TRUE(result.ok());
  const LoadResult& one = result->loads[0];
  EXPECT_NEAR(static_cast<double>(one.sent), 300, 100);
  EXPECT_EQ(one.latency.count(), one.sent);
  // 100 of 300 arrive during the stall and wait 250 ms in the middle; a closed loop would show one.
  EXPECT_GT(one.latency.PercentileMs(0.85), 100);
  EXPECT_GE(one.latency.max_ms(), 490);
}

TEST(HttpLoadTest, CountsWhatGoesWrong) {
  std::atomic<int> count{0};
  FakeServer server([&](const std::string&) -> std::string {
    switch (++count % 4) {
      case 0:
        return "";
      case 1:
        return FakeServer::Answer(429, "{}", "Retry-After: 1\r\n");
      case 2:
        return FakeServer::Answer(429, "{}");
      default:
        return FakeServer::Answer(503, "{}");
    }
  });
  auto result = RunHttpLoads(server.target(), {SomeLoad()},
                             {.warmup_s = 0, .duration_s = 10, .requests_max = 40});
  ASSERT_TRUE(result.ok());
  const LoadResult& one = result->loads[0];
  EXPECT_EQ(one.ok, 0u);
  EXPECT_EQ(one.by_status, (std::map<int, uint64_t>{{429, 20}, {503, 10}}));
  EXPECT_EQ(one.lost, 10u);
  EXPECT_EQ(one.lost_after_sent, 10u);
  EXPECT_EQ(one.connections, 1u);
  EXPECT_EQ(one.no_retry_after, 10u);
  EXPECT_EQ(one.errors, (std::map<int, uint64_t>{{LoadResult::kLost, 10}, {429, 20}, {503, 10}}));
}

TEST(HttpLoadTest, ClientsLeaveAndAnswersAreMissed) {
  FakeServer server([&](const std::string& request) {
    const bool slow = request.find("X-Penstock-Priority: bulk") != std::string::npos;
    // Longer than the one load's clients stay, and than the other's measured time.
    std::this_thread::sleep_for(std::chrono::milliseconds(slow ? 1500 : 400));
    return FakeServer::Answer(200, kUsage);
  });
  HttpLoad leaving = SomeLoad();
  leaving.leave_share = 1;
  leaving.leave_ms_max = 10;
  HttpLoad slow = SomeLoad();
  slow.priority = "bulk";
  auto result = RunHttpLoads(server.target(), {leaving, slow},
                             {.warmup_s = 0, .duration_s = 0.6, .drain_s = 0.1});
  ASSERT_TRUE(result.ok());
  EXPECT_GT(result->loads[0].left, 10u);
  EXPECT_EQ(result->loads[0].left, result->loads[0].sent);
  EXPECT_EQ(result->loads[1].sent, 1u);
  EXPECT_EQ(result->loads[1].no_answer, 1u);
  EXPECT_EQ(result->loads[1].lost_after_sent, 1u);
  EXPECT_EQ(result->loads[1].errors.at(LoadResult::kNoAnswer), 1u);
}

TEST(HttpLoadTest, GivesUp) {
  FakeServer server([](const std::string&) { return FakeServer::Answer(200, kUsage); });
  int asked = 0;
  HttpLoad load = SomeLoad();
  load.rate = 100;
  const auto begin = std::chrono::steady_clock::now();
  auto result =
      RunHttpLoads(server.target(), {load},
                   {.warmup_s = 0, .duration_s = 30, .give_up = [&asked] { return ++asked == 2; }});
  ASSERT_TRUE(result.ok());
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
  EXPECT_LT(result->seconds, 20);
  EXPECT_GT(result->loads[0].ok, 0u);
}

TEST(HttpLoadTest, SaysWhenNobodyListens) {
  uint16_t port = 0;
  {
    FakeServer server([](const std::string&) { return std::string(); });
    port = server.target().port;
  }
  const auto result = RunHttpLoads({.host = "127.0.0.1", .port = port}, {SomeLoad()}, {});
  EXPECT_EQ(result.status().code(), StatusCode::kUnavailable);
  HttpLoad bad = SomeLoad();
  bad.concurrency = 0;
  EXPECT_EQ(RunHttpLoads({}, {bad}, {}).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace penstock::load

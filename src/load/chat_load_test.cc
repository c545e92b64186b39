#include "load/chat_load.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <set>
#include <thread>

#include "load/chat_events.h"
#include "load/chat_sweep.h"
#include "load/fake_server.h"

namespace penstock::load {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string Event(const std::string& data) { return "data: " + data + "\n\n"; }
std::string TextEvent(const std::string& text) {
  return Event(R"({"choices":[{"index":0,"delta":{"content":")" + text +
               R"("},"finish_reason":null}],"usage":null})");
}
const char kRole[] =
    R"({"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]})";
const char kFinish[] = R"({"choices":[{"index":0,"delta":{},"finish_reason":"length"}]})";
std::string UsageEvent(int prompt, int tokens, int cached) {
  return Event(R"({"choices":[],"usage":{"prompt_tokens":)" + std::to_string(prompt) +
               R"(,"completion_tokens":)" + std::to_string(tokens) +
               R"(,"prompt_tokens_details":{"cached_tokens":)" + std::to_string(cached) + "}}}");
}
std::string Chunked(const std::vector<std::string>& parts) {
  std::string answer = "HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (const std::string& part : parts) {
    char size[20];
    std::snprintf(size, sizeof size, "%zx\r\n", part.size());
    answer += size + part + "\r\n";
  }
  return answer + "0\r\n\r\n";
}
// An answer of three tokens in two events.
std::string GoodAnswer() {
  return Chunked({Event(kRole), TextEvent("a"), TextEvent("bc"), Event(kFinish),
                  UsageEvent(10, 3, 4) + Event("[DONE]")});
}

ChatLoad SomeLoad() {
  ChatLoad load;
  load.request.prompt_tokens = {5, 5};
  load.request.output_tokens = {3, 3};
  return load;
}
LoadWindow Requests(uint64_t count) {
  return {.warmup_s = 0, .duration_s = 20, .requests_max = count, .drain_s = 2};
}

TEST(ChatEventsTest, CutsEventsWhereverTheBytesAreCut) {
  const std::string bytes = ": ping\n\ndata: a\r\ndata:b\n\nid: 3\ndata: [DONE]\n\ndata: rest";
  for (size_t piece = 1; piece < bytes.size(); ++piece) {
    EventReader reader;
    std::vector<std::string> events;
    for (size_t at = 0; at < bytes.size(); at += piece) {
      reader.Add(std::string_view(bytes).substr(at, piece));
      while (auto event = reader.Next()) events.push_back(*event);
    }
    EXPECT_THAT(events, testing::ElementsAre("a\nb", "[DONE]")) << piece;
  }
}

TEST(ChatEventsTest, KnowsWhatAnEventSays) {
  EXPECT_FALSE(ReadChatEvent(kRole).text);
  EXPECT_TRUE(ReadChatEvent(R"({"choices":[{"delta":{"content":"x"}}]})").text);
  EXPECT_TRUE(ReadChatEvent(R"({"choices":[{"delta":{"reasoning_content":"x"}}]})").text);
  EXPECT_TRUE(ReadChatEvent(R"({"choices":[{"delta":{"tool_calls":[{"index":0}]}}]})").text);
  EXPECT_TRUE(ReadChatEvent(R"({"choices":[{"text":"x","finish_reason":null}]})").text);
  EXPECT_TRUE(ReadChatEvent(kFinish).finish);
  EXPECT_FALSE(ReadChatEvent(kRole).finish);
  EXPECT_TRUE(ReadChatEvent("[DONE]").done);
  EXPECT_TRUE(ReadChatEvent(R"({"error":{"message":"no"}})").error);
  EXPECT_TRUE(ReadChatEvent("{").error);
  const ChatEvent usage = ReadChatEvent(
      R"({"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":3}}})");
  EXPECT_EQ(usage.prompt_tokens, 7);
  EXPECT_EQ(usage.completion_tokens, 2);
  EXPECT_EQ(usage.cached_tokens, 3);
}

TEST(ChatRequestTest, ReadsRangesAndLimits) {
  EXPECT_EQ(TokenRange::Parse("7")->max, 7);
  EXPECT_EQ(TokenRange::Parse("7-90")->min, 7);
  for (const char* wrong : {"", "0", "9-7", "7-", "-7", "7-9x", "x", "2000000"}) {
    EXPECT_FALSE(TokenRange::Parse(wrong).ok()) << wrong;
  }
  const auto goodput = Goodput::Parse("ttft:500,itl:50.5");
  ASSERT_TRUE(goodput.ok());
  EXPECT_EQ(goodput->first_token_ms, 500);
  EXPECT_EQ(goodput->token_ms, 50.5);
  EXPECT_EQ(Goodput::Parse("e2el:9")->whole_ms, 9);
  for (const char* wrong : {"ttft", "ttft:", "ttft:x", "ttft:-1", "other:5", "ttft:5;itl:3"}) {
    EXPECT_FALSE(Goodput::Parse(wrong).ok()) << wrong;
  }
}

TEST(ChatRequestTest, PrefixesAreSharedAndTheRestIsNot) {
  const HttpTarget target{.host = "h", .port = 7, .api_key = "k"};
  ChatRequestOptions options;
  options.prompt_tokens = {40, 40};
  options.output_tokens = {9, 9};
  options.prefix_share = 0.5;
  options.model = "m";
  options.timeout_ms = 8;
  const PromptScale scale{.fixed = 20, .per_word = 2};  // 10 words
  ChatRequests requests(target, options, scale, 1);
  std::set<std::string> prefixes, prompts;
  for (int i = 0; i < 5; ++i) {
    const std::string bytes = requests.Next(i == 0).bytes;
    EXPECT_THAT(bytes, HasSubstr("POST /v1/chat/completions HTTP/1.1\r\nHost: h:7\r\n"));
    EXPECT_THAT(bytes, HasSubstr("Authorization: Bearer k\r\n"));
    EXPECT_THAT(bytes, HasSubstr(R"("max_completion_tokens":9)"));
    EXPECT_THAT(bytes, HasSubstr(R"("stream_options":{"include_usage":true})"));
    EXPECT_EQ(bytes.find("Timeout") == std::string::npos, i > 0);
    const size_t begin = bytes.find("\"content\":\"") + 11;
    const std::string prompt = bytes.substr(begin, bytes.find('"', begin) - begin);
    EXPECT_EQ(std::count(prompt.begin(), prompt.end(), ' '), 9);
    size_t end = 0;
    for (int word = 0; word < 5; ++word) end = prompt.find(' ', end + 1);
    prefixes.insert(prompt.substr(0, end));
    prompts.insert(prompt);
  }
  EXPECT_EQ(prefixes.size(), 1u);
  EXPECT_EQ(prompts.size(), 5u);
  EXPECT_EQ(ChatRequests(target, options, scale, 1).Next(true).bytes,
            ChatRequests(target, options, scale, 1).Next(true).bytes);
  options.completions = true;
  const std::string bytes = ChatRequests(target, options, scale, 1).Next(true, true).bytes;
  EXPECT_THAT(bytes, HasSubstr("POST /v1/completions "));
  EXPECT_THAT(bytes, HasSubstr(R"("logprobs":5)"));
  EXPECT_THAT(bytes, Not(HasSubstr("messages")));
}

TEST(ChatRequestTest, LearnsHowManyTokensWordsAre) {
  FakeServer server([](const std::string& request) {
    const size_t begin = request.find("\"content\":\"") + 11;
    const auto words =
        1 + std::count(request.begin() + static_cast<ptrdiff_t>(begin),
                       request.begin() + static_cast<ptrdiff_t>(request.find('"', begin)), ' ');
    return FakeServer::Answer(
        200, R"({"usage":{"prompt_tokens":)" + std::to_string(30 + 3 * words) + "}}");
  });
  const auto scale = MeasurePromptScale(server.target(), {});
  ASSERT_TRUE(scale.ok()) << scale.status().ToString();
  EXPECT_DOUBLE_EQ(scale->fixed, 30);
  EXPECT_DOUBLE_EQ(scale->per_word, 3);
  EXPECT_EQ(scale->WordsFor(60), 10);
  EXPECT_EQ(scale->WordsFor(3), 1);
  FakeServer refuses([](const std::string&) { return FakeServer::Answer(400, "no template"); });
  EXPECT_THAT(MeasurePromptScale(refuses.target(), {}).status().message(),
              HasSubstr("status 400: no template"));
}

TEST(ChatLoadTest, CountsTokensAndTheirTimes) {
  FakeServer server([](const std::string&) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // the time that is measured
    return GoodAnswer();
  });
  ChatLoad load = SomeLoad();
  load.concurrency = 3;
  load.goodput.first_token_ms = 5000;
  const auto result = RunChatLoad(server.target(), load, Requests(30));
  ASSERT_TRUE(result.ok()) << result.status().ToString();
  EXPECT_EQ(result->sent, 30u);
  EXPECT_EQ(result->whole, 30u);
  EXPECT_EQ(result->good, 30u);
  EXPECT_EQ(result->tokens, 90u) << "an event brought two tokens";
  EXPECT_EQ(result->prompt_tokens, 300u);
  EXPECT_EQ(result->cached_tokens, 120u);
  EXPECT_EQ(result->first_token.count(), 30u);
  EXPECT_GE(result->first_token.PercentileMs(0.5), 19);
  EXPECT_EQ(result->between_tokens.count(), 30u);
  EXPECT_EQ(result->by_status, (std::map<int, uint64_t>{{200, 30}}));
  EXPECT_EQ(result->ErrorsText(), "-");
  EXPECT_EQ(server.connections(), 4);  // with one that checks for the server
  load.goodput.first_token_ms = 5;
  EXPECT_EQ(RunChatLoad(server.target(), load, Requests(6))->good, 0u);
}

TEST(ChatLoadTest, TellsHowAnswersFail) {
  std::atomic<int> count{0};
  FakeServer server([&](const std::string&) -> std::string {
    switch (++count % 6) {
      case 0:
        return GoodAnswer();
      case 1:
        return FakeServer::Answer(429, "{}", "Retry-After: 1\r\n");
      case 2:
        return FakeServer::Answer(429, "{}");
      case 3:
        return FakeServer::Answer(503, "{}");
      case 4:
        return Chunked({TextEvent("a"), Event(R"({"error":{"message":"late"}})")});
      default:
        return Chunked({TextEvent("a"), Event(kFinish)});  // without [DONE]
    }
  });
  const auto result = RunChatLoad(server.target(), SomeLoad(), Requests(24));
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->whole, 4u);
  EXPECT_EQ(result->by_status, (std::map<int, uint64_t>{{200, 12}, {429, 8}, {503, 4}}));
  EXPECT_EQ(result->no_retry_after, 4u);
  EXPECT_EQ(result->error_events, 4u);
  EXPECT_EQ(result->cut, 4u);
  EXPECT_EQ(result->expired_without_deadline, 8u);
  EXPECT_EQ(result->ErrorCount(), 20u);
  EXPECT_THAT(result->ErrorsText(), HasSubstr("cut: 4"));
}

TEST(ChatLoadTest, AConnectionThatEndsInAStreamIsACut) {
  const std::string half = Chunked({TextEvent("a"), TextEvent("b")});
  FakeServer server([&](const std::string& request) -> std::string {
    if (request.find("\"model\":\"lost\"") != std::string::npos) return "";
    return half.substr(0, half.size() - 5) + "zz\r\n";  // no size of a chunk
  });
  ChatLoad load = SomeLoad();
  auto result = RunChatLoad(server.target(), load, Requests(5));
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->cut, 5u);
  EXPECT_EQ(result->lost, 0u);
  EXPECT_EQ(result->tokens, 10u);
  load.request.model = "lost";
  result = RunChatLoad(server.target(), load, Requests(5));
  EXPECT_EQ(result->lost, 5u);
  EXPECT_EQ(result->by_status.size(), 0u);
}

TEST(ChatLoadTest, ClientsLeaveInTheMiddle) {
  FakeServer server([](const std::string&) {
    // Much longer than clients stay that leave at a moment of their own.
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    return GoodAnswer();
  });
  ChatLoad load = SomeLoad();
  load.leave_share = 1;
  load.leave_ms_max = 10;
  load.request.output_tokens = {1, 1};  // after the first token
  const auto result = RunChatLoad(server.target(), load, Requests(12));
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->left, 12u);
  EXPECT_EQ(result->whole, 0u);
  EXPECT_GT(result->tokens, 0u) << "half of them have seen a token";
  EXPECT_LT(result->tokens, 12u);
}

TEST(ChatLoadTest, SlowReadersTakeTheirTimeAndAskForMore) {
  std::vector<std::string> parts;
  for (int i = 0; i < 40; ++i) parts.push_back(TextEvent(std::string(400, 'x')));
  parts.push_back(Event("[DONE]"));
  std::atomic<int> large{0};
  FakeServer server([&](const std::string& request) {
    large += request.find("top_logprobs") != std::string::npos;
    return Chunked(parts);
  });
  ChatLoad load = SomeLoad();
  load.slow_share = 1;
  load.slow_bytes_per_s = 60'000;  // of 20 KB
  const auto result = RunChatLoad(server.target(), load, Requests(2));
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->slow_whole, 2u);
  EXPECT_EQ(large, 2);
  EXPECT_GT(result->whole_answer.PercentileMs(0), 200);
  EXPECT_EQ(result->between_tokens.count(), 0u);
}

TEST(ChatLoadTest, OpenLoopCountsFromTheIntendedStart) {
  std::atomic<int> count{0};
  FakeServer server([&](const std::string&) {
    // The stall, which counts for those that should have been sent meanwhile.
    if (++count == 10) std::this_thread::sleep_for(std::chrono::milliseconds(400));
    return GoodAnswer();
  });
  ChatLoad load = SomeLoad();
  load.rate = 100;
  const auto result = RunChatLoad(server.target(), load, Requests(150));
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->sent, 150u);
  EXPECT_GT(result->seconds, 1);  // a closed loop would need a few hundredths of it
  EXPECT_GT(result->first_token.PercentileMs(0.85), 50);
}

TEST(ChatLoadTest, WaitsForNoAnswerForEver) {
  FakeServer server([](const std::string&) {
    // Longer than measuring and draining together.
    std::this_thread::sleep_for(std::chrono::milliseconds(700));
    return GoodAnswer();
  });
  const auto result =
      RunChatLoad(server.target(), SomeLoad(), {.warmup_s = 0, .duration_s = 0.2, .drain_s = 0.1});
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->no_answer, 1u);
  EXPECT_EQ(result->errors.at(ChatResult::kNoAnswer), 1u);
}

TEST(ChatSweepTest, ARowForEachSetting) {
  FakeServer server([](const std::string& request) {
    if (request.find("\"stream\":true") != std::string::npos) return GoodAnswer();
    return FakeServer::Answer(200, R"({"usage":{"prompt_tokens":10}})");
  });
  ChatSweepOptions options;
  options.target = server.target();
  options.load = SomeLoad();
  options.load.goodput.whole_ms = 60'000;
  options.concurrencies = {1, 2};
  options.window = Requests(10);
  BenchRecords records;
  ASSERT_TRUE(RunChatSweep(options, &records).ok());
  const std::string lines = records.ToJsonLines();
  for (const char* row : {"concurrency=1", "concurrency=2"}) EXPECT_THAT(lines, HasSubstr(row));
  for (const char* name : {"ttft_p99_ms", "itl_p50_ms", "goodput_per_s", "errors"}) {
    EXPECT_THAT(lines, HasSubstr(std::string("\"chat.http.") + name));
  }
}

TEST(ChatSweepTest, TellsWhyNoAnswerWasMeasured) {
  // Answers take longer than the time that is measured, and come after it.
  const auto answer = [](const std::string& request, const std::string& streamed) {
    if (request.find("\"stream\":true") == std::string::npos) {
      return FakeServer::Answer(200, R"({"usage":{"prompt_tokens":10}})");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1200));  // longer than is measured
    return streamed;
  };
  ChatSweepOptions options;
  options.load = SomeLoad();
  options.concurrencies = {2};
  options.window = {.warmup_s = 0, .duration_s = 0.4, .drain_s = 20};
  BenchRecords records;
  FakeServer slow([&](const std::string& request) { return answer(request, GoodAnswer()); });
  options.target = slow.target();
  EXPECT_EQ(RunChatSweep(options, &records).message(),
            "concurrency=2: no answer came whole in the 0.4 s that were measured: 2 requests were "
            "sent, 2 answers came before or after that time; a longer --duration or fewer "
            "--output-tokens would give some");
  FakeServer full(
      [&](const std::string& request) { return answer(request, FakeServer::Answer(503, "{}")); });
  options.target = full.target();
  EXPECT_EQ(RunChatSweep(options, &records).message(),
            "concurrency=2: no answer came whole in the 0.4 s that were measured: 503: 2");
}

}  // namespace
}  // namespace penstock::load

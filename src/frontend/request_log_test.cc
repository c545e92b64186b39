#include "frontend/request_log.h"

#include <gtest/gtest.h>

#include "frontend/route_info.h"
#include "json/json.h"
#include "metrics/stages.h"

namespace penstock::frontend {
namespace {

using std::chrono::milliseconds;

const Clock::time_point kBegin{std::chrono::hours(1)};
const RouteInfo kEmbed = {"POST", "/embed"};

http::HttpRequest Request() {
  http::HttpRequest request;
  request.method = "POST";
  request.target = "/embed?x=1";
  request.begin = kBegin;
  request.body_bytes = 20;
  request.id = "abc";
  request.remote = "127.0.0.1:9";
  return request;
}

http::HttpRequest TracedRequest() {
  http::HttpRequest request = Request();
  request.context.trace = std::make_shared<metrics::RequestTrace>(kBegin);
  metrics::RequestTrace& trace = *request.context.trace;
  trace.SetModel("m");
  trace.SetRows(3);
  trace.SetTokens(45);
  trace.Enter(metrics::Stage::kParse, kBegin + milliseconds(1));
  trace.Enter(metrics::Stage::kTokenize, kBegin + milliseconds(3));
  trace.Enter(metrics::Stage::kQueue, kBegin + milliseconds(7));
  trace.Batched(kBegin + milliseconds(15), kBegin + milliseconds(16), kBegin + milliseconds(120),
                true);
  trace.Enter(metrics::Stage::kSerialise, kBegin + milliseconds(121));
  trace.Enter(metrics::Stage::kSend, kBegin + milliseconds(123));
  trace.Finish(kBegin + milliseconds(126));
  return request;
}

TEST(RequestLog, ASlowRequestSaysEveryStage) {
  const http::HttpRequest request = TracedRequest();
  EXPECT_EQ(
      SlowSentence({&request, &kEmbed, 200, 90, kBegin + milliseconds(126)}, 45),
      "slow request: 126.0 ms, POST /embed, status 200, model 'm', 3 rows, 45 tokens; "
      "receive 1.000 parse 2.000 load 0.000 tokenize 4.000 queue 8.000 form 1.000 forward 104.000 "
      "prefill 0.000 decode 0.000 complete 1.000 serialise 2.000 send 3.000 ms; id abc, from "
      "127.0.0.1:9; 45 more were slow since the last line");
}

TEST(RequestLog, WithoutATraceTheRestIsSaid) {
  const http::HttpRequest request = Request();
  const RequestRecord record{&request, nullptr, 404, 90, kBegin + milliseconds(100)};
  EXPECT_EQ(SlowSentence(record, 0),
            "slow request: 100.0 ms, no route, status 404; id abc, from 127.0.0.1:9");
  EXPECT_EQ(AccessSentence(record),
            "POST /embed?x=1 404 100.0 ms, 20 bytes in, 90 out, id abc, from 127.0.0.1:9");
  EXPECT_EQ(RequestFields("request", record),
            R"("message":"request","method":"POST","route":null,"target":"/embed?x=1",)"
            R"("status":404,"ms":100.0,"bytes_in":20,"bytes_out":90,"class":"interactive",)"
            R"("request_id":"abc","remote":"127.0.0.1:9")");
}

TEST(RequestLog, SentenceWithTheModel) {
  const http::HttpRequest request = TracedRequest();
  EXPECT_EQ(AccessSentence({&request, &kEmbed, 200, 90, kBegin + milliseconds(126)}),
            "POST /embed?x=1 200 126.0 ms, 20 bytes in, 90 out, model 'm', 3 rows, 45 tokens, "
            "id abc, from 127.0.0.1:9");
}

TEST(RequestLog, Fields) {
  http::HttpRequest request = TracedRequest();
  request.context.priority = Priority::kBulk;
  request.key_number = 2;
  EXPECT_EQ(
      RequestFields("slow request",
                    {&request, &kEmbed, 200, 90, kBegin + std::chrono::microseconds(126'499)}, 7),
      R"("message":"slow request","method":"POST","route":"/embed","target":"/embed?x=1",)"
      R"("status":200,"ms":126.499,"bytes_in":20,"bytes_out":90,"class":"bulk","key":2,)"
      R"("model":"m","rows":3,"tokens":45,"request_id":"abc","remote":"127.0.0.1:9",)"
      R"("stages":{"receive":1.0,"parse":2.0,"load":0.0,"tokenize":4.0,"queue":8.0,"form":1.0,)"
      R"("forward":104.0,"prefill":0.0,"decode":0.0,"complete":1.0,"serialise":2.0,"send":3.0},"left_out":7)");
}

TEST(RequestLog, WhatTheClientChoseIsPrintable) {
  http::HttpRequest request = Request();
  request.target = "/\x1b[2J\"\xe2\x80\xae\xff" + std::string(5000, 'x');
  const std::string line =
      "{" + RequestFields("request", {&request, nullptr, 404, 0, kBegin}) + "}";
  for (const char c : line) EXPECT_TRUE(c >= 0x20 && c < 0x7f) << line;
  EXPECT_LT(line.size(), 600u);
  EXPECT_NE(line.find("u{202e}"), std::string::npos);
  EXPECT_TRUE(JsonDocument::Parse(line).ok()) << line;
}

}  // namespace
}  // namespace penstock::frontend

#include <thread>

#include "http2/http2_session_fixture_test.h"

namespace penstock::http2 {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST_F(Http2SessionTest, RequestAndAnswer) {
  Send(Hello());
  Send(RequestFrame(1, "POST", "/echo?x=1", false, {{"x-a", "b"}}));
  ASSERT_EQ(handler_.seen.size(), 1u);
  SeenStream& stream = *handler_.seen[0];
  EXPECT_EQ(stream.request.method, "POST");
  EXPECT_EQ(stream.request.scheme, "http");
  EXPECT_EQ(stream.request.authority, "h");
  EXPECT_EQ(stream.request.path, "/echo?x=1");
  EXPECT_EQ(stream.request.headers, (HeaderList{{"x-a", "b"}}));
  EXPECT_EQ(stream.request.remote, "1.2.3.4:5");
  EXPECT_EQ(stream.request.begin, now_);
  EXPECT_FALSE(stream.request.ended);
  Send(Frame(kData, 0, 1, "hel"));
  EXPECT_EQ(stream.ended, 0);
  Send(Frame(kData, kEndStream, 1, "lo"));
  EXPECT_EQ(stream.body, "hello");
  EXPECT_EQ(stream.ended, 1);

  const int wakes = wake_->count;
  stream.answer->SendHeaders({{":status", "200"}, {"x-c", "d"}}, false);
  stream.answer->SendData("wor", nullptr, false);
  stream.answer->SendData("ld", nullptr, true);
  EXPECT_EQ(wake_->count, wakes + 1);  // one for all three
  EXPECT_EQ(stream.answer->unsent(), 5u);
  EXPECT_TRUE(stream.gone.empty());
  Take();
  const auto headers = Frames(kHeaders, 1);
  ASSERT_EQ(headers.size(), 1u);
  EXPECT_EQ(headers[0].headers, (HeaderList{{":status", "200"}, {"x-c", "d"}}));
  EXPECT_EQ(Body(1), "world");
  EXPECT_TRUE(Frames(kData, 1).back().ended());
  EXPECT_EQ(stream.gone, std::vector{Http2Gone::kAnswered});
  EXPECT_TRUE(stream.answer->gone());
  EXPECT_EQ(session_->streams(), 0u);
  stream.answer->SendData("late", nullptr, true);  // does nothing
  Take();
  EXPECT_EQ(Body(1), "world");
}

TEST_F(Http2SessionTest, OnGoneComesOnceTheKernelHasAll) {
  Send(Hello() + RequestFrame(1, "GET", "/", true));
  SeenStream& stream = *handler_.seen.at(0);
  EXPECT_TRUE(stream.request.ended);
  auto kept = std::make_shared<int>(1);
  const std::weak_ptr<int> memory = kept;
  stream.answer->SendHeaders({{":status", "200"}}, false);
  stream.answer->SendData("abc", std::move(kept), true);
  session_->TakePosted(now_);
  std::string bytes;
  session_->Produce(64 << 10, &bytes, now_);
  session_->Sent(bytes.size() - 1, now_);
  EXPECT_EQ(stream.answer->unsent(), 3u);
  EXPECT_FALSE(memory.expired());
  EXPECT_TRUE(stream.gone.empty());
  session_->Sent(1, now_);
  EXPECT_EQ(stream.answer->unsent(), 0u);
  EXPECT_TRUE(memory.expired());
  EXPECT_EQ(stream.sent, 1);
  EXPECT_EQ(stream.gone, std::vector{Http2Gone::kAnswered});
}

TEST_F(Http2SessionTest, TrailersOfBothSides) {
  Send(Hello() + RequestFrame(1, "POST", "/", false) + Frame(kData, 0, 1, "x") +
       Frame(kHeaders, kEndHeaders | kEndStream, 1, HpackField("t", "1")));
  SeenStream& stream = *handler_.seen.at(0);
  EXPECT_EQ(stream.trailers, (HeaderList{{"t", "1"}}));
  EXPECT_EQ(stream.ended, 1);
  stream.answer->SendHeaders({{":status", "200"}}, false);
  Take();
  stream.answer->SendData("abc", nullptr, false);
  stream.answer->SendTrailers({{"grpc-status", "0"}});
  Take();
  const auto headers = Frames(kHeaders, 1);
  ASSERT_EQ(headers.size(), 2u);
  EXPECT_EQ(headers[1].headers, (HeaderList{{"grpc-status", "0"}}));
  EXPECT_TRUE(headers[1].ended());
  EXPECT_EQ(Body(1), "abc");
  EXPECT_EQ(stream.gone, std::vector{Http2Gone::kAnswered});
}

TEST_F(Http2SessionTest, TrailersAloneAndInformationalStatus) {
  Send(Hello() + RequestFrame(1, "POST", "/", true));
  SeenStream& stream = *handler_.seen.at(0);
  stream.answer->SendHeaders({{":status", "103"}}, false);
  stream.answer->SendHeaders({{":status", "200"}, {"grpc-status", "5"}}, true);
  Take();
  const auto headers = Frames(kHeaders, 1);
  ASSERT_EQ(headers.size(), 2u);
  EXPECT_EQ(headers[0].headers[0].second, "103");
  EXPECT_TRUE(headers[1].ended());
  EXPECT_TRUE(Frames(kData, 1).empty());
  EXPECT_EQ(stream.gone, std::vector{Http2Gone::kAnswered});
}

TEST_F(Http2SessionTest, AnEarlyAnswerStopsTheClient) {
  Send(Hello() + RequestFrame(1, "POST", "/now", false) + Frame(kData, 0, 1, "abc"));
  ASSERT_EQ(Frames(kHeaders, 1).size(), 1u);
  EXPECT_EQ(session_->streams(), 0u);
  // What is under way is read, past the window.
  for (int i = 0; i < 10; ++i) Send(Frame(kData, 0, 1, std::string(16 << 10, 'x')));
  EXPECT_TRUE(Frames(kRstStream, 1).empty());
  Wait(seconds(1));
  ASSERT_EQ(Frames(kRstStream, 1).size(), 1u);
  EXPECT_EQ(Frames(kRstStream, 1)[0].error(), 0u);
  Send(Frame(kData, 0, 1, "more") + RequestFrame(3, "GET", "/now", true));
  EXPECT_EQ(Frames(kHeaders, 3).size(), 1u);
}

TEST_F(Http2SessionTest, AClientThatEndsAfterItsAnswerIsNotReset) {
  Send(Hello() + RequestFrame(1, "POST", "/now", false));
  Send(Frame(kData, kEndStream, 1, "abc"));
  Wait(seconds(2));
  EXPECT_TRUE(Frames(kRstStream, 1).empty());
}

TEST_F(Http2SessionTest, FewStreamsLinger) {
  Send(Hello());
  for (uint32_t id = 1; id < 1000; id += 2) Send(RequestFrame(id, "POST", "/now", false));
  EXPECT_FALSE(session_->done());
  EXPECT_GE(Frames(kRstStream).size(), 400u);
}

TEST_F(Http2SessionTest, TheWindowOpensAsBytesAreConsumed) {
  Send(Hello() + RequestFrame(1, "POST", "/full", false));
  SeenStream& stream = *handler_.seen.at(0);
  const std::string frame = Frame(kData, 0, 1, std::string(16 << 10, 'x'));
  for (int i = 0; i < 4; ++i) Send(frame);
  EXPECT_EQ(stream.body.size(), size_t{64} << 10);
  const size_t opened = Frames(kWindowUpdate, 1).size();
  stream.answer->Consume(64 << 10);
  Take();
  EXPECT_EQ(Frames(kWindowUpdate, 1).size(), opened + 1);
  for (int i = 0; i < 4; ++i) Send(frame);
  EXPECT_EQ(stream.body.size(), size_t{128} << 10);
  EXPECT_TRUE(stream.gone.empty());
  Send(Frame(kData, 0, 1, "x"));  // over the window
  EXPECT_EQ(stream.gone, std::vector{Http2Gone::kReset});
  ASSERT_EQ(Frames(kRstStream, 1).size(), 1u);
  EXPECT_EQ(Frames(kRstStream, 1)[0].error(), static_cast<uint32_t>(Http2Error::kFlowControlError));
  EXPECT_EQ(stream.body.size(), size_t{128} << 10);
}

TEST_F(Http2SessionTest, BytesOfStreamsThatAreGoneAreGivenBack) {
  Send(Hello());
  const std::string body(16 << 10, 'x');
  // Four times the window of the connection, none of it consumed.
  for (uint32_t id = 1; id < 2 * 64; id += 2) {
    Send(RequestFrame(id, "POST", "/full", false));
    for (int i = 0; i < 4; ++i) Send(Frame(kData, 0, id, body));
    ASSERT_FALSE(session_->done()) << id;
    handler_.seen.back()->answer->SendHeaders({{":status", "200"}}, true);
    Take();
  }
  EXPECT_EQ(session_->streams(), 0u);
  EXPECT_TRUE(Frames(kGoAway).empty());
}

TEST_F(Http2SessionTest, LargeAnswersTakeTurns) {
  Send(Hello(BigEndian(4, 2) + BigEndian(1 << 20, 4)) +
       Frame(kWindowUpdate, 0, 0, BigEndian(1 << 20, 4)) + RequestFrame(1, "GET", "/", true) +
       RequestFrame(3, "GET", "/", true));
  for (const auto& stream : handler_.seen) {
    stream->answer->SendHeaders({{":status", "200"}}, false);
    stream->answer->SendData(std::string(100'000, 'x'), nullptr, true);
  }
  Take();
  EXPECT_EQ(Body(1).size(), 100'000u);
  EXPECT_EQ(Body(3).size(), 100'000u);
  // Neither has sent half before the other has begun.
  const auto first = std::find_if(frames_.begin(), frames_.end(), [](const SeenFrame& frame) {
    return frame.type == kData && frame.stream == 3;
  });
  size_t before = 0;
  for (auto at = frames_.begin(); at != first; ++at) {
    if (at->type == kData) before += at->payload.size();
  }
  EXPECT_LE(before, 50'000u);
}

TEST_F(Http2SessionTest, OnSentTellsWhenThereIsRoom) {
  Send(Hello() + RequestFrame(1, "GET", "/", true));  // a window of 65,535 bytes
  SeenStream& stream = *handler_.seen.at(0);
  stream.answer->SendHeaders({{":status", "200"}}, false);
  stream.answer->SendData(std::string(200'000, 'x'), nullptr, false);
  Take();
  EXPECT_EQ(stream.answer->unsent(), 200'000u - 65'535);
  EXPECT_EQ(stream.sent, 0);
  const std::string more = BigEndian(100'000, 4);
  Send(Frame(kWindowUpdate, 0, 0, more) + Frame(kWindowUpdate, 0, 1, more));
  EXPECT_EQ(stream.answer->unsent(), 100'000u - 65'535);
  EXPECT_EQ(stream.sent, 1);
  Send(Frame(kWindowUpdate, 0, 0, more) + Frame(kWindowUpdate, 0, 1, more));
  EXPECT_EQ(stream.sent, 2);
  stream.answer->SendData("", nullptr, true);
  Take();
  EXPECT_EQ(stream.gone, std::vector{Http2Gone::kAnswered});
}

TEST_F(Http2SessionTest, ResetsOfBothSides) {
  Send(Hello() + RequestFrame(1, "POST", "/", false) + RequestFrame(3, "POST", "/", false));
  auto kept = std::make_shared<int>(1);
  const std::weak_ptr<int> memory = kept;
  handler_.seen[0]->answer->SendHeaders({{":status", "200"}}, false);
  handler_.seen[0]->answer->SendData("x", std::move(kept), false);
  Send(Frame(kRstStream, 0, 1, BigEndian(8, 4)));
  EXPECT_EQ(handler_.seen[0]->gone, std::vector{Http2Gone::kClientLeft});
  EXPECT_TRUE(memory.expired());
  handler_.seen[1]->answer->Reset(Http2Error::kRefusedStream);
  EXPECT_TRUE(handler_.seen[1]->gone.empty());  // not from inside the call
  Take();
  EXPECT_EQ(handler_.seen[1]->gone, std::vector{Http2Gone::kReset});
  ASSERT_EQ(Frames(kRstStream, 3).size(), 1u);
  EXPECT_EQ(Frames(kRstStream, 3)[0].error(), 7u);
}

TEST_F(Http2SessionTest, ALostAnswerAndAnExceptionResetTheStream) {
  Send(Hello() + RequestFrame(1, "POST", "/", true) + RequestFrame(3, "POST", "/", false));
  handler_.seen[0]->answer = nullptr;
  Take();
  ASSERT_EQ(Frames(kRstStream, 1).size(), 1u);
  EXPECT_EQ(Frames(kRstStream, 1)[0].error(), 2u);
  EXPECT_EQ(handler_.seen[0]->gone, std::vector{Http2Gone::kReset});
  Send(Frame(kData, 0, 3, "throw"));
  EXPECT_EQ(Frames(kRstStream, 3).size(), 1u);
  EXPECT_EQ(handler_.seen[1]->gone, std::vector{Http2Gone::kReset});
  EXPECT_FALSE(session_->done());
}

TEST_F(Http2SessionTest, AnswersFromOtherThreads) {
  Send(Hello());
  for (uint32_t id = 1; id < 40; id += 2) Send(RequestFrame(id, "GET", "/", true));
  std::vector<std::thread> threads;
  for (const auto& stream : handler_.seen) {
    threads.emplace_back([stream] {
      stream->answer->SendHeaders({{":status", "200"}}, false);
      for (int i = 0; i < 100; ++i)
        stream->answer->SendData(std::to_string(i) + " ", nullptr, false);
      stream->answer->SendTrailers({{"t", "1"}});
    });
  }
  for (int i = 0; i < 50; ++i) Take();
  for (std::thread& thread : threads) thread.join();
  Take();
  std::string wanted;
  for (int i = 0; i < 100; ++i) wanted += std::to_string(i) + " ";
  for (uint32_t id = 1; id < 40; id += 2) EXPECT_EQ(Body(id), wanted);
  for (const auto& stream : handler_.seen) {
    EXPECT_EQ(stream->gone, std::vector{Http2Gone::kAnswered});
  }
}

TEST_F(Http2SessionTest, TheLostConnectionEndsStreams) {
  Send(Hello() + RequestFrame(1, "POST", "/", false));
  const auto stream = handler_.seen.at(0);
  session_->Lose();
  EXPECT_EQ(stream->gone, std::vector{Http2Gone::kClientLeft});
  EXPECT_TRUE(session_->done());
  session_ = nullptr;
  stream->answer->SendHeaders({{":status", "200"}}, true);  // does nothing
  EXPECT_EQ(stream->gone.size(), 1u);
}

TEST_F(Http2SessionTest, TimesOfStreams) {
  Send(Hello() + RequestFrame(1, "POST", "/", false));
  const auto stream = handler_.seen.at(0);
  stream->answer->WakeAt(now_ + seconds(5));
  Take();
  EXPECT_EQ(session_->NextTime(), now_ + seconds(5));
  Wait(seconds(4));
  EXPECT_EQ(stream->times, 0);
  Wait(seconds(1));
  EXPECT_EQ(stream->times, 1);
  Wait(seconds(5));
  EXPECT_EQ(stream->times, 1);
}

TEST_F(Http2SessionTest, MalformedRequestsAreReset) {
  Send(Hello());
  const std::vector<std::string> blocks = {
      HpackRequest("GET", "/", {{"Upper", "x"}}),
      HpackRequest("GET", "/", {{"connection", "close"}}),
      HpackRequest("GET", "/", {{"transfer-encoding", "chunked"}}),
      HpackRequest("GET", "/", {{"te", "gzip"}}),
      HpackRequest("GET", "/", {{"a b", "x"}}),
      HpackRequest("GET", "/", {{"x", "a\r\nb"}}),
      HpackRequest("GET", "/", {{":path", "/late"}}),
      HpackRequest("GET", "/", {{":unknown", "x"}}),
      HpackRequest("GET", "/", {{"content-length", "x"}}),
      HpackRequest("GET", ""),
      HpackField(":method", "GET") + HpackField(":scheme", "http"),
      HpackField(":status", "200"),
  };
  uint32_t id = 1;
  for (const std::string& block : blocks) {
    Send(Frame(kHeaders, kEndHeaders | kEndStream, id, block));
    ASSERT_EQ(Frames(kRstStream, id).size(), 1u) << id;
    EXPECT_EQ(Frames(kRstStream, id)[0].error(), 1u) << id;
    EXPECT_TRUE(Frames(kHeaders, id).empty()) << id;
    id += 2;
  }
  EXPECT_EQ(handler_.streams, 0);
  EXPECT_EQ(session_->streams(), 0u);
  Send(RequestFrame(id, "GET", "/now", true));
  EXPECT_EQ(Frames(kHeaders, id).size(), 1u);
}

TEST_F(Http2SessionTest, BytesThatAreNoHttp2) {
  Send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_TRUE(session_->done());
}

TEST_F(Http2SessionTest, ShutdownLetsStreamsFinish) {
  Send(Hello() + RequestFrame(1, "POST", "/", true));
  session_->BeginShutdown(now_);
  Take();
  auto away = Frames(kGoAway);
  ASSERT_EQ(away.size(), 1u);
  EXPECT_EQ(away[0].payload.substr(0, 4), BigEndian(0x7fffffff, 4));
  // On its way when the notice was sent: still answered.
  Send(RequestFrame(3, "POST", "/", true));
  ASSERT_EQ(handler_.seen.size(), 2u);
  const auto pings = Frames(kPing);
  ASSERT_EQ(pings.size(), 1u);
  Send(Frame(kPing, kAck, 0, pings[0].payload));
  away = Frames(kGoAway);
  ASSERT_EQ(away.size(), 2u);
  EXPECT_EQ(away[1].payload.substr(0, 4), BigEndian(3, 4));
  EXPECT_EQ(away[1].error(), 0u);
  Send(RequestFrame(5, "POST", "/", true));
  EXPECT_EQ(handler_.seen.size(), 2u);
  EXPECT_FALSE(session_->done());
  for (const auto& stream : handler_.seen) stream->answer->SendHeaders({{":status", "200"}}, true);
  Take();
  EXPECT_TRUE(session_->done());
  EXPECT_EQ(handler_.seen[1]->gone, std::vector{Http2Gone::kAnswered});
}

TEST_F(Http2SessionTest, ShutdownOfAClientThatAnswersNoPing) {
  Send(Hello());
  session_->BeginShutdown(now_);
  Take();
  EXPECT_FALSE(session_->done());
  Wait(seconds(1));
  EXPECT_EQ(Frames(kGoAway).size(), 2u);
  EXPECT_TRUE(session_->done());
}

TEST_F(Http2SessionTest, InterruptAsksForTheLastAnswer) {
  Send(Hello() + RequestFrame(1, "POST", "/", true));
  session_->BeginShutdown(now_);
  session_->Interrupt(now_);
  EXPECT_EQ(handler_.seen[0]->interrupts, 1);
  handler_.seen[0]->answer->SendHeaders({{":status", "503"}}, true);
  Take();
  EXPECT_EQ(Frames(kHeaders, 1).size(), 1u);
  EXPECT_TRUE(session_->done());
}

}  // namespace
}  // namespace penstock::http2

// What clients may do without paying for it: each of the bounds that http2_session.h names.
#include <malloc.h>

#include "http2/http2_session_fixture_test.h"

namespace penstock::http2 {
namespace {

using std::chrono::seconds;

class Http2FloodTest : public Http2SessionTest {
 protected:
  void SetUp() override {
    Http2SessionTest::SetUp();
    begin_ = InUse();
  }
  // Bytes of the heap; 0 where a sanitizer has taken it over.
  static size_t InUse() { return mallinfo2().uordblks; }
  size_t Grown() const { return InUse() > begin_ ? InUse() - begin_ : 0; }

  // `count` frames, as long as the connection stands.
  void Repeat(int count, const std::function<std::string(uint32_t)>& make) {
    for (int i = 0; i < count && !session_->done(); ++i) {
      Send(make(static_cast<uint32_t>(2 * i + 1)));
    }
  }
  size_t begin_ = 0;
};

constexpr size_t kGrownMax = 1 << 20;

TEST_F(Http2FloodTest, RapidReset) {
  Send(Hello());
  Repeat(30'000, [](uint32_t id) {
    return RequestFrame(id, "POST", "/", false) + Frame(kRstStream, 0, id, BigEndian(8, 4));
  });
  ExpectFlood();
  EXPECT_LE(handler_.streams, static_cast<int>(kResetsMax) + 1);
  handler_.seen.clear();
  frames_.clear();
  EXPECT_LE(Grown(), kGrownMax);
}

// In one block as it comes from the socket, with nothing sent in between.
TEST_F(Http2FloodTest, RapidResetInOneBlock) {
  std::string all = Hello();
  for (uint32_t id = 1; id < 1000; id += 2) {
    all += RequestFrame(id, "POST", "/", false) + Frame(kRstStream, 0, id, BigEndian(8, 4));
  }
  session_->Receive(all, now_);
  ExpectFlood();
  EXPECT_LE(handler_.streams, static_cast<int>(kResetsMax) + 1);
}

TEST_F(Http2FloodTest, ResetsAreGivenBackByAnswersAndTime) {
  Send(Hello());
  for (uint32_t id = 1; id < 2000; id += 4) {
    Send(RequestFrame(id, "POST", "/", false) + Frame(kRstStream, 0, id, BigEndian(8, 4)));
    Send(RequestFrame(id + 2, "GET", "/now", true));
  }
  EXPECT_FALSE(session_->done());
  for (uint32_t id = 2001; id < 4000; id += 2) {
    now_ += std::chrono::milliseconds(100);
    Send(RequestFrame(id, "POST", "/", false) + Frame(kRstStream, 0, id, BigEndian(8, 4)));
  }
  EXPECT_FALSE(session_->done());
  EXPECT_EQ(session_->streams(), 0u);
}

// The client makes the server reset its streams: a window over the largest there is.
TEST_F(Http2FloodTest, StreamsThatHadToBeReset) {
  Send(Hello());
  Repeat(30'000, [](uint32_t id) {
    return RequestFrame(id, "POST", "/", false) +
           Frame(kWindowUpdate, 0, id, BigEndian(0x7fffffff, 4));
  });
  ExpectFlood();
  EXPECT_LE(handler_.streams, static_cast<int>(kResetsMax) + 1);
}

TEST_F(Http2FloodTest, MalformedRequests) {
  Send(Hello());
  Repeat(30'000, [](uint32_t id) {
    return RequestFrame(id, "GET", "/", true, {{"connection", "close"}});
  });
  ExpectFlood();
  EXPECT_EQ(handler_.streams, 0);
}

TEST_F(Http2FloodTest, StreamsBeforeTheSettingsAreAcknowledged) {
  Send(std::string(kHttp2Preface) + Frame(kSettings, 0, 0, ""));
  size_t most = 0;
  Repeat(6000, [&](uint32_t id) {
    most = std::max(most, session_->streams());
    return RequestFrame(id, "POST", "/", false);
  });
  EXPECT_LE(most, 100u);
  EXPECT_EQ(handler_.streams, 100);
  ExpectFlood();
  // The first that was over the limit was refused by itself.
  ASSERT_FALSE(Frames(kRstStream, 201).empty());
  EXPECT_EQ(Frames(kRstStream, 201)[0].error(), 7u);
  EXPECT_LE(Frames(kRstStream).size(), kRefusedMax + 1);
}

TEST_F(Http2FloodTest, StreamsAfterTheSettingsAreAcknowledged) {
  Send(Hello());
  Repeat(6000, [](uint32_t id) { return RequestFrame(id, "POST", "/", false); });
  EXPECT_EQ(handler_.streams, 100);
  EXPECT_TRUE(session_->done());
  EXPECT_EQ(session_->streams(), 0u);
}

TEST_F(Http2FloodTest, HeaderListsOverTheLimit) {
  Send(Hello());
  for (uint32_t id = 1; id < 41; id += 2) {
    std::string block = HpackRequest("GET", "/");
    for (int i = 0; i < 30; ++i)
      block += HpackField("x-" + std::to_string(i), std::string(1000, 'v'));
    Send(Frame(kHeaders, kEndStream, id, block.substr(0, 16'000)) +
         Frame(kContinuation, kEndHeaders, id, block.substr(16'000)));
    ASSERT_EQ(Frames(kHeaders, id).size(), 1u);
    EXPECT_EQ(Frames(kHeaders, id)[0].headers, (HeaderList{{":status", "431"}}));
  }
  EXPECT_EQ(handler_.streams, 0);
  frames_.clear();
  EXPECT_LE(Grown(), kGrownMax);
  Send(RequestFrame(41, "GET", "/now", true));  // the tables of both sides still agree
  EXPECT_EQ(Frames(kHeaders, 41).size(), 1u);
}

// A byte of the block stands for 4,000 of the table.
TEST_F(Http2FloodTest, ReferencesToALargeEntry) {
  Send(Hello());
  Send(Frame(kHeaders, kEndHeaders | kEndStream, 1,
             HpackRequest("GET", "/now") + HpackField("x", std::string(4000, 'v'), 0x40)));
  const auto references = [](size_t count) {
    return std::string(count, static_cast<char>(0x80 | 62));
  };
  Send(Frame(kHeaders, kEndHeaders | kEndStream, 3, HpackRequest("GET", "/") + references(3)));
  EXPECT_EQ(handler_.streams, 2);  // within the limit
  Send(Frame(kHeaders, kEndHeaders | kEndStream, 5, HpackRequest("GET", "/") + references(5)));
  ASSERT_EQ(Frames(kHeaders, 5).size(), 1u);
  EXPECT_EQ(Frames(kHeaders, 5)[0].headers[0].second, "431");
  EXPECT_FALSE(session_->done());
  Send(Frame(kHeaders, kEndStream, 7, HpackRequest("GET", "/") + references(16'000)));
  ExpectFlood();
  EXPECT_EQ(handler_.streams, 2);
  EXPECT_LE(Grown(), kGrownMax);
}

// Fields that are not valid are checked byte by byte before they are dropped.
TEST_F(Http2FloodTest, ReferencesToALargeInvalidEntry) {
  Send(Hello());
  const std::string bad = HpackField("x", std::string(3990, 'v') + '\x01', 0x40);
  const std::string references(16'000, static_cast<char>(0x80 | 62));
  Send(Frame(kHeaders, kEndStream, 1, HpackRequest("GET", "/") + bad) +
       Frame(kContinuation, 0, 1, references));
  ExpectFlood();
  EXPECT_EQ(handler_.streams, 0);
}

// Each list is within the limit, and costs the client a few bytes.
TEST_F(Http2FloodTest, HeaderListsOfManyStreams) {
  Send(Hello());
  const auto request = [](uint32_t id) {
    // The first one fills the table, and the others refer to it.
    const std::string field =
        id == 1 ? HpackField("x", std::string(3500, 'v'), 0x40) : std::string("\xbe");
    return Frame(kHeaders, kEndHeaders, id, HpackRequest("POST", "/") + field + "\xbe\xbe\xbe");
  };
  for (uint32_t id = 1; id < 200; id += 2) Send(request(id));
  EXPECT_FALSE(session_->done());
  const size_t taken = session_->streams();
  EXPECT_GT(taken, 15u);
  EXPECT_LE(taken * 4 * 3500, kHeaderBytesKept + (16 << 10));
  EXPECT_EQ(handler_.streams, static_cast<int>(taken));
  ASSERT_EQ(Frames(kRstStream).size(), 100 - taken);
  EXPECT_EQ(Frames(kRstStream).back().error(), static_cast<uint32_t>(Http2Error::kRefusedStream));
  EXPECT_LE(Grown(), kGrownMax);
  // One that goes makes room.
  handler_.seen[0]->answer->SendHeaders({{":status", "200"}}, true);
  Take();
  Send(request(201));
  EXPECT_EQ(session_->streams(), taken);
  EXPECT_EQ(handler_.streams, static_cast<int>(taken + 1));
  // Refusals are bounded, too.
  for (uint32_t id = 203; id < 203 + 2 * kRefusedMax; id += 2) Send(request(id));
  ExpectFlood();
}

TEST_F(Http2FloodTest, HeaderListsOfSomeSizeOnAllStreams) {
  Send(Hello());
  for (uint32_t id = 1; id < 200; id += 2) {
    Send(RequestFrame(id, "POST", "/", false, {{"authorization", std::string(1700, 't')}}));
  }
  EXPECT_EQ(session_->streams(), 100u);
}

TEST_F(Http2FloodTest, Continuations) {
  Send(Hello() + Frame(kHeaders, kEndStream, 1, HpackRequest("GET", "/")));
  const std::string block = HpackField("x", std::string(10'000, 'v'));
  Repeat(10'000, [&](uint32_t) { return Frame(kContinuation, 0, 1, block); });
  ExpectFlood();
  EXPECT_EQ(handler_.streams, 0);
  EXPECT_LE(Grown(), kGrownMax);
}

TEST_F(Http2FloodTest, EmptyContinuations) {
  Send(Hello() + Frame(kHeaders, kEndStream, 1, HpackRequest("GET", "/")));
  Repeat(10'000, [&](uint32_t) { return Frame(kContinuation, 0, 1, ""); });
  ExpectFlood();
}

// Numbers and strings that have no end must not be kept or walked again and again.
TEST_F(Http2FloodTest, NumbersAndStringsWithoutEnd) {
  for (const std::string& begin :
       {std::string("\x7f"), std::string("\x40\x7f"), std::string("\x40\xff"), std::string("\x3f"),
        HpackInteger(0, 7, 1 << 30), "\x40" + HpackInteger(0, 7, 1 << 30)}) {
    for (const char filler : {'\x80', '\xff', 'a'}) {
      handler_ = {};
      Start();
      begin_ = InUse();
      Send(Hello() + Frame(kHeaders, kEndStream, 1, begin));
      const std::string block(16'000, filler);
      for (int i = 0; i < 1000 && !session_->done(); ++i) Send(Frame(kContinuation, 0, 1, block));
      EXPECT_TRUE(session_->done());
      EXPECT_EQ(handler_.streams, 0);
      EXPECT_LE(Grown(), kGrownMax);
    }
  }
}

TEST_F(Http2FloodTest, EmptyData) {
  Send(Hello() + RequestFrame(1, "POST", "/", false));
  for (size_t i = 0; i < kEmptyFramesMax; ++i) Send(Frame(kData, 0, 1, ""));
  Send(Frame(kData, 0, 1, "x"));  // something: counted anew
  for (size_t i = 0; i < kEmptyFramesMax; ++i) Send(Frame(kData, 0, 1, ""));
  EXPECT_FALSE(session_->done());
  Send(Frame(kData, 0, 1, ""));
  ExpectFlood();
}

TEST_F(Http2FloodTest, EmptyDataOfPadding) {
  Send(Hello() + RequestFrame(1, "POST", "/", false));
  constexpr uint8_t kPadded = 8;
  Repeat(100, [](uint32_t) {
    return Frame(kData, kPadded, 1, static_cast<char>(100) + std::string(100, '\0'));
  });
  ExpectFlood();
}

TEST_F(Http2FloodTest, Pings) {
  Send(Hello());
  Repeat(100'000, [](uint32_t) { return Frame(kPing, 0, 0, std::string(8, 'p')); });
  ExpectFlood();
  EXPECT_LE(Frames(kPing).size(), kPingsMax + 1);
}

TEST_F(Http2FloodTest, PingsNowAndThen) {
  Send(Hello());
  for (int i = 0; i < 1000; ++i) {
    now_ += std::chrono::milliseconds(100);
    Send(Frame(kPing, 0, 0, std::string(8, 'p')));
  }
  EXPECT_FALSE(session_->done());
  EXPECT_EQ(Frames(kPing).size(), 1000u);
}

TEST_F(Http2FloodTest, Settings) {
  Send(Hello());
  Repeat(100'000,
         [](uint32_t) { return Frame(kSettings, 0, 0, BigEndian(4, 2) + BigEndian(1000, 4)); });
  ExpectFlood();
  EXPECT_LE(Frames(kSettings).size(), kSettingsMax + 2);
}

TEST_F(Http2FloodTest, Priorities) {
  Send(Hello());
  Repeat(100'000, [](uint32_t id) { return Frame(kPriority, 0, id, BigEndian(0, 4) + "w"); });
  ExpectFlood();
}

// They cost nothing but their bytes.
TEST_F(Http2FloodTest, UnknownFramesAreSkipped) {
  Send(Hello());
  for (const uint8_t type : {uint8_t{0x10}, uint8_t{0x20}}) {
    Repeat(10'000, [&](uint32_t id) { return Frame(type, 0, id, "abc"); });
  }
  EXPECT_LE(Grown(), kGrownMax);
  Send(RequestFrame(1, "GET", "/now", true));
  EXPECT_EQ(Frames(kHeaders, 1).size(), 1u);
}

TEST_F(Http2FloodTest, WindowUpdates) {
  Send(Hello());
  Repeat(100'000, [](uint32_t) { return Frame(kWindowUpdate, 0, 0, BigEndian(1, 4)); });
  ExpectFlood();
}

// If the client takes no answers, frames that would have to be answered are not read.
TEST_F(Http2FloodTest, AClientThatTakesNothingIsNotReadFrom) {
  Send(Hello());
  takes_ = false;
  int sent = 0;
  for (uint32_t id = 1; id < 20'000 && session_->WantsRead(); id += 2, ++sent) {
    Send(RequestFrame(id, "GET", "/now", true));
  }
  EXPECT_LE(sent, static_cast<int>(kFramesQueuedMax) + 10);
  EXPECT_FALSE(session_->done());
  takes_ = true;
  Take();
  EXPECT_TRUE(session_->WantsRead()) << session_->done();
}

TEST_F(Http2FloodTest, AStreamThatTheClientDoesNotTake) {
  Send(Hello(BigEndian(4, 2) + BigEndian(0, 4)) + RequestFrame(1, "GET", "/", true));  // no window
  SeenStream& stream = *handler_.seen.at(0);
  stream.answer->SendHeaders({{":status", "200"}}, false);
  stream.answer->SendData(std::string(100'000, 'x'), nullptr, true);
  Take();
  EXPECT_TRUE(Frames(kData, 1).empty());
  Wait(seconds(20));
  // A byte now and then does not keep it.
  Send(Frame(kWindowUpdate, 0, 1, BigEndian(1, 4)));
  EXPECT_EQ(Body(1).size(), 1u);
  EXPECT_TRUE(stream.gone.empty());
  Wait(seconds(10));
  EXPECT_EQ(stream.gone, std::vector{Http2Gone::kTooSlow});
  EXPECT_EQ(Frames(kRstStream, 1).size(), 1u);
  EXPECT_FALSE(session_->done());
}

TEST_F(Http2FloodTest, AStreamThatIsTakenSlowlyLives) {
  Send(Hello(BigEndian(4, 2) + BigEndian(0, 4)) + RequestFrame(1, "GET", "/", true));
  SeenStream& stream = *handler_.seen.at(0);
  stream.answer->SendHeaders({{":status", "200"}}, false);
  stream.answer->SendData(std::string(160'000, 'x'), nullptr, true);
  for (int i = 0; i < 8; ++i) {
    Wait(seconds(20));
    Send(Frame(kWindowUpdate, 0, 1, BigEndian(20'000, 4)) +
         Frame(kWindowUpdate, 0, 0, BigEndian(20'000, 4)) +
         Frame(kPing, kAck, 0, std::string(8, 'p')));
  }
  EXPECT_EQ(stream.gone, std::vector{Http2Gone::kAnswered});
}

TEST_F(Http2FloodTest, NoPrefaceInTime) {
  session_->Receive("PRI", now_);
  EXPECT_EQ(session_->NextTime(), now_ + seconds(30));
  Wait(seconds(30));
  EXPECT_TRUE(session_->done());
}

TEST_F(Http2FloodTest, AHeaderListThatDoesNotEnd) {
  Send(Hello());
  Wait(seconds(40));
  Send(Frame(kHeaders, kEndStream, 1, HpackRequest("GET", "/")));
  Wait(seconds(29));
  EXPECT_FALSE(session_->done());
  Wait(seconds(1));
  EXPECT_TRUE(session_->done());
  EXPECT_EQ(session_->streams(), 0u);
}

TEST_F(Http2FloodTest, ASilentClientMustAnswerAPing) {
  Send(Hello() + RequestFrame(1, "POST", "/", false));
  for (int i = 0; i < 3; ++i) {
    Wait(seconds(60));
    ASSERT_EQ(Frames(kPing).size(), static_cast<size_t>(i + 1));
    Send(Frame(kPing, kAck, 0, Frames(kPing).back().payload));
  }
  Wait(seconds(60));
  Wait(seconds(20));
  EXPECT_TRUE(session_->done());
  EXPECT_EQ(handler_.seen[0]->gone, std::vector{Http2Gone::kClientLeft});
}

TEST_F(Http2FloodTest, AnIdleConnectionEnds) {
  Http2Limits limits;
  limits.idle_timeout = seconds(10);
  Start(limits);
  Send(Hello() + RequestFrame(1, "GET", "/", true));
  Wait(seconds(20));
  EXPECT_FALSE(session_->done());
  handler_.seen[0]->answer->SendHeaders({{":status", "200"}}, true);
  Take();
  Wait(seconds(9));
  EXPECT_FALSE(session_->done());
  Wait(seconds(1));
  EXPECT_TRUE(session_->done());
  ASSERT_EQ(Frames(kGoAway).size(), 1u);
  EXPECT_EQ(Frames(kGoAway)[0].error(), 0u);
}

}  // namespace
}  // namespace penstock::http2

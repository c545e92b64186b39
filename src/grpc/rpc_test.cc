#include "grpc/rpc.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <string>
#include <vector>

#include "grpc/rpc_fixture_test.h"
#include "grpc/rpc_head.h"
#include "http/gzip.h"

namespace penstock::grpc {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

// Writes down what it is told.
class Reactor final : public RpcReactor {
 public:
  void OnMessage(std::string message) override {
    messages.push_back(std::move(message));
    if (reads_on) rpc->Read();
  }
  void OnReadEnd(const Status& status) override {
    ++read_ends;
    read_end = status;
  }
  void OnWritten(bool ok) override { written.push_back(ok); }
  void OnWake() override { ++wakes; }
  void OnCancel() override { ++cancels; }
  void OnDone() override { ++dones; }

  Rpc* rpc = nullptr;
  bool reads_on = false;
  std::vector<std::string> messages;
  Status read_end;
  int read_ends = 0, wakes = 0, cancels = 0, dones = 0;
  std::vector<bool> written;
};

class RpcTest : public testing::Test {
 protected:
  RpcTest() {
    options_.message_bytes_max = 1 << 20;
    options_.on_worker = [this](Priority, size_t, std::function<void()> work) {
      work_.push_back(std::move(work));
    };
  }
  ~RpcTest() override {
    if (rpc_ == nullptr || reactor_.dones > 0) return;
    rpc_->OnGone(http2::Http2Gone::kClientLeft);
    rpc_->Finish({});
    EXPECT_EQ(reactor_.dones, 1);
  }

  void Open(bool streams, http2::HeaderList headers = {}) {
    answer_ = std::make_shared<FakeAnswer>();
    http2::Http2Request request;
    request.headers = std::move(headers);
    request.begin = Clock::now();
    rpc_ = std::make_shared<Rpc>(&options_, std::move(request), answer_, streams);
    rpc_->SetReactor(&reactor_);
    rpc_->SetMemory(memory_, Priority::kInteractive);
    reactor_.rpc = rpc_.get();
  }
  void Send(const std::string& bytes, size_t piece = 1 << 20) {
    for (size_t at = 0; at < bytes.size(); at += piece) rpc_->OnData(bytes.substr(at, piece));
  }
  void RunWork() {
    while (!work_.empty()) {
      const auto work = std::move(work_.front());
      work_.pop_front();
      work();
    }
  }

  const std::shared_ptr<ByteBudget> budget_ = std::make_shared<ByteBudget>(4 << 20);
  const std::shared_ptr<RequestMemory> memory_ =
      std::make_shared<RequestMemory>(budget_, Priority::kInteractive);
  Rpc::Options options_;
  std::deque<std::function<void()>> work_;
  std::shared_ptr<FakeAnswer> answer_;
  Reactor reactor_;
  std::shared_ptr<Rpc> rpc_;
};

TEST_F(RpcTest, MessagesComeInAnyPieces) {
  const std::string bytes = Frame("one") + Frame("") + Frame(std::string(1000, 'x')) + Frame("end");
  for (const size_t piece : {1, 2, 5, 6, 100, 100'000}) {
    Open(true);
    reactor_.messages.clear();
    reactor_.reads_on = true;
    rpc_->Read();
    Send(bytes, piece);
    EXPECT_THAT(reactor_.messages, ElementsAre("one", "", std::string(1000, 'x'), "end"));
    EXPECT_EQ(answer_->consumed, bytes.size());
    rpc_->OnEnd();
    EXPECT_TRUE(reactor_.read_end.ok());
  }
}

TEST_F(RpcTest, WhatIsNotAskedForWaitsInTheWindow) {
  Open(true);
  Send(Frame("one") + Frame("two"));
  EXPECT_EQ(answer_->consumed, 0U);
  rpc_->Read();
  EXPECT_THAT(reactor_.messages, ElementsAre("one"));
  EXPECT_EQ(answer_->consumed, Frame("one").size());
  rpc_->OnEnd();
  rpc_->Read();
  rpc_->Read();
  EXPECT_THAT(reactor_.messages, ElementsAre("one", "two"));
  EXPECT_EQ(reactor_.read_ends, 1);
  EXPECT_TRUE(reactor_.read_end.ok());
}

TEST_F(RpcTest, ASingleMessageIsHandedOverAtTheEndOfTheCall) {
  Open(false);
  rpc_->Read();
  Send(Frame("only"));
  EXPECT_TRUE(reactor_.messages.empty());
  rpc_->OnEnd();
  EXPECT_THAT(reactor_.messages, ElementsAre("only"));
  EXPECT_EQ(memory_->held(), 4);
}

// The length is a claim: memory is taken for what has come, before it is kept.
TEST_F(RpcTest, MemoryGrowsWithTheBytesThatCome) {
  Open(false);
  rpc_->Read();
  const std::string bytes = Frame(std::string(1 << 20, 'x'));
  Send(bytes.substr(0, 100));
  EXPECT_LE(memory_->held(), 128 << 10);
  Send(bytes.substr(100), 16 << 10);
  rpc_->OnEnd();
  EXPECT_EQ(memory_->held(), 1 << 20);
  EXPECT_TRUE(reactor_.messages.empty());
  RunWork();  // large: a worker takes it
  ASSERT_EQ(reactor_.messages.size(), 1U);
  EXPECT_EQ(reactor_.messages[0].size(), 1U << 20);
}

TEST_F(RpcTest, ALargeMessageOfAStreamIsCountedUntilTheNextIsRead) {
  Open(true);
  rpc_->Read();
  Send(Frame(std::string(500'000, 'x')) + Frame("small"));
  RunWork();
  EXPECT_GE(memory_->held(), 500'000);
  rpc_->Read();
  EXPECT_EQ(memory_->held(), 0);
  EXPECT_EQ(reactor_.messages.size(), 2U);
}

TEST_F(RpcTest, WithoutMemoryTheCallIsRefusedAndItsBytesAreDropped) {
  const auto taken = std::make_shared<RequestMemory>(budget_, Priority::kInteractive);
  ASSERT_TRUE(taken->Take((4 << 20) - 1000).ok());
  Open(false);
  rpc_->Read();
  const std::string bytes = Frame(std::string(100'000, 'x'));
  Send(bytes, 10'000);
  EXPECT_EQ(reactor_.read_end.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(answer_->consumed, bytes.size());
}

TEST_F(RpcTest, WhatIsNoMessageHasItsCode) {
  struct Case {
    http2::HeaderList headers;
    std::string bytes;
    GrpcCode code;
    const char* text;
  };
  const http2::HeaderList gzip = {{"grpc-encoding", "gzip"}};
  for (const auto& [headers, bytes, code, text] : std::vector<Case>{
           {{}, Frame("x", 2), GrpcCode::kInvalidArgument, "neither 0 nor 1"},
           {{}, Frame("x", 1), GrpcCode::kInvalidArgument, "grpc-encoding"},
           {{}, "", GrpcCode::kInvalidArgument, "no message"},
           {{}, std::string("\0\0", 2), GrpcCode::kInvalidArgument, "ends within a message"},
           {{}, std::string("\0\0\0\0\2x", 6), GrpcCode::kInvalidArgument, "within a message"},
           {{}, Frame("x") + Frame("y"), GrpcCode::kInvalidArgument, "a second message"},
           {gzip, Frame("no gzip", 1), GrpcCode::kInvalidArgument, "said to be gzip"},
           {gzip, Frame(http::Gzip(std::string(2 << 20, 'x')), 1), GrpcCode::kResourceExhausted,
            "--max-body-bytes"},
           {{{"grpc-encoding", "deflate"}}, Frame("x", 1), GrpcCode::kUnimplemented, "by gzip"},
           {{},
            std::string("\0\x7f\xff\xff\xff", 5),
            GrpcCode::kResourceExhausted,
            "2147483647 bytes, which is larger than max"}}) {
    Open(false, headers);
    reactor_.read_end = {};
    rpc_->Read();
    Send(bytes);
    rpc_->OnEnd();
    RunWork();
    ASSERT_FALSE(reactor_.read_end.ok()) << text;
    rpc_->Finish({GrpcCode::kInvalidArgument, "what a service makes of it"});
    EXPECT_EQ(Of(answer_->head, "grpc-status"), std::to_string(static_cast<int>(code)));
    EXPECT_THAT(Of(answer_->head, "grpc-message"), HasSubstr(text));
    EXPECT_EQ(Of(answer_->head, "grpc-accept-encoding"),
              code == GrpcCode::kUnimplemented ? "identity, gzip" : "");
    rpc_->OnGone(http2::Http2Gone::kAnswered);
  }
}

TEST_F(RpcTest, LongAnswersArePackedWhereRequestsAre) {
  for (const size_t size : {500, 100'000}) {
    Open(false, {{"grpc-encoding", "gzip"}, {"grpc-accept-encoding", "identity, gzip"}});
    rpc_->Finish({}, RpcMessage(size));
    RunWork();
    EXPECT_EQ(Of(answer_->head, "grpc-encoding"), "gzip");
    EXPECT_EQ(answer_->data[0], size > 1000 ? 1 : 0);
    EXPECT_LT(answer_->data.size(), 1000U);
    EXPECT_EQ(Of(answer_->trailers, "grpc-status"), "0");
    rpc_->OnGone(http2::Http2Gone::kAnswered);
  }
}

TEST_F(RpcTest, BinaryMetadataIsDecoded) {
  for (const auto& [text, bytes] : std::vector<std::pair<const char*, std::string>>{
           {"", ""},
           {"q6urAP8=", std::string("\xab\xab\xab\0\xff", 5)},
           {"q6urAP8", std::string("\xab\xab\xab\0\xff", 5)},
           {"QQ==", "A"},
           {"QQ", "A"},
           {"////, QUJD", "\xff\xff\xff"}}) {
    Open(false, {{"x-text", "QQ=="}, {"x-bytes-bin", text}});
    EXPECT_TRUE(rpc_->head_status().ok()) << text;
    EXPECT_EQ(rpc_->Header("x-bytes-bin"), bytes) << text;
    EXPECT_EQ(rpc_->Header("x-text"), "QQ==");
  }
  EXPECT_THAT(rpc_->request().headers, testing::Contains(Pair("x-bytes-bin", "ABC")));
  for (const char* wrong : {"A", "QQ=", "QQ===", "Q Q=", "QQ==,A", "\xab", "Q-_=", "=", "===="}) {
    Open(false, {{"x-bytes-bin", wrong}});
    EXPECT_EQ(rpc_->head_status().code(), StatusCode::kInvalidArgument) << wrong;
    EXPECT_THAT(rpc_->head_status().message(), HasSubstr("'x-bytes-bin' is not base64")) << wrong;
  }
}

// The window opens as they come, so it bounds them not.
TEST_F(RpcTest, PartsOfMessagesOfStreamsAreCounted) {
  Open(true);
  rpc_->Read();
  Send(Frame(std::string(4000, 'x')).substr(0, 2000));
  EXPECT_EQ(memory_->held(), 0);
  Open(true);
  rpc_->Read();
  Send(Frame(std::string(60'000, 'x')).substr(0, 50'000), 16'000);
  EXPECT_GE(memory_->held(), 50'000);
}

TEST_F(RpcTest, AMessageThatDoesNotArriveEndsTheCall) {
  options_.read_timeout = milliseconds(0);
  for (const std::string& part : {std::string(), Frame("message").substr(0, 3)}) {
    Open(false);
    reactor_ = {};
    rpc_->Read();
    Send(part);
    ASSERT_LE(answer_->wake_at, Clock::now());
    rpc_->OnTime();
    EXPECT_EQ(reactor_.read_ends, 1);
    EXPECT_THAT(reactor_.read_end.message(), HasSubstr("--read-timeout-ms"));
    rpc_->Finish({GrpcCode::kInvalidArgument, ""});
    EXPECT_THAT(answer_->head, testing::Contains(Pair("grpc-status", "4")));
    rpc_->OnGone(http2::Http2Gone::kAnswered);
  }
}

TEST_F(RpcTest, AStreamMayBeSilentBetweenMessages) {
  options_.read_timeout = milliseconds(0);
  Open(true);
  reactor_.reads_on = true;
  rpc_->Read();
  Send(Frame("one"));
  EXPECT_EQ(answer_->wake_at, Clock::time_point::max());
  rpc_->OnTime();
  EXPECT_EQ(reactor_.read_ends, 0);
  Send(Frame("two").substr(0, 6));
  rpc_->OnTime();
  EXPECT_EQ(reactor_.read_ends, 1);
}

TEST_F(RpcTest, MessagesOfSomeMethodsAreSmall) {
  Open(false, {{"grpc-encoding", "gzip"}});
  rpc_->LimitMessages(1000);
  rpc_->Read();
  Send(Frame(std::string(1001, 'x')));
  EXPECT_EQ(reactor_.read_ends, 1);
  rpc_->Finish({GrpcCode::kInvalidArgument, ""});
  EXPECT_THAT(answer_->head, testing::Contains(Pair("grpc-status", "8")));
  rpc_->OnGone(http2::Http2Gone::kAnswered);
  // Also where it is small as long as it is packed.
  Open(false, {{"grpc-encoding", "gzip"}});
  reactor_ = {};
  reactor_.rpc = rpc_.get();
  rpc_->LimitMessages(1000);
  rpc_->Read();
  Send(Frame(http::Gzip(std::string(1001, 'x')), 1));
  rpc_->OnEnd();
  RunWork();
  EXPECT_EQ(reactor_.read_ends, 1);
  EXPECT_THAT(reactor_.read_end.message(), HasSubstr("this method takes 1000"));
}

TEST_F(RpcTest, AnswersHaveHeadMessageAndTrailers) {
  Open(false);
  rpc_->AddInitialMetadata("x-first", "1");
  rpc_->AddTrailingMetadata("x-last", "2");
  RpcMessage message(2);
  message.data()[0] = 'h';
  message.data()[1] = 'i';
  rpc_->Finish({}, std::move(message));
  EXPECT_THAT(answer_->head,
              ElementsAre(Pair(":status", "200"), Pair("content-type", "application/grpc"),
                          Pair("x-first", "1")));
  EXPECT_EQ(answer_->data, Frame("hi"));
  EXPECT_THAT(answer_->trailers, ElementsAre(Pair("grpc-status", "0"), Pair("x-last", "2")));
  EXPECT_EQ(rpc_->bytes_out(), 2U);
  EXPECT_EQ(reactor_.dones, 0);
  rpc_->OnGone(http2::Http2Gone::kAnswered);
  EXPECT_EQ(reactor_.dones, 1);
  EXPECT_FALSE(rpc_->IsCancelled());
}

TEST_F(RpcTest, AnErrorWithoutAMessageIsOneHeaderList) {
  Open(false);
  rpc_->Finish({GrpcCode::kNotFound, "no \xc3\xbc, 100%\n"});
  EXPECT_TRUE(answer_->ended);
  EXPECT_EQ(Of(answer_->head, "grpc-status"), "5");
  EXPECT_EQ(Of(answer_->head, "grpc-message"), "no %C3%BC, 100%25%0A");
}

TEST_F(RpcTest, WritesAreToldAndEndWithTheClient) {
  Open(true);
  rpc_->Write(RpcMessage(10));
  EXPECT_TRUE(reactor_.written.empty());
  rpc_->OnSent();
  rpc_->OnSent();  // without a write under way
  EXPECT_THAT(reactor_.written, ElementsAre(true));
  rpc_->Write(RpcMessage(10));
  rpc_->Read();
  rpc_->OnGone(http2::Http2Gone::kClientLeft);
  EXPECT_THAT(reactor_.written, ElementsAre(true, false));
  EXPECT_EQ(reactor_.cancels, 1);
  EXPECT_EQ(reactor_.read_end.code(), StatusCode::kCancelled);
  rpc_->Write(RpcMessage(10));
  EXPECT_EQ(reactor_.written.size(), 3U);
  EXPECT_EQ(reactor_.dones, 0);
  rpc_->Finish({GrpcCode::kCancelled, ""});
  EXPECT_EQ(reactor_.dones, 1);
  EXPECT_TRUE(rpc_->IsCancelled());
}

TEST_F(RpcTest, ADeadlineAndAStopAreToldAndSaid) {
  Open(true, {{"grpc-timeout", "1m"}});
  EXPECT_EQ(answer_->wake_at, rpc_->deadline());
  rpc_->Read();
  while (Clock::now() < rpc_->deadline()) continue;
  rpc_->OnTime();
  EXPECT_EQ(reactor_.cancels, 1);
  EXPECT_EQ(reactor_.read_ends, 1);
  rpc_->Finish({GrpcCode::kCancelled, ""});
  EXPECT_EQ(Of(answer_->head, "grpc-status"), "4");
  rpc_->OnGone(http2::Http2Gone::kAnswered);
  EXPECT_EQ(reactor_.cancels, 1);

  Open(false);
  rpc_->OnInterrupt();
  rpc_->Finish({GrpcCode::kCancelled, ""});
  EXPECT_EQ(Of(answer_->head, "grpc-status"), "14");
  rpc_->OnGone(http2::Http2Gone::kAnswered);
  EXPECT_EQ(reactor_.cancels, 2);
  EXPECT_EQ(reactor_.dones, 2);
}

TEST_F(RpcTest, WakesAreForTheReactor) {
  Open(false);
  rpc_->WakeAt(Clock::now() - milliseconds(1));
  rpc_->OnTime();
  EXPECT_EQ(reactor_.wakes, 1);
  rpc_->OnTime();
  EXPECT_EQ(reactor_.wakes, 1);
  rpc_->WakeAt(Clock::now() + std::chrono::hours(1));
  rpc_->OnTime();
  EXPECT_EQ(reactor_.wakes, 1);
  EXPECT_GT(answer_->wake_at, Clock::now());
}

TEST(RpcHead, Timeouts) {
  using std::chrono::nanoseconds;
  EXPECT_EQ(ParseGrpcTimeout("1H"), std::chrono::hours(1));
  EXPECT_EQ(ParseGrpcTimeout("2M"), std::chrono::minutes(2));
  EXPECT_EQ(ParseGrpcTimeout("30S"), std::chrono::seconds(30));
  EXPECT_EQ(ParseGrpcTimeout("99999999m"), milliseconds(99'999'999));
  EXPECT_EQ(ParseGrpcTimeout("7u"), std::chrono::microseconds(7));
  EXPECT_EQ(ParseGrpcTimeout("0n"), nanoseconds(0));
  EXPECT_EQ(ParseGrpcTimeout("99999999H"), nanoseconds(kGrpcTimeoutMax));
  for (const char* wrong : {"", "1", "S", "-1S", "+1S", " 1S", "1 S", "1.5S", "1s", "123456789n"}) {
    EXPECT_FALSE(ParseGrpcTimeout(wrong)) << wrong;
  }
}

TEST(RpcHead, WhatIsNoCallIsAnsweredAsHttp) {
  const auto status_of = [](const char* type, const char* te = "trailers",
                            const char* method = "POST") {
    http2::Http2Request request;
    request.method = method;
    request.headers = {{"content-type", type}, {"te", te}};
    const auto refusal = RefuseHead(request);
    return refusal ? Of(*refusal, ":status") : "";
  };
  for (const char* type :
       {"application/grpc", "application/grpc+proto", "application/grpc;charset=utf-8"}) {
    EXPECT_EQ(status_of(type), "") << type;
  }
  for (const char* type : {"", "application/json", "application/grpcx", "application/grpc+json",
                           "application/grpc-web+proto"}) {
    EXPECT_EQ(status_of(type), "415") << type;
  }
  EXPECT_EQ(status_of("application/grpc", "trailers", "GET"), "405");
  EXPECT_EQ(status_of("application/grpc", "gzip"), "400");
}

TEST(RpcHead, Lists) {
  EXPECT_TRUE(ListHas("identity, gzip", "gzip"));
  EXPECT_TRUE(ListHas("gzip", "gzip"));
  EXPECT_TRUE(ListHas("a,b , trailers,", "trailers"));
  EXPECT_FALSE(ListHas("x-gzip,gzipped", "gzip"));
  EXPECT_FALSE(ListHas("", "gzip"));
}

}  // namespace
}  // namespace penstock::grpc

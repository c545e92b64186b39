#include "grpc/ordered_call.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <future>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "api/service.h"
#include "frontend/key_ring.h"
#include "frontend/slow_log.h"
#include "grpc/rpc_fixture_test.h"
#include "metrics/metrics.h"
#include "registry/registry.h"

namespace penstock::grpc {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Step = CallRequest::Step;

constexpr int kMany = static_cast<int>(OrderedLimits().requests_max);

// A call whose client and service are the test. Requests are numbered from 0 as they come; an
// answer is its request's number.
class OrderedCallTest : public testing::Test {
 protected:
  class Request final : public CallRequest {
   public:
    Request(OrderedCallTest* test, int number) : test_(test), number_(number) {}
    Status Read(std::string, RequestMemory*, int64_t*) override { return Status::Ok(); }
    void Work(const CallReply& reply) override { test_->OnWork(number_, reply); }
    Expected<Step> Next(RpcMessage* message) override {
      const std::lock_guard lock(test_->mutex_);
      ++test_->nexts_;
      *message = RpcMessage(1);
      message->data()[0] = static_cast<uint8_t>(number_);
      if (test_->steps_.empty()) return Step::kLast;
      const Step step = test_->steps_.front();
      test_->steps_.pop_front();
      return step;
    }
    bool Refuse(const Status&) override { return test_->refuses_; }
    void Drop() override { ++test_->drops_; }

   private:
    OrderedCallTest* const test_;
    const int number_;
  };
  class Answer final : public FakeAnswer {
   public:
    explicit Answer(OrderedCallTest* test) : test_(test) {}
    void SendData(std::string bytes, std::shared_ptr<const void>, bool) override {
      std::unique_lock lock(test_->mutex_);
      const bool hold = test_->hold_writes_;
      test_->written_.push_back(static_cast<uint8_t>(bytes.at(RpcMessage::kHeadBytes)));
      test_->changed_.notify_all();
      lock.unlock();
      if (!hold) test_->rpc_->OnSent();
    }
    void SendHeaders(http2::HeaderList headers, bool last) override {
      if (last) test_->OnClose(headers);
    }
    void SendTrailers(http2::HeaderList list) override { test_->OnClose(list); }

   private:
    OrderedCallTest* const test_;
  };

  OrderedCallTest() {
    front_end_.AddMethod({.path = "/test/Many", .streams = true}, nullptr);
    front_end_.AddMethod({.path = "/test/One"}, nullptr);
    front_end_.Open(&metrics_, {}, *frontend::KeyRing::Make(http::ServerOptions()));
    options_.message_bytes_max = 64 << 20;
    options_.on_worker = [](Priority, size_t, const std::function<void()>& work) { work(); };
  }
  ~OrderedCallTest() override {
    rpc_->OnGone(http2::Http2Gone::kAnswered);
    while (front_end_.metrics().in_flight().value() != 0) std::this_thread::yield();
    replies_.clear();
  }

  void Open(bool streams = true, http2::HeaderList headers = {}) {
    http2::Http2Request request;
    request.headers = std::move(headers);
    request.begin = Clock::now();
    rpc_ = std::make_shared<Rpc>(&options_, request, std::make_shared<Answer>(this), streams);
    CallParts parts{.new_request = [this] {
      const std::lock_guard lock(mutex_);
      return std::make_shared<Request>(this, made_++);
    }};
    parts.conclude = [this](const RequestContext&, std::optional<RpcMessage>*) {
      return conclusion_;
    };
    std::make_shared<OrderedCall>(&front_end_, rpc_, std::move(parts))->Start(streams ? 0 : 1);
  }
  int Locked(const int& count) {
    const std::lock_guard lock(mutex_);
    return count;
  }
  bool reads() {
    const std::lock_guard lock(mutex_);
    return made_ > sent_;
  }
  // The client sends messages, as the call asks for them.
  void Send(int count, size_t size = 1) {
    for (int i = 0; i < count; ++i) {
      while (!reads()) std::this_thread::yield();  // a worker may be at the step before
      {
        const std::lock_guard lock(mutex_);
        ++sent_;
      }
      rpc_->OnData(Frame(std::string(size, 'x')));
    }
  }
  // The first request shows that those of this call are small.
  void Learn() {
    Send(1);
    End(0);
    WaitForWritten(1);
    while (!reads()) std::this_thread::yield();
  }

  // The last reply of a request, which gives it up.
  CallReply Take(size_t number) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return replies_.size() > number && replies_[number]; });
    return *std::exchange(replies_[number], std::nullopt);
  }
  void End(size_t number) {
    Take(number).Print(1, [] {});
  }
  void Refuse(size_t number) { Take(number).End({StatusCode::kResourceExhausted, "full"}); }
  std::vector<int> WaitForWritten(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return written_.size() >= count; });
    return written_;
  }
  // The code that the call has ended with.
  GrpcCode WaitForClose() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return closed_.has_value(); });
    return static_cast<GrpcCode>(std::stoi(Of(*closed_, "grpc-status")));
  }
  bool closed() {
    const std::lock_guard lock(mutex_);
    return closed_.has_value();
  }

 private:
  void OnWork(int number, const CallReply& reply) {
    const std::lock_guard lock(mutex_);
    ++works_;
    const auto at = static_cast<size_t>(number);
    if (replies_.size() <= at) replies_.resize(at + 1);
    replies_[at] = reply;
    changed_.notify_all();
  }
  void OnClose(const http2::HeaderList& end) {
    const std::lock_guard lock(mutex_);
    EXPECT_FALSE(closed_);
    closed_ = end;
    changed_.notify_all();
  }

 protected:
  metrics::Metrics metrics_;
  registry::Registry registry_{nullptr, &metrics_};
  api::Service service_{&registry_, {}, &metrics_};
  GrpcFrontEnd front_end_{
      &service_, {}, std::make_shared<frontend::SlowLog>(std::chrono::milliseconds(0), &metrics_)};
  Rpc::Options options_;
  std::shared_ptr<Rpc> rpc_;
  std::atomic<bool> hold_writes_{false};
  bool refuses_ = false;
  Status conclusion_;
  std::atomic<int> drops_{0};

  std::mutex mutex_;
  // All below: guarded by mutex_.
  std::condition_variable changed_;
  int made_ = 0, sent_ = 0, works_ = 0, nexts_ = 0;
  std::deque<Step> steps_;  // that Next gives; then kLast
  std::vector<std::optional<CallReply>> replies_;
  std::vector<int> written_;
  std::optional<http2::HeaderList> closed_;
};

TEST_F(OrderedCallTest, AnswersComeInTheOrderOfRequestsAndTheEndAfterTheLast) {
  Open();
  Send(3);
  End(2);
  End(1);
  End(0);
  EXPECT_THAT(WaitForWritten(3), ElementsAre(0, 1, 2));
  EXPECT_FALSE(closed());
  Send(1);
  rpc_->OnEnd();
  EXPECT_FALSE(closed());
  End(3);
  EXPECT_EQ(WaitForClose(), GrpcCode::kOk);
}

TEST_F(OrderedCallTest, AStreamOfNothingIsWellUnlessItsEndSaysOtherwise) {
  Open();
  rpc_->OnEnd();
  EXPECT_EQ(WaitForClose(), GrpcCode::kOk);
  rpc_->OnGone(http2::Http2Gone::kAnswered);
  closed_.reset();
  conclusion_ = Status::InvalidArgument("nothing came");
  Open();
  rpc_->OnEnd();
  EXPECT_EQ(WaitForClose(), GrpcCode::kInvalidArgument);
}

TEST_F(OrderedCallTest, ASingleCallIsOneRequestWithTheTimeOfTheCall) {
  Open(false, {{"grpc-timeout", "1H"}});
  Send(1);
  rpc_->OnEnd();
  const CallReply reply = Take(0);
  EXPECT_EQ(reply.context().deadline, rpc_->deadline());
  EXPECT_FALSE(reads());
  reply.End(Status::Ok());
  EXPECT_EQ(WaitForClose(), GrpcCode::kOk);
  EXPECT_THAT(WaitForWritten(1), ElementsAre(0));
  EXPECT_EQ(rpc_->bytes_out(), 1U);
}

TEST_F(OrderedCallTest, NoMoreIsReadThanMayBeUnderWay) {
  Open();
  Learn();
  Send(kMany);
  EXPECT_FALSE(reads());
  // Ended, but not answered: the first one is still under way.
  End(2);
  EXPECT_FALSE(reads());
  End(1);
  WaitForWritten(3);
  while (!reads()) std::this_thread::yield();
}

TEST_F(OrderedCallTest, AnAnswerThatIsBeingWrittenCounts) {
  Open();
  Learn();
  hold_writes_ = true;
  Send(kMany);
  End(1);
  WaitForWritten(2);
  EXPECT_FALSE(reads());
  rpc_->OnSent();
  while (!reads()) std::this_thread::yield();
}

TEST_F(OrderedCallTest, ANewStreamBeginsWithFewRequests) {
  Open();
  Send(static_cast<int>(OrderedLimits().bytes_max / OrderedCall::kUnknownBytes));
  EXPECT_FALSE(reads());
}

TEST_F(OrderedCallTest, LargeAnswersLeaveRoomForFewRequests) {
  Open();
  Send(2);
  Take(0).Print(OrderedLimits().bytes_max / 3, [] {});
  WaitForWritten(1);
  // Each is taken to be as large: one that was sent before, and two more.
  Send(2);
  EXPECT_FALSE(reads());
}

TEST_F(OrderedCallTest, LargeMessagesAreReadOneByOne) {
  Open();
  Send(1, OrderedLimits().bytes_max);
  EXPECT_FALSE(reads());
  End(0);
  WaitForWritten(1);
  while (!reads()) std::this_thread::yield();
}

TEST_F(OrderedCallTest, AnErrorEndsTheStreamAfterTheAnswersBeforeIt) {
  Open();
  Send(4);
  const CallReply last = Take(3);
  End(2);
  Take(1).End(Status::InvalidArgument("wrong", "inputs"));
  EXPECT_FALSE(closed());
  EXPECT_FALSE(last.context().cancelled());
  End(0);
  EXPECT_EQ(WaitForClose(), GrpcCode::kInvalidArgument);
  EXPECT_THAT(WaitForWritten(1), ElementsAre(0));
  EXPECT_TRUE(last.context().cancelled());
  last.End(Status::Ok());  // too late, and without effect
}

TEST_F(OrderedCallTest, AnErrorMayBeTheAnswerToItsOwnRequest) {
  refuses_ = true;
  Open();
  Send(3);
  End(2);
  Refuse(1);
  End(0);
  EXPECT_THAT(WaitForWritten(3), ElementsAre(0, 1, 2));
  EXPECT_FALSE(closed());
}

TEST_F(OrderedCallTest, AnAnswerOfSeveralMessagesIsAskedForThem) {
  steps_ = {Step::kSend, Step::kWait, Step::kSend, Step::kEnd};
  Open();
  Send(2);
  const CallReply first = Take(0);
  End(1);
  first.Wake();
  while (Locked(nexts_) < 2) std::this_thread::yield();
  EXPECT_THAT(WaitForWritten(1), ElementsAre(0));
  first.Wake();
  EXPECT_THAT(WaitForWritten(3), ElementsAre(0, 0, 1));
  first.Wake();  // too late, and without effect
  rpc_->OnEnd();
  EXPECT_EQ(WaitForClose(), GrpcCode::kOk);
}

TEST_F(OrderedCallTest, ARefusedRequestWaitsForAnotherOne) {
  Open();
  Send(3);
  Refuse(1);
  EXPECT_EQ(Locked(works_), 3);
  End(2);     // one has ended: it is tried again
  Refuse(1);  // and refused again
  End(0);
  End(1);
  EXPECT_THAT(WaitForWritten(3), ElementsAre(0, 1, 2));
  EXPECT_EQ(Locked(works_), 5);
}

TEST_F(OrderedCallTest, NothingIsReadWhileARequestIsHeld) {
  Open();
  Send(2);
  Refuse(1);
  Send(1);  // was being read
  EXPECT_FALSE(reads());
  End(0);
  End(1);
  End(2);
  EXPECT_THAT(WaitForWritten(3), ElementsAre(0, 1, 2));
}

TEST_F(OrderedCallTest, ARefusedRequestWithoutAnotherFails) {
  Open();
  Send(1);
  Refuse(0);
  EXPECT_EQ(WaitForClose(), GrpcCode::kResourceExhausted);
}

TEST_F(OrderedCallTest, NoRequestWaitsForThoseThatWaitForIt) {
  Open();
  Send(3);
  End(1);
  End(2);     // both have ended, and are written after the first
  Refuse(0);  // one of them may have had the room: it is tried again
  Refuse(0);
  EXPECT_EQ(WaitForClose(), GrpcCode::kResourceExhausted);
}

TEST_F(OrderedCallTest, TheLastOfTheRefusedFails) {
  Open();
  Send(3);
  Refuse(1);
  Refuse(2);
  End(0);
  Refuse(1);  // tried again, and nothing is left to wait for
  EXPECT_EQ(WaitForClose(), GrpcCode::kResourceExhausted);
  EXPECT_THAT(WaitForWritten(1), ElementsAre(0));
}

TEST_F(OrderedCallTest, ALeavingClientEndsTheWork) {
  Open();
  Send(2);
  const CallReply reply = Take(0);
  rpc_->OnGone(http2::Http2Gone::kClientLeft);
  EXPECT_TRUE(reply.context().cancelled());
  EXPECT_EQ(rpc_->code(), GrpcCode::kCancelled);
  EXPECT_EQ(drops_, 2);
  reply.Print(1, [] { ADD_FAILURE(); });
}

TEST_F(OrderedCallTest, TheEndOfAnInterruptedCallWaitsForTheWrite) {
  hold_writes_ = true;
  Open();
  Send(1);
  End(0);
  WaitForWritten(1);
  rpc_->OnInterrupt();
  EXPECT_FALSE(closed());
  rpc_->OnSent();
  EXPECT_EQ(WaitForClose(), GrpcCode::kUnavailable);
}

TEST_F(OrderedCallTest, ALostRequestFails) {
  Open();
  Send(1);
  Take(0);  // goes without an end
  EXPECT_EQ(WaitForClose(), GrpcCode::kInternal);
  EXPECT_THAT(Of(*closed_, "grpc-message"), HasSubstr("lost"));
}

TEST_F(OrderedCallTest, APrintThatThrowsEndsTheStream) {
  Open();
  Send(1);
  Take(0).Print(1, [] { throw std::bad_alloc(); });
  EXPECT_EQ(WaitForClose(), GrpcCode::kResourceExhausted);
}

// An answer that is long to print leaves the thread that has it to others: here the one that wrote
// the answer before.
TEST_F(OrderedCallTest, LongAnswersArePrintedByWorkers) {
  hold_writes_ = true;
  Open();
  Send(2);
  End(0);
  std::promise<std::thread::id> printed;
  Take(1).Print(OrderedCall::kPrintHereBytesMax + 1,
                [&] { printed.set_value(std::this_thread::get_id()); });
  WaitForWritten(1);
  rpc_->OnSent();
  EXPECT_NE(printed.get_future().get(), std::this_thread::get_id());
  WaitForWritten(2);
  rpc_->OnSent();
}

TEST_F(OrderedCallTest, EachRequestHasItsOwnTimeAndMemory) {
  Open(true, {{"grpc-timeout", "1H"}});
  Send(1, 1000);
  Send(1, 10);
  const CallReply first = Take(0), second = Take(1);
  EXPECT_EQ(first.context().memory->held(), 2000);
  EXPECT_EQ(second.context().memory->held(), 20);
  EXPECT_NE(first.context().trace, second.context().trace);
  EXPECT_GT(second.context().deadline, rpc_->deadline());
  EXPECT_LT(second.context().deadline, rpc_->deadline() + std::chrono::minutes(1));
}

}  // namespace
}  // namespace penstock::grpc

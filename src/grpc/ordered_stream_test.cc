#include "grpc/ordered_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "api/service.h"
#include "engine/registry.h"
#include "metrics/metrics.h"

namespace penstock {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct NumberedRequest : StreamRequest {
  int number = 0;
  size_t size = 0;
};

// A stream whose client and service are the test. Requests are numbered from 0 as they come.
class FakeStream final : public OrderedStream {
 public:
  using OrderedStream::OnGone;
  using OrderedStream::OnWritten;

  void Open(Service* service, const RequestContext& base = WithToken()) {
    Run(service, base, Clock::now());
  }
  static RequestContext WithToken() {
    RequestContext context;
    context.cancel = std::make_shared<CancelToken>();
    return context;
  }

  // The client sends a message. False: the stream does not read.
  bool Send(size_t size = 1) {
    {
      const std::lock_guard lock(mutex_);
      if (reading_ == nullptr) return false;
      reading_->number = sent_++;
      reading_->size = size;
      reading_ = nullptr;
    }
    OnRead(true);
    return true;
  }
  void SendEnd() {
    {
      const std::lock_guard lock(mutex_);
      reading_ = nullptr;
    }
    OnRead(false);
  }
  bool reads() {
    const std::lock_guard lock(mutex_);
    return reading_ != nullptr;
  }

  // The last reply of a request, which gives it up.
  StreamReply Take(int number) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return replies_.size() > size_t(number) && replies_[number]; });
    StreamReply reply = *replies_[number];
    replies_[number].reset();
    return reply;
  }
  void Answer(int number) {
    Take(number).Print(1, [] {});
  }
  void Refuse(int number) { Take(number).End({StatusCode::kResourceExhausted, "full"}); }
  int works() {
    const std::lock_guard lock(mutex_);
    return works_;
  }

  std::vector<int> WaitForWritten(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return written_.size() >= count; });
    return written_;
  }
  Status WaitForClose() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return closed_.has_value(); });
    return *closed_;
  }
  bool closed() {
    const std::lock_guard lock(mutex_);
    return closed_.has_value();
  }
  void HoldWrites() { hold_writes_ = true; }

 private:
  std::shared_ptr<StreamRequest> NewRequest() override {
    return std::make_shared<NumberedRequest>();
  }
  void Read(StreamRequest* request) override {
    const std::lock_guard lock(mutex_);
    EXPECT_EQ(reading_, nullptr);
    reading_ = static_cast<NumberedRequest*>(request);
  }
  size_t BytesOf(const StreamRequest& request) const override {
    return static_cast<const NumberedRequest&>(request).size;
  }
  void Work(const std::shared_ptr<StreamRequest>& request, const StreamReply& reply) override {
    const std::lock_guard lock(mutex_);
    ++works_;
    const auto number = static_cast<size_t>(static_cast<NumberedRequest&>(*request).number);
    if (replies_.size() <= number) replies_.resize(number + 1);
    replies_[number] = reply;
    changed_.notify_all();
  }
  Expected<Written> Write(StreamRequest* request) override {
    const std::lock_guard lock(mutex_);
    written_.push_back(static_cast<NumberedRequest*>(request)->number);
    changed_.notify_all();
    return hold_writes_ ? Written::kWaits : Written::kDone;
  }
  void Close(const Status& status) override {
    const std::lock_guard lock(mutex_);
    EXPECT_FALSE(closed_);
    closed_ = status;
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  NumberedRequest* reading_ = nullptr;
  int sent_ = 0;
  int works_ = 0;
  std::vector<std::optional<StreamReply>> replies_;
  std::vector<int> written_;
  std::optional<Status> closed_;
  bool hold_writes_ = false;
};

class OrderedStreamTest : public testing::Test {
 protected:
  void Open() { stream_->Open(&service_); }
  // The first request shows that those of this stream are small.
  void Learn() {
    SendMany(1);
    stream_->Answer(0);
    stream_->WaitForWritten(1);
    while (!stream_->reads()) std::this_thread::yield();
  }
  static constexpr int kMany = static_cast<int>(OrderedStream::kRequestsMax);
  void SendMany(int count) {
    for (int i = 0; i < count; ++i) {
      while (!stream_->reads()) std::this_thread::yield();  // a worker may be at the step before
      ASSERT_TRUE(stream_->Send());
    }
  }

  Metrics metrics_;
  Registry registry_{nullptr, &metrics_};
  Service service_{&registry_, {}, &metrics_};
  std::shared_ptr<FakeStream> stream_ = std::make_shared<FakeStream>();
};

TEST_F(OrderedStreamTest, AnswersComeInTheOrderOfRequests) {
  Open();
  SendMany(3);
  stream_->Answer(2);
  stream_->Answer(1);
  stream_->Answer(0);
  EXPECT_THAT(stream_->WaitForWritten(3), ElementsAre(0, 1, 2));
  EXPECT_FALSE(stream_->closed());
  stream_->SendEnd();
  EXPECT_TRUE(stream_->WaitForClose().ok());
}

TEST_F(OrderedStreamTest, AStreamOfNothingIsWell) {
  Open();
  stream_->SendEnd();
  EXPECT_TRUE(stream_->WaitForClose().ok());
}

TEST_F(OrderedStreamTest, TheEndWaitsForTheLastAnswer) {
  Open();
  SendMany(2);
  stream_->SendEnd();
  stream_->Answer(1);
  EXPECT_FALSE(stream_->closed());
  stream_->Answer(0);
  EXPECT_TRUE(stream_->WaitForClose().ok());
  EXPECT_THAT(stream_->WaitForWritten(2), ElementsAre(0, 1));
}

TEST_F(OrderedStreamTest, NoMoreIsReadThanMayBeUnderWay) {
  Open();
  Learn();
  SendMany(kMany);
  EXPECT_FALSE(stream_->reads());
  // Ended, but not answered: the first one is still under way.
  stream_->Answer(2);
  EXPECT_FALSE(stream_->reads());
  stream_->Answer(1);
  stream_->WaitForWritten(3);
  while (!stream_->reads()) std::this_thread::yield();
}

TEST_F(OrderedStreamTest, AnAnswerThatIsBeingWrittenCounts) {
  Open();
  Learn();
  stream_->HoldWrites();
  SendMany(kMany);
  stream_->Answer(1);
  stream_->WaitForWritten(2);
  EXPECT_FALSE(stream_->reads());
  stream_->OnWritten(true);
  while (!stream_->reads()) std::this_thread::yield();
}

TEST_F(OrderedStreamTest, ANewStreamBeginsWithFewRequests) {
  Open();
  SendMany(OrderedStream::kBytesMax / OrderedStream::kUnknownBytes);
  EXPECT_FALSE(stream_->reads());
}

TEST_F(OrderedStreamTest, LargeAnswersLeaveRoomForFewRequests) {
  Open();
  SendMany(2);
  stream_->Take(0).Print(OrderedStream::kBytesMax / 3, [] {});
  stream_->WaitForWritten(1);
  // Each is taken to be as large: one that was sent before, and two more.
  SendMany(2);
  EXPECT_FALSE(stream_->reads());
}

TEST_F(OrderedStreamTest, LargeMessagesAreReadOneByOne) {
  Open();
  ASSERT_TRUE(stream_->Send(OrderedStream::kBytesMax));
  EXPECT_FALSE(stream_->reads());
  stream_->Answer(0);
  stream_->WaitForWritten(1);
  while (!stream_->reads()) std::this_thread::yield();
}

TEST_F(OrderedStreamTest, AnErrorEndsTheStreamAfterTheAnswersBeforeIt) {
  Open();
  SendMany(4);
  const StreamReply last = stream_->Take(3);
  stream_->Answer(2);
  stream_->Take(1).End(Status::InvalidArgument("wrong", "inputs"));
  EXPECT_FALSE(stream_->closed());
  EXPECT_FALSE(last.context().cancelled());
  stream_->Answer(0);
  const Status status = stream_->WaitForClose();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(stream_->WaitForWritten(1), ElementsAre(0));
  EXPECT_TRUE(last.context().cancelled());
  last.End(Status::Ok());  // too late, and without effect
}

TEST_F(OrderedStreamTest, ARefusedRequestWaitsForAnotherOne) {
  Open();
  SendMany(3);
  stream_->Refuse(1);
  EXPECT_EQ(stream_->works(), 3);
  stream_->Answer(2);  // one has ended: it is tried again
  stream_->Refuse(1);  // and refused again
  stream_->Answer(0);
  stream_->Answer(1);
  EXPECT_THAT(stream_->WaitForWritten(3), ElementsAre(0, 1, 2));
  EXPECT_EQ(stream_->works(), 5);
}

TEST_F(OrderedStreamTest, NothingIsReadWhileARequestIsHeld) {
  Open();
  SendMany(2);
  stream_->Refuse(1);
  ASSERT_TRUE(stream_->Send());  // was being read
  EXPECT_FALSE(stream_->reads());
  stream_->Answer(0);
  stream_->Answer(1);
  stream_->Answer(2);
  EXPECT_THAT(stream_->WaitForWritten(3), ElementsAre(0, 1, 2));
}

TEST_F(OrderedStreamTest, ARefusedRequestWithoutAnotherFails) {
  Open();
  SendMany(1);
  stream_->Refuse(0);
  EXPECT_EQ(stream_->WaitForClose().code(), StatusCode::kResourceExhausted);
}

TEST_F(OrderedStreamTest, NoRequestWaitsForThoseThatWaitForIt) {
  Open();
  SendMany(3);
  stream_->Answer(1);
  stream_->Answer(2);  // both have ended, and are written after the first
  stream_->Refuse(0);  // one of them may have had the room: it is tried again
  stream_->Refuse(0);
  EXPECT_EQ(stream_->WaitForClose().code(), StatusCode::kResourceExhausted);
}

TEST_F(OrderedStreamTest, TheLastOfTheRefusedFails) {
  Open();
  SendMany(3);
  stream_->Refuse(1);
  stream_->Refuse(2);
  stream_->Answer(0);
  stream_->Refuse(1);  // tried again, and nothing is left to wait for
  EXPECT_EQ(stream_->WaitForClose().code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(stream_->WaitForWritten(1), ElementsAre(0));
}

TEST_F(OrderedStreamTest, ALeavingClientEndsTheWork) {
  Open();
  SendMany(2);
  const StreamReply reply = stream_->Take(0);
  stream_->OnGone();
  EXPECT_TRUE(reply.context().cancelled());
  EXPECT_EQ(stream_->WaitForClose().code(), StatusCode::kCancelled);
  reply.Print(1, [] { ADD_FAILURE(); });
  stream_->SendEnd();
}

TEST_F(OrderedStreamTest, TheEndOfALeavingClientWaitsForTheWrite) {
  stream_->HoldWrites();
  Open();
  SendMany(1);
  stream_->Answer(0);
  stream_->WaitForWritten(1);
  stream_->OnGone();
  EXPECT_FALSE(stream_->closed());
  stream_->OnWritten(false);
  EXPECT_EQ(stream_->WaitForClose().code(), StatusCode::kCancelled);
}

TEST_F(OrderedStreamTest, ALostRequestFails) {
  Open();
  SendMany(1);
  stream_->Take(0);  // goes without an end
  const Status status = stream_->WaitForClose();
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_THAT(status.message(), HasSubstr("lost"));
}

TEST_F(OrderedStreamTest, APrintThatThrowsEndsTheStream) {
  Open();
  SendMany(1);
  stream_->Take(0).Print(1, [] { throw std::bad_alloc(); });
  EXPECT_EQ(stream_->WaitForClose().code(), StatusCode::kResourceExhausted);
}

TEST_F(OrderedStreamTest, EachRequestHasItsOwnTimeAndMemory) {
  RequestContext base = FakeStream::WithToken();
  base.deadline = Clock::now() + std::chrono::hours(1);
  base.trace = std::make_shared<RequestTrace>(Clock::now());
  stream_->Open(&service_, base);
  ASSERT_TRUE(stream_->Send(1000));
  ASSERT_TRUE(stream_->Send(10));
  const StreamReply first = stream_->Take(0);
  const StreamReply second = stream_->Take(1);
  EXPECT_EQ(first.context().memory->held(), 2000);
  EXPECT_EQ(second.context().memory->held(), 20);
  EXPECT_NE(first.context().trace, second.context().trace);
  EXPECT_GT(second.context().deadline, base.deadline);
  EXPECT_LT(second.context().deadline, base.deadline + std::chrono::minutes(1));
}

}  // namespace
}  // namespace penstock

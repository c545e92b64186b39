// OrderedStream: the requests of one stream of gRPC, several of them under way at once, answered in
// the order in which they came. What is read, computed and written is up to the class derived from
// it (tei_stream.h).
//
//   read ──> Begin: memory ──> Work ── ... ──> End ──> its turn has come ──> Write ──> gone
//               │ refused                       │ refused
//               └──────────────> held <─────────┘
//                                  │ another request of the stream has ended
//                                  └──> Begin
//
// - Bounded: no more is read while kRequestsMax requests are under way or wait to be written, or
//   while these hold, with the next one, more than kBytesMax. A request counts with the most that
//   one of the stream has held so far, until its own memory is known. gRPC's flow control then
//   holds up the client.
// - Patient: a request that is refused because the server has no room (kResourceExhausted) waits
//   until another one of the stream has ended. It fails only where there is no other.
// - Any other error ends the stream, after the answers to the requests before it. The rest of the
//   stream is cancelled, as it is when the client leaves.
//
// Threads: the On... functions come from io threads and workers, End from any. One thread at a time
// works on the stream; a thread that ended a request of the service leaves it to a worker.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "common/byte_budget.h"
#include "common/request_context.h"
#include "common/status.h"
#include "metrics/stages.h"

namespace penstock {

class OrderedStream;
class Service;

// One request of a stream.
class StreamRequest {
 public:
  virtual ~StreamRequest() = default;

 private:
  friend class OrderedStream;
  enum class State { kUnderWay, kHeld, kEnded };

  // Set before it is begun.
  Clock::time_point deadline_ = Clock::time_point::max();
  std::shared_ptr<RequestTrace> trace_;  // from its arrival until it is written; null: not timed
  // All below: guarded by the stream's mutex.
  int64_t bytes_ = 0;  // that it holds, or is taken to hold
  State state_ = State::kUnderWay;
  Status status_;
  std::function<void()> print_;
  std::shared_ptr<RequestMemory> memory_;  // of message and answer, until it is written
};

// The way back of one request, as UnaryReply is of a call. Copies share it; any thread. If the last
// copy goes and the request was not ended, an exception has lost it, and it fails with kInternal.
class StreamReply {
 public:
  // With memory, deadline and trace of this request, and the token of the stream.
  const RequestContext& context() const;
  // Only the first end counts.
  void End(const Status& status) const;
  // Ends the request with OK. `print`, which fills its answer, is called when its turn has come.
  // `bytes`: about what it prints, which is taken from the budget first.
  void Print(size_t bytes, std::function<void()> print) const;

 private:
  friend class OrderedStream;
  struct Attempt;
  explicit StreamReply(std::shared_ptr<Attempt> attempt) : attempt_(std::move(attempt)) {}

  std::shared_ptr<Attempt> attempt_;
};

class OrderedStream : public std::enable_shared_from_this<OrderedStream> {
 public:
  static constexpr size_t kRequestsMax = 128;
  static constexpr int64_t kBytesMax = 8 << 20;
  // What a request is taken to hold before the first one of a stream has ended.
  static constexpr int64_t kUnknownBytes = 256 << 10;

  virtual ~OrderedStream() = default;
  OrderedStream(const OrderedStream&) = delete;
  OrderedStream& operator=(const OrderedStream&) = delete;

 protected:
  OrderedStream() = default;

  // Reads the first message. Called once. `base`: of the stream; its time from `begin` to the
  // deadline is that of each request. Its trace says only whether requests are timed.
  void Run(Service* service, const RequestContext& base, Clock::time_point begin);

  // `ok` false: the client has sent its last message, or the stream is broken.
  void OnRead(bool ok);
  // `ok` false: the stream is broken.
  void OnWritten(bool ok);
  // The client has left, or its deadline has passed; or a message cannot be taken.
  void OnGone(Status status = {StatusCode::kCancelled, "the client left"});

  // A place for one message.
  virtual std::shared_ptr<StreamRequest> NewRequest() = 0;
  // Reads a message into it; then OnRead.
  virtual void Read(StreamRequest* request) = 0;
  // Bytes of the message that was read.
  virtual size_t BytesOf(const StreamRequest& request) const = 0;
  // Starts a request; again where it was refused. Any thread.
  virtual void Work(const std::shared_ptr<StreamRequest>& request, const StreamReply& reply) = 0;
  // Writes the answer, which is filled. kWaits: OnWritten follows.
  enum class Written { kDone, kWaits };
  virtual Expected<Written> Write(StreamRequest* request) = 0;
  // The end of the stream, called once; OK: every request was answered. No Write waits for its
  // OnWritten; where the status is not OK, a Read may wait for its OnRead.
  virtual void Close(const Status& status) = 0;

 private:
  friend class StreamReply;
  using Lock = std::unique_lock<std::mutex>;
  using State = StreamRequest::State;

  void Add(const std::shared_ptr<StreamRequest>& request);
  void Begin(const std::shared_ptr<StreamRequest>& request);
  void OnEnd(StreamReply::Attempt* attempt, Status status, std::function<void()> print);
  // Does all that can be done, unless another thread is at it: that one sees what has changed.
  void Step(Lock lock);
  bool StepOnce(Lock* lock);
  void WriteFirst(Lock* lock);
  void Retry(Lock* lock);
  bool MayRead() const;
  // What ends with an error is answered no more.
  void Fail(Status status);
  // Sets what a request holds.
  void SetBytes(StreamRequest* request, int64_t bytes);
  // After it was written.
  void Forget(StreamRequest* request);

  Service* service_ = nullptr;
  RequestContext base_;
  std::chrono::nanoseconds limit_{0};  // of each request; 0: none

  std::atomic<uint64_t> ended_{0};  // requests

  std::mutex mutex_;
  // All below: guarded by mutex_.
  std::deque<std::shared_ptr<StreamRequest>> requests_;  // the first is answered next
  std::shared_ptr<StreamRequest> reading_;
  std::shared_ptr<StreamRequest> writing_;
  int64_t bytes_ = 0;             // of requests_ and writing_
  int64_t most_ = kUnknownBytes;  // that one of the stream has held
  bool most_known_ = false;
  size_t under_way_ = 0;  // of requests_
  size_t held_ = 0;       // of requests_
  bool retry_ = false;    // a held one may begin
  bool stepping_ = false;
  bool scheduled_ = false;  // a worker will step
  bool read_all_ = false;
  bool failed_ = false;
  bool closed_ = false;
  Status failure_;
};

}  // namespace penstock

// OrderedCall: a call of gRPC whose messages are requests, several of them under way at once and
// answered in the order in which they came. A single call is one of one request. A service says
// what a request is (CallRequest; typed_call.h has the usual one); keys, priority, deadline,
// memory, metrics and logs are seen to.
//
//   read ──> Begin: memory ──> Work ── ... ──> End ──> its turn comes ──> Next ──> written ──> gone
//               │ refused                       │ refused
//               └──────────────> held <─────────┘
//                                  │ another request of the call has ended
//                                  └──> Begin
//
// - Bounded: no more is read while OrderedLimits' number of requests is under way or waits to be
//   written, or while these hold, with the next one, more than its bytes. A request counts with
//   the most that one of the call has held so far, until its own memory is known. HTTP/2's flow
//   control then holds up the client; one that takes longer than --write-timeout-ms for a message
//   is dropped.
// - Patient: a request that is refused because the server has no room (kResourceExhausted) waits
//   until another one of the call has ended. It fails only where there is no other.
// - Any other error ends the call, after the answers to the requests before it, unless the request
//   makes an answer of it (CallRequest::Refuse). The rest of the call is cancelled, as it is when
//   the client leaves.
//
// Threads: the On... functions come from io threads and workers, those of CallReply from any. One
// thread at a time works on the call; a thread that ended a request of the service leaves it to a
// worker, and so does an io thread where much is to be printed.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "base/status.h"
#include "grpc/grpc_front_end.h"
#include "metrics/stages.h"
#include "threads/byte_budget.h"
#include "threads/request_context.h"

namespace penstock::grpc {

class CallReply;
class OrderedCall;

// One request of a call, and its answer.
class CallRequest {
 public:
  virtual ~CallRequest() = default;

  // Takes the message; called once, before the next one is read. What it takes beyond its bytes is
  // taken from `memory`, and *counted says how much. Not OK: the request fails.
  virtual Status Read(std::string message, RequestMemory* memory, int64_t* counted) = 0;
  // Starts the work; again where it was refused. Any thread. An exception fails the request.
  virtual void Work(const CallReply& reply) = 0;
  // The answer's next message, once its turn has come: after CallReply::End or Print the only one;
  // after each Wake one of several. An error ends the call.
  enum class Step {
    kWait,  // nothing yet: Wake follows
    kSend,  // `message` is the next one
    kLast,  // the same, and it is the last
    kEnd,   // there is no more
  };
  virtual Expected<Step> Next(RpcMessage* message) = 0;
  // False: the failure ends the call. True: the answer, which Next gives, says it.
  virtual bool Refuse(const Status& /*failure*/) { return false; }
  // The rest of the answer is not wanted. Not called during Work or Next.
  virtual void Drop() {}

 private:
  friend class OrderedCall;
  enum class State { kUnderWay, kHeld, kEnded };

  // Set before it is begun.
  Status read_;
  int64_t size_ = 0;  // of the message
  Clock::time_point deadline_ = Clock::time_point::max();
  std::shared_ptr<metrics::RequestTrace>
      trace_;  // from its arrival until it is written; null: not timed
  // All below: guarded by the call's mutex.
  int64_t bytes_ = 0;  // that it holds, or is taken to hold
  State state_ = State::kUnderWay;
  bool beginning_ = true;  // the thread that read it goes on with the call afterwards
  bool woken_ = false;     // there may be a next message
  Status status_;
  size_t print_bytes_ = 0;
  std::function<void()> print_;
  std::shared_ptr<RequestMemory> memory_;  // of message and answer, until it is written
};

// The way back of one request. Copies share it; any thread. If the last copy goes and the request
// was neither ended nor woken, an exception has lost it, and it fails with kInternal.
class CallReply {
 public:
  // With memory, deadline and trace of this request, and the token of the call.
  const RequestContext& context() const;
  // For metadata: trailing, and of a single call initial.
  Rpc& rpc() const;
  // Within Work; see GrpcFrontEnd::HasKey.
  bool HasKey() const;

  // OK: the answer is ready. Only the first end counts.
  void End(const Status& status) const;
  // Ends the request with OK. `print`, which fills its answer, is called when its turn has come.
  // `bytes`: about what it prints, which is taken from the budget first.
  void Print(size_t bytes, std::function<void()> print) const;
  // The answer has several messages, and one of them may be there.
  void Wake() const;

 private:
  friend class OrderedCall;
  struct Attempt;
  explicit CallReply(std::shared_ptr<Attempt> attempt) : attempt_(std::move(attempt)) {}

  std::shared_ptr<Attempt> attempt_;
};

struct OrderedLimits {
  size_t requests_max = 128;
  int64_t bytes_max = 8 << 20;
  // Copies of a message that are held: itself, and its texts as they are handed over.
  int64_t copies = 2;
};

// What is a service's own of a call.
struct CallParts {
  // A place for one message, asked for by one thread at a time.
  std::function<std::shared_ptr<CallRequest>()> new_request = nullptr;
  // May be null. All requests were answered: a message that still follows. An error ends the call.
  // `context`: of the call.
  std::function<Status(const RequestContext& context, std::optional<RpcMessage>* last)> conclude =
      nullptr;
  OrderedLimits limits = {};
};

class OrderedCall final : public RpcReactor, public std::enable_shared_from_this<OrderedCall> {
 public:
  // What a request is taken to hold before the first one of a call has ended.
  static constexpr int64_t kUnknownBytes = 256 << 10;
  // Longer answers are printed by workers.
  static constexpr size_t kPrintHereBytesMax = 64 << 10;

  OrderedCall(GrpcFrontEnd* front_end, std::shared_ptr<Rpc> rpc, CallParts parts);
  OrderedCall(const OrderedCall&) = delete;
  OrderedCall& operator=(const OrderedCall&) = delete;

  // Adds a method whose calls are of what `parts_of` makes for each.
  static void AddMethod(GrpcFrontEnd* front_end, const GrpcMethod& method,
                        std::function<CallParts(const std::shared_ptr<Rpc>&)> parts_of);
  // Lets the call in, or refuses it.
  void Start(int32_t method);

  void OnMessage(std::string message) override;
  void OnReadEnd(const Status& status) override;
  void OnWritten(bool ok) override;
  void OnWake() override;
  void OnCancel() override;
  void OnDone() override;

 private:
  friend class CallReply;
  using Lock = std::unique_lock<std::mutex>;
  using State = CallRequest::State;

  void Add(const std::shared_ptr<CallRequest>& request);
  void Begin(const std::shared_ptr<CallRequest>& request);
  void OnEnd(CallReply::Attempt* attempt, Status status, size_t print_bytes,
             std::function<void()> print);
  void OnWoken(CallRequest* request);
  // Has a worker step.
  void Schedule(Lock lock);
  // Does all that can be done, unless another thread is at it: that one sees what has changed.
  void Step(Lock lock, bool on_worker = false);
  bool StepOnce(Lock* lock);
  bool FirstIsReady() const;
  bool FirstIsLong() const;
  void SendFirst(Lock* lock);
  // The first request has its answer.
  void Pop();
  void Retry(Lock* lock);
  bool MayRead() const;
  // What ends with an error is answered no more.
  void Fail(Status status);
  // Sets what a request holds.
  void SetBytes(CallRequest* request, int64_t bytes);
  void Close();

  GrpcFrontEnd* const front_end_;
  api::Service* const service_;
  const std::shared_ptr<Rpc> rpc_;
  const CallParts parts_;
  const bool single_;
  GrpcCall call_;
  RequestContext base_;                // of the call
  std::chrono::nanoseconds limit_{0};  // of each request; 0: none
  std::shared_ptr<OrderedCall> self_;  // until OnDone

  std::atomic<uint64_t> ended_{0};  // requests

  std::mutex mutex_;
  // All below: guarded by mutex_.
  std::deque<std::shared_ptr<CallRequest>> requests_;  // the first is answered next
  std::shared_ptr<CallRequest> reading_;
  int64_t bytes_ = 0;             // of requests_
  int64_t most_ = kUnknownBytes;  // that one of the call has held
  bool most_known_ = false;
  size_t under_way_ = 0;  // of requests_
  size_t held_ = 0;       // of requests_
  bool retry_ = false;    // a held one may begin
  bool writing_ = false;  // a message of the first request
  bool last_ = false;     // which is its last
  bool stepping_ = false;
  bool scheduled_ = false;  // a worker will step
  bool read_all_ = false;
  bool failed_ = false;
  bool closed_ = false;
  Status failure_;
  std::optional<RpcMessage> answer_;  // of a single call: goes out with the end
};

}  // namespace penstock::grpc

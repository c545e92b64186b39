// MessageStream: a call of many messages each way. Every message that comes is a request of its
// own; answers go out in the order of the requests, each as one message or several. At most
// kUnderWayMax requests are under way: then nothing is read until the oldest is answered. An answer
// is asked for its next message only when the one before was sent. So a stream's memory is bounded,
// and a client that takes longer than --write-timeout-ms for a message is dropped.
//
// A service derives its stream, which makes an answer of each message:
//
//   class InferStream final : public MessageStream {
//     std::shared_ptr<StreamAnswer> Take(std::string request, RequestContext&& context) override;
//     ...
//   };
//   MessageStream::Start(std::make_shared<InferStream>(front_end, rpc), method);
//
// Threads: io threads, workers, and those of whoever calls Wake; Take and StreamAnswer::Next are
// called by one at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "grpc/grpc_front_end.h"

namespace penstock {

// The answer to one message of a stream, in the making. It holds the stream while it may call Wake.
class StreamAnswer {
 public:
  virtual ~StreamAnswer() = default;
  enum class Step {
    kWait,  // nothing yet: the stream's Wake follows
    kSend,  // `message` is the next one
    kLast,  // the same, and it is the last
    kEnd,   // there is no more
    kFail,  // the stream ends with `status`
  };
  // Until the request is over (kLast, kEnd, kFail), also where nobody reads any more.
  virtual Step Next(RpcMessage* message, Status* status) = 0;
};

// An answer that is there from the start.
class ReadyAnswer final : public StreamAnswer {
 public:
  explicit ReadyAnswer(RpcMessage message) : message_(std::move(message)) {}
  Step Next(RpcMessage* message, Status* /*status*/) override {
    *message = std::move(message_);
    return Step::kLast;
  }

 private:
  RpcMessage message_;
};

class MessageStream : public RpcReactor, public std::enable_shared_from_this<MessageStream> {
 public:
  static constexpr size_t kUnderWayMax = 64;

  virtual ~MessageStream() = default;
  MessageStream(const MessageStream&) = delete;
  MessageStream& operator=(const MessageStream&) = delete;

  // Begins the call, which holds the stream until it is over.
  static void Start(std::shared_ptr<MessageStream> stream, int32_t method);

  // There is something new: goes on with what can be done. Any thread.
  void Wake();

  void OnMessage(std::string message) final;
  void OnReadEnd(const Status& status) final;
  void OnWritten(bool ok) final;
  void OnCancel() final;
  void OnDone() final;

 protected:
  MessageStream(GrpcFrontEnd* front_end, std::shared_ptr<Rpc> rpc)
      : front_end_(front_end), rpc_(std::move(rpc)) {}

  // The answer to a message; called in their order. `context`: with the stream's deadline, priority
  // and cancel token, and with memory of its own, in which the message's bytes are counted.
  virtual std::shared_ptr<StreamAnswer> Take(std::string request, RequestContext&& context) = 0;
  // The answer to a message for which there is no memory.
  virtual std::shared_ptr<StreamAnswer> Refuse(const Status& status) = 0;

  GrpcFrontEnd* front_end() const { return front_end_; }

 private:
  struct State {
    bool has_request = false;  // request_ is filled, and not taken
    bool read_closed = false;  // the client sends no more
    bool writing = false;      // response_ is being sent
    bool failed = false;       // nothing more is read or sent
    bool finished = false;
  };

  void Begin(int32_t method);

  template <typename How>
  void Change(How how) {
    {
      const std::lock_guard lock(mutex_);
      how(&state_);
    }
    Wake();
  }

  // Only the first failure is told.
  void Fail(Status status);

  // What can be done in this state, by one thread at a time.
  void Pump(const State& state);

  void TakeRequest();

  // True: a message is being sent.
  bool SendNext(bool failed);

  StreamAnswer::Step NextOf(StreamAnswer* answer, Status* status);

  // There is room for one more.
  void Drop();

  void End();

  GrpcFrontEnd* const front_end_;
  const std::shared_ptr<Rpc> rpc_;
  GrpcCall call_;
  std::shared_ptr<CancelToken> cancel_;
  std::shared_ptr<MessageStream> self_;  // until OnDone

  // Of whoever pumps.
  std::deque<std::shared_ptr<StreamAnswer>> answers_;
  std::string request_;  // written while has_request is false
  RpcMessage response_;
  bool sent_last_ = false;

  std::mutex mutex_;
  // Guarded by mutex_.
  State state_;
  Status failure_;
  bool pumping_ = false;
  bool again_ = false;
};

}  // namespace penstock

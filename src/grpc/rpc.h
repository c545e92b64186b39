// Rpc: one call of gRPC as it is on the wire, a stream of HTTP/2: messages with their length before
// them, metadata as headers and trailers (github.com/grpc/grpc, doc/PROTOCOL-HTTP2.md).
//
// A service answers it with a reactor, which asks for one thing at a time and is told when it is
// there:
//
//   Read    -> OnMessage, or OnReadEnd: no message follows
//   Write   -> OnWritten; one at a time
//   WakeAt  -> OnWake
//   Finish  -> OnDone, once, last; nothing else follows
//
// OnCancel tells at most once, any time before Finish, that the answer is not wanted: the client
// has left, its deadline has passed or the server stops. The service still has to Finish.
//
// Memory: a message is counted before it is buffered. What is not read yet waits in the client's
// window (http2/http2_handler.h), which opens as messages are taken.
//
// Threads: Read, Write and Finish may be called by any. Reactions come from the io thread of the
// connection; OnMessage and OnReadEnd also from within Read, where the message has arrived before,
// and from a worker, where it is large or packed; OnDone also from within Finish.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "grpc/grpc_status.h"
#include "http/open_count.h"
#include "http2/http2_handler.h"
#include "threads/byte_budget.h"
#include "threads/request_context.h"

namespace penstock::grpc {

// A message that goes out, with room for its head.
class RpcMessage {
 public:
  static constexpr size_t kHeadBytes = 5;

  RpcMessage() : RpcMessage(0) {}
  explicit RpcMessage(size_t bytes) : framed_(kHeadBytes + bytes, '\0') {}

  uint8_t* data() { return reinterpret_cast<uint8_t*>(framed_.data()) + kHeadBytes; }
  size_t size() const { return framed_.size() - kHeadBytes; }
  std::string_view view() const { return std::string_view(framed_).substr(kHeadBytes); }
  // With its head: whether it is packed, and its length.
  static std::string Framed(RpcMessage&& message, bool packed);

 private:
  std::string framed_;
};

class RpcReactor {
 public:
  virtual void OnMessage(std::string /*message*/) {}
  // OK: the client has sent its last message, which only a stream is told. Else the message cannot
  // be taken or there is none, or the call is broken off (kCancelled).
  virtual void OnReadEnd(const Status& /*status*/) {}
  // `ok` false: the call is broken off.
  virtual void OnWritten(bool /*ok*/) {}
  virtual void OnWake() {}
  virtual void OnCancel() {}
  virtual void OnDone() = 0;

 protected:
  ~RpcReactor() = default;
};

class Rpc final : public http2::Http2Receiver, public std::enable_shared_from_this<Rpc> {
 public:
  // Shared by all calls; outlives them.
  struct Options {
    int64_t message_bytes_max = 8 << 20;  // before and after it is unpacked
    // From the first byte of a message to its last; of a single call, from its first Read.
    std::chrono::milliseconds read_timeout{30'000};
    // Runs work that handles `bytes` on a worker.
    std::function<void(Priority, size_t bytes, std::function<void()>)> on_worker;
    // The calls that there are.
    std::shared_ptr<http::OpenCount> open = std::make_shared<http::OpenCount>();
  };
  // Longer messages are taken by workers.
  static constexpr size_t kLongBytes = 256 << 10;
  // Messages of a stream up to this size are not counted while they are read.
  static constexpr size_t kUncountedBytes = 4 << 10;

  // `streams`: the client may send any number of messages, else one, after which it sends no more.
  Rpc(const Options* options, http2::Http2Request request,
      std::shared_ptr<http2::Http2Answer> answer, bool streams);
  ~Rpc() override;
  Rpc(const Rpc&) = delete;
  Rpc& operator=(const Rpc&) = delete;

  const http2::Http2Request& request() const { return request_; }
  bool streams() const { return streams_; }
  // The first header of this name, in lower case, or "". One whose name ends in "-bin": its bytes.
  std::string_view Header(std::string_view name) const;
  Clock::time_point deadline() const { return deadline_; }  // the client's; max(): none
  // Not OK: the head itself is wrong.
  const Status& head_status() const { return head_status_; }

  // Before the first Write or Finish, and before Finish. Values are ASCII without line breaks.
  void AddInitialMetadata(std::string name, std::string value);
  void AddTrailingMetadata(std::string name, std::string value);

  // The first call of a service. `reactor` lives until OnDone.
  void SetReactor(RpcReactor* reactor) { reactor_ = reactor; }
  // Before the first Read: what messages are counted in, and whose work they are.
  void SetMemory(std::shared_ptr<RequestMemory> memory, Priority priority);
  // Called before the first Read: a message has at most `bytes_max`, packed or not.
  void LimitMessages(int64_t bytes_max);
  void Read();
  void Write(RpcMessage message);
  void WakeAt(Clock::time_point at);
  // `message`: the last one that is written.
  void Finish(GrpcStatus status, std::optional<RpcMessage> message = std::nullopt);
  // Breaks the call off, from any thread: the client sees CANCELLED.
  void Cancel() { answer_->Reset(http2::Http2Error::kCancel); }

  // The answer did not reach the client.
  bool IsCancelled() const { return cancelled_.load(); }
  // After Finish.
  GrpcCode code() const { return code_; }
  size_t bytes_out() const { return bytes_out_.load(); }  // of messages

  void OnData(std::string_view bytes) override;
  void OnEnd() override;
  void OnSent() override;
  void OnTime() override;
  void OnInterrupt() override;
  void OnGone(http2::Http2Gone how) override;

 private:
  using Lock = std::unique_lock<std::mutex>;
  enum class Packing { kNone, kGzip, kUnknown };
  // A message that has arrived.
  struct Arrived {
    std::string bytes;
    bool packed = false;
    int64_t counted = 0;
  };

  void ReadHead();
  // Under mutex_, where a Lock is not taken over.
  Status Fill(std::string_view bytes, size_t* taken);
  Status CheckHead();
  Status TooLarge(size_t bytes);
  Status FrameError(GrpcCode code, std::string message);
  Status Reserve(size_t bytes);
  bool Whole() const { return head_size_ == head_.size() && message_.size() == length_; }
  void FillAndHand(Lock lock, std::string_view bytes);
  void HandOver(Lock lock);
  void EndRead(Lock lock, const Status& status);
  void EndWrite(Lock lock, bool ok);
  void Tell(Lock lock);
  void ArmAt(Clock::time_point at);
  void AwaitRest();
  // Without it.
  void Hand(Arrived message);
  Status Unpack(Arrived* message);
  void SendHead(bool last, http2::HeaderList* headers);
  void SendMessage(RpcMessage message);
  void Send(RpcMessage message, std::function<void()> then);
  void SendEnd(http2::HeaderList end);
  void Leave();
  template <typename Reaction>
  void React(Reaction reaction) noexcept;

  const Options* const options_;
  const std::shared_ptr<http::OpenCount> open_;
  http2::Http2Request request_;
  const std::shared_ptr<http2::Http2Answer> answer_;
  const bool streams_;
  RpcReactor* reactor_ = nullptr;
  Clock::time_point deadline_ = Clock::time_point::max();
  Status head_status_;
  Packing packing_ = Packing::kNone;  // of messages that come
  bool packs_ = false;                // what is sent
  int64_t message_bytes_max_;
  std::shared_ptr<RequestMemory> memory_;
  Priority priority_ = Priority::kInteractive;

  // Touched by the thread that writes.
  http2::HeaderList initial_, trailing_;
  bool head_sent_ = false;
  GrpcCode code_ = GrpcCode::kOk;
  std::atomic<size_t> bytes_out_{0};

  std::atomic<bool> cancelled_{false};
  std::mutex mutex_;
  // All below: guarded by mutex_.
  std::string pending_;                                 // arrived, and not asked for
  size_t pending_at_ = 0;                               // of it: taken
  std::array<uint8_t, RpcMessage::kHeadBytes> head_{};  // of the message that is read
  size_t head_size_ = 0;
  size_t length_ = 0;
  std::string message_;
  int64_t counted_ = 0;  // of message_
  int64_t held_ = 0;     // of the message that the service has
  bool reading_ = false;
  bool unreadable_ = false;  // no more is read
  bool ended_ = false;       // the client has sent all
  bool writing_ = false;
  Clock::time_point read_by_ = Clock::time_point::max();   // the message that is read
  Clock::time_point wake_at_ = Clock::time_point::max();   // of the reactor
  Clock::time_point armed_at_ = Clock::time_point::max();  // of the stream's timer
  std::optional<GrpcStatus> forced_;                       // what a failed call ends with instead
  bool told_ = false;                                      // OnCancel
  bool finished_ = false;
  bool gone_ = false;
  bool done_ = false;
  int reactions_ = 0;  // under way
};

}  // namespace penstock::grpc

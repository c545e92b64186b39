// Stream: an answer whose body is sent while it is made.
//
//   producer, any thread, one at a time     io thread of the connection
//   Stream::Write --> StreamBuffer --> Take --> socket
//                 <-- gone, room   <-- Sent, Leave
//
// Back-pressure: unread() says how much the client has yet to take, and CallWhenBelow calls the
// producer once the client has taken enough. If the producer exceeds the bound of unread bytes, the
// connection is closed. A client that takes a piece of the body too slowly
// (ServerOptions::write_timeout) is dropped as well.
//
// Ownership: the producer owns the Stream; stream and connection share the StreamBuffer. A Stream
// that goes without End() closes the connection, so the client sees that the answer is not whole.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace penstock::http {

struct HttpResponse;

// The buffer that both sides share. Any thread, unless stated.
class StreamBuffer {
 public:
  using Ready = std::function<void()>;

  // `head`: status, type and headers; its body is not used. `chunked`: frame the body as chunks,
  // else the end of the connection ends it (HTTP/1.0). `ready` as Responder::Begin.
  StreamBuffer(HttpResponse head, bool chunked, size_t unread_bytes_max, Ready ready);
  ~StreamBuffer();

  // ---- The producer's side, see Stream.
  bool Push(std::string_view text, int64_t items, std::shared_ptr<const void> kept);
  void End(std::string_view text, int status);
  void Abort();
  bool CallWhenBelow(size_t bytes);
  bool gone() const { return gone_.load(std::memory_order_acquire); }
  size_t unread() const { return unread_.load(std::memory_order_relaxed); }

  // ---- The connection's side, on its io thread.

  // The bytes to send next: small pieces joined.
  struct Batch {
    std::string text;  // framed
    size_t bytes = 0;  // of the text
    size_t body_bytes = 0;
    int64_t items = 0;
    std::vector<std::shared_ptr<const void>> kept;
    bool last = false;  // the body is complete with it
  };
  HttpResponse TakeHead();
  // An empty text: nothing to send.
  Batch Take();
  // The text that a silent stream sends, as a batch; `text` is not empty.
  Batch Idle(std::string_view text) const;
  // The kernel has taken the batch.
  void Sent(const Batch& batch);
  // Whether the stream cannot go on: it was aborted, or its client is over the bound.
  bool aborted() const;
  bool overrun() const;
  int end_status() const;
  // Stops sending: drops waiting pieces and tells the producer. A second call does nothing.
  void Leave() noexcept;
  // Calls the producer because the request's deadline has passed, or it was cancelled.
  void CallReady() noexcept;

  bool chunked() const { return chunked_; }

 private:
  struct Piece {
    std::string text;
    size_t body_bytes = 0;
    int64_t items = 0;
    std::shared_ptr<const void> kept;
  };
  void Add(std::string text, size_t body_bytes, int64_t items, std::shared_ptr<const void> kept);

  const bool chunked_;
  const size_t unread_bytes_max_;
  std::atomic<bool> gone_{false};
  std::atomic<size_t> unread_{0};  // written under mutex_
  mutable std::mutex mutex_;
  // All guarded by mutex_.
  std::unique_ptr<HttpResponse> head_;
  std::shared_ptr<const Ready> ready_;
  std::list<Piece> pieces_;  // an empty one takes no memory
  size_t wanted_below_ = 0;  // 0: the producer does not wait for room
  bool ended_ = false;
  bool aborted_ = false;
  bool overrun_ = false;
  int end_status_ = 0;
};

// Tells the io thread that its buffer has changed. Any thread; allocates nothing.
class StreamWake {
 public:
  virtual ~StreamWake() = default;
  virtual void Wake() noexcept = 0;
};

// The producer's handle. One thread at a time.
class Stream {
 public:
  Stream(std::shared_ptr<StreamBuffer> buffer, std::shared_ptr<StreamWake> wake)
      : buffer_(std::move(buffer)), wake_(std::move(wake)) {}
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // Hands over a part of the body. `items` (rows, tokens) are for the log; `kept` is released once
  // the kernel has the text or the client is gone. False: the client is gone, or this piece
  // exceeded the bound and the client is dropped.
  bool Write(std::string_view text, int64_t items = 0, std::shared_ptr<const void> kept = nullptr);
  // Ends the body with `text`, which no bound limits. `status` is for log and metrics: 200, or the
  // status of an error printed in the body.
  void End(std::string_view text = {}, int status = 200);

  // Whether the client has left, was dropped, or the server ends.
  bool gone() const { return buffer_->gone(); }
  // Bytes that the kernel has not taken yet.
  size_t unread() const { return buffer_->unread(); }
  // False: less than `bytes` are unread already, or the client is gone. Else `ready` is called once
  // either holds.
  bool CallWhenBelow(size_t bytes) { return buffer_->CallWhenBelow(bytes); }

 private:
  const std::shared_ptr<StreamBuffer> buffer_;
  const std::shared_ptr<StreamWake> wake_;
  bool ended_ = false;
};

}  // namespace penstock::http

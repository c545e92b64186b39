// The way from an Http2Answer, on any thread, to the session on its io thread. Internal to http2,
// but for Http2Wake.
//
//   Http2Answer (any thread) -> Http2Channel (mutex) -> Http2Mailbox -> Http2Session (io thread)
//
// A channel collects what was asked of its stream; the mailbox lists the channels that have
// something, through the channels themselves, and wakes the io thread for the first. Nothing but
// the data itself is allocated, so an answer that is lost by a failed allocation still resets its
// stream.
#pragma once

#include <atomic>
#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "http2/http2_handler.h"

namespace penstock::http2 {

// Has the io thread call Http2Session::TakePosted. Any thread.
class Http2Wake {
 public:
  virtual ~Http2Wake() = default;
  virtual void Wake() noexcept = 0;
};

class Http2Channel;

class Http2Mailbox {
 public:
  explicit Http2Mailbox(std::shared_ptr<Http2Wake> wake) : wake_(std::move(wake)) {}
  ~Http2Mailbox() { Close(); }
  Http2Mailbox(const Http2Mailbox&) = delete;
  Http2Mailbox& operator=(const Http2Mailbox&) = delete;

  // Does nothing while `channel` is in the list.
  void Push(std::shared_ptr<Http2Channel> channel) noexcept;
  // The oldest one; null: the list is empty.
  std::shared_ptr<Http2Channel> Pop() noexcept;
  // The session has ended: drops the list, and what is pushed later.
  void Close() noexcept;

 private:
  std::mutex mutex_;
  // All guarded by mutex_.
  std::shared_ptr<Http2Wake> wake_;
  std::shared_ptr<Http2Channel> first_;
  Http2Channel* last_ = nullptr;
};

class Http2Channel : public std::enable_shared_from_this<Http2Channel> {
 public:
  struct Piece {
    std::string bytes;
    std::shared_ptr<const void> kept;
  };
  // What was asked since the last TakePosted, in the order in which it goes out.
  struct Posted {
    std::vector<HeaderList> informational;
    std::optional<HeaderList> headers;
    std::list<Piece> pieces;
    std::optional<HeaderList> trailers;
    bool last = false;  // the answer is whole with this
    std::optional<Http2Error> reset;
    std::optional<Clock::time_point> wake_at;
    size_t consumed = 0;
  };

  Http2Channel(int32_t stream, std::shared_ptr<Http2Mailbox> mailbox)
      : stream_(stream), mailbox_(std::move(mailbox)) {}

  // ---- The answer's side; see Http2Answer.
  void SendHeaders(HeaderList headers, bool last);
  void SendData(std::string bytes, std::shared_ptr<const void> kept, bool last);
  void SendTrailers(HeaderList trailers);
  void Reset(Http2Error error) noexcept;
  void Consume(size_t bytes) noexcept;
  void WakeAt(Clock::time_point at) noexcept;
  // The last copy of the answer is gone.
  void Release() noexcept;
  size_t unsent() const { return unsent_.load(std::memory_order_acquire); }
  bool gone() const { return gone_.load(std::memory_order_acquire); }

  // ---- The session's side, on the io thread.
  int32_t stream() const { return stream_; }
  Posted TakePosted();
  // The kernel has `bytes` of the data. Returns whether the producer is to be told.
  bool Sent(size_t bytes);
  // The stream is gone: what was posted is dropped, as is all that comes.
  void Leave() noexcept;

 private:
  friend class Http2Mailbox;

  // Under mutex_: whether what is asked now can still go out.
  bool Open() const { return !gone() && !posted_.reset && !ended_; }

  const int32_t stream_;
  const std::shared_ptr<Http2Mailbox> mailbox_;
  std::atomic<size_t> unsent_{0};
  std::atomic<bool> gone_{false};
  std::mutex mutex_;
  Posted posted_;                       // guarded by mutex_
  bool headed_ = false;                 // guarded by mutex_: the final header list was posted
  bool ended_ = false;                  // guarded by mutex_: the last piece was posted
  bool listed_ = false;                 // of the mailbox, under its mutex
  std::shared_ptr<Http2Channel> next_;  // of the mailbox
};

// The answer of `channel`; the end of its last copy releases the channel.
std::shared_ptr<Http2Answer> MakeHttp2Answer(std::shared_ptr<Http2Channel> channel);

}  // namespace penstock::http2

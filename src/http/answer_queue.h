// AnswerQueue: carries answers and wake-ups of streams from other threads to their io thread.
// Posting allocates nothing and does not throw, so an answer arrives also where memory has run out:
// the queue is a list through the posts themselves, and the io thread is woken by an eventfd.
#pragma once

#include <array>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>

#include "http/message.h"
#include "http/stream.h"

namespace penstock::http {

struct IoThread;

// What awaits answers: a connection of HTTP/1.1, or a stream of HTTP/2. Called on its io thread.
class AnswerTarget {
 public:
  virtual ~AnswerTarget() = default;
  // The answer to request `number`; empty `print`: it was lost. Throws nothing.
  virtual void OnAnswer(uint64_t number, const Responder::Print& print) noexcept = 0;
  // The answer to request `number` is a stream that has begun or changed. Throws nothing.
  virtual void OnStream(uint64_t number, const std::shared_ptr<StreamBuffer>& stream) noexcept = 0;
};

// An entry of an AnswerQueue; it may be queued only once at a time.
class IoPost {
 public:
  virtual ~IoPost() = default;

 protected:
  // Runs on the io thread after the post has left the queue, so it may be posted again meanwhile.
  virtual void Arrive() noexcept = 0;
  // The io thread has ended.
  virtual void Lose() noexcept = 0;

 private:
  friend class AnswerQueue;
  std::shared_ptr<IoPost> next_;  // in the queue, under its mutex
};

// The answer's path of one request, shared by its responders.
class PendingAnswer final : public Exchange,
                            public IoPost,
                            public std::enable_shared_from_this<PendingAnswer> {
 public:
  // `number` tells the request from later ones of `target`. `chunked`: how a stream's body is
  // framed.
  PendingAnswer(std::weak_ptr<AnswerTarget> target, std::shared_ptr<IoThread> thread,
                uint64_t number, bool chunked)
      : target_(std::move(target)),
        thread_(std::move(thread)),
        number_(number),
        chunked_(chunked) {}

  void Post(Print print) noexcept override;
  std::unique_ptr<Stream> Begin(HttpResponse head, std::function<void()> ready) override;

 private:
  void Arrive() noexcept override;
  void Lose() noexcept override { print_ = nullptr; }

  const std::weak_ptr<AnswerTarget> target_;
  const std::shared_ptr<IoThread> thread_;
  const uint64_t number_;
  const bool chunked_;
  std::atomic<bool> posted_{false};
  Print print_;  // from Post on handed over by the queue
};

class AnswerQueue {
 public:
  explicit AnswerQueue(boost::asio::io_context* context);
  AnswerQueue(const AnswerQueue&) = delete;
  AnswerQueue& operator=(const AnswerQueue&) = delete;

  // Any thread.
  void Push(std::shared_ptr<IoPost> post) noexcept;
  // On the io thread: delivers posts from now on. May be called again.
  void Listen();
  // Once the io thread has ended: drops queued posts and later ones.
  void Close();

 private:
  // Memory of the asynchronous wait; at most one is pending.
  struct WaitMemory {
    alignas(std::max_align_t) std::array<std::byte, 512> bytes;
    bool taken = false;
  };
  template <typename T>
  class WaitAllocator;
  struct OnReady;

  std::shared_ptr<IoPost> TakeAll();
  void Deliver() noexcept;

  WaitMemory wait_memory_;
  bool listening_ = false;  // of the io thread
  boost::asio::posix::stream_descriptor event_;
  std::mutex mutex_;
  std::shared_ptr<IoPost> first_;  // guarded by mutex_, as all below
  IoPost* last_ = nullptr;
  bool closed_ = false;
};

}  // namespace penstock::http

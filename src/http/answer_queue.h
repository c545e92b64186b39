// Answers on their way from other threads to the io thread of their connection. Posting allocates
// nothing and does not throw, so an answer arrives also where memory has run out: the queue is a
// list through the answers themselves, and the io thread is woken by an eventfd.
#pragma once

#include <array>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstddef>
#include <memory>
#include <mutex>

#include "http/message.h"

namespace penstock {

class Connection;
struct IoThread;

// The way back of one request. Shared by its connection's responders.
class PendingAnswer final : public Exchange, public std::enable_shared_from_this<PendingAnswer> {
 public:
  // `number` tells the request from later ones of the connection.
  PendingAnswer(std::weak_ptr<Connection> connection, std::shared_ptr<IoThread> thread,
                uint64_t number)
      : connection_(std::move(connection)), thread_(std::move(thread)), number_(number) {}

  void Post(Print print) noexcept override;

 private:
  friend class AnswerQueue;
  const std::weak_ptr<Connection> connection_;
  const std::shared_ptr<IoThread> thread_;
  const uint64_t number_;
  std::atomic<bool> posted_{false};
  Print print_;                          // from here on under the queue's mutex
  std::shared_ptr<PendingAnswer> next_;  // in the queue
};

class AnswerQueue {
 public:
  explicit AnswerQueue(boost::asio::io_context* context);
  AnswerQueue(const AnswerQueue&) = delete;
  AnswerQueue& operator=(const AnswerQueue&) = delete;

  // Any thread.
  void Push(std::shared_ptr<PendingAnswer> answer) noexcept;
  // On the io thread: hands out what comes from now on. May be called again.
  void Listen();
  // Once the io thread has ended: drops what waits and what comes.
  void Close();

 private:
  // The one wait that is ever pending takes its memory from here.
  struct WaitMemory {
    alignas(std::max_align_t) std::array<std::byte, 512> bytes;
    bool taken = false;
  };
  template <typename T>
  class WaitAllocator;
  struct OnReady;

  std::shared_ptr<PendingAnswer> TakeAll();
  void Deliver() noexcept;

  WaitMemory wait_memory_;
  bool listening_ = false;  // of the io thread
  boost::asio::posix::stream_descriptor event_;
  std::mutex mutex_;
  std::shared_ptr<PendingAnswer> first_;  // guarded by mutex_, as all below
  PendingAnswer* last_ = nullptr;
  bool closed_ = false;
};

}  // namespace penstock

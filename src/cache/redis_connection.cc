#include "cache/redis_connection.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>

namespace penstock::cache {
namespace {

// Limit of one reply. A full look-up, 1024 values of at most 1 MiB, could exceed it, but would be
// too slow to be of use.
constexpr size_t kAnswerBytesMax = 64 << 20;
// hiredis allocates an array's elements before they come, 8 bytes for each one claimed: 17 GB for a
// line of 13 bytes. Our replies are as long as a look-up has keys, and hold no arrays.
constexpr size_t kElementsMax = 1 << 16;

// hiredis' own functions, except for arrays. A null reply counts as out of memory, which fails the
// connection. (The type of the count differs between versions of hiredis.)
redisReplyObjectFunctions* LimitedReplies(redisReplyObjectFunctions* own) {
  [[maybe_unused]] static const auto create_array = own->createArray;  // g++ 12 sees no use of it
  static redisReplyObjectFunctions limited = [own] {
    redisReplyObjectFunctions functions = *own;
    functions.createArray = [](const redisReadTask* task, auto elements) -> void* {
      const bool sane =
          task->parent == nullptr && elements >= 0 && static_cast<size_t>(elements) <= kElementsMax;
      return sane ? create_array(task, elements) : nullptr;
    };
    return functions;
  }();
  return &limited;
}

}  // namespace

bool RedisConnection::Fail(std::string_view what) {
  // A copy first: it may be hiredis' own.
  error_ = std::string(what.substr(0, kErrorBytesMax));
  context_ = nullptr;
  return false;
}

void RedisConnection::Close(const char* why) {
  context_ = nullptr;
  error_.clear();
  try {
    error_ = why;
  } catch (const std::exception&) {
    // Left empty.
  }
}

bool RedisConnection::Wait(short events, Deadline deadline, bool* late) {
  for (;;) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0 && late != nullptr) {
      *late = true;
      return false;
    }
    if (left.count() <= 0) return Fail("no answer in time");
    pollfd poll_fd = {context_->fd, events, 0};
    const int ready = poll(&poll_fd, 1, static_cast<int>(left.count()));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return Fail(std::strerror(errno));
  }
}

bool RedisConnection::Open(const RedisUrl& url, Deadline deadline) {
  context_.reset(url.path.empty() ? redisConnectNonBlock(url.host.c_str(), url.port)
                                  : redisConnectUnixNonBlock(url.path.c_str()));
  if (context_ == nullptr) return Fail("out of memory");
  if (context_->err != 0) return Fail(context_->errstr);
  context_->reader->fn = LimitedReplies(context_->reader->fn);
  if (!Wait(POLLOUT, deadline)) return false;
  int failed = 0;
  socklen_t size = sizeof failed;
  if (getsockopt(context_->fd, SOL_SOCKET, SO_ERROR, &failed, &size) != 0) failed = errno;
  if (failed != 0) return Fail(std::strerror(failed));
  if (url.path.empty()) {
    const int on = 1;
    setsockopt(context_->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }
  if (!url.password.empty()) {
    const bool named = !url.user.empty();
    if (!Command(named ? std::vector<std::string_view>{"AUTH", url.user, url.password}
                       : std::vector<std::string_view>{"AUTH", url.password},
                 deadline)) {
      return false;
    }
  }
  const std::string db = std::to_string(url.db);
  if (url.db != 0 && !Command({"SELECT", db}, deadline)) return false;
  return Command({"PING"}, deadline);
}

bool RedisConnection::Command(const std::vector<std::string_view>& command, Deadline deadline) {
  if (!Append(command) || !Flush(deadline)) return false;
  const RedisReplyPtr reply = Read(deadline);
  if (reply == nullptr) return false;
  if (reply->type == REDIS_REPLY_STATUS) return true;
  const std::string name(command[0]);
  return Fail(reply->type == REDIS_REPLY_ERROR
                  ? name + ": " + std::string(reply->str, std::min(reply->len, kErrorBytesMax))
                  : name + ": an answer of the wrong type");
}

bool RedisConnection::Append(const std::vector<std::string_view>& command) {
  std::vector<const char*> words;
  std::vector<size_t> sizes;
  for (const std::string_view word : command) {
    words.push_back(word.data());
    sizes.push_back(word.size());
  }
  return redisAppendCommandArgv(context_.get(), static_cast<int>(words.size()), words.data(),
                                sizes.data()) == REDIS_OK ||
         Fail("out of memory");
}

bool RedisConnection::Flush(Deadline deadline, bool* late) {
  for (;;) {
    int done = 0;
    if (redisBufferWrite(context_.get(), &done) != REDIS_OK) return Fail(context_->errstr);
    if (done) return true;
    if (!Wait(POLLOUT, deadline, late)) return false;
  }
}

RedisReplyPtr RedisConnection::Read(Deadline deadline, bool* late) {
  for (;;) {
    void* reply = nullptr;
    if (redisGetReplyFromReader(context_.get(), &reply) != REDIS_OK) {
      Fail(context_->errstr);
      return nullptr;
    }
    if (reply != nullptr) return RedisReplyPtr(static_cast<redisReply*>(reply));
    if (context_->reader->len > kAnswerBytesMax) {
      Fail("an answer of more than 64 MiB");
      return nullptr;
    }
    if (!Wait(POLLIN, deadline, late)) return nullptr;
    if (redisBufferRead(context_.get()) != REDIS_OK) {
      Fail(context_->errstr);
      return nullptr;
    }
  }
}

}  // namespace penstock::cache

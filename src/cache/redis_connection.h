// One connection to Redis through hiredis, every exchange under a deadline. One thread.
//
// hiredis' own time-outs count from byte to byte, so a server that sends slowly could hold the
// thread for long; here the socket does not block, and poll waits for the rest of the time.
#pragma once

#include <hiredis/hiredis.h>

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cache/redis_url.h"

namespace penstock::cache {

struct RedisFree {
  void operator()(redisContext* context) const { redisFree(context); }
  void operator()(redisReply* reply) const { freeReplyObject(reply); }
};
using RedisReplyPtr = std::unique_ptr<redisReply, RedisFree>;

class RedisConnection {
 public:
  using Deadline = std::chrono::steady_clock::time_point;
  static constexpr size_t kErrorBytesMax = 512;

  // Connects, logs in, chooses the database, and waits for the answer to a PING.
  bool Open(const RedisUrl& url, Deadline deadline);
  // Closes with the error `why`, which must live as long as the program. Allocates nothing.
  void Close(const char* why);

  // False: out of memory; the connection is closed.
  bool Append(const std::vector<std::string_view>& command);
  // With `late`, a deadline that passes sets it and leaves the connection as it is.
  bool Flush(Deadline deadline, bool* late = nullptr);
  // The next reply; null: failed, or `late` as of Flush. A reply may be an error of the server.
  RedisReplyPtr Read(Deadline deadline, bool* late = nullptr);

  // Closes with the error `what`, cut to kErrorBytesMax bytes. Always false.
  bool Fail(std::string_view what);
  // The last error.
  const std::string& error() const { return error_; }

 private:
  bool Wait(short events, Deadline deadline, bool* late = nullptr);
  bool Command(const std::vector<std::string_view>& command, Deadline deadline);

  std::unique_ptr<redisContext, RedisFree> context_;
  std::string error_;
};

}  // namespace penstock::cache

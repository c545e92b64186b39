// One connection to Redis through hiredis, every exchange under a deadline. One thread.
//
// hiredis' own time-outs count from byte to byte, so a server that dribbles could hold the thread
// for long; here the socket does not block, and poll waits for what is left of the time.
#pragma once

#include <hiredis/hiredis.h>

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cache/redis_url.h"

namespace penstock {

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
  // `why`, which lives as long as the program, is the error. Takes no memory.
  void Close(const char* why);

  // False: out of memory; the connection is closed.
  bool Append(const std::vector<std::string_view>& command);
  bool Flush(Deadline deadline);
  // The next answer; null: failed. An answer may be an error of the server's.
  RedisReplyPtr Read(Deadline deadline);

  // Closes; `what`, of which the first kErrorBytesMax bytes are kept, is the error. False, always.
  bool Fail(std::string_view what);
  // What went wrong last.
  const std::string& error() const { return error_; }

 private:
  bool Wait(short events, Deadline deadline);
  bool Command(const std::vector<std::string_view>& command, Deadline deadline);

  std::unique_ptr<redisContext, RedisFree> context_;
  std::string error_;
};

}  // namespace penstock

// RedisUrl: the parsed value of --redis-url.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace penstock::cache {

// redis://[[user]:password@]host[:port][/db]     host may be [::1]; port 6379, db 0
// unix://[[user]:password@]/path/to.sock[?db=N]
// Parts may be percent-encoded. rediss:// (TLS) is refused: a tunnel can carry it.
struct RedisUrl {
  std::string host;  // "" with `path`
  uint16_t port = 6379;
  std::string path;  // of a Unix socket
  std::string user;
  std::string password;
  int32_t db = 0;

  // kInvalidArgument, field "redis-url"; the message holds no password.
  static Expected<RedisUrl> Parse(std::string_view url);
  // A Unix socket, or an address of this machine.
  bool IsLocal() const;
  // For logs: "host:port/db", without the password.
  std::string ToString() const;
};

}  // namespace penstock::cache

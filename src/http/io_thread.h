// An io thread's context and its connections. Internal to the connection layer.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <ctime>
#include <memory>
#include <string>
#include <unordered_map>

#include "http/answer_queue.h"
#include "http/message.h"
#include "http/open_count.h"
#include "http/server_options.h"
#include "http/tls_context.h"

namespace penstock::http2 {
class Http2Handler;
}  // namespace penstock::http2

namespace penstock::http {

// Read at once: a TLS record.
inline constexpr size_t kReadBytes = 16 << 10;

class Connection;

// Responders share it, so that a late answer always finds a context to post to.
struct IoThread {
  boost::asio::io_context context{1};
  AnswerQueue answers{&context};
  // One of the two is null: where requests go, or where streams of HTTP/2 go.
  HttpHandler* handler = nullptr;
  http2::Http2Handler* http2_handler = nullptr;
  uint32_t http2_streams_max = 100;  // of a connection
  const ServerOptions* options = nullptr;
  const TlsContext* tls = nullptr;  // null = plain
  OpenCount* open_count = nullptr;

  // Set before the first connection is closed.
  std::atomic<bool> stopping{false};
  // False: every answer says "Connection: close", as all do that are sent after `stopping` is set.
  std::atomic<bool> keeps_alive{true};

  // Touched by the thread that runs `context` only.
  std::unordered_map<Connection*, std::shared_ptr<Connection>> connections;

  // On that thread: the Date header of now; the handler's calls of these names.
  const std::string& Date();
  void OnConnections(int change);
  void OnBytes(size_t received, size_t sent);

 private:
  std::time_t date_unix_s_ = 0;
  std::string date_;
};

}  // namespace penstock::http

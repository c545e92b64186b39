// One HTTP/1.1 connection, plain or TLS. Internal to the connection layer; the only header of
// src/http that shows Boost.
//
// Life of a connection (one request at a time; pipelined requests wait in a bounded buffer, so
// answers keep the order of the requests):
//
//   kHandshake -> kIdle -> kHeader -> kBody -> kWaiting -> kWriting -> kIdle ...
//      (TLS)        ^         |         |          |           |
//                   |         +----+----+          |           +-> kLingering -> kClosed
//                   |              | refused or    | deadline      (half-closed, what still
//                   +-- done       | malformed     | passed         comes is thrown away)
//                                  +-> kWriting <--+
//
// Where the answer is a stream (stream.h), kStreaming stands in the place of kWriting: the body is
// written in batches as the producer makes it.
//
// While the handler works (kWaiting) or the body is made (kStreaming) the connection keeps reading,
// to see the client leave: end of file cancels the request's token. A client that only closes its
// sending side counts as gone.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <ctime>
#include <memory>
#include <string>
#include <unordered_map>

#include "http/answer_queue.h"
#include "http/message.h"
#include "http/open_count.h"
#include "http/server_options.h"
#include "http/stream.h"
#include "http/tls_context.h"

namespace penstock {

class Connection;

// An io thread's context and its connections. Responders share it, so that a late answer always
// finds a context to post to.
struct IoThread {
  boost::asio::io_context context{1};
  AnswerQueue answers{&context};
  HttpHandler* handler = nullptr;
  const ServerOptions* options = nullptr;
  const TlsContext* tls = nullptr;  // null = plain
  OpenCount* open_count = nullptr;

  // Set before the first connection is closed.
  std::atomic<bool> stopping{false};
  // False: every answer says "Connection: close", as all do that are sent after `stopping` is set.
  std::atomic<bool> keeps_alive{true};

  // Touched by the thread that runs `context` only.
  std::unordered_map<Connection*, std::shared_ptr<Connection>> connections;
  std::time_t date_unix_s = 0;
  std::string date;  // the Date header of date_unix_s
};

class Connection {
 public:
  virtual ~Connection() = default;
  // On the io thread, all of them.
  virtual void Start() = 0;
  virtual void BeginShutdown() = 0;  // close if idle, else after the request in flight
  // The time for the request in flight is over: answers it with 503, or lets its stream end with an
  // error. An answer that is being sent goes on. Closes where nothing is owed.
  virtual void Interrupt() = 0;
  virtual void Abort() = 0;  // cancel the request in flight and close
  // The answer to request `number` of this connection; empty `print`: it was lost. Throws nothing.
  virtual void OnAnswer(uint64_t number, const Responder::Print& print) noexcept = 0;
  // The answer to request `number` is a stream that has begun or changed. Throws nothing.
  virtual void OnStream(uint64_t number, const std::shared_ptr<StreamBuffer>& stream) noexcept = 0;
};

// Takes over a socket that was counted in `thread->open_count`.
std::shared_ptr<Connection> MakeConnection(boost::asio::ip::tcp::socket socket,
                                           std::shared_ptr<IoThread> thread);

}  // namespace penstock

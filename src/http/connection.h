// One connection, plain or TLS. Internal to the connection layer.
//
// Each begins as one of HTTP/1.1, and becomes one of HTTP/2 (http2_connection.h) where TLS has
// agreed on "h2", where its first bytes are the preface of HTTP/2, or where the listener is for
// HTTP/2 alone.
//
// Life of a connection of HTTP/1.1 (one request at a time; pipelined requests wait in a bounded
// buffer, so answers keep the order of the requests):
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

#include <boost/asio/ip/tcp.hpp>
#include <memory>

#include "http/io_thread.h"

namespace penstock::http {

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
};

// Takes over a socket that was counted in `thread->open_count`.
std::shared_ptr<Connection> MakeConnection(boost::asio::ip::tcp::socket socket,
                                           std::shared_ptr<IoThread> thread);

}  // namespace penstock::http

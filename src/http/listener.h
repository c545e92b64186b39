// The connection layer: sockets, TLS, framing of HTTP/1.1 and HTTP/2; hands requests to an
// HttpHandler. Or HTTP/2 alone, whose streams it hands to an Http2Handler.
//
// One io_context with one thread per io thread. A connection belongs to the context it was assigned
// to and is touched by that thread only, so nothing here is locked; answers from other threads are
// posted to it. The listener owns contexts and threads; connections own themselves while an
// operation of theirs is pending.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "base/status.h"
#include "http/message.h"
#include "http/server_options.h"

namespace penstock::http2 {
class Http2Handler;
}  // namespace penstock::http2

namespace penstock::http {

class OpenCount;

// Options of a listener for HTTP/2 alone.
struct Http2Options {
  int32_t streams_max = 100;  // of one connection at a time, 1..65535
  // The connections of all listeners together, which ServerOptions::connections_max bounds; see
  // Listener::all_connections. Null: of this one alone.
  std::shared_ptr<OpenCount> all_connections;
};

class Listener {
 public:
  // `handler` must outlive the listener.
  static Expected<std::unique_ptr<Listener>> Start(HttpHandler* handler,
                                                   const ServerOptions& options);
  // Streams of HTTP/2 instead: every connection must begin with the preface of HTTP/2, and a TLS
  // client must take "h2". Of `options` count host, port, io_threads, TLS, header_bytes_max,
  // connections_max (of which three quarters may be taken here, so that the other listener stays
  // reachable), read_timeout (preface, header list) and write_timeout. A silent connection stays
  // open while it answers pings.
  static Expected<std::unique_ptr<Listener>> StartHttp2(http2::Http2Handler* handler,
                                                        const ServerOptions& options,
                                                        const Http2Options& http2);
  ~Listener();

  // For Http2Options::all_connections of another listener.
  std::shared_ptr<OpenCount> all_connections() const;

  // See Server::AnnounceShutdown and Server::Shutdown.
  void EndKeepAlive();
  void Shutdown(std::chrono::milliseconds timeout);
  // Rereads certificate and key where TLS is on; see TlsContext::Reload. Any thread.
  Status ReloadTls();
  uint16_t port() const;

 private:
  struct Impl;
  explicit Listener(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace penstock::http

// The connection layer: sockets, TLS and HTTP/1.1 framing; hands requests to an HttpHandler.
//
// One io_context with one thread per io thread. A connection belongs to the context it was assigned
// to and is touched by that thread only, so nothing here is locked; answers from other threads are
// posted to it. The listener owns contexts and threads; connections own themselves while an
// operation of theirs is pending.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "common/status.h"
#include "http/message.h"
#include "http/server_options.h"

namespace penstock {

class Listener {
 public:
  // `handler` must outlive the listener.
  static Expected<std::unique_ptr<Listener>> Start(HttpHandler* handler,
                                                   const ServerOptions& options);
  ~Listener();

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

}  // namespace penstock

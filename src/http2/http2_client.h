// Http2Client: the client's end of a connection of HTTP/2, for benchmarks and tests. Plain TCP; one
// thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "http2/http2_handler.h"

namespace penstock::http2 {

class Http2Client {
 public:
  // What comes back, within Receive.
  class Events {
   public:
    // The header list of an answer, and its trailers.
    virtual void OnHeaders(int32_t stream, HeaderList headers) = 0;
    virtual void OnData(int32_t stream, std::string_view bytes) = 0;
    // Nothing follows. 0: the answer is whole; else an Http2Error.
    virtual void OnEnd(int32_t stream, uint32_t error) = 0;

   protected:
    ~Events() = default;
  };

  // `events` must outlive the client. kUnavailable: no server listens there.
  static Expected<std::unique_ptr<Http2Client>> Connect(const std::string& host, uint16_t port,
                                                        Events* events);
  ~Http2Client();

  // Begins a stream, with pseudo headers first; -1: the connection takes no more. `last`: no body
  // follows.
  int32_t Begin(const HeaderList& headers, bool last);
  // Bytes wait for the server's window.
  void SendData(int32_t stream, std::string bytes, bool last);
  void Reset(int32_t stream, Http2Error error);
  // Writes what the calls above have queued. False: the connection is lost.
  bool Flush();
  // Waits for bytes, and hands over what they hold. False: the connection is lost or at its end.
  bool Receive();
  // For poll.
  int descriptor() const;

 private:
  struct Impl;
  explicit Http2Client(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace penstock::http2

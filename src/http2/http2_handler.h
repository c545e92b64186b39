// What a program of HTTP/2 streams sees of a connection: requests come in, answers go out. No
// sockets, no Boost and no nghttp2, so that handlers are compiled and tested without them.
//
//   Http2Handler::OnStream(request, answer) -> receiver        a header list has arrived
//   Http2Receiver::OnData ... OnTrailers? OnEnd                what the client sends after it
//   Http2Answer::SendHeaders, SendData ..., SendTrailers?      what goes back, from any thread
//   Http2Receiver::OnGone                                      always, once, last
//
// Threads: all calls of Http2Handler and Http2Receiver come from the io thread of the connection.
// They must not block, and should throw nothing (an exception resets the stream). Different
// connections have different io threads, so a handler is called by several at once; the receiver
// of one stream never is. All calls of Http2Answer may come from any thread, the io thread too;
// none blocks, and none calls a receiver from inside: its effect comes later, on the io thread.
// Calls of one thread keep their order.
//
// Ownership: the connection keeps the receiver until OnGone has returned, then releases it. The
// answer belongs to the handler's side, which may keep copies of the pointer for as long as it
// wants: after OnGone its calls do nothing. If the last copy goes before a last piece was sent
// (SendHeaders or SendData with `last`, SendTrailers, Reset), the request was lost by an exception,
// and the stream is reset with kInternalError.
//
// Flow control: the client may send kHttp2StreamWindow bytes of a stream, and
// kHttp2ConnectionWindow of all streams of a connection, that are not Consumed. What OnData gave
// counts until Http2Answer::Consume; bytes of a stream that is gone are given back by the session.
// The other way SendData queues without a bound: a producer looks at unsent() and goes on when
// OnSent is called. A client that takes nothing of what waits for it for
// ServerOptions::write_timeout loses the stream, or, where nothing is taken at all, the connection.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "threads/request_context.h"

namespace penstock::http2 {

inline constexpr int32_t kHttp2StreamWindow = 64 << 10;
inline constexpr int32_t kHttp2ConnectionWindow = 1 << 20;
// OnSent is called when fewer bytes than this are unsent again.
inline constexpr size_t kHttp2UnsentLow = 64 << 10;

// RFC 9113 7.
enum class Http2Error : uint32_t {
  kNoError = 0,
  kProtocolError = 1,
  kInternalError = 2,
  kFlowControlError = 3,
  kRefusedStream = 7,
  kCancel = 8,
  kEnhanceYourCalm = 11,
};

// Names in lower case, in the order of the wire.
using HeaderList = std::vector<std::pair<std::string, std::string>>;

struct Http2Request {
  std::string method, scheme;
  std::string authority;    // of ":authority", else of "host"; "" = neither was sent
  std::string path;         // ":path" as sent, with the query
  HeaderList headers;       // without the pseudo headers; "host" is among them if it was sent
  std::string remote;       // "127.0.0.1:51234"
  Clock::time_point begin;  // the first byte of its header list
  bool ended = false;       // no body follows: OnEnd is not called
};

// The way back of one stream. See the top for threads and ownership. Memory that runs out is
// thrown as std::bad_alloc to the caller; nothing of that call is sent then.
class Http2Answer {
 public:
  virtual ~Http2Answer() = default;

  // ":status" first, names in lower case. A status 1xx may come before the final one. `last`: no
  // body and no trailers follow.
  virtual void SendHeaders(HeaderList headers, bool last) = 0;
  // After SendHeaders. `kept` is released once the kernel has the bytes, or the stream is gone.
  virtual void SendData(std::string bytes, std::shared_ptr<const void> kept, bool last) = 0;
  // Ends the answer after the data queued before it.
  virtual void SendTrailers(HeaderList trailers) = 0;
  // Ends the stream at once: what is queued is dropped, OnGone follows.
  virtual void Reset(Http2Error error) = 0;
  // Opens the client's window again by bytes that OnData gave. At most those.
  virtual void Consume(size_t bytes) = 0;
  // Receiver::OnTime is called at `at` unless another WakeAt comes before. time_point::max():
  // never.
  virtual void WakeAt(Clock::time_point at) = 0;

  // Bytes given to SendData that the kernel has not taken.
  virtual size_t unsent() const = 0;
  // Whether OnGone was called or is about to be.
  virtual bool gone() const = 0;
};

// How a stream ended.
enum class Http2Gone {
  kAnswered,    // the answer was sent whole: the kernel has its last byte
  kClientLeft,  // reset by the client, or its connection was lost or broken
  kTooSlow,     // the client did not take what waited for it
  kReset,  // reset from here: Http2Answer::Reset, an answer that was lost, or a malformed request
};

// What takes a stream's events.
class Http2Receiver {
 public:
  virtual ~Http2Receiver() = default;

  // A part of the body; valid during the call. Its bytes are to be Consumed sooner or later. Empty
  // parts are not delivered.
  virtual void OnData(std::string_view bytes) = 0;
  // The client's trailers, just before OnEnd.
  virtual void OnTrailers(HeaderList /*trailers*/) {}
  // The client has sent all. Not called if Http2Request::ended was set, nor once the last piece of
  // the answer was sent: what a client sends then is thrown away, and after a second it is told to
  // stop.
  virtual void OnEnd() = 0;
  // unsent() fell below kHttp2UnsentLow, or to 0.
  virtual void OnSent() {}
  // The time of WakeAt has come, and the end of the answer is not on its way yet.
  virtual void OnTime() {}
  // The server ends and its time for requests is over: a second is left to answer with an error or
  // to end what is streamed.
  virtual void OnInterrupt() {}
  // Always, once, last; also in shutdown. `kept` of all data are released before. `answer.unsent()`
  // is 0 from here on.
  virtual void OnGone(Http2Gone how) = 0;
};

class Http2Handler {
 public:
  virtual ~Http2Handler() = default;

  // A request's header list is complete and well formed (RFC 9113 8.2, 8.3). Null: the answer was
  // given (or is on its way from elsewhere) and no event of this stream is wanted; a body that
  // comes is thrown away.
  virtual std::shared_ptr<Http2Receiver> OnStream(Http2Request request,
                                                  std::shared_ptr<Http2Answer> answer) = 0;

  // A header list over ServerOptions::header_bytes_max (names, values and 32 bytes a field); what
  // `request` holds is not whole. Otherwise as OnStream. Answers 431 without a body unless it is
  // overridden.
  virtual std::shared_ptr<Http2Receiver> OnHeaderTooLarge(Http2Request request,
                                                          std::shared_ptr<Http2Answer> answer);

  // Connections opened (+1) and closed (-1); those turned away because of connections_max; bytes.
  virtual void OnConnections(int /*change*/) {}
  virtual void OnConnectionRefused() {}
  virtual void OnBytes(size_t /*received*/, size_t /*sent*/) {}
};

}  // namespace penstock::http2

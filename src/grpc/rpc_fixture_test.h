// The client's side of a call, for tests of what answers it.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "grpc/rpc.h"
#include "grpc/rpc_head.h"

namespace penstock::grpc {

// A message as it is on the wire.
inline std::string Frame(const std::string& message, char flag = 0) {
  RpcMessage framed(message.size());
  std::copy(message.begin(), message.end(), framed.data());
  std::string bytes = RpcMessage::Framed(std::move(framed), false);
  bytes[0] = flag;
  return bytes;
}

// A stream whose client is the test.
class FakeAnswer : public http2::Http2Answer {
 public:
  void SendHeaders(http2::HeaderList headers, bool last) override {
    head = std::move(headers);
    ended = last;
  }
  void SendData(std::string bytes, std::shared_ptr<const void>, bool) override { data += bytes; }
  void SendTrailers(http2::HeaderList list) override {
    trailers = std::move(list);
    ended = true;
  }
  void Reset(http2::Http2Error error) override { reset = error; }
  void Consume(size_t bytes) override { consumed += bytes; }
  void WakeAt(Clock::time_point at) override { wake_at = at; }
  size_t unsent() const override { return 0; }
  bool gone() const override { return false; }

  http2::HeaderList head, trailers;
  std::string data;
  size_t consumed = 0;
  bool ended = false;
  http2::Http2Error reset = http2::Http2Error::kNoError;
  Clock::time_point wake_at = Clock::time_point::max();
};

// The value of the first header of this name.
inline std::string Of(const http2::HeaderList& list, std::string_view name) {
  return std::string(HeaderOf(list, name));
}

}  // namespace penstock::grpc

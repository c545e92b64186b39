// What tests of HTTP/2 share: a client's frames made by hand, and a server's frames read.
#pragma once

#include <nghttp2/nghttp2.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "http2/http2_session.h"

namespace penstock::http2 {

// RFC 9113 4.1 and 6.
enum FrameType : uint8_t {
  kData = 0,
  kHeaders = 1,
  kPriority = 2,
  kRstStream = 3,
  kSettings = 4,
  kPing = 6,
  kGoAway = 7,
  kWindowUpdate = 8,
  kContinuation = 9,
};
inline constexpr uint8_t kEndStream = 1, kAck = 1, kEndHeaders = 4;

inline std::string BigEndian(uint64_t number, int bytes) {
  std::string text;
  for (int i = bytes - 1; i >= 0; --i) text += static_cast<char>(number >> (8 * i));
  return text;
}

inline std::string Frame(uint8_t type, uint8_t flags, uint32_t stream, std::string_view payload) {
  std::string frame = BigEndian(payload.size(), 3) + static_cast<char>(type) +
                      static_cast<char>(flags) + BigEndian(stream, 4);
  frame.append(payload);
  return frame;
}

// RFC 7541 5.1: an integer in a byte whose lower `bits` are its own.
inline std::string HpackInteger(uint8_t first, int bits, size_t number) {
  const size_t most = (size_t{1} << bits) - 1;
  if (number < most) return {static_cast<char>(first | number)};
  std::string text = {static_cast<char>(first | most)};
  for (number -= most; number >= 128; number /= 128) text += static_cast<char>(number % 128 | 128);
  return text + static_cast<char>(number);
}

// RFC 7541 6.2.2, a field as a literal; `first` 0x40: it enters the table of the receiver.
inline std::string HpackField(std::string_view name, std::string_view value, uint8_t first = 0) {
  std::string text = {static_cast<char>(first)};
  text.append(HpackInteger(0, 7, name.size())).append(name);
  return text.append(HpackInteger(0, 7, value.size())).append(value);
}

inline std::string HpackRequest(std::string_view method, std::string_view path,
                                const HeaderList& more = {}) {
  std::string block = HpackField(":method", method) + HpackField(":scheme", "http") +
                      HpackField(":authority", "h") + HpackField(":path", path);
  for (const auto& [name, value] : more) block += HpackField(name, value);
  return block;
}

inline std::string RequestFrame(uint32_t stream, std::string_view method, std::string_view path,
                                bool ended, const HeaderList& more = {}) {
  return Frame(kHeaders, kEndHeaders | (ended ? kEndStream : 0), stream,
               HpackRequest(method, path, more));
}

// What a client sends first: preface, SETTINGS (of `settings`) and the ACK of the server's.
inline std::string Hello(std::string_view settings = "") {
  return std::string(kHttp2Preface) + Frame(kSettings, 0, 0, settings) +
         Frame(kSettings, kAck, 0, "");
}

struct SeenFrame {
  uint8_t type = 0, flags = 0;
  uint32_t stream = 0;
  std::string payload;
  HeaderList headers;  // of HEADERS

  bool ended() const { return (type == kData || type == kHeaders) && (flags & kEndStream) != 0; }
  // Of RST_STREAM, and of GOAWAY.
  uint32_t error() const { return number(type == kGoAway ? 4 : 0); }
  // Four bytes of the payload.
  uint32_t number(size_t at = 0) const {
    uint32_t found = 0;
    for (size_t i = 0; i < 4; ++i) found = found << 8 | static_cast<uint8_t>(payload.at(at + i));
    return found;
  }
};

// Reads what a server sends.
class FrameReader {
 public:
  FrameReader() { nghttp2_hd_inflate_new(&inflater_); }
  ~FrameReader() { nghttp2_hd_inflate_del(inflater_); }
  FrameReader(const FrameReader&) = delete;
  FrameReader& operator=(const FrameReader&) = delete;

  // The frames that are whole now.
  std::vector<SeenFrame> Read(std::string_view bytes) {
    rest_.append(bytes);
    std::vector<SeenFrame> frames;
    size_t at = 0;
    for (;;) {
      const auto byte = [&](size_t i) {
        return static_cast<size_t>(static_cast<uint8_t>(rest_[at + i]));
      };
      if (rest_.size() - at < 9) break;
      const size_t size = byte(0) << 16 | byte(1) << 8 | byte(2);
      if (rest_.size() - at < 9 + size) break;
      SeenFrame frame;
      frame.type = static_cast<uint8_t>(byte(3));
      frame.flags = static_cast<uint8_t>(byte(4));
      frame.stream =
          static_cast<uint32_t>((byte(5) & 127) << 24 | byte(6) << 16 | byte(7) << 8 | byte(8));
      frame.payload = rest_.substr(at + 9, size);
      if (frame.type == kHeaders) frame.headers = Inflate(frame.payload);
      frames.push_back(std::move(frame));
      at += 9 + size;
    }
    rest_.erase(0, at);
    return frames;
  }

 private:
  HeaderList Inflate(const std::string& block) {
    HeaderList headers;
    const auto* in = reinterpret_cast<const uint8_t*>(block.data());
    size_t left = block.size();
    for (;;) {
      nghttp2_nv field;
      int flags = 0;
      const auto used = nghttp2_hd_inflate_hd2(inflater_, &field, &flags, in, left, 1);
      if (used < 0) return {{"broken", nghttp2_strerror(static_cast<int>(used))}};
      in += used;
      left -= static_cast<size_t>(used);
      if ((flags & NGHTTP2_HD_INFLATE_EMIT) != 0) {
        headers.emplace_back(std::string(reinterpret_cast<char*>(field.name), field.namelen),
                             std::string(reinterpret_cast<char*>(field.value), field.valuelen));
      }
      if ((flags & NGHTTP2_HD_INFLATE_FINAL) != 0) break;
    }
    nghttp2_hd_inflate_end_headers(inflater_);
    return headers;
  }

  nghttp2_hd_inflater* inflater_ = nullptr;
  std::string rest_;
};

}  // namespace penstock::http2

#include "http/gzip.h"

#include <zlib.h>

#include <new>

#include "common/status.h"

namespace penstock {

std::string Gzip(std::string_view text) {
  constexpr int kWindowBits = 15 + 16;  // the largest window; 16: gzip's header and trailer
  constexpr int kMemory = 8;
  z_stream stream{};
  if (deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, kWindowBits, kMemory, Z_DEFAULT_STRATEGY) !=
      Z_OK) {
    throw std::bad_alloc();
  }
  struct End {
    z_stream* stream;
    ~End() { deflateEnd(stream); }
  } const end{&stream};
  std::string packed(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  PENSTOCK_CHECK(deflate(&stream, Z_FINISH) == Z_STREAM_END);  // the bound holds
  packed.resize(stream.total_out);
  return packed;
}

}  // namespace penstock

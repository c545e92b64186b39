#include "http/gzip.h"

#include <zlib.h>

#include <algorithm>
#include <new>

namespace penstock::http {

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

Status Gunzip(std::string_view packed, size_t bytes_max, RequestMemory* memory, std::string* text,
              int64_t* counted) {
  constexpr int kWindowBits = 15 + 16;
  constexpr size_t kStepMin = 16 << 10;
  z_stream stream{};
  if (inflateInit2(&stream, kWindowBits) != Z_OK) throw std::bad_alloc();
  struct End {
    z_stream* stream;
    ~End() { inflateEnd(stream); }
  } const end{&stream};
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  int result = Z_OK;
  while (result == Z_OK) {
    // A byte over the limit tells a text that is too long from one that just fits.
    const size_t room = std::min(bytes_max + 1, std::max(kStepMin, 2 * text->size()));
    if (room == text->size()) break;
    const auto more = static_cast<int64_t>(room - text->size());
    if (memory != nullptr) PENSTOCK_RETURN_IF_ERROR(memory->Take(more));
    *counted += more;
    text->resize(room);
    stream.next_out = reinterpret_cast<Bytef*>(text->data() + stream.total_out);
    stream.avail_out = static_cast<uInt>(room - stream.total_out);
    result = inflate(&stream, Z_NO_FLUSH);
    // Without progress there is nothing left to read: it is cut off.
    if (result == Z_OK && stream.avail_out > 0) break;
  }
  text->resize(stream.total_out);
  if (stream.total_out > bytes_max) {
    return {StatusCode::kPayloadTooLarge,
            "unpacked, it would have more than " + std::to_string(bytes_max) + " bytes"};
  }
  if (result == Z_STREAM_END && stream.avail_in == 0) return Status::Ok();
  return Status::InvalidArgument("it is not gzip, or not all of it");
}

}  // namespace penstock::http

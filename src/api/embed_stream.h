// EmbedStream: the embeddings of a request part by part, for front ends that send them while the
// rest is computed.
//
// The request is checked as a whole, then cut into parts of some rows. The front end starts part
// after part, as its client takes the rows; each part passes tokenizer, caches and scheduler as a
// request of its own would, so that streams take turns with other requests. The rows come through a
// Sink, in the order of the inputs, and one EmbedEnd after them, however the request ends.
//
// A stream holds one slot of the concurrent requests while a part of it is under way. While it
// waits for its client it holds none; it takes one again without being refused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "api/sink.h"
#include "api/types.h"
#include "base/status.h"
#include "threads/byte_budget.h"

namespace penstock::api {

struct EmbedRows {
  size_t first = 0;  // input of the first row
  int32_t dimensions = 0;
  std::vector<float> values;  // [rows, dimensions]
  // Memory budget of the values and their printed form, until released. Null where the context's
  // is.
  std::shared_ptr<RequestMemory> memory;
};

struct EmbedEnd {
  Status status;      // OK: every row was sent
  std::string model;  // as EmbedResponse, of the rows that were sent
  encode::Usage usage;
  encode::Truncation truncation;
};

using EmbedEvent = std::variant<EmbedRows, EmbedEnd>;

struct EmbedPartOptions {
  int64_t printed_value_bytes = 16;  // of one number of a row
  int64_t part_bytes = 128 << 10;    // of a part, printed; a part has at least one row
};

class EmbedStream {
 public:
  // Parts that are under way or wait in the sink.
  static constexpr size_t kPartsMax = 4;
  static constexpr size_t kPartRowsMax = 64;
  // A part ends once its texts have this number of bytes: some thousand tokens.
  static constexpr size_t kPartTextBytesMax = 16 << 10;
  // Events that the sink must hold: the parts and the end.
  static constexpr size_t kEvents = kPartsMax + 1;

  virtual ~EmbedStream() = default;

  // Bytes that a part has at most, printed: options.part_bytes, or one row where that is more.
  virtual int64_t part_bytes() const = 0;

  // Starts the next part. False: no part is left, kPartsMax are under way or in the sink, or the
  // stream ends. The rows may be in the sink before this returns. The consumer's thread.
  virtual bool StartPart() = 0;
  // Starts no more parts and ends with `status` once those under way are done.
  virtual void Stop(Status status) = 0;
};

}  // namespace penstock::api

// Messages of protocol buffers from bytes and to bytes. What one takes in memory is looked up in
// its bytes before anything is allocated: fields of two bytes may stand for many times their size.
#pragma once

#include <google/protobuf/message.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/status.h"
#include "grpc/rpc.h"
#include "threads/byte_budget.h"

namespace penstock::grpc {

// Memory of a message, map entry or string beside its bytes, at most; of a number, which may be of
// an unknown field (16 bytes) and kept in a list that grows by doubling, beside its old place; and
// of what the first unknown field makes.
inline constexpr int64_t kObjectBytes = 192;
inline constexpr int64_t kNumberBytes = 48;
inline constexpr int64_t kFirstBytes = 512;

// One field: its number, and where its value is if that is bytes.
struct WireField {
  uint32_t number = 0;
  bool is_bytes = false;
  std::span<const std::byte> value;
};

// The fields of a message, as they lie. Groups, which proto3 has not, are refused.
class WireReader {
 public:
  explicit WireReader(std::span<const std::byte> bytes) : rest_(bytes) {}

  bool empty() const { return rest_.empty(); }
  const std::byte* at() const { return rest_.data(); }
  // nullopt: these bytes are not a message.
  std::optional<WireField> Next();

 private:
  std::optional<uint64_t> Varint();
  bool Skip(uint64_t bytes);

  std::span<const std::byte> rest_;
};

// Memory of the numbers of `value`, packed varints, at `width` bytes each: as of kNumberBytes.
int64_t PackedBytes(std::span<const std::byte> value, int64_t width);

// Memory of a message of this type. nullopt: the bytes are not such a message, or messages are
// nested more than kMessageDepthMax deep.
inline constexpr int kMessageDepthMax = 16;
std::optional<int64_t> MessageCost(std::span<const std::byte> bytes,
                                   const google::protobuf::Descriptor& type);

// Parses `bytes`. Where `message` takes more than kSmallMessageBytes, that is first taken from
// `memory`, which may be null, and *counted says how much. kInvalidArgument: it is no such message;
// errors of `memory`.
inline constexpr int64_t kSmallMessageBytes = 64 << 10;
Status ParseMessage(std::string_view bytes, RequestMemory* memory,
                    google::protobuf::Message* message, int64_t* counted);

RpcMessage PrintMessage(const google::protobuf::MessageLite& message);
// kPayloadTooLarge: it has more than `bytes_max` (--max-response-bytes).
Expected<RpcMessage> PrintMessage(const google::protobuf::MessageLite& message, int64_t bytes_max);

}  // namespace penstock::grpc

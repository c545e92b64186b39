#include "grpc/proto_message.h"

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>

#include <algorithm>

namespace penstock::grpc {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

// Wire types (protobuf.dev/programming-guides/encoding).
constexpr uint32_t kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5;

// Bytes in memory of a number of a field whose numbers may come packed, as varints; 0: another
// field.
int64_t VarintWidth(const FieldDescriptor& field) {
  if (!field.is_packable()) return 0;
  switch (field.type()) {
    case FieldDescriptor::TYPE_BOOL:
      return 1;
    case FieldDescriptor::TYPE_INT32:
    case FieldDescriptor::TYPE_SINT32:
    case FieldDescriptor::TYPE_UINT32:
    case FieldDescriptor::TYPE_ENUM:
      return 4;
    case FieldDescriptor::TYPE_INT64:
    case FieldDescriptor::TYPE_SINT64:
    case FieldDescriptor::TYPE_UINT64:
      return 8;
    default:
      return 0;
  }
}

// Adds up what `bytes` take. False: they are not a message.
bool Add(std::span<const std::byte> bytes, const Descriptor& type, int depth, int64_t* cost) {
  if (depth == kMessageDepthMax) return false;
  WireReader reader(bytes);
  while (!reader.empty()) {
    const auto field = reader.Next();
    if (!field) return false;
    *cost += field->is_bytes ? kObjectBytes : kNumberBytes;
    if (!field->is_bytes) continue;
    const FieldDescriptor* const known = type.FindFieldByNumber(static_cast<int>(field->number));
    if (known != nullptr && known->message_type() != nullptr) {
      if (!Add(field->value, *known->message_type(), depth + 1, cost)) return false;
      continue;
    }
    const int64_t width = known == nullptr ? 0 : VarintWidth(*known);
    *cost +=
        width > 0 ? PackedBytes(field->value, width) : static_cast<int64_t>(field->value.size());
  }
  return true;
}

}  // namespace

std::optional<WireField> WireReader::Next() {
  const auto tag = Varint();
  if (!tag || *tag > UINT32_MAX || *tag >> 3 == 0) return std::nullopt;
  WireField field{.number = static_cast<uint32_t>(*tag >> 3)};
  switch (*tag & 7) {
    case kVarint:
      if (!Varint()) return std::nullopt;
      return field;
    case kFixed64:
      return Skip(8) ? std::optional(field) : std::nullopt;
    case kFixed32:
      return Skip(4) ? std::optional(field) : std::nullopt;
    case kBytes: {
      const auto size = Varint();
      if (!size || *size > rest_.size()) return std::nullopt;
      field.is_bytes = true;
      field.value = rest_.first(*size);
      Skip(*size);
      return field;
    }
  }
  return std::nullopt;
}

std::optional<uint64_t> WireReader::Varint() {
  uint64_t value = 0;
  for (int shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
    const auto byte = static_cast<uint8_t>(rest_.front());
    rest_ = rest_.subspan(1);
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
  return std::nullopt;
}

bool WireReader::Skip(uint64_t bytes) {
  if (bytes > rest_.size()) return false;
  rest_ = rest_.subspan(bytes);
  return true;
}

int64_t PackedBytes(std::span<const std::byte> value, int64_t width) {
  const auto count = std::count_if(value.begin(), value.end(),
                                   [](std::byte byte) { return byte < std::byte{0x80}; });
  return 3 * width * count;
}

std::optional<int64_t> MessageCost(std::span<const std::byte> bytes, const Descriptor& type) {
  int64_t cost = kFirstBytes;
  if (!Add(bytes, type, 0, &cost)) return std::nullopt;
  return cost;
}

Status ParseMessage(std::string_view bytes, RequestMemory* memory,
                    google::protobuf::Message* message, int64_t* counted) {
  const auto cost = MessageCost(std::as_bytes(std::span(bytes)), *message->GetDescriptor());
  if (cost && *cost > kSmallMessageBytes && memory != nullptr) {
    PENSTOCK_RETURN_IF_ERROR(memory->Take(*cost));
    *counted += *cost;
  }
  if (cost && message->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return Status::Ok();
  }
  return Status::InvalidArgument("the message is no " + message->GetDescriptor()->full_name());
}

RpcMessage PrintMessage(const google::protobuf::MessageLite& message) {
  RpcMessage printed(message.ByteSizeLong());
  message.SerializeWithCachedSizesToArray(printed.data());
  return printed;
}

Expected<RpcMessage> PrintMessage(const google::protobuf::MessageLite& message, int64_t bytes_max) {
  const size_t bytes = message.ByteSizeLong();
  if (bytes <= static_cast<size_t>(bytes_max)) return PrintMessage(message);
  return Status(StatusCode::kPayloadTooLarge,
                fmt::format("the answer would have {} bytes; at most {} are allowed "
                            "(--max-response-bytes)",
                            bytes, bytes_max));
}

}  // namespace penstock::grpc

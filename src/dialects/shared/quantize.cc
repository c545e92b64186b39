#include "dialects/shared/quantize.h"

#include <algorithm>
#include <cmath>

#include "dialects/shared/fields.h"

namespace penstock::dialects {
namespace {

constexpr std::string_view kNames[] = {"float", "int8", "uint8", "binary", "ubinary"};
constexpr double kRangeMax = 1e6;

bool IsSigned(EmbeddingType type) {
  return type == EmbeddingType::kInt8 || type == EmbeddingType::kBinary;
}

void PackBits(std::span<const float> row, uint8_t less, std::vector<uint8_t>* bytes) {
  bytes->assign((row.size() + 7) / 8, 0);
  for (size_t i = 0; i < row.size(); ++i) {
    if (row[i] > 0) (*bytes)[i / 8] |= static_cast<uint8_t>(0x80 >> i % 8);
  }
  for (uint8_t& byte : *bytes) byte = static_cast<uint8_t>(byte - less);
}

}  // namespace

const char* EmbeddingTypeName(EmbeddingType type) {
  return kNames[static_cast<size_t>(type)].data();
}

bool ParseEmbeddingType(std::string_view name, EmbeddingType* type) {
  const auto* const found = std::find(std::begin(kNames), std::end(kNames), name);
  if (found == std::end(kNames)) return false;
  *type = static_cast<EmbeddingType>(found - std::begin(kNames));
  return true;
}

Status ParseQuantizeRange(const JsonObject& object, float* range) {
  constexpr const char* kKey = "quantize_range";
  PENSTOCK_ASSIGN_OR_RETURN(const double given, object.GetNumberOr(kKey, 1, 0, kRangeMax));
  *range = static_cast<float>(given);
  if (*range > 0) return Status::Ok();
  return Status::InvalidArgument("'" + object.PathOf(kKey) + "' must be above 0",
                                 object.PathOf(kKey));
}

void Quantize(std::span<const float> row, const EmbeddingFormat& format,
              std::vector<uint8_t>* bytes, int64_t* saturated) {
  const EmbeddingType type = format.type;
  if (type == EmbeddingType::kBinary || type == EmbeddingType::kUbinary) {
    return PackBits(row, type == EmbeddingType::kBinary ? 128 : 0, bytes);
  }
  const float min = -format.range;
  const float step = (format.range - min) / 255;
  const float less = type == EmbeddingType::kInt8 ? 128 : 0;
  bytes->resize(row.size());
  for (size_t i = 0; i < row.size(); ++i) {
    const float number = row[i];
    if (!(std::fabs(number) <= format.range)) ++*saturated;
    float scaled = (std::clamp(number, min, format.range) - min) / step;
    if (std::isnan(scaled)) scaled = less;
    const auto cut = static_cast<int32_t>(std::min(scaled, 255.0f) - less);
    (*bytes)[i] = static_cast<uint8_t>(cut);
  }
}

void EmbeddingWriter::Write(std::span<const float> row, JsonWriter* json, std::string* out) {
  const bool floats = format_.type == EmbeddingType::kFloat;
  if (floats && !format_.base64) {
    json->Floats(row);
    return;
  }
  if (!floats) Quantize(row, format_, &bytes_, &saturated_);
  if (format_.base64) {
    json->Raw("\"");  // then the text, which needs no escapes
    if (floats) {
      AppendBase64(row, out);
    } else {
      AppendBase64(std::span<const uint8_t>(bytes_), out);
    }
    *out += '"';
    return;
  }
  numbers_.clear();
  const bool is_signed = IsSigned(format_.type);
  for (const uint8_t byte : bytes_) {
    numbers_.push_back(is_signed ? static_cast<int8_t>(byte) : byte);
  }
  json->Ints(numbers_);
}

void EmbeddingWriter::WriteRange(JsonWriter* json) const {
  if (format_.type != EmbeddingType::kInt8 && format_.type != EmbeddingType::kUint8) return;
  json->Key("quantization").BeginObject().Field("type", EmbeddingTypeName(format_.type));
  json->Field("min", -format_.range).Field("max", format_.range);
  json->Field("saturated", saturated_).EndObject();
}

int64_t PrintedNumberBytes(const EmbeddingFormat& format) {
  const bool floats = format.type == EmbeddingType::kFloat;
  if (format.base64) return floats ? 6 : 2;
  return floats ? 16 : 5;  // "-1.17549435e-38,", "-128,"
}

}  // namespace penstock::dialects

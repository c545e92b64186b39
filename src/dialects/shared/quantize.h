// Embeddings as a client wants them: floats, int8, uint8 or bits, as numbers or in base64. Pure.
// Source of the formulas: quantize_embeddings of sentence-transformers, whose values these are, bit
// for bit, for embeddings and ranges in float32:
//
//   step = (max - min) / 255
//   uint8    (x - min) / step, cut to an integer
//   int8     (x - min) / step - 128, cut towards zero
//   ubinary  eight numbers to a byte, the first the highest bit; 1 where positive; 0 fills the last
//   binary   the same, less 128
//
// Its range is that of the embeddings given, so a vector would depend on those beside it; here it
// is -1 to 1 for all dimensions, which holds every embedding of length 1, or -r to r where the
// request names r (quantize_range). A number outside becomes the nearest end, and the answer tells
// how many.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "json/json.h"

namespace penstock::dialects {

enum class EmbeddingType : uint8_t { kFloat, kInt8, kUint8, kBinary, kUbinary };
const char* EmbeddingTypeName(EmbeddingType type);  // "float", "int8", ...
// False: no type has that name.
bool ParseEmbeddingType(std::string_view name, EmbeddingType* type);

struct EmbeddingFormat {
  EmbeddingType type = EmbeddingType::kFloat;
  bool base64 = false;  // of little-endian float32, or of the bytes
  float range = 1;      // of int8 and uint8: from -range to range
};

// `quantize_range`: above 0, at most 1e6; absent: 1.
Status ParseQuantizeRange(const JsonObject& object, float* range);

// The bytes of one embedding; those of int8 and binary are signed. Not of kFloat. Adds the numbers
// that were outside of the range to *saturated. NaN becomes 0 of the type.
void Quantize(std::span<const float> row, const EmbeddingFormat& format,
              std::vector<uint8_t>* bytes, int64_t* saturated);

// Writes embeddings as JSON values.
class EmbeddingWriter {
 public:
  explicit EmbeddingWriter(const EmbeddingFormat& format) : format_(format) {}
  // Appends to the text that `json` writes.
  void Write(std::span<const float> row, JsonWriter* json, std::string* out);
  // "quantization": {"type", "min", "max", "saturated"} of what was written, for int8 and uint8.
  void WriteRange(JsonWriter* json) const;

 private:
  const EmbeddingFormat format_;
  int64_t saturated_ = 0;
  std::vector<uint8_t> bytes_;
  std::vector<int32_t> numbers_;
};

// Printed bytes of a number at most, for bounds of answers.
int64_t PrintedNumberBytes(const EmbeddingFormat& format);

}  // namespace penstock::dialects

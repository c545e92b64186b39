#include "bulk/matrix_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/status.h"

namespace penstock::bulk {
namespace {

static_assert(std::endian::native == std::endian::little);

struct TypeNames {
  const char* npy;
  const char* safetensors;
};

TypeNames TypeOf(Precision precision) {
  switch (precision) {
    case Precision::kFloat32:
      return {"<f4", "F32"};
    case Precision::kFloat16:
      return {"<f2", "F16"};
    case Precision::kInt8:
      return {"|i1", "I8"};
    case Precision::kBinary:
      return {"|u1", "U8"};
  }
  return {"", ""};
}

// The nearest half, ties to even; numbers too large become infinity.
uint16_t ToHalf(float number) {
  const uint32_t bits = std::bit_cast<uint32_t>(number);
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  const float magnitude = std::abs(number);
  if (std::isnan(number)) return sign | 0x7E00;
  if (magnitude >= 65520.0f) return sign | 0x7C00;
  if (magnitude < 0x1p-14f) {
    // Subnormal: multiples of 2^-24, rounded to even by the addition.
    return static_cast<uint16_t>(sign | static_cast<uint16_t>(std::nearbyint(magnitude * 0x1p24f)));
  }
  const uint32_t of_magnitude = bits & 0x7FFFFFFF;
  const uint32_t rounded = of_magnitude + 0xFFF + (of_magnitude >> 13 & 1);
  return static_cast<uint16_t>(sign | static_cast<uint16_t>((rounded - (112U << 23)) >> 13));
}

void AppendHalves(std::span<const float> row, std::string* out) {
  for (const float number : row) {
    const uint16_t half = ToHalf(number);
    out->append(reinterpret_cast<const char*>(&half), sizeof half);
  }
}

void AppendInt8(std::span<const float> row, std::string* out) {
  float largest = 0;
  for (const float number : row) largest = std::max(largest, std::abs(number));
  const float factor = largest > 0 ? 127.0f / largest : 0.0f;
  for (const float number : row) {
    *out += static_cast<char>(static_cast<int8_t>(std::nearbyint(number * factor)));
  }
}

void AppendBits(std::span<const float> row, std::string* out) {
  for (size_t i = 0; i < row.size(); i += 8) {
    unsigned byte = 0;
    for (size_t bit = 0; bit < 8; ++bit) {
      byte = byte << 1 | static_cast<unsigned>(i + bit < row.size() && row[i + bit] > 0);
    }
    *out += static_cast<char>(byte);
  }
}

}  // namespace

const std::map<std::string, Precision>& Precisions() {
  static const std::map<std::string, Precision> kPrecisions = {{"float32", Precision::kFloat32},
                                                               {"float16", Precision::kFloat16},
                                                               {"int8", Precision::kInt8},
                                                               {"binary", Precision::kBinary}};
  return kPrecisions;
}

std::string PrecisionName(Precision precision) {
  for (const auto& [name, value] : Precisions()) {
    if (value == precision) return name;
  }
  return "";
}

Expected<Precision> PrecisionNamed(const std::string& name) {
  const auto found = Precisions().find(name);
  if (found == Precisions().end()) return Status::InvalidArgument("no precision '" + name + "'");
  return found->second;
}

int64_t RowBytes(int64_t width, Precision precision) {
  switch (precision) {
    case Precision::kFloat32:
      return 4 * width;
    case Precision::kFloat16:
      return 2 * width;
    case Precision::kInt8:
      return width;
    case Precision::kBinary:
      return (width + 7) / 8;
  }
  return 0;
}

void AppendRow(std::span<const float> row, Precision precision, std::string* out) {
  switch (precision) {
    case Precision::kFloat32:
      out->append(reinterpret_cast<const char*>(row.data()), row.size_bytes());
      return;
    case Precision::kFloat16:
      return AppendHalves(row, out);
    case Precision::kInt8:
      return AppendInt8(row, out);
    case Precision::kBinary:
      return AppendBits(row, out);
  }
}

std::string MatrixHeader(MatrixFormat format, Precision precision, int64_t rows, int64_t width) {
  const TypeNames type = TypeOf(precision);
  const int64_t columns = precision == Precision::kBinary ? RowBytes(width, precision) : width;
  std::string text;
  std::string header;
  if (format == MatrixFormat::kNpy) {
    const size_t prefix = 10;  // magic, version, length in two bytes
    text = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}, {}), }}", type.npy,
                       rows, columns);
    text.resize(kMatrixHeaderBytes - prefix - 1, ' ');
    text += '\n';
    header.assign("\x93NUMPY\x01\x00", 8);
    const auto length = static_cast<uint16_t>(text.size());
    header.append(reinterpret_cast<const char*>(&length), sizeof length);
  } else {
    const uint64_t length = kMatrixHeaderBytes - sizeof length;
    text = fmt::format(R"({{"embeddings":{{"dtype":"{}","shape":[{},{}],"data_offsets":[0,{}]}}}})",
                       type.safetensors, rows, columns, rows * RowBytes(width, precision));
    text.resize(length, ' ');
    header.append(reinterpret_cast<const char*>(&length), sizeof length);
  }
  header += text;
  PENSTOCK_CHECK(header.size() == kMatrixHeaderBytes);
  return header;
}

void MatrixWriter::Append(std::span<const float> rows, int64_t width) {
  if (rows.empty()) return;
  if (width_ == 0) file_->Write(std::string(kMatrixHeaderBytes, '\0'));
  width_ = width;
  bytes_.clear();
  const auto numbers = static_cast<size_t>(width);
  for (size_t at = 0; at < rows.size(); at += numbers) {
    AppendRow(rows.subspan(at, numbers), precision_, &bytes_);
    ++rows_;
  }
  file_->Write(bytes_);
}

void MatrixWriter::Finish(int64_t width) {
  if (width_ != 0) file_->Seek(0);
  file_->Write(MatrixHeader(format_, precision_, rows_, width_ != 0 ? width_ : width));
}

}  // namespace penstock::bulk

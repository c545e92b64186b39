// Vectors as a file that holds one matrix, written row by row: .npy or .safetensors.
//
// The header comes last, for it tells how many rows there are; until then its place holds zeros, so
// that a part of a file is not taken for a matrix.
//
// Formats: numpy.lib.format, version 1.0; github.com/huggingface/safetensors, "Format".
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "os/output_file.h"

namespace penstock::bulk {

enum class MatrixFormat {
  kNpy,
  kSafetensors,  // one tensor, "embeddings"
};

// The type of the numbers in the file.
enum class Precision {
  kFloat32,
  kFloat16,
  kInt8,    // each row times 127 over its largest magnitude: the direction stays, not the length
  kBinary,  // a bit a number, 1 where it is positive; eight to a byte, the first is the highest
};

std::string PrecisionName(Precision precision);
// kInvalidArgument: no precision has that name.
Expected<Precision> PrecisionNamed(const std::string& name);
// By name: float32, float16, int8, binary.
const std::map<std::string, Precision>& Precisions();

// Bytes of a row of `width` numbers.
int64_t RowBytes(int64_t width, Precision precision);
// Appends the row as the file holds it, little-endian.
void AppendRow(std::span<const float> row, Precision precision, std::string* out);
// The header before the rows, of kMatrixHeaderBytes.
inline constexpr size_t kMatrixHeaderBytes = 256;
std::string MatrixHeader(MatrixFormat format, Precision precision, int64_t rows, int64_t width);

class MatrixWriter {
 public:
  // `rows`, `width`: of what `file` holds already, 0 for a new one. `width` counts numbers.
  MatrixWriter(OutputFile* file, MatrixFormat format, Precision precision, int64_t rows = 0,
               int64_t width = 0)
      : file_(file), format_(format), precision_(precision), rows_(rows), width_(width) {}
  // [n, width].
  void Append(std::span<const float> rows, int64_t width);
  // `width`: of a matrix without rows.
  void Finish(int64_t width);

 private:
  OutputFile* file_;
  const MatrixFormat format_;
  const Precision precision_;
  int64_t rows_;
  int64_t width_;
  std::string bytes_;  // kept for its memory
};

}  // namespace penstock::bulk

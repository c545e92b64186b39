// How far a run of `penstock embed` has come, in a file beside its output, so that --resume can go
// on where the run ended, for any reason.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/sha256.h"
#include "base/status.h"

namespace penstock::bulk {

// The largest count in a record of a run: what a double holds exactly, for readers of JSON.
inline constexpr int64_t kCountMax = int64_t{1} << 53;

// SHA-256 over rows of text in their order; boundaries of rows count.
class RowsDigest {
 public:
  void Add(std::string_view row);
  // The digest of the rows so far, in hexadecimal digits; more may follow.
  std::string Hex() const { return digest_.Hex(); }

 private:
  Sha256 digest_;
};

struct Checkpoint {
  int64_t rows = 0;         // of the input, from its beginning, that are in the output
  int64_t bytes = 0;        // of the output that they take
  int64_t id_bytes = 0;     // size of the file of ids at that point; 0 without ids
  int64_t skipped = 0;      // of the rows, those without a vector
  int64_t error_bytes = 0;  // size of the file that names them at that point
  int32_t dimensions = 0;
  int64_t tokens = 0;   // of those rows
  int64_t cut = 0;      // rows that were longer than the model takes
  std::string input;    // RowsDigest of them
  std::string options;  // that shape the output, as text
  // The first row that has a vector, which the model must give again; empty: none has yet.
  int64_t first_index = 0;
  std::vector<float> first_row;

  static std::string PathFor(const std::string& output) { return output + ".checkpoint"; }
  // Replaces the file at `path`.
  Status Write(const std::string& path) const;
  // nullopt if there is no file. kInvalidArgument: it is not a checkpoint.
  static Expected<std::optional<Checkpoint>> Read(const std::string& path);
};

// Whether two vectors for the same text come from the same model: equal but for the last digits,
// which a server that is no Penstock may compute otherwise in another batch.
bool SameVector(const std::vector<float>& a, const std::vector<float>& b);

}  // namespace penstock::bulk

#include "embed_verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "bulk/matrix_file.h"
#include "json/json_writer.h"
#include "log/status_line.h"

namespace penstock::cli {
namespace {

// Rows of a part, one after the other.
class PartRows {
 public:
  PartRows(const std::string& path, const EmbedFlags& flags, int32_t dimensions)
      : file_(path, std::ios::binary),
        matrix_(bulk::MatrixFormatOf(path).has_value()),
        precision_(flags.precision),
        width_(dimensions) {}

  // Whether row `index`, which is not before the last one asked for, holds this vector; empty: it
  // was skipped.
  bool Holds(int64_t index, const std::vector<float>& vector) {
    return matrix_ ? MatrixHolds(index, vector) : LineHolds(index, vector);
  }

 private:
  bool MatrixHolds(int64_t index, std::vector<float> vector) {
    const int64_t bytes = bulk::RowBytes(width_, precision_);
    std::string expected;
    vector.resize(static_cast<size_t>(width_));
    bulk::AppendRow(vector, precision_, &expected);
    std::string there(static_cast<size_t>(bytes), '\0');
    file_.seekg(static_cast<int64_t>(bulk::kMatrixHeaderBytes) + index * bytes);
    return file_.read(there.data(), bytes) && there == expected;
  }

  bool LineHolds(int64_t index, const std::vector<float>& vector) {
    std::string line;
    while (line_ <= index && std::getline(file_, line)) ++line_;
    std::string expected = "\"embedding\":";
    JsonWriter json(&expected);
    if (vector.empty()) return line.find(expected + "null") != std::string::npos;
    json.Floats(vector);
    return line.ends_with(expected + "}");
  }

  std::ifstream file_;
  const bool matrix_;
  const bulk::Precision precision_;
  const int32_t width_;
  int64_t line_ = 0;
};

// The vector of a row, empty where it was skipped.
Expected<std::vector<float>> VectorOf(const corpus::Row& row, const EmbedFlags& flags,
                                      const Embedder& embedder) {
  if (!row.status.ok()) {
    if (flags.bulk_options.skip) return std::vector<float>();
    return row.status;
  }
  auto vector = embedder.embed_one(row.text);
  if (!vector.ok() && flags.bulk_options.skip && bulk::IsOfRow(vector.status())) {
    return std::vector<float>();
  }
  return vector;
}

// Compares the rows `wanted` of a part, which are in order.
Status VerifyPart(const EmbedFlags& flags, const Embedder& embedder, const bulk::ShardRun& run,
                  int64_t shard, const std::vector<int64_t>& wanted) {
  const std::string stem =
      bulk::ShardPart::StemOf(run.options().folder, shard, run.options().choice.count);
  PENSTOCK_ASSIGN_OR_RETURN(const auto part, bulk::ShardPart::Read(stem));
  PENSTOCK_ASSIGN_OR_RETURN(auto slices, run.input().Shard(shard, run.options().choice.count));
  corpus::RowReader reader(std::move(slices), flags.text.input);
  PartRows rows(stem + flags.parts, flags, part->dimensions);
  size_t next = 0;
  for (int64_t index = 0; next < wanted.size(); ++index) {
    PENSTOCK_ASSIGN_OR_RETURN(const auto row, reader.Next());
    if (!row) {
      return Status::Internal(fmt::format("{}{} has {} rows, and its input has {}", stem,
                                          flags.parts, part->rows, index));
    }
    if (index != wanted[next]) continue;
    ++next;
    PENSTOCK_ASSIGN_OR_RETURN(const std::vector<float> vector, VectorOf(*row, flags, embedder));
    if (rows.Holds(index, vector)) continue;
    return Status::Internal(fmt::format(
        "{}{}: row {} is not what the model makes of {}: remove the part and {}.json, and make it "
        "again",
        stem, flags.parts, index, row->where, stem));
  }
  return Status::Ok();
}

}  // namespace

Status VerifyParts(const EmbedFlags& flags, const Embedder& embedder, const bulk::ShardRun& run,
                   int64_t count) {
  const int64_t shards = run.options().choice.count;
  std::vector<int64_t> first_row;  // of each shard; behind them all rows
  int64_t rows = 0;
  for (int64_t shard = 0; shard < shards; ++shard) {
    const std::string stem = bulk::ShardPart::StemOf(run.options().folder, shard, shards);
    PENSTOCK_ASSIGN_OR_RETURN(const auto part, bulk::ShardPart::Read(stem));
    if (!part) return Status::NotFound(fmt::format("{}{} is not done", stem, flags.parts));
    first_row.push_back(rows);
    rows += part->rows;
  }
  std::set<int64_t> drawn;
  if (count >= rows) {
    for (int64_t row = 0; row < rows; ++row) drawn.insert(row);
  } else {
    std::random_device seed;
    std::mt19937_64 random(seed());
    std::uniform_int_distribution<int64_t> any(0, rows - 1);
    while (static_cast<int64_t>(drawn.size()) < count) drawn.insert(any(random));
  }
  for (int64_t shard = 0; shard < shards; ++shard) {
    const int64_t first = first_row[static_cast<size_t>(shard)];
    const int64_t end = shard + 1 < shards ? first_row[static_cast<size_t>(shard) + 1] : rows;
    std::vector<int64_t> wanted;
    for (auto row = drawn.lower_bound(first); row != drawn.end() && *row < end; ++row) {
      wanted.push_back(*row - first);
    }
    if (wanted.empty()) continue;
    PENSTOCK_RETURN_IF_ERROR(VerifyPart(flags, embedder, run, shard, wanted));
  }
  StatusLine::MakeRoom();
  std::fprintf(stderr, "penstock embed: %zu of %lld rows computed again: every bit is equal\n",
               drawn.size(), static_cast<long long>(rows));
  return Status::Ok();
}

}  // namespace penstock::cli

// Puts the parts of a folder (shard_plan.h) together, in the order of their input.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "bulk/shard_plan.h"

namespace penstock::bulk {

class MergedParts {
 public:
  // Reads the plan and every record. kNotFound: parts are missing, of which it names some;
  // kInvalidArgument: a part of another plan or of other dimensions, or with vectors of another
  // maker unless `mixed`.
  static Expected<MergedParts> Open(const std::string& folder, bool mixed);

  // Reads every part, and compares its size and digest with its record. kInternal names one that
  // differs.
  Status Check() const;
  // The same, while all rows go to `path`: to .npy or .safetensors as one matrix, to other names as
  // JSON lines, whose "index" counts all rows. Beside it are PATH.ids and PATH.errors.jsonl where
  // parts have them.
  Status WriteTo(const std::string& path) const;
  // A JSON object that lists the parts and where their rows stand in the whole; reads no part.
  Status WriteManifest(const std::string& path) const;

  const ShardPlan& plan() const { return plan_; }
  int64_t rows() const { return rows_; }
  int32_t dimensions() const { return dimensions_; }
  int64_t skipped() const { return skipped_; }
  // More than one maker took part.
  bool mixed() const { return mixed_; }

 private:
  std::string StemOf(int64_t shard) const {
    return ShardPart::StemOf(folder_, shard, plan_.shards);
  }
  std::string PathOf(int64_t shard) const { return StemOf(shard) + plan_.parts; }
  Status CheckMatrixSize(int64_t shard, const ShardPart& part) const;
  Status WriteMatrix(const std::string& path) const;
  Status WriteLines(const std::string& path) const;
  Status WriteIds(const std::string& path) const;
  Status WriteErrors(const std::string& path) const;

  std::string folder_;
  ShardPlan plan_;
  std::string precision_;  // of matrices
  std::vector<ShardPart> parts_;
  int64_t rows_ = 0;
  int32_t dimensions_ = 0;
  int64_t skipped_ = 0;
  bool mixed_ = false;
};

}  // namespace penstock::bulk

// A folder in which many processes put parts of one output, without asking each other.
//
//   plan.json                     once: inputs, settings, model. Later processes compare.
//   part-00003-of-00064.npy       the rows of a part, and what is beside an output (embed_output.h)
//   part-00003-of-00064.json      after it: rows, digests. Where it is, the part is done.
//   claim-00003                   while a process of --take is at work on it (shard_claim.h)
//
// The same text gives the same bits whatever shares its batch, so a part that two processes make is
// the same file twice, and one may replace the other: each row is there exactly once without a lock
// that must be released.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "corpus/slices.h"

namespace penstock::bulk {

// What a process does of N shards: one of them, or without an index whatever is free (--take), or
// none (--verify).
struct ShardChoice {
  int64_t count = 0;
  std::optional<int64_t> index;  // from 0
};

// What makes the rows, as far as they depend on it.
struct ShardMaker {
  std::string model;        // its name
  std::string dtype;        // "" = not known: a server's
  std::string program;      // version
  std::string isa;          // kernels; "" = not known
  std::string fingerprint;  // SHA-256 of what it makes of texts that are always the same
};

struct ShardPlan {
  std::string command;  // "embed"
  int64_t shards = 0;
  std::string parts;     // the ending of their names: ".npy"
  std::string settings;  // that shape the rows, as text
  std::vector<corpus::ShardedInput::File> inputs;
  ShardMaker maker;  // of the process that wrote it

  static std::string PathIn(const std::string& folder) { return folder + "/plan.json"; }
  // nullopt: the folder has no plan. kInvalidArgument: the file is not a plan.
  static Expected<std::optional<ShardPlan>> Read(const std::string& folder);
  // Writes this plan, unless there is one by then; returns the one that is there.
  Expected<ShardPlan> PutDown(const std::string& folder) const;
  // What another plan has otherwise, but for its maker; "" = nothing. Names of files may differ.
  std::string DifferenceFrom(const ShardPlan& other) const;
  // A digest of all that the parts have in common.
  std::string Id() const;
};

// The record of a part that is done.
struct ShardPart {
  std::string plan;  // ShardPlan::Id
  int64_t rows = 0;
  int32_t dimensions = 0;  // of a matrix; 0 = none
  std::string input;       // RowsDigest of its rows
  int64_t bytes = 0;       // of the part
  std::string sha256;      // of its bytes
  std::string ids_sha256;  // of the ids beside a matrix; "" = none
  int64_t skipped = 0;     // rows without a result
  int64_t tokens = 0;
  int64_t cut = 0;  // rows that were longer than the model takes
  double seconds = 0;
  ShardMaker maker;

  // "FOLDER/part-00003-of-00064"
  static std::string StemOf(const std::string& folder, int64_t shard, int64_t shards);
  Status Write(const std::string& stem) const;
  // nullopt: the part has no record. kInvalidArgument: the file is not a record.
  static Expected<std::optional<ShardPart>> Read(const std::string& stem);
};

// Reads a decimal number, "00012" too. nullopt: the text is not a number, or it exceeds kShardsMax.
std::optional<int64_t> ShardNumber(std::string_view text);

// Which shards have a record, by one look at the folder.
Expected<std::vector<bool>> DoneShards(const std::string& folder, int64_t shards);

}  // namespace penstock::bulk

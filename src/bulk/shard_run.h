// What a command does that makes the parts of an output: the plan of their folder, which parts are
// its own, and their records.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "bulk/shard_claim.h"
#include "bulk/shard_plan.h"
#include "corpus/slices.h"
#include "os/interruption.h"

namespace penstock::bulk {

class ShardRun {
 public:
  struct Options {
    std::string command;   // "embed"
    std::string folder;    // of the parts; made if it is not there
    std::string parts;     // the ending of their names
    std::string settings;  // that shape the rows, as text
    ShardChoice choice;
    bool take = false;
    bool mixed = false;
    bool quiet = false;
  };
  // kInvalidArgument, its field that of a flag: no folder, or one with parts of something else.
  static Expected<ShardRun> Prepare(Options options, const std::vector<std::string>& files,
                                    const corpus::InputOptions& input);

  // Whether there is nothing left to do, which is then told.
  Expected<bool> NothingLeft() const;

  // Before the first part. kInvalidArgument, field "mixed": the parts were begun by one that makes
  // other rows.
  Status Begin(const ShardMaker& maker);

  // A part to be made.
  struct Job {
    int64_t shard = 0;
    std::string stem;  // of its files
    std::vector<corpus::FileSlice> input;
    const ShardClaim* claim = nullptr;  // null: without --take
    // Whether another process has the part now: it is left to that.
    bool lost() const { return claim != nullptr && claim->lost(); }
  };
  // Makes the part and gives its record, but for what the plan says and the digests of its files.
  using MakePart = std::function<Expected<ShardPart>(const Job& job)>;
  // Makes the parts that are this process's; ends at the first failure, and with kCancelled after a
  // signal.
  Status Run(const Interruption& interruption, const MakePart& make) const;

  const Options& options() const { return options_; }
  const ShardPlan& plan() const { return plan_; }
  const corpus::ShardedInput& input() const { return input_; }

 private:
  ShardRun(Options options, corpus::ShardedInput input)
      : options_(std::move(options)), input_(std::move(input)) {}
  Status RunOne(int64_t shard, const ShardClaim* claim, const MakePart& make) const;
  Status TakeAll(const Interruption& interruption, const MakePart& make) const;

  Options options_;
  corpus::ShardedInput input_;
  ShardPlan plan_;
  std::string plan_id_;  // set by Begin
  ShardMaker maker_;
};

// The maker in this process, but for its fingerprint.
ShardMaker MakerHere(const std::string& model, const std::string& dtype);

}  // namespace penstock::bulk

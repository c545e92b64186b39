#include "shard_flags.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "bulk/shard_plan.h"
#include "corpus/slices.h"

namespace penstock::cli {
namespace {

// Variables in which engines number the processes of a job. `count` "": the engine does not say it.
constexpr struct {
  const char* engine;
  const char* index;
  const char* first;  // of the first process; "": 0
  const char* count;
} kEngines[] = {
    {"Kubernetes", "JOB_COMPLETION_INDEX", "", ""},
    {"Slurm", "SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_MIN", "SLURM_ARRAY_TASK_COUNT"},
    {"Slurm", "SLURM_PROCID", "", "SLURM_NTASKS"},
    {"AWS Batch", "AWS_BATCH_JOB_ARRAY_INDEX", "", "AWS_BATCH_JOB_ARRAY_SIZE"},
    {"Google Batch", "BATCH_TASK_INDEX", "", "BATCH_TASK_COUNT"},
    {"Cloud Run", "CLOUD_RUN_TASK_INDEX", "", "CLOUD_RUN_TASK_COUNT"},
};

std::optional<int64_t> NumberOf(const char* text) {
  return text == nullptr ? std::nullopt : bulk::ShardNumber(text);
}

// "3/64". nullopt: it is not that.
std::optional<bulk::ShardChoice> ParseShard(const std::string& text) {
  const size_t slash = text.find('/');
  if (slash == std::string::npos) return std::nullopt;
  const auto index = bulk::ShardNumber(std::string_view(text).substr(0, slash));
  const auto count = bulk::ShardNumber(std::string_view(text).substr(slash + 1));
  if (!index || !count || *index >= *count) return std::nullopt;
  return bulk::ShardChoice{*count, *index};
}

Status Bad(const std::string& flag, const std::string& why) {
  return Status::InvalidArgument(fmt::format("--{}: {}", flag, why), flag);
}

// The process's number and, where the engine says it, how many there are.
Expected<bulk::ShardChoice> OfEngine(const Variable& variable, std::optional<int64_t> count) {
  std::string names;
  for (const auto& engine : kEngines) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", engine.index);
    if (variable(engine.index) == nullptr) continue;
    const auto number = NumberOf(variable(engine.index));
    const int64_t first = NumberOf(variable(engine.first)).value_or(0);
    const auto processes = NumberOf(variable(engine.count));
    if (!number || *number < first) {
      return Bad("shards", fmt::format("{} is '{}', which does not number a process", engine.index,
                                       variable(engine.index)));
    }
    if (!count) count = processes;
    if (!count) {
      return Bad("shards", fmt::format("{} does not say how many processes there are: give N",
                                       engine.engine));
    }
    if (*number - first >= *count) {
      return Bad("shards",
                 fmt::format("{} is {}, and there are {} shards, which are counted from {}",
                             engine.index, *number, *count, first));
    }
    return bulk::ShardChoice{*count, *number - first};
  }
  return Bad("shards",
             "which of them? Give --shard I/N or --take; an engine would have set one of " + names);
}

}  // namespace

void AddShardFlags(CommandLine* line, ShardFlags* flags, bool verify) {
  const FlagGroup group(&line->flags(), "Shards");
  constexpr int64_t kMax = corpus::ShardedInput::kShardsMax;
  group.Add(
      "--shard", flags->shard, "I/N",
      FlagRule(
          [](std::string& text) {
            return ParseShard(text) ? "" : "'" + text + "' is not I/N, such as 0/64 or 63/64";
          },
          ""),
      "Do part I of N, counted from 0, of the FILES. --output is the folder of the parts, in "
      "which `penstock merge` puts them together. A part that is there is not made again, one "
      "that was begun is gone on with.");
  group.Add(
      "--shards", flags->shards, "N", InRange(int64_t{1}, kMax),
      "The same without I: the number that Kubernetes (JOB_COMPLETION_INDEX), Slurm and others "
      "have given the process; or with --take.");
  group.Switch(
      "--take", flags->take,
      "Do parts that nothing works on, one after the other, until all are done: for "
      "machines that come and go. A part whose process has ended is taken over, after 60 s "
      "where it was on another machine.");
  group.Switch("--mixed", flags->mixed,
               "Take part although the model gives other vectors here than where the parts were "
               "begun: another processor, --dtype or program.");
  if (!verify) return;
  group.Add("--verify", flags->verify, "K", InRange(int64_t{1}, int64_t{1} << 40),
            "Compute K rows of the parts again, drawn at random, and compare every bit; writes "
            "nothing.");
}

Expected<std::optional<bulk::ShardChoice>> ChosenShard(const ShardFlags& flags,
                                                       const Variable& variable) {
  if (flags.shard.empty() && !flags.shards) {
    if (flags.take) return Bad("take", "needs --shards N");
    if (flags.verify > 0) return Bad("verify", "needs --shards N");
    if (flags.mixed) return Bad("mixed", "goes with --shard or --shards");
    return std::optional<bulk::ShardChoice>();
  }
  if (!flags.shard.empty()) {
    if (flags.take) return Bad("take", "is for any shard; --shard names one");
    if (flags.verify > 0) return Bad("verify", "is for all shards: give --shards N");
    std::optional<bulk::ShardChoice> choice = ParseShard(flags.shard);
    if (flags.shards && *flags.shards != choice->count) {
      return Bad("shards",
                 fmt::format("{} is not the {} of --shard", *flags.shards, choice->count));
    }
    return choice;
  }
  if (flags.take || flags.verify > 0)
    return std::optional(bulk::ShardChoice{*flags.shards, std::nullopt});
  PENSTOCK_ASSIGN_OR_RETURN(const bulk::ShardChoice choice, OfEngine(variable, flags.shards));
  return std::optional(choice);
}

}  // namespace penstock::cli

#include "bulk/shard_run.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "cpu/dispatch.h"
#include "log/status_line.h"
#include "os/file_digest.h"
#include "threads/request_context.h"

namespace penstock::bulk {
namespace {

constexpr int kLookAgainMs = 1000;

// Puts copies of the files in their place: a process on another machine that has the old ones open
// then writes to files without a name.
Status PartFrom(const std::string& path) {
  for (const char* beside : {"", ".ids", ".errors.jsonl"}) {
    const std::string part = path + beside + ".part";
    std::error_code error;
    if (!std::filesystem::exists(part, error)) continue;
    std::filesystem::copy_file(part, part + ".copy",
                               std::filesystem::copy_options::overwrite_existing, error);
    if (!error) std::filesystem::rename(part + ".copy", part, error);
    if (error) {
      return {StatusCode::kUnavailable, fmt::format("cannot copy {}: {}", part, error.message())};
    }
  }
  return Status::Ok();
}

Status MakeFolder(const std::string& folder) {
  struct stat facts {};
  if (mkdir(folder.c_str(), 0777) == 0) return Status::Ok();
  const int error = errno;
  if (error == EEXIST && stat(folder.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode)) {
    return Status::Ok();
  }
  return Status::InvalidArgument(
      fmt::format("--output {}: {}; with shards it is the folder of the parts", folder,
                  error == EEXIST ? "is a file" : strerror(error)),
      "output");
}

}  // namespace

ShardMaker MakerHere(const std::string& model, const std::string& dtype) {
  const auto kernels = cpu::DefaultKernels();
  return {model, dtype, PENSTOCK_VERSION, kernels.ok() ? (*kernels)->name : "", ""};
}

Expected<ShardRun> ShardRun::Prepare(Options options, const std::vector<std::string>& files,
                                     const corpus::InputOptions& input) {
  if (options.folder.empty() || options.folder == "-") {
    return Status::InvalidArgument("shards need --output FOLDER, for the parts", "output");
  }
  while (options.folder.size() > 1 && options.folder.ends_with('/')) options.folder.pop_back();
  PENSTOCK_RETURN_IF_ERROR(MakeFolder(options.folder));
  PENSTOCK_ASSIGN_OR_RETURN(corpus::ShardedInput cut, corpus::ShardedInput::Open(files, input));
  ShardRun run(std::move(options), std::move(cut));
  ShardPlan& plan = run.plan_;
  plan.command = run.options_.command;
  plan.shards = run.options_.choice.count;
  plan.parts = run.options_.parts;
  plan.settings = run.options_.settings;
  plan.inputs = run.input_.files();
  PENSTOCK_ASSIGN_OR_RETURN(const auto there, ShardPlan::Read(run.options_.folder));
  if (!there) return run;
  const std::string difference = plan.DifferenceFrom(*there);
  if (difference.empty()) return run;
  return Status::InvalidArgument(
      fmt::format("{} holds parts of something else: {}; give another --output, or remove it",
                  run.options_.folder, difference),
      "output");
}

Expected<bool> ShardRun::NothingLeft() const {
  const ShardChoice& choice = options_.choice;
  int64_t left = 0;
  if (choice.index) {
    const std::string stem = ShardPart::StemOf(options_.folder, *choice.index, choice.count);
    left = access((stem + ".json").c_str(), F_OK) == 0 ? 0 : 1;
  } else {
    PENSTOCK_ASSIGN_OR_RETURN(const auto done, DoneShards(options_.folder, choice.count));
    left = std::count(done.begin(), done.end(), false);
  }
  if (left == 0 && !options_.quiet) {
    const std::string which = choice.index
                                  ? fmt::format("shard {} of {} is", *choice.index, choice.count)
                                  : fmt::format("all {} shards are", choice.count);
    std::fprintf(stderr, "penstock %s: %s done in %s\n", options_.command.c_str(), which.c_str(),
                 options_.folder.c_str());
  }
  return left == 0;
}

Status ShardRun::Begin(const ShardMaker& maker) {
  maker_ = maker;
  plan_.maker = maker;
  plan_id_ = plan_.Id();
  PENSTOCK_ASSIGN_OR_RETURN(const ShardPlan there, plan_.PutDown(options_.folder));
  if (const std::string difference = plan_.DifferenceFrom(there); !difference.empty()) {
    return Status::InvalidArgument(
        fmt::format("{} holds parts of something else: {}", options_.folder, difference), "output");
  }
  const ShardMaker& first = there.maker;
  if (first.fingerprint == maker.fingerprint || options_.mixed) return Status::Ok();
  const auto of = [](const ShardMaker& one) {
    return fmt::format("{}, {}, {} kernels, penstock {}", one.model,
                       one.dtype.empty() ? "its own numbers" : one.dtype,
                       one.isa.empty() ? "unknown" : one.isa, one.program);
  };
  return Status::InvalidArgument(
      fmt::format("the parts in {} were begun by {}, which gives other results than {} here; "
                  "--mixed takes part all the same",
                  options_.folder, of(first), of(maker)),
      "mixed");
}

Status ShardRun::RunOne(int64_t shard, const ShardClaim* claim, const MakePart& make) const {
  const int64_t count = options_.choice.count;
  Job job{.shard = shard, .stem = ShardPart::StemOf(options_.folder, shard, count), .claim = claim};
  const std::string path = job.stem + options_.parts;
  PENSTOCK_ASSIGN_OR_RETURN(job.input, input_.Shard(shard, count));
  if (claim != nullptr && claim->from_elsewhere()) PENSTOCK_RETURN_IF_ERROR(PartFrom(path));
  const Clock::time_point begin = Clock::now();
  auto made = make(job);
  // Another process has it now, and makes the same.
  if (job.lost()) return Status::Ok();
  PENSTOCK_ASSIGN_OR_RETURN(ShardPart part, std::move(made));
  PENSTOCK_ASSIGN_OR_RETURN(const FileDigest digest, DigestOfFile(path));
  part.plan = plan_id_;
  part.bytes = digest.bytes;
  part.sha256 = digest.sha256;
  if (access((path + ".ids").c_str(), F_OK) == 0) {
    PENSTOCK_ASSIGN_OR_RETURN(const FileDigest ids, DigestOfFile(path + ".ids"));
    part.ids_sha256 = ids.sha256;
  }
  part.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  part.maker = maker_;
  PENSTOCK_RETURN_IF_ERROR(part.Write(job.stem));
  if (options_.quiet) return Status::Ok();
  StatusLine::MakeRoom();
  std::fprintf(stderr, "penstock %s: shard %lld of %lld is done: %lld rows in %.1f s\n",
               options_.command.c_str(), static_cast<long long>(shard),
               static_cast<long long>(count), static_cast<long long>(part.rows), part.seconds);
  return Status::Ok();
}

Status ShardRun::Run(const Interruption& interruption, const MakePart& make) const {
  if (!options_.choice.index) return TakeAll(interruption, make);
  return RunOne(*options_.choice.index, nullptr, make);
}

Status ShardRun::TakeAll(const Interruption& interruption, const MakePart& make) const {
  bool told = options_.quiet;
  while (true) {
    PENSTOCK_ASSIGN_OR_RETURN(const auto done, DoneShards(options_.folder, options_.choice.count));
    int64_t others = 0;
    bool worked = false;
    for (int64_t shard = 0; shard < options_.choice.count; ++shard) {
      if (done[static_cast<size_t>(shard)]) continue;
      if (interruption.signal() != 0) return {StatusCode::kCancelled, "interrupted"};
      PENSTOCK_ASSIGN_OR_RETURN(const auto claim, ShardClaim::Take(options_.folder, shard));
      if (claim == nullptr) {
        ++others;
        continue;
      }
      worked = true;
      // Done since the folder was looked at.
      const std::string stem = ShardPart::StemOf(options_.folder, shard, options_.choice.count);
      if (access((stem + ".json").c_str(), F_OK) == 0) continue;
      PENSTOCK_RETURN_IF_ERROR(RunOne(shard, claim.get(), make));
    }
    if (others == 0 && !worked) return Status::Ok();
    if (worked) continue;
    if (!std::exchange(told, true)) {
      StatusLine::MakeRoom();
      std::fprintf(stderr,
                   "penstock %s: the last %lld shards are at work elsewhere; waiting, to take over "
                   "what is left behind\n",
                   options_.command.c_str(), static_cast<long long>(others));
    }
    pollfd came{interruption.fd(), POLLIN, 0};
    (void)poll(&came, 1, kLookAgainMs);
  }
}

}  // namespace penstock::bulk

// penstock merge: the parts that shards made, as one output.
#include <cstdio>
#include <string>

#include "bulk/merge_parts.h"
#include "cli/command_line.h"
#include "commands.h"
#include "log/status_line.h"
#include "log/step_progress.h"

namespace penstock::cli {
namespace {

struct MergeFlags {
  std::string folder;
  std::string output;
  bool check = false;
  bool mixed = false;
  bool quiet = false;
};

Status Merge(const MergeFlags& flags, const bulk::MergedParts& parts) {
  const StepProgress reading("reading the parts", flags.quiet);
  if (flags.check) return parts.Check();
  if (!flags.output.ends_with(".json")) return parts.WriteTo(flags.output);
  PENSTOCK_RETURN_IF_ERROR(parts.Check());
  return parts.WriteManifest(flags.output);
}

void Report(const MergeFlags& flags, const bulk::MergedParts& parts) {
  StatusLine::MakeRoom();
  const std::string width =
      parts.dimensions() > 0 ? " of " + std::to_string(parts.dimensions()) + " numbers" : "";
  std::fprintf(
      stderr, "penstock merge: %lld parts, %lld rows%s; every digest is that of its record%s\n",
      static_cast<long long>(parts.plan().shards), static_cast<long long>(parts.rows()),
      width.c_str(), parts.mixed() ? "; made by more than one model, processor or program" : "");
  if (parts.skipped() == 0) return;
  const std::string where = flags.check || flags.output.ends_with(".json")
                                ? "the .errors.jsonl of the parts name them"
                                : flags.output + ".errors.jsonl names them";
  std::fprintf(stderr, "penstock merge: %lld rows were skipped; %s\n",
               static_cast<long long>(parts.skipped()), where.c_str());
}

}  // namespace

int RunMerge(const std::vector<std::string>& args) {
  CommandLine line("merge",
                   "Put the parts together that processes of --shard or --take have made, after "
                   "every one is\nfound to be there, of one plan and one model, and the bytes that "
                   "were written.",
                   "  penstock merge parts -o vectors.npy\n"
                   "  penstock merge parts -o labels.jsonl\n"
                   "  penstock merge parts -o manifest.json\n"
                   "  penstock merge parts --check\n");
  MergeFlags flags;
  line.flags()
      .AddOption("FOLDER", flags.folder, "The folder of the parts: --output of the processes.")
      ->Required();
  const FlagGroup group(&line.flags());
  group.Add("-o,--output", flags.output, "FILE",
            "A matrix (.npy, .safetensors), JSON lines (.jsonl), or a list of the parts and where "
            "their rows stand in the whole (.json).");
  group.Switch("--check", flags.check,
               "Write nothing; look whether all parts are there and sound.");
  group.Switch("--mixed", flags.mixed, "Take parts that were made by --mixed, too.");
  group.Switch("-q,--quiet", flags.quiet, "No progress and no summary on stderr.");
  if (const auto exit_code = line.Parse(args)) return *exit_code;
  if (flags.output.empty() && !flags.check)
    return line.FailUsage("--output FILE or --check is needed");
  if (!flags.output.empty() && flags.check) return line.FailUsage("--check writes no --output");
  if (flags.output == "-") return line.FailUsage("--output: a file is needed, not stdout");
  const auto parts = bulk::MergedParts::Open(flags.folder, flags.mixed);
  if (!parts.ok()) return line.Fail(parts.status());
  if (const Status status = Merge(flags, *parts); !status.ok()) {
    return status.field() == "output" ? line.FailUsage(status.message()) : line.Fail(status);
  }
  if (!flags.quiet) Report(flags, *parts);
  return kExitOk;
}

}  // namespace penstock::cli

#include "embed_shards.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "base/sha256.h"
#include "bulk/shard_run.h"
#include "embed_run.h"
#include "embed_verify.h"
#include "log/status_line.h"

namespace penstock::cli {
namespace {

// Texts whose vectors tell models, processors and programs apart: a word, a sentence, other scripts
// and what is longer than a few tokens.
constexpr const char* kProbes[] = {
    "a",
    "A penstock is the pipe that feeds a turbine at full pressure.",
    "\xc3\x9c"
    "bergr\xc3\xb6\xc3\x9f"
    "e \xe6\xb0\xb4\xe5\x8a\x9b \xd0\xb2\xd0\xbe\xd0\xb4\xd0\xb0 "
    "0123456789 {\"key\": [1.5, null]}",
};

struct Probed {
  std::string fingerprint;
  int32_t dimensions = 0;
};

Expected<Probed> Probe(const Embedder& embedder) {
  Sha256 digest;
  Probed probed;
  for (const char* text : kProbes) {
    PENSTOCK_ASSIGN_OR_RETURN(const std::vector<float> vector, embedder.embed_one(text));
    digest.Add({reinterpret_cast<const char*>(vector.data()), vector.size() * sizeof(float)});
    probed.dimensions = static_cast<int32_t>(vector.size());
  }
  probed.fingerprint = digest.Hex();
  return probed;
}

int64_t BytesOf(const corpus::RowReader& reader) { return reader.disk_bytes_total().value_or(0); }

// What is the same for all parts of a process.
struct Parts {
  const EmbedFlags& flags;
  const Embedder& embedder;
  int32_t dimensions;
  Interruption* interruption;
  int64_t skipped = 0;  // rows, in all
};

Expected<bulk::ShardPart> MakePart(const bulk::ShardRun::Job& job, Parts* parts) {
  const EmbedFlags& flags = parts->flags;
  const std::string path = job.stem + flags.parts;
  const bool begun = access((path + ".part").c_str(), F_OK) == 0 &&
                     access(bulk::Checkpoint::PathFor(path).c_str(), F_OK) == 0;
  bulk::EmbedOutput output({path, flags.precision,
                            SettingsText(flags, bulk::MatrixFormatOf(path).has_value()), begun,
                            false, !flags.text.input.id_field.empty()});
  PENSTOCK_RETURN_IF_ERROR(output.Prepare());
  ProgressLine progress({flags.text.quiet, true, false});
  std::optional<bulk::EmbedPlot> no_plot;
  // Taken for texts, which they mostly are.
  bulk::InputScan scan{.known = true, .whole = true, .part = 1};
  scan.text_bytes = BytesOf(corpus::RowReader(job.input, flags.text.input));
  const EmbedRun run{
      flags, job.input, parts->interruption, &output, &no_plot, &progress, scan, [&job] {
        return job.lost() ? Status(StatusCode::kCancelled, "another process has it") : Status::Ok();
      }};
  Status status = EmbedInto(run, parts->embedder);
  if (status.ok() && job.lost()) status = {StatusCode::kCancelled, "another process has it"};
  if (status.ok()) status = output.Finish(parts->dimensions);
  if (!status.ok()) return output.Abandon(status);
  const bulk::Checkpoint& done = output.done();
  ReportCut(done.cut, "embed", parts->embedder.made.max_tokens);
  parts->skipped += done.skipped;
  bulk::ShardPart part;
  part.rows = done.rows;
  part.dimensions = parts->dimensions;
  part.input = done.input;
  part.skipped = done.skipped;
  part.tokens = done.tokens;
  part.cut = done.cut;
  return part;
}

Status MakeParts(const EmbedFlags& flags, const Embedder& embedder, Interruption* interruption,
                 bulk::ShardRun* run, int64_t* skipped) {
  PENSTOCK_ASSIGN_OR_RETURN(const Probed probed, Probe(embedder));
  bulk::ShardMaker maker =
      flags.server.url.empty()
          ? bulk::MakerHere(embedder.made.model, embedder.made.dtype)
          : bulk::ShardMaker{embedder.made.model, "", PENSTOCK_VERSION, "", ""};
  maker.fingerprint = probed.fingerprint;
  PENSTOCK_RETURN_IF_ERROR(run->Begin(maker));
  if (flags.shard.verify > 0) {
    return VerifyParts(flags, embedder, *run, flags.shard.verify);
  }
  Parts parts{flags, embedder, probed.dimensions, interruption};
  const Status status = run->Run(
      *interruption, [&parts](const bulk::ShardRun::Job& job) { return MakePart(job, &parts); });
  *skipped = parts.skipped;
  return status;
}

// What does not go with shards; "" = nothing.
std::string Misfit(const EmbedFlags& flags) {
  if (!flags.plot.empty()) return "--plot is for one output, and shards have many";
  if (flags.restart)
    return "--restart does not go with shards: remove the parts that are not wanted";
  if (bulk::MatrixFormatOf(flags.text.output)) {
    return "with shards --output is the folder of the parts, and --parts says what they are";
  }
  return "";
}

}  // namespace

int EmbedShards(const EmbedFlags& flags, const CommandLine& line, Interruption* interruption,
                const bulk::ShardChoice& choice) {
  if (const std::string why = Misfit(flags); !why.empty()) return line.FailUsage(why);
  auto run = bulk::ShardRun::Prepare(
      {.command = "embed",
       .folder = flags.text.output,
       .parts = flags.parts,
       .settings = SettingsText(flags, bulk::MatrixFormatOf(flags.parts).has_value()),
       .choice = choice,
       .mixed = flags.shard.mixed,
       .quiet = flags.text.quiet},
      flags.text.files, flags.text.input);
  if (!run.ok()) {
    return run.status().field() == "output" ? line.FailUsage(run.status().message())
                                            : line.Fail(run.status());
  }
  if (flags.shard.verify == 0) {
    const auto nothing = run->NothingLeft();
    if (!nothing.ok()) return line.Fail(nothing.status());
    if (*nothing) return kExitOk;
  }
  ProgressLine progress({flags.text.quiet, false, false});
  Made made;
  int64_t skipped = 0;
  Status status = WithEmbedder(flags, line, &progress, &made, [&](const Embedder& embedder) {
    return MakeParts(flags, embedder, interruption, &*run, &skipped);
  });
  if (const int number = interruption->signal(); number != 0) {
    line.Fail({StatusCode::kCancelled,
               status.ok() ? "interrupted" : "interrupted: the same command goes on"});
    return kExitSignal + number;
  }
  if (!status.ok()) {
    const bool usage = status.field() == "mixed" || status.field() == "output" ||
                       status.field() == "resume" || status.field() == "api-key-file";
    return usage ? line.FailUsage(status.message()) : line.Fail(status);
  }
  if (skipped == 0) return kExitOk;
  ReportSkipped(skipped, flags.text.output + "/*.errors.jsonl");
  return kExitSkipped;
}

}  // namespace penstock::cli

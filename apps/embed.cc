// penstock embed: texts to vectors.
#include <fmt/format.h>

#include <cstdlib>
#include <optional>
#include <utility>

#include "commands.h"
#include "embed_run.h"
#include "embed_shards.h"
#include "log/step_progress.h"

namespace penstock::cli {
namespace {

// The vectors are in place by now, and stay there if this fails.
Status WritePlot(const EmbedRun& run, const Made& made) {
  if (!*run.plot) return Status::Ok();
  const StepProgress drawing("drawing the plot", !run.progress->on_terminal());
  const Status drawn = (*run.plot)->Write(made.model);
  return drawn.ok() ? drawn : drawn.Annotate("--plot " + run.flags.plot);
}

// The exit code after a run that ended with `status`: that of the signal where one ended it.
int Finish(const EmbedRun& run, const CommandLine& line, Status status, const Made& made) {
  bulk::EmbedOutput* const output = run.output;
  const std::string errors_path = output->ErrorsPath();
  if (status.ok()) status = output->Finish(made.dimensions);
  if (status.ok()) {
    run.progress->Finish();
    ReportCut(output->cut(), "embed", made.max_tokens);
    if (const Status plot = WritePlot(run, made); !plot.ok()) return line.Fail(plot);
    if (output->skipped() == 0) return kExitOk;
    ReportSkipped(output->skipped(), errors_path);
    return kExitSkipped;
  }
  const int number = run.interruption->signal();
  if (number == 0) {
    status = output->Abandon(status);
    return status.field() == "resume" ? line.FailUsage(status.message()) : line.Fail(status);
  }
  line.Fail(output->Abandon({StatusCode::kCancelled, "interrupted"}));
  return kExitSignal + number;
}

int EmbedAll(const EmbedFlags& flags, const CommandLine& line, Interruption* interruption,
             bool matrix) {
  bulk::EmbedOutput output({flags.text.output, flags.precision, SettingsText(flags, matrix),
                            flags.resume, flags.restart, !flags.text.input.id_field.empty()});
  if (const Status ready = output.Prepare(); !ready.ok()) return line.FailUsage(ready.message());
  std::optional<bulk::EmbedPlot> plot;
  if (!flags.plot.empty()) {
    if (flags.plot == flags.text.output) {
      return line.FailUsage("--plot and --output name the same file, " + flags.plot);
    }
    auto opened = bulk::EmbedPlot::Open(flags.plot);
    if (!opened.ok()) return line.FailUsage("--plot: " + opened.status().message());
    plot.emplace(*std::move(opened));
  }
  // Typed input is not disturbed.
  ProgressLine progress({flags.text.quiet || ReadsTerminal(flags.text), true,
                         flags.bulk || !flags.server.url.empty()});
  progress.Begin("reading");
  std::vector<corpus::FileSlice> input = corpus::WholeFiles(flags.text.files);
  auto scan = bulk::ScanInput(input, flags.text.input, flags.bulk_options.skip);
  if (!scan.ok()) return line.Fail(scan.status());
  const EmbedRun run{flags, std::move(input), interruption, &output, &plot, &progress, *scan, {}};
  Made made;
  Status status = WithEmbedder(flags, line, &progress, &made, [&run](const Embedder& embedder) {
    return EmbedInto(run, embedder);
  });
  if (status.field() == "api-key-file") return line.FailUsage(status.message());
  if (interruption->signal() != 0 && !flags.server.url.empty()) {
    status = {StatusCode::kCancelled, "interrupted"};
  }
  return Finish(run, line, status, made);
}

}  // namespace

int RunEmbed(const std::vector<std::string>& args) {
  CommandLine line("embed",
                   "Embed texts. Writes one JSON object a line, {\"index\": 0, \"embedding\": "
                   "[...]}, in the order\nof the input, or a matrix when --output ends in .npy or "
                   ".safetensors.",
                   "  echo 'Hello, world' | penstock embed --model MODEL\n"
                   "  penstock embed --model MODEL texts.txt --output vectors.npy\n"
                   "  penstock embed --model MODEL --prompt-name query --dimensions 256 q.jsonl\n"
                   "  penstock embed --model MODEL corpus.jsonl -o vectors.npy --resume\n"
                   "  penstock embed --model MODEL corpus.jsonl -o vectors.npy --on-error skip\n"
                   "  penstock embed --model MODEL texts.txt -o vectors.npy --plot texts.svg\n"
                   "  penstock embed --url http://127.0.0.1:8080 corpus.jsonl -o vectors.npy\n"
                   "  penstock embed --model MODEL corpus/*.jsonl --shards 64 --take -o parts\n");
  EmbedFlags flags;
  AddModelFlags(&line, &flags.model, false, "warn");
  AddTextFlags(&line, &flags.text, "Texts: lines, JSON, CSV or TSV");
  AddEmbedFlags(&line, &flags);
  if (const auto exit_code = line.Parse(args)) return *exit_code;
  Interruption interruption;  // before any other thread
  if (const Status log = ApplyLogFlags(flags.model); !log.ok()) {
    return line.FailUsage("--log-level: " + log.message());
  }
  if (line.flags().Get("--batch")->count() > 0) {
    flags.bulk_options.request_rows = static_cast<size_t>(flags.text.batch);
  }
  const auto shard = ChosenShard(flags.shard, [](const char* name) { return std::getenv(name); });
  if (!shard.ok()) return line.FailUsage(shard.status().message());
  const std::string& output_name = *shard ? flags.parts : flags.text.output;
  const bool matrix = bulk::MatrixFormatOf(output_name).has_value();
  if (!matrix && flags.precision != bulk::Precision::kFloat32) {
    return line.FailUsage("--precision is of .npy and .safetensors: JSON lines hold float32");
  }
  if (!flags.server.url.empty()) {
    if (const Status fit = CheckForServer(line); !fit.ok()) return line.FailUsage(fit.message());
  }
  if (const Status input = CheckInput(flags.text); !input.ok()) return line.Fail(input);
  if (*shard) return EmbedShards(flags, line, &interruption, **shard);
  return EmbedAll(flags, line, &interruption, matrix);
}

}  // namespace penstock::cli

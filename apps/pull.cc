// penstock pull: models of the hub into the cache.
#include <cstdio>

#include "base/printable.h"
#include "cache_flags.h"
#include "commands.h"
#include "download_progress.h"
#include "hub/cache.h"
#include "hub/default_model.h"
#include "hub/hub.h"
#include "json/json_writer.h"

namespace penstock::cli {
namespace {

struct PullFlags {
  std::vector<std::string> references;
  bool refresh = true;
  bool tokenizer_only = false;
  bool quiet = false;
  bool json = false;
  int connections = hub::RangeOptions().connections;
};

Status Pull(const std::string& text, const PullFlags& flags) {
  PENSTOCK_RETURN_IF_ERROR(HubReference(text, "pull downloads from the hub: owner/name").status());
  hub::ResolveOptions options;
  options.auto_pull = true;
  options.refresh = flags.refresh;
  options.tokenizer_only = flags.tokenizer_only;
  options.ranges.connections = flags.connections;
  DownloadProgress progress(text, flags.quiet);
  options.progress = progress.Callback();
  PENSTOCK_ASSIGN_OR_RETURN(const std::string path, hub::ResolveModel(text, options));
  progress.Finish();
  std::string line = path;
  if (flags.json) {
    line.clear();
    JsonWriter writer(&line);
    writer.BeginObject().Field("reference", text).Field("path", path);
    writer.Field("commit", hub::CommitOfPath(path)).EndObject();
  }
  std::printf("%s\n", flags.json ? line.c_str() : Printable(line).c_str());
  std::fflush(stdout);
  return Status::Ok();
}

}  // namespace

int RunPull(const std::vector<std::string>& args) {
  CommandLine line(
      "pull",
      "Download models from the Hugging Face hub into its cache, which other programs share, and "
      "print where each is. What is there already is not downloaded again; a download that was cut "
      "goes on where it stopped. Without a reference: the two default models.",
      "  penstock pull\n"
      "  penstock pull sentence-transformers/all-MiniLM-L6-v2\n"
      "  penstock pull Qwen/Qwen3-0.6B-GGUF:Q8_0\n"
      "  penstock pull owner/name/folder/file.gguf@v1.0\n");
  PullFlags flags;
  AddReferences(&line, &flags.references,
                "owner/name, owner/name:QUANT or owner/name/file.gguf, each with @revision after "
                "it if wanted (docs/MODELS.md).");
  FlagSet& app = line.flags();
  const FlagGroup group(&app, "Download");
  group.Switch(
      "--refresh,!--no-refresh", flags.refresh,
      "Ask the hub for the newest commit, or take what the cache has of the revision. [on]");
  group.Switch("--tokenizer-only", flags.tokenizer_only,
               "Only what tokenizing needs; of a repository without tokenizer.json a GGUF file.");
  group.Add("--connections", flags.connections, "N", InRange(1, 16),
            "Connections for a file from 64 MiB on, each a range of it; 1 = one stream.");
  const FlagGroup output(&app, "Output");
  output.Switch("-q,--quiet", flags.quiet, "No progress on stderr.");
  output.Switch("--json", flags.json, "One JSON object a model.");
  if (const auto exit_code = line.Parse(args)) return *exit_code;
  LogWarnings();
  if (flags.references.empty()) {
    flags.references = {hub::FindDefaultModel().reference, hub::FindDemoModel().reference};
    // Those that are here as a folder or a file need no download.
    std::erase_if(flags.references, [](const std::string& text) {
      const auto reference = hub::ModelReference::Parse(text);
      if (!reference.ok() || !reference->local()) return false;
      std::printf("%s\n", Printable(reference->path).c_str());
      return true;
    });
  }
  int exit_code = kExitOk;
  for (const std::string& reference : flags.references) {
    const Status status = Pull(reference, flags);
    if (status.ok()) continue;
    exit_code = std::max(
        exit_code, IsReference(reference) ? line.Fail(status) : line.FailUsage(status.message()));
  }
  return exit_code;
}

}  // namespace penstock::cli

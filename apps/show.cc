// penstock show: what a reference stands for, and how much of it is here.
#include <fmt/format.h>

#include <cstdio>

#include "base/printable.h"
#include "cache_flags.h"
#include "commands.h"
#include "hub/default_model.h"
#include "hub/hub.h"
#include "json/json_writer.h"
#include "log/log.h"

namespace penstock::cli {
namespace {

struct Sums {
  uint64_t bytes = 0;
  uint64_t bytes_cached = 0;
  size_t files_cached = 0;
};

Sums SumsOf(const hub::ModelFacts& facts) {
  Sums sums;
  for (const hub::ModelFacts::File& file : facts.files) {
    sums.bytes += file.bytes;
    if (!file.cached) continue;
    sums.bytes_cached += file.bytes;
    ++sums.files_cached;
  }
  return sums;
}

std::string PrintJson(const hub::ModelReference& reference, const hub::ModelFacts& facts) {
  const Sums sums = SumsOf(facts);
  std::string text;
  JsonWriter writer(&text);
  writer.BeginObject().Field("reference", reference.Text());
  writer.Field("repository", reference.repository()).Field("revision", reference.revision);
  writer.Field("commit", facts.commit).Field("from_cache", facts.from_cache);
  writer.Field("format", facts.format).Field("quantisation", facts.quantisation);
  writer.Field("bytes", sums.bytes).Field("bytes_cached", sums.bytes_cached);
  writer.Field("cached", sums.files_cached == facts.files.size());
  writer.Key("files").BeginArray();
  for (const hub::ModelFacts::File& file : facts.files) {
    writer.BeginObject().Field("name", file.name).Field("bytes", file.bytes);
    writer.Field("cached", file.cached).EndObject();
  }
  writer.EndArray().Key("quantisations").BeginArray();
  for (const hub::GgufFiles& model : facts.quantisations) {
    writer.BeginObject().Field("name", model.quantisation).Field("bytes", model.bytes);
    writer.Key("files").BeginArray();
    for (const std::string& file : model.files) writer.String(file);
    writer.EndArray().EndObject();
  }
  writer.EndArray().EndObject();
  return text + '\n';
}

std::string PrintText(const hub::ModelReference& reference, const hub::ModelFacts& facts) {
  const Sums sums = SumsOf(facts);
  std::string text;
  const auto row = [&](const char* name, const std::string& value) {
    text += fmt::format("{:<14} {}\n", name, value);
  };
  row("model", reference.Short());
  row("revision", fmt::format("{}, {}{}", reference.revision, facts.commit,
                              facts.from_cache ? " (as the cache knows it)" : ""));
  row("format", facts.format + (facts.quantisation.empty() ? "" : ", " + facts.quantisation));
  row("size", BytesText(sums.bytes));
  row("here", sums.files_cached == facts.files.size()
                  ? "all of it"
                  : fmt::format("{} of {} files, {}", sums.files_cached, facts.files.size(),
                                sums.bytes_cached == 0 ? "0 bytes" : BytesText(sums.bytes_cached)));
  if (!facts.quantisations.empty()) {
    std::string list;
    for (const hub::GgufFiles& model : facts.quantisations) {
      list += (list.empty() ? "" : ", ") +
              Printable(model.quantisation.empty() ? model.files.front() : model.quantisation, 200);
      if (model.bytes > 0) list += " (" + BytesText(model.bytes) + ")";
    }
    row("quantisations", list);
  }
  std::vector<std::vector<std::string>> rows;
  for (const hub::ModelFacts::File& file : facts.files) {
    rows.push_back({"  " + file.name, BytesText(file.bytes), file.cached ? "here" : ""});
  }
  return text + "files\n" + TableText(rows, {1});
}

}  // namespace

int RunShow(const std::vector<std::string>& args) {
  CommandLine line("show",
                   "Show what a reference stands for: commit, format, the files that are fetched, "
                   "which of them are here, the quantisations there are. Downloads nothing.",
                   "  penstock show Qwen/Qwen3-0.6B-GGUF\n"
                   "  penstock show Qwen/Qwen3-0.6B-GGUF:Q8_0 --json\n");
  std::vector<std::string> references;
  bool json = false;
  AddReferences(&line, &references, "As for penstock pull.");
  FlagGroup(&line.flags(), "Output").Switch("--json", json, "One JSON object a model.");
  if (const auto exit_code = line.Parse(args)) return *exit_code;
  LogWarnings();
  if (references.empty()) return line.FailUsage("name a model: owner/name");
  int exit_code = kExitOk;
  for (size_t i = 0; i < references.size(); ++i) {
    const auto reference =
        HubReference(references[i], "penstock inspect --model describes a model that is here");
    if (!reference.ok()) {
      exit_code = std::max(exit_code, line.FailUsage(reference.status().message()));
      continue;
    }
    const auto facts = hub::DescribeReference(*reference, {});
    if (!facts.ok()) {
      if (const std::string folder = hub::ScriptFolderOf(*reference); !folder.empty()) {
        LogWarn("{} is at {}; penstock inspect --model {} describes it", references[i], folder,
                folder);
      }
      exit_code = std::max(exit_code, line.Fail(facts.status()));
      continue;
    }
    if (i > 0 && !json) std::fputc('\n', stdout);
    std::fputs((json ? PrintJson(*reference, *facts) : PrintText(*reference, *facts)).c_str(),
               stdout);
  }
  return exit_code;
}

}  // namespace penstock::cli

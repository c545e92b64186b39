// penstock rm: takes models out of the hub's cache.
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/printable.h"
#include "cache_flags.h"
#include "commands.h"
#include "hub/cache.h"
#include "hub/inventory.h"
#include "os/disk_room.h"

namespace penstock::cli {
namespace {

std::string Describe(const std::string& reference, const hub::Removal& removal) {
  const std::string size = SizeText(static_cast<int64_t>(removal.bytes));
  std::string models;
  for (const std::string& model : removal.models) {
    models += (models.empty() ? "" : ", ") + Printable(model);
  }
  if (models.empty() || models == reference) return Printable(reference) + ", " + size;
  return Printable(reference) + ": " + models + ", " + size;
}

// Asks for confirmation. For terminals alone: elsewhere `rm` asks no question.
bool Confirmed(const std::string& what) {
  std::fprintf(stderr, "remove %s? [y/N] ", what.c_str());
  char answer[16] = {};
  return std::fgets(answer, sizeof answer, stdin) != nullptr &&
         (answer[0] == 'y' || answer[0] == 'Y');
}

Status RemoveOne(const std::string& text, bool yes, bool dry_run) {
  PENSTOCK_ASSIGN_OR_RETURN(const hub::ModelReference reference,
                            HubReference(text, "rm takes models out of the hub's cache"));
  PENSTOCK_ASSIGN_OR_RETURN(
      const hub::Removal removal,
      hub::PlanRemoval(hub::DefaultCacheRoot(), reference,
                       /*revision_named=*/text.find('@') != std::string::npos));
  const std::string what = Describe(reference.Text(), removal);
  if (dry_run) {
    std::printf("would remove %s\n", what.c_str());
    return Status::Ok();
  }
  if (!yes && isatty(STDIN_FILENO) == 1 && !Confirmed(what)) {
    return {StatusCode::kCancelled, "left " + text + " as it is"};
  }
  const Status removed = hub::Remove(removal);
  if (!removed.ok()) return removed.Annotate(text);
  std::printf("removed %s\n", what.c_str());
  return Status::Ok();
}

}  // namespace

int RunRemove(const std::vector<std::string>& args) {
  CommandLine line(
      "rm",
      "Remove models from the hub's cache: a repository with all its revisions, one revision "
      "(owner/name@revision), one quantisation (owner/name:QUANT) or one file "
      "(owner/name/file.gguf). Contents that another snapshot still has stay. Asks on a terminal.",
      "  penstock rm Qwen/Qwen3-0.6B-GGUF:Q8_0\n"
      "  penstock rm owner/name owner/other --yes\n"
      "  penstock rm owner/name --dry-run\n");
  std::vector<std::string> references;
  bool yes = false;
  bool dry_run = false;
  AddReferences(&line, &references, "As penstock list names it; @revision for that one alone.");
  const FlagGroup removal(&line.flags(), "Removal");
  removal.Switch("-y,--yes", yes, "Do not ask.");
  removal.Switch("--dry-run", dry_run, "Say what would go, and leave it.");
  if (const auto exit_code = line.Parse(args)) return *exit_code;
  LogWarnings();
  if (references.empty()) return line.FailUsage("name a model: penstock list has them");
  int exit_code = kExitOk;
  for (const std::string& reference : references) {
    const Status status = RemoveOne(reference, yes, dry_run);
    if (status.ok()) continue;
    exit_code = std::max(
        exit_code, IsReference(reference) ? line.Fail(status) : line.FailUsage(status.message()));
  }
  return exit_code;
}

}  // namespace penstock::cli

#include "hub/hub.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <vector>

#include "hub/cache.h"
#include "hub/default_model.h"
#include "hub/download.h"
#include "hub/environment.h"
#include "log/log.h"

namespace penstock::hub {
namespace {

std::atomic<bool> auto_pull{true};

ResolveOptions Completed(ResolveOptions options) {
  if (options.cache_root.empty()) options.cache_root = DefaultCacheRoot();
  if (options.endpoint.empty()) options.endpoint = HubEndpoint();
  while (options.endpoint.ends_with("/")) options.endpoint.pop_back();
  if (options.token.empty()) options.token = HubToken();
  options.offline |= HubIsOffline();
  if (!options.auto_pull) options.auto_pull = auto_pull.load(std::memory_order_relaxed);
  return options;
}

std::string Joined(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "" : ", ") + name;
  return out;
}

// What the cache has of one reference.
struct Cached {
  std::string commit;                // "" = the cache does not know the revision
  std::string path;                  // of the model; "" = it cannot be used
  bool complete = false;             // the hub need not be asked
  bool listed = false;               // the hub's list of files is known
  std::vector<std::string> missing;  // of what it takes to use it
  Status choice;                     // of the files, where the list of them is known
};

std::vector<std::string> MissingOf(const RepositoryCache& cache, const std::string& commit,
                                   const FileChoice& choice) {
  std::vector<std::string> missing;
  for (const std::string& file : choice.files) {
    if (!cache.Has(commit, file)) missing.push_back(file);
  }
  return missing;
}

bool NamesGguf(const ModelReference& reference) {
  return !reference.quantisation.empty() || !reference.file.empty();
}

// For a GGUF model: chooses among `files`, those of the hub or those that are here.
bool TakeGguf(const RepositoryCache& cache, const RepositoryListing& files,
              const ModelReference& reference, Cached* cached) {
  const auto choice = ChooseFiles(files, reference, /*tokenizer_only=*/false);
  cached->choice = choice.status();
  if (!choice.ok() || choice->format != ModelFormat::kGguf) return false;
  cached->missing = MissingOf(cache, cached->commit, *choice);
  if (cached->missing.empty()) {
    const std::filesystem::path folder(cache.SnapshotFolder(cached->commit));
    cached->path = (folder / choice->files.front()).string();
  }
  return true;
}

void TakeSafetensors(const RepositoryCache& cache, bool tokenizer_only, Cached* cached) {
  const std::string& commit = cached->commit;
  const auto missing = [&](bool certain) {
    return tokenizer_only ? cache.MissingForTokenizer(commit, certain)
                          : cache.Missing(commit, certain);
  };
  cached->missing = missing(/*certain=*/true);
  if (!cached->missing.empty()) return;
  cached->path = cache.SnapshotFolder(commit);
  cached->complete = missing(/*certain=*/false).empty();
}

Cached LookUp(const RepositoryCache& cache, const ModelReference& reference, bool tokenizer_only) {
  Cached cached;
  cached.commit = cache.CommitOf(reference.revision);
  if (cached.commit.empty()) return cached;
  const auto listing = cache.ReadListing(cached.commit);
  const RepositoryListing here = cache.FilesInSnapshot(cached.commit);
  cached.listed = listing.ok();
  if (cached.listed) {
    const auto choice = ChooseFiles(*listing, reference, tokenizer_only);
    cached.choice = choice.status();
    if (!choice.ok()) return cached;
    if (choice->format != ModelFormat::kGguf) {
      TakeSafetensors(cache, tokenizer_only, &cached);
      cached.complete &= MissingOf(cache, cached.commit, *choice).empty();
      return cached;
    }
    // Any of its GGUF files has the vocabulary.
    const bool any = tokenizer_only && !NamesGguf(reference) &&
                     TakeGguf(cache, here, reference, &cached) && !cached.path.empty();
    if (!any) TakeGguf(cache, *listing, reference, &cached);
    cached.complete = !cached.path.empty();
    return cached;
  }
  // Another program made the snapshot, and may have fetched a part of the repository.
  const bool safetensors =
      here.Has("config.json") || here.Has("tokenizer.json") || GgufModelsOf(here).empty();
  if (!NamesGguf(reference) && safetensors) {
    TakeSafetensors(cache, tokenizer_only, &cached);
  } else if (TakeGguf(cache, here, reference, &cached)) {
    cached.complete = !cached.path.empty() && NamesGguf(reference);
  }
  return cached;
}

Status NotCached(const ModelReference& reference, const ResolveOptions& options,
                 const Cached& cached) {
  std::string text = reference.repository() + "@" + reference.revision;
  if (cached.listed && !cached.choice.ok()) return cached.choice;
  if (!cached.missing.empty()) {
    text += " lacks " + Joined(cached.missing);
  } else if (!cached.commit.empty() && NamesGguf(reference)) {
    text += " has no " + reference.Short();
    const auto here =
        GgufModelsOf(RepositoryCache(options.cache_root, reference).FilesInSnapshot(cached.commit));
    if (!here.empty()) text += " (but " + QuantisationList(here) + ")";
  } else {
    text += " is not";
  }
  return Status::NotFound(text + " in the cache " + options.cache_root +
                              ", and downloads are switched off (" +
                              (options.offline ? "HF_HUB_OFFLINE" : "--no-auto-pull") +
                              "); get it with: penstock pull " + reference.Text() +
                              (options.offline ? ", with a network; or" : "; or") +
                              " give the path of a local model folder instead",
                          "model");
}

// Finishes a partial download at its own commit, unless the newest is wanted, or the list of that
// commit lacks what is asked for.
ModelReference WantedOf(const ModelReference& reference, const Cached& cached, bool refresh) {
  ModelReference wanted = reference;
  if (!cached.commit.empty() && !refresh && (!cached.listed || cached.choice.ok())) {
    wanted.revision = cached.commit;
  }
  return wanted;
}

Status CannotGet(Status status, const std::string& text) {
  status = status.Annotate("cannot get " + text);
  if (status.code() != StatusCode::kUnavailable) return status;
  return {StatusCode::kUnavailable,
          status.message() + "; give the path of a local model folder instead", "model"};
}

}  // namespace

void SetAutoPull(bool allowed) { auto_pull.store(allowed, std::memory_order_relaxed); }

Expected<std::string> ResolveModel(const std::string& text, const ResolveOptions& given) {
  PENSTOCK_ASSIGN_OR_RETURN(const ModelReference reference, ModelReference::Parse(text));
  if (reference.local()) return reference.path;

  const ResolveOptions options = Completed(given);
  const bool offline = options.offline || !*options.auto_pull;
  const RepositoryCache cache(options.cache_root, reference);
  const Cached cached = LookUp(cache, reference, options.tokenizer_only);
  const bool usable = !cached.path.empty();
  if (cached.complete && (!options.refresh || offline)) return cached.path;
  if (!usable && !options.refresh) {
    if (std::string folder = ScriptFolderOf(reference); !folder.empty()) return folder;
  }
  if (offline) {
    if (usable && !options.complete) return cached.path;
    return NotCached(reference, options, cached);
  }
  const auto got = DownloadSnapshot(WantedOf(reference, cached, options.refresh), cache, options);
  if (got.ok()) {
    const std::string folder = cache.SnapshotFolder(got->commit);
    if (got->choice.format != ModelFormat::kGguf) return folder;
    return (std::filesystem::path(folder) / got->choice.files.front()).string();
  }
  // Without an answer from the hub the cached snapshot is used.
  if (usable && got.status().code() == StatusCode::kUnavailable) {
    LogWarn("{}; using {} as it is in the cache", got.status().message(), text);
    return cached.path;
  }
  return CannotGet(got.status(), text);
}

Expected<ModelFacts> DescribeReference(const ModelReference& reference,
                                       const ResolveOptions& given) {
  PENSTOCK_CHECK(!reference.local());
  const ResolveOptions options = Completed(given);
  const RepositoryCache cache(options.cache_root, reference);
  Expected<RepositoryListing> listing = Status::NotFound("");
  ModelFacts facts;
  if (!options.offline) listing = FetchListing(reference, options, /*sizes=*/true);
  if (!listing.ok()) {
    const std::string commit = cache.CommitOf(reference.revision);
    const bool asked = !options.offline;
    if (asked && (commit.empty() || listing.status().code() != StatusCode::kUnavailable)) {
      return CannotGet(listing.status(), reference.Text());
    }
    if (commit.empty()) return NotCached(reference, options, {});
    if (asked) LogWarn("{}; this is what the cache knows", listing.status().message());
    facts.from_cache = true;
    listing = cache.ReadListing(commit);
    if (!listing.ok()) listing = cache.FilesInSnapshot(commit);
  }
  facts.commit = listing->commit;
  const RepositoryListing here = cache.FilesInSnapshot(facts.commit);
  for (auto& [name, bytes] : listing->files) {
    const auto found = here.files.find(name);
    if (bytes == 0 && found != here.files.end()) bytes = found->second;
  }
  facts.quantisations = GgufModelsOf(*listing);
  PENSTOCK_ASSIGN_OR_RETURN(FileChoice choice,
                            ChooseFiles(*listing, reference, /*tokenizer_only=*/false));
  if (choice.sharded) {
    // Which shards the index names is known once it is here; their names say so before.
    for (const auto& [name, bytes] : listing->files) {
      if (name.starts_with("model-") && name.ends_with(".safetensors")) {
        choice.files.push_back(name);
      }
    }
  }
  facts.format = FormatName(choice.format);
  facts.quantisation = choice.quantisation;
  for (const std::string& name : choice.files) {
    facts.files.push_back({name, listing->files.at(name), here.Has(name)});
  }
  return facts;
}

}  // namespace penstock::hub

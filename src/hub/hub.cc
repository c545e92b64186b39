#include "hub/hub.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <utility>
#include <vector>

#include "common/log.h"
#include "hub/cache.h"
#include "hub/download.h"

namespace penstock {
namespace {

std::string EnvOr(const char* name, std::string absent) {
  const char* value = std::getenv(name);
  return value != nullptr && value[0] != '\0' ? value : std::move(absent);
}

// As huggingface_hub reads its switches.
bool EnvIsTrue(const char* name) {
  std::string value = EnvOr(name, "");
  std::transform(value.begin(), value.end(), value.begin(),
                 [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
  return value == "1" || value == "ON" || value == "YES" || value == "TRUE";
}

ResolveOptions Completed(ResolveOptions options) {
  if (options.cache_root.empty()) options.cache_root = DefaultCacheRoot();
  if (options.endpoint.empty()) {
    options.endpoint = EnvOr("HF_ENDPOINT", "https://huggingface.co");
  }
  while (options.endpoint.ends_with("/")) options.endpoint.pop_back();
  if (options.token.empty()) options.token = EnvOr("HF_TOKEN", "");
  options.offline |= EnvIsTrue("HF_HUB_OFFLINE") || EnvIsTrue("TRANSFORMERS_OFFLINE");
  return options;
}

std::string Joined(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "" : ", ") + name;
  return out;
}

Status NotCached(const ModelReference& reference, const ResolveOptions& options,
                 const std::vector<std::string>& missing) {
  const std::string what = missing.empty() ? "is not" : "lacks " + Joined(missing);
  return Status::NotFound(reference.repository() + "@" + reference.revision + " " + what +
                              " in the cache " + options.cache_root +
                              ", and downloads are switched off (HF_HUB_OFFLINE); give the path "
                              "of a local model folder instead",
                          "model");
}

}  // namespace

Expected<std::string> ResolveModel(const std::string& text, const ResolveOptions& given) {
  PENSTOCK_ASSIGN_OR_RETURN(const ModelReference reference, ModelReference::Parse(text));
  if (reference.local()) return reference.path;

  const ResolveOptions options = Completed(given);
  const RepositoryCache cache(options.cache_root, reference);
  const std::string cached = cache.CommitOf(reference.revision);
  const auto missing = [&](bool certain) {
    return options.tokenizer_only ? cache.MissingForTokenizer(cached, certain)
                                  : cache.Missing(cached, certain);
  };
  const bool usable = !cached.empty() && missing(/*certain=*/true).empty();
  const bool complete = usable && missing(/*certain=*/false).empty();
  if (complete && (!options.refresh || options.offline)) return cache.SnapshotFolder(cached);
  if (options.offline) {
    if (usable) return cache.SnapshotFolder(cached);
    return NotCached(reference, options,
                     cached.empty() ? std::vector<std::string>() : missing(/*certain=*/true));
  }

  // A partial download is finished at its own commit, unless the newest is wanted.
  ModelReference wanted = reference;
  if (!cached.empty() && !options.refresh) wanted.revision = cached;
  const auto commit = DownloadSnapshot(wanted, cache, options);
  if (commit.ok()) return cache.SnapshotFolder(*commit);
  // Without an answer from the hub the cached snapshot is used.
  if (usable && commit.status().code() == StatusCode::kUnavailable) {
    LogWarn("{}; using {} as it is in the cache", commit.status().message(), text);
    return cache.SnapshotFolder(cached);
  }
  Status status = commit.status().Annotate("cannot get " + text);
  if (status.code() == StatusCode::kUnavailable) {
    status = Status(StatusCode::kUnavailable,
                    status.message() + "; give the path of a local model folder instead", "model");
  }
  return status;
}

}  // namespace penstock

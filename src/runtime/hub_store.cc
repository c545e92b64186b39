#include "runtime/hub_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "hub/cache.h"
#include "hub/hub.h"
#include "hub/inventory.h"
#include "log/exception_status.h"
#include "log/log.h"
#include "runtime/per_model.h"

namespace penstock::runtime {
namespace {

Expected<hub::ModelReference> HubReference(const std::string& text) {
  auto reference = hub::ModelReference::ParseHub(text);
  if (reference.ok()) return reference;
  return Status::InvalidArgument(
      fmt::format("'{:.200}' is not a model of the Hugging Face hub, from which models are pulled: "
                  "owner/name, owner/name:QUANT or owner/name/file.gguf",
                  text),
      "model");
}

// The reference of a model of the hub, in one spelling; "": it is not of the hub.
std::string HubText(const std::string& reference) {
  const auto parsed = hub::ModelReference::Parse(reference);
  return parsed.ok() && !parsed->local() ? parsed->Text() : "";
}

bool AnswersTo(const registry::Registry::Entry& entry, const std::string& name) {
  const auto& aliases = entry.aliases;
  return name == entry.name || std::find(aliases.begin(), aliases.end(), name) != aliases.end();
}

// With the quantisation or the file that it stands for, where that is a GGUF file in the cache.
hub::ModelReference Exact(hub::ModelReference reference) {
  if (!reference.quantisation.empty() || !reference.file.empty()) return reference;
  hub::ResolveOptions offline;
  offline.offline = true;
  const auto facts = hub::DescribeReference(reference, offline);
  if (!facts.ok() || facts->format != "gguf" || facts->files.empty()) return reference;
  reference.quantisation = facts->quantisation;
  if (reference.quantisation.empty()) reference.file = facts->files.front().name;
  return reference;
}

// What a pull has left that is refused; nothing of the repository was there before.
void RemovePulled(const hub::ModelReference& reference) {
  hub::ModelReference whole = reference;
  whole.quantisation = whole.file = "";
  const auto removal = hub::PlanRemoval(hub::DefaultCacheRoot(), whole, /*revision_named=*/false);
  Status removed = removal.status();
  if (removal.ok()) removed = penstock::hub::Remove(*removal);
  if (removed.ok()) {
    LogInfo("what was pulled of '{}' is removed: it is refused", reference.repository());
  } else if (removed.code() != StatusCode::kNotFound) {
    LogWarn("what was pulled of '{}' stays: {}", reference.repository(), removed.message());
  }
}

// Whether another model of `entries` needs files of this one.
bool IsShared(const std::vector<registry::Registry::Entry>& entries,
              const registry::Registry::Entry& one, const hub::ModelReference& exact) {
  return std::any_of(entries.begin(), entries.end(), [&](const registry::Registry::Entry& entry) {
    if (entry.name == one.name || HubText(entry.reference).empty()) return false;
    const auto other = hub::ModelReference::Parse(entry.reference);
    if (other->repository() != exact.repository()) return false;
    const hub::ModelReference of_other = Exact(*other);
    const bool gguf = !exact.quantisation.empty() || !exact.file.empty();
    return !gguf || (of_other.quantisation == exact.quantisation && of_other.file == exact.file);
  });
}

}  // namespace

Expected<std::unique_ptr<HubStore>> HubStore::Make(registry::Registry* registry,
                                                   const ModelOptions& options) {
  PENSTOCK_ASSIGN_OR_RETURN(ModelOptions for_any, ForAnyModel(options));
  return std::unique_ptr<HubStore>(new HubStore(registry, std::move(for_any)));
}

HubStore::~HubStore() {
  stopping_ = true;
  const std::lock_guard lock(mutex_);
  if (thread_.joinable()) thread_.join();
}

Status HubStore::Pull(const std::string& asked, OnProgress progress, OnPulled done) {
  PENSTOCK_ASSIGN_OR_RETURN(const hub::ModelReference parsed, HubReference(asked));
  const std::string reference = parsed.Text();
  if (pulling_.exchange(true)) {
    return Status(StatusCode::kResourceExhausted, "another model is being pulled; one at a time is",
                  "model")
        .WithRetryAfter(10);
  }
  try {
    const std::lock_guard lock(mutex_);
    if (thread_.joinable()) thread_.join();  // it has ended, or is about to
    thread_ = std::thread(
        [this, asked, reference, progress = std::move(progress), done = std::move(done)] {
          Status status;
          try {
            status = PullNow(asked, reference, progress);
          } catch (...) {
            status = ExceptionStatus();
          }
          pulling_ = false;
          RunGuarded("pull", [&] { done(status); });
        });
  } catch (...) {
    pulling_ = false;
    return ExceptionStatus();
  }
  return Status::Ok();
}

Status HubStore::PullNow(const std::string& asked, const std::string& reference,
                         const OnProgress& progress) const {
  PENSTOCK_RETURN_IF_ERROR(CheckServable(asked, reference));
  hub::ResolveOptions resolve;
  resolve.auto_pull = true;
  resolve.refresh = true;
  // A stranger's callback: what it throws ends here.
  resolve.progress = [&](const hub::HubProgress& now) {
    bool goes_on = false;
    RunGuarded("pull", [&] {
      goes_on = !stopping_ &&
                progress({now.file, now.file_bytes_done, now.file_bytes_total, now.checking});
    });
    return goes_on;
  };
  PENSTOCK_ASSIGN_OR_RETURN(const hub::ModelReference parsed, HubReference(reference));
  PENSTOCK_ASSIGN_OR_RETURN(const hub::ModelFacts facts, hub::DescribeReference(parsed, resolve));
  uint64_t missing = 0;
  for (const hub::ModelFacts::File& file : facts.files) missing += file.cached ? 0 : file.bytes;
  if (missing > options_.pull_bytes_max) {
    return {StatusCode::kPayloadTooLarge,
            fmt::format("'{}' has {} bytes to download; the limit is {} (--max-pull-bytes)",
                        reference, missing, options_.pull_bytes_max),
            "model"};
  }
  const hub::RepositoryCache cache(hub::DefaultCacheRoot(), parsed);
  std::error_code ignored;
  const bool was_here = std::filesystem::exists(cache.folder(), ignored);
  resolve.bytes_max = options_.pull_bytes_max;
  Status status = hub::ResolveModel(reference, resolve).status();
  const bool too_large = status.code() == StatusCode::kPayloadTooLarge;
  const bool came = status.ok();
  if (too_large) status = {status.code(), status.message() + " (--max-pull-bytes)", "model"};
  if (came) status = Serve(asked, reference);
  // A download that stopped on its way is kept, to go on; one that is refused is not.
  if (!status.ok() && (came || too_large) && !was_here) RemovePulled(parsed);
  return status;
}

Expected<registry::ModelSpec> HubStore::SpecOf(const std::string& asked,
                                               const std::string& reference) const {
  ModelOptions options = options_;
  options.models = {reference};
  options.served_names.clear();
  PENSTOCK_ASSIGN_OR_RETURN(auto specs, ModelSpecs(options));
  registry::ModelSpec& spec = specs.front();
  if (asked != spec.name) spec.aliases.push_back(asked);
  return std::move(spec);
}

Status HubStore::CheckServable(const std::string& asked, const std::string& reference) const {
  for (const registry::Registry::Entry& entry : registry_->List()) {
    if (HubText(entry.reference) == reference) return Status::Ok();
    if (!AnswersTo(entry, asked)) continue;
    return Status::InvalidArgument(
        fmt::format("the name '{}' belongs to a model that is served from elsewhere", asked),
        "model");
  }
  PENSTOCK_ASSIGN_OR_RETURN(const registry::ModelSpec spec, SpecOf(asked, reference));
  return registry_->CanAdd(spec);
}

Status HubStore::Serve(const std::string& asked, const std::string& reference) const {
  for (const registry::Registry::Entry& entry : registry_->List()) {
    if (AnswersTo(entry, asked)) return Status::Ok();
    if (HubText(entry.reference) == reference) return registry_->AddAlias(entry.name, asked);
  }
  PENSTOCK_ASSIGN_OR_RETURN(registry::ModelSpec spec, SpecOf(asked, reference));
  PENSTOCK_RETURN_IF_ERROR(registry_->Add(std::move(spec)));
  LogInfo("model '{}' was pulled and is served", reference);
  return Status::Ok();
}

Status HubStore::Delete(const std::string& name) {
  const auto entries = registry_->List();
  const auto found = std::find_if(entries.begin(), entries.end(),
                                  [&](const auto& entry) { return AnswersTo(entry, name); });
  if (found == entries.end()) {
    return Status::NotFound(fmt::format("model '{:.200}' is not served", name), "model");
  }
  const auto reference = hub::ModelReference::Parse(found->reference);
  if (!reference.ok() || reference->local() || found->version > 0) {
    return {StatusCode::kUnprocessable,
            fmt::format("model '{}' is not from the hub's cache: its files are not deleted here",
                        found->name),
            "model"};
  }
  const hub::ModelReference exact = Exact(*reference);
  if (IsShared(entries, *found, exact)) {
    LogInfo("model '{}' is served no more; another needs its files", found->name);
    return registry_->Remove(found->name);
  }
  const bool revision_named = found->reference.find('@') != std::string::npos;
  const auto removal = hub::PlanRemoval(hub::DefaultCacheRoot(), exact, revision_named);
  if (removal.ok()) {
    PENSTOCK_RETURN_IF_ERROR(penstock::hub::Remove(*removal));
  } else if (removal.code() != StatusCode::kNotFound) {  // that: it is not downloaded yet
    return removal.status();
  }
  LogInfo("model '{}' is deleted", found->name);
  return registry_->Remove(found->name);
}

}  // namespace penstock::runtime

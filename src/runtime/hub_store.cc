#include "runtime/hub_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/exception_status.h"
#include "common/log.h"
#include "hub/cache.h"
#include "hub/hub.h"
#include "hub/inventory.h"
#include "runtime/per_model.h"

namespace penstock {
namespace {

// Ollama's clients put the host before a model of the hub.
std::string WithoutHost(const std::string& reference) {
  for (const std::string_view host : {"hf.co/", "huggingface.co/"}) {
    if (reference.starts_with(host)) return reference.substr(host.size());
  }
  return reference;
}

Expected<ModelReference> HubReference(const std::string& text) {
  auto reference = ModelReference::ParseHub(text);
  if (reference.ok()) return reference;
  return Status::InvalidArgument(
      fmt::format("'{:.200}' is no model of the Hugging Face hub, which models are pulled from: "
                  "owner/name, owner/name:QUANT or owner/name/file.gguf",
                  text),
      "model");
}

}  // namespace

Expected<std::unique_ptr<HubStore>> HubStore::Make(Registry* registry,
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
  const std::string reference = WithoutHost(asked);
  PENSTOCK_RETURN_IF_ERROR(HubReference(reference).status());
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
  ResolveOptions resolve;
  resolve.auto_pull = true;
  resolve.refresh = true;
  // It is called from within libcurl, which knows no exceptions.
  resolve.progress = [&](const HubProgress& now) {
    bool goes_on = false;
    RunGuarded("pull", [&] {
      goes_on = !stopping_ &&
                progress({now.file, now.file_bytes_done, now.file_bytes_total, now.checking});
    });
    return goes_on;
  };
  PENSTOCK_ASSIGN_OR_RETURN(const ModelReference parsed, HubReference(reference));
  PENSTOCK_ASSIGN_OR_RETURN(const ModelFacts facts, DescribeReference(parsed, resolve));
  uint64_t missing = 0;
  for (const ModelFacts::File& file : facts.files) missing += file.cached ? 0 : file.bytes;
  if (missing > options_.pull_bytes_max) {
    return {StatusCode::kPayloadTooLarge,
            fmt::format("'{}' has {} bytes to download; the limit is {} (--max-pull-bytes)",
                        reference, missing, options_.pull_bytes_max),
            "model"};
  }
  PENSTOCK_RETURN_IF_ERROR(ResolveModel(reference, resolve).status());
  return Serve(asked, reference);
}

Status HubStore::Serve(const std::string& asked, const std::string& reference) const {
  if (registry_->Has(asked)) return Status::Ok();
  ModelOptions options = options_;
  options.models = {reference};
  options.served_names.clear();
  PENSTOCK_ASSIGN_OR_RETURN(auto specs, ModelSpecs(options));
  ModelSpec& spec = specs.front();
  if (asked != spec.name) spec.aliases.push_back(asked);
  PENSTOCK_RETURN_IF_ERROR(registry_->Add(std::move(spec)));
  LogInfo("model '{}' was pulled and is served", reference);
  return Status::Ok();
}

Status HubStore::Delete(const std::string& name) {
  const auto entries = registry_->List();
  const auto found = std::find_if(entries.begin(), entries.end(), [&](const auto& entry) {
    const auto& aliases = entry.aliases;
    return name == entry.name || std::find(aliases.begin(), aliases.end(), name) != aliases.end();
  });
  if (found == entries.end()) {
    return Status::NotFound(fmt::format("model '{:.200}' is not served", name), "model");
  }
  const auto reference = ModelReference::Parse(found->reference);
  if (!reference.ok() || reference->local() || found->version > 0) {
    return {StatusCode::kUnprocessable,
            fmt::format("model '{}' is not from the hub's cache: its files are not deleted here",
                        found->name),
            "model"};
  }
  const bool revision_named = found->reference.find('@') != std::string::npos;
  auto removal = PlanRemoval(DefaultCacheRoot(), *reference, revision_named);
  // Served, and not downloaded yet: there are no files.
  if (!removal.ok() && removal.code() != StatusCode::kNotFound) return removal.status();
  PENSTOCK_RETURN_IF_ERROR(registry_->Remove(found->name));
  LogInfo("model '{}' is deleted", found->name);
  return removal.ok() ? Remove(*removal) : Status::Ok();
}

}  // namespace penstock

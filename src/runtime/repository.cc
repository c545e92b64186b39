#include "runtime/repository.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <utility>

#include "log/exception_status.h"
#include "log/log.h"
#include "runtime/per_model.h"
#include "runtime/tensor_settings.h"

namespace penstock::runtime {
namespace {

constexpr std::chrono::milliseconds kStopCheck{50};
// Polls that must have missed what is given up.
constexpr int kMissingMax = 2;

}  // namespace

Repository::Repository(registry::Registry* registry, ModelOptions options)
    : registry_(registry), options_(std::move(options)) {}

Expected<std::unique_ptr<Repository>> Repository::Open(registry::Registry* registry,
                                                       const ModelOptions& options) {
  PENSTOCK_ASSIGN_OR_RETURN(ModelOptions for_any, ForAnyModel(options));
  std::unique_ptr<Repository> made(new Repository(registry, std::move(for_any)));
  PENSTOCK_RETURN_IF_ERROR(made->Look(true));
  if (made->known_.empty()) LogWarn("--repository: there is no model yet");
  return made;
}

Repository::~Repository() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void Repository::Start() {
  RunGuarded("repository", [this] { thread_ = std::thread([this] { Run(); }); });
}

void Repository::Run() {
  pthread_setname_np(pthread_self(), "repository");
  const std::chrono::seconds poll(options_.repository_poll_s);
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, poll, [this] { return stopping_; })) {
    lock.unlock();
    RunGuarded("repository", [this] { Poll(); });
    lock.lock();
  }
}

Status Repository::Look(bool first) {
  std::set<std::string> there;
  for (const std::string& folder : options_.repositories) {
    const Status looked = LookAt(folder, first, &there);
    if (looked.ok()) continue;
    if (first) return looked.Annotate("--repository");
    Tell(fmt::format("--repository {}: {}", folder, looked.message()));
    for (const auto& [name, known] : known_) {
      if (known.folder == folder) there.insert(name);
    }
  }
  Drop(there);
  told_ = std::exchange(telling_, {});
  return Status::Ok();
}

Status Repository::LookAt(const std::string& folder, bool first, std::set<std::string>* there) {
  PENSTOCK_ASSIGN_OR_RETURN(RepositoryContents found, ScanRepository(folder));
  for (const std::string& left_out : found.left_out) Tell(left_out);
  for (RepositoryModel& model : found.models) {
    const auto [at, is_new] = known_.try_emplace(model.name);
    Known& known = at->second;
    if (is_new) known.folder = folder;
    if (known.folder != folder) {
      const std::string both =
          fmt::format("two models are named '{}': in {} and {}", model.name, known.folder, folder);
      if (first) return Status::InvalidArgument(both, "repository");
      Tell(both);
      continue;
    }
    there->insert(model.name);
    known.missing = 0;
    auto config = ReadTensorSettings(&model);
    if (config) {
      for (const std::string& setting : config->no_effect) Tell(setting);
    }
    PENSTOCK_RETURN_IF_ERROR(Update({std::move(model), std::move(config)}, first, &known));
  }
  return Status::Ok();
}

void Repository::Drop(const std::set<std::string>& there) {
  for (auto at = known_.begin(); at != known_.end();) {
    const auto one = at++;
    if (there.contains(one->first) || ++one->second.missing < kMissingMax) continue;
    if (one->second.added && registry_->Remove(one->first).ok()) {
      LogInfo("model '{}' was removed from {}", one->first, one->second.folder);
    }
    known_.erase(one);
  }
}

// Where the registry stepped back to an older version, those above it have failed.
void Repository::FollowRegistry(const std::string& name, Known* known) const {
  for (const registry::Registry::Entry& entry : registry_->List()) {
    if (entry.name != name || entry.version >= known->served.number) continue;
    const std::string why = entry.refused ? entry.refused->error : "it could not be loaded";
    for (const auto& [number, files] : known->seen) {
      if (number > entry.version && number < known->served.number) {
        known->failed.try_emplace(number, Failure{files, why});
      }
    }
    known->failed[known->served.number] = {known->served.files, why};
    known->served = {entry.version, "", known->seen[entry.version], ""};
  }
}

Status Repository::Update(const Found& found, bool first, Known* known) {
  const RepositoryModel& model = found.model;
  if (known->added) FollowRegistry(model.name, known);
  std::map<int64_t, uint64_t> now;
  for (const RepositoryVersion& version : model.versions) now[version.number] = version.files;
  std::erase_if(known->failed, [&](const auto& failed) {
    const auto there = now.find(failed.first);
    return there == now.end() || there->second != failed.second.files;
  });
  for (const RepositoryVersion& version : model.versions) {
    if (version.error.empty()) continue;
    Tell(fmt::format("model '{}': version {} is not taken: {}", model.name, version.number,
                     version.error));
    known->failed[version.number] = {version.files, version.error};
  }
  const bool served_there = now.contains(known->served.number);
  known->served_missing = served_there ? 0 : known->served_missing + 1;
  for (const RepositoryVersion& version : model.versions) {
    if (known->failed.contains(version.number)) continue;
    const RepositoryVersion& served = known->served;
    if (known->added && version.number == served.number && version.files == served.files) break;
    const auto seen = known->seen.find(version.number);
    if (!first && (seen == known->seen.end() || seen->second != version.files)) break;
    // An older one is taken where the one that serves is gone, not where its files are no good now.
    if (known->added && version.number < served.number &&
        (served_there || known->served_missing < kMissingMax)) {
      break;
    }
    PENSTOCK_ASSIGN_OR_RETURN(const Taken taken, Take(found, version, first, known));
    if (taken != Taken::kFailed) break;
  }
  known->seen = std::move(now);
  Report(model.name, known);
  return Status::Ok();
}

Expected<Repository::Taken> Repository::Take(const Found& found, const RepositoryVersion& version,
                                             bool first, Known* known) {
  const RepositoryModel& model = found.model;
  const auto fail = [&](const Status& why) {
    LogWarn("model '{}': version {} is not taken: {}", model.name, version.number, why.message());
    known->failed[version.number] = {version.files, why.message()};
    return Taken::kFailed;
  };
  auto spec = SpecOf(found, version, *known);
  if (!spec.ok()) return fail(spec.status());
  if (!known->added) {
    if (const Status names = registry_->CanAdd(*spec); !names.ok()) {
      if (first && names.code() == StatusCode::kInvalidArgument) return names;
      Tell(fmt::format("model '{}' is left out: {}", model.name, names.message()));
      return Taken::kLater;
    }
    if (const Status added = registry_->Add(*std::move(spec)); !added.ok()) return fail(added);
    known->added = true;
    if (!first) LogInfo("model '{}' was added from {}", model.name, known->folder);
  } else if (const Status replaced = Replace(*std::move(spec)); !replaced.ok()) {
    if (replaced.code() != StatusCode::kResourceExhausted &&
        replaced.code() != StatusCode::kUnavailable) {
      return fail(replaced);
    }
    Tell(fmt::format("model '{}': version {} has to wait: {}", model.name, version.number,
                     replaced.message()));
    registry_->SetRefusedVersion(model.name,
                                 registry::RefusedVersion{version.number, replaced.message()});
    known->reported = version.number;
    return Taken::kLater;
  } else {
    LogInfo("model '{}': version {} serves in place of version {}", model.name, version.number,
            known->served.number);
  }
  known->served = version;
  known->served_missing = 0;
  return Taken::kYes;
}

Expected<registry::ModelSpec> Repository::SpecOf(const Found& found,
                                                 const RepositoryVersion& version,
                                                 const Known& known) const {
  const RepositoryModel& model = found.model;
  const auto reference = [&](const std::string& path) {
    return found.config ? TensorModelReference(*found.config, path) : path;
  };
  ModelOptions options = options_;
  options.models = {reference(version.path)};
  options.served_names = {model.name};
  if (!model.settings.empty() && options_.read_model_file != nullptr) {
    PENSTOCK_RETURN_IF_ERROR(options_.read_model_file(model.settings, &options));
  }
  auto specs = ModelSpecs(options);
  if (!specs.ok()) {
    return model.settings.empty() ? specs.status() : specs.status().Annotate(model.settings);
  }
  registry::ModelSpec& spec = specs->front();
  spec.version = version.number;
  if (found.config) ApplyTensorSettings(*found.config, &spec);
  for (const RepositoryVersion& older : model.versions) {
    if (older.number < version.number && !known.failed.contains(older.number)) {
      spec.older.push_back({older.number, reference(older.path)});
    }
  }
  return std::move(spec);
}

// Waits for the load, but not when this is being destroyed.
Status Repository::Replace(registry::ModelSpec spec) {
  const auto outcome = registry_->Replace(std::move(spec));
  while (outcome.wait_for(kStopCheck) != std::future_status::ready) {
    const std::lock_guard lock(mutex_);
    if (stopping_) return {StatusCode::kUnavailable, "the server is shutting down"};
  }
  return outcome.get();
}

// Tells the registry of the highest version that is not taken, if it is above the one that serves
// or has its number.
void Repository::Report(const std::string& name, Known* known) {
  if (!known->added) return;
  const auto last = known->failed.rbegin();
  const bool failed = last != known->failed.rend() && last->first >= known->served.number;
  const bool waits =
      known->reported > known->served.number && !failed && known->seen.contains(known->reported);
  if (waits || (!failed && known->reported == 0)) return;
  known->reported = failed ? last->first : 0;
  registry_->SetRefusedVersion(
      name, failed ? std::optional(registry::RefusedVersion{last->first, last->second.why})
                   : std::nullopt);
}

// Once, as long as poll after poll has it to say.
void Repository::Tell(const std::string& what) {
  telling_.insert(what);
  if (!told_.contains(what)) LogWarn("{}", what);
}

}  // namespace penstock::runtime

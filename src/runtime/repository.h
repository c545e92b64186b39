// Repository: the models of --repository folders, each in its highest good version, while the
// folders change. runtime/repository_scan.h has their form.
//
// One thread polls. A version is taken once two polls in a row have found the same files, sizes and
// times: until then it may be half copied. What is taken is loaded beside what serves and takes its
// place (Registry::Replace); what fails is told in the log and in Registry::List, and tried again
// when its files change, or at the next poll where memory was short. A version whose files change
// while it serves, or whose model.toml or config.pbtxt does, is taken like a new one. What was
// removed is given up after two polls without it, so that a folder may be renamed into its place. A
// folder that cannot be read changes nothing.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "kserve/model_config.h"
#include "registry/registry.h"
#include "runtime/model_options.h"
#include "runtime/repository_scan.h"

namespace penstock::runtime {

class Repository {
 public:
  // Adds the models that are there to `registry`, which must outlive this; before its StartLoading.
  // `options`: `repositories` and, for their models, all settings that are not of a named model.
  // kInvalidArgument: a folder cannot be read, or a name is taken.
  static Expected<std::unique_ptr<Repository>> Open(registry::Registry* registry,
                                                    const ModelOptions& options);
  // Ends the thread; waits for no load.
  ~Repository();
  Repository(const Repository&) = delete;
  Repository& operator=(const Repository&) = delete;

  // Polls from now on, on a thread of its own; where it cannot be started, models stay as they are.
  void Start();
  // One poll; not after Start. Returns when what it takes is loaded or refused.
  void Poll() { (void)Look(false); }

 private:
  struct Failure {
    uint64_t files = 0;
    std::string why;
  };
  struct Known {
    std::string folder;                 // the repository
    bool added = false;                 // to the registry
    RepositoryVersion served;           // with its files as they were when it was taken
    int served_missing = 0;             // polls in a row that did not find it
    int missing = 0;                    // the same of the whole model
    std::map<int64_t, uint64_t> seen;   // files of each version in the last poll
    std::map<int64_t, Failure> failed;  // while their files stay as they were
    int64_t reported = 0;               // version of which the registry was told; 0: none
  };
  enum class Taken { kYes, kFailed, kLater };

  Repository(registry::Registry* registry, ModelOptions options);
  // `first`: when the server starts, where a name that is taken is an error and nothing is waited
  // for.
  Status Look(bool first);
  Status LookAt(const std::string& folder, bool first, std::set<std::string>* there);
  struct Found {  // in a folder
    RepositoryModel model;
    std::optional<kserve::TensorModelConfig> config;
  };
  Status Update(const Found& found, bool first, Known* known);
  void FollowRegistry(const std::string& name, Known* known) const;
  Expected<Taken> Take(const Found& found, const RepositoryVersion& version, bool first,
                       Known* known);
  Expected<registry::ModelSpec> SpecOf(const Found& found, const RepositoryVersion& version,
                                       const Known& known) const;
  Status Replace(registry::ModelSpec spec);
  void Report(const std::string& name, Known* known);
  void Drop(const std::set<std::string>& there);
  void Tell(const std::string& what);
  void Run();

  registry::Registry* const registry_;
  const ModelOptions options_;
  std::map<std::string, Known> known_;
  std::set<std::string> told_, telling_;  // in the last poll, and in this one

  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace penstock::runtime

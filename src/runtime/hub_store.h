// HubStore: models of the Hugging Face hub, pulled into its cache and served.
//
// A pull runs on a thread of its own, one at a time.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "api/model_store.h"
#include "registry/registry.h"
#include "runtime/model_options.h"

namespace penstock::runtime {

class HubStore final : public api::ModelStore {
 public:
  // `options`: settings of the models that are pulled, but for those of named models, and
  // `pull_bytes_max`. `registry` must outlive it. kInvalidArgument: an option is not valid.
  static Expected<std::unique_ptr<HubStore>> Make(registry::Registry* registry,
                                                  const ModelOptions& options);
  // Gives up the pull under way and waits for its end.
  ~HubStore() override;
  HubStore(const HubStore&) = delete;
  HubStore& operator=(const HubStore&) = delete;

  Status Pull(const std::string& reference, OnProgress progress, OnPulled done) override;
  Status Delete(const std::string& name) override;

 private:
  HubStore(registry::Registry* registry, ModelOptions options)
      : registry_(registry), options_(std::move(options)) {}
  Status PullNow(const std::string& asked, const std::string& reference,
                 const OnProgress& progress) const;
  // Refuses before the download what could not be served after it.
  Status CheckServable(const std::string& asked, const std::string& reference) const;
  Status Serve(const std::string& asked, const std::string& reference) const;
  Expected<registry::ModelSpec> SpecOf(const std::string& asked,
                                       const std::string& reference) const;

  registry::Registry* const registry_;
  const ModelOptions options_;
  std::atomic<bool> stopping_{false};
  std::atomic<bool> pulling_{false};
  std::mutex mutex_;
  std::thread thread_;  // guarded by mutex_
};

}  // namespace penstock::runtime

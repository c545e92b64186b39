// LocalModels: devices, registry and service of one process, made from options.
#pragma once

#include <memory>
#include <vector>

#include "api/service.h"
#include "devices/backends.h"
#include "metrics/metrics.h"
#include "registry/registry.h"
#include "runtime/hub_store.h"
#include "runtime/model_options.h"
#include "runtime/reference_check.h"
#include "runtime/repository.h"

namespace penstock::runtime {

// Everything that answers requests in this process. Destroyed in reverse: check, store, repository,
// service, registry, devices.
struct LocalModels {
  // Makes everything and starts loading; does not wait for it.
  static Expected<std::unique_ptr<LocalModels>> Start(const ModelOptions& flags);
  // Start and wait: for commands.
  static Expected<std::unique_ptr<LocalModels>> Load(const ModelOptions& flags);
  // Their tokenizers alone: --model may also be a folder with nothing but tokenizer.json, or such a
  // file. For Service::Tokenize.
  static Expected<std::unique_ptr<LocalModels>> LoadTokenizers(const ModelOptions& flags);

  // Of the host.
  program::Backend* backend() const {
    return devices.empty() ? nullptr : devices.front().backend.get();
  }

  metrics::Metrics metrics;
  std::vector<devices::MadeDevice> devices;  // the host first; empty: tokenizers alone
  std::unique_ptr<registry::Registry> registry;
  std::unique_ptr<api::Service> service;
  std::unique_ptr<Repository> repository;  // null: none is served
  std::unique_ptr<HubStore> store;         // null: clients may not pull
  std::unique_ptr<ReferenceCheck> check;   // null: all models are loaded at the start
};

}  // namespace penstock::runtime

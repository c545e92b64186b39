// Registry: the models of this process by served name, and the thread that loads them.
//
//   waiting --> loading --> ready
//                      \--> failed (says why; the others go on)
//
// An exception while a model loads is a failure of that model: kResourceExhausted where memory was
// short, else kInternal.
//
// A model answers to its name, to its aliases, and to the last part of each: "owner/name" to
// "name", "owner--name" (a folder of a cache) to "owner/name" and "name", unless another model
// would answer to that, too. Names are settled before loading starts and never change. The registry
// owns the engines; an Engine* it hands out stays valid until the registry is destroyed.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/status.h"
#include "engine/engine.h"

namespace penstock {

struct ModelSpec {
  std::string name;                  // as served
  std::vector<std::string> aliases;  // other names for it
  std::string reference;             // a folder, or a hub reference
  EngineOptions options;             // `name` is set to that above
};

enum class ModelState { kWaiting, kLoading, kReady, kFailed };

class Registry {
 public:
  static constexpr size_t kModelsMax = 64;

  // Turns a reference into an engine; the default resolves it (hub/) and calls Engine::Load.
  using Loader = std::function<Expected<std::unique_ptr<Engine>>(const ModelSpec&)>;

  // `backend` (null: only AddEngine, or a loader of one's own) and `metrics` must outlive it.
  Registry(Backend* backend, Metrics* metrics, Loader loader = nullptr);
  ~Registry();  // Stop()
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;

  // Before StartLoading. kInvalidArgument: a name is taken or empty; kPayloadTooLarge: too many.
  Status Add(ModelSpec spec);
  // Adds a model that is loaded already.
  Status AddEngine(std::unique_ptr<Engine> engine, std::vector<std::string> aliases = {});

  // Loads one model after the other on a thread of its own.
  void StartLoading();
  // Waits for the end of loading; the first failure, if any.
  Status WaitLoaded();

  // Before the first Find. A name that no model has means the one model that does the task asked
  // for, where there is one; where there are several, or a task is not given and there are several
  // models, it is kNotFound as ever.
  void AcceptAnyName();

  // The engine served as `name`; "" = the first that does `task`, or else the first of all.
  // kNotFound lists the names; kUnavailable: still loading, or failed to load.
  Expected<Engine*> Find(const std::string& name,
                         std::optional<ModelTask> task = std::nullopt) const;
  // Whether a model answers to that name, whatever AcceptAnyName says.
  bool Has(const std::string& name) const;

  struct Entry {
    std::string name;
    std::vector<std::string> aliases;  // those of its spec, then the last parts it answers to
    std::string reference;
    ModelState state = ModelState::kWaiting;
    Status error;              // kFailed
    Engine* engine = nullptr;  // kReady
  };
  // In the order they were added.
  std::vector<Entry> List() const;
  bool AllReady() const;  // false when there is none

  // Ends loading after the model at hand and stops every scheduler; what they accepted is
  // finished.
  void Stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace penstock

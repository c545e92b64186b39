// Registry: the models of this process by served name. It loads them and unloads them, while others
// are at work.
//
//   Add                        Load; concurrent callers share it
//   ---> waiting --> loading --> ready --> draining --> absent --> waiting ...
//                           \--> failed ----------------- Load, after a back-off --> waiting ...
//
// A model answers to its name, to its aliases, and to the last part of each: "owner/name" to
// "name", "owner--name" (a folder of a cache) to "owner/name" and "name", unless another model
// would answer to that, too. Names are settled before loading starts; a model keeps them while it
// is absent.
//
// Ownership and threads
//   registry  The registry alone owns models. All others have leases (engine_lease.h), which Find
//             gives. A model is the registry's as soon as the loader returns it; one thread loads,
//             a model at a time.
//   request   Holds a lease from the moment it has looked its model up until its last callback is
//             gone; so a thread that submits, and perhaps leads, holds one until Submit has
//             returned.
//   Unload    Closes the model: Find gives no more leases, those that were given stay good. The
//             thread that drops the last one tells the reaper and touches the model no more. It may
//             be an executor of this very model, returning from `done`, so it frees nothing.
//   reaper    One thread. When a model comes to it, no thread is in the model any more but its own
//             executors: it stops the model, which joins them, frees it and gives the heap's free
//             memory back to the system; only then is the model absent. Only the registry's
//             destructor frees models too: it does the reaper's work where no reaper was started.
//   slots     One a name, made by Add, they live as long as the registry, which waits for the end
//             of all leases before it goes. So a lease may be dropped at any time, on any thread.
//
// Looking up takes no lock: the table of names is never changed but replaced by a new one, old ones
// are kept (one an Add), and a lease is taken by a compare-and-swap on its slot's count. The mutex
// guards what changes models' states, and is not held while a model is loaded, stopped or freed.
//
// An exception while a model loads is a failure of that model: kResourceExhausted where memory was
// short, else kInternal.
#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/status.h"
#include "engine/engine.h"
#include "engine/engine_lease.h"
#include "engine/text_engine.h"

namespace penstock {

struct ModelSpec {
  std::string name;                  // as served
  std::vector<std::string> aliases;  // other names for it
  std::string reference;             // a folder, or a hub reference
  EngineOptions options;             // of an encoder; `name` is set to that above
  TextEngineOptions text;            // of a decoder; the same
};

enum class ModelState {
  kWaiting,  // to be loaded
  kLoading,
  kReady,
  kFailed,
  kDraining,  // no new requests; those under way are finished
  kAbsent,    // unloaded
};

// For how long Load returns the last failure: doubled with each in a row.
struct LoadBackOff {
  std::chrono::milliseconds min{1000};
  std::chrono::milliseconds max{60000};
};

class Registry {
 public:
  static constexpr size_t kModelsMax = 64;

  // Turns a reference into a model; the default resolves it (hub/) and calls Engine::Load.
  using Loader = std::function<Expected<std::unique_ptr<Model>>(const ModelSpec&)>;

  // `backend` (null: only AddEngine, or a loader of one's own) and `metrics` must outlive it.
  Registry(Backend* backend, Metrics* metrics, Loader loader = nullptr, LoadBackOff back_off = {});
  // Stop(), then waits for the end of all leases and frees the models.
  ~Registry();
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;

  // Before StartLoading. kInvalidArgument: a name is taken or empty; kPayloadTooLarge: too many.
  Status Add(ModelSpec spec);
  // Adds a model that is loaded already. Load reads it from its folder again after an Unload.
  Status AddEngine(std::unique_ptr<Engine> engine, std::vector<std::string> aliases = {});

  // Loads one model after the other on a thread of its own.
  void StartLoading();
  // Waits until no model is waiting or loading; the first failure, if any.
  Status WaitLoaded();

  // Loads a model that is absent or failed; one being unloaded is loaded again after that.
  // Concurrent callers get the outcome of the one load:
  //   kNotFound     no model has the name, or the loader says so
  //   kUnavailable  the last load failed, and its back-off is not over: retry_after_s; or Stop()
  //                 was called
  // and other errors of the loader. A model that is ready may be unloaded again before the caller
  // finds it.
  std::shared_future<Status> Load(const std::string& name);
  // Unloads a model: Find refuses it from here on, work under way is finished. The future is ready
  // when its memory is free. kNotFound; kUnavailable: it is being loaded, or there is no thread.
  std::shared_future<Status> Unload(const std::string& name);

  // Before the first Find. An unknown name means the only model of the requested task (without a
  // task: the only model). Where there are several, it is kNotFound as ever.
  void AcceptAnyName();

  // The engine served as `name`; "" = the first that does `task`, or else the first encoder. An
  // absent model counts with the task it had when last loaded. kNotFound lists the names;
  // kUnavailable: still loading, failed to load, or unloaded; kUnsupported: the model is no
  // encoder.
  Expected<EngineLease> Find(const std::string& name,
                             std::optional<ModelTask> task = std::nullopt) const;
  // The model served as `name`; "" = the first that generates text. Errors as Find; kUnsupported:
  // it generates no text.
  Expected<TextLease> FindText(const std::string& name) const;
  // Whether a model answers to that name, regardless of AcceptAnyName.
  bool Has(const std::string& name) const;

  struct Entry {
    std::string name;
    std::vector<std::string> aliases;  // those of its spec, then the last parts it answers to
    std::string reference;
    ModelState state = ModelState::kWaiting;
    Status error;  // kFailed
    int32_t replicas = 1;
    EngineLease engine;  // kReady, and an encoder
    TextLease text;      // kReady, and a decoder
  };
  // In the order they were added.
  std::vector<Entry> List() const;
  // True if there are models and each is ready or was unloaded.
  bool AllReady() const;

  // Of all models, see Model.
  uint64_t HeldBytes() const;
  uint64_t ReleaseMemory();

  // Ends loading after the current model and stops every model; accepted work is finished. Waits
  // for no lease.
  void Stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace penstock

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
//   registry  The registry alone owns models. All others have leases (registry/lease.h), which Find
//             gives. A model is the registry's as soon as the loader returns it.
//   loading   Takes up to three steps, each with a thread of its own that takes one model at a
//             time: fetching its files where they are not here yet, telling what memory it takes,
//             loading it. Each thread takes the model that was asked for first; one that was
//             refused for want of memory goes behind all that waited then. A parked model passes
//             these by: it is there again at once where memory is free, else by a fourth thread.
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
//   keeper    One thread, where requests load models. It closes models that were idle for as long
//             as they are kept, never a model in use; and it ends waits for models when their time
//             is over.
//   slots     One a name, made by Add, they live as long as the registry, which waits for the end
//             of all leases before it goes. So a lease may be dropped at any time, on any thread.
//             A new version of a model (Replace) has a slot of its own, which no table names until
//             it is ready; then a new table names it in place of the old slot, which is closed as
//             by Unload. A version that fails leaves the old one as it is. Slots and tables that
//             were replaced stay: about 1 KB a switch, and 100 bytes a served name.
//
// Looking up takes no lock: the table of names is never changed but replaced by a new one, old ones
// are kept (one an Add, Replace or Remove), and a lease is taken by a compare-and-swap on its
// slot's count. Who finds nothing in a table that was replaced meanwhile looks again. The mutex
// guards what changes models' states, and is not held while a model is loaded, stopped or freed.
//
// An exception while a model loads is a failure of that model: kResourceExhausted where memory was
// short, else kInternal.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "devices/devices.h"
#include "engine/engine_kinds.h"
#include "registry/lease.h"
#include "threads/request_context.h"

namespace penstock::registry {

// For how long a model stays loaded that is not used; negative: for good.
using KeepAlive = std::chrono::milliseconds;

// A version of a model: its number, 1 or more, and its folder.
struct ModelVersion {
  int64_t number = 0;
  std::string reference;
};
// The highest version that was not taken, and why.
struct RefusedVersion {
  int64_t number = 0;
  std::string error;
};

struct ModelSpec {
  std::string name;                  // as served
  std::vector<std::string> aliases;  // other names for it
  std::string reference;             // a folder, a file, a hub reference, or "builtin:..."
  engine::KindOptions options;       // a load sets the fields of LoadTerms
  std::string device;                // as Devices::Find
  int32_t replicas = 1;              // runners, of models that have such
  // What it is to do, so that this is known before it is here. A model that does something else is
  // refused.
  std::optional<engine::ModelPurpose> purpose;
  std::optional<KeepAlive> keep_alive;  // none: that of the registry
  bool pinned = false;                  // stays, however long it is idle; Unload alone unloads it
  bool preload = false;                 // StartLoading loads it, also where requests load models
  int64_t version = 0;                  // of a model that has versions; else 0
  std::vector<ModelVersion> older;      // taken in turn where this version fails to load
  // Set for the loader.
  engine::ModelBytes granted;                    // as LoadTerms; `options` have it too
  bool fetched = false;                          // its files are here, as far as they can be
  std::atomic<int>* download_percent = nullptr;  // where it tells of a download
};

enum class ModelState {
  kWaiting,  // to be loaded
  kLoading,
  kReady,
  kFailed,
  kDraining,  // no new requests; those under way are finished
  kAbsent,    // unloaded
  kParked,    // its weights are there; activations and caches have gone to others
};
const char* ModelStateName(ModelState state);  // "waiting", "loading", "ready", ...

// For how long Load returns the last failure: doubled with each in a row.
struct LoadBackOff {
  std::chrono::milliseconds min{1000};
  std::chrono::milliseconds max{60000};
};

struct RegistryOptions {
  LoadBackOff back_off;
  // StartLoading loads models with `preload` alone, Await those that a request needs.
  bool on_demand = false;
  KeepAlive keep_alive{-1};
  // The keeper looks for idle models when the time of one is over, and at least this often.
  std::chrono::milliseconds check_interval{30000};
  // The clock of back-offs, of the patience for memory and of how long loads took; null: Clock. For
  // tests.
  std::function<Clock::time_point()> now;
};

// What a request needs a model for. Without a task a model that is named may be of any kind.
struct ModelUse {
  engine::Capability capability = engine::kUsualCapability;
  std::optional<families::ModelTask> task = {};     // as in Find
  std::optional<families::ModelTask> instead = {};  // a task that will do where no model has `task`
  bool is_any() const { return capability == engine::kUsualCapability && !task; }
};

class Registry {
 public:
  static constexpr size_t kModelsMax = 64;

  // Turns a reference into a model; the default resolves it (hub/) and loads it as its kind says.
  using Loader = std::function<Expected<std::unique_ptr<engine::Model>>(const ModelSpec&)>;
  // Tells what a model takes before it is loaded.
  using Sizer = std::function<Expected<engine::ModelNeeds>(const ModelSpec&)>;
  // Brings a model's files to this machine before it is sized and loaded.
  struct Fetcher {
    std::function<bool(const ModelSpec&)> is_here;  // milliseconds
    std::function<Status(const ModelSpec&)> fetch;  // null: all files are here
  };

  // Backends (null: only AddLoaded, or a loader of one's own) and `metrics` must outlive it.
  Registry(devices::Devices devices, metrics::Metrics* metrics, Loader loader = nullptr,
           RegistryOptions options = {}, Sizer sizer = nullptr, Fetcher fetcher = {});
  // Stop(), then waits for the end of all leases and frees the models.
  ~Registry();
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;

  // kInvalidArgument: a name is taken or empty, or there is no such device; kPayloadTooLarge: too
  // many. Where requests load
  // models, one that is on this machine is looked at: it is told from its settings what it does;
  // errors of these. After StartLoading the model is loaded as one that was there before.
  Status Add(ModelSpec spec);
  // The errors of Add that are about names and the number of models.
  Status CanAdd(const ModelSpec& spec) const;
  // Another version of the model served as `spec.name`, or other settings: loads it beside the one
  // that serves, with memory admitted as for any model, and puts it in its place when it is ready,
  // at once for all requests; the old one is unloaded after its requests. The new one is in memory
  // if the old one was, or if a request waits for it; else it was loaded to be checked, and is
  // unloaded again. After StartLoading. Errors, which leave the old one as it is: of the loader;
  //   kUnavailable, kResourceExhausted  memory is short; or Stop() was called, or another version
  //                                     of the model is being loaded
  //   kInvalidArgument                  a name is taken
  //   kNotFound                         there is no such model, or it was removed meanwhile
  std::shared_future<Status> Replace(ModelSpec spec);
  // What List says of a version that was not taken; none: forgets it. Without such a model nothing.
  void SetRefusedVersion(const std::string& name, std::optional<RefusedVersion> refused);
  // Another name for a model that is served. kNotFound: it is not; kInvalidArgument: the name is
  // taken; kResourceExhausted.
  Status AddAlias(const std::string& name, const std::string& alias);
  // The model is served no more, and unloaded after its requests. kNotFound; kResourceExhausted.
  Status Remove(const std::string& name);
  // Adds a model that is loaded already. Load reads it from its path again after an Unload.
  Status AddLoaded(std::unique_ptr<engine::Model> model, std::vector<std::string> aliases = {});

  // Loads one model after the other on threads of the registry: all, or where requests load models
  // those to preload.
  void StartLoading();
  // Waits until no model is waiting or loading; the first failure, if any, of a model without
  // versions: a broken one of a repository does not keep the others from serving.
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

  // Whether the Find of this use would fail because the model is not loaded, and Await loads it. If
  // not, it is not unloaded as long as *hold lives; null: whoever asks takes no hold.
  bool MustAwait(const std::string& name, const ModelUse& use,
                 Lease<engine::Model>* hold = nullptr) const;
  // Calls `then` once, with OK when the model is there: it stays until `then` has returned, which
  // takes its lease. Loads the model if it must; the status is then that of Load, or of the
  // request's `context` when its time is over or its client has left. Sets for how long the model
  // is kept after this use, if the context says so. On this thread where there is no wait, else on
  // one of the registry; `then` must be short.
  using Then = std::function<void(const Status&)>;
  void Await(const std::string& name, const ModelUse& use, const RequestContext& context,
             Then then);

  // Pins or unpins a model. kNotFound.
  Status Pin(const std::string& name, bool pinned);

  // Before the first Find. An unknown name means the only model of the requested task (without a
  // task: the only model). Where there are several, it is kNotFound as ever.
  void AcceptAnyName();

  // The model served as `name`, which does what a T does (and `task`, of encoders). "" = the first
  // one, or the only one, as CapabilityText::several says; with a task the first that does it, or
  // else the first. An absent model counts with what it did when last loaded. kNotFound lists the
  // names; kUnavailable: still loading, failed to load, or unloaded; kUnsupported: it does
  // something else; kInvalidArgument: `name` is empty, and there are several. Where the model is
  // there, nothing is allocated.
  template <typename T>
  Expected<Lease<T>> Find(const std::string& name,
                          std::optional<families::ModelTask> task = std::nullopt) const {
    auto found = FindModel(name, T::kCapability, task);
    if (!found.ok()) return std::move(found).status();
    return (*std::move(found)).template Cast<T>();
  }
  // What the Find of this use would give a lease of, loaded or not; none: there is no such model,
  // or it cannot be told before it is loaded.
  struct KnownModel {
    std::string name;
    engine::ModelPurpose purpose;
  };
  std::optional<KnownModel> Look(const std::string& name, const ModelUse& use) const;
  // Whether a model answers to that name, regardless of AcceptAnyName.
  bool Has(const std::string& name) const;

  struct Entry {
    std::string name;
    std::vector<std::string> aliases;  // those of its spec, then the last parts it answers to
    std::string reference;
    ModelState state = ModelState::kWaiting;
    Status error;         // kFailed
    int64_t version = 0;  // 0: it has none
    std::optional<RefusedVersion> refused;
    // What it does, as far as known.
    std::optional<engine::ModelPurpose> purpose;
    int32_t replicas = 1;
    bool pinned = false;
    KeepAlive keep_alive{-1};  // in force
    double load_s = 0;         // of the last load
    uint64_t loads = 0;        // since the start
    Clock::time_point last_use = {};
    uint64_t requests_waiting = 0;  // for it to be loaded
    uint64_t evictions = 0;         // unloads for the memory of others
    engine::ModelBytes bytes;       // at most, as charged to the budget of its device
    std::string device;
    // What its files say; null: not here yet, or no model of texts.
    std::shared_ptr<const engine::FileFacts> facts;
    int load_percent = -1;       // kLoading: of the download, then of the weights; -1: not known
    Lease<engine::Model> model;  // kReady
    // The model, as long as the entry lives; null: it is not ready, or does not what a T does.
    template <typename T>
    T* As() const {
      return model ? model->As<T>() : nullptr;
    }
  };
  // In the order they were added.
  std::vector<Entry> List() const;
  // True if there are models, and since the start there was a time when none was loading or to be
  // loaded, or failed to; those with versions may fail. So it stays true until Stop() while models
  // come, go and are loaded again: requests wait for those they need.
  bool AllReady() const;

  // What all models on the host may take together; 0: not bounded.
  uint64_t memory_bytes() const;
  struct DeviceMemory {
    std::string device;
    uint64_t budget_bytes = 0;  // 0: not bounded
    uint64_t used_bytes = 0;    // what its models may take at most, as charged to the budget
    std::shared_ptr<const program::DeviceCounters> counters;  // null: of the host
    std::string lost;                                         // why it is lost, or empty
  };
  // The host first.
  std::vector<DeviceMemory> MemoryOfDevices() const;
  // kUnavailable: a device that models lie on is lost. They are unloaded then.
  Status HealthOfDevices();
  // Of all models, see Model.
  uint64_t HeldBytes() const;
  uint64_t ReleaseMemory();

  // Ends loading after the current model and stops every model; accepted work is finished. Waits
  // for no lease.
  void Stop();

 private:
  Expected<Lease<engine::Model>> FindModel(const std::string& name, engine::Capability capability,
                                           std::optional<families::ModelTask> task) const;

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace penstock::registry

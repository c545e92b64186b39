// The inside of Registry: registry.cc has names and look-ups, registry_loading.cc the states,
// registry_versions.cc what replaces and removes models, model_files.cc how references become
// models.
// Ownership: registry.h.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <future>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/seeded_hash.h"
#include "registry/registry.h"
#include "threads/request_context.h"

namespace penstock::registry {

// ", version 2", or "" of a model without versions; and that behind the name, for the log.
std::string VersionText(const ModelSpec& spec);
std::string TitleOf(const ModelSpec& spec);

struct Registry::Impl {
  // The outcome of one load or unload, shared by its waiters.
  class Outcome {
   public:
    const std::shared_future<Status>& future() const { return future_; }
    void Set(const Status& status) noexcept;

   private:
    std::promise<Status> promise_;
    const std::shared_future<Status> future_ = promise_.get_future().share();
  };

  // What a model that is to be loaded goes through, each step on a thread of its own.
  enum class Step {
    kUnpark,  // a parked model: memory for its activations and cache is admitted
    kSize,    // what it takes is told from its files; it goes on to kFetch where they are not here
    kFetch,   // its files are downloaded; it goes back to kSize
    kLoad,    // its memory is admitted, and it is loaded
    kNone,
  };
  static constexpr size_t kSteps = static_cast<size_t>(Step::kNone);

  // A served name and, at times, its model.
  struct Slot final : LeaseCount {
    explicit Slot(Impl* registry_in, ModelSpec spec_in)
        : registry(registry_in),
          spec(std::move(spec_in)),
          device(*registry->devices.Find(spec.device)),
          has_versions(spec.version > 0),
          pinned(spec.pinned) {}

    // Whether it was given that name.
    bool IsNamed(const std::string& name) const;
    bool IsPending() const {
      const ModelState now = state;
      return now == ModelState::kWaiting || now == ModelState::kLoading;
    }
    bool IsThere() const {
      const ModelState now = state;
      return now == ModelState::kReady || now == ModelState::kParked;
    }
    // A model that is not known yet counts as one of the usual capability, whose task is not known.
    bool Does(engine::Capability capability, std::optional<families::ModelTask> task) const {
      const std::optional<engine::ModelPurpose> known = Purpose();
      if (!known) return capability == engine::kUsualCapability && !task;
      return known->capability == capability && (!task || known->task == *task);
    }
    bool Serves(const ModelUse& use) const {
      return Does(use.capability, use.task) || (use.instead && Does(use.capability, use.instead));
    }
    bool IsUnknown() const { return !purpose.load(std::memory_order_relaxed).known; }
    // What it does, as far as known.
    std::optional<engine::ModelPurpose> Purpose() const {
      const KnownPurpose now = purpose.load(std::memory_order_relaxed);
      if (!now.known) return std::nullopt;
      return engine::ModelPurpose{now.capability, static_cast<families::ModelTask>(now.task)};
    }
    void SetPurpose(const engine::ModelPurpose& now) {
      purpose = {true, now.capability, static_cast<uint16_t>(now.task)};
    }
    // Whether it cannot be told yet what it does.
    bool MayDoAnything() const { return IsUnknown() && IsPending(); }
    KeepAlive KeptFor() const;
    // For how long a request may have it kept that asks for `asked`; `rules` as
    // RequestContext::rules_models.
    KeepAlive MayKeep(KeepAlive asked, bool rules) const;
    std::vector<std::string> Aliases() const;

    Impl* const registry;
    // Its name never changes; version, reference and older ones do, under the registry's mutex.
    ModelSpec spec;
    const devices::Device& device;
    const bool has_versions;
    std::atomic<ModelState> state{ModelState::kWaiting};  // changed under the registry's mutex
    struct KnownPurpose {
      bool known;
      engine::Capability capability;
      uint16_t task;
    };
    std::atomic<KnownPurpose> purpose{{false, engine::kUsualCapability, 0}};  // when last loaded
    std::atomic<int> download_percent{-1};  // negative: nothing is downloaded
    // Metrics; null: none.
    metrics::Counter* loads_total = nullptr;
    metrics::Counter* evictions_total = nullptr;
    std::shared_ptr<std::atomic<double>> load_seconds;  // of the metrics, which may outlive this
    metrics::Gauge* loaded_gauge = nullptr;
    metrics::Gauge* device_gauge = nullptr;
    std::array<metrics::Gauge*, 3> bytes_gauges{};

    // Owned by the loader until the count is opened, and by the reaper once it is closed and
    // drained; in between holders of leases may read them.
    std::unique_ptr<engine::Model> model;

    // Guarded by the registry's mutex.
    // Has its names. Else it is a version to be loaded (`replaces`), or was replaced or removed.
    bool served = true;
    Slot* replaces = nullptr;   // the slot whose place it takes when it is loaded
    Slot* successor = nullptr;  // the slot of which this is `replaces`
    bool only_check = false;    // of such a version: unloaded again when it is loaded
    std::optional<RefusedVersion> refused;
    std::vector<std::string> last_parts;  // of its names; see NameLastParts
    Status error;                         // kFailed
    Step next_step = Step::kNone;         // kWaiting: the step whose thread is to take it
    uint64_t ticket = 0;   // of all that are asked for, the lowest goes first; 0: none
    bool fetched = false;  // kFetch is behind it
    std::shared_ptr<const engine::FileFacts> facts;  // null: not read
    engine::ModelNeeds needs;                        // told by kSize
    bool to_reap = false;                            // kDraining: no lease is left
    std::optional<Outcome> loading;                  // set while callers wait for the load
    std::optional<Outcome> unloading;                // kDraining
    int failures = 0;                                // in a row
    Clock::time_point failed_until;                  // kFailed: Load tries again from then on
    std::optional<KeepAlive> asked_keep;             // by the last request that asked
    bool pinned;
    uint64_t waiters = 0;
    // Answers to waiters under way, each of which is about to take a lease; Unload closes the model
    // after them.
    int delivering = 0;
    bool close_wanted = false;
    double load_s = 0;
    // While it is loaded, where known: the bytes its weights will take, and the backend's count of
    // packed bytes at the start.
    uint64_t weights_wanted = 0;
    uint64_t packed_before = 0;
    Clock::time_point loaded_at;
    uint64_t loads = 0;
    uint64_t evictions = 0;          // unloads for the memory of others
    engine::ModelBytes charged;      // to the budget
    engine::ModelBytes parked;       // kParked: what it takes again when it is used
    std::string why_closed;          // for the log
    engine::MeasuredModel measured;  // when it was loaded last

   private:
    void Drained() override { registry->HandToReaper(this); }
  };

  // A request that waits for a model.
  struct Waiter {
    Slot* slot;
    std::string name;
    ModelUse use;
    std::shared_ptr<CancelToken> cancel;
    Clock::time_point deadline;
    std::optional<KeepAlive> keep_alive;
    bool rules_models;
    Then then;
    Lease<engine::Model> held = {};  // while it is answered
  };

  // The table of names. Never changed once it is published.
  struct Names {
    std::vector<Slot*> slots;  // in the order they were added
    SeededMap<std::string, Slot*> slot_of;
  };

  Impl(devices::Devices devices_in, metrics::Metrics* metrics_in, RegistryOptions options_in)
      : devices(std::move(devices_in)), metrics(metrics_in), options(std::move(options_in)) {}

  // --- model_files.cc -------------------------------------------------------------------------
  // Sets loader, looker, describer, and sizer and fetcher where they are null, to those of models
  // that are found by references of hub/ and by names of files.
  void UseModelFiles();

  // --- registry.cc ----------------------------------------------------------------------------
  // Names and number of models, as if `replaced` (null: none) were not there.
  Status Check(const ModelSpec& spec, const Slot* replaced = nullptr) const;
  int LoadPercent(const Slot& slot) const;  // with the lock held
  void RegisterDeviceMetrics();
  // kUnavailable: the device is lost, which its gauge tells from then on.
  Status HealthOf(const devices::Device& device) const;
  // Why a load failed: what the model's device says, where that is lost, else `status`.
  Status WhyFailed(const Slot& slot, Status status) const noexcept;
  void RegisterMetrics(Slot* slot);
  // Sets what a model takes of the budget.
  void Charge(Slot* slot, const engine::ModelBytes& bytes);
  Slot* AddSlot(ModelSpec spec);
  // Those that are served, in their order.
  std::vector<Slot*> Served();
  void NameLastParts();
  void PublishNames();
  const Names& names() const { return *published.load(std::memory_order_acquire); }
  // look(), again where it finds nothing and a new table came meanwhile: what the old one names may
  // be closed for that reason alone.
  template <typename Look>
  auto LookUp(Look look) const {
    for (;;) {
      const Names* const table = &names();
      auto found = look();
      if (found.ok() || table == &names()) return found;
    }
  }
  Slot* SlotOf(const std::string& name) const;
  // The caller makes it a Lease at once, which throws nothing.
  Status TakeLease(Slot* slot) const;
  Expected<Lease<engine::Model>> Get(Slot* slot, engine::Capability capability) const;
  Status StillLoading(const Slot& slot) const;
  // The slot that Find means.
  Expected<Slot*> Choose(const std::string& name, engine::Capability capability,
                         std::optional<families::ModelTask> task) const;
  Status Unknown(const std::string& name) const;
  // Calls function(model) for each ready model, under a lease that does not count as a use.
  template <typename Function>
  void ForEachModel(Function function) const {
    for (Slot* slot : names().slots) {
      if (!slot->TryAdd()) continue;
      const Lease<engine::Model> lease(slot, slot->model.get(), false);
      function(slot->model.get());
    }
  }

  // --- registry_waiting.cc; with the lock held, but for Target and KeepLoop ------------------
  Slot* Target(const std::string& name, const ModelUse& use) const;
  void StartKeeper();
  void KeepLoop();
  void ExpireWaiters(Clock::time_point now, std::unique_lock<std::mutex>* lock);
  void Sweep(Clock::time_point now);
  Clock::time_point NextSweep(Clock::time_point swept) const;
  void Deliver(Slot* slot, std::unique_lock<std::mutex>* lock);
  bool MustWaitFor(Slot* target) noexcept;
  // Throws nothing: allocates nothing itself, and what `then` throws ends there.
  void Answer(std::list<Waiter>* waiters, const Status& status,
              std::unique_lock<std::mutex>* lock) noexcept;

  // --- registry_memory.cc; with the lock held, which Admit, ParkOne and Unpark may release ------
  enum class Room { kMade, kSoon, kBusy, kNone };
  uint64_t TakenBytes(const devices::Device& device) const;
  // What parking and unloading others would give a load, however soon; and whether some are in use
  // that may give more later.
  struct Reclaimable {
    uint64_t bytes = 0;
    bool busy = false;
  };
  Reclaimable ReclaimableFor(const Slot* slot) const;
  std::string Holders(const Slot& except) const;
  Status NoRoom(const Slot& slot, const engine::ModelNeeds& needs) const;
  // What a model that is to be loaded may take, once there is room for it. kUnavailable: the others
  // are in use, or pinned; kResourceExhausted: it will never fit.
  Expected<engine::ModelBytes> Admit(Slot* slot, const engine::ModelNeeds& needs,
                                     std::unique_lock<std::mutex>* lock);
  bool ParkOne(const devices::Device& device, std::unique_lock<std::mutex>* lock);
  static bool HoldsMuch(const Slot& slot);
  // A parked model serves again, if its memory is free now.
  bool UnparkNow(Slot* slot);
  void Unpark(Slot* slot, std::unique_lock<std::mutex>* lock);
  void SetUnparked(Slot* slot, const engine::ModelBytes& grant);
  Room UnloadOne(const Slot* for_slot, Clock::time_point now);

  // --- registry_loading.cc; with the lock held, but for the loops and HandToReaper --------------
  void SetReady(Slot* slot, std::unique_ptr<engine::Model> model);
  void SetFailed(Slot* slot, const Status& why) noexcept;
  // Not loaded, for want of memory: the next request tries again at once.
  void SetRefused(Slot* slot, const Status& why);
  // The first slot to reap; null: none. There are few, and flags take no memory.
  Slot* FirstToReap();
  // The slot with the lowest ticket that waits for this step; null: none.
  Slot* NextFor(Step step);
  // Lets the step's thread take the slot. Where the thread cannot be started, the load fails.
  void Queue(Slot* slot, Step step);
  // Of a slot that is waiting: it is queued, or absent where it is not to be loaded without a
  // request.
  void QueueFirst(Slot* slot);
  // OK: it is being loaded, or will be.
  Status StartLoad(Slot* slot);
  bool StartReaper();
  // Unloads a model that has no leases; false: it has some.
  bool CloseIdle(Slot* slot, std::string why);
  void StepLoop(Step step);
  // One step of a slot. The slot is queued for another one after it, or its load is over.
  void Take(Slot* slot, Step step, std::unique_lock<std::mutex>* lock);
  // With the lock held.
  ModelSpec SpecToLoad(Slot* slot, const engine::ModelBytes& granted) const;
  void SizeSlot(Slot* slot, std::unique_lock<std::mutex>* lock);
  void FetchSlot(Slot* slot, std::unique_lock<std::mutex>* lock);
  void LoadSlot(Slot* slot, std::unique_lock<std::mutex>* lock);
  void EndLoad(Slot* slot, std::unique_lock<std::mutex>* lock);
  bool NoteReady() const;
  Clock::time_point Now() const { return options.now ? options.now() : Clock::now(); }
  void SettleLoad(Slot* slot, const Status& status) noexcept;
  void Close(Slot* slot);
  // Unloads the models of devices that are lost; with the lock held.
  void CloseLost();
  void HandToReaper(Slot* slot);
  void ReapLoop();
  void Reap(Slot* slot, std::unique_lock<std::mutex>* lock);
  void ShutDown();
  static std::shared_future<Status> Known(Status status);

  // --- registry_versions.cc; with the lock held ------------------------------------------------
  // Turns to an older version after one that failed with `why`; false: there is none, or memory was
  // short.
  static bool StepBack(const Status& why, ModelSpec* spec, std::optional<RefusedVersion>* refused);
  // The same of a slot that failed: it is to be loaded again, now.
  bool StepBack(Slot* slot) noexcept;
  // After the load of a version.
  void EndReplace(Slot* made, std::unique_lock<std::mutex>* lock);
  void TakePlace(Slot* made, Slot* old, std::unique_lock<std::mutex>* lock);
  bool Publish();  // false: memory is short, nothing has changed
  void Retire(Slot* slot);

  const devices::Devices devices;
  struct DeviceGauges {
    metrics::Gauge* used_bytes;
    metrics::Gauge* up;
  };
  std::vector<DeviceGauges> device_gauges;  // by device; empty without metrics
  metrics::Metrics* const metrics;
  const RegistryOptions options;
  Loader loader;
  Sizer sizer;
  Fetcher fetcher;
  // What a model does, told without loading it; nullopt: it is not on this machine yet.
  std::function<Expected<std::optional<engine::ModelPurpose>>(const ModelSpec&)> looker;
  // What a model's files say, where they are here; null: they are not, or it takes no texts.
  std::function<std::shared_ptr<const engine::FileFacts>(const ModelSpec&)> describer;
  mutable std::atomic<bool> was_ready{false};  // see AllReady
  std::atomic<bool> any_name{false};
  std::atomic<bool> stopping{false};  // set under mutex

  mutable std::mutex mutex;
  std::condition_variable changed;  // anything below, or of a slot
  // Slots that were in a table stay. In the order of the table, those that are not served anywhere.
  std::list<Slot> slots;
  std::atomic<const Names*> published{nullptr};
  std::vector<std::unique_ptr<const Names>> all_names;  // the last one is published
  bool loading_started = false;
  bool ending = false;  // the registry is being destroyed
  uint64_t last_ticket = 0;
  std::array<std::thread, kSteps> step_threads;
  std::thread reaper_thread;
  std::thread keeper_thread;
  std::list<Waiter> waiters;
};

}  // namespace penstock::registry

// The inside of Registry: registry.cc has names and look-ups, registry_loading.cc the states.
// Ownership: registry.h.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "common/request_context.h"
#include "engine/registry.h"

namespace penstock {

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

  // A served name and, at times, its model.
  struct Slot final : LeaseCount {
    explicit Slot(Impl* registry_in, ModelSpec spec_in)
        : registry(registry_in), spec(std::move(spec_in)) {}

    // Whether it was given that name.
    bool IsNamed(const std::string& name) const;
    bool IsPending() const {
      const ModelState now = state;
      return now == ModelState::kWaiting || now == ModelState::kLoading;
    }
    bool Does(std::optional<ModelTask> wanted) const {
      return wanted ? task == static_cast<int>(*wanted) : !generates;
    }
    // Whether it cannot be told yet what it does.
    bool MayDoAnything() const { return task == -1 && !generates && IsPending(); }
    std::vector<std::string> Aliases() const;

    Impl* const registry;
    const ModelSpec spec;
    std::atomic<ModelState> state{ModelState::kWaiting};  // changed under the registry's mutex
    std::atomic<int> task{-1};           // ModelTask when last loaded as an encoder; -1: never
    std::atomic<bool> generates{false};  // when last loaded

    // Owned by the loader until the count is opened, and by the reaper once it is closed and
    // drained; in between holders of leases may read them.
    std::unique_ptr<Model> model;
    Engine* encoder = nullptr;
    TextEngine* generator = nullptr;

    // Guarded by the registry's mutex.
    std::vector<std::string> last_parts;  // of its names; see NameLastParts
    Status error;                         // kFailed
    bool to_load = false;                 // the loader's next, or one of them
    bool to_reap = false;                 // kDraining: no lease is left
    std::optional<Outcome> loading;       // set while callers wait for the load
    std::optional<Outcome> unloading;     // kDraining
    int failures = 0;                     // in a row
    Clock::time_point failed_until;       // kFailed: Load tries again from then on

   private:
    void Drained() override { registry->HandToReaper(this); }
  };

  // The table of names. Never changed once it is published.
  struct Names {
    std::vector<Slot*> slots;  // in the order they were added
    std::unordered_map<std::string, Slot*> slot_of;
  };

  // --- registry.cc ----------------------------------------------------------------------------
  Status Check(const ModelSpec& spec) const;
  Slot* AddSlot(ModelSpec spec);
  void NameLastParts();
  void PublishNames();
  const Names& names() const { return *published.load(std::memory_order_acquire); }
  Slot* SlotOf(const std::string& name) const;
  // A lease of any kind; the caller makes it one of an engine at once, which throws nothing.
  Status TakeLease(Slot* slot) const;
  Expected<EngineLease> Get(Slot* slot) const;
  Expected<TextLease> GetText(Slot* slot) const;
  Status StillLoading(const Slot& slot) const;
  Expected<EngineLease> FirstOf(std::optional<ModelTask> task) const;
  Expected<EngineLease> AnyOf(const std::string& name, std::optional<ModelTask> task) const;
  // The first that generates, or with `only` the only one; null: none does.
  Expected<Slot*> Generating(bool only) const;
  Status Unknown(const std::string& name) const;
  // Calls function(model) for each ready model, under a lease.
  template <typename Function>
  void ForEachModel(Function function) const {
    for (Slot* slot : names().slots) {
      if (!slot->TryAdd()) continue;
      const EngineLease lease(slot, slot->encoder);
      function(slot->model.get());
    }
  }

  // --- registry_loading.cc; with the lock held, but for the loops and HandToReaper --------------
  void SetReady(Slot* slot, std::unique_ptr<Model> model);
  void SetFailed(Slot* slot, const Status& why) noexcept;
  // The first slot whose flag is set; null: none. There are few, and flags take no memory.
  Slot* First(bool Slot::*flag);
  void StartLoader();
  void LoadLoop();
  void LoadSlot(Slot* slot, std::unique_lock<std::mutex>* lock);
  void SettleLoad(Slot* slot, const Status& status) noexcept;
  void Close(Slot* slot);
  void HandToReaper(Slot* slot);
  void ReapLoop();
  void Reap(Slot* slot, std::unique_lock<std::mutex>* lock);
  void ShutDown();

  Loader loader;
  Metrics* metrics = nullptr;
  LoadBackOff back_off;
  std::atomic<bool> any_name{false};
  std::atomic<bool> stopping{false};  // set under mutex

  mutable std::mutex mutex;
  std::condition_variable changed;  // anything below, or of a slot
  std::deque<Slot> slots;           // never shrinks
  std::atomic<const Names*> published{nullptr};
  std::vector<std::unique_ptr<const Names>> all_names;  // the last one is published
  bool loading_started = false;
  bool ending = false;  // the registry is being destroyed
  std::thread loader_thread;
  std::thread reaper_thread;
};

}  // namespace penstock

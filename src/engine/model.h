// Model: the registry's view of a model of any kind.
//
// A class that implements it says which capability it has (T::kCapability), so that whoever looks
// for a T finds it. Another kind of models is its class, its row of TextOf and its row of
// EngineKinds; the registry, leases and unloading stay as they are.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/capability.h"
#include "engine/model_bytes.h"
#include "models/linear_types.h"
#include "numbers/dtype.h"
#include "sched/batch_limits.h"

namespace penstock::engine {

// Properties of a loaded model besides its folder.
struct EngineInfo {
  int32_t hidden_size = 0;
  int32_t embedding_size = 0;
  int32_t num_labels = 0;
  int32_t max_tokens = 0;
  bool uses_type_ids = false;
  uint64_t parameters = 0;
  uint64_t weight_bytes = 0;
  uint64_t activation_bytes = 0;  // of the largest batches or steps, about
  uint64_t cache_bytes = 0;       // of keys and values, at most
  int32_t replicas = 1;
  std::string backend;
  numbers::DType dtype = numbers::DType::kF32;
  std::vector<models::TypeOverride> int8_keep;  // in force
  std::string fingerprint;                      // fingerprint.h; "" if it was not asked for
};

// What was measured while a model was loaded: its next load need not measure it again.
struct MeasuredModel {
  sched::BatchTimes batch_times;
  int32_t batch_tokens = 0;
};

class Model {
 public:
  virtual ~Model() = default;

  // As served.
  virtual const std::string& name() const = 0;
  virtual const EngineInfo& info() const = 0;
  // Its folder, its file, or "builtin:...".
  virtual const std::string& path() const = 0;
  virtual ModelPurpose purpose() const = 0;
  virtual MeasuredModel measured() const { return {}; }
  // This model as a T; null: it lacks what a T does.
  template <typename T>
  T* As() {
    return purpose().capability == T::kCapability ? static_cast<T*>(this) : nullptr;
  }

  // What it takes at most.
  ModelBytes bytes() const {
    return {info().weight_bytes, info().activation_bytes, info().cache_bytes};
  }
  // Activation memory that ReleaseMemory gives back to the system; the next request takes it again.
  // Any thread.
  virtual uint64_t HeldBytes() const = 0;
  virtual uint64_t ReleaseMemory() = 0;

  // Takes no more work, finishes accepted work and joins its threads. May be called twice, but not
  // on a thread of the model.
  virtual void Stop() = 0;
};

}  // namespace penstock::engine

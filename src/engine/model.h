// Model: the registry's view of a model of any family.
//
// Each capability has a function here that gives its interface, or null where the model lacks it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/model_bytes.h"
#include "models/linear_types.h"
#include "numbers/dtype.h"

namespace penstock {

class Engine;        // engine.h
class TextEngine;    // text_engine.h
class TensorEngine;  // tensor_engine.h

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
  std::string backend;
  DType dtype = DType::kF32;
  std::vector<TypeOverride> int8_keep;  // in force
  std::string fingerprint;              // fingerprint.h; "" if it was not asked for
};

class Model {
 public:
  virtual ~Model() = default;

  // As served.
  virtual const std::string& name() const = 0;
  virtual const EngineInfo& info() const = 0;

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

  // Pooled vectors, token vectors and scores of texts; null: not offered.
  virtual Engine* encoder() { return nullptr; }
  // Text; null: not offered.
  virtual TextEngine* generator() { return nullptr; }
  // Plain tensors; null: not offered.
  virtual TensorEngine* tensors() { return nullptr; }
};

}  // namespace penstock

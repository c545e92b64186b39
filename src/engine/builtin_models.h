// Tensor models that need no file and no OpenVINO, for tests, benchmarks and demonstrations.
//
//   builtin:NAME?KEY=VALUE&KEY=VALUE...
//
//   identity  OUTPUTi = INPUTi
//   add       OUTPUT0 = INPUT0 + INPUT1, OUTPUT1 = INPUT0 - INPUT1
//   slow      identity; each run sleeps first: ms=5
//   failing   identity; a run fails where a row has a negative value, or with every=N each Nth one
//
//   type=FP32    of all tensors; identity and slow: any, add and failing: FP32 or INT32
//   shape=32     of a row: 3x224x224, and -1 where any number is taken; add: 16
//   batch=256    rows of a batch at most; 0: no batches, the shape is that of a request
//   inputs=1     of identity and slow
#pragma once

#include <string>

#include "base/status.h"
#include "engine/tensor_engine.h"

namespace penstock::engine {

// Whether a reference names a built-in model, be it one that is there or not.
bool IsBuiltinModel(const std::string& reference);

// The NAME of such a reference.
std::string BuiltinModelName(const std::string& reference);

// Its parts, with options.replicas runners. kNotFound: there is no such model, the message lists
// them; kInvalidArgument names the option at fault and what it may be.
Expected<TensorEngineParts> MakeBuiltinModel(const std::string& reference,
                                             const TensorEngineOptions& options);

}  // namespace penstock::engine

// A tensor model's file as the parts of an engine: OpenVINO reads and compiles it.
//
// A model has batches if its settings say so, or, where they say nothing, if all inputs and outputs
// have a first dimension without a bound and its rows do not depend on each other: a few rows of
// made-up values are computed together and alone. Other dimensions that are open get some size that
// the model takes; where none is found, it has no batches.
//
// Rows of fixed shape are compiled for batches of 1, 2, 4, ... rows, when the model is loaded: a
// compilation between requests would hold up all models of the processor for a tenth of a second or
// more, and what it takes in memory could not be admitted beforehand. Each size is timed, in a turn
// of the compute gate, and there are no more sizes than make a row cheaper, for each has memory of
// its own. Where the settings say nothing, the largest of them is about the batch.
#pragma once

#include <string>

#include "base/status.h"
#include "engine/tensor_engine.h"

namespace penstock::engine {

// `threads`: that compute a run. options.scheduler.gate: may be null. Errors as TensorEngine::Load.
Expected<TensorEngineParts> LoadOpenVinoModel(const std::string& path,
                                              const TensorEngineOptions& options, int threads);

// kUnavailable also: OpenVINO is not installed.
Expected<ModelNeeds> OpenVinoNeedsOf(const std::string& path, const TensorEngineOptions& options);

}  // namespace penstock::engine

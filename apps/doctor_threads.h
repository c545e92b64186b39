// The part of penstock doctor that tries numbers of threads: how fast the model is with each, and
// which number to take.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "checks/check.h"
#include "inspect_decoder.h"
#include "os/processors.h"
#include "runtime/model_options.h"

namespace penstock::cli {

// With one number of threads: work that is much at once (prompts, many texts), and work that waits
// for itself (single tokens, single texts).
struct ThreadSpeed {
  int threads = 0;
  double many_per_s = 0;
  double single_per_s = 0;
};

// What a model does in a second.
struct SpeedUnits {
  const char* many;    // "tokens of prompts/s"
  const char* single;  // "tokens decoded/s"
};

// The numbers to try: powers of two below the cores, the cores, all processors where cores have
// several, and `in_use`; those that a quota leaves out are not tried, but for `in_use`.
std::vector<int> ThreadsToTry(int in_use, const ProcessorLimits& limits, const Topology& topology);

// The smallest number that does much work at nearly the best rate. `tried` is not empty.
const ThreadSpeed& BestThreads(const std::vector<ThreadSpeed>& tried);

// Loads the model with each number of threads and says what each gives, then which to take:
// kAdvice, if --threads asks for a number that is slower.
void TryThreads(const runtime::ModelOptions& flags, const checks::Say& say);
void TryThreadsOfDecoder(const DecoderPlace& place, const runtime::ModelOptions& flags,
                         const checks::Say& say);

}  // namespace penstock::cli

// The Backend of the CPU: kernels of one instruction set spread over a pinned thread pool.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "program/backend.h"

namespace penstock::cpu {

struct CpuOptions {
  int threads = 0;  // 0: as many as are of use (PlanThreads)
  bool pin = true;  // the pool's threads may be pinned to processors (PlanThreads)
  std::string isa;  // "" = PENSTOCK_CPU_ISA, else the fastest this processor has
  // All of `threads` take part, also those beyond the processors, and in every step of a decoder
  // (step_threads.h): for tests.
  bool exact_threads = false;
};

// kUnsupported: this build or processor lacks the instruction set asked for.
Expected<std::unique_ptr<program::Backend>> NewCpuBackend(const CpuOptions& options);

}  // namespace penstock::cpu

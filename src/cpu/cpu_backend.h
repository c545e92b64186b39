// The Backend of the CPU: kernels of one instruction set spread over a pinned thread pool.
#pragma once

#include <memory>
#include <string>

#include "common/status.h"
#include "tensor/backend.h"

namespace penstock {

struct CpuOptions {
  int threads = 0;  // 0: one for each processor this process may use
  bool pin = true;  // pin the pool's threads to processors
  std::string isa;  // "" = PENSTOCK_CPU_ISA, else the fastest this processor has
};

// kUnsupported: this build or processor lacks the instruction set asked for.
Expected<std::unique_ptr<Backend>> NewCpuBackend(const CpuOptions& options);

}  // namespace penstock

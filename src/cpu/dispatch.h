// Selects the kernels this process runs: once by cpuid, or forced by PENSTOCK_CPU_ISA (scalar,
// avx2, avxvnni, avx512, avx512vnni, avx512bf16, amx, neon,
// i8mm, and amx_emulated) for tests and for comparing machines.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "cpu/kernels.h"

namespace penstock::cpu {

// Every set of kernels that was built and that this processor can run, slowest first.
std::vector<const Kernels*> SupportedKernels();
// The same, and those that emulate an extension that this processor may lack.
std::vector<const Kernels*> AllKernels();

// `forced`: "" for the fastest supported one, or a name of AllKernels. kUnsupported names the instruction sets available.
Expected<const Kernels*> ChooseKernels(const std::string& forced);

// ChooseKernels(PENSTOCK_CPU_ISA).
Expected<const Kernels*> DefaultKernels();

}  // namespace penstock::cpu

#include "cpu/dispatch.h"

#include <cstdlib>

namespace penstock::cpu {

const char* IsaName(Isa isa) {
  switch (isa) {
    case Isa::kScalar:
      return "scalar";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx512:
      return "avx512";
  }
  return "?";
}

std::vector<const Kernels*> SupportedKernels() {
  std::vector<const Kernels*> out = {ScalarKernels()};
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (Avx2Kernels() != nullptr && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    out.push_back(Avx2Kernels());
  }
  if (Avx512Kernels() != nullptr && __builtin_cpu_supports("avx512f") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl")) {
    out.push_back(Avx512Kernels());
  }
#endif
  return out;
}

Expected<const Kernels*> ChooseKernels(const std::string& forced) {
  const std::vector<const Kernels*> supported = SupportedKernels();
  if (forced.empty()) return supported.back();
  std::string names;
  for (const Kernels* kernels : supported) {
    if (forced == IsaName(kernels->isa)) return kernels;
    names += (names.empty() ? "" : ", ") + std::string(IsaName(kernels->isa));
  }
  return Status::Unsupported("PENSTOCK_CPU_ISA=" + forced + ": this processor offers " + names,
                             "PENSTOCK_CPU_ISA");
}

Expected<const Kernels*> DefaultKernels() {
  const char* forced = std::getenv("PENSTOCK_CPU_ISA");
  return ChooseKernels(forced == nullptr ? "" : forced);
}

}  // namespace penstock::cpu

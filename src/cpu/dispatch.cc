#include "cpu/dispatch.h"

#include <cstdlib>

namespace penstock::cpu {

const char* IsaName(Isa isa) {
  switch (isa) {
    case Isa::kScalar:
      return "scalar";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvxVnni:
      return "avxvnni";
    case Isa::kAvx512:
      return "avx512";
    case Isa::kAvx512Vnni:
      return "avx512vnni";
    case Isa::kAvx512Bf16:
      return "avx512bf16";
    case Isa::kNeon:
      return "neon";
  }
  return "?";
}

std::vector<const Kernels*> SupportedKernels() {
  std::vector<const Kernels*> out = {ScalarKernels()};
  const auto add = [&out](const Kernels* kernels, bool supported) {
    if (kernels != nullptr && supported) out.push_back(kernels);
  };
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  const bool vnni = avx512 && __builtin_cpu_supports("avx512vnni");
  add(Avx2Kernels(), avx2);
  add(AvxVnniKernels(), avx2 && __builtin_cpu_supports("avxvnni"));
  add(Avx512Kernels(), avx512);
  add(Avx512VnniKernels(), vnni);
  add(Avx512Bf16Kernels(), vnni && __builtin_cpu_supports("avx512bf16"));
#elif defined(__aarch64__)
  add(NeonKernels(), true);  // every 64-bit ARM processor has it
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

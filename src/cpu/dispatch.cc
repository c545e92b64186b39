#include "cpu/dispatch.h"

#include <cstdlib>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace penstock::cpu {

#if defined(__x86_64__)
namespace {

// clang 14's __builtin_cpu_supports does not know "avxvnni": leaf 7, subleaf 1, EAX bit 4. ("avx2"
// already implies that the system saves the registers.)
bool HasAvxVnni() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0 || eax < 1) return false;
  return __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0 && (eax >> 4 & 1) != 0;
}

}  // namespace
#endif

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
  add(AvxVnniKernels(), avx2 && HasAvxVnni());
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

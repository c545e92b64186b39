#include "cpu/dispatch.h"

#include <cstdlib>
#include <span>

#include "cpu/amx.h"

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

// The same of "f16c": leaf 1, ECX bit 29.
bool HasF16c() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx >> 29 & 1) != 0;
}

}  // namespace
#endif

namespace {

// Features of this processor.
uint32_t SupportedFeatures() {
  uint32_t features = 0;
  const auto add = [&features](Feature feature, bool supported) {
    if (supported) features |= feature;
  };
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && HasF16c();
  add(kAvx2, avx2);
  add(kAvxVnni, avx2 && HasAvxVnni());
  add(kAvx512, __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                   __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"));
  add(kAvx512Vnni, __builtin_cpu_supports("avx512vnni"));
  add(kAvx512Bf16, __builtin_cpu_supports("avx512bf16"));
  add(kAmx, (features & kAvx512Bf16) != 0 && AmxIsUsable());
#elif defined(__aarch64__)
  add(kNeon, true);  // every 64-bit ARM processor has it
#endif
  return features;
}

// Slowest first.
constexpr const Kernels* (*kTables[])() = {ScalarKernels, Avx2Kernels,       AvxVnniKernels,
                                           Avx512Kernels, Avx512VnniKernels, Avx512Bf16Kernels,
                                           AmxKernels,    NeonKernels};
constexpr const Kernels* (*kEmulated[])() = {EmulatedAmxKernels};

void AddSupported(std::span<const Kernels* (*const)()> tables, std::vector<const Kernels*>* out) {
  const uint32_t features = SupportedFeatures();
  for (const auto table : tables) {
    const Kernels* const kernels = table();
    if (kernels != nullptr && (kernels->needs & ~features) == 0) out->push_back(kernels);
  }
}

}  // namespace

std::vector<const Kernels*> SupportedKernels() {
  std::vector<const Kernels*> out;
  AddSupported(kTables, &out);
  return out;
}

std::vector<const Kernels*> AllKernels() {
  std::vector<const Kernels*> out;
  AddSupported(kEmulated, &out);
  AddSupported(kTables, &out);
  return out;
}

Expected<const Kernels*> ChooseKernels(const std::string& forced) {
  const std::vector<const Kernels*> all = AllKernels();
  if (forced.empty()) return all.back();
  std::string names;
  for (const Kernels* kernels : all) {
    if (forced == kernels->name) return kernels;
    names += (names.empty() ? "" : ", ") + std::string(kernels->name);
  }
  return Status::Unsupported("PENSTOCK_CPU_ISA=" + forced + ": this processor offers " + names,
                             "PENSTOCK_CPU_ISA");
}

Expected<const Kernels*> DefaultKernels() {
  const char* forced = std::getenv("PENSTOCK_CPU_ISA");
  return ChooseKernels(forced == nullptr ? "" : forced);
}

}  // namespace penstock::cpu

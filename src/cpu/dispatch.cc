#include "cpu/dispatch.h"

#include <cstdlib>
#include <span>

#include "cpu/amx.h"

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
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

// Features of this processor. `amx`: ask for that, too, which runs its instructions.
uint32_t SupportedFeatures([[maybe_unused]] bool amx) {
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
  constexpr uint32_t kBesideAmx = kAvx512 | kAvx512Vnni | kAvx512Bf16;
  add(kAmx, amx && (features & kBesideAmx) == kBesideAmx && AmxIsUsable());
#elif defined(__aarch64__)
  add(kNeon, true);  // every 64-bit ARM processor has it
  constexpr unsigned long kI8mmAndBf16 = 1ul << 13 | 1ul << 14;  // HWCAP2_I8MM, HWCAP2_BF16
  add(kI8mm, (getauxval(AT_HWCAP2) & kI8mmAndBf16) == kI8mmAndBf16);
#endif
  return features;
}

// Slowest first.
constexpr const Kernels* (*kTables[])() = {ScalarKernels, Avx2Kernels,       AvxVnniKernels,
                                           Avx512Kernels, Avx512VnniKernels, Avx512Bf16Kernels,
                                           AmxKernels,    NeonKernels,       I8mmKernels};
constexpr const Kernels* (*kEmulated[])() = {EmulatedAmxKernels};

void AddSupported(std::span<const Kernels* (*const)()> tables, uint32_t features,
                  std::vector<const Kernels*>* out) {
  for (const auto table : tables) {
    const Kernels* const kernels = table();
    if (kernels != nullptr && (kernels->needs & ~features) == 0) out->push_back(kernels);
  }
}

// Emulated ones first.
std::vector<const Kernels*> OfferedKernels(bool amx) {
  const uint32_t features = SupportedFeatures(amx);
  std::vector<const Kernels*> out;
  AddSupported(kEmulated, features, &out);
  AddSupported(kTables, features, &out);
  return out;
}

}  // namespace

std::vector<const Kernels*> SupportedKernels() {
  std::vector<const Kernels*> out;
  AddSupported(kTables, SupportedFeatures(true), &out);
  return out;
}

std::vector<const Kernels*> AllKernels() { return OfferedKernels(true); }

Expected<const Kernels*> ChooseKernels(const std::string& forced) {
  if (forced.empty()) return SupportedKernels().back();
  // A name keeps the process off an instruction set that traps or is wrong: first without AMX.
  for (const bool amx : {false, true}) {
    for (const Kernels* kernels : OfferedKernels(amx)) {
      if (forced == kernels->name) return kernels;
    }
  }
  std::string names;
  for (const Kernels* kernels : AllKernels()) {
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

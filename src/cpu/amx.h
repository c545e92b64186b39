// The tile unit of AMX: whether this process may use it, and from how many rows on it pays.
#pragma once

#include <cstddef>
#include <string>

#include "cpu/kernels.h"

namespace penstock::cpu {

// What decides whether the unit is used, each asked only if those before it said yes.
struct AmxProbe {
  // The processor has TILE, INT8 and BF16, and the kernel saves the registers.
  bool (*processor)();
  // The kernel permits this process to use them: they take 8 KiB more a thread, so that Linux gives
  // them on request alone (5.16 and later). 0, or errno.
  int (*request)();
  // The unit's results are those of its emulation, within kAmxErrorMax of the largest.
  bool (*agrees)();
};

// int8 is exact. bf16's order of additions is documented, but another order would not be wrong.
constexpr double kAmxErrorMax = 2e-6;

// Whether `kernels` agree with `wanted` in GEMMs of every shape of tiles that they use.
bool TilesAgree(const Kernels& kernels, const Kernels& wanted);

// True if the unit may be used. `refusal`: why not, where the processor has one; else empty.
bool AskForAmx(const AmxProbe& probe, std::string* refusal);

// AskForAmx of this machine, asked once; a refusal is logged.
bool AmxIsUsable();

// The fewest rows of an int8 GEMM, and of one by GGUF blocks, that a tile unit multiplies faster than
// the vector kernels do. Measured at the first call, in about a millisecond; 1 for an emulated unit,
// and without any.
size_t TileRowsMin(const Kernels& kernels);
size_t BlockTileRowsMin(const Kernels& kernels);

}  // namespace penstock::cpu

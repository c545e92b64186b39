#include "cpu/amx.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <iterator>
#include <random>
#include <vector>

#include "common/log.h"
#include "cpu/block_layout.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace penstock::cpu {
namespace {

#if defined(__x86_64__)

// clang 14's __builtin_cpu_supports does not know AMX: leaf 7, EDX bits 22 (BF16), 24 (TILE) and 25
// (INT8). The kernel's part: bits 17 and 18 of XCR0, the configuration and the registers.
bool ProcessorHasAmx() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  constexpr unsigned kUnit = 1u << 22 | 1u << 24 | 1u << 25;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0 || (edx & kUnit) != kUnit) return false;
  constexpr unsigned kOsXsave = 1u << 27;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0 || (ecx & kOsXsave) == 0) return false;
  unsigned low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  constexpr unsigned kTileState = 1u << 17 | 1u << 18;
  return (low & kTileState) == kTileState;
}

int RequestTileRegisters() {
  constexpr long kRequest = 0x1023;    // ARCH_REQ_XCOMP_PERM
  constexpr long kTileRegisters = 18;  // XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequest, kTileRegisters) == 0 ? 0 : errno;
}

#else

bool ProcessorHasAmx() { return false; }
int RequestTileRegisters() { return ENOSYS; }

#endif

// A GEMM of seeded random operands.
class Trial {
 public:
  Trial(const Kernels& kernels, numbers::DType dtype, size_t rows, size_t in, size_t panels)
      : columns_(panels * static_cast<size_t>(kernels.panel)), y_(rows * columns_) {
    std::mt19937 random(20261129);
    std::normal_distribution<float> normal;
    const auto words = [&](size_t count) {
      std::vector<Word> out(count);
      for (Word& word : out) {
        word = static_cast<Word>(random());
        if (dtype == numbers::DType::kBf16) {  // both halves of values near 1
          const float v = normal(random);
          std::memcpy(&word, &v, sizeof(word));
          word = word >> 16 | (word & 0xffff0000);
        }
      }
      return out;
    };
    x_ = words(rows * RowStride(dtype, in));
    weights_ = words(columns_ * RowWords(dtype, in));
    const size_t groups = ScaleGroups(dtype, in);
    for (size_t i = 0; i < rows * groups; ++i) {
      row_scales_.push_back(
          {0.5f + std::abs(normal(random)), static_cast<int32_t>(random() % 256)});
    }
    for (size_t i = 0; i < columns_ * groups; ++i) {
      scales_.push_back(normal(random));
      sums_.push_back(static_cast<int32_t>(random() % 32513) - 16256);
    }
    task_.dtype = dtype;
    task_.x = x_.data();
    task_.x_scales = row_scales_.data();
    task_.panels = weights_.data();
    task_.scales = scales_.data();
    task_.sums = sums_.data();
    task_.y = y_.data();
    task_.rows = rows;
    task_.in = in;
    task_.panel_count = panels;
    task_.cols = columns_;
    task_.y_stride = columns_;
  }

  const std::vector<float>& Run(const Kernels& kernels, size_t tile_rows_min) {
    task_.tile_rows_min = tile_rows_min;
    kernels.gemm(task_);
    return y_;
  }

 private:
  size_t columns_;
  std::vector<float> y_;
  std::vector<Word> x_, weights_;
  std::vector<RowScale> row_scales_;
  std::vector<float> scales_;
  std::vector<int32_t> sums_;
  GemmTask task_;
};

bool AgreesWithEmulation() {
  for (const numbers::DType dtype : {numbers::DType::kI8, numbers::DType::kBf16}) {
    const auto run = [dtype](const Kernels& kernels) {
      return Trial(kernels, dtype, 37, 150, 2).Run(kernels, 1);
    };
    const std::vector<float> got = run(*AmxKernels());
    const std::vector<float> want = run(*EmulatedAmxKernels());
    for (size_t i = 0; i < want.size(); ++i) {
      const float most = dtype == numbers::DType::kI8 ? 0 : 1e-4f;
      if (!(std::abs(got[i] - want[i]) <= most)) return false;
    }
  }
  return true;
}

// A GEMM by panels of Q8_0 blocks.
class BlockTrial {
 public:
  BlockTrial(const Kernels& kernels, size_t rows)
      : x_(rows * kIn, 0.5f),
        packed_(BlockRowsWords(numbers::DType::kI8, kIn, rows)),
        panels_(kPanels *
                    BlockPanelBytes(numbers::DType::kQ8_0, kIn, static_cast<size_t>(kernels.panel)),
                0x2c),  // scales of 0.065
        scratch_(kBlockScratchBytes + 64) {
    const size_t columns = kPanels * static_cast<size_t>(kernels.panel);
    y_.resize(rows * columns);
    task_.stored = numbers::DType::kQ8_0;
    task_.x = packed_.data();
    task_.panels = panels_.data();
    task_.y = y_.data();
    task_.rows = rows;
    task_.in = kIn;
    task_.panel_count = kPanels;
    task_.cols = columns;
    task_.y_stride = columns;
    const auto at = reinterpret_cast<uintptr_t>(scratch_.data());
    task_.scratch = scratch_.data() + (64 - at % 64) % 64;
  }

  void Run(const Kernels& kernels, size_t tile_rows_min) {
    if (packed_for_ != tile_rows_min) {
      PackBlockRowsTask pack;
      pack.x = x_.data();
      pack.x_stride = kIn;
      pack.rows = task_.rows;
      pack.in = kIn;
      pack.packed = packed_.data();
      pack.tiles = BlockRowTiles(task_.rows, static_cast<size_t>(kernels.tile_rows));
      pack.tile_rows_min = packed_for_ = tile_rows_min;
      kernels.pack_block_rows(pack);
    }
    task_.tile_rows_min = tile_rows_min;
    kernels.block_gemm(task_);
  }

 private:
  static constexpr size_t kIn = 768, kPanels = 4;
  std::vector<float> x_, y_;
  std::vector<Word> packed_;
  std::vector<uint8_t> panels_, scratch_;
  BlockGemmTask task_;
  size_t packed_for_ = 0;
};

// The shortest of a few runs.
template <typename Run>
std::chrono::nanoseconds ShortestOf(Run&& run) {
  auto best = std::chrono::nanoseconds::max();
  for (int i = 0; i < 5; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    run();
    best = std::min<std::chrono::nanoseconds>(best, std::chrono::steady_clock::now() - begin);
  }
  return best;
}

// `make(rows)` gives what Run(kernels, tile_rows_min) multiplies.
template <typename MakeTrial>
size_t MeasureTileRowsMin(const Kernels& kernels, MakeTrial&& make) {
  constexpr size_t kRows[] = {1, 2, 4, 8, 12, 16, 24};
  size_t least = kRows[std::size(kRows) - 1] + 1;
  // From the most rows down to the first number at which vectors are as fast.
  for (size_t i = std::size(kRows); i-- > 0;) {
    auto trial = make(kRows[i]);
    const auto tiles = ShortestOf([&] { trial.Run(kernels, 1); });
    if (tiles >= ShortestOf([&] { trial.Run(kernels, kRows[i] + 1); })) break;
    least = kRows[i];
  }
  return least;
}

}  // namespace

bool AskForAmx(const AmxProbe& probe, std::string* refusal) {
  refusal->clear();
  if (!probe.processor()) return false;
  if (const int error = probe.request(); error != 0) {
    *refusal = std::string("the kernel does not permit it (") + std::strerror(error) + ")";
    return false;
  }
  if (!probe.agrees()) {
    *refusal = "it multiplies otherwise than documented";
    return false;
  }
  return true;
}

bool AmxIsUsable() {
  static const bool usable = [] {
    if (AmxKernels() == nullptr) return false;
    std::string refusal;
    const bool offered =
        AskForAmx({ProcessorHasAmx, RequestTileRegisters, AgreesWithEmulation}, &refusal);
    if (!refusal.empty()) LogWarn("the processor's AMX is not used: {}", refusal);
    return offered;
  }();
  return usable;
}

size_t TileRowsMin(const Kernels& kernels) {
  if (&kernels != AmxKernels()) return 1;
  static const size_t measured = MeasureTileRowsMin(
      kernels, [&](size_t rows) { return Trial(kernels, numbers::DType::kI8, rows, 768, 4); });
  return measured;
}

size_t BlockTileRowsMin(const Kernels& kernels) {
  if (&kernels != AmxKernels()) return 1;
  static const size_t measured =
      MeasureTileRowsMin(kernels, [&](size_t rows) { return BlockTrial(kernels, rows); });
  return measured;
}

}  // namespace penstock::cpu

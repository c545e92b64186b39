#include "cpu/amx.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <iterator>
#include <random>
#include <span>
#include <vector>

#include "cpu/block_layout.h"
#include "cpu/huge_page_arena.h"
#include "log/log.h"

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

// The table of avx512bf16 with `changes`; null without any.
const Kernels* WithChanges(const Kernels* changes, Kernels* table) {
  if (changes == nullptr || Avx512Bf16Kernels() == nullptr) return nullptr;
  *table = *Avx512Bf16Kernels();
  table->name = changes->name;
  table->needs |= changes->needs;
  table->coarse_rows = changes->coarse_rows;
  table->pack_rows = changes->pack_rows;
  table->gemm = changes->gemm;
  table->peak = changes->peak;
  table->attention = changes->attention;
  table->attention_scratch_floats = changes->attention_scratch_floats;
  table->pack_block_rows = changes->pack_block_rows;
  table->block_gemm = changes->block_gemm;
  return table;
}

// Memory as a tile unit wants it: a row of a tile in one cache line.
Word* AllocWords(size_t count, HugePageArena* arena, std::vector<HugePageArena::Block>* blocks) {
  blocks->push_back(arena->Alloc(count * sizeof(Word)));
  return static_cast<Word*>(blocks->back().data);
}

// A GEMM of seeded random operands.
class Trial {
 public:
  Trial(const Kernels& kernels, numbers::DType dtype, size_t rows, size_t in, size_t panels) {
    std::mt19937 random(20261129);
    std::normal_distribution<float> normal;
    const auto words = [&](size_t count, auto&& word) {
      Word* const out = AllocWords(count, &arena_, &blocks_);
      for (size_t i = 0; i < count; ++i) out[i] = word();
      return out;
    };
    const auto float_word = [&] { return std::bit_cast<Word>(normal(random)); };
    const auto operand = [&] {  // 4 bytes of any value, or two bf16
      if (dtype == numbers::DType::kI8) return static_cast<Word>(random());
      return float_word() >> 16 | (float_word() & 0xffff0000);
    };
    const size_t columns = panels * static_cast<size_t>(kernels.panel);
    const size_t groups = ScaleGroups(dtype, in);
    for (size_t i = 0; i < rows * groups; ++i) {
      row_scales_.push_back(
          {0.5f + std::abs(normal(random)), static_cast<int32_t>(random() % 256)});
    }
    task_.dtype = dtype;
    task_.x = words(rows * RowStride(dtype, in), operand);
    task_.x_scales = row_scales_.data();
    task_.panels = words(columns * RowWords(dtype, in), operand);
    task_.scales = reinterpret_cast<float*>(words(columns * groups, float_word));
    task_.sums = reinterpret_cast<int32_t*>(
        words(columns * groups, [&] { return static_cast<Word>(random() % 32513) - 16256; }));
    task_.bias = reinterpret_cast<float*>(words(columns, float_word));
    task_.y = reinterpret_cast<float*>(words(rows * columns, float_word));
    task_.rows = rows;
    task_.in = in;
    task_.panel_count = panels;
    task_.cols = columns;
    task_.y_stride = columns;
  }

  std::span<const float> Run(const Kernels& kernels, size_t tile_rows_min) {
    task_.tile_rows_min = tile_rows_min;
    kernels.gemm(task_);
    return {task_.y, task_.rows * task_.y_stride};
  }

 private:
  HugePageArena arena_;
  std::vector<HugePageArena::Block> blocks_;
  std::vector<RowScale> row_scales_;
  GemmTask task_;
};

// A GEMM by panels of blocks.
class BlockTrial {
 public:
  BlockTrial(const Kernels& kernels, numbers::DType stored, numbers::DType dtype, size_t rows) {
    std::mt19937 random(20261129);
    std::normal_distribution<float> normal;
    const auto width = static_cast<size_t>(kernels.panel);
    pack_.dtype = dtype;
    auto* const x = reinterpret_cast<float*>(AllocWords(rows * kIn, &arena_, &blocks_));
    for (size_t i = 0; i < rows * kIn; ++i) x[i] = normal(random);
    pack_.x = x;
    pack_.x_stride = kIn;
    pack_.rows = rows;
    pack_.in = kIn;
    pack_.packed = AllocWords(BlockRowsWords(dtype, kIn, rows), &arena_, &blocks_);
    pack_.tiles = BlockRowTiles(rows, static_cast<size_t>(kernels.tile_rows));
    pack_.tile_rows_min = 0;
    // No byte that makes an f16 infinite, or larger than 2.
    const size_t words = kPanels * BlockPanelBytes(stored, kIn, width) / sizeof(Word);
    Word* const panels = AllocWords(words, &arena_, &blocks_);
    for (size_t i = 0; i < words; ++i) panels[i] = static_cast<Word>(random()) & 0xbfbfbfbf;
    task_.stored = stored;
    task_.dtype = dtype;
    task_.x = pack_.packed;
    task_.panels = reinterpret_cast<const uint8_t*>(panels);
    task_.y = reinterpret_cast<float*>(AllocWords(rows * kPanels * width, &arena_, &blocks_));
    task_.rows = rows;
    task_.in = kIn;
    task_.panel_count = kPanels;
    task_.cols = kPanels * width;
    task_.y_stride = kPanels * width;
    task_.scratch = AllocWords(kBlockScratchBytes / sizeof(Word), &arena_, &blocks_);
  }

  std::span<const float> Run(const Kernels& kernels, size_t tile_rows_min) {
    if (pack_.tile_rows_min != tile_rows_min) {
      pack_.tile_rows_min = task_.tile_rows_min = tile_rows_min;
      kernels.pack_block_rows(pack_);
    }
    kernels.block_gemm(task_);
    return {task_.y, task_.rows * task_.y_stride};
  }

 private:
  static constexpr size_t kIn = 768, kPanels = 4;
  HugePageArena arena_;
  std::vector<HugePageArena::Block> blocks_;
  PackBlockRowsTask pack_;
  BlockGemmTask task_;
};

// Whether both sets give the same of make(), within kAmxErrorMax of the largest; int8 exactly.
template <typename Make>
bool Agree(const Kernels& kernels, const Kernels& wanted, numbers::DType dtype, Make&& make) {
  auto one = make(kernels), other = make(wanted);
  const std::span<const float> got = one.Run(kernels, 1), want = other.Run(wanted, 1);
  float size = 0;
  for (const float v : want) size = std::max(size, std::abs(v));
  const auto most = dtype == numbers::DType::kI8 ? 0 : static_cast<float>(kAmxErrorMax) * size;
  return std::ranges::equal(got, want,
                            [most](float a, float b) { return std::abs(a - b) <= most; });
}

bool AgreesWithEmulation() { return TilesAgree(*AmxKernels(), *EmulatedAmxKernels()); }

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
template <typename Make>
size_t MeasureTileRowsMin(const Kernels& kernels, Make&& make) {
  constexpr size_t kRows[] = {1, 2, 4, 8, 12, 16, 24};
  size_t least = kRows[std::size(kRows) - 1] + 1;
  // From the most rows down to the first number at which vectors are as fast.
  for (size_t i = std::size(kRows); i-- > 0;) {
    auto trial = make(kRows[i]);
    // A unit that was idle takes a while to reach its speed.
    const auto warm = std::chrono::steady_clock::now() + std::chrono::microseconds(100);
    while (std::chrono::steady_clock::now() < warm) trial.Run(kernels, 1);
    const auto tiles = ShortestOf([&] { trial.Run(kernels, 1); });
    if (tiles >= ShortestOf([&] { trial.Run(kernels, kRows[i] + 1); })) break;
    least = kRows[i];
  }
  return least;
}

}  // namespace

const Kernels* AmxKernels() {
  static Kernels table;
  static const Kernels* const kernels = WithChanges(AmxChanges(), &table);
  return kernels;
}

const Kernels* EmulatedAmxKernels() {
  static Kernels table;
  static const Kernels* const kernels = WithChanges(EmulatedAmxChanges(), &table);
  return kernels;
}

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

bool TilesAgree(const Kernels& kernels, const Kernels& wanted) {
  using enum numbers::DType;
  for (const numbers::DType dtype : {kI8, kBf16}) {
    // Rows of both heights, k that ends between two steps.
    if (!Agree(kernels, wanted, dtype,
               [dtype](const Kernels& with) { return Trial(with, dtype, 37, 150, 2); }))
      return false;
    for (const numbers::DType stored : {kQ8_0, kQ6K}) {  // whole groups, and halves of them
      if (!Agree(kernels, wanted, dtype, [dtype, stored](const Kernels& with) {
            return BlockTrial(with, stored, dtype, 37);
          }))
        return false;
    }
  }
  return true;
}

size_t TileRowsMin(const Kernels& kernels) {
  if (&kernels != AmxKernels()) return 1;
  static const size_t measured = MeasureTileRowsMin(
      kernels, [&](size_t rows) { return Trial(kernels, numbers::DType::kI8, rows, 768, 4); });
  return measured;
}

size_t BlockTileRowsMin(const Kernels& kernels) {
  if (&kernels != AmxKernels()) return 1;
  static const size_t measured = [&] {
    size_t least = 1;
    for (const numbers::DType stored : {numbers::DType::kQ8_0, numbers::DType::kQ6K}) {
      least = std::max(least, MeasureTileRowsMin(kernels, [&](size_t rows) {
                         return BlockTrial(kernels, stored, numbers::DType::kI8, rows);
                       }));
    }
    return least;
  }();
  return measured;
}

}  // namespace penstock::cpu

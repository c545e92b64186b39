// Attention of encoders: share of the arithmetic peak of the type, by length and size of a head. The
// peak is measured before and after each. One thread.
//
//   build/attention_bench --benchmark_filter='bf16'
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <string>

#include "cpu/dispatch.h"
#include "cpu/huge_page_arena.h"
#include "cpu/kernels.h"
#include "cpu/packed_linear.h"
#include "cpu/test_util.h"

namespace penstock::cpu {
namespace {

// Operations a second, the best of some runs.
double Peak(const Kernels& kernels, numbers::DType dtype) {
  double best = 0;
  for (int i = 0; i < 20; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    const double operations = kernels.peak(dtype, 50000);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    best = std::max(best, operations / took.count());
  }
  return best;
}

void Attend(benchmark::State& state, const Kernels& kernels, numbers::DType dtype, size_t length,
            size_t size, int32_t window) {
  HugePageArena arena;
  const AlignedBuffer qkv(length * 3 * size, &arena);
  std::ranges::copy(NormalFloats(length * 3 * size, 1, 0, 1), qkv.data());
  const AlignedBuffer scratch(kernels.attention_scratch_floats(dtype, length, size), &arena);
  const AlignedBuffer out(length * size, &arena);
  AttentionTask task;
  task.dtype = dtype;
  task.q = qkv.data();
  task.k = qkv.data() + size;
  task.v = qkv.data() + 2 * size;
  task.stride = 3 * size;
  task.out = out.data();
  task.out_stride = size;
  task.length = static_cast<int32_t>(length);
  task.query_end = task.length;
  task.head_size = static_cast<int32_t>(size);
  task.scale = 0.125f;
  task.window = window;
  task.scratch = scratch.data();
  double peak = Peak(kernels, dtype) / 2;
  for (auto _ : state) kernels.attention(task);
  peak += Peak(kernels, dtype) / 2;
  const double seen = window == 0 ? static_cast<double>(length)
                                  : std::min<double>(static_cast<double>(length), 2.0 * window + 1);
  const double operations = 4.0 * static_cast<double>(length) * seen * static_cast<double>(size);
  state.counters["share"] = benchmark::Counter(
      operations * static_cast<double>(state.iterations()) / peak, benchmark::Counter::kIsRate);
}

}  // namespace
}  // namespace penstock::cpu

int main(int argc, char** argv) {
  using namespace penstock;
  const auto kernels = cpu::DefaultKernels();
  if (!kernels.ok()) return 1;
  for (const numbers::DType dtype : {numbers::DType::kF32, numbers::DType::kBf16}) {
    for (const size_t size : {32, 64, 128}) {
      for (const size_t length : {64, 128, 256, 512, 1024, 2048, 4096, 8192}) {
        for (const int window : {0, 64}) {
          if (window > 0 && (length < 1024 || size != 64)) continue;
          const std::string name =
              std::string(numbers::DTypeName(dtype)) + "/head:" + std::to_string(size) +
              "/length:" + std::to_string(length) + (window > 0 ? "/window:64" : "");
          benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) {
            cpu::Attend(state, **kernels, dtype, length, size, window);
          });
        }
      }
    }
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

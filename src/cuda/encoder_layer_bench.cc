// How long the emulator takes for a layer of MiniLM's shape: build/encoder_layer_bench.
#include <benchmark/benchmark.h>

#include "cuda/encoder_layer_test_util.h"

namespace penstock::cuda {
namespace {

void BM_EncoderLayer(benchmark::State& state) {
  const EncoderLayer layer(3);
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> x(static_cast<size_t>(state.range(0) * EncoderLayer::kWidth));
  for (float& value : x) value = normal(random);
  const int lengths[] = {static_cast<int>(state.range(0))};
  for ([[maybe_unused]] const auto _ : state) {
    std::vector<float> y = x;
    if (!layer.Run(&y, lengths, {}, nullptr).ok()) state.SkipWithError("a kernel failed");
  }
}
BENCHMARK(BM_EncoderLayer)->Arg(32)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace penstock::cuda

BENCHMARK_MAIN();

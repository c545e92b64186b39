// Microseconds to choose a token, by the size of the vocabulary, from the row and from candidates
// of two parts. Logits are normal with a standard deviation of 3 and eight likely tokens, and
// another row comes each time, so that the row is not in the first cache.
#include <benchmark/benchmark.h>

#include <cstring>
#include <random>
#include <vector>

#include "sample/sampler.h"
#include "sample/test_logits.h"

namespace penstock::sample {
namespace {

constexpr size_t kRows = 16;

SamplingOptions Greedy() {
  SamplingOptions options;
  options.temperature = 0;
  return options;
}

SamplingOptions TopKTopP() {
  SamplingOptions options;
  options.temperature = 0.8f;
  options.top_k = 40;
  options.top_p = 0.95f;
  options.seed = 1;
  return options;
}

SamplingOptions TopP() {
  SamplingOptions options = TopKTopP();
  options.top_k = 0;
  return options;
}

SamplingOptions Everything() {
  SamplingOptions options;
  options.seed = 1;
  return options;
}

SamplingOptions Penalties() {
  SamplingOptions options = TopKTopP();
  options.repetition_penalty = 1.1f;
  options.presence_penalty = 0.5f;
  options.frequency_penalty = 0.5f;
  return options;
}

SamplingOptions Logprobs() {
  SamplingOptions options = TopKTopP();
  options.logprobs = true;
  options.top_logprobs = 5;
  return options;
}

std::vector<std::vector<float>> Rows(size_t vocabulary) {
  std::vector<std::vector<float>> rows;
  for (uint32_t r = 0; r < kRows; ++r) {
    rows.push_back(RandomLogits(vocabulary, r));
    for (size_t i = 0; i < 8; ++i)
      rows.back()[(i * 7919 + r) % vocabulary] = 14 + static_cast<float>(i);
  }
  return rows;
}

void Report(benchmark::State& state, size_t vocabulary) {
  state.counters["us_per_token"] = benchmark::Counter(
      1e-6, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * vocabulary * sizeof(float)));
}

Sampler Made(const SamplingOptions& options, size_t vocabulary, uint32_t accepted) {
  Sampler sampler = *Sampler::Make(options, static_cast<int32_t>(vocabulary), 4096);
  std::mt19937 random(1);
  for (uint32_t i = 0; i < accepted; ++i) {
    sampler.Accept(static_cast<int32_t>(random() % vocabulary));
  }
  return sampler;
}

void FromRow(benchmark::State& state, SamplingOptions (*options)()) {
  const auto vocabulary = static_cast<size_t>(state.range(0));
  const auto rows = Rows(vocabulary);
  Sampler sampler = Made(options(), vocabulary, 1000);
  uint64_t position = 0;
  for (auto _ : state) {
    SampledToken token;
    const Status status = sampler.Sample({rows[position % kRows], {}, {}}, position, &token);
    if (!status.ok()) return state.SkipWithError(status.message().c_str());
    benchmark::DoNotOptimize(token.id);
    ++position;
  }
  Report(state, vocabulary);
}

// The sampler's share where the threads that make logits scan them.
void FromParts(benchmark::State& state, SamplingOptions (*options)()) {
  const auto vocabulary = static_cast<size_t>(state.range(0));
  const auto rows = Rows(vocabulary);
  const size_t half = vocabulary / 2 / kLogitBlock * kLogitBlock;
  Sampler sampler = Made(options(), vocabulary, 1000);
  std::vector<LogitScan> scans(2 * kRows);
  std::vector<std::vector<LogitPart>> parts(kRows);
  std::vector<std::vector<LogitBlock>> blocks(kRows);
  for (size_t r = 0; r < kRows; ++r) {
    blocks[r].resize(LogitBlocks(vocabulary));
    for (size_t half_of = 0; half_of < 2; ++half_of) {
      LogitScan& scan = scans[2 * r + half_of];
      scan.Reset(kCandidatesMax, true);
      const std::span<const float> row = rows[r];
      scan.Add(half_of == 0 ? row.first(half) : row.subspan(half), half_of == 0 ? 0 : half,
               blocks[r].data());
      parts[r].push_back(scan.Part());
    }
  }
  uint64_t position = 0;
  for (auto _ : state) {
    SampledToken token;
    const size_t r = position % kRows;
    const Status status = sampler.Sample({rows[r], parts[r], blocks[r]}, position, &token);
    if (!status.ok()) return state.SkipWithError(status.message().c_str());
    benchmark::DoNotOptimize(token.id);
    ++position;
  }
  Report(state, vocabulary);
}

// What a scan costs the threads that make the logits.
void Scan(benchmark::State& state, bool sums) {
  const auto vocabulary = static_cast<size_t>(state.range(0));
  const auto rows = Rows(vocabulary);
  std::vector<LogitBlock> blocks(LogitBlocks(vocabulary));
  LogitScan scan;
  size_t r = 0;
  for (auto _ : state) {
    scan.Reset(kCandidatesMax, sums);
    scan.Add(rows[r++ % kRows], 0, blocks.data());
    benchmark::DoNotOptimize(scan.Part().best.data());
  }
  Report(state, vocabulary);
}

// How fast the memory of the rows can be read: they are copied into one that stays in cache.
void Copy(benchmark::State& state) {
  const auto vocabulary = static_cast<size_t>(state.range(0));
  const auto rows = Rows(vocabulary);
  std::vector<float> to(kLogitBlock);
  size_t r = 0;
  for (auto _ : state) {
    const std::vector<float>& row = rows[r++ % kRows];
    for (size_t i = 0; i + kLogitBlock <= vocabulary; i += kLogitBlock) {
      std::memcpy(to.data(), row.data() + i, kLogitBlock * sizeof(float));
      benchmark::DoNotOptimize(to.data());
      benchmark::ClobberMemory();
    }
  }
  Report(state, vocabulary);
}

#define PENSTOCK_SAMPLE_BENCH(name, ...) \
  BENCHMARK_CAPTURE(name, __VA_ARGS__)->Arg(50000)->Arg(150000)->Unit(benchmark::kMicrosecond)
PENSTOCK_SAMPLE_BENCH(FromRow, greedy, Greedy);
PENSTOCK_SAMPLE_BENCH(FromRow, top_k_top_p, TopKTopP);
PENSTOCK_SAMPLE_BENCH(FromRow, top_k_top_p_penalties, Penalties);
PENSTOCK_SAMPLE_BENCH(FromRow, top_k_top_p_logprobs, Logprobs);
PENSTOCK_SAMPLE_BENCH(FromRow, top_p, TopP);
PENSTOCK_SAMPLE_BENCH(FromRow, temperature, Everything);
PENSTOCK_SAMPLE_BENCH(FromParts, greedy, Greedy);
PENSTOCK_SAMPLE_BENCH(FromParts, top_k_top_p, TopKTopP);
PENSTOCK_SAMPLE_BENCH(FromParts, top_k_top_p_penalties, Penalties);
PENSTOCK_SAMPLE_BENCH(FromParts, top_k_top_p_logprobs, Logprobs);
PENSTOCK_SAMPLE_BENCH(Scan, best, false);
PENSTOCK_SAMPLE_BENCH(Scan, best_and_sums, true);
BENCHMARK(Copy)->Arg(50000)->Arg(150000)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace penstock::sample

BENCHMARK_MAIN();

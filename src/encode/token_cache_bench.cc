// Whether the token cache is worth it: a text tokenized, and the same text found, by its bytes.
//
//   PENSTOCK_TOKENIZER=FOLDER/tokenizer.json token_cache_bench
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <random>

#include "encode/token_cache.h"
#include "engine/fake_engine.h"

namespace penstock::encode {
namespace {

constexpr size_t kTexts = 4096;  // more than fit into the first caches of a processor

std::unique_ptr<engine::EncoderEngine> NewEngine(metrics::Metrics* metrics) {
  engine::EncoderParts parts = engine::FakeParts(families::ModelTask::kEmbedding);
  const char* path = std::getenv("PENSTOCK_TOKENIZER");
  auto tokenizer = text::Tokenizer::FromFile(path != nullptr ? path : "tokenizer.json");
  if (!tokenizer.ok()) return nullptr;
  parts.tokenizer = *std::move(tokenizer);
  engine::EncoderEngineOptions options;
  options.name = "model";
  return std::make_unique<engine::EncoderEngine>(std::move(parts), options, metrics);
}

std::vector<std::string> Texts(size_t bytes) {
  static const char* const kWords[] = {"the",   "river",        "of",    "penstock",  "drives",
                                       "a",     "turbine",      "which", "generates", "electric",
                                       "power", "efficiently",  "and",   "quietly",   "at",
                                       "night", "unbelievable", "in",    "1984",      "towns"};
  std::mt19937 random(1);
  std::vector<std::string> texts(kTexts);
  for (std::string& text : texts) {
    while (text.size() < bytes) {
      text += kWords[random() % std::size(kWords)];
      text += ' ';
    }
    text.resize(bytes);
  }
  return texts;
}

void Run(benchmark::State& state, size_t cache_bytes) {
  metrics::Metrics metrics;
  const auto engine = NewEngine(&metrics);
  if (engine == nullptr) {
    state.SkipWithError("set PENSTOCK_TOKENIZER to a tokenizer.json");
    return;
  }
  TokenCache cache(cache_bytes, std::chrono::seconds(3600), nullptr, &metrics);
  const auto texts = Texts(static_cast<size_t>(state.range(0)));
  std::vector<int32_t> ids;
  for (const std::string& text : texts) (void)cache.EncodeText(*engine, text, 0, {}, &ids);
  size_t i = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(cache.EncodeText(*engine, texts[i++ % kTexts], 0, {}, &ids));
  }
}

void BM_Tokenized(benchmark::State& state) { Run(state, 0); }
void BM_Found(benchmark::State& state) { Run(state, 64 << 20); }

BENCHMARK(BM_Tokenized)->RangeMultiplier(2)->Range(32, 4096);
BENCHMARK(BM_Found)->RangeMultiplier(2)->Range(32, 4096);

}  // namespace
}  // namespace penstock::encode

BENCHMARK_MAIN();

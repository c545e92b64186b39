// Steps of a small decoder on the emulated device: against a plain model in double precision, and
// against themselves, to the bit.
#include "cuda/step_run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "cuda/cuda_backend.h"
#include "cuda/device_emulated.h"
#include "cuda/race_hooks.h"
#include "program/tiny_decoder_test_util.h"
#include "sample/sampler.h"

namespace penstock::cuda {
namespace {

using numbers::DType;
using program::Near;
using program::PlainLogits;
using program::RandomIds;
using program::RunInSteps;
using program::SameBits;
using program::TinyDecoder;
using program::TinyShape;
using program::TinyWeights;

TinyDecoder OnDevice(const TinyWeights& weights, DType mode, const EmulatedOptions& device = {},
                     const RunOptions& options = {}) {
  return {weights, mode, NewCudaBackend(NewEmulatedDevice(device), options)};
}

// Small, since every product is emulated.
TinyShape SmallShape() {
  TinyShape shape;
  shape.hidden = 64;
  shape.heads = 4;
  shape.head_size = 16;
  shape.rope_size = 16;
  shape.inner = 128;
  shape.vocabulary = 300;
  return shape;
}

// For long texts.
TinyShape TinyShapeOf(int32_t layers) {
  TinyShape shape = SmallShape();
  shape.hidden = shape.inner = shape.vocabulary = 32;
  shape.heads = 2;
  shape.kv_heads = 1;
  shape.layers = layers;
  return shape;
}

// What architectures differ in.
std::vector<TinyShape> SmallShapes() {
  std::vector<TinyShape> shapes(4, SmallShape());
  shapes[1].window = 20;
  shapes[1].interleaved = true;
  shapes[1].rope_size = 8;
  shapes[2].soft_cap = 5;
  shapes[2].post_norms = true;
  shapes[2].residual_scale = 0.4F;
  shapes[3].head_norms = true;
  shapes[3].kv_heads = 4;
  shapes[3].head_size = 34;
  shapes[3].rope_size = 34;
  shapes[3].hidden = 136;
  return shapes;
}

TEST(CudaStepRun, LogitsAreThoseOfAPlainModelInDoublePrecision) {
  for (const TinyShape& shape : SmallShapes()) {
    if (race::kOn && !shape.head_norms) continue;  // the kernels are the same
    const TinyWeights weights(shape, DType::kF32, 1);
    const std::vector<int32_t> ids = RandomIds(shape, 50, 2);
    const program::Rows64 want = PlainLogits(weights, ids);
    for (const auto& [mode, cache, bound] : {std::tuple(DType::kF32, DType::kF32, 2e-5),
                                             {DType::kF16, DType::kF16, 4e-3},
                                             {DType::kBf16, DType::kBf16, 4e-2}}) {
      TinyDecoder decoder = OnDevice(weights, mode);
      EXPECT_TRUE(
          Near(RunInSteps(decoder.NewRun(cache, 64).get(), shape, ids, {40, 1}), want, bound))
          << numbers::DTypeName(mode) << " " << numbers::DTypeName(cache) << " " << shape.head_size;
    }
  }
}

TEST(CudaStepRun, StatesOfAttentionInBothDirections) {
  for (const int32_t window : {0, 37}) {
    TinyShape shape = SmallShape();
    shape.causal = false;
    shape.states = true;
    shape.window = window;
    const TinyWeights weights(shape, DType::kF32, 1);
    TinyDecoder decoder = OnDevice(weights, DType::kF32);
    auto run = decoder.NewRun(DType::kF32, 300);
    for (const size_t length : {1u, 80u, 300u}) {
      const std::vector<int32_t> ids = RandomIds(shape, length, 2);
      EXPECT_TRUE(
          Near(RunInSteps(run.get(), shape, ids, {length}), PlainLogits(weights, ids), 2e-5))
          << " length " << length << " window " << window;
    }
  }
}

// Whatever is stored, f16 operands with a power of two a row keep it: close to exact products of
// the values that the blocks stand for.
TEST(CudaStepRun, BlocksOfGgufAreCloseToExact) {
  const TinyShape shape = [] {
    TinyShape one = SmallShape();
    one.hidden = one.inner = 256;
    one.head_size = 64;
    one.layers = 1;
    return one;
  }();
  const std::vector<int32_t> ids = RandomIds(shape, 70, 2);
  for (const DType stored : {DType::kBf16, DType::kF16, DType::kQ8_0, DType::kQ4_0, DType::kQ4_1,
                             DType::kQ5_0, DType::kQ5_1, DType::kQ4K, DType::kQ5K, DType::kQ6K}) {
    if (race::kOn && stored != DType::kQ4K && stored != DType::kQ6K) continue;
    const TinyWeights weights(shape, stored, 3);
    TinyDecoder decoder = OnDevice(weights, DType::kF16);
    // Many rows multiply by pieces, few by blocks that become operands in registers.
    const auto run = decoder.NewRun(DType::kF32, 70);
    const std::vector<float> many = RunInSteps(run.get(), shape, ids, {70});
    EXPECT_TRUE(Near(many, PlainLogits(weights, ids), 6e-3)) << numbers::DTypeName(stored);
    EXPECT_TRUE(SameBits(RunInSteps(run.get(), shape, ids, {64, 1}), many))
        << numbers::DTypeName(stored);
  }
}

// Q4_K_M has such layers. A gate's matrices of two forms are unpacked, by kernels whose results the
// next one must not read early.
TEST(CudaStepRun, MatricesOfUnlikeForms) {
  TinyShape shape = SmallShape();
  shape.hidden = shape.inner = 256;
  shape.head_size = 64;
  shape.layers = 2;
  TinyWeights weights(shape, DType::kQ4K, 3);
  const TinyWeights others(shape, DType::kQ6K, 4);
  for (size_t i = 0; i < weights.layers.size(); ++i) {
    weights.layers[i].v = others.layers[i].v;
    weights.layers[i].up = others.layers[i].up;
  }
  const std::vector<int32_t> ids = RandomIds(shape, 70, 2);
  TinyDecoder decoder = OnDevice(weights, DType::kF16, {.overlaps = true});
  const std::vector<float> want =
      RunInSteps(decoder.NewRun(DType::kF32, 70).get(), shape, ids, {70});
  EXPECT_TRUE(Near(want, PlainLogits(weights, ids), 6e-3));
  const auto few = decoder.NewRun(DType::kF32, 64);
  EXPECT_TRUE(SameBits(RunInSteps(few.get(), shape, ids, {64, 1, 2, 1}), want));
}

// However prompts are cut, in graphs and without, whatever order threads, copies and kernels take.
TEST(CudaStepRun, BitsDoNotDependOnStepsOrOrders) {
  TinyShape shape = SmallShape();
  shape.window = 50;
  const TinyWeights weights(shape, DType::kQ8_0, 3);
  const std::vector<int32_t> ids = RandomIds(shape, 90, 4);
  const std::vector<float> want =
      RunInSteps(OnDevice(weights, DType::kF16).NewRun(DType::kBf16, 64).get(), shape, ids, {64});
  struct Variant {
    const char* name;
    EmulatedOptions device;
    RunOptions run;
    std::vector<size_t> cut;
  };
  for (const Variant& variant : {
           Variant{"short steps", {}, {}, {7, 2, 9, 33, 1, 1, 1}},
           {"eager, late, by warps",
            {.order = emulator::WakeOrder::kWarps, .late_copies = true},
            {.graphs = false},
            {40}},
           {"overlapping, random",
            {.order = emulator::WakeOrder::kRandom, .overlaps = true},
            {.graphs_max = 2},
            {33, 1, 64}},
       }) {
    if (race::kOn && variant.run.graphs) continue;
    TinyDecoder decoder = OnDevice(weights, DType::kF16, variant.device, variant.run);
    EXPECT_TRUE(
        SameBits(RunInSteps(decoder.NewRun(DType::kBf16, 64).get(), shape, ids, variant.cut), want))
        << variant.name;
  }
}

// Chunks of keys have a block of threads each where there are few rows, and are walked through
// where there are many.
TEST(CudaStepRun, BitsDoNotDependOnTheSplitOfAttention) {
  if (race::kOn) GTEST_SKIP() << "the kernels are the same as elsewhere";
  for (const auto& [window, cache] :
       {std::pair(300, DType::kF32), {0, DType::kF16}, {0, DType::kBf16}}) {
    TinyShape shape = TinyShapeOf(2);
    shape.window = window;
    const TinyWeights weights(shape, DType::kF32, 5);
    const std::vector<int32_t> ids = RandomIds(shape, 530, 6);
    TinyDecoder decoder = OnDevice(weights, DType::kF32);
    auto run = decoder.NewRun(cache, 260);
    const std::vector<float> want = RunInSteps(run.get(), shape, ids, {260});
    EXPECT_TRUE(SameBits(RunInSteps(run.get(), shape, ids, {260, 259, 1, 3, 7}), want))
        << numbers::DTypeName(cache);
  }
}

// Heads that fill a kernel's columns and that do not, groups of one row that fill its lines and that
// do not, blocks of the cache that texts share with nothing.
TEST(CudaStepRun, TensorCoresTakeHeadsAndGroupsOfAllSizes) {
  if (race::kOn) GTEST_SKIP() << "the kernels are the same as elsewhere";
  struct Heads {
    int32_t size, heads, kv_heads;
  };
  for (const Heads& one :
       {Heads{64, 3, 3}, {80, 6, 2}, {128, 2, 1}, {144, 2, 2}, {256, 4, 1}, {16, 20, 1}}) {
    TinyShape shape = TinyShapeOf(2);
    shape.heads = one.heads;
    shape.kv_heads = one.kv_heads;
    shape.head_size = shape.rope_size = one.size;
    shape.window = 40;  // of the second layer
    const TinyWeights weights(shape, DType::kF32, 5);
    const std::vector<int32_t> ids = RandomIds(shape, 75, 6);
    TinyDecoder decoder = OnDevice(weights, DType::kF32);
    auto run = decoder.NewRun(DType::kF16, 70);
    const std::vector<float> got = RunInSteps(run.get(), shape, ids, {70});
    EXPECT_TRUE(Near(got, PlainLogits(weights, ids), 4e-3)) << one.size << " " << one.heads;
    EXPECT_TRUE(SameBits(RunInSteps(run.get(), shape, ids, {33, 1, 30, 1}), got)) << one.size;
  }
}

// A token of a lone text: five kernels a layer.
TEST(CudaStepRun, KernelsOfAToken) {
  TinyShape shape = SmallShape();
  shape.layers = 3;
  const TinyWeights weights(shape, DType::kF32, 5);
  const std::vector<int32_t> ids = RandomIds(shape, 42, 6);
  for (const bool fused : {true, false}) {
    auto owned = NewEmulatedDevice({});
    EmulatedDevice* const device = owned.get();
    TinyDecoder decoder(weights, DType::kF16, NewCudaBackend(std::move(owned), {}));
    const std::vector<std::string> without = {"fused_norms", "fused_heads"};
    auto run = decoder.NewRun(DType::kF16, 40, 64, fused ? std::vector<std::string>() : without);
    (void)RunInSteps(run.get(), shape, ids, {40, 1});
    const uint64_t before = device->kernels_run();
    const std::vector<int32_t> blocks = {0, 1};
    const std::vector<int32_t> offsets = {0, 1}, picks = {0};
    const program::CachedSequence sequence = {41, blocks};
    const std::vector<program::PickWant> wants = {program::PickWant::kBest};
    ASSERT_TRUE(run->Run({.ids = std::span(ids).last(1),
                          .offsets = offsets,
                          .cached = {&sequence, 1},
                          .picks = picks,
                          .wants = wants})
                    .ok());
    // Besides the embedding, the last norm and product, which has too many blocks to fuse them, and
    // what is found in its logits.
    EXPECT_EQ(device->kernels_run() - before, 3u * (fused ? 5 : 10) + 5);
  }
}

TEST(CudaStepRun, BitsDoNotDependOnTuning) {
  const TinyShape shape = TinyShapeOf(2);
  const TinyWeights weights(shape, DType::kF32, 5);
  const std::vector<int32_t> ids = RandomIds(shape, 263, 6);
  TinyDecoder decoder = OnDevice(weights, DType::kF16, {.overlaps = true});
  ASSERT_EQ(decoder.optimisations().size(), std::size(kCudaOptimisations));
  const std::vector<float> want =
      RunInSteps(decoder.NewRun(DType::kBf16, 260).get(), shape, ids, {260, 1});
  for (const char* const off : decoder.optimisations()) {
    auto run = decoder.NewRun(DType::kBf16, 260, 256, {off});
    EXPECT_TRUE(SameBits(RunInSteps(run.get(), shape, ids, {260, 1}), want)) << off;
  }
}

// A text whose tokens the device draws, each step started before the one before has finished: the
// tokens that a sampler draws of the same logits, and the logits of a text that is known.
TEST(CudaStepRun, DrawsWhatTheSamplerDraws) {
  const TinyShape shape = SmallShape();
  const TinyWeights weights(shape, DType::kF32, 7);
  TinyDecoder decoder = OnDevice(weights, DType::kF16, {.overlaps = true});
  const std::vector<int32_t> prompt = RandomIds(shape, 30, 3), blocks = {2, 0};
  for (const float temperature : {0.0F, 1.5F}) {
    sample::SamplingOptions options;
    options.temperature = temperature;
    options.top_k = 40;
    options.top_p = 0.95F;
    options.seed = 9;
    auto sampler = *sample::Sampler::Make(options, shape.vocabulary, 100);
    auto run = decoder.NewRunAhead(DType::kBf16, 40);
    ASSERT_TRUE(run->draws());
    std::vector<int32_t> text = prompt, waits;
    const auto start = [&](size_t step) {
      const bool first = step == 0;
      const std::vector<int32_t> ids = first ? prompt : std::vector<int32_t>{0};
      const auto rows = static_cast<int32_t>(ids.size());
      const int32_t offsets[] = {0, rows}, pick = rows - 1, source = 0;
      const auto past = static_cast<int32_t>(first ? 0 : prompt.size() + step - 1);
      const program::CachedSequence sequence = {past, blocks};
      const program::PickWant want = program::PickWant::kBest;
      const sample::DrawRule rule = *sampler.RuleAt(prompt.size() + step);
      program::PackedBatch batch = {.ids = ids,
                                    .offsets = offsets,
                                    .cached = {&sequence, 1},
                                    .picks = {&pick, 1},
                                    .wants = {&want, 1},
                                    .draws = {&rule, 1}};
      if (!first) batch.sources = {&source, 1};
      return run->Start(batch);
    };
    ASSERT_TRUE(start(0).ok());
    std::vector<float> logits;
    for (size_t step = 0; step < 20; ++step) {
      ASSERT_TRUE(start(step + 1).ok());
      EXPECT_EQ(start(step + 2).code(), StatusCode::kInternal);  // two are under way
      ASSERT_TRUE(run->Finish().ok());
      const program::FoundLogits found = run->Found(0);
      sample::SampledToken token;
      ASSERT_TRUE(sampler.Sample({{}, found.parts, {}, {}}, prompt.size() + step, &token).ok());
      EXPECT_EQ(found.drawn, token.id) << step;
      const auto row = run->Row(0);
      logits.insert(logits.end(), row->begin(), row->end());
      text.push_back(token.id);
    }
    ASSERT_TRUE(run->Finish().ok());
    EXPECT_EQ(run->Finish().code(), StatusCode::kInternal);
    text.pop_back();
    auto known = decoder.NewRun(DType::kBf16, 40);
    const auto want = RunInSteps(known.get(), shape, text, {30, 1});
    const auto width = static_cast<size_t>(shape.vocabulary);
    EXPECT_TRUE(SameBits(logits, {want.end() - static_cast<ptrdiff_t>(20 * width), want.end()}));
  }
}

TEST(CudaStepRun, DrawsOnlyWhatItWasAskedTo) {
  const TinyShape shape = SmallShape();
  const TinyWeights weights(shape, DType::kF32, 7);
  TinyDecoder decoder = OnDevice(weights, DType::kF16);
  EXPECT_FALSE(decoder.NewRun(DType::kBf16, 40)->draws());
  auto run = decoder.NewRunAhead(DType::kBf16, 40);
  const std::vector<int32_t> blocks = {0, 1};
  const int32_t id = 5, offsets[] = {0, 1}, pick = 0, source = 0, none = -1;
  const program::CachedSequence sequence = {0, blocks};
  const program::PickWant want = program::PickWant::kBest;
  program::PackedBatch batch = {.ids = {&id, 1},
                                .offsets = offsets,
                                .cached = {&sequence, 1},
                                .picks = {&pick, 1},
                                .wants = {&want, 1}};
  batch.sources = {&source, 1};
  EXPECT_EQ(run->Run(batch).field(), "sources");  // no step was started before this one
  batch.sources = {&none, 1};
  ASSERT_TRUE(run->Run(batch).ok());
  EXPECT_EQ(run->Found(0).drawn, -1);
  batch.sources = {&source, 1};
  EXPECT_EQ(run->Run(batch).field(), "sources");  // it drew nothing
  batch.sources = {&source, 0};
  const sample::DrawRule rules[2] = {};
  batch.draws = rules;
  EXPECT_EQ(run->Run(batch).field(), "draws");
}

TEST(CudaStepRun, BitsDoNotDependOnCompany) {
  const TinyShape shape = SmallShape();
  const TinyWeights weights(shape, DType::kF32, 7);
  TinyDecoder decoder = OnDevice(weights, DType::kF16);
  auto run = decoder.NewRun(DType::kBf16, 64, 64);
  const size_t lengths[] = {5, 33, 21};
  std::vector<std::vector<int32_t>> texts;
  std::vector<std::vector<float>> alone;
  for (size_t i = 0; i < 3; ++i) {
    texts.push_back(RandomIds(shape, lengths[i] + 2, 8 + static_cast<uint32_t>(i)));
    alone.push_back(RunInSteps(run.get(), shape, texts[i], {64}));
  }
  const std::vector<std::vector<int32_t>> blocks = {{40, 3}, {9, 8}, {0, 63}};
  std::vector<int32_t> past(3, 0);
  for (int step = 0; step < 3; ++step) {
    std::vector<int32_t> ids, offsets = {0}, picked;
    std::vector<program::CachedSequence> sequences;
    for (size_t i = 0; i < 3; ++i) {
      const auto rows = step == 0 ? static_cast<int32_t>(lengths[i]) : 1;
      const auto begin = texts[i].begin() + past[i];
      ids.insert(ids.end(), begin, begin + rows);
      offsets.push_back(static_cast<int32_t>(ids.size()));
      picked.push_back(offsets.back() - 1);
      sequences.push_back({past[i], blocks[i]});
    }
    const Status status =
        run->Run({.ids = ids, .offsets = offsets, .cached = sequences, .picks = picked});
    ASSERT_TRUE(status.ok()) << status.message();
    for (size_t i = 0; i < 3; ++i) {
      past[i] += offsets[i + 1] - offsets[i];
      const auto width = static_cast<size_t>(shape.vocabulary);
      const float* want = alone[i].data() + static_cast<size_t>(past[i] - 1) * width;
      EXPECT_EQ(std::memcmp(run->Row(i)->data(), want, width * sizeof(float)), 0)
          << "text " << i << ", step " << step;
    }
  }
}

// With blocks of their own for the layers with a window, which come again once it has passed.
TEST(CudaStepRun, BitsDoNotDependOnGroups) {
  if (race::kOn) GTEST_SKIP() << "the kernels are the same as elsewhere";
  for (const bool all_windows : {false, true}) {
    for (const int32_t window : {1, 33}) {
      TinyShape shape = TinyShapeOf(3);
      shape.window = window;
      shape.all_windows = all_windows;
      const TinyWeights weights(shape, DType::kF32, 15);
      TinyDecoder decoder = OnDevice(weights, DType::kF32);
      auto plain = decoder.NewRun(DType::kF32, 64);
      EXPECT_EQ(plain->groups().size(), 1u);
      EXPECT_EQ(plain->block_bytes(1), 0u);
      const std::vector<int32_t> ids = RandomIds(shape, 320, 16);
      const std::vector<float> want = RunInSteps(plain.get(), shape, ids, {64});
      auto run = decoder.NewRunOfGroups(DType::kF32, 64, 16);
      ASSERT_EQ(run->groups().size(), 2u);
      EXPECT_EQ(run->groups()[1], (CacheGroup{CacheKind::kWindow, window}));
      EXPECT_EQ(run->block_bytes(0) + run->block_bytes(1), plain->block_bytes(0));
      EXPECT_TRUE(SameBits(RunInSteps(run.get(), shape, ids, {33, 1, 7, 64}, 8), want))
          << window << all_windows;
      EXPECT_EQ(run->CommittedBytes(), 256 * run->block_bytes(0) + 16 * run->block_bytes(1));
    }
  }
}

TEST(CudaStepRun, FindsTheBestAndTheSumsOfPicks) {
  // Fewer logits than are kept; many; and rows that are the same all over, so that ties decide.
  for (const int32_t vocabulary : {40, 5003, 20000}) {
    TinyShape shape = SmallShape();
    shape.layers = 1;
    shape.vocabulary = vocabulary;
    TinyWeights weights(shape, DType::kF32, 11);
    if (vocabulary == 20000) {
      auto* const words = reinterpret_cast<float*>(weights.words->bytes.data());
      const auto hidden = static_cast<size_t>(shape.hidden);
      for (size_t id = 1; id < static_cast<size_t>(vocabulary); ++id) {
        std::copy_n(words + id % 3 * hidden, hidden, words + id * hidden);
      }
    }
    TinyDecoder decoder = OnDevice(weights, DType::kF32);
    auto run = decoder.NewRun(DType::kF32, 16);
    const std::vector<int32_t> ids = RandomIds(shape, 16, 12), picked = {0, 7, 15}, blocks = {0};
    const program::SingleSequence sequence(16, 0, blocks);
    const program::PickWant wants[] = {program::PickWant::kBestAndSums, program::PickWant::kRow,
                                       program::PickWant::kBest};
    ASSERT_TRUE(run->Run(sequence.Batch(ids, picked, wants)).ok());
    EXPECT_TRUE(run->Found(1).parts.empty());
    // A row stays while others are asked for.
    const std::span<const float> first_row = *run->Row(0);
    const std::vector<float> kept(first_row.begin(), first_row.end());
    EXPECT_FALSE(std::ranges::equal(*run->Row(1), kept));
    EXPECT_TRUE(std::ranges::equal(first_row, kept));
    for (const size_t pick : {size_t{0}, size_t{2}}) {
      const std::span<const float> row = *run->Row(pick);
      std::vector<sample::LogitBlock> sums(sample::LogitBlocks(row.size()));
      sample::LogitScan scan;
      scan.Reset(sample::kCandidatesMax, true);
      scan.Add(row, 0, sums.data());
      const sample::LogitPart want = scan.Part();
      const program::FoundLogits found = run->Found(pick);
      ASSERT_EQ(found.parts.size(), run->parts_max());
      EXPECT_EQ(found.parts[0].dropped, want.dropped);
      EXPECT_EQ(found.parts[0].bad_id, -1);
      ASSERT_EQ(found.parts[0].best.size(), want.best.size());
      for (size_t i = 0; i < want.best.size(); ++i) {
        EXPECT_EQ(found.parts[0].best[i].id, want.best[i].id) << i;
        EXPECT_EQ(found.parts[0].best[i].logit, want.best[i].logit) << i;
      }
      if (wants[pick] == program::PickWant::kBest) {
        EXPECT_TRUE(found.blocks.empty());
        continue;
      }
      ASSERT_EQ(found.blocks.size(), sums.size());
      for (size_t i = 0; i < sums.size(); ++i) {
        EXPECT_EQ(found.blocks[i].max, sums[i].max);
        EXPECT_NEAR(found.blocks[i].sum, sums[i].sum, sums[i].sum * 1e-5F);
      }
    }
  }
}

// Also where a cap would hide them.
void TellsBadLogits(float cap) {
  TinyShape shape = SmallShape();
  shape.layers = 1;
  shape.vocabulary = 1000;
  shape.logit_cap = cap;
  TinyWeights weights(shape, DType::kF32, 11);
  auto* const words = reinterpret_cast<float*>(weights.words->bytes.data());
  for (const size_t id : {size_t{700}, size_t{411}}) {
    words[id * static_cast<size_t>(shape.hidden) + 3] = std::nanf("");
  }
  TinyDecoder decoder = OnDevice(weights, DType::kF32);
  auto run = decoder.NewRun(DType::kF32, 4);
  const std::vector<int32_t> ids = {1, 2}, picked = {1}, blocks = {0};
  const program::PickWant wants[] = {program::PickWant::kBest};
  const program::SingleSequence sequence(2, 0, blocks);
  ASSERT_TRUE(run->Run(sequence.Batch(ids, picked, wants)).ok());
  EXPECT_EQ(run->Found(0).parts[0].bad_id, 411);
}

TEST(CudaStepRun, TellsLogitsThatAreNoNumbers) {
  for (const float cap : {0.0F, 5.0F}) TellsBadLogits(cap);
}

TEST(CudaStepRun, RefusesWhatItDoesNotRun) {
  const TinyShape shape = SmallShape();
  const TinyWeights weights(shape, DType::kF32, 1);
  TinyDecoder decoder = OnDevice(weights, DType::kF32);
  EXPECT_EQ(decoder.TryRun(DType::kI8, 8).status().code(), StatusCode::kUnsupported);
  EXPECT_EQ(decoder.TryRun(DType::kF32, 8, {"luck"}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(decoder.TryRun(DType::kF32, 0).status().code(), StatusCode::kInvalidArgument);
  const std::vector<int32_t> blocks = {0}, ids = {5};
  const program::SingleSequence sequence(1, 0, blocks);
  float* const sink = nullptr;
  const Status status = decoder.NewRun(DType::kF32, 8)->Run(0, sequence.Batch(ids, {}), {&sink, 1});
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.field(), "out");
}

// Each call of the device fails once: the step says so, the next one works, nothing is left behind.
TEST(CudaStepRun, GoesOnAfterACallThatFailed) {
  if (race::kOn) GTEST_SKIP() << "nothing runs at once";
  TinyShape shape = SmallShape();
  shape.layers = 1;
  const TinyWeights weights(shape, DType::kF32, 1);
  auto device = NewEmulatedDevice({});
  EmulatedDevice* const emulated = device.get();
  {
    TinyDecoder decoder(weights, DType::kF16, NewCudaBackend(std::move(device)));
    const uint64_t before = emulated->allocated_bytes();
    const std::vector<int32_t> ids = {1, 2, 3}, picked = {2}, blocks = {0};
    const program::SingleSequence sequence(3, 0, blocks);
    std::vector<float> want;
    int failures = 0;
    for (int64_t call = 1; call < 100; ++call) {
      emulated->FailCall(call, false);
      auto run = decoder.TryRun(DType::kF32, 8);
      if (!run.ok()) {
        ++failures;
        EXPECT_EQ(emulated->allocated_bytes(), before) << call;
        continue;
      }
      const Status first = (*run)->Run(sequence.Batch(ids, picked));
      const bool failed = !first.ok();
      failures += failed ? 1 : 0;
      emulated->FailCall(0, false);
      const Status second = (*run)->Run(sequence.Batch(ids, picked));
      ASSERT_TRUE(second.ok()) << call << " " << second.message();
      const auto row = (*run)->Row(0);
      ASSERT_TRUE(row.ok());
      if (want.empty()) want.assign(row->begin(), row->end());
      EXPECT_TRUE(std::ranges::equal(*row, want)) << call;
      if (!failed) break;
    }
    EXPECT_GT(failures, 20);
  }
}

}  // namespace
}  // namespace penstock::cuda

// Steps of a small decoder with random weights: against a plain model in double precision, and
// against themselves, to the bit, however tokens are cut into steps and shared out to threads.
#include "cpu/step_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "cpu/tiny_decoder_test_util.h"

namespace penstock::cpu {
namespace {

TEST(StepRun, LogitsAreThoseOfAPlainModelInDoublePrecision) {
  for (const TinyShape& shape : Shapes()) {
    if (shape.heads * shape.head_size % 2 != 0) continue;
    const TinyWeights weights(shape, numbers::DType::kF32, 1);
    const std::vector<int32_t> ids = RandomIds(shape, 80, 2);
    const Rows64 want = PlainLogits(weights, ids);
    for (const std::string& isa : UsableIsas()) {
      TinyDecoder decoder(weights, numbers::DType::kF32, isa, 2);
      EXPECT_TRUE(
          Near(RunInSteps(decoder.NewRun(numbers::DType::kF32, 64).get(), shape, ids, {50, 1}),
               want, 2e-5))
          << isa;
      EXPECT_TRUE(
          Near(RunInSteps(decoder.NewRun(numbers::DType::kBf16, 64).get(), shape, ids, {50, 1}),
               want, 2e-2))
          << isa;
    }
  }
}

// Hidden states of models that embed: all of one sequence, and the last ones of several.
TEST(StepRun, StatesOfAttentionInBothDirections) {
  for (const int32_t window : {0, 37}) {
    TinyShape shape;
    shape.causal = false;
    shape.states = true;
    shape.window = window;
    const TinyWeights weights(shape, numbers::DType::kF32, 1);
    for (const std::string& isa : UsableIsas()) {
      TinyDecoder decoder(weights, numbers::DType::kF32, isa, 2);
      auto run = decoder.NewRun(numbers::DType::kF32, 600);
      for (const size_t length : {1u, 2u, 80u, 600u}) {
        const std::vector<int32_t> ids = RandomIds(shape, length, 2);
        EXPECT_TRUE(
            Near(RunInSteps(run.get(), shape, ids, {length}), PlainLogits(weights, ids), 2e-5))
            << isa << " length " << length << " window " << window;
      }
    }
  }
}

TEST(StepRun, StatesOfPickedRows) {
  for (const bool causal : {true, false}) {
    TinyShape shape;
    shape.causal = causal;
    shape.states = true;
    const TinyWeights weights(shape, numbers::DType::kF32, 1);
    TinyDecoder decoder(weights, numbers::DType::kF32, "", 2);
    auto run = decoder.NewRun(numbers::DType::kF32, 256);
    std::vector<std::vector<int32_t>> blocks;
    std::vector<program::CachedSequence> sequences;
    std::vector<int32_t> all, offsets = {0}, picked;
    for (int32_t s = 0; s < 5; ++s) {
      const auto length = static_cast<size_t>(1 + 17 * s);
      const std::vector<int32_t> ids = RandomIds(shape, length, static_cast<uint32_t>(s));
      all.insert(all.end(), ids.begin(), ids.end());
      offsets.push_back(static_cast<int32_t>(all.size()));
      picked.push_back(offsets.back() - 1);
      blocks.push_back({3 * s, 3 * s + 1, 3 * s + 2});
    }
    for (int32_t s = 0; s < 5; ++s) {
      sequences.push_back({0, blocks[static_cast<size_t>(s)]});
    }
    ASSERT_TRUE(
        run->Run({.ids = all, .offsets = offsets, .cached = sequences, .picks = picked}).ok());
    for (int32_t s = 0; s < 5; ++s) {
      const auto length = static_cast<size_t>(1 + 17 * s);
      const Rows64 want = PlainLogits(weights, RandomIds(shape, length, static_cast<uint32_t>(s)));
      const std::span<const float> got = *run->Row(static_cast<size_t>(s));
      EXPECT_TRUE(Near({got.begin(), got.end()}, {want.back()}, 2e-5)) << s;
    }
  }
}

TEST(StepRun, RefusesSinks) {
  TinyShape shape;
  const TinyWeights weights(shape, numbers::DType::kF32, 1);
  TinyDecoder decoder(weights, numbers::DType::kF32, "", 1);
  const std::vector<int32_t> blocks = {0}, ids = {5};
  const program::SingleSequence sequence(1, 0, blocks);
  float* const sink = nullptr;
  const Status status =
      decoder.NewRun(numbers::DType::kF32, 8)->Run(0, sequence.Batch(ids, {}), {&sink, 1});
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.field(), "out");
}

TEST(StepRun, BothDirectionsNeedWholeSequences) {
  TinyShape shape;
  shape.causal = false;
  const TinyWeights weights(shape, numbers::DType::kF32, 1);
  TinyDecoder decoder(weights, numbers::DType::kF32, "", 1);
  const std::vector<int32_t> blocks = {0};
  const program::SingleSequence sequence(1, 3, blocks);
  const std::vector<int32_t> ids = {5};
  const Status status = decoder.NewRun(numbers::DType::kF32, 8)->Run(sequence.Batch(ids, {}));
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.field(), "sequences");
}

// Threads of a step, told by the parts in which its logits were scanned.
size_t StepThreadsOf(program::ProgramRun* run) {
  const std::vector<int32_t> ids = {5}, blocks = {0}, picks = {0};
  const program::PickWant want[] = {program::PickWant::kBest};
  const program::SingleSequence sequence(1, 0, blocks);
  program::PackedBatch batch = sequence.Batch(ids, picks);
  batch.wants = want;
  EXPECT_TRUE(run->Run(batch).ok());
  return run->Found(0).parts.size();
}

TEST(StepRun, NoMoreThreadsComputeThanCanRunAtOnce) {
  TinyShape shape;
  const TinyWeights weights(shape, numbers::DType::kF32, 1);
  program::TinyDecoder decoder(weights, numbers::DType::kF32, *NewCpuBackend({.threads = 255}));
  auto run = decoder.NewRun(numbers::DType::kF32, 8);
  EXPECT_LE(run->parts_max(), UsableProcessors());
  EXPECT_LE(StepThreadsOf(run.get()), UsableProcessors());
  TinyDecoder exact(weights, numbers::DType::kF32, "", 5);
  EXPECT_EQ(StepThreadsOf(exact.NewRun(numbers::DType::kF32, 8).get()), 5u);
}

// On any machine they are more threads than processors, or of several cores.
TEST(StepRun, BitsOfManyThreads) {
  TinyShape shape;
  shape.window = 50;
  const TinyWeights weights(shape, numbers::DType::kQ8_0, 3);
  const std::vector<int32_t> ids = RandomIds(shape, 40, 4);
  TinyDecoder one(weights, numbers::DType::kI8, "", 1);
  const std::vector<float> want =
      RunInSteps(one.NewRun(numbers::DType::kBf16, 64).get(), shape, ids, {33, 1});
  for (const int threads : {4, 7, 16}) {
    TinyDecoder decoder(weights, numbers::DType::kI8, "", threads);
    auto run = decoder.NewRun(numbers::DType::kBf16, 64);
    EXPECT_TRUE(SameBits(RunInSteps(run.get(), shape, ids, {33, 1}), want)) << threads;
  }
}

// Workers that had no part in some steps take part again, in programs of any number of phases. The
// context is long enough that the keys of a step are shared out.
TEST(StepRun, BitsWhenTheNumberOfThreadsChanges) {
  for (const int32_t layers : {1, 2, 3, 4}) {
    TinyShape shape;
    shape.layers = layers;
    shape.context = 700;
    const TinyWeights weights(shape, numbers::DType::kF32, 3);
    const std::vector<int32_t> ids = RandomIds(shape, 640, 4);
    TinyDecoder one(weights, numbers::DType::kF32, "", 1);
    const std::vector<float> want =
        RunInSteps(one.NewRun(numbers::DType::kBf16, 600).get(), shape, ids, {600, 1});
    TinyDecoder four(weights, numbers::DType::kF32, "", 4);
    auto run = four.NewRun(numbers::DType::kBf16, 600);
    dynamic_cast<CpuStepRun&>(*run).SetThreadsInTurns({4, 2, 3, 4, 1, 4});
    EXPECT_TRUE(SameBits(RunInSteps(run.get(), shape, ids, {600, 1}), want)) << layers << " layers";
  }
}

TEST(StepRun, BitsDoNotDependOnStepsOrThreads) {
  const std::vector<std::vector<size_t>> cuts = {{1}, {7, 2, 9}, {33, 1, 64}, {64}};
  for (const numbers::DType stored :
       {numbers::DType::kF32, numbers::DType::kBf16, numbers::DType::kQ8_0, numbers::DType::kQ4_0,
        numbers::DType::kQ4_1, numbers::DType::kQ5_0, numbers::DType::kQ5_1, numbers::DType::kQ4K,
        numbers::DType::kQ5K, numbers::DType::kQ6K}) {
    const numbers::DType mode = numbers::IsBlockType(stored) ? numbers::DType::kI8 : stored;
    TinyShape shape;
    shape.window = 50;
    const TinyWeights weights(shape, stored, 3);
    const std::vector<int32_t> ids = RandomIds(shape, 100, 4);
    TinyDecoder first(weights, mode, "", 1);
    const std::vector<float> want =
        RunInSteps(first.NewRun(numbers::DType::kBf16, 64).get(), shape, ids, {64});
    // More threads than processors wait for each other: that is slow, so not for every type.
    const int most = stored == numbers::DType::kF32 || stored == numbers::DType::kQ6K ? 3 : 2;
    for (int threads = 1; threads <= most; ++threads) {
      TinyDecoder decoder(weights, mode, "", threads);
      auto run = decoder.NewRun(numbers::DType::kBf16, 64);
      for (const auto& cut : cuts) {
        EXPECT_TRUE(SameBits(RunInSteps(run.get(), shape, ids, cut), want))
            << numbers::DTypeName(stored) << ", " << threads << " threads, steps of " << cut[0];
      }
    }
  }
}

TEST(StepRun, BitsDoNotDependOnTheShapesOfAttention) {
  for (const TinyShape& shape : Shapes()) {
    const TinyWeights weights(shape, numbers::DType::kF32, 5);
    const std::vector<int32_t> ids = RandomIds(shape, 600, 6);  // three chunks of keys
    for (const numbers::DType cache :
         {numbers::DType::kF32, numbers::DType::kBf16, numbers::DType::kF16, numbers::DType::kI8}) {
      TinyDecoder decoder(weights, numbers::DType::kF32, "", 2);
      auto run = decoder.NewRun(cache, 64);
      const std::vector<float> want = RunInSteps(run.get(), shape, ids, {64});
      EXPECT_TRUE(
          SameBits(RunInSteps(run.get(), shape, ids, {64, 64, 64, 64, 64, 64, 64, 1}), want))
          << numbers::DTypeName(cache) << " " << shape.head_size;
      EXPECT_TRUE(SameBits(RunInSteps(run.get(), shape, ids, {29}), want))
          << numbers::DTypeName(cache);
    }
  }
}

TEST(StepRun, BitsDoNotDependOnTuning) {
  TinyShape shape;
  const TinyWeights weights(shape, numbers::DType::kQ4K, 5);
  const std::vector<int32_t> ids = RandomIds(shape, 530, 6);
  TinyDecoder decoder(weights, numbers::DType::kI8, "", 2);
  const std::vector<float> want = RunInSteps(decoder.NewRun(numbers::DType::kBf16, 64).get(), shape,
                                             ids, {64, 64, 64, 64, 64, 64, 64, 64, 1});
  const auto seconds = [](program::ProgramRun* run, std::string_view stage) {
    double sum = 0;
    for (const auto& [name, s] : run->TakeProfile()) sum += name == stage ? s : 0;
    return sum;
  };
  ASSERT_EQ(decoder.optimisations().size(), 3u);
  for (const char* const off : decoder.optimisations()) {
    auto run = decoder.NewRun(numbers::DType::kBf16, 64, 256, {off});
    EXPECT_TRUE(
        SameBits(RunInSteps(run.get(), shape, ids, {64, 64, 64, 64, 64, 64, 64, 64, 1}), want));
    EXPECT_GT(seconds(run.get(), "attend"), 0);
    EXPECT_EQ(seconds(run.get(), "attend"), 0);
  }
  EXPECT_EQ(decoder.TryRun(numbers::DType::kBf16, 64, {"luck"}).status().code(),
            StatusCode::kInvalidArgument);
}

TEST(StepRun, BitsDoNotDependOnCompany) {
  TinyShape shape;
  const TinyWeights weights(shape, numbers::DType::kQ8_0, 7);
  TinyDecoder decoder(weights, numbers::DType::kI8, "", 2);
  auto run = decoder.NewRun(numbers::DType::kBf16, 64, 64);
  // Three texts that go through the same steps, each at another place.
  const size_t lengths[] = {5, 40, 21};
  std::vector<std::vector<int32_t>> texts;
  std::vector<std::vector<float>> alone;
  for (size_t i = 0; i < 3; ++i) {
    texts.push_back(RandomIds(shape, lengths[i] + 3, 8 + static_cast<uint32_t>(i)));
    alone.push_back(RunInSteps(run.get(), shape, texts[i], {64}));
  }
  std::vector<std::vector<int32_t>> blocks = {{40, 3}, {9, 8}, {0, 63}};
  std::vector<int32_t> past(3, 0);
  for (int step = 0; step < 4; ++step) {
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
    if (step == 0) {  // as many as fit
      ids.resize(64);
      offsets[3] = 64;
      picked[2] = 63;
    }
    const Status status =
        run->Run({.ids = ids, .offsets = offsets, .cached = sequences, .picks = picked});
    ASSERT_TRUE(status.ok()) << status.message();
    for (size_t i = 0; i < 3; ++i) {
      past[i] += offsets[i + 1] - offsets[i];
      const size_t width = static_cast<size_t>(shape.vocabulary);
      const float* want = alone[i].data() + static_cast<size_t>(past[i] - 1) * width;
      EXPECT_EQ(std::memcmp(run->Row(i)->data(), want, width * sizeof(float)), 0)
          << "text " << i << ", step " << step;
    }
  }
}

// What workers find in their parts of the vocabulary is what a scan of the whole row finds.
TEST(StepRun, FindsTheBestAndTheSumsOfPicks) {
  TinyShape shape;
  shape.vocabulary = 5003;
  const TinyWeights weights(shape, numbers::DType::kQ4_0, 11);
  TinyDecoder decoder(weights, numbers::DType::kI8, "", 2);
  auto run = decoder.NewRun(numbers::DType::kBf16, 16);
  const std::vector<int32_t> ids = RandomIds(shape, 16, 12), picked = {0, 7, 15}, blocks = {0};
  const program::SingleSequence sequence(16, 0, blocks);
  const program::PickWant wants[] = {program::PickWant::kBestAndSums, program::PickWant::kRow,
                                     program::PickWant::kBest};
  ASSERT_TRUE(run->Run(sequence.Batch(ids, picked, wants)).ok());
  EXPECT_TRUE(run->Found(1).parts.empty());
  for (const size_t pick : {size_t{0}, size_t{2}}) {
    const std::span<const float> row = *run->Row(pick);
    std::vector<sample::LogitBlock> sums(sample::LogitBlocks(row.size()));
    sample::LogitScan scan;
    scan.Reset(sample::kCandidatesMax, true);
    scan.Add(row, 0, sums.data());
    const sample::LogitPart want = scan.Part();
    const program::FoundLogits found = run->Found(pick);
    ASSERT_EQ(found.parts.size(), run->parts_max());
    std::vector<sample::Candidate> best;
    for (const sample::LogitPart& part : found.parts) {
      EXPECT_TRUE(part.bad_id == -1 && part.dropped);
      best.insert(best.end(), part.best.begin(), part.best.end());
    }
    std::sort(best.begin(), best.end(), sample::Before);
    best.resize(want.best.size());
    EXPECT_EQ(std::memcmp(best.data(), want.best.data(), best.size() * sizeof(sample::Candidate)),
              0);
    if (wants[pick] == program::PickWant::kBest) sums.clear();
    ASSERT_EQ(found.blocks.size(), sums.size());
    EXPECT_TRUE(std::ranges::equal(std::as_bytes(found.blocks), std::as_bytes(std::span(sums))));
  }
}

// Pages of blocks that are idle go back to the system; texts in other blocks go on, and the blocks
// are as good as new afterwards.
TEST(StepRun, PagesOfBlocksGoBackAndComeAgain) {
  TinyShape shape;
  shape.heads = shape.kv_heads = 8;
  shape.head_size = 64;
  const TinyWeights weights(shape, numbers::DType::kF32, 13);
  TinyDecoder decoder(weights, numbers::DType::kF32, "", 2);
  auto run = decoder.NewRun(numbers::DType::kF32, 64);
  ASSERT_EQ(run->page_blocks(), 8);
  EXPECT_EQ(run->CommittedBytes(), 0u);
  const std::vector<int32_t> ids = RandomIds(shape, 690, 14);
  const std::vector<float> want = RunInSteps(run.get(), shape, ids, {64});
  const uint64_t of_one = run->CommittedBytes();
  EXPECT_EQ(of_one, 24 * run->block_bytes(0));  // 22 blocks, whole groups
  EXPECT_GE(of_one, 6u << 20);
  RunInSteps(run.get(), shape, ids, {64}, /*first_block=*/64);
  EXPECT_EQ(run->CommittedBytes(), 2 * of_one);

  std::vector<int32_t> second(24);
  std::iota(second.begin(), second.end(), 64);
  const uint64_t before = ResidentBytes();
  EXPECT_EQ(run->ReleaseBlocks(0, second), of_one);
  EXPECT_EQ(run->CommittedBytes(), of_one);
#ifndef __SANITIZE_THREAD__
  EXPECT_LE(ResidentBytes() + of_one * 9 / 10, before);
#endif

  // The last token of the first text again, over its 689 cached ones.
  std::vector<int32_t> blocks(22);
  for (size_t i = 0; i < blocks.size(); ++i) blocks[i] = static_cast<int32_t>(i * 7 % 22);
  const program::SingleSequence sequence(1, 689, blocks);
  const int32_t row = 0;
  ASSERT_TRUE(run->Run(sequence.Batch(std::span(ids).last(1), {&row, 1})).ok());
  EXPECT_EQ(std::memcmp(run->Row(0)->data(), &want[want.size() - run->Row(0)->size()],
                        run->Row(0)->size_bytes()),
            0);
  EXPECT_TRUE(SameBits(RunInSteps(run.get(), shape, ids, {64}, 64), want));
  EXPECT_EQ(run->CommittedBytes(), 2 * of_one);
}

// With blocks of their own for the layers with a window, which come again once it has passed.
TEST(StepRun, BitsDoNotDependOnGroups) {
  for (const bool all_windows : {false, true}) {
    for (const int32_t window : {1, 17, 32, 33, 100}) {
      for (const numbers::DType cache :
           {numbers::DType::kF32, numbers::DType::kBf16, numbers::DType::kI8}) {
        TinyShape shape;
        shape.layers = 3;
        shape.window = window;
        shape.all_windows = all_windows;
        const TinyWeights weights(shape, numbers::DType::kF32, 15);
        TinyDecoder decoder(weights, numbers::DType::kF32, "", 2);
        auto plain = decoder.NewRun(cache, 64);
        EXPECT_EQ(plain->groups().size(), 1u);
        EXPECT_EQ(plain->block_bytes(1), 0u);
        const std::vector<int32_t> ids = RandomIds(shape, 690, 16);
        const std::vector<float> want = RunInSteps(plain.get(), shape, ids, {64});
        for (const std::vector<size_t>& sizes : {std::vector<size_t>{64}, {33, 1, 7, 64}}) {
          auto run = decoder.NewRunOfGroups(cache, 64, 16);
          ASSERT_EQ(run->groups().size(), 2u);
          EXPECT_EQ(run->groups()[1], (CacheGroup{CacheKind::kWindow, window}));
          EXPECT_EQ(run->block_bytes(0) + run->block_bytes(1), plain->block_bytes(0));
          EXPECT_EQ(run->block_bytes(0), all_windows ? 0 : plain->block_bytes(0) / 3 * 2);
          EXPECT_TRUE(SameBits(RunInSteps(run.get(), shape, ids, sizes, 8), want))
              << window << all_windows;
          EXPECT_EQ(run->CommittedBytes(), 24 * run->block_bytes(0) + 8 * run->block_bytes(1));
        }
      }
    }
  }
}

TEST(StepRun, PagesOfAGroupGoBack) {
  TinyShape shape;
  shape.window = 40;
  const TinyWeights weights(shape, numbers::DType::kF32, 15);
  TinyDecoder decoder(weights, numbers::DType::kF32, "", 2);
  auto run = decoder.NewRunOfGroups(numbers::DType::kF32, 64, 16);
  RunInSteps(run.get(), shape, RandomIds(shape, 200, 16), {64});
  std::vector<int32_t> first(8);
  std::iota(first.begin(), first.end(), 0);
  const uint64_t before = run->CommittedBytes();
  const uint64_t of_eight = 8 * run->block_bytes(1);
  EXPECT_EQ(run->ReleaseBlocks(1, first), of_eight);
  EXPECT_EQ(run->CommittedBytes(), before - of_eight);
  EXPECT_EQ(run->ReleaseBlocks(1, first), 0u);
}

TEST(StepRun, RefusesKindsOfCacheThatItDoesNotKeep) {
  const CacheGroup groups[] = {kFullGroup, {CacheKind::kWindow, 40}, {CacheKind::kState}};
  EXPECT_TRUE(CheckCacheKinds(std::span(groups).first(2)).ok());
  const Status status = CheckCacheKinds(groups);
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_THAT(status.message(), testing::HasSubstr("\"state\""));
}

TEST(StepRun, RefusesBlocksThatAreMissingInTheWindow) {
  TinyShape shape;
  shape.window = 40;
  const TinyWeights weights(shape, numbers::DType::kF32, 15);
  TinyDecoder decoder(weights, numbers::DType::kF32, "", 1);
  auto run = decoder.NewRunOfGroups(numbers::DType::kF32, 8, 4);
  const std::vector<int32_t> ids = {1}, blocks = {0, 1, 2, 3, 4};
  // A row after 103 tokens sees keys from 64 on.
  const auto message = [&](const std::vector<int32_t>& windows) {
    const std::vector<BlockTable> tables = {blocks, windows};
    const program::SingleSequence sequence(1, 103, tables);
    return run->Run(sequence.Batch(ids, {})).message();
  };
  EXPECT_EQ(message({-1, -1, 0, 3}), "");
  EXPECT_EQ(message({-1, 9, 0, 3}), "");
  EXPECT_EQ(message({-1, -1, -1, 3}), "sequence 0 has a block beyond the cache");
  EXPECT_EQ(message({-1, -1, 0, 4}), "sequence 0 has a block beyond the cache");
  EXPECT_EQ(message({-1, -1, 0}), "sequence 0 has too few blocks");
  EXPECT_EQ(message({}), "sequence 0 has too few blocks");
  const program::SingleSequence one_table(1, 103, blocks);
  EXPECT_EQ(run->Run(one_table.Batch(ids, {})).message(), "sequence 0 has too few blocks");
}

TEST(StepRun, RefusesHeadsThatAreTooLong) {
  TinyShape shape;
  shape.head_size = 514;
  shape.heads = shape.kv_heads = 1;
  const TinyWeights weights(shape, numbers::DType::kF32, 13);
  TinyDecoder decoder(weights, numbers::DType::kF32, "", 1);
  EXPECT_THAT(decoder.TryRun(numbers::DType::kBf16, 8).status().message(),
              testing::HasSubstr("heads of 514 values"));
}

TEST(StepRun, RefusesWhatDoesNotFit) {
  TinyShape shape;
  const TinyWeights weights(shape, numbers::DType::kF32, 13);
  TinyDecoder decoder(weights, numbers::DType::kF32, "", 1);
  auto run = decoder.NewRun(numbers::DType::kBf16, 8, 4);
  const std::vector<int32_t> ids = {1, 2, 3};
  const std::vector<int32_t> blocks = {0, 1, 2, 3};
  const auto field = [&](const std::vector<int32_t>& tokens,
                         const program::SingleSequence& sequence, std::vector<int32_t> picked) {
    const Status status = run->Run(sequence.Batch(tokens, picked));
    EXPECT_EQ(status.ok() ? "" : status.field(), status.field());
    return status.ok() ? std::string("ok") : status.field();
  };
  EXPECT_EQ(field(ids, {3, 0, blocks}, {2}), "ok");
  EXPECT_EQ(field(ids, {3, 0, blocks}, {}), "ok");
  EXPECT_EQ(field({}, {0, 0, blocks}, {}), "inputs");
  EXPECT_EQ(field({1, 2, shape.vocabulary}, {3, 0, blocks}, {2}), "inputs");
  EXPECT_EQ(field({1, -1, 2}, {3, 0, blocks}, {2}), "inputs");
  EXPECT_EQ(field(std::vector<int32_t>(9, 1), {9, 0, blocks}, {2}), "inputs");
  EXPECT_EQ(field(ids, {2, 0, blocks}, {2}), "sequences");
  EXPECT_EQ(field(ids, {3, -1, blocks}, {2}), "sequences");
  EXPECT_EQ(field(ids, {3, shape.context - 2, blocks}, {2}), "sequences");
  const std::vector<int32_t> few = {0};
  EXPECT_EQ(field(ids, {3, 30, few}, {2}), "sequences");
  const std::vector<int32_t> beyond = {0, 4};
  EXPECT_EQ(field(ids, {3, 30, beyond}, {2}), "sequences");
  EXPECT_EQ(field(ids, {3, 0, blocks}, {3}), "picks");
  EXPECT_EQ(field(ids, {3, 0, blocks}, {1, 1}), "picks");
}

}  // namespace
}  // namespace penstock::cpu

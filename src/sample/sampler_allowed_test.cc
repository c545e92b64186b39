// Sampling where a grammar allows some tokens only.
#include <gtest/gtest.h>

#include <random>

#include "sample/sampler.h"
#include "sample/test_logits.h"

namespace penstock::sample {
namespace {

constexpr size_t kVocabulary = 3000;

std::vector<uint32_t> MaskOf(const std::vector<int32_t>& ids) {
  std::vector<uint32_t> mask((kVocabulary + 31) / 32);
  for (const int32_t id : ids) {
    mask[static_cast<size_t>(id) / 32] |= uint32_t{1} << (static_cast<uint32_t>(id) % 32);
  }
  return mask;
}

std::vector<int32_t> SomeIds(std::mt19937& random, size_t count) {
  std::vector<int32_t> ids;
  for (size_t i = 0; i < count; ++i) ids.push_back(static_cast<int32_t>(random() % kVocabulary));
  return ids;
}

struct Scanned {
  explicit Scanned(const std::vector<float>& row) : blocks(LogitBlocks(row.size())) {
    scan.Reset(kCandidatesMax, true);
    scan.Add(row, 0, blocks.data());
    parts = {scan.Part()};
  }
  LogitScan scan;
  std::vector<LogitBlock> blocks;
  std::vector<LogitPart> parts;
};

// As if the others had no probability, whether candidates, the row or both are given; and
// log-probabilities are those of all tokens.
TEST(SamplerAllowedTest, ForbiddenTokensHaveNoProbability) {
  std::mt19937 random(5);
  for (int round = 0; round < 600; ++round) {
    SamplingOptions options;
    options.seed = random();
    options.temperature = round % 3 == 0 ? 0.0f : 1.2f;
    options.top_k = std::vector<int32_t>{0, 1, 5, 40, 100}[random() % 5];
    options.top_p = random() % 2 == 0 ? 1.0f : 0.8f;
    options.min_p = random() % 3 == 0 ? 0.05f : 0.0f;
    options.repetition_penalty = random() % 2 == 0 ? 1.0f : 1.3f;
    options.logprobs = true;
    const std::vector<float> row = RandomLogits(kVocabulary, random(), 3.0f);
    const auto ids = SomeIds(random, std::vector<size_t>{1, 2, 40, 2500}[random() % 4]);
    const std::vector<uint32_t> mask = MaskOf(ids);
    std::vector<float> low = row;
    for (size_t i = 0; i < low.size(); ++i) {
      if ((mask[i / 32] >> (i % 32) & 1) == 0) low[i] = -kLogitMax;
    }
    auto sampler = *Sampler::Make(options, kVocabulary, 100);
    sampler.AddPrompt(std::vector<int32_t>{1, 2, 3, ids[0]});
    SampledToken expected;
    ASSERT_TRUE(sampler.Sample({low, {}, {}, {}}, 7, &expected).ok());
    SampledToken free;
    ASSERT_TRUE(sampler.Sample({row, {}, {}, MaskOf({expected.id})}, 7, &free).ok());
    EXPECT_EQ(free.id, expected.id);
    const Scanned scanned(row);
    for (const Logits& logits :
         {Logits{row, {}, {}, mask}, Logits{row, scanned.parts, scanned.blocks, mask}}) {
      SampledToken token;
      ASSERT_TRUE(sampler.Sample(logits, 7, &token).ok());
      EXPECT_EQ(token.id, expected.id) << round;
      EXPECT_NEAR(token.logprob, free.logprob, 2e-6);
    }
  }
}

TEST(SamplerAllowedTest, MinTokensHoldEndsBackUnlessNothingElseIsAllowed) {
  const std::vector<float> row = RandomLogits(kVocabulary, 3);
  SamplingOptions options;
  options.min_tokens = 5;
  options.seed = 1;
  for (const int32_t top_k : {0, 1, 30}) {
    options.top_k = top_k;
    auto sampler = *Sampler::Make(options, kVocabulary, 100, 16, std::vector<int32_t>{9});
    SampledToken token;
    for (const bool given_parts : {false, true}) {
      const Scanned scanned(row);
      const auto parts =
          given_parts ? std::span<const LogitPart>(scanned.parts) : std::span<const LogitPart>();
      ASSERT_TRUE(sampler.Sample({row, parts, {}, MaskOf({9, 70})}, 0, &token).ok());
      EXPECT_EQ(token.id, 70);
      ASSERT_TRUE(sampler.Sample({row, parts, {}, MaskOf({9})}, 0, &token).ok());
      EXPECT_EQ(token.id, 9);
    }
  }
}

}  // namespace
}  // namespace penstock::sample

// Nothing is allocated between two tokens.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/failing_new.h"
#include "sample/finish_check.h"
#include "sample/sampler.h"
#include "sample/stop_strings.h"
#include "sample/test_util.h"
#include "sample/token_counts.h"

namespace penstock::sample {
namespace {

constexpr size_t kVocabulary = 3000;
constexpr size_t kTokens = 400;

// A window of more tokens than the vocabulary has.
TEST(TokenCounts, AllocatesNothingUpToItsTokens) {
  TokenCounts counts;
  counts.Reset(300, 1000, 20);
  const long before = FailingNew::Allocations();
  for (int32_t i = 0; i < 1000; ++i) counts.AddGenerated(i % 20);
  EXPECT_EQ(FailingNew::Allocations() - before, 0);
}

TEST(Sampling, AllocatesNothingBetweenTokens) {
  SamplingOptions kinds[6];
  kinds[0].temperature = 0;
  kinds[1].top_k = 40;
  kinds[1].top_p = 0.95f;
  kinds[2].top_p = 0.9f;
  kinds[2].min_p = 0.01f;
  kinds[3].top_k = 500;
  kinds[3].repetition_penalty = 1.1f;
  kinds[3].repetition_window = 64;
  kinds[4].temperature = 0;
  kinds[4].frequency_penalty = 0.5f;
  kinds[4].presence_penalty = 0.5f;
  kinds[4].logit_bias = {{5, -3}};
  kinds[5].temperature = 2;
  kinds[5].repetition_penalty = 1.2f;
  for (SamplingOptions& options : kinds) {
    options.seed = 3;
    options.logprobs = true;
    options.top_logprobs = 20;
    options.stop = {"never", "\n\n\n"};
    options.stop_token_ids = {1, 2, 3};
    std::vector<float> row = RandomLogits(kVocabulary, 1, 1);
    auto sampler = Sampler::Make(options, kVocabulary, kTokens);
    ASSERT_TRUE(sampler.ok()) << sampler.status().ToString();
    auto stops = StopStrings::Make(options.stop, false);
    ASSERT_TRUE(stops.ok());
    const FinishCheck finish(options, {});
    std::vector<LogitScan> scans(2);
    for (LogitScan& scan : scans) scan.Reset(kCandidatesMax, true);
    std::vector<LogitBlock> blocks(LogitBlocks(kVocabulary));
    std::vector<int32_t> prompt(100, 7);
    std::string text;
    text.reserve(64 * kTokens);

    int wrong = 0;
    const long before = FailingNew::Allocations();
    sampler->AddPrompt(prompt);
    for (uint64_t position = 0; position < kTokens - prompt.size(); ++position) {
      row[position] += 1;
      for (LogitScan& scan : scans) scan.Reset(kCandidatesMax, true);
      scans[0].Add(std::span(row).first(1024), 0, blocks.data());
      scans[1].Add(std::span(row).subspan(1024), 1024, blocks.data());
      const LogitPart parts[] = {scans[0].Part(), scans[1].Part()};
      SampledToken token;
      const bool ok = sampler->Sample({row, parts, blocks}, position, &token).ok() &&
                      sampler->Sample({row, {}, {}}, position, &token).ok();
      sampler->Accept(token.id);
      wrong += !ok || stops->Push("some text\n\n", &text);
      wrong += finish.After(token.id, 1) == Finish::kLength;
    }
    EXPECT_EQ(FailingNew::Allocations() - before, 0);
    EXPECT_EQ(wrong, 0);
  }
}

}  // namespace
}  // namespace penstock::sample

// The sampler against sampling written plainly (test_util.h), against exact probabilities, and
// rows against candidates.
#include "sample/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "sample/philox.h"
#include "sample/test_util.h"

namespace penstock::sample {
namespace {

Sampler Made(const SamplingOptions& options, size_t vocabulary) {
  auto made = Sampler::Make(options, static_cast<int32_t>(vocabulary), 4096);
  EXPECT_TRUE(made.ok()) << made.status().ToString();
  return *std::move(made);
}

SampledToken Sampled(Sampler& sampler, const std::vector<float>& row, uint64_t position) {
  SampledToken token;
  const Status status = sampler.Sample({row, {}, {}}, position, &token);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return token;
}

// Logits as threads hand them over, each with the blocks b for which b % threads is its number.
struct Scanned {
  Scanned(const std::vector<float>& row, size_t threads, bool sums)
      : scans(threads), blocks(sums ? LogitBlocks(row.size()) : 0) {
    for (LogitScan& scan : scans) scan.Reset(kCandidatesMax, sums);
    for (size_t b = 0; b < LogitBlocks(row.size()); ++b) {
      const size_t begin = b * kLogitBlock;
      scans[b % threads].Add(
          std::span(row).subspan(begin, std::min(kLogitBlock, row.size() - begin)), begin,
          sums ? blocks.data() : nullptr);
    }
    for (LogitScan& scan : scans) parts.push_back(scan.Part());
  }
  Logits Without(const std::vector<float>& row = {}) const { return {row, parts, blocks}; }

  std::vector<LogitScan> scans;
  std::vector<LogitBlock> blocks;
  std::vector<LogitPart> parts;
};

// Options of all kinds; each setting is off in about half of them.
SamplingOptions RandomOptions(std::mt19937& random, size_t vocabulary, bool penalties) {
  const auto one_of = [&](auto... values) {
    const std::common_type_t<decltype(values)...> all[] = {values...};
    return all[random() % sizeof...(values)];
  };
  SamplingOptions o;
  o.seed = random();
  o.temperature = one_of(0.0f, 0.3f, 0.7f, 1.0f, 1.0f, 1.5f, 2.0f);
  o.top_k = one_of(0, -1, 1, 2, 20, 40, 64, 65, 100, 100000);
  o.top_p = one_of(1.0f, 1.0f, 1.0f, 0.95f, 0.8f, 0.3f, 0.0f);
  o.min_p = one_of(0.0f, 0.0f, 0.0f, 0.02f, 0.2f, 1.0f);
  if (!penalties) return o;
  o.repetition_penalty = one_of(1.0f, 1.1f, 1.8f, 0.7f);
  o.repetition_window = one_of(-1, -1, 0, 5, 64);
  o.presence_penalty = one_of(0.0f, 0.7f, -1.0f);
  o.frequency_penalty = one_of(0.0f, 0.4f, -0.3f);
  for (uint32_t n = random() % 4; n > 0; --n) {
    const auto id = static_cast<int32_t>(random() % vocabulary);
    bool known = false;
    for (const LogitBias& entry : o.logit_bias) known |= entry.id == id;
    if (!known) o.logit_bias.push_back({id, one_of(-100.0f, -1.5f, 2.5f, 4.0f)});
  }
  return o;
}

bool Large(const SamplingOptions& o) {
  return !o.greedy() && (o.top_k <= 0 || o.top_k > static_cast<int32_t>(kCandidatesMax));
}

TEST(Sampler, AgreesWithPlainSamplingInEveryStep) {
  std::mt19937 random(17);
  int close = 0, checked = 0;
  for (int round = 0; round < 1500; ++round) {
    const size_t vocabulary = 1 + random() % (round % 3 == 0 ? 3000 : 300);
    // Many equal logits where nothing rounds; then float and double see the same ties.
    const bool ties = round % 4 == 0;
    const std::vector<float> row =
        RandomLogits(vocabulary, random(), round % 5 == 0 ? 12.0f : 3.0f, ties ? 0.5f : 0.0f);
    const SamplingOptions options = RandomOptions(random, vocabulary, !ties);
    Sampler sampler = Made(options, vocabulary);
    PlainTokens tokens;
    for (uint32_t n = random() % 30; n > 0; --n) {
      tokens.prompt.push_back(static_cast<int32_t>(random() % vocabulary));
    }
    sampler.AddPrompt(tokens.prompt);
    for (uint64_t position = 0; position < 12; ++position) {
      const PlainDistribution plain = Plain(row, options, tokens);
      const int32_t id = Sampled(sampler, row, position).id;
      if (plain.close) {
        ++close;
      } else {
        ++checked;
        ASSERT_TRUE(Draws(plain, Large(options),
                          options.greedy() ? 0 : UniformAt(*options.seed, position), id))
            << "round " << round << " position " << position;
      }
      tokens.generated.push_back(id);
      sampler.Accept(id);
    }
  }
  EXPECT_GT(checked, 20 * close);
}

TEST(Sampler, DrawsByExactProbabilities) {
  constexpr uint64_t kDraws = 60000;
  const std::vector<float> row = RandomLogits(300, 4, 1.5f);
  const auto count = [&](const SamplingOptions& options) {
    Sampler sampler = Made(options, row.size());
    std::vector<uint64_t> counts(row.size());
    for (uint64_t i = 0; i < kDraws; ++i)
      ++counts[static_cast<size_t>(Sampled(sampler, row, i).id)];
    return counts;
  };
  SamplingOptions plain, cold, nucleus, wide, small, min_p, all;
  cold.temperature = 0.5f;
  nucleus.top_p = 0.9f;
  wide.top_k = 100;
  small.top_k = 30;
  min_p.min_p = 0.1f;
  all.top_k = 50;
  all.top_p = 0.95f;
  all.min_p = 0.02f;
  all.temperature = 1.3f;
  uint64_t seed = 100;
  for (SamplingOptions* options : {&plain, &cold, &nucleus, &wide, &small, &min_p, &all}) {
    options->seed = seed++;
    EXPECT_TRUE(FollowsDistribution(count(*options), Plain(row, *options).probabilities)) << seed;
    // The test sees a temperature that is 10 % off.
    SamplingOptions other = *options;
    other.temperature *= 1.1f;
    EXPECT_FALSE(FollowsDistribution(count(*options), Plain(row, other).probabilities)) << seed;
  }
}

// More blocks than top_k, so that their maxima bound it: the best one a block, all in one block,
// and anywhere.
TEST(Sampler, AgreesWithPlainSamplingInLargeVocabularies) {
  constexpr size_t kVocabulary = 50001;
  std::mt19937 random(29);
  int checked = 0;
  for (int round = 0; round < 24; ++round) {
    std::vector<float> row =
        RandomLogits(kVocabulary, random(), 1.5f, round % 4 == 3 ? 0.25f : 0.0f);
    for (size_t i = 0; i < 120; ++i) {
      const float best = 8 + static_cast<float>(i) / 100;
      if (round % 3 == 0) row[i * kLogitBlock + i] = best;
      if (round % 3 == 1) row[4096 + i] = best;
    }
    SamplingOptions options;
    options.seed = random();
    options.top_k = round % 2 == 0 ? 65 + round * 4 : 0;
    options.top_p = round % 2 == 0 && round % 4 != 0 ? 1.0f : 0.9f;
    options.temperature = 0.5f + static_cast<float>(round % 5) / 3;
    const PlainDistribution plain = Plain(row, options);
    if (plain.close) continue;
    Sampler sampler = Made(options, kVocabulary);
    for (uint64_t position = 0; position < 40; ++position) {
      ++checked;
      ASSERT_TRUE(Draws(plain, true, UniformAt(*options.seed, position),
                        Sampled(sampler, row, position).id))
          << "round " << round << " position " << position;
    }
  }
  EXPECT_GT(checked, 12 * 40);
}

TEST(Sampler, GivesOneTextASeedInAnyCompany) {
  const size_t vocabulary = 2000;
  for (const int32_t top_k : {0, 40}) {
    SamplingOptions a, b;
    a.top_k = b.top_k = top_k;
    a.seed = 1;
    b.seed = 2;
    Sampler alone = Made(a, vocabulary);
    std::vector<std::vector<float>> rows;
    std::vector<int32_t> expected;
    for (uint32_t p = 0; p < 100; ++p) {
      rows.push_back(RandomLogits(vocabulary, p));
      expected.push_back(Sampled(alone, rows.back(), p).id);
    }
    // Backwards, with another sequence in between, and again.
    Sampler again = Made(a, vocabulary), other = Made(b, vocabulary);
    int different = 0;
    for (int p = 99; p >= 0; --p) {
      const auto at = static_cast<size_t>(p);
      different += Sampled(other, rows[at], at).id != expected[at];
      EXPECT_EQ(Sampled(again, rows[at], at).id, expected[at]);
      EXPECT_EQ(Sampled(alone, rows[at], at).id, expected[at]);
    }
    EXPECT_GT(different, 50);
  }
}

TEST(Sampler, TellsTheSeedItDrew) {
  const std::vector<float> row = RandomLogits(500, 1);
  Sampler unseeded = Made({}, row.size());
  SamplingOptions options;
  options.seed = unseeded.seed();
  Sampler seeded = Made(options, row.size());
  for (uint64_t p = 0; p < 50; ++p) {
    EXPECT_EQ(Sampled(unseeded, row, p).id, Sampled(seeded, row, p).id);
  }
  EXPECT_NE(Made({}, 10).seed(), Made({}, 10).seed());
}

// Candidates give what the row gives, bit for bit; without the row they say so where they do not
// tell.
TEST(Sampler, CandidatesAgreeWithTheRow) {
  std::mt19937 random(23);
  int never = 0, enough = 0, short_of = 0, always = 0;
  for (int round = 0; round < 3000; ++round) {
    const size_t vocabulary = 1 + random() % (round % 2 == 0 ? 700 : 6000);
    SamplingOptions options = RandomOptions(random, vocabulary, round % 3 != 0);
    if (round % 4 != 0) {
      options.top_k = static_cast<int32_t>(1 + random() % 64);
      options.repetition_penalty = std::max(1.0f, options.repetition_penalty);
      options.presence_penalty = std::abs(options.presence_penalty);
      options.frequency_penalty = std::abs(options.frequency_penalty);
      for (LogitBias& entry : options.logit_bias) entry.bias = -std::abs(entry.bias);
    }
    options.logprobs = random() % 2 == 0;
    options.top_logprobs = static_cast<int32_t>(random() % 21);
    const std::vector<float> row =
        RandomLogits(vocabulary, random(), 3, round % 5 == 0 ? 0.5f : 0.0f);
    Sampler by_row = Made(options, vocabulary), by_parts = Made(options, vocabulary);
    // Tokens that matter: the best ones, so that penalties reorder candidates.
    LogitScan scan;
    scan.Reset(kCandidatesMax, false);
    scan.Add(row, 0, nullptr);
    const LogitPart best = scan.Part();
    for (uint32_t n = random() % (round % 7 == 0 ? 200 : 20); n > 0; --n) {
      const int32_t id = best.best[random() % best.best.size()].id;
      by_row.Accept(id);
      by_parts.Accept(id);
    }
    const Scanned scanned(row, 1 + random() % 5, by_parts.wants_sums());
    SampledToken expected, token;
    ASSERT_TRUE(by_row.Sample({row, {}, {}}, 3, &expected).ok());
    const Status status = by_parts.Sample(scanned.Without(), 3, &token);
    switch (by_parts.row_need()) {
      case RowNeed::kNever:
        ASSERT_TRUE(status.ok()) << status.ToString();
        ++never;
        break;
      case RowNeed::kPerhaps:
        ++(status.ok() ? enough : short_of);
        break;
      case RowNeed::kAlways:
        ASSERT_FALSE(status.ok());
        ++always;
        break;
    }
    if (!status.ok()) {
      EXPECT_EQ(status.code(), StatusCode::kInternal);
      ASSERT_TRUE(by_parts.Sample({row, scanned.parts, scanned.blocks}, 3, &token).ok());
    }
    ASSERT_EQ(token.id, expected.id) << round;
    ASSERT_EQ(token.top.size(), expected.top.size());
    if (!options.logprobs) continue;
    ASSERT_EQ(token.logprob, expected.logprob);
    for (size_t i = 0; i < token.top.size(); ++i) {
      ASSERT_EQ(token.top[i].id, expected.top[i].id);
      ASSERT_EQ(token.top[i].logprob, expected.top[i].logprob);
    }
  }
  EXPECT_GT(never, 200);
  EXPECT_GT(enough, 500);
  EXPECT_GT(short_of, 20);
  EXPECT_GT(always, 200);
}

// A penalty pushes the best candidates down, and the best token then was not a candidate.
TEST(Sampler, FallsBackToTheRowWherePenaltiesEmptyTheCandidates) {
  std::vector<float> row(1000, 0.0f);
  for (size_t i = 0; i < 64; ++i) row[i] = 5;
  row[700] = 4.5f;
  SamplingOptions options;
  options.temperature = 0;
  options.presence_penalty = 2;
  Sampler sampler = Made(options, row.size());
  for (int32_t id = 0; id < 64; ++id) sampler.Accept(id);
  const Scanned scanned(row, 1, false);
  SampledToken token;
  EXPECT_FALSE(sampler.Sample(scanned.Without(), 0, &token).ok());
  ASSERT_TRUE(sampler.Sample({row, scanned.parts, {}}, 0, &token).ok());
  EXPECT_EQ(token.id, 700);
}

TEST(Sampler, LogprobsAreThoseOfTheModel) {
  const std::vector<float> row = RandomLogits(3000, 9);
  double sum = 0;
  for (const float x : row) sum += std::exp(static_cast<double>(x));
  const auto exact = [&](int32_t id) {
    return static_cast<double>(row[static_cast<size_t>(id)]) - std::log(sum);
  };
  SamplingOptions options;
  options.logprobs = true;
  options.top_logprobs = 20;
  options.seed = 5;
  PlainDistribution by_logit = Plain(row, {});
  for (const float temperature : {0.0f, 0.5f, 2.0f}) {
    for (const float penalty : {0.0f, 2.0f}) {
      options.temperature = temperature;
      options.presence_penalty = penalty;
      Sampler sampler = Made(options, row.size());
      sampler.Accept(by_logit.order[0]);
      const SampledToken token = Sampled(sampler, row, 1);
      EXPECT_NEAR(token.logprob, exact(token.id), 2e-6);
      ASSERT_EQ(token.top.size(), 20u);
      for (size_t i = 0; i < 20; ++i) {
        EXPECT_EQ(token.top[i].id, by_logit.order[i]);
        EXPECT_NEAR(token.top[i].logprob, exact(by_logit.order[i]), 2e-6);
      }
    }
  }
}

TEST(Sampler, EndsHaveNoProbabilityAmongTheFirstTokens) {
  // The ends 7 and 900 are by far the best, then 3.
  std::vector<float> row = RandomLogits(1000, 3, 0.5f);
  row[7] = 30;
  row[900] = 29;
  row[3] = 20;
  const std::vector<int32_t> ends = {7, 900};
  for (const int32_t top_k : {0, 2, 40, 100}) {
    for (const float temperature : {0.0f, 0.01f}) {
      SamplingOptions options;
      options.temperature = temperature;
      options.top_k = top_k;
      options.seed = 1;
      options.min_tokens = 2;
      options.logprobs = true;
      options.top_logprobs = 1;
      options.logit_bias = {{7, 100}};
      for (const bool scanned : {false, true}) {
        auto sampler = *Sampler::Make(options, 1000, 100, 16, ends);
        for (uint64_t position = 0; position < 4; ++position) {
          SampledToken token;
          const Scanned scan(row, 2, true);
          const Logits logits = scanned ? scan.Without(row) : Logits{row, {}, {}};
          ASSERT_TRUE(sampler.Sample(logits, position, &token).ok());
          EXPECT_EQ(token.id, position < 2 ? 3 : 7) << top_k << " " << temperature;
          EXPECT_EQ(token.top[0].id, 7) << "log-probabilities are the model's";
          sampler.Accept(token.id);
        }
      }
    }
  }
}

TEST(Sampler, WithNothingButEndsOneIsChosen) {
  SamplingOptions options;
  options.min_tokens = 3;
  options.seed = 1;
  for (const int32_t top_k : {0, 1, 2}) {
    options.top_k = top_k;
    auto sampler = *Sampler::Make(options, 2, 100, 16, std::vector<int32_t>{0, 1, 5});
    const int32_t id = Sampled(sampler, {1, 2}, 0).id;
    EXPECT_TRUE(id == 0 || id == 1);
  }
}

TEST(Sampler, TiesGoToTheLowestId) {
  std::vector<float> row(1000, 1.0f);
  SamplingOptions greedy;
  greedy.temperature = 0;
  Sampler sampler = Made(greedy, row.size());
  EXPECT_EQ(Sampled(sampler, row, 0).id, 0);
  row[300] = row[301] = row[900] = 2;
  EXPECT_EQ(Sampled(sampler, row, 0).id, 300);
  for (const int32_t top_k : {2, 70}) {
    std::vector<float> equal(1000, 0.0f);
    for (size_t i = 100; i < 1000; i += 9) equal[i] = 3;  // 100 of them
    SamplingOptions options;
    options.top_k = top_k;
    options.seed = 1;
    Sampler by_k = Made(options, equal.size());
    std::map<int32_t, int> seen;
    for (uint64_t p = 0; p < 2000; ++p) ++seen[Sampled(by_k, equal, p).id];
    EXPECT_EQ(seen.size(), static_cast<size_t>(top_k));
    EXPECT_EQ(seen.begin()->first, 100);
    EXPECT_EQ(seen.rbegin()->first, 100 + 9 * (top_k - 1));
  }
}

TEST(Sampler, ABadLogitIsAnErrorAndNotAToken) {
  const float bad[] = {std::numeric_limits<float>::quiet_NaN(),
                       std::numeric_limits<float>::infinity(),
                       -std::numeric_limits<float>::infinity(), 2e30f};
  SamplingOptions kinds[5];
  kinds[0].temperature = 0;
  kinds[1].top_k = 40;
  kinds[3].presence_penalty = 1;
  kinds[4].temperature = 0;
  kinds[4].repetition_penalty = 2;
  kinds[4].logprobs = true;
  for (const SamplingOptions& options : kinds) {
    for (const float value : bad) {
      for (const size_t at : {0u, 600u, 999u}) {
        std::vector<float> row = RandomLogits(1000, 3);
        row[at] = value;
        Sampler sampler = Made(options, row.size());
        sampler.Accept(static_cast<int32_t>(at));
        const Scanned scanned(row, 3, sampler.wants_sums());
        for (const Logits& logits :
             {Logits{row, {}, {}}, Logits{row, scanned.parts, scanned.blocks}}) {
          SampledToken token;
          const Status status = sampler.Sample(logits, 0, &token);
          EXPECT_EQ(status.code(), StatusCode::kInternal);
          EXPECT_NE(status.message().find("token " + std::to_string(at) + " "), std::string::npos)
              << status.message();
          EXPECT_EQ(token.id, -1);
        }
      }
    }
  }
}

TEST(Sampler, ExtremeLogitsAndSettingsGiveATokenThatIsKept) {
  SamplingOptions options;
  options.seed = 1;
  std::vector<float> row(300, -kLogitMax);
  row[7] = kLogitMax;
  for (const float temperature : {0.0f, kGreedyBelow, 2.0f}) {
    for (const int32_t top_k : {0, 5, 100}) {
      for (const float penalty : {1.0f, kRepetitionPenaltyMin, kRepetitionPenaltyMax}) {
        options.temperature = temperature;
        options.top_k = top_k;
        options.top_p = 0.999f;
        options.repetition_penalty = penalty;
        Sampler sampler = Made(options, row.size());
        for (int32_t id = 0; id < 7; ++id) sampler.Accept(id);
        EXPECT_EQ(Sampled(sampler, row, 0).id, 7) << temperature << " " << top_k << " " << penalty;
      }
    }
  }
}

TEST(Sampler, RefusesWhatItIsNotGiven) {
  const std::vector<float> row = RandomLogits(100, 1);
  Sampler sampler = Made({}, 101);
  SampledToken token;
  EXPECT_EQ(sampler.Sample({row, {}, {}}, 0, &token).code(), StatusCode::kInternal);
  EXPECT_EQ(sampler.Sample({}, 0, &token).code(), StatusCode::kInternal);
  SamplingOptions wrong;
  wrong.top_p = 2;
  EXPECT_EQ(Sampler::Make(wrong, 10, 10).status().field(), "top_p");
  EXPECT_FALSE(Sampler::Make({}, 0, 10).ok());
}

}  // namespace
}  // namespace penstock::sample

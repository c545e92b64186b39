#include "sample/sampling_options.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>

namespace penstock::sample {
namespace {

constexpr int32_t kVocabulary = 100;

TEST(SamplingOptions, DefaultsAreValidAndChangeNothing) {
  const SamplingOptions options;
  EXPECT_TRUE(options.Check(kVocabulary).ok());
  EXPECT_FALSE(options.greedy());
  EXPECT_FALSE(options.penalizes());
}

TEST(SamplingOptions, NamesFieldAndRange) {
  struct Case {
    const char* field;
    const char* says;
    std::function<void(SamplingOptions&)> set;
  };
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Case cases[] = {
      {"temperature", "between 0 and 2", [](auto& o) { o.temperature = 2.01f; }},
      {"temperature", "between 0 and 2", [](auto& o) { o.temperature = -0.1f; }},
      {"temperature", "between 0 and 2", [=](auto& o) { o.temperature = nan; }},
      {"top_k", "between -1 and", [](auto& o) { o.top_k = -2; }},
      {"top_p", "between 0 and 1", [](auto& o) { o.top_p = 1.5f; }},
      {"top_p", "between 0 and 1", [=](auto& o) { o.top_p = nan; }},
      {"min_p", "between 0 and 1", [](auto& o) { o.min_p = -0.5f; }},
      {"repetition_penalty", "and 100", [](auto& o) { o.repetition_penalty = 0; }},
      {"repetition_penalty", "and 100", [](auto& o) { o.repetition_penalty = 101; }},
      {"repetition_window", "between -1 and", [](auto& o) { o.repetition_window = -2; }},
      {"presence_penalty", "between -2 and 2", [](auto& o) { o.presence_penalty = 2.5f; }},
      {"frequency_penalty", "between -2 and 2", [](auto& o) { o.frequency_penalty = -3; }},
      {"logit_bias", "between 0 and 99",
       [](auto& o) {
         o.logit_bias = {{100, 1}};
       }},
      {"logit_bias", "between 0 and 99",
       [](auto& o) {
         o.logit_bias = {{-1, 1}};
       }},
      {"logit_bias.7", "between -100 and 100",
       [](auto& o) {
         o.logit_bias = {{7, 101}};
       }},
      {"logit_bias", "more than once",
       [](auto& o) {
         o.logit_bias = {{7, 1}, {3, 1}, {7, 2}};
       }},
      {"logit_bias", "at most 1024", [](auto& o) { o.logit_bias.resize(1025); }},
      {"stop", "at most 32", [](auto& o) { o.stop.assign(33, "x"); }},
      {"stop[1]", "between 1 and 1024",
       [](auto& o) {
         o.stop = {"x", ""};
       }},
      {"stop[0]", "between 1 and 1024", [](auto& o) { o.stop = {std::string(1025, 'x')}; }},
      {"stop[0]", "UTF-8", [](auto& o) { o.stop = {"\xC3"}; }},
      {"stop_token_ids", "at most 64", [](auto& o) { o.stop_token_ids.assign(65, 1); }},
      {"stop_token_ids[1]", "between 0 and 99",
       [](auto& o) {
         o.stop_token_ids = {1, 100};
       }},
      {"max_tokens", "between 1 and", [](auto& o) { o.max_tokens = 0; }},
      {"top_logprobs", "between 0 and 20", [](auto& o) { o.top_logprobs = 21; }},
  };
  for (const Case& c : cases) {
    SamplingOptions options;
    c.set(options);
    const Status status = options.Check(kVocabulary);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << c.field;
    EXPECT_EQ(status.field(), c.field) << status.message();
    EXPECT_NE(status.message().find(c.says), std::string::npos) << status.message();
  }
}

TEST(SamplingOptions, TakesTheEndsOfTheRanges) {
  SamplingOptions low;
  low.temperature = low.top_p = low.min_p = 0;
  low.top_k = low.repetition_window = -1;
  low.repetition_penalty = kRepetitionPenaltyMin;
  low.presence_penalty = low.frequency_penalty = -2;
  low.logit_bias = {{0, -100}};
  low.stop = {"x"};
  low.max_tokens = 1;
  EXPECT_TRUE(low.Check(kVocabulary).ok()) << low.Check(kVocabulary).ToString();
  SamplingOptions high;
  high.temperature = 2;
  high.min_p = 1;
  high.top_k = high.repetition_window = INT32_MAX;
  high.repetition_penalty = kRepetitionPenaltyMax;
  high.presence_penalty = high.frequency_penalty = 2;
  high.logit_bias = {{99, 100}};
  high.stop.assign(32, std::string(1024, 'x'));
  high.stop_token_ids.assign(64, 99);
  high.max_tokens = INT32_MAX;
  high.top_logprobs = 20;
  EXPECT_TRUE(high.Check(kVocabulary).ok()) << high.Check(kVocabulary).ToString();
}

}  // namespace
}  // namespace penstock::sample

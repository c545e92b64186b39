#include "sample/finish_check.h"

#include <gtest/gtest.h>

namespace penstock::sample {
namespace {

TEST(FinishCheck, EndsByTokenThenByLength) {
  SamplingOptions options;
  options.stop_token_ids = {9, 3};
  options.max_tokens = 5;
  const int32_t model_ends[] = {7, 2};
  const FinishCheck check(options, model_ends);
  for (const int32_t id : {9, 3, 7, 2}) {
    EXPECT_EQ(check.After(id, 1), Finish::kStopToken);
    EXPECT_EQ(check.After(id, 5), Finish::kStopToken);
  }
  EXPECT_EQ(check.After(4, 4), Finish::kNone);
  EXPECT_EQ(check.After(4, 5), Finish::kLength);

  options.ignore_eos = true;
  options.max_tokens.reset();
  const FinishCheck ignoring(options, model_ends);
  EXPECT_EQ(ignoring.After(7, 1), Finish::kNone);
  EXPECT_EQ(ignoring.After(9, 1), Finish::kStopToken);
  EXPECT_EQ(ignoring.After(4, INT64_C(1) << 40), Finish::kNone);
}

}  // namespace
}  // namespace penstock::sample

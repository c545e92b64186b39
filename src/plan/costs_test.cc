#include "plan/costs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace penstock::plan {
namespace {

using testing::HasSubstr;

Costs SomeCosts() {
  Costs costs;
  costs.model = "a \"model\"";
  costs.machine = "a machine";
  costs.version = "1";
  costs.encoder = EncoderCosts{.batch = {1e-4, 2e-5, 3e-9}, .cold_s = 1e-3, .batch_tokens = 256};
  return costs;
}

TEST(Costs, ComeBackFromTheirFile) {
  const auto read = Costs::FromJson(SomeCosts().ToJson());
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(read->ToJson(), SomeCosts().ToJson());
  EXPECT_EQ(read->encoder->batch_tokens, 256);
  EXPECT_EQ(read->encoder->cold_s, 1e-3);

  Costs chat = SomeCosts();
  chat.encoder.reset();
  chat.decoder = DecoderCosts{.step = {0.01, 0.02, 0.01, 0.001, 1e-8},
                              .context = 2048,
                              .sequences = 8,
                              .cache_blocks = 512};
  const auto text = Costs::FromJson(chat.ToJson());
  ASSERT_TRUE(text.ok()) << text.status().ToString();
  EXPECT_EQ(text->ToJson(), chat.ToJson());
}

TEST(Costs, NameWhatIsWrong) {
  const auto message = [](const std::string& from, const std::string& to) {
    std::string text = SomeCosts().ToJson();
    text.replace(text.find(from), from.size(), to);
    return Costs::FromJson(text).status().message();
  };
  EXPECT_THAT(message("\"format\":1", "\"format\":2"), HasSubstr("format"));
  EXPECT_THAT(message("\"token_s\":2e-05", "\"token_s\":0"), HasSubstr("token_s"));
  EXPECT_THAT(message("\"token_s\":2e-05", "\"token_s\":-1"), HasSubstr("token_s"));
  EXPECT_THAT(message("\"token_s\":2e-05", "\"token_s\":1e300"), HasSubstr("token_s"));
  EXPECT_THAT(message("\"batch_tokens\":256", "\"batch_tokens\":0"), HasSubstr("batch_tokens"));
  EXPECT_THAT(message("\"length_max\":512", "\"length\":512"), HasSubstr("length_max"));
  EXPECT_THAT(message("\"encoder\"", "\"decoder\""), HasSubstr("one_s"));
  EXPECT_THAT(message("\"encoder\"", "\"other\""), HasSubstr("encoder"));
  EXPECT_FALSE(Costs::FromJson("[]").ok());
  EXPECT_FALSE(Costs::ReadFile("/nowhere/costs.json").ok());
}

}  // namespace
}  // namespace penstock::plan

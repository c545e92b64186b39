#include "engine/suffix_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock::engine {
namespace {

using testing::ElementsAre;

// <|begin|> (259) before a text; bytes are tokens.
std::unique_ptr<text::Tokenizer> Inner() {
  auto tokenizer =
      text::Tokenizer::FromFile(PENSTOCK_GOLDEN_DIR "/embedders/llama_mean_causal/tokenizer.json");
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
  return *std::move(tokenizer);
}

std::vector<int32_t> Ids(const text::Tokenizer& tokenizer, std::string_view text,
                         const text::EncodeOptions& options = {}) {
  text::Encoding out;
  const Status status = tokenizer.Encode(text, options, &out);
  EXPECT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(out.type_ids.size(), out.ids.size());
  EXPECT_EQ(out.special_mask.size(), out.ids.size());
  EXPECT_EQ(out.sequence_ids.size(), out.ids.size());
  EXPECT_EQ(out.offsets.size(), options.with_offsets ? out.ids.size() : 0);
  return out.ids;
}

TEST(SuffixTokenizer, FollowsTheTemplate) {
  const SuffixTokenizer tokenizer(Inner(), {260, 261}, true);
  const int32_t a = Ids(*Inner(), "a").back();
  EXPECT_THAT(Ids(tokenizer, "a"), ElementsAre(259, a, 260, 261));
  EXPECT_THAT(Ids(tokenizer, ""), ElementsAre(259, 260, 261));
  EXPECT_EQ(tokenizer.special_tokens_single(), 3u);
  EXPECT_EQ(tokenizer.special_tokens_pair(), Inner()->special_tokens_pair() + 2);
  text::EncodeOptions options;
  options.with_offsets = true;
  EXPECT_THAT(Ids(tokenizer, "a", options), ElementsAre(259, a, 260, 261));
  options.add_special_tokens = false;
  EXPECT_THAT(Ids(tokenizer, "a", options), ElementsAre(a));
}

TEST(SuffixTokenizer, TakesThePlaceOfTheTemplate) {
  const SuffixTokenizer tokenizer(Inner(), {260}, false);
  const int32_t a = Ids(*Inner(), "a").back();
  EXPECT_THAT(Ids(tokenizer, "a"), ElementsAre(a, 260));
  EXPECT_EQ(tokenizer.special_tokens_single(), 1u);
}

TEST(SuffixTokenizer, TextIsCutNotTheSuffix) {
  const SuffixTokenizer tokenizer(Inner(), {260, 261}, true);
  text::EncodeOptions options;
  options.max_tokens = 5;
  text::Encoding out;
  ASSERT_TRUE(tokenizer.Encode("aaaaaa", options, &out).ok());
  const int32_t a = Ids(*Inner(), "a").back();
  EXPECT_THAT(out.ids, ElementsAre(259, a, a, 260, 261));
  EXPECT_EQ(out.truncated_tokens, 4u);
  std::vector<int32_t> ids;
  ASSERT_TRUE(tokenizer.EncodeText("aaaaaa", &ids).ok());
  ASSERT_TRUE(tokenizer.Combine(ids, nullptr, options, &out).ok());
  EXPECT_THAT(out.ids, ElementsAre(259, a, a, 260, 261));
  options.max_tokens = 2;
  EXPECT_EQ(tokenizer.Encode("a", options, &out).field(), "max_tokens");
}

}  // namespace
}  // namespace penstock::engine

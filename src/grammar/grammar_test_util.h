// A vocabulary of single bytes, and whether a grammar takes a text.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/grammar_compiler.h"

namespace penstock::grammar {

inline constexpr int32_t kEnd = 256;

inline std::shared_ptr<const GrammarVocabulary> ByteVocabulary() {
  auto made = std::make_shared<GrammarVocabulary>();
  for (int byte = 0; byte < 256; ++byte) {
    made->tokens.emplace_back(1, static_cast<char>(byte));
  }
  made->tokens.emplace_back();
  made->ends = {kEnd};
  return made;
}

// Whether the grammar takes all of `text`, and lets it end there.
inline bool Takes(const Grammar& grammar, std::string_view text) {
  const auto constraint = grammar.Begin();
  EXPECT_TRUE(constraint.ok()) << constraint.status().message();
  std::vector<uint32_t> mask(MaskWords(257));
  for (const char c : text) {
    const auto id = static_cast<int32_t>(static_cast<unsigned char>(c));
    EXPECT_TRUE((*constraint)->Mask(mask).ok());
    const bool allowed = Allows(mask, id);
    EXPECT_EQ((*constraint)->Accept(id).ok(), allowed) << text;
    if (!allowed) return false;
  }
  EXPECT_TRUE((*constraint)->Mask(mask).ok());
  return Allows(mask, kEnd);
}

// A compiler for that vocabulary. Skips where the program has none.
class CompilerFixture : public testing::Test {
 protected:
  void SetUp() override {
    if (!HasGrammars()) GTEST_SKIP() << "built without XGrammar";
    auto made = MakeGrammarCompiler(ByteVocabulary());
    ASSERT_TRUE(made.ok()) << made.status().message();
    compiler_ = *std::move(made);
  }
  std::unique_ptr<GrammarCompiler> compiler_;
};

}  // namespace penstock::grammar

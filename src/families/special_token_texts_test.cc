#include "families/special_token_texts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/temp_folder_test_util.h"

namespace penstock::families {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

class SpecialTokenTextsTest : public testing::Test {
 protected:
  void Write(const std::string& file, const std::string& text) const { folder_.Write(file, text); }
  SpecialTokenTexts Read() {
    auto read = SpecialTokenTexts::OfFolder(folder_.text());
    EXPECT_TRUE(read.ok()) << read.status().ToString();
    return read.ok() ? *read : SpecialTokenTexts();
  }

  const TempFolder folder_;
};

TEST_F(SpecialTokenTextsTest, WithoutFilesThereAreNone) {
  EXPECT_TRUE(Read().by_name.empty());
  EXPECT_FALSE(Read().complete);
}

TEST_F(SpecialTokenTextsTest, TextsObjectsAndNull) {
  Write("tokenizer_config.json",
        R"({"bos_token":null,"eos_token":"<|im_end|>","pad_token":{"content":"<pad>",)"
        R"("lstrip":false},"other_token":"x","added_tokens_decoder":{},)"
        R"("tokenizer_class":"Qwen2Tokenizer"})");
  // Not read: the file before it is of the kind that is whole.
  Write("special_tokens_map.json", R"({"eos_token":"</s>","unk_token":"<unk>"})");
  const SpecialTokenTexts texts = Read();
  EXPECT_THAT(texts.by_name, ElementsAre(Pair("bos_token", ""), Pair("eos_token", "<|im_end|>"),
                                         Pair("pad_token", "<pad>")));
  EXPECT_FALSE(texts.complete);
}

TEST_F(SpecialTokenTextsTest, TheMapCompletesAnOlderFile) {
  Write("tokenizer_config.json",
        R"({"bos_token":"<s>","eos_token":"</s>","tokenizer_class":"PreTrainedTokenizerFast"})");
  Write("special_tokens_map.json", R"({"eos_token":{"content":"<end>"},"unk_token":"<unk>"})");
  const SpecialTokenTexts texts = Read();
  EXPECT_THAT(texts.by_name, ElementsAre(Pair("bos_token", "<s>"), Pair("eos_token", "<end>"),
                                         Pair("unk_token", "<unk>")));
  EXPECT_TRUE(texts.complete) << "this class has no defaults";
}

TEST_F(SpecialTokenTextsTest, ErrorsNameFileAndField) {
  for (const char* text : {R"({"bos_token":1})", R"({"bos_token":["a"]})",
                           R"({"bos_token":{"text":"a"}})", "[]", "{"}) {
    Write("tokenizer_config.json", text);
    const auto read = SpecialTokenTexts::OfFolder(folder_.text());
    EXPECT_EQ(read.status().code(), StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(read.status().message(), HasSubstr("tokenizer_config.json")) << text;
  }
  Write("tokenizer_config.json", R"({"bos_token":")" + std::string(1025, 'x') + R"("})");
  EXPECT_THAT(SpecialTokenTexts::OfFolder(folder_.text()).status().message(),
              HasSubstr("bos_token"));
}

}  // namespace
}  // namespace penstock::families

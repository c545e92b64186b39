#include "corpus/slices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <random>

#include "base/temp_folder_test_util.h"
#include "corpus/row_reader.h"

namespace penstock::corpus {
namespace {

using testing::ElementsAreArray;
using testing::HasSubstr;

class ShardedInputTest : public testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& text) {
    const std::string path = folder_ / name;
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }

  static std::vector<std::string> Texts(RowReader reader) {
    std::vector<std::string> texts;
    while (true) {
      auto row = reader.Next();
      EXPECT_TRUE(row.ok()) << row.status().message();
      if (!row.ok() || !*row) return texts;
      texts.push_back((*row)->status.ok() ? (*row)->text : "bad: " + (*row)->Reason());
    }
  }

  // The rows of all shards, one after the other, are those of the files.
  static void ExpectWhole(const std::vector<std::string>& files, int64_t count,
                          const InputOptions& options = {}) {
    const auto input = ShardedInput::Open(files, options);
    ASSERT_TRUE(input.ok()) << input.status().message();
    std::vector<std::string> texts;
    for (int64_t shard = 0; shard < count; ++shard) {
      auto slices = input->Shard(shard, count);
      ASSERT_TRUE(slices.ok()) << slices.status().message();
      if (slices->empty()) continue;
      for (std::string& text : Texts({*std::move(slices), options})) texts.push_back(text);
    }
    EXPECT_THAT(texts, ElementsAreArray(Texts({files, options}))) << count << " shards";
  }

  TempFolder folder_;
};

TEST_F(ShardedInputTest, RowsAreThereExactlyOnceAndInOrder) {
  std::mt19937 random(7);
  std::string lines;
  std::string objects;
  for (int i = 0; i < 300; ++i) {
    const std::string text =
        std::string(random() % 60, 'a' + i % 26) + "\xc3\xbc" + std::to_string(i);
    lines += text + (i % 7 == 0 ? "\r\n" : i % 11 == 0 ? "\n\n" : "\n");
    objects += "{\"text\": \"" + text + "\"}\n" + (i % 5 == 0 ? "\n" : "");
  }
  lines += "the last one, without a line end";
  const std::vector<std::string> files = {Write("a.txt", lines),
                                          Write("empty.txt", ""),
                                          Write("b.jsonl", objects),
                                          Write("c.csv", "id,text\n1,\"two\nlines\"\n2,x\n"),
                                          Write("d.json", "[\"x\", \"y\"]"),
                                          Write("e.txt", "one\n"),
                                          Write("end.txt", "")};
  for (const int64_t count : {1, 2, 3, 7, 64, 300, 5000}) ExpectWhole(files, count);
  ExpectWhole({files[0]}, 13);
  ExpectWhole({files[1], files[6]}, 3);
}

TEST_F(ShardedInputTest, ShardsAreOfAboutEqualSize) {
  std::string lines;
  for (int i = 0; i < 10'000; ++i)
    lines += "a line of some thirty bytes " + std::to_string(i) + "\n";
  const auto input = ShardedInput::Open({Write("a.txt", lines)}, {});
  ASSERT_TRUE(input.ok());
  for (int64_t shard = 0; shard < 64; ++shard) {
    const auto slices = input->Shard(shard, 64);
    ASSERT_TRUE(slices.ok() && slices->size() == 1);
    const FileSlice& slice = slices->front();
    const int64_t bytes = slice.end.value_or(input->bytes()) - slice.begin;
    EXPECT_NEAR(static_cast<double>(bytes), static_cast<double>(input->bytes()) / 64, 40);
  }
}

TEST_F(ShardedInputTest, ALineIsNotCutHoweverLong) {
  ExpectWhole({Write("a.txt", "x\n" + std::string(300'000, 'y') + "\nz\n")}, 10);
}

// A byte order mark counts at the head of a file alone.
TEST_F(ShardedInputTest, MarksInsideOfAFileStay) {
  ExpectWhole({Write("a.txt",
                     "\xef\xbb\xbf"
                     "first\n\xef\xbb\xbfsecond\n\xef\xbb\xbfthird\n")},
              3);
}

TEST_F(ShardedInputTest, OtherEncodingsGoFileByFile) {
  const std::string latin = "caf\xe9\nth\xe9\neau\n";
  ExpectWhole({Write("a.txt", latin), Write("b.txt", latin)}, 4,
              {.format = InputFormat::kText, .encoding = TextEncoding::kLatin1});
}

TEST_F(ShardedInputTest, BadRowsNameTheirByte) {
  std::string lines;
  for (int i = 0; i < 100; ++i) lines += "{\"text\": \"x\"}\n";
  const size_t at = lines.size();
  lines += "{\"text\": 3}\n";
  const std::string path = Write("a.jsonl", lines);
  const auto input = ShardedInput::Open({path}, {});
  ASSERT_TRUE(input.ok());
  auto slices = input->Shard(9, 10);
  ASSERT_TRUE(slices.ok());
  RowReader reader(*std::move(slices), {});
  while (true) {
    const auto row = reader.Next();
    ASSERT_TRUE(row.ok() && *row);
    if ((*row)->status.ok()) continue;
    EXPECT_EQ((*row)->where, path + "@" + std::to_string(at));
    EXPECT_EQ(PlaceOf((*row)->where).unit, "byte");
    return;
  }
}

TEST_F(ShardedInputTest, TellsFilesApart) {
  const auto digest = [](const std::string& path) {
    const auto input = ShardedInput::Open({path}, {});
    return input.ok() ? input->files().front().digest : input.status().message();
  };
  const std::string a = digest(Write("a.txt", "x\ny\n"));
  EXPECT_EQ(a, digest(Write("b.txt", "x\ny\n")));
  EXPECT_NE(a, digest(Write("c.txt", "x\nz\n")));
  EXPECT_NE(digest(Write("d.txt", std::string(200'000, 'x'))),
            digest(Write("e.txt", std::string(199'999, 'x') + "y")));
}

TEST_F(ShardedInputTest, WhatCannotBeCutIsRefused) {
  EXPECT_THAT(ShardedInput::Open({}, {}).status().message(), HasSubstr("stdin"));
  EXPECT_THAT(ShardedInput::Open({"-"}, {}).status().message(), HasSubstr("stdin"));
  EXPECT_EQ(ShardedInput::Open({folder_ / "gone"}, {}).status().code(), StatusCode::kNotFound);
  EXPECT_FALSE(ShardedInput::Open({folder_.path()}, {}).ok());
}

}  // namespace
}  // namespace penstock::corpus

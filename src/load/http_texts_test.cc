#include "load/http_texts.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "base/temp_folder_test_util.h"

namespace penstock::load {
namespace {

size_t Words(const std::string& text) {
  return 1 + static_cast<size_t>(std::count(text.begin(), text.end(), ' '));
}

TEST(LengthSpecTest, Draws) {
  std::mt19937_64 random(3);
  auto fixed = LengthSpec::Parse("fixed:7");
  ASSERT_TRUE(fixed.ok());
  EXPECT_EQ(fixed->Draw(&random), 7);

  auto uniform = LengthSpec::Parse("uniform:3,5");
  ASSERT_TRUE(uniform.ok());
  std::array<int, 3> seen{};
  for (int i = 0; i < 300; ++i) ++seen.at(static_cast<size_t>(uniform->Draw(&random) - 3));
  for (const int n : seen) EXPECT_GT(n, 50);

  auto log_normal = LengthSpec::Parse("lognormal:60,0.5,2,1000");
  ASSERT_TRUE(log_normal.ok());
  double sum = 0;
  for (int i = 0; i < 20'000; ++i) sum += log_normal->Draw(&random);
  EXPECT_NEAR(sum / 20'000, 60, 1.5);
}

TEST(LengthSpecTest, RefusesWhatItCannotRead) {
  for (const char* text : {"", "fixed", "fixed:", "fixed:0", "fixed:1,2", "fixed:x", "uniform:5,3",
                           "uniform:1,", "lognormal:1,2,3", "lognormal:0,1,1,9", "normal:1,1,1,9",
                           "fixed:1000000", "lognormal:nan,1,1,9"}) {
    EXPECT_EQ(LengthSpec::Parse(text).status().code(), StatusCode::kInvalidArgument) << text;
  }
}

TEST(TextSourceTest, MakesNewTextsOfTheLengthAskedFor) {
  TextSource source(*LengthSpec::Parse("fixed:12"), 1);
  TextSource again(*LengthSpec::Parse("fixed:12"), 1);
  const std::string first = source.Next();
  EXPECT_EQ(Words(first), 12u);
  EXPECT_EQ(again.Next(), first);
  EXPECT_NE(source.Next(), first);
}

TEST(TextSourceTest, ReadsLinesOverAgain) {
  const TempFolder folder;
  const std::string path = folder / "texts";
  std::ofstream(path) << "one\n\n  \ntwo\n";
  auto source = TextSource::FromFile(path);
  ASSERT_TRUE(source.ok());
  EXPECT_EQ(source->Next(), "one");
  EXPECT_EQ(source->Next(), "two");
  EXPECT_EQ(source->Next(), "one");
  std::ofstream(path, std::ios::trunc) << " \n";
  EXPECT_EQ(TextSource::FromFile(path).status().code(), StatusCode::kInvalidArgument);
  unlink(path.c_str());
  EXPECT_EQ(TextSource::FromFile(path).status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace penstock::load

#include "bulk/input_scan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/temp_folder_test_util.h"

namespace penstock::bulk {
namespace {

using std::chrono::milliseconds;

class InputScanTest : public testing::Test {
 protected:
  void Put(const std::string& text) const { std::ofstream(path_) << text; }

  const TempFolder folder_;
  const std::string path_ = folder_ / "texts";
};

TEST_F(InputScanTest, CountsAWholeInput) {
  Put("one\ntwo\n\nfour\n");
  const auto scan =
      ScanInput(corpus::WholeFiles({path_, path_}), {.format = corpus::InputFormat::kText}, false);
  ASSERT_TRUE(scan.ok());
  EXPECT_TRUE(scan->known && scan->whole);
  EXPECT_EQ(scan->rows, 8);
  EXPECT_EQ(scan->text_bytes, 20);
  EXPECT_EQ(scan->RowsExpected(), 8);
  EXPECT_EQ(scan->TextBytesExpected(), 20);
}

TEST_F(InputScanTest, APartTellsAboutTheWhole) {
  std::string text;
  for (int i = 0; i < 200'000; ++i) text += "0123456789\n";
  Put(text);
  const auto scan = ScanInput(corpus::WholeFiles({path_}), {.format = corpus::InputFormat::kText},
                              false, milliseconds(0));
  ASSERT_TRUE(scan.ok());
  EXPECT_TRUE(scan->known);
  EXPECT_FALSE(scan->whole);
  EXPECT_EQ(scan->rows, 1);  // this number is certain
  EXPECT_LT(scan->part, 0.1);
  EXPECT_LE(scan->RowsExpected(), 200'000);
}

TEST_F(InputScanTest, ABadRowIsAFailureUnlessItIsKept) {
  Put("\"a\"\n{\"nothing\": 1}\n\"bc\"\n");
  const auto failed = ScanInput(corpus::WholeFiles({path_}), {}, false);
  EXPECT_THAT(failed.status().message(), testing::HasSubstr(path_ + ":2: the object has no field"));
  const auto kept = ScanInput(corpus::WholeFiles({path_}), {}, true);
  ASSERT_TRUE(kept.ok());
  EXPECT_EQ(kept->rows, 3);
  EXPECT_EQ(kept->text_bytes, 3);
}

TEST_F(InputScanTest, StandardInputIsNotTouched) {
  Put("one\n");
  for (const std::vector<std::string>& files : {std::vector<std::string>{}, {path_, "-"}}) {
    const auto scan = ScanInput(corpus::WholeFiles(files), {}, false);
    ASSERT_TRUE(scan.ok());
    EXPECT_FALSE(scan->known);
    EXPECT_EQ(scan->RowsExpected(), 0);
    EXPECT_EQ(scan->TextBytesExpected(), 0);
  }
}

}  // namespace
}  // namespace penstock::bulk

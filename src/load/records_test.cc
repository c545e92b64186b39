#include "load/records.h"

#include <gtest/gtest.h>

#include <fstream>
#include <limits>
#include <sstream>

#include "base/temp_folder_test_util.h"
#include "load/table.h"

namespace penstock::load {
namespace {

TEST(BenchRecordsTest, WritesAnObjectALine) {
  BenchRecords records;
  records.Add("a.rate", 1.5, "1/s");
  records.Add("a.p99", std::numeric_limits<double>::quiet_NaN(), "ms", "batch=\"8\"");
  const std::string expected =
      "{\"name\":\"a.rate\",\"value\":1.5,\"unit\":\"1/s\"}\n"
      "{\"name\":\"a.p99\",\"value\":null,\"unit\":\"ms\",\"row\":\"batch=\\\"8\\\"\"}\n";
  EXPECT_EQ(records.ToJsonLines(), expected);

  const TempFolder folder;
  const std::string path = folder / "records";
  ASSERT_TRUE(records.WriteFile(path).ok());
  std::stringstream read;
  read << std::ifstream(path).rdbuf();
  EXPECT_EQ(read.str(), expected);
}

TEST(BenchRecordsTest, NamesTheFileItCannotWrite) {
  BenchRecords records;
  EXPECT_TRUE(records.WriteFile("").ok());
  const Status status = records.WriteFile("/nonexistent/records");
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_NE(status.message().find("/nonexistent/records"), std::string::npos);
}

TEST(BenchTableTest, AlignsColumns) {
  BenchTable table({"name", "n"});
  table.AddRow({"a", "12345"});
  table.AddRow({"longer"});
  EXPECT_EQ(table.ToText(),
            "name        n\n"
            "------  -----\n"
            "a       12345\n"
            "longer\n");
}

TEST(BenchTableTest, ShortNumbers) {
  EXPECT_EQ(ShortNumber(0), "0");
  EXPECT_EQ(ShortNumber(0.12345), "0.123");
  EXPECT_EQ(ShortNumber(12.345), "12.35");
  EXPECT_EQ(ShortNumber(1234567.8), "1234568");
  EXPECT_EQ(ShortNumber(std::numeric_limits<double>::infinity()), "-");
}

}  // namespace
}  // namespace penstock::load

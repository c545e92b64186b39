#include "jobs/start_record.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/temp_folder_test_util.h"

namespace penstock::jobs {
namespace {

class StartRecordTest : public testing::Test {
 protected:
  // What the process would leave if it ended now.
  std::string File() const {
    std::ifstream file(path_);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void Leave(const std::string& text) const { std::ofstream(path_) << text; }

  const TempFolder folder_;
  const std::string path_ = folder_ / "x.starts";
};

TEST_F(StartRecordTest, CountsTheCrashesOfLinesThatWereUnderWay) {
  for (int crashes = 0; crashes < 3; ++crashes) {
    std::string crashed;
    {
      StartRecord record(path_);
      EXPECT_EQ(record.CrashesOf(7), crashes);
      EXPECT_EQ(record.CrashesOf(8), 0) << "it had come back";
      record.Begin(7);
      record.Begin(8);
      record.Return(8);
      crashed = File();
    }
    Leave(crashed);
  }
}

TEST_F(StartRecordTest, AnEndInOrderIsNoCrash) {
  {
    StartRecord record(path_);
    record.Begin(1);
  }
  EXPECT_FALSE(std::filesystem::exists(path_));
  Leave("3\n3\n4\n");
  {
    StartRecord record(path_);
    record.Begin(1);
    record.Begin(3);
    record.Forget(4);
  }
  EXPECT_EQ(File(), "3\n3\n");
}

TEST_F(StartRecordTest, TakesWhatItFinds) {
  Leave("5\n-5\n-5\n6\n-9\nx 7\n");
  {
    const StartRecord record(path_);
    EXPECT_EQ(record.CrashesOf(5), 0);
    EXPECT_EQ(record.CrashesOf(6), 1);
    EXPECT_EQ(record.CrashesOf(7), 0);
  }
  StartRecord nowhere(folder_ / "none/x.starts");
  nowhere.Begin(1);
  EXPECT_EQ(nowhere.CrashesOf(1), 0);
}

}  // namespace
}  // namespace penstock::jobs

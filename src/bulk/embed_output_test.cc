#include "bulk/embed_output.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>

#include "base/temp_folder_test_util.h"
#include "os/disk_room.h"

namespace penstock::bulk {
namespace {

using testing::HasSubstr;

std::string Contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

class OutputTest : public testing::Test {
 protected:
  std::string Path(const std::string& name) const { return folder_ / name; }
  bool Exists(const std::string& name) const { return std::filesystem::exists(Path(name)); }
  void Put(const std::string& name, const std::string& text) const {
    std::ofstream(Path(name)) << text;
  }

  const TempFolder folder_;
};

TEST_F(OutputTest, AnOlderFileStaysUntilTheNewOneIsWhole) {
  Put("x", "old");
  {
    auto file = OutputFile::Open(Path("x"));
    ASSERT_TRUE(file.ok());
    file->Write("new");
    EXPECT_EQ(Contents(Path("x")), "old");
    EXPECT_TRUE(Exists("x.part"));
  }
  EXPECT_EQ(Contents(Path("x")), "old");
  EXPECT_FALSE(Exists("x.part"));
  auto file = OutputFile::Open(Path("x"));
  file->Write("new");
  ASSERT_TRUE(file->Close().ok());
  EXPECT_EQ(Contents(Path("x")), "new");
  EXPECT_FALSE(Exists("x.part"));
}

TEST_F(OutputTest, AFailureSaysWhereTheRestIs) {
  auto file = OutputFile::Open(Path("x"));
  file->Write("half");
  const Status status = file->CloseAfter(Status::InvalidArgument("line 3 is bad", "inputs"));
  EXPECT_EQ(status.message(), "line 3 is bad; " + Path("x.part") + " holds what was written");
  EXPECT_EQ(Contents(Path("x.part")), "half");
  EXPECT_FALSE(Exists("x"));
}

TEST_F(OutputTest, TwoDoNotWriteTheSameFile) {
  auto first = OutputFile::Open(Path("x"));
  first->Write("first");
  EXPECT_THAT(OutputFile::Open(Path("x")).status().message(), HasSubstr("another command"));
  ASSERT_TRUE(first->Close().ok());
  EXPECT_EQ(Contents(Path("x")), "first");
}

TEST_F(OutputTest, PermissionsAndLinksStay) {
  Put("real", "old");
  std::filesystem::permissions(Path("real"), std::filesystem::perms(0640));
  std::filesystem::create_symlink(Path("real"), Path("link"));
  auto file = OutputFile::Open(Path("link"));
  file->Write("new");
  ASSERT_TRUE(file->Close().ok());
  EXPECT_TRUE(std::filesystem::is_symlink(Path("link")));
  EXPECT_EQ(Contents(Path("real")), "new");
  EXPECT_EQ(std::filesystem::status(Path("real")).permissions(), std::filesystem::perms(0640));
}

TEST_F(OutputTest, WhatIsNoRegularFileIsWrittenInPlace) {
  auto file = OutputFile::Open("/dev/null");
  ASSERT_TRUE(file.ok());
  EXPECT_FALSE(file->HasPart());
  file->Write("gone");
  EXPECT_TRUE(file->Close().ok());
}

TEST_F(OutputTest, AFullDiskIsNamed) {
  auto file = OutputFile::Open("/dev/full");
  ASSERT_TRUE(file.ok());
  file->Write("x");
  EXPECT_EQ(file->Close().message(), "cannot write /dev/full: No space left on device");
}

TEST_F(OutputTest, CheckpointsReadAsWritten) {
  Checkpoint made;
  made.rows = 7;
  made.bytes = 1234;
  made.dimensions = 3;
  made.tokens = 99;
  made.cut = 1;
  made.input = "abc";
  made.options = R"({"output":"npy","prompt":"a \"b\""})";
  made.first_row = {0.1f, -3.4028235e38f, 1e-45f};
  ASSERT_TRUE(made.Write(Path("c")).ok());
  const auto read = Checkpoint::Read(Path("c"));
  ASSERT_TRUE(read.ok()) << read.status().message();
  ASSERT_TRUE(read->has_value());
  EXPECT_EQ((*read)->rows, 7);
  EXPECT_EQ((*read)->bytes, 1234);
  EXPECT_EQ((*read)->options, made.options);
  EXPECT_EQ((*read)->first_row, made.first_row);
  EXPECT_FALSE(Checkpoint::Read(Path("none"))->has_value());
  Put("c", "{\"penstock_checkpoint\": 2}");
  EXPECT_THAT(Checkpoint::Read(Path("c")).status().message(), HasSubstr("is not a checkpoint"));
}

TEST(SameVector, AllowsForTheLastDigits) {
  EXPECT_TRUE(SameVector({1, 2}, {1, 2.00001f}));
  EXPECT_FALSE(SameVector({1, 2}, {1, 2.01f}));
  EXPECT_FALSE(SameVector({1, 2}, {1}));
  EXPECT_TRUE(SameVector({0, 0}, {0, 0}));
}

// Rows "0", "1", ... as [the number, 1], written by runs that end early.
class EmbedOutputTest : public OutputTest {
 protected:
  static constexpr int kRows = 100;

  void PutRows(int rows) const {
    std::string text;
    for (int i = 0; i < rows; ++i) text += std::to_string(i) + "\n";
    Put("in", text);
  }

  // A run that ends after `end` rows, where that is before the input's end.
  Status Run(const std::string& output, int end, bool resume, const std::string& settings = "s",
             float offset = 0) {
    EmbedOutput out({Path(output), Precision::kFloat32, settings, resume, false, ids_});
    PENSTOCK_RETURN_IF_ERROR(out.Prepare());
    before_ = out.rows_before();
    corpus::RowReader reader({Path("in")}, {.format = format_});
    RowSource source(&reader, true);
    const auto vector = [offset](const std::string& text) {
      return std::vector<float>{std::stof(text) + offset, 1};
    };
    PENSTOCK_RETURN_IF_ERROR(out.SkipRowsBefore(
        &source,
        [&](const std::string& text) -> Expected<std::vector<float>> { return vector(text); }));
    PENSTOCK_RETURN_IF_ERROR(out.Open());
    while (true) {
      PENSTOCK_ASSIGN_OR_RETURN(auto row, source.Next());
      if (!row) {
        if (before_finish_) before_finish_();
        const Status finished = out.Finish(2);
        return finished.ok() ? finished : out.Abandon(finished);
      }
      if (source.mark().rows > end) return out.Abandon({StatusCode::kCancelled, "stopped"});
      BulkWindow window;
      const bool bad = !row->status.ok();
      const std::vector<float> values = bad ? std::vector<float>() : vector(row->text);
      window.Add(std::move(*row));
      window.SetMark(source.mark());
      if (bad) {
        window.SetDimensions(2);
      } else {
        EXPECT_TRUE(*window.Place({0}, values, 2));
      }
      PENSTOCK_RETURN_IF_ERROR(out.Append(window));
    }
  }

  int64_t before_ = 0;
  bool ids_ = false;
  corpus::InputFormat format_ = corpus::InputFormat::kText;
  std::function<void()> before_finish_;
};

TEST_F(EmbedOutputTest, ARunWhoseLastStepFailsIsGoneOnWith) {
  PutRows(kRows);
  ASSERT_TRUE(Run("whole.npy", kRows, false).ok());
  ids_ = true;
  // A folder in the way of the renamed file.
  before_finish_ = [this] { std::filesystem::create_directories(Path("x.npy/in the way")); };
  const Status status = Run("x.npy", kRows, false);
  EXPECT_THAT(status.message(), HasSubstr("x.npy: Is a directory; "));
  EXPECT_THAT(status.message(), HasSubstr("holds 100 rows: the same command"));
  std::filesystem::remove_all(Path("x.npy"));
  before_finish_ = nullptr;
  const Status again = Run("x.npy", kRows, true);
  ASSERT_TRUE(again.ok()) << again.message();
  EXPECT_EQ(before_, kRows);
  EXPECT_EQ(Contents(Path("x.npy")), Contents(Path("whole.npy")));
  EXPECT_EQ(Contents(Path("x.npy.ids")).size(), kRows * std::string("null\n").size());
  EXPECT_FALSE(Exists("x.npy.part") || Exists("x.npy.ids.part") || Exists("x.npy.checkpoint"));
}

TEST_F(EmbedOutputTest, GoesOnToTheSameFile) {
  PutRows(kRows);
  for (const char* name : {"x.npy", "x.jsonl"}) {
    ASSERT_TRUE(Run("whole", kRows, false).ok());
    ASSERT_TRUE(Run(std::string("whole_") + name, kRows, false).ok());
    for (const int end : {1, 2, 50, 99}) {
      const Status status = Run(name, end, true);
      EXPECT_THAT(status.message(), HasSubstr(std::to_string(end) + " rows: the same command"));
      EXPECT_FALSE(Exists(name));
    }
    EXPECT_EQ(before_, 50);
    EXPECT_TRUE(Run(name, kRows, true).ok());
    EXPECT_EQ(before_, 99);
    EXPECT_EQ(Contents(Path(name)), Contents(Path(std::string("whole_") + name)));
    EXPECT_FALSE(Exists(std::string(name) + ".part"));
    EXPECT_FALSE(Exists(std::string(name) + ".checkpoint"));
  }
}

TEST_F(EmbedOutputTest, WhatFollowsTheCheckpointIsCutOff) {
  PutRows(kRows);
  ASSERT_FALSE(Run("x.npy", 10, false).ok());
  std::ofstream(Path("x.npy.part"), std::ios::app) << "half a row";
  ASSERT_TRUE(Run("x.npy", kRows, true).ok());
  ASSERT_TRUE(Run("whole.npy", kRows, false).ok());
  EXPECT_EQ(Contents(Path("x.npy")), Contents(Path("whole.npy")));
}

TEST_F(EmbedOutputTest, APartDoesNotLoadAsAMatrix) {
  PutRows(kRows);
  ASSERT_FALSE(Run("x.npy", 10, false).ok());
  EXPECT_EQ(Contents(Path("x.npy.part")).substr(0, 6), std::string(6, '\0'));
}

TEST_F(EmbedOutputTest, WorkIsNotThrownAwayUnasked) {
  PutRows(kRows);
  ASSERT_FALSE(Run("x.npy", 10, false).ok());
  EXPECT_THAT(Run("x.npy", kRows, false).message(), HasSubstr("holds 10 rows of a run"));
  EXPECT_TRUE(Run("x.npy", kRows, true).ok());
}

TEST_F(EmbedOutputTest, AnotherInputSettingOrModelIsRefused) {
  PutRows(kRows);
  ASSERT_FALSE(Run("x.npy", 10, false).ok());
  EXPECT_THAT(Run("x.npy", kRows, true, "other").message(), HasSubstr("was made with s, and now"));
  EXPECT_THAT(Run("x.npy", kRows, true, "s", 0.5f).message(), HasSubstr("another vector"));
  PutRows(5);
  EXPECT_THAT(Run("x.npy", kRows, true).message(), HasSubstr("has 5 rows, of which 10 were done"));
  Put("in", "0\n1\n2\n3\n4\n5\n6\n7\n8\n10\n11\n");
  EXPECT_THAT(Run("x.npy", kRows, true).message(), HasSubstr("are not those that were done"));
  std::filesystem::resize_file(Path("x.npy.part"), 130);
  PutRows(kRows);
  EXPECT_THAT(Run("x.npy", kRows, true).message(), HasSubstr("has 130 bytes, and should have"));
}

TEST_F(EmbedOutputTest, ResumeWithoutARunBeginsAtTheBeginning) {
  PutRows(3);
  ASSERT_TRUE(Run("x.npy", kRows, true).ok());
  EXPECT_EQ(before_, 0);
  EXPECT_EQ(EmbedOutput({"-", Precision::kFloat32, "s", true, false, false}).Prepare().field(),
            "resume");
}

TEST_F(EmbedOutputTest, SkippedRowsAreZerosAndNamed) {
  format_ = corpus::InputFormat::kJsonl;
  std::string text;
  for (int i = 0; i < kRows; ++i) {
    const bool bad = i % 10 == 0 || i == kRows - 1;
    text += bad ? "{\"no\": 1}\n" : "\"" + std::to_string(i) + "\"\n";
  }
  Put("in", text);
  for (const char* name : {"x.npy", "x.jsonl"}) {
    const std::string whole = std::string("whole_") + name;
    ASSERT_TRUE(Run(whole, kRows, false).ok());
    const std::string errors = Contents(Path(whole + ".errors.jsonl"));
    EXPECT_EQ(std::count(errors.begin(), errors.end(), '\n'), 11);
    EXPECT_THAT(errors, testing::StartsWith("{\"index\":0,\"file\":\"" + Path("in") +
                                            "\",\"line\":1,\"error\":\"the object has no field"));
    EXPECT_THAT(errors, HasSubstr("{\"index\":99,"));
    // Ended where none has a vector yet, where the last is skipped, and between.
    for (const int end : {1, 11, 12, 55, 99}) ASSERT_FALSE(Run(name, end, true).ok());
    ASSERT_TRUE(Run(name, kRows, true).ok());
    EXPECT_EQ(before_, 99);
    EXPECT_EQ(Contents(Path(name)), Contents(Path(whole)));
    EXPECT_EQ(Contents(Path(std::string(name) + ".errors.jsonl")), errors);
    EXPECT_FALSE(Exists(std::string(name) + ".errors.jsonl.part"));
  }
  const std::string matrix = Contents(Path("x.npy")).substr(kMatrixHeaderBytes);
  EXPECT_EQ(matrix.substr(0, 8), std::string(8, '\0'));
  EXPECT_NE(matrix.substr(8, 8), std::string(8, '\0'));
  EXPECT_EQ(matrix.substr(99 * 8), std::string(8, '\0'));
  EXPECT_THAT(Contents(Path("x.jsonl")),
              testing::StartsWith("{\"index\":0,\"embedding\":null,\"error\":\"the object"));
}

TEST_F(EmbedOutputTest, ErrorsThatWereRenamedAreGoneOnWith) {
  format_ = corpus::InputFormat::kJsonl;
  Put("in", "\"1\"\n7\n\"2\"\n");
  ASSERT_TRUE(Run("whole.npy", kRows, false).ok());
  before_finish_ = [this] { std::filesystem::create_directories(Path("x.npy/in the way")); };
  ASSERT_FALSE(Run("x.npy", kRows, false).ok());
  EXPECT_TRUE(Exists("x.npy.errors.jsonl") && !Exists("x.npy.errors.jsonl.part"));
  std::filesystem::remove_all(Path("x.npy"));
  before_finish_ = nullptr;
  Put("in", "\"1\"\n7\n\"2\"\n8\n");
  ASSERT_TRUE(Run("x.npy", kRows, true).ok());
  const std::string errors = Contents(Path("x.npy.errors.jsonl"));
  EXPECT_THAT(errors, testing::StartsWith(Contents(Path("whole.npy.errors.jsonl"))));
  EXPECT_EQ(std::count(errors.begin(), errors.end(), '\n'), 2);
}

TEST_F(EmbedOutputTest, ErrorsOfAnEarlierOutputGoWithIt) {
  PutRows(kRows);
  Put("x.npy.errors.jsonl", "old");
  ASSERT_FALSE(Run("x.npy", 10, false).ok());
  EXPECT_TRUE(Exists("x.npy.errors.jsonl"));
  ASSERT_TRUE(Run("x.npy", kRows, true).ok());
  EXPECT_FALSE(Exists("x.npy.errors.jsonl"));
}

TEST_F(EmbedOutputTest, ErrorsThatNoCheckpointCountsAreDropped) {
  PutRows(kRows);
  ASSERT_FALSE(Run("x.npy", 10, false).ok());
  Put("x.npy.errors.jsonl.part", "of rows behind the checkpoint");
  ASSERT_TRUE(Run("x.npy", kRows, true).ok());
  EXPECT_FALSE(Exists("x.npy.errors.jsonl.part") || Exists("x.npy.errors.jsonl"));
}

TEST_F(EmbedOutputTest, ADiskThatIsTooSmallIsNamed) {
  const EmbedOutput out({Path("x.npy"), Precision::kFloat32, "s", false, false, false});
  EXPECT_TRUE(out.CheckRoom(10, 384).ok());
  const Status status = out.CheckRoom(int64_t{1} << 45, 384);
  // Not known of every file system.
  if (RoomFor(Path("x.npy"))) {
    EXPECT_EQ(status.code(), StatusCode::kUnavailable);
    EXPECT_THAT(status.message(), HasSubstr("rows of 384 numbers take 5.4e+04 TB"));
  }
  const EmbedOutput pipe({"-", Precision::kFloat32, "s", false, false, false});
  EXPECT_TRUE(pipe.CheckRoom(int64_t{1} << 45, 384).ok());
}

}  // namespace
}  // namespace penstock::bulk

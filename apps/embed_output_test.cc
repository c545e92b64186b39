#include "embed_output.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>

namespace penstock {
namespace {

using testing::HasSubstr;

std::string Contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

class OutputTest : public testing::Test {
 protected:
  OutputTest() : folder_(testing::TempDir() + "/output_" + std::to_string(getpid())) {
    std::filesystem::create_directories(folder_);
  }
  ~OutputTest() override { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  bool Exists(const std::string& name) const { return std::filesystem::exists(Path(name)); }
  void Put(const std::string& name, const std::string& text) const {
    std::ofstream(Path(name)) << text;
  }

  const std::string folder_;
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
  EXPECT_THAT(Checkpoint::Read(Path("c")).status().message(), HasSubstr("is no checkpoint"));
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
    RowReader reader({Path("in")}, {.format = InputFormat::kText});
    RowSource source(&reader);
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
      const std::vector<float> values = vector(row->text);
      window.Add(std::move(*row));
      window.SetMark(source.mark());
      EXPECT_TRUE(*window.Place({0}, values, 2));
      PENSTOCK_RETURN_IF_ERROR(out.Append(window));
    }
  }

  int64_t before_ = 0;
  bool ids_ = false;
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

}  // namespace
}  // namespace penstock

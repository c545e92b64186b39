#include "runtime/repository_scan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "base/temp_folder_test_util.h"

namespace penstock::runtime {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class RepositoryScanTest : public testing::Test {
 protected:
  RepositoryScanTest() { fs::create_directories(root_); }

  void Write(const fs::path& path, const std::string& text = "x") const {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  RepositoryContents Scan() const {
    auto found = ScanRepository(root_.string());
    EXPECT_TRUE(found.ok()) << found.status().message();
    return found.ok() ? *std::move(found) : RepositoryContents();
  }
  static std::vector<std::string> Names(const RepositoryContents& found) {
    std::vector<std::string> names;
    for (const RepositoryModel& model : found.models) names.push_back(model.name);
    return names;
  }
  RepositoryVersion Version(const std::string& model = "a", size_t i = 0) const {
    for (const RepositoryModel& one : Scan().models) {
      if (one.name == model) return one.versions.at(i);
    }
    return {};
  }

  const TempFolder temp_;
  const fs::path base_ = temp_.path(), root_ = base_ / "models";
};

TEST_F(RepositoryScanTest, ModelsByNameAndVersionsFromTheHighest) {
  Write("b/2/config.json");
  Write("b/10/config.json");
  Write("b/9/config.json");
  Write("a/1/model.gguf");
  Write("a/model.toml");
  Write("README.md");
  const RepositoryContents found = Scan();
  EXPECT_THAT(Names(found), ElementsAre("a", "b"));
  EXPECT_THAT(found.left_out, IsEmpty());
  EXPECT_EQ(found.models[0].settings, fs::canonical(root_ / "a/model.toml").string());
  EXPECT_EQ(found.models[1].settings, "");
  EXPECT_EQ(found.models[0].config, "");
  const auto& versions = found.models[1].versions;
  ASSERT_EQ(versions.size(), 3u);
  EXPECT_EQ(versions[0].number, 10);
  EXPECT_EQ(versions[1].number, 9);
  EXPECT_EQ(versions[2].number, 2);
  EXPECT_EQ(versions[0].path, fs::canonical(root_ / "b/10").string());
  EXPECT_EQ(versions[0].error, "");
}

TEST_F(RepositoryScanTest, WhatIsNoVersionIsNamed) {
  for (const char* name : {"01", "v2", "-1", "+1", "0", "1.0", " 1", "99999999999999999999"}) {
    Write(fs::path("a") / name / "config.json");
  }
  Write("a/3/config.json");
  Write("a/.incoming/config.json");
  Write("a/7");  // a file
  const RepositoryContents found = Scan();
  ASSERT_EQ(found.models.size(), 1u);
  EXPECT_EQ(found.left_out.size(), 8u);
  EXPECT_THAT(found.left_out[0], HasSubstr("a positive integer without leading zeros"));
  ASSERT_EQ(found.models[0].versions.size(), 2u);
  EXPECT_EQ(found.models[0].versions[0].error, "it is not a folder");
  EXPECT_EQ(found.models[0].versions[1].error, "");
}

TEST_F(RepositoryScanTest, NamesThatCannotBeServedKeepNoOtherOut) {
  const std::string long_name(RepositoryLimits::kNameBytesMax + 1, 'n');
  for (const std::string& name :
       {std::string("a\nb"), std::string("a\x1b[31m"), std::string("a\xff"), std::string("a,b"),
        std::string("a=b"), std::string("~a"), long_name, std::string("\u202e")}) {
    Write(fs::path(name) / "1" / "config.json");
  }
  Write("good/1/config.json");
  Write(".hidden/1/config.json");
  fs::create_directories(root_ / "empty");
  const RepositoryContents found = Scan();
  EXPECT_THAT(Names(found), ElementsAre("good"));
  EXPECT_EQ(found.left_out.size(), 9u);
  EXPECT_THAT(found.left_out, testing::Contains(HasSubstr("at most 200 bytes")));
  EXPECT_THAT(found.left_out, testing::Contains(HasSubstr("it has no version")));
}

TEST_F(RepositoryScanTest, SettingsOfTensorModelsAreOfEveryVersion) {
  Write("a/1/model.onnx");
  Write("a/2/model.savedmodel/variables/variables.index");
  const uint64_t before = Version().files;
  Write("a/config.pbtxt", "max_batch_size: 4");
  EXPECT_EQ(Scan().models[0].config, fs::canonical(root_ / "a/config.pbtxt").string());
  const uint64_t with = Version().files;
  EXPECT_NE(with, before);
  Write("a/config.pbtxt", "max_batch_size: 16");
  EXPECT_NE(Version().files, with);
  fs::remove(root_ / "a/config.pbtxt");
  std::ofstream(base_ / "outside") << "x";
  fs::create_symlink(base_ / "outside", root_ / "a/config.pbtxt");
  EXPECT_THAT(Version().error, HasSubstr("leads out of the repository"));
}

TEST_F(RepositoryScanTest, FilesChangeWithNamesSizesAndTimes) {
  Write("a/1/config.json");
  Write("a/1/1_Pooling/config.json");
  const uint64_t before = Version().files;
  EXPECT_EQ(Version().files, before);
  Write("a/1/model.safetensors", "half");
  const uint64_t half = Version().files;
  EXPECT_NE(half, before);
  Write("a/1/model.safetensors", "halves");
  const uint64_t whole = Version().files;
  EXPECT_NE(whole, half);
  const fs::path inner = root_ / "a/1/1_Pooling/config.json";
  fs::last_write_time(inner, fs::last_write_time(inner) + std::chrono::seconds(1));
  const uint64_t later = Version().files;
  EXPECT_NE(later, whole);
  fs::rename(root_ / "a/1/config.json", root_ / "a/1/other.json");
  EXPECT_NE(Version().files, later);
  const uint64_t without = Version().files;
  Write("a/model.toml", "pin = true");
  EXPECT_NE(Version().files, without);
}

TEST_F(RepositoryScanTest, LinksAreFollowedInsideTheRepositoryAlone) {
  Write("../outside/config.json");
  Write(".store/2/config.json");
  Write("a/1/config.json");
  fs::create_symlink("../.store/2", root_ / "a/2");
  EXPECT_EQ(Version("a", 0).error, "");
  fs::create_symlink("../../outside", root_ / "a/3");
  EXPECT_EQ(Version("a", 0).error, "the link leads out of the repository");
  Write("b/1/config.json");
  fs::create_symlink(base_ / "outside/config.json", root_ / "b/1/tokenizer.json");
  EXPECT_THAT(Version("b").error, HasSubstr("is a link that leads out of the repository"));
  Write("c/1/config.json");
  fs::create_directory_symlink(base_ / "outside", root_ / "c/1/1_Pooling");
  EXPECT_THAT(Version("c").error, HasSubstr("leads out"));
  Write("d/1/config.json");
  fs::create_symlink(base_ / "outside/config.json", root_ / "d/model.toml");
  EXPECT_THAT(Version("d").error, HasSubstr("leads out"));
  fs::create_symlink(base_ / "outside", root_ / "e");
  Write("f/1/config.json");
  fs::create_symlink("nowhere", root_ / "f/1/model.safetensors");
  EXPECT_THAT(Version("f").error, HasSubstr("cannot read"));
  EXPECT_THAT(Scan().left_out, testing::Contains(HasSubstr("/e is left out: the link leads out")));
}

TEST_F(RepositoryScanTest, ALinkToTheRepositoryItselfIsFollowedToItsEnd) {
  Write("a/1/config.json");
  fs::create_directory_symlink("..", root_ / "a/1/up");
  EXPECT_THAT(Version().error, HasSubstr("deep"));
  fs::create_directory_symlink(root_, base_ / "link");
  const auto found = ScanRepository((base_ / "link").string());
  ASSERT_TRUE(found.ok());
  EXPECT_THAT(Names(*found), ElementsAre("a"));
}

TEST_F(RepositoryScanTest, WhatIsNoFileIsRefusedWithoutWaitingForIt) {
  Write("a/1/config.json");
  ASSERT_EQ(mkfifo((root_ / "a/1/model.safetensors").c_str(), 0600), 0);
  EXPECT_THAT(Version().error, HasSubstr("is not a regular file"));
}

TEST_F(RepositoryScanTest, EverythingIsBounded) {
  for (size_t i = 1; i <= RepositoryLimits::kVersionsMax + 4; ++i) {
    Write(fs::path("a") / std::to_string(i) / "config.json");
  }
  for (size_t i = 0; i <= RepositoryLimits::kFilesMax; ++i) {
    Write(fs::path("b/1") / std::to_string(i));
  }
  Write("c/1/1/2/3/4/5/config.json");
  const RepositoryContents found = Scan();
  ASSERT_EQ(found.models.size(), 3u);
  EXPECT_EQ(found.models[0].versions.size(), RepositoryLimits::kVersionsMax);
  EXPECT_EQ(found.models[0].versions[0].number, 20);
  EXPECT_THAT(found.models[1].versions[0].error, HasSubstr("more than 2000 files"));
  EXPECT_THAT(found.models[2].versions[0].error, HasSubstr("more than 4 deep"));
  for (size_t i = 0; i < RepositoryLimits::kModelsMax; ++i) {
    Write(fs::path("m" + std::to_string(i)) / "1" / "config.json");
  }
  EXPECT_EQ(Scan().models.size(), RepositoryLimits::kModelsMax);
  EXPECT_THAT(Scan().left_out, testing::Contains(HasSubstr("at most 64 models")));
}

TEST_F(RepositoryScanTest, AFolderThatIsNotThere) {
  const auto found = ScanRepository((root_ / "none").string());
  EXPECT_EQ(found.code(), StatusCode::kNotFound);
  Write("file");
  EXPECT_EQ(ScanRepository((root_ / "file").string()).code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace penstock::runtime

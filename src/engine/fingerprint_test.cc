#include "engine/fingerprint.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "base/temp_folder_test_util.h"

namespace penstock::engine {
namespace {

namespace fs = std::filesystem;

TEST(ModelFingerprintTest, IsOfNamesAndContents) {
  const TempFolder temp;
  const fs::path folder = temp.path();
  const auto write = [&](const char* name, const char* text) { temp.Write(name, text); };
  const auto print = [&](const char* settings = "cpu") {
    const auto fingerprint = ModelFingerprint(folder.string(), settings);
    EXPECT_TRUE(fingerprint.ok()) << fingerprint.status().ToString();
    return fingerprint.ok() ? *fingerprint : "";
  };
  std::set<std::string> seen;
  const auto is_new = [&] { return seen.insert(print()).second; };
  EXPECT_TRUE(is_new());
  write("config.json", "{}");
  EXPECT_TRUE(is_new());
  EXPECT_EQ(print(), print());
  EXPECT_NE(print(), print("other"));
  write("model.safetensors", "weights");
  EXPECT_TRUE(is_new());
  write("model.safetensors", "weightz");
  EXPECT_TRUE(is_new());
  write("1_Pooling/config.json", "{}");
  EXPECT_TRUE(is_new());
  fs::rename(folder / "1_Pooling", folder / "2_Pooling");
  EXPECT_TRUE(is_new());
  write("README.md", "says nothing");
  EXPECT_FALSE(is_new());
  EXPECT_EQ(print().size(), 64u);
  fs::remove_all(folder);
  EXPECT_FALSE(ModelFingerprint(folder.string(), "").ok());
}

}  // namespace
}  // namespace penstock::engine

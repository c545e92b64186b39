#include "frontend/api_keys.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "base/temp_folder_test_util.h"

namespace penstock::frontend {
namespace {

TEST(ApiKeys, AnyOfThemAndNothingElse) {
  const ApiKeys keys({"first", "second"});
  EXPECT_TRUE(keys.Allows("first"));
  EXPECT_TRUE(keys.Allows("second"));
  for (const char* wrong : {"", "firs", "first ", "First", "firstsecond"}) {
    EXPECT_FALSE(keys.Allows(wrong)) << wrong;
  }
  EXPECT_TRUE(ApiKeys().empty());
}

TEST(ApiKeys, KeysThatNoHeaderCanCarry) {
  EXPECT_TRUE(CheckApiKey("a key, with [anything] \xc3\xa9").ok());
  EXPECT_TRUE(CheckApiKey(std::string(kApiKeyBytesMax, 'k')).ok());
  for (const std::string& wrong :
       {std::string(), std::string(" k"), std::string("k "), std::string("secret\n"),
        std::string("se\tcret"), std::string("se\0cret", 7),
        std::string(kApiKeyBytesMax + 1, 'k')}) {
    const Status status = CheckApiKey(wrong);
    EXPECT_FALSE(status.ok()) << wrong;
    EXPECT_EQ(status.message().find("cret"), std::string::npos);
  }
}

class KeyFile : public testing::Test {
 protected:
  Status Read(const std::string& text) {
    std::ofstream(path_, std::ios::binary) << text;
    keys_ = ApiKeys();
    return keys_.AddFile(path_);
  }
  const TempFolder folder_;
  const std::string path_ = folder_ / "keys";
  ApiKeys keys_;
};

TEST_F(KeyFile, OneALine) {
  ASSERT_TRUE(Read("# people\nfirst\n\n  second \t\n#third\n\n# machines\nfour th").ok());
  EXPECT_EQ(keys_.size(), 3u);
  for (const char* key : {"first", "second", "four th"}) EXPECT_TRUE(keys_.Allows(key)) << key;
  for (const char* wrong : {"third", "#third", "# people", "", "four"}) {
    EXPECT_FALSE(keys_.Allows(wrong)) << wrong;
  }
  ASSERT_TRUE(Read("\xef\xbb\xbf"
                   "first\r\nsecond\r\n")
                  .ok());
  EXPECT_TRUE(keys_.Allows("first") && keys_.Allows("second"));
  EXPECT_EQ(keys_.size(), 2u);
}

TEST_F(KeyFile, KeysMayHaveWeights) {
  ASSERT_TRUE(
      Read("plain\nthree weight=3\r\n  most \t weight=1000  \na b weight=2\nweight=7\n").ok());
  EXPECT_EQ(keys_.size(), 5u);
  const auto weight = [&](const char* key) {
    const size_t number = keys_.Find(DigestOfKey(key));
    return number == 0 ? 0 : keys_.weight(number);
  };
  EXPECT_EQ(weight("plain"), 1u);
  EXPECT_EQ(weight("three"), 3u);
  EXPECT_EQ(weight("most"), 1000u);
  EXPECT_EQ(weight("a b"), 2u);
  EXPECT_EQ(weight("weight=7"), 1u);  // a key, for nothing stands before it
  EXPECT_EQ(weight("three weight=3"), 0u);
}

TEST_F(KeyFile, WhatIsNoKeyFileIsRefusedByName) {
  const auto refused = [&](const Status& status, const std::string& why) {
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find(path_), std::string::npos) << status.message();
    EXPECT_NE(status.message().find(why), std::string::npos) << status.message();
    EXPECT_TRUE(keys_.empty());
  };
  refused(keys_.AddFile(path_), "No such file");
  refused(Read(""), "holds no key");
  refused(Read("\n  \r\n# only remarks\n"), "holds no key");
  refused(Read("good\nsec\x01ret\n"), "line 2");
  refused(Read(std::string("good\n\0\0\n", 8)), "line 2");
  refused(Read("good\n" + std::string(kApiKeyBytesMax + 1, 'k')), "line 2");
  for (const char* weight : {"0", "1001", "-1", "1.5", "", "x", "99999999999"}) {
    refused(Read(std::string("good\nk weight=") + weight + "\n"),
            "line 2: the weight of a key is to be an integer from 1 to 1000");
  }
  refused(Read(std::string(kApiKeyFileBytesMax + 1, '\n')), "more than 1048576 bytes");
  std::filesystem::remove(path_);
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  refused(keys_.AddFile(path_), "not a regular file");
  std::filesystem::remove(path_);
  std::filesystem::create_directory(path_);
  refused(keys_.AddFile(path_), "not a regular file");
}

TEST(ApiKeys, WhereTheKeyIsLookedFor) {
  const auto key_of = [](const char* name, const char* value) {
    http::HttpRequest request;
    request.headers = {{name, value}};
    return std::string(ApiKeys::KeyOf(request));
  };
  EXPECT_EQ(key_of("authorization", "Bearer k"), "k");
  EXPECT_EQ(key_of("authorization", "bearer  k"), "k");
  EXPECT_EQ(key_of("authorization", "Basic k"), "");
  EXPECT_EQ(key_of("authorization", "Bearer "), "");
  EXPECT_EQ(key_of("x-api-key", "k"), "k");
  EXPECT_EQ(key_of("api-key", "k"), "k");
}

}  // namespace
}  // namespace penstock::frontend

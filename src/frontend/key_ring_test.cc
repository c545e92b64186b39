#include "frontend/key_ring.h"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/temp_folder_test_util.h"

namespace penstock::frontend {
namespace {

class KeyRingTest : public testing::Test {
 protected:
  void Write(const std::string& text) { std::ofstream(path_) << text; }
  const TempFolder folder_;
  const std::string path_ = folder_ / "keys";
};

TEST_F(KeyRingTest, RightsOfAKey) {
  http::ServerOptions options;
  options.api_keys = {"user", "both"};
  options.bulk_api_keys = {"bulk"};
  options.admin_api_keys = {"admin", "both"};
  const auto ring = KeyRing::Make(options);
  ASSERT_TRUE(ring.ok());
  const auto sets = (*ring)->Get();
  EXPECT_TRUE(sets->Required());
  const auto rights = [&](const char* key) {
    const KeyRights of = sets->RightsOf(key);
    return std::string(of.known ? "k" : "") + (of.bulk ? "b" : "") + (of.admin ? "a" : "");
  };
  const auto number = [&](const char* key) { return sets->RightsOf(key).number; };
  EXPECT_EQ(number("user"), 1);
  EXPECT_EQ(number("both"), 2);
  EXPECT_EQ(number("bulk"), 3);
  EXPECT_EQ(number("admin"), 4);
  EXPECT_EQ(number("other"), 0);
  EXPECT_EQ(rights("user"), "k");
  EXPECT_EQ(rights("bulk"), "kb");
  EXPECT_EQ(rights("admin"), "ka");
  EXPECT_EQ(rights("both"), "ka");
  EXPECT_EQ(rights("other"), "");
  EXPECT_EQ(rights(""), "");
}

TEST_F(KeyRingTest, WeightsAreThoseOfTheFiles) {
  Write("light\nheavy weight=5\nadmin weight=9\n");
  http::ServerOptions options;
  options.api_keys = {"flag"};
  options.bulk_api_key_files = {path_};
  options.admin_api_keys = {"admin", "other"};
  const auto ring = KeyRing::Make(options);
  ASSERT_TRUE(ring.ok());
  const auto weight = [&](const char* key) { return (*ring)->Get()->RightsOf(key).weight; };
  EXPECT_EQ(weight("flag"), 1u);
  EXPECT_EQ(weight("light"), 1u);
  EXPECT_EQ(weight("heavy"), 5u);
  EXPECT_EQ(weight("admin"), 9u);
  EXPECT_EQ(weight("other"), 1u);
  EXPECT_EQ(weight("unknown"), 1u);
  Write("heavy weight=2\n");
  ASSERT_TRUE((*ring)->Reload().ok());
  EXPECT_EQ(weight("heavy"), 2u);
}

TEST_F(KeyRingTest, BadKeysAndFilesAreNamed) {
  const auto field_of = [](auto change) {
    http::ServerOptions options;
    change(&options);
    return KeyRing::Make(options).status().field();
  };
  EXPECT_EQ(field_of([](http::ServerOptions* o) { o->api_keys = {"a", ""}; }), "api_keys");
  EXPECT_EQ(field_of([](http::ServerOptions* o) { o->bulk_api_keys = {"a\n"}; }), "bulk_api_keys");
  EXPECT_EQ(field_of([](http::ServerOptions* o) { o->admin_api_keys = {" "}; }), "admin_api_keys");
  EXPECT_EQ(field_of([](http::ServerOptions* o) { o->api_key_files = {"/none"}; }),
            "api_key_files");
  EXPECT_EQ(field_of([](http::ServerOptions* o) { o->bulk_api_key_files = {"/none"}; }),
            "bulk_api_key_files");
  EXPECT_EQ(field_of([](http::ServerOptions* o) { o->admin_api_key_files = {"/none"}; }),
            "admin_api_key_files");
}

TEST_F(KeyRingTest, AReloadThatFailsKeepsTheKeys) {
  Write("old\n");
  http::ServerOptions options;
  options.api_keys = {"flag"};
  options.api_key_files = {path_};
  auto ring = KeyRing::Make(options);
  ASSERT_TRUE(ring.ok());
  const auto allows = [&](const char* key) { return (*ring)->Get()->RightsOf(key).known; };
  EXPECT_TRUE(allows("old") && allows("flag") && !allows("new"));
  for (const char* bad : {"", "# nothing\n", "new\nb\x01d\n"}) {
    Write(bad);
    EXPECT_FALSE((*ring)->Reload().ok());
    EXPECT_TRUE(allows("old") && allows("flag") && !allows("new"));
  }
  std::filesystem::remove(path_);
  EXPECT_FALSE((*ring)->Reload().ok());
  EXPECT_TRUE(allows("old"));
  Write("new\n");
  EXPECT_TRUE((*ring)->Reload().ok());
  EXPECT_TRUE(!allows("old") && allows("flag") && allows("new"));
}

TEST_F(KeyRingTest, ReadersDoNotMindAReload) {
  Write("stays\n");
  http::ServerOptions options;
  options.api_key_files = {path_};
  auto ring = KeyRing::Make(options);
  ASSERT_TRUE(ring.ok());
  std::atomic<bool> stop{false};
  std::atomic<int> missed{0};
  std::vector<std::thread> readers;
  for (int i = 0; i < 3; ++i) {
    readers.emplace_back([&] {
      while (!stop) missed += !(*ring)->Get()->RightsOf("stays").known;
    });
  }
  for (int i = 0; i < 200; ++i) EXPECT_TRUE((*ring)->Reload().ok());
  stop = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(missed, 0);
}

}  // namespace
}  // namespace penstock::frontend

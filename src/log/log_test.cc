#include "log/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock {
namespace {

TEST(Log, LevelsByName) {
  EXPECT_EQ(ParseLogLevel("warn").value(), LogLevel::kWarn);
  const auto bad = ParseLogLevel("loud");
  ASSERT_FALSE(bad.ok());
  EXPECT_EQ(bad.status().field(), "log-level");
}

TEST(Log, JsonLinesAreJsonWhateverTheMessage) {
  InitLog({LogLevel::kInfo, true});
  testing::internal::CaptureStderr();
  LogInfo("a \"quoted\"\nline {}", 7);
  FlushLog();
  const std::string line = testing::internal::GetCapturedStderr();
  EXPECT_THAT(line, testing::HasSubstr(R"("level":"info","message":"a \"quoted\"\nline 7"})"));
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
  InitLog({});
}

TEST(Log, FieldsStandBesideTimeAndLevel) {
  InitLog({LogLevel::kInfo, true});
  EXPECT_TRUE(LogIsJson());
  testing::internal::CaptureStderr();
  LogJsonFields(LogLevel::kWarn, R"("message":"request","status":200)");
  LogJsonFields(LogLevel::kDebug, R"("message":"below the level")");
  FlushLog();
  const std::string line = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(line.starts_with(R"({"time":")")) << line;
  EXPECT_TRUE(line.ends_with("\"level\":\"warning\",\"message\":\"request\",\"status\":200}\n"))
      << line;
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
  InitLog({});
  EXPECT_FALSE(LogIsJson());
}

TEST(Log, AnAccessLogIsApartFromTheLevel) {
  for (const bool json : {false, true}) {
    InitLog({LogLevel::kOff, json});
    testing::internal::CaptureStderr();
    LogError("not this");
    if (json) {
      LogAccessFields(LogLevel::kInfo, R"("message":"request","status":200)");
    } else {
      LogAccess(LogLevel::kInfo, "GET /");
    }
    FlushLog();
    const std::string line = testing::internal::GetCapturedStderr();
    EXPECT_TRUE(line.ends_with(json ? "\"level\":\"info\",\"message\":\"request\",\"status\":200}\n"
                                    : " info GET /\n"))
        << line;
    EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
  }
  InitLog({});
}

TEST(Log, ALineIsOneLineWhateverTheMessage) {
  for (const bool json : {false, true}) {
    InitLog({LogLevel::kInfo, json});
    testing::internal::CaptureStderr();
    LogInfo("{}", "a\nb\x1b[2J \xc2\x9b \xe2\x80\xae \xff" + std::string(200'000, 'x'));
    FlushLog();
    const std::string line = testing::internal::GetCapturedStderr();
    EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
    EXPECT_TRUE(std::all_of(line.begin(), line.end() - 1,
                            [](unsigned char c) { return c >= 0x20 && c < 0x7f; }));
    EXPECT_LT(line.size(), 5000u);
    EXPECT_THAT(line, testing::HasSubstr("u{202e}"));
    EXPECT_THAT(line, testing::HasSubstr("more bytes)"));
  }
  InitLog({});
}

TEST(Log, BelowTheLevelNothingIsWritten) {
  InitLog({LogLevel::kError, false});
  testing::internal::CaptureStderr();
  LogWarn("not shown");
  LogError("shown");
  FlushLog();
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_THAT(text, testing::HasSubstr(" error shown\n"));
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("not shown")));
  InitLog({});
}

}  // namespace
}  // namespace penstock

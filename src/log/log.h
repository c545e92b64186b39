// The program's log: one line an event, on stderr, as text or as JSON. Any thread.
//
// Lines never hold a client's input (texts, documents, keys): logs are kept longer and read by more
// people than requests. Other foreign text in a line (a target, another server's error) is made
// printable and cut to kPrintableBytesMax (base/printable.h).
#pragma once

#include <fmt/core.h>

#include <string>
#include <string_view>

#include "base/status.h"

namespace penstock {

enum class LogLevel { kDebug, kInfo, kWarn, kError, kOff };

struct LogOptions {
  LogLevel level = LogLevel::kInfo;
  bool json = false;
};

// "debug", "info", "warn", "error", "off".
Expected<LogLevel> ParseLogLevel(std::string_view name);

// Until the first call: text, kInfo. May be called again.
void InitLog(const LogOptions& options);
bool LogEnabled(LogLevel level);
void LogMessage(LogLevel level, std::string_view message);
// Whether lines are JSON.
bool LogIsJson();
// Logs an event with fields, where lines are JSON. `fields`: the inside of an object, such as
// R"("message":"request","status":200)"; the caller makes foreign text in it printable. They come
// after "time" and "level".
void LogJsonFields(LogLevel level, std::string_view fields);
// Logs a line of the access log whatever the level is, as a flag of its own asks for it. `fields`
// as of LogJsonFields.
void LogAccess(LogLevel level, std::string_view message);
void LogAccessFields(LogLevel level, std::string_view fields);
void FlushLog();
// Sets a function called before each line, by the thread that logs; null = none. For text that
// stands on the terminal without an end of line.
void SetLogPrelude(void (*prelude)());

template <typename... Args>
void LogDebug(fmt::format_string<Args...> format, Args&&... args) {
  if (LogEnabled(LogLevel::kDebug)) {
    LogMessage(LogLevel::kDebug, fmt::format(format, std::forward<Args>(args)...));
  }
}
template <typename... Args>
void LogInfo(fmt::format_string<Args...> format, Args&&... args) {
  if (LogEnabled(LogLevel::kInfo)) {
    LogMessage(LogLevel::kInfo, fmt::format(format, std::forward<Args>(args)...));
  }
}
template <typename... Args>
void LogWarn(fmt::format_string<Args...> format, Args&&... args) {
  if (LogEnabled(LogLevel::kWarn)) {
    LogMessage(LogLevel::kWarn, fmt::format(format, std::forward<Args>(args)...));
  }
}
template <typename... Args>
void LogError(fmt::format_string<Args...> format, Args&&... args) {
  if (LogEnabled(LogLevel::kError)) {
    LogMessage(LogLevel::kError, fmt::format(format, std::forward<Args>(args)...));
  }
}

}  // namespace penstock

#include "common/log.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <array>
#include <memory>
#include <mutex>

#include "common/json_writer.h"

namespace penstock {
namespace {

constexpr std::array<std::string_view, 5> kLevelNames = {"debug", "info", "warn", "error", "off"};

spdlog::level::level_enum SpdlogLevel(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarn:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
    case LogLevel::kOff:
      break;
  }
  return spdlog::level::off;
}

// The message as a JSON string: %v would leave quotes and line feeds as they are.
class JsonMessageFlag : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&,
              spdlog::memory_buf_t& out) override {
    std::string text;
    AppendJsonString({message.payload.data(), message.payload.size()}, &text);
    out.append(text.data(), text.data() + text.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<JsonMessageFlag>();
  }
};

spdlog::logger& Logger() {
  static auto* const logger = [] {
    auto* made = new spdlog::logger("penstock", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %l %v");
    made->flush_on(spdlog::level::warn);
    return made;
  }();
  return *logger;
}

}  // namespace

Expected<LogLevel> ParseLogLevel(std::string_view name) {
  for (size_t i = 0; i < kLevelNames.size(); ++i) {
    if (name == kLevelNames[i]) return static_cast<LogLevel>(i);
  }
  return Status::InvalidArgument(
      fmt::format("unknown log level '{}'; known: debug, info, warn, error, off", name),
      "log-level");
}

void InitLog(const LogOptions& options) {
  spdlog::logger& logger = Logger();
  if (options.json) {
    auto formatter = std::make_unique<spdlog::pattern_formatter>();
    formatter->add_flag<JsonMessageFlag>('*').set_pattern(
        R"({"time":"%Y-%m-%dT%H:%M:%S.%e%z","level":"%l","message":%*})");
    logger.set_formatter(std::move(formatter));
  } else {
    logger.set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %l %v");
  }
  logger.set_level(SpdlogLevel(options.level));
}

bool LogEnabled(LogLevel level) { return Logger().should_log(SpdlogLevel(level)); }

void LogMessage(LogLevel level, std::string_view message) {
  Logger().log(SpdlogLevel(level), spdlog::string_view_t(message.data(), message.size()));
}

void FlushLog() { Logger().flush(); }

}  // namespace penstock

#include "common/log.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <array>
#include <atomic>
#include <memory>
#include <mutex>

#include "common/json_writer.h"
#include "common/printable.h"

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

// The line number that marks a message as fields of a JSON object. Penstock logs no source lines.
constexpr int kFieldsLine = 1;

// %* of a pattern: the message, which may quote foreign text (%v would leave that as it is), as
// text on one line, or as the last fields of a JSON object.
class MessageFlag : public spdlog::custom_flag_formatter {
 public:
  explicit MessageFlag(bool json) : json_(json) {}
  void format(const spdlog::details::log_msg& message, const std::tm&,
              spdlog::memory_buf_t& out) override {
    const std::string_view payload(message.payload.data(), message.payload.size());
    std::string text;
    if (json_ && message.source.line == kFieldsLine) {
      text = payload;
    } else if (json_) {
      text = "\"message\":";
      AppendJsonString(Printable(payload, kPrintableBytesMax, AsciiControls::kKept), &text);
    } else {
      text = Printable(payload);
    }
    out.append(text.data(), text.data() + text.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<MessageFlag>(json_);
  }

 private:
  const bool json_;
};

std::unique_ptr<spdlog::formatter> LineFormatter(bool json) {
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  formatter->add_flag<MessageFlag>('*', json).set_pattern(
      json ? R"({"time":"%Y-%m-%dT%H:%M:%S.%e%z","level":"%l",%*})"
           : "%Y-%m-%dT%H:%M:%S.%e%z %l %*");
  return formatter;
}

spdlog::logger& Logger() {
  static auto* const logger = [] {
    auto* made = new spdlog::logger("penstock", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_formatter(LineFormatter(false));
    made->flush_on(spdlog::level::warn);
    return made;
  }();
  return *logger;
}

// To the same place and in the same form, but with a level of its own.
spdlog::logger& AccessLogger() {
  static auto* const logger = new spdlog::logger("penstock", Logger().sinks().front());
  return *logger;
}

std::atomic<bool> lines_are_json{false};
std::atomic<void (*)()> log_prelude{nullptr};

void Log(LogLevel level, spdlog::source_loc source, std::string_view text) {
  spdlog::logger& logger = Logger();
  if (!logger.should_log(SpdlogLevel(level))) return;
  if (auto* const prelude = log_prelude.load()) prelude();
  logger.log(source, SpdlogLevel(level), spdlog::string_view_t(text.data(), text.size()));
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
  logger.set_formatter(LineFormatter(options.json));
  lines_are_json = options.json;
  logger.set_level(SpdlogLevel(options.level));
}

bool LogEnabled(LogLevel level) { return Logger().should_log(SpdlogLevel(level)); }

void LogMessage(LogLevel level, std::string_view message) { Log(level, {}, message); }

bool LogIsJson() { return lines_are_json; }

void LogJsonFields(LogLevel level, std::string_view fields) {
  Log(level, {"", kFieldsLine, ""}, fields);
}

void LogAccess(LogLevel level, std::string_view message) {
  AccessLogger().log(SpdlogLevel(level), spdlog::string_view_t(message.data(), message.size()));
}

void LogAccessFields(LogLevel level, std::string_view fields) {
  AccessLogger().log(spdlog::source_loc("", kFieldsLine, ""), SpdlogLevel(level),
                     spdlog::string_view_t(fields.data(), fields.size()));
}

void FlushLog() { Logger().flush(); }

void SetLogPrelude(void (*prelude)()) { log_prelude = prelude; }

}  // namespace penstock

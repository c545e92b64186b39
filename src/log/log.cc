#include "log/log.h"

// Its headers are all of spdlog that is used.
#undef SPDLOG_COMPILED_LIB
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <utility>

#include "base/printable.h"
#include "json/json_writer.h"
#include "log/log_writer.h"

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

std::atomic<void (*)()> log_prelude{nullptr};
std::atomic<LogWriter*> log_writer{nullptr};  // null: the thread that logs writes

void CallPrelude() {
  if (auto* const prelude = log_prelude.load()) prelude();
}

// Stderr, or the queue of the thread that writes to it.
class StderrSink : public spdlog::sinks::base_sink<std::mutex> {
 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    line_.clear();
    formatter_->format(message, line_);
    const std::string_view line(line_.data(), line_.size());
    if (LogWriter* const writer = log_writer.load()) return writer->Write(line);
    CallPrelude();
    WriteWhole(STDERR_FILENO, line);
  }
  void flush_() override {}

 private:
  spdlog::memory_buf_t line_;
};

spdlog::logger& Logger() {
  static auto* const logger = [] {
    auto* made = new spdlog::logger("penstock", std::make_shared<StderrSink>());
    made->set_formatter(LineFormatter(false));
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
constexpr std::chrono::milliseconds kFlushMax{1000};

void Log(LogLevel level, spdlog::source_loc source, std::string_view text) {
  spdlog::logger& logger = Logger();
  if (!logger.should_log(SpdlogLevel(level))) return;
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

void StartLogWriter() {
  LogWriter::Options options;
  options.fd = STDERR_FILENO;
  options.before_write = CallPrelude;
  options.on_dropped = [](uint64_t lines) {
    LogWarn("{} lines of the log were dropped: stderr did not take them in time", lines);
  };
  log_writer = LogWriter::Start(std::move(options));
}

void FlushLog() {
  if (LogWriter* const writer = log_writer.load()) writer->Flush(kFlushMax);
}

uint64_t LogDropped() {
  LogWriter* const writer = log_writer.load();
  return writer == nullptr ? 0 : writer->dropped();
}

void SetLogPrelude(void (*prelude)()) { log_prelude = prelude; }

}  // namespace penstock

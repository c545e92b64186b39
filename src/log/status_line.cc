#include "log/status_line.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string_view>
#include <utility>

#include "log/log.h"

namespace penstock {
namespace {

// Guards what stderr shows, whichever StatusLine wrote it.
std::mutex mutex;
bool line_is_open = false;  // the cursor stands behind a line of progress; guarded by mutex

// By the terminal's own report, else COLUMNS, else 80.
size_t TerminalColumns() {
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  const char* const variable = std::getenv("COLUMNS");
  const int64_t columns = variable == nullptr ? 0 : std::atoll(variable);
  return columns > 0 ? static_cast<size_t>(columns) : 80;
}

}  // namespace

std::string DurationText(double seconds) {
  const auto whole = static_cast<int64_t>(std::ceil(std::clamp(seconds, 0.0, 1e9)));
  if (whole < 120) return fmt::format("{} s", whole);
  const int64_t minutes = (whole + 30) / 60;
  if (minutes < 120) return fmt::format("{} min", minutes);
  return fmt::format("{} h {} min", minutes / 60, minutes % 60);
}

StatusLine::Place StatusLine::PlaceFor(bool quiet, bool in_log) {
  if (quiet) return Place::kNowhere;
  const char* const term = std::getenv("TERM");
  const bool dumb = term != nullptr && std::string_view(term) == "dumb";
  if (isatty(STDERR_FILENO) != 0 && !dumb) return Place::kTerminal;
  return in_log ? Place::kLog : Place::kNowhere;
}

StatusLine::StatusLine(Place place, std::function<TimePoint()> now)
    : place_(place), now_(std::move(now)), last_(now_()) {
  SetLogPrelude(MakeRoom);
}

StatusLine::~StatusLine() {
  if (on_terminal()) MakeRoom();
}

size_t StatusLine::columns() const {
  // The last column stays free: some terminals wrap when it is written.
  return on_terminal() ? TerminalColumns() - 1 : 1000;
}

bool StatusLine::IsDue() const {
  return shown() && now_() - last_ >= (on_terminal() ? kOnTerminal : kInLog);
}

void StatusLine::Show(const std::string& text) {
  if (!shown()) return;
  const std::lock_guard lock(mutex);
  last_ = now_();
  if (on_terminal()) {
    std::fprintf(stderr, "\r\033[K%s", text.c_str());
    line_is_open = true;
  } else {
    std::fprintf(stderr, "%s\n", text.c_str());
  }
}

void StatusLine::End(const std::string& text) {
  if (!shown()) return;
  const std::lock_guard lock(mutex);
  std::fprintf(stderr, "%s%s\n", std::exchange(line_is_open, false) ? "\r\033[K" : "",
               text.c_str());
}

void StatusLine::Clear() {
  const std::lock_guard lock(mutex);
  if (on_terminal() && std::exchange(line_is_open, false)) std::fputs("\r\033[K", stderr);
}

void StatusLine::MakeRoom() {
  const std::lock_guard lock(mutex);
  if (std::exchange(line_is_open, false)) std::fputc('\n', stderr);
}

}  // namespace penstock

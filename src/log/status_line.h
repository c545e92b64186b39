// StatusLine: the progress of a command, on stderr. On a terminal it is one line that is written
// over a few times a second and cut to the terminal's width; in a log whole lines at intervals, for
// work that asks for it.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>

namespace penstock {

class StatusLine {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  enum class Place { kNowhere, kTerminal, kLog };
  static constexpr std::chrono::milliseconds kOnTerminal{200};
  static constexpr std::chrono::milliseconds kInLog{5000};

  // Where progress goes: nowhere where `quiet`; to a terminal that can write over a line (TERM is
  // not "dumb"); else into the log where `in_log`.
  static Place PlaceFor(bool quiet, bool in_log);

  // `now`: of a fake clock in tests.
  explicit StatusLine(Place place, std::function<TimePoint()> now = std::chrono::steady_clock::now);
  ~StatusLine();
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;

  bool shown() const { return place_ != Place::kNowhere; }
  bool on_terminal() const { return place_ == Place::kTerminal; }
  TimePoint Now() const { return now_(); }
  // How many columns a text may take.
  size_t columns() const;

  // Whether it is time for another line: since the last one, or Restart.
  bool IsDue() const;
  void Restart() { last_ = now_(); }
  // The line from now on.
  void Show(const std::string& text);
  // A last line, in the place of what a terminal shows. Also in a log.
  void End(const std::string& text);
  // Takes the line off a terminal.
  void Clear();

  // Ends the line that a terminal shows, so that a message can be printed. Any thread. The log does
  // so by itself.
  static void MakeRoom();

 private:
  const Place place_;
  const std::function<TimePoint()> now_;
  TimePoint last_;
};

// "59 s", "12 min", "3 h 20 min"
std::string DurationText(double seconds);

}  // namespace penstock

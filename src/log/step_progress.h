// StepProgress: work in steps that cannot say how far they are, such as the loading of a model or
// the rounds of a benchmark. On a terminal a line tells the step, its time so far and, where it can
// be told, the time left; a thread keeps it going. In a log there is a line for each step.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "log/status_line.h"

namespace penstock {

// The content of a line.
struct StepFacts {
  std::string name;
  int step = 1;  // from 1
  int steps = 1;
  double step_s = 0;    // how long a step takes; 0 = not known
  double before_s = 0;  // that the steps before took
  double so_far_s = 0;  // of this step
};
// "2 of 5: batch=8, 12 s, 3 min left", as much of it as fits `columns`. Without `step_s` the time
// left follows from the steps before.
std::string StepText(const StepFacts& facts, size_t columns);

class StepProgress {
 public:
  struct Options {
    int steps = 1;
    double step_s = 0;
    bool quiet = false;
    bool in_log = true;  // a line for each step also if stderr is not a terminal
  };
  explicit StepProgress(Options options);
  // For one step, which a terminal alone shows.
  StepProgress(const std::string& name, bool quiet);
  ~StepProgress();  // clears
  StepProgress(const StepProgress&) = delete;
  StepProgress& operator=(const StepProgress&) = delete;

  // The next step begins.
  void Next(const std::string& name);
  // Takes the line off a terminal, before other text is printed, until the next step.
  void Clear();

 private:
  void Redraw();
  void Show();  // mutex_ is held

  StatusLine line_;
  std::mutex mutex_;
  std::condition_variable stopped_;
  bool stop_ = false;              // guarded by mutex_
  bool cleared_ = true;            // guarded by mutex_
  StepFacts facts_;                // guarded by mutex_
  StatusLine::TimePoint begin_{};  // of all steps; guarded by mutex_
  StatusLine::TimePoint begun_{};  // of this step; guarded by mutex_
  std::thread redraw_;             // of a terminal; from the first step on
};

}  // namespace penstock

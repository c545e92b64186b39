#include "log/step_progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace penstock {
namespace {

double Seconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

std::string Title(const StepFacts& facts) {
  return facts.steps > 1 ? fmt::format("{} of {}: {}", facts.step, facts.steps, facts.name)
                         : facts.name;
}

// Less than 0: not known.
double SecondsLeft(const StepFacts& facts) {
  const double step_s = facts.step_s > 0 ? facts.step_s
                        : facts.step > 1 ? facts.before_s / (facts.step - 1)
                                         : 0;
  if (step_s <= 0) return -1;
  return step_s * (facts.steps - facts.step) + std::max(step_s - facts.so_far_s, 0.0);
}

}  // namespace

std::string StepText(const StepFacts& facts, size_t columns) {
  std::string text = Title(facts).substr(0, columns);
  std::string more = facts.so_far_s >= 1 ? ", " + DurationText(std::floor(facts.so_far_s)) : "";
  if (text.size() + more.size() <= columns) text += more;
  const double left = SecondsLeft(facts);
  more = left >= 0 ? ", " + DurationText(left) + " left" : "";
  return text.size() + more.size() <= columns ? text + more : text;
}

StepProgress::StepProgress(Options options)
    : line_(StatusLine::PlaceFor(options.quiet, options.in_log)) {
  facts_.step = 0;
  facts_.steps = options.steps;
  facts_.step_s = options.step_s;
  begin_ = line_.Now();
}

StepProgress::StepProgress(const std::string& name, bool quiet)
    : StepProgress(Options{.quiet = quiet, .in_log = false}) {
  Next(name);
}

StepProgress::~StepProgress() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  stopped_.notify_all();
  if (redraw_.joinable()) redraw_.join();
  line_.Clear();
}

void StepProgress::Clear() {
  const std::lock_guard lock(mutex_);
  cleared_ = true;
  line_.Clear();
}

void StepProgress::Next(const std::string& name) {
  const std::lock_guard lock(mutex_);
  begun_ = line_.Now();
  facts_.name = name;
  ++facts_.step;
  cleared_ = false;
  facts_.before_s = Seconds(begun_ - begin_);
  Show();
  if (line_.on_terminal() && !redraw_.joinable()) redraw_ = std::thread([this] { Redraw(); });
}

void StepProgress::Show() {
  facts_.so_far_s = Seconds(line_.Now() - begun_);
  line_.Show(line_.on_terminal() ? StepText(facts_, line_.columns()) : Title(facts_) + " ...");
}

void StepProgress::Redraw() {
  std::unique_lock lock(mutex_);
  while (!stopped_.wait_for(lock, StatusLine::kOnTerminal, [this] { return stop_; })) {
    if (!cleared_) Show();
  }
}

}  // namespace penstock

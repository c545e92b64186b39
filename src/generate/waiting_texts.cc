#include "generate/waiting_texts.h"

#include <algorithm>
#include <utility>

namespace penstock::generate {

void WaitingTexts::Add(const std::shared_ptr<TakenJob>& job) {
  job->place = Join(*job);
  try {
    lines_[job->place.line].emplace(job->number, job);
  } catch (...) {
    share_.Leave(job->place.line);
    throw;
  }
  job->in_line = true;
  ++jobs_;
}

void WaitingTexts::Add(std::unique_ptr<DecodeSequence> preempted) noexcept {
  preempted->place = Join(*preempted->owner);
  InsertByArrival(std::move(preempted), &preempted_);
}

auto WaitingTexts::next() const -> Next {
  const uint32_t line = share_.Next();
  if (line == sched::FairShare::kNone) return {};
  for (const auto& one : preempted_) {
    if (one->place.line == line) return {one->owner.get(), one.get()};
  }
  return {lines_[line].begin()->second.get(), nullptr};
}

void WaitingTexts::Begin(const Next& next) {
  TakenJob* const job = next.job;
  share_.Serve(job->place.line, 0);  // it is charged as it runs
  if (++job->texts_begun < job->texts && job->prompt_run) return;
  const uint32_t line = job->place.line;
  job->in_line = false;
  --jobs_;
  lines_[line].erase(job->number);
  share_.Leave(line);
}

std::unique_ptr<DecodeSequence> WaitingTexts::Take(const Next& next) {
  const auto at = std::find_if(preempted_.begin(), preempted_.end(),
                               [&](const auto& one) { return one.get() == next.preempted; });
  auto taken = std::move(*at);
  preempted_.erase(at);
  share_.Serve(taken->place.line, 0);
  share_.Leave(taken->place.line);
  return taken;
}

size_t WaitingTexts::Remove(TakenJob* job) {
  const size_t preempted = std::erase_if(preempted_, [&](const auto& sequence) {
    if (sequence->owner.get() != job) return false;
    share_.Leave(sequence->place.line);
    return true;
  });
  if (!std::exchange(job->in_line, false)) return preempted;
  --jobs_;
  lines_[job->place.line].erase(job->number);
  share_.Leave(job->place.line);
  return preempted;
}

std::vector<std::shared_ptr<TakenJob>> WaitingTexts::FindDead(size_t count, Clock::time_point now) {
  std::vector<std::shared_ptr<TakenJob>> dead;
  for (const auto& one : preempted_) {
    if (!one->owner->job->context.CheckWanted(now).ok()) dead.push_back(one->owner);
  }
  count = std::min(count, jobs_);
  for (size_t lines = 0; count > 0 && lines <= lines_.size(); ++lines) {
    const Line& line = lines_[seen_line_];
    auto at = line.upper_bound(seen_number_);
    for (; at != line.end() && count > 0; ++at, --count) {
      seen_number_ = at->first;
      if (!at->second->job->context.CheckWanted(now).ok()) dead.push_back(at->second);
    }
    if (at != line.end()) break;
    seen_line_ = (seen_line_ + 1) % lines_.size();
    seen_number_ = 0;
  }
  return dead;
}

}  // namespace penstock::generate

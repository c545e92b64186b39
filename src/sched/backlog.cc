#include "sched/backlog.h"

#include <new>

#include "sched/job_answers.h"

namespace penstock::sched {

bool Backlog::TryReserve(EncodeBatch* batch, size_t tokens, size_t rows) {
  try {
    batch->Reserve(tokens, rows);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

namespace {

// Assumed seconds a token if the model was not measured: only ratios count.
constexpr double kTokenS = 1e-5;

double RowSeconds(const BatchTimes& times, uint32_t length) {
  if (!times.known()) return kTokenS * length;
  return times.token_s * length + times.work_s * static_cast<double>(length) * length;
}

// A batch being planned.
class Plan {
 public:
  Plan(const EncodeBatch& batch, const BatchLimits& limits)
      : limits_(limits), rows_(batch.rows()), tokens_(batch.tokens()), work_(batch.work()) {}

  bool empty() const { return rows_ == 0; }
  bool full() const { return rows_ >= limits_.rows || tokens_ >= limits_.tokens; }
  bool Fits(uint32_t length) const {
    const uint64_t work = work_ + AttentionWork(static_cast<int32_t>(length));
    return rows_ < limits_.rows && tokens_ + length <= limits_.tokens && work <= limits_.work &&
           limits_.SecondsFit(tokens_ + length, work);
  }
  void Add(uint32_t length) {
    ++rows_;
    tokens_ += length;
    work_ += AttentionWork(static_cast<int32_t>(length));
  }

 private:
  const BatchLimits& limits_;
  size_t rows_;
  size_t tokens_;
  uint64_t work_;
};

}  // namespace

EncodeJob* Backlog::ChooseRows(EncodeBatch* batch, const BatchLimits& limits,
                               Clock::time_point now) {
  Plan plan(*batch, limits);
  // The mutex is not held for longer than a batch of single rows would take.
  for (size_t looks_in_vain = limits.rows; !plan.full();) {
    EncodeJob* const job = First();
    if (job == nullptr) break;
    const EncodeJob::Progress& progress = job->progress;
    const auto length = static_cast<uint32_t>(job->lengths[progress.next_row + progress.take_rows]);
    if (JobAnswers::IsDead(*job, now) || (!plan.empty() && !plan.Fits(length))) {
      if (looks_in_vain-- == 0) break;
      SetAside(job);
      continue;
    }
    if (plan.empty() && !TryReserve(batch, length, limits.rows)) {
      TakeOut(job);
      return job;
    }
    plan.Add(length);
    job->progress.take_tokens += length;
    Choose(job, 1, RowSeconds(limits.times, length));
  }
  return nullptr;
}

}  // namespace penstock::sched

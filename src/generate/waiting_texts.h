// WaitingTexts: the texts of one priority class that wait to begin, or to go on after they gave
// their blocks back.
//
// Jobs wait, not texts: a text has its memory when it begins. Clients have even shares of the
// processor's seconds (sched/fair_share.h); the texts of one client go in the order of arrival,
// those that began before first. The samples of a prompt after the first wait apart until that has
// run the prompt (TakenJob::prompt_run), so that they take nobody's place.
//
// What a call costs does not grow with the number that wait, but by its logarithm. The step
// thread's.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "generate/decode_sequence.h"
#include "sched/fair_share.h"

namespace penstock::generate {

class WaitingTexts {
 public:
  // The text that is next: one that gave its blocks back, else the next sample of a job.
  struct Next {
    TakenJob* job = nullptr;  // null: none waits
    DecodeSequence* preempted = nullptr;
    int32_t sample() const { return preempted != nullptr ? preempted->sample : job->texts_begun; }
  };

  WaitingTexts() : lines_(share_.clients_max()) {}

  // A job that came, or whose further samples may begin.
  void Add(const std::shared_ptr<TakenJob>& job);
  // Does not allocate, after Reserve.
  void Add(std::unique_ptr<DecodeSequence> preempted) noexcept;
  void Reserve(size_t preempted) { preempted_.reserve(preempted); }

  Next next() const;
  // The text of `next` begins. The caller adds the job again once further samples may begin.
  void Begin(const Next& next);
  std::unique_ptr<DecodeSequence> Take(const Next& next);
  // Takes the job's texts out; the number of those that had given their blocks back.
  size_t Remove(TakenJob* job);

  // A text of the job had so many seconds of the processor.
  void Charge(const TakenJob& job, double seconds) { share_.Correct(job.place, seconds); }
  // The seconds that the job's client has had, over its weight; to compare clients by.
  double ShareOf(const TakenJob& job) const { return share_.Tag(job.place); }

  bool empty() const { return jobs_ == 0 && preempted_.empty(); }
  size_t jobs() const { return jobs_; }
  size_t preempted() const { return preempted_.size(); }
  // Those nobody wants any more, of so many jobs, from where the last call ended.
  std::vector<std::shared_ptr<TakenJob>> FindDead(size_t count, Clock::time_point now);

 private:
  using Line = std::map<uint64_t, std::shared_ptr<TakenJob>>;  // by number

  sched::FairShare::Place Join(const TakenJob& job) {
    return share_.Join(job.job->context.client, job.job->context.client_weight);
  }

  sched::FairShare share_;
  std::vector<Line> lines_;  // by the share's index
  size_t jobs_ = 0;          // in lines
  // In the order of arrival.
  std::vector<std::unique_ptr<DecodeSequence>> preempted_;
  // Where FindDead goes on.
  size_t seen_line_ = 0;
  uint64_t seen_number_ = 0;
};

}  // namespace penstock::generate

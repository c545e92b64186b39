#include "plan/fleet.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <queue>
#include <random>
#include <utility>
#include <vector>

#include "base/seeded_hash.h"

namespace penstock::plan {
namespace {

constexpr double kShareMax = 1.5;  // of its share, before a conversation goes elsewhere

class Fleet {
 public:
  Fleet(const FleetRun& run, std::vector<std::unique_ptr<Replica>> replicas, Answers* answers)
      : run_(run), replicas_(std::move(replicas)), answers_(answers), random_(run.seed) {}

  void Arrive(const Request& request) {
    const size_t at = Choose(request);
    const bool measured = request.at_s >= answers_->from_s;
    if (measured) ++answers_->requests;
    Replica& replica = *replicas_[at];
    const bool idle = replica.idle();
    if (!replica.Submit(request).ok()) {
      if (measured) ++answers_->refused;
      return;
    }
    ++outstanding_;
    if (idle) Begin(at, request.at_s);
  }

  // Runs batches until that moment.
  void RunUntil(double until_s) {
    while (!ends_.empty() && ends_.top().first <= until_s) {
      const auto [now_s, at] = ends_.top();
      ends_.pop();
      Replica& replica = *replicas_[at];
      outstanding_ -= replica.outstanding();
      replica.EndBatch();
      outstanding_ += replica.outstanding();
      last_s_ = now_s;
      if (!replica.idle()) Begin(at, now_s);
    }
  }

  double last_s() const { return last_s_; }
  const std::vector<std::unique_ptr<Replica>>& replicas() const { return replicas_; }

 private:
  void Begin(size_t at, double now_s) { ends_.emplace(replicas_[at]->Step(now_s), at); }

  size_t Choose(const Request& request) {
    const size_t count = replicas_.size();
    switch (run_.routing) {
      case Routing::kLeast:
        return Least();
      case Routing::kRoundRobin:
        return next_++ % count;
      case Routing::kRandom:
        return random_() % count;
      case Routing::kAffinity:
        break;
    }
    // Rounded up, so that at least one replica has room.
    const double most =
        std::ceil(kShareMax * static_cast<double>(outstanding_ + 1) / static_cast<double>(count));
    size_t at = HashWord(request.session, 0) % count;
    while (static_cast<double>(replicas_[at]->outstanding() + 1) > most) at = (at + 1) % count;
    return at;
  }

  // The next one round, where several are equal.
  size_t Least() {
    const size_t count = replicas_.size();
    size_t best = next_ % count;
    for (size_t i = 0, at = best; i < count; ++i, at = at + 1 == count ? 0 : at + 1) {
      if (replicas_[at]->outstanding() < replicas_[best]->outstanding()) best = at;
      if (replicas_[best]->outstanding() == 0) break;
    }
    next_ = best + 1;
    return best;
  }

  const FleetRun run_;
  const std::vector<std::unique_ptr<Replica>> replicas_;
  Answers* const answers_;
  std::mt19937_64 random_;
  // Ends of batches; of those at one time, the first replica's.
  using End = std::pair<double, size_t>;
  std::priority_queue<End, std::vector<End>, std::greater<>> ends_;
  int64_t outstanding_ = 0;
  size_t next_ = 0;
  double last_s_ = 0;
};

}  // namespace

Expected<FleetOutcome> SimulateFleet(const Costs& costs, const ChatModel* chat,
                                     const Workload& workload, const FleetRun& run) {
  FleetOutcome outcome;
  outcome.answers.from_s = run.warmup_s;
  std::vector<std::unique_ptr<Replica>> replicas;
  for (int i = 0; i < run.replicas; ++i) {
    if (costs.encoder) {
      replicas.push_back(NewEncoderReplica(*costs.encoder, &outcome.answers));
    } else {
      PENSTOCK_ASSIGN_OR_RETURN(auto replica, chat->NewReplica(*costs.decoder, &outcome.answers));
      replicas.push_back(std::move(replica));
    }
  }
  Fleet fleet(run, std::move(replicas), &outcome.answers);
  RequestSource source(workload, run.seed);
  double arrival_s = 0;
  for (Request request;;) {
    source.Next(&request);
    if (request.at_s >= run.seconds) break;
    arrival_s = request.at_s;
    fleet.RunUntil(arrival_s);
    fleet.Arrive(request);
  }
  double busy_s = 0;
  for (const auto& replica : fleet.replicas()) busy_s += replica->busy_s();
  outcome.busy_share = busy_s / run.replicas / std::max(run.seconds, 1e-9);
  fleet.RunUntil(INFINITY);
  outcome.late_s = std::max(0.0, fleet.last_s() - arrival_s);
  for (const auto& replica : fleet.replicas()) {
    outcome.cache_peak = std::max(outcome.cache_peak, replica->cache_peak());
    outcome.preemptions += replica->preemptions();
  }
  return outcome;
}

}  // namespace penstock::plan

// How many replicas a workload needs: the smallest number that keeps an objective, and what it would
// take to miss it.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "plan/fleet.h"

namespace penstock::plan {

// "95 % of the requests are answered within 50 ms."
struct Objective {
  enum class Of { kWhole, kFirstToken, kBetweenTokens };
  Of of = Of::kWhole;
  double share = 0.95;
  double ms = 50;

  // "p95=50ms", "p99.9=2s", "ttft.p95=500ms", "itl.p99=80ms", "e2el.p50=4s". Without a name: of
  // chats the first token, else the answer.
  static Expected<Objective> Parse(const std::string& text, bool chat);
  std::string Text() const;
  const load::LatencyHistogram& In(const Answers& answers) const;
};

struct PlanOptions {
  Workload workload;
  std::vector<Objective> objectives;  // at least one
  Routing routing = Routing::kLeast;
  int seeds = 20;
  double seconds = 0;  // simulated for each seed; 0: chosen by rate and objective
  int replicas_max = 100'000;
};

// The outcome of a number of replicas at a rate, over all seeds.
struct PlanPoint {
  int replicas = 0;
  double rate = 0;
  double kept = 0;  // part of the seeds that kept all objectives; 1 refused in 1,000 keeps none
  Answers answers;  // of all seeds together
  std::vector<double> lowest_ms, highest_ms;  // of each objective, over the seeds
  double busy_share = 0;                      // mean over the seeds
  double cache_peak = 0;                      // the most
  double preemptions = 0;                     // a seed
  bool keeps() const { return kept >= kSeedsKept; }
  static constexpr double kSeedsKept = 0.95;
};

// The part of the highest demand a replica can meet at which an autoscaler is to add one: the rest is what comes
// until it is ready.
inline constexpr double kScaleShare = 0.85;

struct Plan {
  double demand_s = 0;  // of a request, in full batches
  double asked_s = 0;   // of a request, as penstock_demand_seconds_total counts it
  double perfect = 0;   // replicas that are busy all the time
  PlanPoint chosen;
  // The chosen replicas at the lowest rate found that misses the objective; it keeps it where even
  // many times the planned rate does.
  PlanPoint over;
  double headroom = 0;           // the highest rate that was seen to keep it, over the planned one
  std::vector<PlanPoint> fewer;  // with 1, 2, ... replicas lost
};

class Planner {
 public:
  // Fleets of more replicas are simulated as a part of this size, with its part of the requests.
  static constexpr int kSliceReplicas = 64;

  // kInvalidArgument where costs and workload do not go together.
  static Expected<Planner> Make(const Costs& costs, PlanOptions options);

  // `lost`: for how many lost replicas to say what is left. kInvalidArgument, field slo: an objective
  // that no number of replicas keeps.
  Expected<Plan> Find(int lost) const;
  // The plan for a number of replicas that is given.
  Expected<Plan> Of(int replicas, int lost) const;
  Expected<PlanPoint> At(int replicas, double rate) const;
  // Seconds of a replica that a request takes in the mean.
  double DemandSeconds() const { return demand_s_; }
  const ChatModel* chat() const { return chat_.get(); }
  const Costs& costs() const { return costs_; }
  const Workload& workload() const { return options_.workload; }

 private:
  Planner(const Costs& costs, PlanOptions options) : costs_(costs), options_(std::move(options)) {}
  void CountDemand();
  double SecondsOf(double rate) const;

  Costs costs_;
  PlanOptions options_;
  std::unique_ptr<ChatModel> chat_;  // null: an encoder
  double demand_s_ = 0, asked_s_ = 0;
};

}  // namespace penstock::plan

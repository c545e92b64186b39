#include "plan/verify.h"

#include <algorithm>
#include <utility>

namespace penstock::plan {
namespace {

Status CheckCanDrive(const ServedModel& model, const Costs& costs, const Workload& workload) {
  if (model.generates() != costs.decoder.has_value()) {
    return Status::InvalidArgument("the costs are of another kind of model than " + model.name);
  }
  const bool conversations =
      workload.chat && (workload.trace != nullptr || workload.turns > 1 || workload.shared > 0);
  if (workload.bulk_share > 0 || conversations) {
    return Status::InvalidArgument(
        "--verify sends interactive requests that have nothing in common: no --bulk-share, --turns "
        "or --shared-prompt, and no --trace of chats");
  }
  return Status::Ok();
}

Status Predict(const Planner& planner, const Workload& workload, const FleetRun& run,
               VerifiedLoad* verified) {
  Costs costs = planner.costs();
  PENSTOCK_ASSIGN_OR_RETURN(FleetOutcome outcome,
                            SimulateFleet(costs, planner.chat(), workload, run));
  const auto times = [&] {
    return PercentilesOf(costs.decoder ? outcome.answers.first_token : outcome.answers.whole);
  };
  verified->predicted_busy = outcome.busy_share;
  verified->predicted_gap = PercentilesOf(outcome.answers.between_tokens);
  verified->predicted = times();
  for (int i = 0; i < 3; ++i) {  // which batches follow others depends on it
    const double factor = verified->measured_busy / outcome.busy_share;
    if (costs.encoder) costs.encoder = Slower(*costs.encoder, factor);
    if (costs.decoder) costs.decoder = Slower(*costs.decoder, factor);
    PENSTOCK_ASSIGN_OR_RETURN(outcome, SimulateFleet(costs, planner.chat(), workload, run));
  }
  verified->at_speed = times();
  return Status::Ok();
}

// Requests a second that a replica answers at most.
Expected<double> MostRequests(const Planner& planner) {
  const double bound = 1 / planner.DemandSeconds();
  if (planner.costs().encoder) return bound;
  // The bound is that of full steps without a prompt between them, which no scheduler reaches.
  constexpr double kRequests = 2000, kOver = 2;
  Workload workload = planner.workload();
  workload.rate = kOver * bound;
  FleetRun run;
  run.warmup_s = 0;
  run.seconds = kRequests / workload.rate;
  PENSTOCK_ASSIGN_OR_RETURN(const FleetOutcome outcome,
                            SimulateFleet(planner.costs(), planner.chat(), workload, run));
  return static_cast<double>(outcome.answers.whole.count()) / (run.seconds + outcome.late_s);
}

}  // namespace

Expected<std::vector<VerifiedLoad>> VerifyPlan(const ServedModel& model, const Planner& planner,
                                               const VerifyOptions& options) {
  const Costs& costs = planner.costs();
  PENSTOCK_RETURN_IF_ERROR(CheckCanDrive(model, costs, planner.workload()));
  std::vector<VerifiedLoad> all;
  FleetRun run;
  run.warmup_s = options.warmup_s;
  run.seconds = options.warmup_s + options.seconds;
  DriveOptions drive{options.target, costs.encoder ? costs.encoder->word_tokens : 1,
                     options.warmup_s, options.seconds};
  PENSTOCK_ASSIGN_OR_RETURN(const double most, MostRequests(planner));
  for (int round = 0; round < options.rounds; ++round) {
    for (const double load : options.loads) {
      VerifiedLoad verified{.load = load, .rate = load * most, .round = round};
      Workload at = planner.workload();
      at.rate = verified.rate;
      if (model.generates()) at.context = std::min(at.context, model.context);
      run.seed = 1 + all.size();
      drive.seed = run.seed;
      PENSTOCK_ASSIGN_OR_RETURN(const Driven driven, DriveServer(model, at, drive));
      verified.measured = driven.answers;
      verified.measured_gap = driven.between_tokens;
      verified.measured_busy = driven.busy_share;
      PENSTOCK_RETURN_IF_ERROR(Predict(planner, at, run, &verified));
      all.push_back(verified);
    }
  }
  return all;
}

}  // namespace penstock::plan

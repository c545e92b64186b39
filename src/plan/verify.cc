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
  const Costs& costs = planner.costs();
  PENSTOCK_ASSIGN_OR_RETURN(FleetOutcome outcome,
                            SimulateFleet(costs, planner.chat(), workload, run));
  verified->predicted_busy = outcome.busy_share;
  verified->predicted_gap = PercentilesOf(outcome.answers.between_tokens);
  if (costs.decoder) {
    verified->predicted = PercentilesOf(outcome.answers.first_token);
    return Status::Ok();
  }
  verified->predicted = PercentilesOf(outcome.answers.whole);
  Costs slower = costs;
  for (int i = 0; i < 3; ++i) {  // which batches follow others depends on it
    slower.encoder = Slower(*slower.encoder, verified->measured_busy / outcome.busy_share);
    PENSTOCK_ASSIGN_OR_RETURN(outcome, SimulateFleet(slower, nullptr, workload, run));
  }
  verified->at_speed = PercentilesOf(outcome.answers.whole);
  return Status::Ok();
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
  for (int round = 0; round < options.rounds; ++round) {
    for (const double load : options.loads) {
      VerifiedLoad verified{.load = load, .rate = load / planner.DemandSeconds(), .round = round};
      Workload at = planner.workload();
      at.rate = verified.rate;
      if (model.generates()) at.context = std::min(at.context, model.context);
      run.seed = static_cast<uint64_t>(round) + 1;
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

// Drives a server with the requests of a workload and simulates it with the same ones, at the same
// times: what differs is what the costs or the simulation have wrong, and not what was drawn.
#pragma once

#include <vector>

#include "base/status.h"
#include "load/http_load.h"
#include "plan/drive.h"
#include "plan/planner.h"
#include "plan/served_model.h"

namespace penstock::plan {

struct VerifyOptions {
  load::HttpTarget target;
  // Parts of the most requests a second of one replica: of an encoder with full batches all the
  // time, of a decoder as it is simulated with more requests than it can answer.
  std::vector<double> loads = {0.5, 0.7, 0.85};
  double warmup_s = 3, seconds = 30;
  int rounds = 3;  // of all loads, with other requests each
};

struct VerifiedLoad {
  double load = 0, rate = 0;
  int round = 0;
  Percentiles predicted, measured;  // of answers, of chats the first token
  // Predicted with batches that take as long, all in all, as they did while the server was asked: a
  // machine whose speed changes shows here, and not an error of the simulation.
  Percentiles at_speed;
  Percentiles predicted_gap, measured_gap;       // of chats: between two tokens
  double predicted_busy = 0, measured_busy = 0;  // share of the time in batches or steps
};

// The requests are the planner's. kUnavailable: requests were lost or refused. kInvalidArgument: the
// model is of another kind than the costs, or a server cannot be asked such requests: bulk ones, and
// conversations, whose prompts are known in part.
Expected<std::vector<VerifiedLoad>> VerifyPlan(const ServedModel& model, const Planner& planner,
                                               const VerifyOptions& options);

}  // namespace penstock::plan

// What penstock plan prints.
#pragma once

#include <string>
#include <vector>

#include "plan/planner.h"
#include "plan/verify.h"

namespace penstock::cli {

struct PlanReport {
  const plan::Costs& costs;
  const plan::PlanOptions& options;
  const plan::Plan& plan;
  int lose = 0;  // replicas that may be lost

  void Print() const;
  std::string ToJson() const;
};

void PrintCosts(const plan::Costs& costs);
// Predicted beside measured; the largest error of a 95th percentile, as a part of what was measured.
double PrintVerified(const std::vector<plan::VerifiedLoad>& loads, bool chat);

}  // namespace penstock::cli

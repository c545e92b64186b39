#include "generate/step_cost.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <optional>
#include <vector>

#include "common/int_math.h"
#include "common/request_context.h"
#include "tensor/bulk_turn.h"

namespace penstock {
namespace {

// Enough rows that the large-row kernels run, and few enough that a large model takes a moment.
constexpr int32_t kRows = 48;
// Attention is told from the rest by this many cached tokens.
constexpr int32_t kPast = 1024;

}  // namespace

int32_t StepCost::RowsWithin(double seconds, double taken_s, int32_t past) const {
  const double left = seconds - taken_s;
  if (left <= 0 || !known()) return 0;
  // work_s / 2 rows^2 + (row_s + work_s (past + 1/2)) rows = left
  const double half = row_s + work_s * (past + 0.5);
  const double rows =
      work_s > 0 ? (std::sqrt(half * half + 2 * work_s * left) - half) / work_s : left / half;
  return static_cast<int32_t>(std::clamp(rows, 0.0, 1e6));
}

Expected<StepCost> MeasureStepCost(StepRun* run, int32_t context, ComputeGate* gate) {
  std::vector<int32_t> ids(static_cast<size_t>(std::min(kRows, context)), 0);
  std::vector<int32_t> table(CeilDiv(static_cast<size_t>(context), size_t{kKvBlockTokens}));
  std::iota(table.begin(), table.end(), 0);
  // The better of two: the first of each kind touches memory for the first time.
  const auto seconds = [&](int32_t rows, int32_t past) -> Expected<double> {
    double best = INFINITY;
    for (int repeat = 0; repeat < 2; ++repeat) {
      std::optional<BulkTurn> turn;
      if (gate != nullptr) turn.emplace(gate);
      const StepSequence sequence = {rows, past, table};
      const int32_t last = rows - 1;
      const auto begin = Clock::now();
      PENSTOCK_RETURN_IF_ERROR(run->Run(
          {std::span(ids).first(static_cast<size_t>(rows)), {&sequence, 1}, {&last, 1}}, nullptr));
      best = std::min(best, std::chrono::duration<double>(Clock::now() - begin).count());
    }
    return best;
  };
  const auto rows = static_cast<int32_t>(ids.size());
  const int32_t past = std::min(kPast, context - rows);
  PENSTOCK_ASSIGN_OR_RETURN(const double one_s, seconds(1, 0));
  PENSTOCK_ASSIGN_OR_RETURN(const double rows_s, seconds(rows, 0));
  StepCost cost;
  if (past > 0) {
    PENSTOCK_ASSIGN_OR_RETURN(const double deep_s, seconds(rows, past));
    cost.work_s = std::max(0.0, deep_s - rows_s) / (static_cast<double>(rows) * past);
  }
  const double slope = rows > 1 ? (rows_s - one_s) / (rows - 1) : one_s;
  cost.row_s = std::max(slope - cost.work_s * rows / 2, one_s * 1e-3);
  cost.fixed_s = std::max(0.0, one_s - cost.row_s);
  return cost;
}

}  // namespace penstock

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

// Two numbers of rows for the kernels of many rows, few enough that a large model takes a moment.
constexpr int32_t kSomeRows = 16;
constexpr int32_t kManyRows = 48;
// Attention is told from the rest by this many cached tokens.
constexpr int32_t kPast = 1024;

}  // namespace

double StepCost::Seconds(int32_t rows, double work) const {
  if (rows == 0) return 0;
  const double few = one_s + (few_s - one_s) * (rows - 1) / (kFewRows - 1);
  const double many = std::max(few_s, fixed_s + row_s * rows);
  return (rows <= kFewRows ? few : many) + work_s * work;
}

int32_t StepCost::RowsWithin(double seconds, int32_t rows, double work, int32_t past) const {
  int32_t fit = 0, over = 1 << 16;
  while (over - fit > 1) {
    const int32_t middle = fit + (over - fit) / 2;
    (Seconds(rows + middle, work + Work(middle, past)) <= seconds ? fit : over) = middle;
  }
  return fit;
}

Expected<StepCost> MeasureStepCost(StepRun* run, int32_t context, ComputeGate* gate) {
  std::vector<int32_t> ids(static_cast<size_t>(std::min(kManyRows, context)), 0);
  std::vector<int32_t> table(CeilDiv(static_cast<size_t>(context), size_t{kKvBlockTokens}));
  std::iota(table.begin(), table.end(), 0);
  // There may be fewer of these; one that comes again has left the window.
  std::vector<int32_t> windows;
  if (run->window() > 0) {
    windows = table;
    for (int32_t& block : windows) {
      block %= static_cast<int32_t>(WindowBlocksOf(run->window(), kManyRows));
    }
  }
  // The better of two: the first of each kind touches memory for the first time.
  const auto seconds = [&](int32_t rows, int32_t past) -> Expected<double> {
    double best = INFINITY;
    for (int repeat = 0; repeat < 2; ++repeat) {
      std::optional<BulkTurn> turn;
      if (gate != nullptr) turn.emplace(gate);
      const bool long_rope = run->LongRope(static_cast<size_t>(past + rows));
      const StepSequence sequence = {rows, past, table, windows, long_rope};
      const int32_t last = rows - 1;
      const auto begin = Clock::now();
      PENSTOCK_RETURN_IF_ERROR(run->Run(
          {std::span(ids).first(static_cast<size_t>(rows)), {&sequence, 1}, {&last, 1}}, nullptr));
      best = std::min(best, std::chrono::duration<double>(Clock::now() - begin).count());
    }
    return best;
  };
  const auto most = static_cast<int32_t>(ids.size());
  const int32_t few = std::min(StepCost::kFewRows, most), some = std::min(kSomeRows, most);
  const int32_t past = std::min(kPast, context - most);
  StepCost cost;
  PENSTOCK_ASSIGN_OR_RETURN(cost.one_s, seconds(1, 0));
  PENSTOCK_ASSIGN_OR_RETURN(cost.few_s, seconds(few, 0));
  PENSTOCK_ASSIGN_OR_RETURN(const double some_s, seconds(some, 0));
  PENSTOCK_ASSIGN_OR_RETURN(const double most_s, seconds(most, 0));
  if (past > 0) {
    PENSTOCK_ASSIGN_OR_RETURN(const double deep_s, seconds(most, past));
    cost.work_s = std::max(0.0, deep_s - most_s) / (static_cast<double>(most) * past);
  }
  cost.few_s = std::max(cost.few_s, cost.one_s);
  // Timings are noisy: each row costs something.
  const double slope = most > some ? (most_s - some_s) / (most - some) : 0;
  cost.row_s = std::max(slope, cost.few_s * 1e-3);
  cost.fixed_s = std::max(0.0, most_s - cost.row_s * most);
  return cost;
}

}  // namespace penstock

#include "runtime/memory_plan.h"

#include <fmt/format.h>

#include <algorithm>

namespace penstock::runtime {
namespace {

// The program itself: code, threads, connections.
constexpr uint64_t kProgramBytes = 64 << 20;
constexpr uint64_t kTotalMin = 128 << 20;

// Shares of the whole that bounds are cut to.
constexpr uint64_t kInflightPart = 8, kTokenCachePart = 32, kResultCachePart = 4;

int64_t Cut(int64_t asked, uint64_t most) { return std::min(asked, static_cast<int64_t>(most)); }

}  // namespace

Expected<MemoryPlan> MemoryPlan::Make(const devices::MemoryLimit& limit, uint64_t available,
                                      const api::ServiceOptions& options) {
  MemoryPlan plan;
  plan.total = limit.Of(available);
  plan.inflight_bytes = options.inflight_bytes;
  plan.token_cache_bytes = options.token_cache_bytes;
  plan.result_cache_bytes = options.result_cache_bytes;
  if (plan.total == 0) return plan;
  if (plan.total < kTotalMin) {
    return Status::InvalidArgument(
        fmt::format("--memory: {:.0f} MB are too little; at least {:.0f} MB are needed besides "
                    "what models take",
                    static_cast<double>(plan.total) / 1e6, static_cast<double>(kTotalMin) / 1e6),
        "memory");
  }
  plan.inflight_bytes = Cut(plan.inflight_bytes, plan.total / kInflightPart);
  plan.token_cache_bytes = Cut(plan.token_cache_bytes, plan.total / kTokenCachePart);
  plan.result_cache_bytes = Cut(plan.result_cache_bytes, plan.total / kResultCachePart);
  plan.models =
      plan.total - kProgramBytes -
      static_cast<uint64_t>(plan.inflight_bytes + plan.token_cache_bytes + plan.result_cache_bytes);
  return plan;
}

std::string MemoryPlan::Text() const {
  const auto mb = [](auto bytes) { return static_cast<double>(bytes) / 1e6; };
  return fmt::format(
      "{:.0f} MB: {:.0f} for models, {:.0f} for requests in flight, {:.0f} for caches of tokens "
      "and results, {:.0f} for the program",
      mb(total), mb(models), mb(inflight_bytes), mb(token_cache_bytes + result_cache_bytes),
      mb(kProgramBytes));
}

}  // namespace penstock::runtime

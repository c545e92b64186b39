// A fleet, simulated: replicas (replica.h) behind a proxy, and the requests of a workload.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/status.h"
#include "plan/costs.h"
#include "plan/replica.h"
#include "plan/workload.h"

namespace penstock::plan {

enum class Routing {
  kLeast,     // where the fewest requests are under way
  kAffinity,  // by conversation, past replicas with 1.5 times their share (consistent hashing with
              // bounded loads: Mirrokni, Thorup, Zadimoghaddam 2016)
  kRoundRobin,
  kRandom,
};
inline constexpr const char* kRoutingNames[] = {"least", "affinity", "round-robin", "random"};

struct FleetRun {
  int replicas = 1;
  Routing routing = Routing::kLeast;
  double warmup_s = 0;  // requests before that are not measured
  double seconds = 20;  // of arrivals, warm-up included
  uint64_t seed = 1;
};

struct FleetOutcome {
  Answers answers;
  double busy_share = 0;  // of all replicas' time until the last arrival
  double late_s = 0;      // the last answer after the last arrival
  double cache_peak = 0;  // of the fullest replica
  uint64_t preemptions = 0;
};

// `chat`: for costs of a decoder. Errors: those of replicas.
Expected<FleetOutcome> SimulateFleet(const Costs& costs, const ChatModel* chat,
                                     const Workload& workload, const FleetRun& run);

}  // namespace penstock::plan

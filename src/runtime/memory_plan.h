// MemoryPlan: what a server's memory is for.
#pragma once

#include <cstdint>
#include <string>

#include "api/service.h"
#include "common/status.h"

namespace penstock::runtime {

// Of --memory; bytes are taken if they are not 0.
struct MemoryLimit {
  static constexpr double kShare = 0.8;
  uint64_t bytes = 0;
  double share = kShare;  // of what is available at the start
};

struct MemoryPlan {
  uint64_t total = 0;   // 0: the system does not tell, nothing is bounded
  uint64_t models = 0;  // weights, activations and keys and values of all models
  // At most those of the options, less where `total` is little.
  int64_t inflight_bytes = 0;
  int64_t token_cache_bytes = 0;
  int64_t result_cache_bytes = 0;

  // kInvalidArgument, field memory: too little for anything.
  static Expected<MemoryPlan> Make(const MemoryLimit& limit, uint64_t available,
                                   const api::ServiceOptions& options);
  std::string Text() const;
};

}  // namespace penstock::runtime

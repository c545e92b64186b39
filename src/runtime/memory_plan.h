// MemoryPlan: what a server's memory is for.
#pragma once

#include <cstdint>
#include <string>

#include "api/service.h"
#include "base/status.h"
#include "devices/devices.h"

namespace penstock::runtime {

struct MemoryPlan {
  uint64_t total = 0;   // 0: the system does not tell, nothing is bounded
  uint64_t models = 0;  // weights, activations and keys and values of all models
  // At most those of the options, less where `total` is little.
  int64_t inflight_bytes = 0;
  int64_t token_cache_bytes = 0;
  int64_t result_cache_bytes = 0;

  // kInvalidArgument, field memory: too little for anything.
  static Expected<MemoryPlan> Make(const devices::MemoryLimit& limit, uint64_t available,
                                   const api::ServiceOptions& options);
  std::string Text() const;
};

}  // namespace penstock::runtime

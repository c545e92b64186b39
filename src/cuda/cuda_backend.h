// The backend of a GPU, or of the emulated one: programs in f16, bf16 and f32.
#pragma once

#include <memory>

#include "cuda/device.h"
#include "cuda/graph_cache.h"
#include "program/backend.h"

namespace penstock::cuda {

std::unique_ptr<program::Backend> NewCudaBackend(std::unique_ptr<Device> device,
                                                 const RunOptions& options = {});

}  // namespace penstock::cuda

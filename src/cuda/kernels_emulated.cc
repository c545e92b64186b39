#include "cuda/kernels_emulated.h"

#include "cuda/attention-inl.h"
#include "cuda/attention_f32-inl.h"
#include "cuda/gemm_f32-inl.h"
#include "cuda/gemm_mma-inl.h"
#include "cuda/gemm_narrow-inl.h"
#include "cuda/gemm_wgmma-inl.h"
#include "cuda/logits-inl.h"
#include "cuda/paged_attention-inl.h"
#include "cuda/paged_mma-inl.h"
#include "cuda/rows-inl.h"
#include "cuda/unpack-inl.h"

namespace penstock::cuda {
namespace {

using RunFunction = void (*)(const void* args);

template <typename Kernel, typename Args>
void RunKernel(const void* args) {
  Kernel::Run(*static_cast<const Args*>(args));
}

constexpr RunFunction kRuns[] = {
#define PENSTOCK_KERNEL(name, args, ...) RunKernel<__VA_ARGS__, args>,
#include "cuda/kernel_list.inc"
#undef PENSTOCK_KERNEL
};

}  // namespace

std::function<void()> EmulatedKernel(const KernelLaunch& launch) {
  return
      [run = kRuns[static_cast<size_t>(launch.kernel)], args = launch.args.data()] { run(args); };
}

}  // namespace penstock::cuda

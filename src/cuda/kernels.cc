#include "cuda/kernels.h"

#include <type_traits>

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

template <typename Kernel, typename Args>
constexpr KernelRow RowFor(const char* name) {
  static_assert(sizeof(Args) <= kArgsBytesMax);
  KernelRow row = {name, Kernel::kThreads, Kernel::kSharedBytes, sizeof(Args), 0, 0, false, false};
  row.has_tile_map = std::is_same_v<Args, GemmWgmmaArgs>;
  row.is_narrow = std::is_same_v<Args, GemmNarrowArgs>;
  if constexpr (requires { Kernel::kTileRows; }) {
    row.tile_rows = Kernel::kTileRows;
    row.tile_features = Kernel::kTileFeatures;
  }
  return row;
}

constexpr KernelRow kKernelRows[] = {
#define PENSTOCK_KERNEL(name, args, ...) RowFor<__VA_ARGS__, args>(#name),
#include "cuda/kernel_list.inc"
#undef PENSTOCK_KERNEL
};

}  // namespace

const KernelRow& RowOf(KernelId id) { return kKernelRows[static_cast<size_t>(id)]; }

}  // namespace penstock::cuda

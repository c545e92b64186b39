#include "batch/batch_ring-inl.h"

namespace penstock {

template class BasicBatchRing<SystemSync>;

}  // namespace penstock

#include "batch/batch_ring-inl.h"

namespace penstock::batch {

template class BasicBatchRing<SystemSync>;

}  // namespace penstock::batch

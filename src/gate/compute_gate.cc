#include "gate/compute_gate-inl.h"

namespace penstock {

template class BasicComputeGate<SystemSync>;

}  // namespace penstock

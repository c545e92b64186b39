#include "gate/compute_gate-inl.h"

namespace penstock::gate {

template class BasicComputeGate<SystemSync>;

}  // namespace penstock::gate

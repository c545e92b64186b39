#include "generate/generated.h"

#include <cstddef>

namespace penstock::generate {

const char* FinishReasonName(FinishReason reason) {
  constexpr const char* kNames[] = {"stop", "length", "context", "caller"};
  return kNames[static_cast<size_t>(reason)];
}

}  // namespace penstock::generate

// A small number for each living thread, so that what threads write often can lie in shards of
// their own. A number is given back when its thread ends and the next thread goes on with it: what
// was written under it stays and nothing is handed over.
#pragma once

#include <cstddef>

namespace penstock {

inline constexpr size_t kThreadSlots = 128;

// 0 .. kThreadSlots - 1, this thread's alone until it ends; what an earlier owner wrote under the
// number happened before. kThreadSlots: all are taken (or this thread is ending), the caller shares
// that one with others.
size_t ThreadSlot();

}  // namespace penstock

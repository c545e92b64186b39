// A small number for each living thread, so that data that threads write often can lie in shards of
// their own. A number is given back when its thread ends, and the next thread goes on with it: data
// written under it stays, and nothing is handed over.
#pragma once

#include <cstddef>

namespace penstock::metrics {

inline constexpr size_t kThreadSlots = 128;

// 0 .. kThreadSlots - 1, this thread's alone until it ends; an earlier owner's writes under the
// number happened before. kThreadSlots, shared with others: all numbers are taken, or this thread
// is ending. Throws nothing.
size_t ThreadSlot();

}  // namespace penstock::metrics

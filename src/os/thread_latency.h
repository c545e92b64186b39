// Requests to the processor scheduler for the calling thread.
#pragma once

namespace penstock {

// For a thread that works in short bursts and should begin them at once, beside threads that
// compute all the time: asks for short slices, so that it need not wait for the end of a longer
// one. Its share does not grow. Needs no rights; without effect before Linux 6.12.
void PreferShortSlices();

}  // namespace penstock

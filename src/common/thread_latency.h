// What a thread asks of the processor scheduler. Calling thread only.
#pragma once

namespace penstock {

// For a thread that works in short bursts and should begin them at once, beside threads that
// compute all the time: asks for short slices, so that it is let in before a longer one has ended.
// It gets no larger share by it. Needs no rights; Linux before 6.12 does not know it, and nothing
// happens.
void PreferShortSlices();

}  // namespace penstock

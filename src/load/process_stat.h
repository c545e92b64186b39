// Processor time and memory of processes, from Linux's /proc. Any thread.
#pragma once

#include <sys/types.h>

namespace penstock::load {

// User and system seconds of all threads of `pid`, in steps of 10 ms; 0 if it is gone.
double ProcessCpuSeconds(pid_t pid);
// Processor seconds of the calling thread.
double ThreadCpuSeconds();
// Busy seconds of all processors of the machine together, since it started; waiting left out.
double MachineBusySeconds();
// Resident memory of `pid` in bytes; 0 if it is gone.
double ProcessResidentBytes(pid_t pid);
// The most it was since the process began, or since ResetProcessPeak; 0 if it is gone.
double ProcessPeakBytes(pid_t pid);
// False where the system does not let this process do so.
bool ResetProcessPeak(pid_t pid);

}  // namespace penstock::load

// How a decoder's steps scale: measured here with more threads than processors, and simulated for
// machines of more cores from costs that are measured here.
//
// The model of a step by n threads, one a core, is
//   read      the bytes of weights at n times the rate of one thread, up to the bandwidth of the
//             sockets that have threads
//   meetings  `meetings` barriers. A cache line goes from core to core in line_s; from one L3 cache
//             to another in kFarL3 times that, from socket to socket in kFarSocket times. Threads
//             arrive at a word one after the other, and fetch the word that lets them go likewise.
//             A flat barrier has one word of each for all threads; the tree (threads/spin_barrier.h)
//             one of each for an L3 cache, whose threads are near, and one for all caches.
// Left out: clock rates that fall with the number of busy cores, hyper-threads, and that threads
// read more slowly from the memory of another socket.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "load/records.h"

namespace penstock::lab {

// Costs of one thread and of a meeting, measured.
struct StepCosts {
  double bytes = 0;               // read by a step
  double bytes_per_s_thread = 0;  // by one thread
  double line_s = 0;              // of a cache line between cores of an L3 cache
  size_t meetings = 0;            // of a step
};

// A machine that is imagined.
struct ImaginedMachine {
  size_t cores = 64;
  size_t l3_cores = 8;       // that share an L3 cache
  size_t socket_cores = 64;  // that share a memory
  double socket_bytes_per_s = 3e11;
};

inline constexpr double kFarL3 = 3, kFarSocket = 6;

// Seconds of a meeting of the first `threads` cores, each L3 cache full before the next is begun.
double FlatMeetingS(const ImaginedMachine& machine, const StepCosts& costs, size_t threads);
double TreeMeetingS(const ImaginedMachine& machine, const StepCosts& costs, size_t threads);
// Seconds of a step by `threads` threads.
double StepS(const ImaginedMachine& machine, const StepCosts& costs, size_t threads, bool tree);

struct ThreadScalingOptions {
  std::string model;  // a folder or .gguf file
  std::vector<uint32_t> cores = {8, 16, 32, 64, 128};
  ImaginedMachine machine;  // but for its cores
  int rounds = 5;
};

// Prints tables; adds threads.crowded<N>.ratio_vs_processors, threads.simulated.<N>_cores.* .
Status MeasureThreadScaling(const ThreadScalingOptions& options, load::BenchRecords* records);

}  // namespace penstock::lab

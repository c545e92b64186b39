// penstock-lab saturation: the rate of a whole server as a share of that of the kernels alone.
//
// One run, rounds in turn: (a) a server of its own, closed loop over loopback; (b) the kernel loop
// on the same texts' ids, with the scheduler's batch size, on the same number of threads, while the
// server is idle. Then, on the same server: how long an interactive request takes under full bulk
// load.
//
// The texts: as many as there are strata in the distribution of lengths, shuffled, over and over,
// so that a few seconds of work hold the same mix as any others; the words of a text are rotated
// each time, so that it keeps its number of tokens but no cache knows it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "load/http_texts.h"
#include "load/records.h"

namespace penstock::lab {

struct SaturationOptions {
  std::string model_folder;
  int threads = 0;  // of server and kernel loop; 0 = one a processor
  std::vector<std::string> server_flags;
  size_t batch_tokens = 0;  // of the server's scheduler and the kernel loop
  load::LengthSpec lengths;
  uint64_t seed = 1;
  int rounds = 5;
  double round_s = 4;  // of each phase
  int concurrency = 8;
  int batch = 8;  // texts of a request
  bool with_float = true;
  // Interactive requests under bulk load.
  double interactive_s = 20;
  double interactive_rate = 10;
  int bulk_concurrency = 8;
  int bulk_batch = 32;
};

Status RunSaturation(const SaturationOptions& options, load::BenchRecords* records);

// `count` texts, one of each stratum of the distribution, shuffled.
std::vector<std::string> StratifiedTexts(const load::LengthSpec& lengths, size_t count,
                                         uint64_t seed);

}  // namespace penstock::lab

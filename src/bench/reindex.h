// penstock bench reindex: the rate of `penstock embed` as a share of that of the kernels alone.
//
// One run, rounds in turn: (a) the kernel loop over the ids of all texts; (b) `penstock embed` of a
// file of them; (c) the same by --url, from a server on loopback that is started for it. The rate
// of embed is of the texts after the first: the time of a file with one text, which is that of
// starting and loading, is taken off.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "load/http_texts.h"
#include "load/records.h"

namespace penstock::bench {

struct ReindexOptions {
  std::string model_folder;
  std::string device;       // of each, as ParseDevice
  int threads = 0;          // of each; 0 = one a processor
  size_t batch_tokens = 0;  // of one batch, of each
  std::string text_file;    // a text a line; "" = texts made with `lengths`
  load::LengthSpec lengths;
  uint64_t seed = 1;
  size_t texts = 4000;
  int rounds = 3;
};

// Prints a table and adds the records reindex.rate_ratio_vs_kernel_loop and
// reindex.url_rate_ratio_vs_kernel_loop. kUnavailable: embed or the server failed.
Status RunReindex(const ReindexOptions& options, load::BenchRecords* records);

}  // namespace penstock::bench

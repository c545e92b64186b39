// penstock bench http: load at several settings, a row of the table each.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "load/http_load.h"
#include "load/http_texts.h"
#include "load/records.h"

namespace penstock::load {

struct HttpSweepOptions {
  HttpTarget target;
  HttpLoad load;  // what all rows have in common
  // Every batch with every concurrency, or with every rate if there are rates.
  std::vector<int> batches = {1};
  std::vector<int> concurrencies = {8};
  std::vector<double> rates;
  // A load beside the measured one: closed loop, priority bulk. 0 = none.
  int background_concurrency = 0;
  int background_batch = 64;
  LoadWindow window;
  std::string text_file;  // "" = texts made with `lengths`
  LengthSpec lengths;
  std::string plot_file;  // "" = none
  bool allow_errors = false;
};

// Prints the table on stdout as its rows come and adds their records. kUnavailable, after the table
// is printed: a row had no answer of status 2xx, or, without allow_errors, a request had another
// outcome.
Status RunHttpSweep(const HttpSweepOptions& options, BenchRecords* records);

// Measured requests without an answer of status 2xx, and those that could not be sent.
uint64_t ErrorsOf(const LoadResult& load);
// "429: 12, lost: 3", or "-".
std::string ErrorsText(const LoadResult& load);

}  // namespace penstock::load

// bench/: what `penstock bench` measures, one subcommand a pair of files (http_*, batcher_*, ...).
//
// Measuring code sits here and prints through BenchTable; apps/bench_NAME.cc turns flags into its
// options. Nothing in the server depends on this module.
//
// BenchRecords: measured numbers by name, for machines to read. One thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace penstock::load {

class BenchRecords {
 public:
  // `name`: "http.ratio_vs_kernel_loop". `unit`: "1", "1/s", "ms", ... `row` tells records of one
  // name apart where a table has several rows ("batch=8 concurrency=4"); "" = there is one.
  void Add(std::string_view name, double value, std::string_view unit, std::string_view row = "");

  // One JSON object a line: {"name", "value", "unit"} and, where not empty, "row". A value that is
  // not finite is null.
  std::string ToJsonLines() const;
  // Does nothing if `path` is empty. kUnavailable names the file.
  Status WriteFile(const std::string& path) const;

 private:
  struct Record {
    std::string name;
    double value = 0;
    std::string unit;
    std::string row;
  };
  std::vector<Record> records_;
};

}  // namespace penstock::load

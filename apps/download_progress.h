// DownloadProgress: the progress of a download from the hub, on stderr.
//
// On a terminal one line with a bar, rewritten a few times a second. Elsewhere whole lines: one
// when the first bytes come, then every few seconds. Either way one line when all is there.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <utility>

#include "hub/hub.h"
#include "log/status_line.h"

namespace penstock::cli {

class DownloadProgress {
 public:
  // `what`: the reference, for the lines. `quiet`: prints nothing.
  DownloadProgress(std::string what, bool quiet);

  // For ResolveOptions::progress, while this lives.
  std::function<bool(const hub::HubProgress&)> Callback();
  // The download succeeded: prints the last line, if anything was downloaded.
  void Finish();

 private:
  void Tell(const hub::HubProgress& progress);
  double BytesPerSecond(uint64_t bytes, StatusLine::TimePoint now);

  const std::string what_;
  StatusLine line_;
  bool began_ = false;
  bool announced_ = false;
  bool checking_ = false;
  uint64_t bytes_at_start_ = 0;
  uint64_t bytes_ = 0;
  StatusLine::TimePoint start_{};
  std::deque<std::pair<StatusLine::TimePoint, uint64_t>> samples_;  // of the last seconds
};

// Downloads a model that is not here, with its progress on stderr.
Expected<std::string> ResolveShown(const std::string& reference, bool tokenizer_only = false);

// The text of a line; `columns` bounds it, and with `bar` a bar takes what room there is.
struct DownloadFacts {
  std::string what;
  uint64_t bytes = 0;
  uint64_t bytes_total = 0;
  double bytes_per_second = 0;
  bool checking = false;
};
std::string DownloadText(const DownloadFacts& facts, size_t columns, bool bar);

}  // namespace penstock::cli

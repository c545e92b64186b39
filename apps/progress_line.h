// ProgressLine: the progress of a command that works on texts (log/status_line.h), and a summary
// at its end.
#pragma once

#include <cstdint>
#include <string>

#include "api/types.h"
#include "log/status_line.h"

namespace penstock::cli {

class ProgressLine {
 public:
  struct Options {
    bool quiet = false;
    bool bulk = false;     // lines in a log, too
    bool summary = false;  // in a log also for work that takes less than the time between two lines
  };
  // For short work: shown on a terminal alone, with the summary when it is destroyed.
  explicit ProgressLine(bool quiet);
  explicit ProgressLine(const Options& options);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // Names the stage from now on ("reading"); a terminal shows it at once.
  void Begin(const std::string& stage);
  // Bytes of text of the whole input; 0 = unknown.
  void Expect(int64_t bytes) { bytes_total_ = bytes; }
  // Counts the rows and bytes of an earlier run. The rate is that of this run.
  void GoOnBehind(int64_t rows, int64_t bytes);
  // `bytes`: of text.
  void Add(size_t texts, const encode::Usage& usage, const encode::Truncation& truncation,
           int64_t bytes = 0);
  void AddSkipped(int64_t rows) { skipped_ += rows; }
  // The work succeeded: prints the summary.
  void Finish();

  bool on_terminal() const { return line_.on_terminal(); }
  // Texts of this run that were cut.
  int64_t cut() const { return cut_; }

 private:
  std::string Text() const;
  double Seconds() const;

  StatusLine line_;
  const bool summary_;
  bool finishes_itself_ = false;
  std::string stage_ = "embedding";
  int64_t bytes_total_ = 0;
  int64_t bytes_before_ = 0;
  int64_t rows_before_ = 0;
  StatusLine::TimePoint start_;
  bool printed_ = false;
  size_t texts_ = 0;
  int64_t bytes_ = 0;
  int64_t tokens_ = 0;
  int64_t cut_ = 0;
  int64_t skipped_ = 0;
};

// The content of Text, for tests.
struct ProgressFacts {
  std::string stage;
  size_t texts = 0;
  int64_t tokens = 0;
  double seconds = 0;  // since this run began to embed
  double done = 0;     // share of the whole input; 0 = unknown
  double left_s = -1;  // less than 0: unknown
  int64_t cut = 0;
  int64_t skipped = 0;
};
// "embedding 45.1 %, 12 min left, 8192 texts, 266 texts/s, 17066 tokens/s, 3 cut", as much of it as
// fits `columns`.
std::string ProgressText(const ProgressFacts& facts, size_t columns);

}  // namespace penstock::cli

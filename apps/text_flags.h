// Flags of the commands that read texts, and the line on stderr that shows how far they are.
#pragma once

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "api/types.h"
#include "command_line.h"
#include "corpus/row_reader.h"

namespace penstock {

struct TextFlags {
  std::vector<std::string> files;
  InputOptions input;
  std::string output;
  int32_t batch = 64;  // inputs of one request
  bool quiet = false;
};

// Of the rows of one request.
using RowIds = std::vector<std::optional<std::string>>;

// Whether the files can be read, as RowReader::Check. Says on stderr where a terminal is waited
// for. Once a command, before the first row.
Status CheckInput(const TextFlags& flags);

// How files are read: --format and its like.
void AddInputFlags(CommandLine* line, InputOptions* options);
// These, FILES and what is written. `what`: is in the files.
void AddTextFlags(CommandLine* line, TextFlags* flags, const std::string& what);

// "12345 texts, 812 texts/s, 1234567 tokens, 34500 tokens/s", rewritten a few times a second on a
// terminal. For bulk work also how much is done and how long the rest takes, where the size of the
// input is known, and a line every few seconds where stderr is no terminal.
class ProgressLine {
 public:
  // `bulk_bytes`: of the whole input, 0 = unknown; nothing: the work is not bulk. `summary`: where
  // stderr is no terminal, also for work that takes less than the time between two lines.
  explicit ProgressLine(bool quiet, std::optional<int64_t> bulk_bytes = std::nullopt,
                        bool summary = false)
      : terminal_(isatty(STDERR_FILENO) != 0),
        shown_(!quiet && (terminal_ || bulk_bytes)),
        every_(terminal_ ? std::chrono::milliseconds(200) : std::chrono::milliseconds(5000)),
        summary_(terminal_ || summary),
        bytes_total_(bulk_bytes.value_or(0)),
        start_(Clock::now()),
        last_(start_) {}
  ~ProgressLine() {
    if (!shown_ || texts_ == 0 || (!summary_ && last_ == start_)) return;
    bytes_total_ = 0;  // what is left is nothing
    Print();
    if (terminal_) std::fputc('\n', stderr);
  }
  // `bytes`: of the input, for how much is done.
  void Add(size_t texts, const Usage& usage, const Truncation& truncation, int64_t bytes = 0) {
    texts_ += texts;
    bytes_ += bytes;
    tokens_ += usage.prompt_tokens;
    cut_ += truncation.inputs;
    if (!shown_ || Clock::now() - last_ < every_) return;
    last_ = Clock::now();
    Print();
  }
  int64_t cut() const { return cut_; }

 private:
  void Print() const {
    const std::chrono::duration<double> took = Clock::now() - start_;
    const double seconds = std::max(took.count(), 1e-9);
    std::fprintf(stderr, "%s%zu texts, %.0f texts/s, %lld tokens, %.0f tokens/s",
                 terminal_ ? "\r\033[K" : "", texts_, static_cast<double>(texts_) / seconds,
                 static_cast<long long>(tokens_), static_cast<double>(tokens_) / seconds);
    if (bytes_total_ > 0 && bytes_ > 0) {
      const double done =
          std::min(1.0, static_cast<double>(bytes_) / static_cast<double>(bytes_total_));
      std::fprintf(stderr, ", %.1f %%, %.0f s left", done * 100, seconds * (1 - done) / done);
    }
    if (cut_ > 0) std::fprintf(stderr, ", %lld cut", static_cast<long long>(cut_));
    if (!terminal_) std::fputc('\n', stderr);
  }

  bool terminal_;
  bool shown_;
  std::chrono::milliseconds every_;
  bool summary_;
  int64_t bytes_total_;
  Clock::time_point start_;
  Clock::time_point last_;
  size_t texts_ = 0;
  int64_t bytes_ = 0;
  int64_t tokens_ = 0;
  int64_t cut_ = 0;
};

// Truncation is never silent. `max_tokens`: of the model, 0 = not known here.
inline void ReportCut(int64_t cut, const std::string& command, int32_t max_tokens) {
  if (cut == 0) return;
  const std::string limit = max_tokens > 0 ? " " + std::to_string(max_tokens) : "";
  std::fprintf(stderr, "penstock %s: %lld input%s cut to the model's%s tokens\n", command.c_str(),
               static_cast<long long>(cut), cut == 1 ? " was" : "s were", limit.c_str());
}

}  // namespace penstock

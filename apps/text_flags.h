// Flags of the commands that read texts, and the line on stderr that shows how far they are.
#pragma once

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "api/types.h"
#include "command_line.h"
#include "text_input.h"

namespace penstock {

struct TextFlags {
  std::vector<std::string> files;
  InputFormat format = InputFormat::kAuto;
  std::string output;
  int32_t batch = 64;  // inputs of one request
  bool quiet = false;
};

inline void AddTextFlags(CommandLine* line, TextFlags* flags, const std::string& what) {
  static const std::map<std::string, InputFormat> kFormats = {
      {"auto", InputFormat::kAuto}, {"text", InputFormat::kText}, {"jsonl", InputFormat::kJsonl}};
  CLI::App& app = line->app();
  const std::string group = "Input and output";
  app.add_option("FILES", flags->files, what + "; none or - is stdin.");
  app.add_option("--format", flags->format,
                 "text: a line each. jsonl: a JSON string or object a line. auto: jsonl if the "
                 "first line is that.")
      ->transform(CLI::CheckedTransformer(kFormats).description(""))
      ->default_str("auto")
      ->type_name("FORMAT")
      ->group(group);
  app.add_option("-o,--output", flags->output, "File to write; none or - is stdout.")
      ->type_name("FILE")
      ->group(group);
  app.add_option("--batch", flags->batch, "Inputs handed over at a time.")
      ->check(CLI::Range(1, 2048))
      ->type_name("N")
      ->group(group);
  app.add_flag("-q,--quiet", flags->quiet, "No progress on stderr.")->group(group);
}

// "12345 texts, 1.2M tokens, 34.5k tokens/s", rewritten a few times a second on a terminal.
class ProgressLine {
 public:
  explicit ProgressLine(bool quiet)
      : shown_(!quiet && isatty(STDERR_FILENO)), start_(Clock::now()), last_(start_) {}
  ~ProgressLine() {
    if (shown_ && texts_ > 0) {
      Print();
      std::fputc('\n', stderr);
    }
  }
  void Add(size_t texts, const Usage& usage, const Truncation& truncation) {
    texts_ += texts;
    tokens_ += usage.prompt_tokens;
    cut_ += truncation.inputs;
    if (!shown_ || Clock::now() - last_ < std::chrono::milliseconds(200)) return;
    last_ = Clock::now();
    Print();
  }
  int64_t cut() const { return cut_; }

 private:
  void Print() const {
    const std::chrono::duration<double> took = Clock::now() - start_;
    std::fprintf(stderr, "\r\033[K%zu texts, %lld tokens, %.0f tokens/s", texts_,
                 static_cast<long long>(tokens_), tokens_ / std::max(took.count(), 1e-9));
    if (cut_ > 0) std::fprintf(stderr, ", %lld cut", static_cast<long long>(cut_));
  }

  bool shown_;
  Clock::time_point start_;
  Clock::time_point last_;
  size_t texts_ = 0;
  int64_t tokens_ = 0;
  int64_t cut_ = 0;
};

// Truncation is never silent.
inline void ReportCut(const ProgressLine& progress, const std::string& command,
                      int32_t max_tokens) {
  if (progress.cut() == 0) return;
  std::fprintf(stderr, "penstock %s: %lld inputs were cut to the model's %d tokens\n",
               command.c_str(), static_cast<long long>(progress.cut()), max_tokens);
}

}  // namespace penstock

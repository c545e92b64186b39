// One run of penstock embed: the rows of an input into an output, from where an earlier run ended.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bulk/embed_output.h"
#include "bulk/embed_plot.h"
#include "bulk/input_scan.h"
#include "embed_flags.h"
#include "embedder.h"
#include "os/interruption.h"
#include "progress_line.h"

namespace penstock::cli {

// An output of penstock embed, and what it is made of.
struct EmbedRun {
  const EmbedFlags& flags;
  std::vector<corpus::FileSlice> input;
  Interruption* interruption;
  bulk::EmbedOutput* output;
  std::optional<bulk::EmbedPlot>* plot;  // nullopt: not asked for
  ProgressLine* progress;
  bulk::InputScan scan;
  std::function<Status()> check;  // asked before a window is written: whether to go on; may be null
};

// Embeds what is left of the input; the output is neither finished nor abandoned.
Status EmbedInto(const EmbedRun& run, const Embedder& embedder);

// "3 rows were skipped; x.errors.jsonl names them", on stderr.
void ReportSkipped(int64_t rows, const std::string& errors_path);

}  // namespace penstock::cli

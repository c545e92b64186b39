// Flags of the commands that read texts.
#pragma once

#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "api/types.h"
#include "cli/command_line.h"
#include "corpus/row_reader.h"
#include "json/json_writer.h"
#include "progress_line.h"

namespace penstock::cli {

struct TextFlags {
  std::vector<std::string> files;
  corpus::InputOptions input;
  std::vector<corpus::FileSlice> slices;  // of the files, where only a part of them is read
  std::string output;
  int32_t batch = 64;  // inputs of one request
  bool quiet = false;
};

// The ids of the rows of one request.
using RowIds = std::vector<std::optional<std::string>>;

// The rows of the files, or of the slices where there are some.
inline corpus::RowReader RowsOf(const TextFlags& flags) {
  return flags.slices.empty() ? corpus::RowReader(flags.files, flags.input)
                              : corpus::RowReader(flags.slices, flags.input);
}

// Whether standard input is read, and is a terminal.
bool ReadsTerminal(const TextFlags& flags);

// Whether the files can be read, as RowReader::Check. Says on stderr that it waits for a terminal.
// Once a command, before the first row.
Status CheckInput(const TextFlags& flags);

// What of the flags of the input shapes the rows, as fields of an object.
void WriteInputSettings(const corpus::InputOptions& input, JsonWriter* json);

// How files are read: --format and its like.
void AddInputFlags(CommandLine* line, corpus::InputOptions* options);
// These, FILES and the flags of the output. `what`: the contents of the files.
void AddTextFlags(CommandLine* line, TextFlags* flags, const std::string& what);

// Truncation is never silent. `max_tokens`: of the model, 0 = it is a server's.
inline void ReportCut(int64_t cut, const std::string& command, int32_t max_tokens) {
  if (cut == 0) return;
  StatusLine::MakeRoom();
  const std::string limit =
      max_tokens > 0 ? "the model's " + std::to_string(max_tokens) + " tokens"
                     : "as many tokens as the server's model takes (max_tokens in /info)";
  std::fprintf(stderr, "penstock %s: %lld input%s cut to %s\n", command.c_str(),
               static_cast<long long>(cut), cut == 1 ? " was" : "s were", limit.c_str());
}

}  // namespace penstock::cli

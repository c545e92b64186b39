// Scripts that complete command lines of penstock in bash, zsh and fish, made from the tables that
// --help prints: commands, flags, their choices, and where a file or a folder is wanted.
#pragma once

#include <string>
#include <vector>

namespace penstock::cli {

enum class Completes { kNothing, kWords, kFiles, kFolders };

// How a value is completed: of a flag, or of positional arguments.
struct CompletedValue {
  Completes what = Completes::kNothing;
  std::vector<std::string> words;  // of kWords
};

struct CompletedFlag {
  std::vector<std::string> names;  // with dashes: "-o", "--output"
  std::string summary;             // the first sentence of its help, short
  std::string type;                // "FILE"; "" = a switch, which takes no value
  bool again = false;              // may be given again
  CompletedValue value;
};

struct CompletedCommand {
  std::string name;  // "serve", "bench http"
  std::string summary;
  std::vector<CompletedFlag> flags;
  CompletedValue rest;  // positional arguments
};

// Every command and benchmark, in the order of the help.
std::vector<CompletedCommand> CompletedCommands();

std::string BashCompletion(const std::vector<CompletedCommand>& commands);
std::string ZshCompletion(const std::vector<CompletedCommand>& commands);
std::string FishCompletion(const std::vector<CompletedCommand>& commands);

}  // namespace penstock::cli

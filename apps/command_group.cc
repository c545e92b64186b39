#include "command_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <exception>

#include "base/printable.h"
#include "command_line.h"
#include "files/mapped_file.h"
#include "flag_values.h"
#include "version.h"

namespace penstock::cli {
namespace {

std::string InCapitals(std::string word) {
  for (char& c : word) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return word;
}

// Names that other programs have for a command of penstock.
struct OtherName {
  const char* name;
  const char* command;
  bool runs;  // else it is only named
};
constexpr OtherName kOtherNames[] = {{"ls", "list", true},
                                     {"download", "pull", false},
                                     {"get", "pull", false},
                                     {"remove", "rm", false},
                                     {"delete", "rm", false},
                                     {"info", "show", false},
                                     {"models", "list", false},
                                     {"status", "ps", false},
                                     {"unload", "stop", false},
                                     {"server", "serve", false},
                                     {"start", "serve", false},
                                     {"up", "serve", false},
                                     {"complete", "generate", false},
                                     {"encode", "embed", false},
                                     {"embeddings", "embed", false},
                                     {"create", "serve", false},
                                     {"benchmark", "bench", false},
                                     {"check", "doctor", false}};

int RunNamed(const CommandGroup& group, const std::string& given,
             const std::vector<std::string>& args) {
  std::string name = given, hint;
  for (const OtherName& other : kOtherNames) {
    if (given != other.name || group.commands != Commands) continue;
    if (other.runs) name = other.command;
    hint = std::string("; did you mean ") + other.command + "?";
  }
  std::vector<std::string> known;
  for (const Command& command : group.commands()) {
    if (name == command.name) return command.run(args);
    known.emplace_back(command.name);
  }
  if (name.starts_with('-')) {
    std::fprintf(stderr, "%s: a %s comes before %s (see %s --help)\n", group.program.c_str(),
                 group.kind.c_str(), Printable(name).c_str(), group.program.c_str());
    return kExitUsage;
  }
  if (hint.empty()) hint = DidYouMean(name, known);
  std::fprintf(stderr, "%s: there is no %s '%s'%s (see %s --help)\n", group.program.c_str(),
               group.kind.c_str(), Printable(name).c_str(), hint.c_str(), group.program.c_str());
  return kExitUsage;
}

}  // namespace

const CommandGroup& ProgramGroup() {
  static const CommandGroup kGroup = {
      "penstock",
      "inference server: embeds, reranks, classifies and generates text",
      "penstock " PENSTOCK_VERSION
      " - inference server: embeds, reranks, classifies and generates text",
      "command",
      "  penstock COMMAND --help   flags, defaults and examples of a command\n"
      "  penstock --version        the version; penstock version --json: of its libraries, too\n",
      "  penstock serve --model sentence-transformers/all-MiniLM-L6-v2\n",
      Commands};
  return kGroup;
}

const CommandGroup& BenchGroup() {
  static const CommandGroup kGroup = {
      "penstock bench",
      "measure models on this machine, or a server under load",
      "Measure Penstock.",
      "benchmark",
      "  penstock bench BENCHMARK --help   flags, defaults and examples\n"
      "Each takes --json FILE: the records, one JSON object {\"name\", \"value\", \"unit\"} a "
      "line.\nThose that measure parts of Penstock are in penstock-lab, which `make lab` builds "
      "from "
      "its sources.\n",
      "",
      Benchmarks};
  return kGroup;
}

std::string HelpText(const CommandGroup& group) {
  const std::string name = InCapitals(group.kind);
  std::string text = fmt::format("{}\n\nUsage: {} {} [FLAGS]\n\n{}s:\n", group.title, group.program,
                                 name, name[0] + group.kind.substr(1));
  size_t width = 0;
  for (const Command& command : group.commands()) {
    width = std::max(width, std::string(command.name).size());
  }
  for (const Command& command : group.commands()) {
    text += fmt::format("  {:<{}} {}\n", command.name, width, command.summary);
  }
  text += "\n" + group.notes;
  if (!group.examples.empty()) text += "\nExample:\n" + group.examples;
  return text;
}

int RunGroup(const CommandGroup& group, const std::vector<std::string>& args) {
  if (args.empty()) {
    std::fputs(HelpText(group).c_str(), stderr);
    return kExitUsage;
  }
  const std::vector<std::string> rest(args.begin() + 1, args.end());
  if (args[0] == "help" && !rest.empty()) {
    std::vector<std::string> of_command(rest.begin() + 1, rest.end());
    of_command.emplace_back("--help");
    return RunNamed(group, rest[0], of_command);
  }
  if (args[0] == "--help" || args[0] == "-h" || args[0] == "help") {
    std::fputs(HelpText(group).c_str(), stdout);
    return kExitOk;
  }
  return RunNamed(group, args[0], rest);
}

int RunProgram(const CommandGroup& group, const std::vector<std::string>& args) try {
  files::MappedFile::MendTruncated();
  if (!args.empty() && (args[0] == "--version" || args[0] == "-V" || args[0] == "version")) {
    return RunVersion(group.program, {args.begin() + 1, args.end()});
  }
  return RunGroup(group, args);
} catch (const std::exception& error) {  // out of memory, out of threads
  std::fprintf(stderr, "%s: %s\n", group.program.c_str(), Printable(error.what()).c_str());
  return kExitFailure;
}

}  // namespace penstock::cli

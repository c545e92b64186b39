// penstock completion: what there is to complete, and the script for a shell.
#include "cli/completion.h"

#include <CLI/CLI.hpp>
#include <cstdio>

#include "cli/command_group.h"
#include "cli/command_line.h"

namespace penstock::cli {
namespace {

// The first sentence, cut at `kLongest` bytes; help is ASCII.
std::string Summary(const std::string& text) {
  constexpr size_t kLongest = 80;
  std::string sentence = text.substr(0, text.find(". "));
  if (sentence.size() > kLongest) {
    sentence = sentence.substr(0, sentence.rfind(' ', kLongest - 4)) + " ...";
  }
  while (sentence.ends_with('.') && !sentence.ends_with("...")) sentence.pop_back();
  return sentence;
}

std::vector<std::string> NamesOfCommands() {
  std::vector<std::string> names;
  for (const Command& command : KnownCommands().commands()) names.emplace_back(command.name);
  return names;
}

CompletedValue ValueOf(const CLI::Option* option) {
  if (auto words = ChoicesOf(option); !words.empty()) return {Completes::kWords, std::move(words)};
  const std::string type = option->get_positional() ? option->get_name(true) : BareType(option);
  if (type == "DIR") return {Completes::kFolders, {}};
  if (type == "COMMAND") return {Completes::kWords, NamesOfCommands()};
  // A model may be a folder or a file; FILE|NAME is a file or something else.
  const bool file = type.starts_with("FILE") || type == "PATH" || type == "REF";
  return {file ? Completes::kFiles : Completes::kNothing, {}};
}

CompletedFlag FlagOf(const CLI::Option* option) {
  CompletedFlag flag;
  for (const std::string& name : option->get_snames()) flag.names.push_back("-" + name);
  for (const std::string& name : option->get_lnames()) flag.names.push_back("--" + name);
  flag.summary = Summary(option->get_description());
  flag.again = MayBeGivenAgain(option);
  if (!IsSwitch(option)) {
    flag.type = BareType(option);
    flag.value = ValueOf(option);
  }
  return flag;
}

constexpr const char* kShells[] = {"bash", "fish", "zsh"};

std::string ScriptFor(const std::string& shell) {
  const std::vector<CompletedCommand> commands = CompletedCommands();
  if (shell == "bash") return BashCompletion(commands);
  return shell == "zsh" ? ZshCompletion(commands) : FishCompletion(commands);
}

}  // namespace

std::vector<CompletedCommand> CompletedCommands() {
  std::vector<CompletedCommand> commands;
  VisitCommandLines([&](const Command& command, const CommandLine& line) {
    CompletedCommand completed{line.name(), command.summary, {}, {}};
    for (const CLI::Option* option : line.flags().app().get_options()) {
      if (option->get_positional()) {  // of several the last that can be completed
        CompletedValue value = ValueOf(option);
        if (value.what != Completes::kNothing) completed.rest = std::move(value);
      } else {
        completed.flags.push_back(FlagOf(option));
      }
    }
    commands.push_back(std::move(completed));
  });
  return commands;
}

int RunCompletion(const std::vector<std::string>& args) {
  CommandLine line("completion",
                   "Print a script by which a shell completes commands, flags, values and files "
                   "after `penstock`. Packages install it; the examples are for a program that was "
                   "only built.",
                   "  source <(penstock completion bash)      # in ~/.bashrc\n"
                   "  source <(penstock completion zsh)       # in ~/.zshrc, after compinit\n"
                   "  penstock completion fish | source       # in ~/.config/fish/config.fish\n");
  std::string shell;
  line.flags()
      .AddOption("SHELL", shell, "bash, zsh or fish.")
      ->Check(OneOf(std::vector<std::string>(std::begin(kShells), std::end(kShells))))
      ->Required();
  if (const auto exit_code = line.Parse(args)) return *exit_code;
  std::fputs(ScriptFor(shell).c_str(), stdout);
  return kExitOk;
}

}  // namespace penstock::cli

// The three scripts. Names of flags and choices are letters, digits and -_./ only, so that they
// need no quotes; summaries are quoted.
#include <fmt/format.h>

#include "cli/command_group.h"
#include "cli/completion.h"

namespace penstock::cli {
namespace {

std::string Joined(const std::vector<std::string>& words, const char* between) {
  return fmt::format("{}", fmt::join(words, between));
}

std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
  return text;
}

// In single quotes, for bash and zsh.
std::string Quoted(const std::string& text) { return "'" + Replaced(text, "'", "'\\''") + "'"; }

std::vector<std::string> NamesOf(const std::vector<Command>& commands) {
  std::vector<std::string> names;
  for (const Command& command : commands) names.emplace_back(command.name);
  return names;
}

// What stands where a command is wanted.
std::vector<std::string> FirstWords(const CommandGroup& group) {
  std::vector<std::string> words = NamesOf(group.commands());
  words.insert(words.end(), {"help", "--help"});
  if (&group == &KnownCommands()) words.emplace_back("--version");
  return words;
}

// A command that only picks another.
struct Nested {
  std::string name;
  const CommandGroup* group;
};

std::vector<Nested> NestedGroups() {
  std::vector<Nested> found;
  for (const Command& command : KnownCommands().commands()) {
    if (command.group != nullptr) found.push_back({command.name, &command.group()});
  }
  return found;
}

// ---- bash

// Its helpers and the part before the table. Readline cuts words at '=' where COMP_WORDBREAKS has
// it, as it has at first: "--dtype=f" comes as three words.
constexpr const char* kBashBegin =
    R"(# Completion of penstock for bash: source <(penstock completion bash)

_penstock_words() { mapfile -t COMPREPLY < <(compgen -W "$2" -- "$1"); }
_penstock_files() {
  mapfile -t COMPREPLY < <(compgen -f -- "$1")
  compopt -o filenames 2> /dev/null
}
_penstock_folders() {
  mapfile -t COMPREPLY < <(compgen -d -- "$1")
  compopt -o filenames 2> /dev/null
}

# Sets COMPREPLY; and prefix where each reply needs one in front.
_penstock_reply() {
  local cur=${COMP_WORDS[COMP_CWORD]} flag='' equals='' rest='' command=${COMP_WORDS[1]} word
  local flags='' values=''
  if ((COMP_CWORD > 1)); then flag=${COMP_WORDS[COMP_CWORD-1]}; fi
  if [[ $cur == '=' ]]; then
    cur='' equals=1
  elif [[ $flag == '=' ]]; then
    flag=${COMP_WORDS[COMP_CWORD-2]} equals=1
  elif [[ $cur == --*=* ]]; then
    flag=${cur%%=*} equals=1 prefix=${cur%%=*}= cur=${cur#*=}
  fi
  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    if [[ $word == -- ]]; then flag='' rest=only; fi
  done
)";

constexpr const char* kBashEnd = R"(  if [[ -n $equals && -z $rest ]]; then return; fi
  if [[ $rest != only && $cur == -* ]]; then
    _penstock_words "$cur" "$flags"
    return
  fi
  case $values in
    files) _penstock_files "$cur" ;;
    folders) _penstock_folders "$cur" ;;
    ?*) _penstock_words "$cur" "$values" ;;
    *) if [[ $rest != only ]]; then _penstock_words "$cur" "$flags"; fi ;;
  esac
}

_penstock() {
  local prefix=''
  COMPREPLY=()
  _penstock_reply
  COMPREPLY=("${COMPREPLY[@]/#/$prefix}")
}
complete -F _penstock penstock
)";

std::string BashValue(const CompletedValue& value) {
  switch (value.what) {
    case Completes::kWords:
      return fmt::format("_penstock_words \"$cur\" '{}'; ", Joined(value.words, " "));
    case Completes::kFiles:
      return "_penstock_files \"$cur\"; ";
    case Completes::kFolders:
      return "_penstock_folders \"$cur\"; ";
    case Completes::kNothing:
      return "";
  }
  return "";
}

// What $values says of positional arguments.
std::string BashRest(const CompletedValue& rest) {
  switch (rest.what) {
    case Completes::kWords:
      return Joined(rest.words, " ");
    case Completes::kFiles:
      return "files";
    case Completes::kFolders:
      return "folders";
    case Completes::kNothing:
      return "";
  }
  return "";
}

std::string BashCase(const CompletedCommand& command) {
  std::vector<std::string> names;
  std::string text;
  for (const CompletedFlag& flag : command.flags) {
    names.insert(names.end(), flag.names.begin(), flag.names.end());
    if (flag.type.empty()) continue;
    text +=
        fmt::format("        {}) {}return ;;\n", Joined(flag.names, "|"), BashValue(flag.value));
  }
  return fmt::format(
      "    '{}')\n      flags='{}' values='{}'\n      case $flag in\n{}      esac ;;\n",
      command.name, Joined(names, " "), BashRest(command.rest), text);
}

// ---- zsh

// In a specification of _arguments or _describe.
std::string ZshText(std::string text) {
  for (const char* const special : {"\\", "[", "]", ":"}) {
    text = Replaced(std::move(text), special, std::string("\\") + special);
  }
  return text;
}

std::string ZshValue(const CompletedValue& value) {
  switch (value.what) {
    case Completes::kWords:
      return "(" + Joined(value.words, " ") + ")";
    case Completes::kFiles:
      return "_files";
    case Completes::kFolders:
      return "_files -/";
    case Completes::kNothing:
      return " ";
  }
  return " ";
}

// A line for each name of a flag; a flag that is there is not offered again, by none of its names.
std::string ZshFlag(const CompletedFlag& flag) {
  const std::string others = flag.again ? "*" : "(" + Joined(flag.names, " ") + ")";
  const std::string value =
      flag.type.empty() ? "" : ":" + ZshText(flag.type) + ":" + ZshValue(flag.value);
  std::string text;
  for (const std::string& name : flag.names) {
    const char* const join = flag.type.empty() ? "" : name.starts_with("--") ? "=" : "+";
    text += fmt::format("        {} \\\n", Quoted(fmt::format("{}{}{}[{}]{}", others, name, join,
                                                              ZshText(flag.summary), value)));
  }
  return text;
}

std::string ZshNames(const std::vector<Command>& commands) {
  std::string text;
  for (const Command& command : commands) {
    text += "      " + Quoted(fmt::format("{}:{}", command.name, ZshText(command.summary))) + "\n";
  }
  return text;
}

// ---- fish

std::string FishQuoted(const std::string& text) {
  return "'" + Replaced(Replaced(text, "\\", "\\\\"), "'", "\\'") + "'";
}

// The flags of `complete` for a value; after the flag's names.
std::string FishValue(const CompletedValue& value) {
  switch (value.what) {
    case Completes::kWords:
      return fmt::format(" -x -a '{}'", Joined(value.words, " "));
    case Completes::kFiles:
      return " -r -F";
    case Completes::kFolders:
      return " -x -a '(__fish_complete_directories)'";
    case Completes::kNothing:
      return " -x";
  }
  return "";
}

std::string FishFlag(const std::string& condition, const CompletedFlag& flag) {
  std::string names;
  for (const std::string& name : flag.names) {
    names += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  }
  return fmt::format("complete -c penstock -n {}{}{} -d {}\n", condition, names,
                     flag.type.empty() ? "" : FishValue(flag.value), FishQuoted(flag.summary));
}

std::string FishNames(const std::string& condition, const std::vector<Command>& commands) {
  std::string text;
  for (const Command& command : commands) {
    text += fmt::format("complete -c penstock -n {} -a {} -d {}\n", FishQuoted(condition),
                        command.name, FishQuoted(command.summary));
  }
  return text;
}

}  // namespace

std::string BashCompletion(const std::vector<CompletedCommand>& commands) {
  std::string text = kBashBegin;
  text += fmt::format(
      "  if ((COMP_CWORD == 1)); then\n    _penstock_words \"$cur\" '{}'\n    return\n  fi\n",
      Joined(FirstWords(KnownCommands()), " "));
  for (const Nested& nested : NestedGroups()) {
    text += fmt::format(
        "  if [[ $command == {0} ]]; then\n    if ((COMP_CWORD == 2)); then\n"
        "      _penstock_words \"$cur\" '{1}'\n      return\n    fi\n"
        "    command=\"{0} ${{COMP_WORDS[2]}}\"\n  fi\n",
        nested.name, Joined(FirstWords(*nested.group), " "));
  }
  text += "  case $command in\n";
  for (const CompletedCommand& command : commands) text += BashCase(command);
  text += fmt::format("    help) values='{}' ;;\n  esac\n",
                      Joined(NamesOf(KnownCommands().commands()), " "));
  return text + kBashEnd;
}

std::string ZshCompletion(const std::vector<CompletedCommand>& commands) {
  std::string text =
      "#compdef penstock\n# Completion of penstock for zsh: source <(penstock completion zsh)\n\n"
      "_penstock() {\n  local curcontext=$curcontext command\n  local -a commands";
  for (const Nested& nested : NestedGroups()) text += " " + nested.group->kind + "s";
  text += fmt::format("\n  commands=(\n{}      'help:Show what a command does'\n  )\n",
                      ZshNames(KnownCommands().commands()));
  for (const Nested& nested : NestedGroups()) {
    text += fmt::format("  {}s=(\n{}  )\n", nested.group->kind, ZshNames(nested.group->commands()));
  }
  text +=
      "  if ((CURRENT == 2)); then\n    _describe command commands\n"
      "    _arguments '--help[Print the commands]' '--version[Print the version]'\n    return\n"
      "  fi\n  shift words\n  ((CURRENT--))\n  command=$words[1]\n";
  for (const Nested& nested : NestedGroups()) {
    text += fmt::format(
        "  if [[ $command == {0} ]]; then\n    if ((CURRENT == 2)); then\n"
        "      _describe {1} {1}s\n      return\n    fi\n    shift words\n"
        "    ((CURRENT--))\n    command=\"{0} $words[1]\"\n  fi\n",
        nested.name, nested.group->kind);
  }
  text += "  case $command in\n";
  for (const CompletedCommand& command : commands) {
    text += fmt::format("    '{}')\n      _arguments -s -S \\\n", command.name);
    for (const CompletedFlag& flag : command.flags) text += ZshFlag(flag);
    if (command.rest.what == Completes::kNothing) {
      text.resize(text.rfind(" \\\n"));  // the last flag ends the call
      text += " ;;\n";
    } else {
      text += fmt::format("        '*:argument:{}' ;;\n", ZshValue(command.rest));
    }
  }
  // Read by `source` the function is announced; found by its name it is called.
  text +=
      "    help) _describe command commands ;;\n  esac\n}\n\n"
      "if [[ $funcstack[1] == _penstock ]]; then\n  _penstock \"$@\"\nelse\n"
      "  compdef _penstock penstock\nfi\n";
  return text;
}

std::string FishCompletion(const std::vector<CompletedCommand>& commands) {
  std::string text =
      "# Completion of penstock for fish: penstock completion fish | source\n\n"
      "# Whether the command line begins with these words after the program.\n"
      "function __penstock_at\n    set -l words (commandline -opc)\n    set -e words[1]\n"
      "    for word in $argv\n        test \"$words[1]\" = $word; or return 1\n"
      "        set -e words[1]\n    end\nend\n"
      "# True when exactly $argv[1] words come before the word to complete.\n"
      "function __penstock_after\n    test (count (commandline -opc)) -eq $argv[1]\nend\n\n"
      "complete -c penstock -f\n";
  text += FishNames("__penstock_after 1", KnownCommands().commands());
  text += "complete -c penstock -n '__penstock_after 1' -a help -d 'Show what a command does'\n";
  text += "complete -c penstock -n '__penstock_after 1' -l help -d 'Print the commands'\n";
  text += "complete -c penstock -n '__penstock_after 1' -l version -d 'Print the version'\n";
  text += FishNames("__penstock_after 2; and __penstock_at help", KnownCommands().commands());
  for (const Nested& nested : NestedGroups()) {
    text +=
        FishNames("__penstock_after 2; and __penstock_at " + nested.name, nested.group->commands());
  }
  for (const CompletedCommand& command : commands) {
    const std::string condition = "'__penstock_at " + command.name + "'";
    if (command.rest.what == Completes::kFiles) {
      text += fmt::format("complete -c penstock -n {} -F\n", condition);
    } else if (command.rest.what != Completes::kNothing) {
      text += fmt::format("complete -c penstock -n {}{}\n", condition, FishValue(command.rest));
    }
    for (const CompletedFlag& flag : command.flags) text += FishFlag(condition, flag);
  }
  return text;
}

}  // namespace penstock::cli

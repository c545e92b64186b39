#include "cli/command_line.h"

#include <algorithm>
#include <cstdlib>

#include "base/printable.h"
#include "cli/help.h"
#include "log/status_line.h"

namespace penstock::cli {
namespace {

std::string OneLine(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  std::replace(text.begin(), text.end(), '\n', ' ');
  return Printable(text);  // it may quote a file or another server
}

// What Parse calls instead of reading anything, while VisitCommandLines runs.
const std::function<void(const CommandLine&)>* visitor = nullptr;

// Commands of `group`, then those of the groups among them.
void VisitGroup(const CommandGroup& group,
                const std::function<void(const Command&, const CommandLine&)>& visit) {
  for (const Command& command : group.commands()) {
    if (command.group != nullptr) continue;
    const std::function<void(const CommandLine&)> of_command = [&](const CommandLine& line) {
      visit(command, line);
    };
    visitor = &of_command;
    command.run({});
    visitor = nullptr;
  }
  for (const Command& command : group.commands()) {
    if (command.group != nullptr) VisitGroup(command.group(), visit);
  }
}

// The flags of every command.
std::vector<CommandFlags> FlagsOfCommands() {
  std::vector<CommandFlags> all;
  VisitCommandLines([&](const Command&, const CommandLine& line) {
    all.push_back({line.name(), FlagNames(line.flags().app())});
  });
  return all;
}

}  // namespace

void VisitCommandLines(const std::function<void(const Command&, const CommandLine&)>& visit) {
  VisitGroup(KnownCommands(), visit);
}

CommandLine::CommandLine(const std::string& name, const std::string& summary,
                         const std::string& examples)
    : program_((name.starts_with("lab ") ? "penstock-" : "penstock ") + name),
      examples_(examples),
      flags_(summary, program_) {
  rules_.command = name;
  flags_.AddSwitch("-h,--help", help_, "Print this help and leave.");
  flags_.AddSwitch("--help-all", help_all_, "Print the help with every flag and leave.");
  flags_.AddOption("--config", config_, "TOML file with settings; keys are flag names.")
      ->TypeName("FILE");
  flags_.AddSwitch("--print-config", print_config_,
                   "Print the settings in effect, each with where it comes from, as a file that "
                   "--config takes, and leave. Secrets stay out.");
  std::string table = name;
  std::replace(table.begin(), table.end(), ' ', '.');
  flags_.Footer(
      "Any flag may be set by a variable PENSTOCK_<FLAG> (PENSTOCK_PORT=80) or in the --config "
      "file\n(port = 80; after a line [" +
      table +
      "] for this command alone). A flag beats the variable, the\nvariable beats the file. Lists "
      "in variables have commas or line breaks between their items.\nBYTES take suffixes (32MB, "
      "32MiB); US, MS and S, too (500ms, 30s, 1h).\n");
}

void CommandLine::HideInHelp(const std::vector<std::string>& names) {
  hidden_.insert(hidden_.end(), names.begin(), names.end());
}

std::optional<int> CommandLine::Parse(const std::vector<std::string>& args) {
  if (visitor != nullptr) {
    (*visitor)(*this);
    return kExitOk;
  }
  Settings settings(&flags_.app(), &rules_);
  const Status arguments = settings.ReadArguments(args);
  if (settings.IsGiven("help") || settings.IsGiven("help-all")) {
    std::fputs(HelpText(flags_.app(), examples_, hidden_, settings.IsGiven("help-all")).c_str(),
               stdout);
    return kExitOk;
  }
  on_line_ = settings.OnLine();
  const Status read = ReadSettings(arguments, &settings);
  if (!read.ok()) return FailUsage(read.message());
  if (settings.IsGiven("print-config")) {
    std::fputs(settings.ToToml().c_str(), stdout);
    return kExitOk;
  }
  const Status complete = settings.CheckRequired();
  if (!complete.ok()) return FailUsage(complete.message());
  return std::nullopt;
}

Status CommandLine::ParseArguments(const std::vector<std::string>& args) {
  Settings settings(&flags_.app(), &rules_);
  PENSTOCK_RETURN_IF_ERROR(settings.ReadArguments(args));
  PENSTOCK_RETURN_IF_ERROR(settings.Apply());
  return settings.CheckRequired();
}

Status CommandLine::ReadSettings(const Status& arguments, Settings* settings) const {
  PENSTOCK_RETURN_IF_ERROR(arguments);
  std::vector<CommandFlags> others;
  if (!settings->UnknownVariables({}).empty()) {
    others = FlagsOfCommands();
    for (const std::string& unknown : settings->UnknownVariables(others)) {
      std::fprintf(stderr, "%s: %s\n", program_.c_str(), OneLine(unknown).c_str());
    }
  }
  PENSTOCK_RETURN_IF_ERROR(settings->ReadVariables());
  const char* const variable = std::getenv("PENSTOCK_CONFIG");
  std::string config = settings->ValueOf("config");
  if (settings->IsGiven("config") && config.empty()) {
    return Status::InvalidArgument("--config is empty; it is to be a file");
  }
  if (config.empty() && variable != nullptr) config = variable;
  if (!config.empty()) {
    if (others.empty()) others = FlagsOfCommands();
    PENSTOCK_RETURN_IF_ERROR(settings->ReadFile(config, others));
  }
  return settings->Apply();
}

int CommandLine::Fail(const Status& status) const {
  StatusLine::MakeRoom();
  std::fprintf(stderr, "%s: %s\n", program_.c_str(), OneLine(status.message()).c_str());
  return kExitFailure;
}

int CommandLine::FailUsage(const std::string& message) const {
  StatusLine::MakeRoom();
  std::fprintf(stderr, "%s: %s (see %s --help)\n", program_.c_str(), OneLine(message).c_str(),
               program_.c_str());
  return kExitUsage;
}

}  // namespace penstock::cli

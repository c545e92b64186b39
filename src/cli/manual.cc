// penstock man.
#include "cli/manual.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <sstream>

#include "cli/command_group.h"
#include "cli/command_line.h"
#include "cli/help.h"
#include "os/output_file.h"

namespace penstock::cli {
namespace {

// Text of a page: nothing in it is taken for a request or an escape.
std::string Roff(const std::string& text) {
  std::string out;
  bool begins = true;
  for (const char c : text) {
    if (begins && (c == '.' || c == '\'')) out += "\\&";
    begins = c == '\n';
    switch (c) {
      case '\\':
        out += "\\e";
        break;
      case '-':  // else it may be printed as another dash, which a shell does not take
        out += "\\-";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string PageName(std::string program) {
  std::replace(program.begin(), program.end(), ' ', '-');
  return program;
}

// The lines of examples, as they are but for the two blanks in front.
std::string Examples(const std::string& lines) {
  std::string text = ".SH EXAMPLES\n.EX\n";
  std::istringstream in(lines);
  for (std::string line; std::getline(in, line);) {
    text += Roff(line.starts_with("  ") ? line.substr(2) : line) + "\n";
  }
  return text + ".EE\n";
}

std::string Begin(const std::string& program, const std::string& summary) {
  const std::string name = Roff(PageName(program));
  return fmt::format(
      ".\\\" Made by penstock man.\n.TH {} 1 \"\" \"penstock {}\" \"Penstock\"\n.SH NAME\n"
      "{} \\- {}\n.SH SYNOPSIS\n\\fB{}\\fR",
      InCapitals(name), Roff(PENSTOCK_VERSION), name, Roff(summary), Roff(program));
}

// The page of the group that picks `program`.
std::string SeeAlso(const std::string& program) {
  return fmt::format(".SH SEE ALSO\n\\fB{}\\fR(1)\n",
                     Roff(PageName(program.substr(0, program.rfind(' ')))));
}

// The title of a flag: names bold, the type in italics.
std::string Title(const CLI::Option* option) {
  if (option->get_positional()) return "\\fI" + Roff(option->get_name(true)) + "\\fR";
  std::string title = FlagTitle(option);
  const std::string type = IsSwitch(option) ? "" : " " + BareType(option);
  title.resize(title.size() - type.size());
  return "\\fB" + Roff(title) + "\\fR" +
         (type.empty() ? "" : " \\fI" + Roff(type.substr(1)) + "\\fR");
}

std::string Paragraph(const CLI::Option* option) {
  return ".TP\n" + Title(option) + "\n" + Roff(FlagText(option)) + "\n";
}

ManualPage PageOf(const Command& command, const CommandLine& line) {
  const CLI::App& app = line.flags().app();
  const std::string program = app.get_name();
  std::string synopsis = " [\\fIFLAGS\\fR]";
  std::string arguments;
  std::string groups;
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_positional()) continue;
    synopsis += " " + Roff(PositionalTitle(option));
    arguments += Paragraph(option);
  }
  for (const std::string& group : app.get_groups()) {
    std::string text;
    for (const CLI::Option* option : app.get_options()) {
      if (!option->get_positional() && option->get_group() == group) text += Paragraph(option);
    }
    if (!text.empty()) groups += ".SS " + Roff(group) + "\n" + text;
  }
  std::string text = Begin(program, command.summary) + synopsis + "\n.SH DESCRIPTION\n" +
                     Roff(app.get_description()) + "\n";
  if (!arguments.empty()) text += ".SH ARGUMENTS\n" + arguments;
  text += ".SH OPTIONS\n" + groups + ".SH SETTINGS\n" + Roff(app.get_footer()) +
          Examples(line.examples()) + SeeAlso(program);
  return {PageName(program), std::move(text)};
}

ManualPage PageOf(const CommandGroup& group) {
  std::string text = Begin(group.program, group.summary) + " \\fI" + InCapitals(group.kind) +
                     "\\fR [\\fIFLAGS\\fR]\n.SH DESCRIPTION\nEach " + group.kind +
                     " has a page of its own.\n";
  for (const Command& command : group.commands()) {
    text += fmt::format(".TP\n\\fB{}\\fR(1)\n{}\n",
                        Roff(PageName(group.program + " " + command.name)), Roff(command.summary));
  }
  text += ".SH NOTES\n.EX\n" + Roff(group.notes) + ".EE\n";
  if (!group.examples.empty()) text += Examples(group.examples);
  if (&group != &KnownCommands()) text += SeeAlso(group.program);
  return {PageName(group.program), std::move(text)};
}

Status WritePages(const std::string& folder) {
  std::error_code failure;
  std::filesystem::create_directories(folder, failure);
  for (const ManualPage& page : ManualPages()) {
    PENSTOCK_ASSIGN_OR_RETURN(OutputFile file, OutputFile::Open(folder + "/" + page.name + ".1"));
    file.Write(page.text);
    PENSTOCK_RETURN_IF_ERROR(file.Close());
  }
  return Status::Ok();
}

}  // namespace

std::vector<ManualPage> ManualPages() {
  std::vector<ManualPage> pages = {PageOf(KnownCommands())};
  for (const Command& command : KnownCommands().commands()) {
    if (command.group != nullptr) pages.push_back(PageOf(command.group()));
  }
  VisitCommandLines([&](const Command& command, const CommandLine& line) {
    pages.push_back(PageOf(command, line));
  });
  return pages;
}

int RunMan(const std::vector<std::string>& args) {
  CommandLine line("man",
                   "Print the manual page of penstock, of a command or of a benchmark, in the form "
                   "that man reads. It says what --help-all says.",
                   "  penstock man | man -l -\n"
                   "  penstock man bench http | man -l -\n"
                   "  penstock man --folder ~/.local/share/man/man1\n");
  std::vector<std::string> words;
  std::string folder;
  line.flags().AddOption("COMMAND", words,
                         "Command whose page is printed. Default: the page of penstock itself.");
  line.flags()
      .AddOption("--folder", folder,
                 "Write every page into this folder, which is made if it does not exist: "
                 "penstock.1, penstock-serve.1, ...")
      ->TypeName("DIR");
  if (const auto exit_code = line.Parse(args)) return *exit_code;
  if (!folder.empty()) {
    if (!words.empty()) return line.FailUsage("--folder writes every page; leave COMMAND out");
    const Status written = WritePages(folder);
    return written.ok() ? kExitOk : line.Fail(written);
  }
  const std::string name = PageName(fmt::format("penstock {}", fmt::join(words, " ")));
  for (const ManualPage& page : ManualPages()) {
    if (page.name != (words.empty() ? "penstock" : name)) continue;
    std::fputs(page.text.c_str(), stdout);
    return kExitOk;
  }
  return line.FailUsage(fmt::format("there is no command '{}'", fmt::join(words, " ")));
}

}  // namespace penstock::cli

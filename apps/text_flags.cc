#include "text_flags.h"

#include <algorithm>
#include <utility>

namespace penstock {
namespace {

constexpr std::pair<const char*, InputFormat> kFormats[] = {
    {"auto", InputFormat::kAuto}, {"text", InputFormat::kText}, {"jsonl", InputFormat::kJsonl},
    {"json", InputFormat::kJson}, {"csv", InputFormat::kCsv},   {"tsv", InputFormat::kTsv}};
constexpr std::pair<const char*, TextEncoding> kEncodings[] = {
    {"utf-8", TextEncoding::kUtf8},
    {"latin1", TextEncoding::kLatin1},
    {"windows-1252", TextEncoding::kWindows1252},
    {"utf-16", TextEncoding::kUtf16}};

// A flag whose value is one of a few names.
template <typename Value, size_t size>
CLI::Option* AddChoice(CLI::App* app, const std::string& flag, Value* value,
                       const std::pair<const char*, Value> (&choices)[size],
                       const std::string& description) {
  std::vector<std::string> names;
  for (const auto& [name, choice] : choices) names.emplace_back(name);
  const auto choose = [value, &choices](const std::string& typed) {
    for (const auto& [name, choice] : choices) {
      if (typed == name) *value = choice;
    }
  };
  return app->add_option_function<std::string>(flag, choose, description)
      ->check(CLI::IsMember(names))
      ->default_str(choices[0].first);
}

// "\\n" as typed in a shell is a newline.
std::string WithEscapes(const std::string& typed) {
  std::string text;
  for (size_t i = 0; i < typed.size(); ++i) {
    const char next = typed[i] == '\\' && i + 1 < typed.size() ? typed[i + 1] : '\0';
    if (next == 'n' || next == 't' || next == '\\') {
      text += next == 'n' ? '\n' : next == 't' ? '\t' : '\\';
      ++i;
    } else {
      text += typed[i];
    }
  }
  return text;
}

}  // namespace

bool ReadsTerminal(const TextFlags& flags) {
  const auto& files = flags.files;
  const bool reads_stdin =
      files.empty() || std::find(files.begin(), files.end(), "-") != files.end();
  return reads_stdin && isatty(STDIN_FILENO) != 0;
}

Status CheckInput(const TextFlags& flags) {
  PENSTOCK_RETURN_IF_ERROR(RowReader(flags.files, flags.input).Check());
  if (!flags.quiet && ReadsTerminal(flags)) {
    std::fputs("reading texts from the terminal, one a line; Ctrl-D ends them\n", stderr);
  }
  return Status::Ok();
}

void AddInputFlags(CommandLine* line, InputOptions* options) {
  CLI::App& app = line->app();
  const std::string group = "Input";
  AddChoice(&app, "--format", &options->format, kFormats,
            "text: a line each. jsonl: a JSON string or object a line. json: an array of "
            "these. csv, tsv: a table, its first line names the columns. auto: by the first "
            "bytes, then the name of a file. gzip and zstd are unpacked in any case.")
      ->type_name("FORMAT")
      ->group(group);
  app.add_option("--text-field", options->text_fields,
                 "Field of the objects, or column of the table, that is the text. May be given "
                 "again: the texts are joined. [the first there is of text, input, content]")
      ->allow_extra_args(false)
      ->default_str("")
      ->type_name("NAME")
      ->group(group);
  app.add_option_function<std::string>(
         "--join", [options](const std::string& typed) { options->join = WithEscapes(typed); },
         "Separator of the texts of several fields; \\n is a newline. [a blank]")
      ->type_name("TEXT")
      ->group(group);
  app.add_option("--id-field", options->id_field,
                 "Field or column that identifies a text: a string or an integer.")
      ->type_name("NAME")
      ->group(group);
  AddChoice(&app, "--encoding", &options->encoding, kEncodings,
            "Encoding of the files: utf-8, latin1, windows-1252 or utf-16.")
      ->type_name("NAME")
      ->group(group);
}

void AddTextFlags(CommandLine* line, TextFlags* flags, const std::string& what) {
  CLI::App& app = line->app();
  app.add_option("FILES", flags->files, what + "; none or - is stdin.");
  AddInputFlags(line, &flags->input);
  const std::string group = "Output";
  app.add_option("-o,--output", flags->output, "File to write; none or - is stdout.")
      ->type_name("FILE")
      ->group(group);
  app.add_option("--batch", flags->batch, "Inputs handed over at a time.")
      ->check(CLI::Range(1, 2048))
      ->type_name("N")
      ->group(group);
  app.add_flag("-q,--quiet", flags->quiet, "No progress on stderr.")->group(group);
}

}  // namespace penstock

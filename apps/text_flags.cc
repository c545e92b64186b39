#include "text_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace penstock::cli {
namespace {

constexpr std::pair<const char*, corpus::InputFormat> kFormats[] = {
    {"auto", corpus::InputFormat::kAuto},   {"text", corpus::InputFormat::kText},
    {"jsonl", corpus::InputFormat::kJsonl}, {"json", corpus::InputFormat::kJson},
    {"csv", corpus::InputFormat::kCsv},     {"tsv", corpus::InputFormat::kTsv}};
constexpr std::pair<const char*, corpus::TextEncoding> kEncodings[] = {
    {"utf-8", corpus::TextEncoding::kUtf8},
    {"latin1", corpus::TextEncoding::kLatin1},
    {"windows-1252", corpus::TextEncoding::kWindows1252},
    {"utf-16", corpus::TextEncoding::kUtf16}};

// A flag whose value is one of a few names.
template <typename Choice, size_t size>
void AddChoice(const FlagGroup& group, const std::string& flag, Choice* value,
               const std::string& type, const std::pair<const char*, Choice> (&choices)[size],
               const std::string& description) {
  std::vector<std::string> names;
  for (const auto& [name, choice] : choices) names.emplace_back(name);
  const auto choose = [value, &choices](const std::string& typed) {
    for (const auto& [name, choice] : choices) {
      if (typed == name) *value = choice;
    }
  };
  group.AddFunction<std::string>(flag, choose, type, description)
      ->Check(OneOf(names))
      ->DefaultText(choices[0].first);
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

// The error of an output whose name promises a format that is not written; empty: none.
std::string CheckOutputName(const std::string& path, bool matrices) {
  static constexpr const char* kOthers[] = {
      ".parquet", ".npz",    ".csv", ".tsv", ".xlsx", ".arrow", ".feather", ".h5",    ".hdf5",
      ".pkl",     ".pickle", ".pt",  ".pth", ".bin",  ".db",    ".sqlite",  ".faiss", ".index",
      ".avro",    ".orc",    ".gz",  ".zst", ".bz2",  ".xz",    ".zip"};
  static constexpr const char* kMatrices[] = {".npy", ".safetensors"};
  const char* refused = nullptr;
  for (const char* ending : kOthers) refused = path.ends_with(ending) ? ending : refused;
  for (const char* ending : kMatrices) {
    if (!matrices && path.ends_with(ending)) refused = ending;
  }
  if (refused == nullptr) return "";
  return fmt::format("'{}': {} files are not written; what is written: JSON lines (.jsonl){}", path,
                     refused, matrices ? ", .npy and .safetensors" : "");
}

}  // namespace

bool ReadsTerminal(const TextFlags& flags) {
  const auto& files = flags.files;
  const bool reads_stdin =
      files.empty() || std::find(files.begin(), files.end(), "-") != files.end();
  return reads_stdin && isatty(STDIN_FILENO) != 0;
}

Status CheckInput(const TextFlags& flags) {
  PENSTOCK_RETURN_IF_ERROR(corpus::RowReader(flags.files, flags.input).Check());
  if (!flags.quiet && ReadsTerminal(flags)) {
    std::fputs("reading texts from the terminal, one a line; Ctrl-D ends them\n", stderr);
  }
  return Status::Ok();
}

void WriteInputSettings(const corpus::InputOptions& input, JsonWriter* json) {
  if (!input.id_field.empty()) json->Field("id-field", input.id_field);
  if (!input.text_fields.empty()) {
    json->Key("text-field").BeginArray();
    for (const std::string& field : input.text_fields) json->String(field);
    json->EndArray().Field("join", input.join);
  }
  if (input.encoding != corpus::TextEncoding::kUtf8) {
    json->Field("encoding", static_cast<int>(input.encoding));
  }
}

void AddInputFlags(CommandLine* line, corpus::InputOptions* options) {
  const FlagGroup group(&line->flags(), "Input");
  AddChoice(group, "--format", &options->format, "FORMAT", kFormats,
            "text: a line each. jsonl: a JSON string or object a line. json: an array of "
            "these. csv, tsv: a table, its first line names the columns. auto: by the first "
            "bytes, then the name of a file. gzip and zstd are unpacked in any case.");
  group
      .AddRepeated("--text-field", options->text_fields, "NAME",
                   "Field of the objects, or column of the table, that is the text. May be given "
                   "again: the texts are joined. [the first there is of text, input, content]")
      ->DefaultText("");
  group.AddFunction<std::string>(
      "--join", [options](const std::string& typed) { options->join = WithEscapes(typed); }, "TEXT",
      "Separator of the texts of several fields; \\n is a newline. [a blank]");
  group.Add("--id-field", options->id_field, "NAME",
            "Field or column that identifies a text: a string or an integer.");
  AddChoice(group, "--encoding", &options->encoding, "NAME", kEncodings,
            "Encoding of the files: utf-8, latin1, windows-1252 or utf-16.");
}

void AddTextFlags(CommandLine* line, TextFlags* flags, const std::string& what) {
  FlagSet& app = line->flags();
  app.AddOption("FILES", flags->files, what + "; none or - is stdin.");
  AddInputFlags(line, &flags->input);
  const FlagGroup group(&app, "Output");
  const bool matrices = line->name() == "embed";
  const FlagRule name([matrices](std::string& path) { return CheckOutputName(path, matrices); },
                      "");
  group.Add("-o,--output", flags->output, "FILE", name, "File to write; none or - is stdout.");
  group.Add("--batch", flags->batch, "N", InRange(1, 2048), "Inputs handed over at a time.");
  group.Switch("-q,--quiet", flags->quiet, "No progress on stderr.");
}

}  // namespace penstock::cli

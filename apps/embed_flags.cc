#include "embed_flags.h"

#include "bulk/embed_plot.h"
#include "json/json_writer.h"

namespace penstock::cli {
namespace {

void AddRunFlags(FlagSet* app, EmbedFlags* flags) {
  const FlagGroup group(app, "Long runs");
  group.Switch("--resume", flags->resume,
               "Go on where a run for the same --output ended early, whatever ended it: the result "
               "is that of one undisturbed run. Without such a run it begins anew.");
  group.Switch("--restart", flags->restart, "Begin anew, and drop what an earlier run did.")
      ->Excludes(app->Get("--resume"));
  group
      .AddFunction<std::string>(
          "--on-error",
          [flags](const std::string& typed) { flags->bulk_options.skip = typed == "skip"; },
          "stop|skip", OneOf({"stop", "skip"}),
          "A row that cannot be read, or that the model or server refuses: stop there; or skip it, "
          "with zeros in a matrix and null in JSON lines, name it in OUTPUT.errors.jsonl, and "
          "leave with exit code 3.")
      ->DefaultText("stop");
  group.Add("--bulk-window", flags->bulk_options.window_rows, "N", InRange(1, 1 << 20),
            "Texts that are sorted together, at most; fewer where the model does fewer in 1.5 s. "
            "Memory holds two such windows.");
  group.Add("--bulk-requests", flags->bulk_options.requests, "N", InRange(1, 64),
            "Requests at work at once.");
  group.Switch("--bulk", flags->bulk, "Always so now; accepted for older scripts.");
}

}  // namespace

void AddEmbedFlags(CommandLine* line, EmbedFlags* flags) {
  FlagSet& app = line->flags();
  const FlagGroup group(&app, "Embedding");
  group.Add("--prompt-name", flags->prompt_name, "NAME", "Prompt of the model, such as query.");
  group.Add("--prompt", flags->prompt, "TEXT", "Text to put before each input.");
  group.Add("--dimensions", flags->dimensions, "N", InRange(1, 1 << 20),
            "Keep the first N numbers (Matryoshka).");
  flags->normalize_flag =
      group.Switch("--normalize,!--no-normalize", flags->normalize,
                   "Scale vectors to length 1, or not (default: as the model says).");
  group
      .Add("--precision", flags->precision, "TYPE",
           "Numbers of a matrix: float32, float16, int8 (each vector times 127 over its largest "
           "magnitude), binary (a bit a number, 1 where positive).")
      ->Transform(NameOf(bulk::Precisions()))
      ->DefaultText("float32");
  AddRunFlags(&app, flags);
  FlagGroup(&app, "Output")
      .Add(
          "--plot", flags->plot, "FILE",
          FlagRule([](std::string& path) { return bulk::PlotNameFault(path); }, ""),
          "Draw the vectors as points, too, by their two principal axes, with the texts as labels: "
          "an SVG file. More than 10000 rows, or 64 MiB of vectors, give an even sample. Not with "
          "--resume, which does not compute all vectors again.")
      ->Excludes(app.Get("--resume"));
  AddShardFlags(line, &flags->shard, /*verify=*/true);
  FlagGroup(&app, "Shards")
      .AddFunction<std::string>(
          "--parts", [flags](const std::string& typed) { flags->parts = "." + typed; }, "FORMAT",
          OneOf({"npy", "safetensors", "jsonl"}), "What parts are: matrices or JSON lines.")
      ->DefaultText("npy");
  AddServerFlags(line, &flags->server);
}

api::EmbedRequest NewRequest(const EmbedFlags& flags) {
  api::EmbedRequest request;
  request.text.prompt = flags.prompt;
  request.text.prompt_name = flags.prompt_name;
  request.dimensions = flags.dimensions;
  if (flags.normalize_flag->count() > 0) request.normalize = flags.normalize;
  return request;
}

Expected<client::EmbedClientOptions> EmbedOptions(const EmbedFlags& flags,
                                                  const CommandLine& line) {
  client::EmbedClientOptions options;
  PENSTOCK_ASSIGN_OR_RETURN(options.server, ClientOptions(flags.server));
  options.model = NameAtServer(line, flags.model.models);
  options.prompt = flags.prompt;
  options.prompt_name = flags.prompt_name;
  options.dimensions = flags.dimensions;
  if (flags.normalize_flag->count() > 0) options.normalize = flags.normalize;
  return options;
}

std::string SettingsText(const EmbedFlags& flags, bool matrix) {
  std::string text;
  JsonWriter json(&text);
  json.BeginObject().Field("output", matrix ? "matrix" : "jsonl");
  if (matrix) json.Field("precision", bulk::PrecisionName(flags.precision));
  if (flags.prompt) json.Field("prompt", *flags.prompt);
  if (flags.prompt_name) json.Field("prompt-name", *flags.prompt_name);
  if (flags.dimensions) json.Field("dimensions", *flags.dimensions);
  if (flags.normalize_flag->count() > 0) json.Field("normalize", flags.normalize);
  if (flags.bulk_options.skip) json.Field("on-error", "skip");
  WriteInputSettings(flags.text.input, &json);
  json.EndObject();
  return text;
}

}  // namespace penstock::cli

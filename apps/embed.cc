// penstock embed: texts to vectors.
#include <fmt/format.h>

#include <map>
#include <optional>

#include "bulk_embed.h"
#include "client/embed_client.h"
#include "commands.h"
#include "common/json_writer.h"
#include "common/log.h"
#include "common/printable.h"
#include "common/step_progress.h"
#include "common/worker_pool.h"
#include "embed_output.h"
#include "embed_plot.h"
#include "input_scan.h"
#include "interruption.h"
#include "model_flags.h"
#include "request_window.h"
#include "server_flags.h"
#include "text_flags.h"

namespace penstock::cli {
namespace {

struct EmbedFlags {
  runtime::ModelOptions model;
  TextFlags text;
  std::optional<std::string> prompt;
  std::optional<std::string> prompt_name;
  std::optional<int32_t> dimensions;
  bool normalize = false;
  Flag* normalize_flag = nullptr;  // was it given?
  Precision precision = Precision::kFloat32;
  bool bulk = false;  // accepted for older scripts
  bool resume = false;
  bool restart = false;
  std::string plot;
  BulkOptions bulk_options;
  ServerFlags server;
};

const std::map<std::string, Precision> kPrecisions = {{"float32", Precision::kFloat32},
                                                      {"float16", Precision::kFloat16},
                                                      {"int8", Precision::kInt8},
                                                      {"binary", Precision::kBinary}};

std::string PrecisionName(Precision precision) {
  for (const auto& [name, value] : kPrecisions) {
    if (value == precision) return name;
  }
  return "";
}

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
      ->Transform(NameOf(kPrecisions))
      ->DefaultText("float32");
  AddRunFlags(&app, flags);
  FlagGroup(&app, "Output")
      .Add("--plot", flags->plot, "FILE",
           FlagRule([](std::string& path) { return PlotNameFault(path); }, ""),
           "Draw the vectors as points, too, by their two principal axes: .svg, with the texts as "
           "labels, or .png. More than 10000 rows, or 64 MiB of vectors, give an even sample. Not "
           "with --resume, which does not compute all vectors again.")
      ->Excludes(app.Get("--resume"));
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

// The settings that shape the vectors, besides the model and the input.
std::string SettingsText(const EmbedFlags& flags) {
  std::string text;
  JsonWriter json(&text);
  const auto matrix = MatrixFormatOf(flags.text.output);
  json.BeginObject().Field("output", matrix ? "matrix" : "jsonl");
  if (matrix) json.Field("precision", PrecisionName(flags.precision));
  if (flags.prompt) json.Field("prompt", *flags.prompt);
  if (flags.prompt_name) json.Field("prompt-name", *flags.prompt_name);
  if (flags.dimensions) json.Field("dimensions", *flags.dimensions);
  if (flags.normalize_flag->count() > 0) json.Field("normalize", flags.normalize);
  if (flags.bulk_options.skip) json.Field("on-error", "skip");
  const corpus::InputOptions& input = flags.text.input;
  if (!input.id_field.empty()) json.Field("id-field", input.id_field);
  if (!input.text_fields.empty()) {
    json.Key("text-field").BeginArray();
    for (const std::string& field : input.text_fields) json.String(field);
    json.EndArray().Field("join", input.join);
  }
  if (input.encoding != corpus::TextEncoding::kUtf8) {
    json.Field("encoding", static_cast<int>(input.encoding));
  }
  json.EndObject();
  return text;
}

// Embeds by a model in this process, or by a server.
struct Embedder {
  StartEmbed start;
  EmbedOutput::EmbedOne embed_one;
  std::function<void()> stop;  // as soon as possible; from any thread
};

// Shared by the parts of a run.
struct EmbedRun {
  const EmbedFlags& flags;
  const CommandLine& line;
  Interruption* interruption;
  EmbedOutput* output;
  std::optional<EmbedPlot>* plot;  // nullopt: not asked for
  ProgressLine* progress;
  InputScan scan;
};

// Prints skipped rows, where no file names them.
void TellSkipped(const BulkWindow& window) {
  const int64_t first = window.mark().rows - static_cast<int64_t>(window.rows());
  for (size_t row = 0; row < window.rows(); ++row) {
    if (!window.error(row)) continue;
    StatusLine::MakeRoom();
    std::fprintf(stderr, "penstock embed: row %lld is skipped: %s: %s\n",
                 static_cast<long long>(first + static_cast<int64_t>(row)),
                 Printable(window.where(row)).c_str(), Printable(*window.error(row)).c_str());
  }
}

// Everything before the first row is embedded: the model or server is asked, the rows that are done
// are read over, and the output is opened.
Status BeginWork(const EmbedRun& run, const Embedder& embedder, RowSource* source,
                 BulkOptions* options) {
  EmbedOutput* const output = run.output;
  if (output->rows_before() > 0) run.progress->Begin("reading the rows that are done");
  PENSTOCK_RETURN_IF_ERROR(output->SkipRowsBefore(source, embedder.embed_one));
  if (output->rows_before() > 0 && !run.flags.text.quiet) {
    StatusLine::MakeRoom();
    std::fprintf(stderr, "penstock embed: going on after the %lld rows that are done\n",
                 static_cast<long long>(output->rows_before()));
  }
  // A failure of this text is not a row's.
  PENSTOCK_ASSIGN_OR_RETURN(const std::vector<float> vector, embedder.embed_one("a"));
  options->dimensions = static_cast<int32_t>(vector.size());
  if (*run.plot) options->label_bytes = EmbedPlot::kLabelBytes;
  PENSTOCK_RETURN_IF_ERROR(output->CheckRoom(run.scan.rows, options->dimensions));
  output->Expect(run.scan.RowsExpected());
  PENSTOCK_RETURN_IF_ERROR(output->Open());
  run.progress->Expect(run.scan.TextBytesExpected());
  run.progress->GoOnBehind(output->rows_before(), source->bytes());
  run.progress->Begin("embedding");
  return Status::Ok();
}

Status RunWith(const EmbedRun& run, const Embedder& embedder) {
  BulkOptions options = run.flags.bulk_options;
  corpus::InputOptions input = run.flags.text.input;
  input.stop_fd = run.interruption->fd();
  corpus::RowReader reader(run.flags.text.files, input);
  RowSource source(&reader, options.skip);
  const Interruption::Stop stop(run.interruption, [&options, &embedder] {
    options.stop->Cancel();
    embedder.stop();
  });
  PENSTOCK_RETURN_IF_ERROR(BeginWork(run, embedder, &source, &options));
  return EmbedInBulk(
      &source, options, embedder.start,
      [&run](const BulkWindow& window) {
        run.progress->AddSkipped(static_cast<int64_t>(window.skipped()));
        if (run.output->ErrorsPath().empty()) TellSkipped(window);
        if (*run.plot) (*run.plot)->Add(window);
        return run.output->Append(window);
      },
      [&run](size_t texts, const api::EmbedResponse& response, int64_t bytes) {
        run.progress->Add(texts, response.usage, response.truncation, bytes);
      });
}

std::vector<api::Input> InputsOf(std::vector<std::string> texts) {
  std::vector<api::Input> inputs;
  for (std::string& text : texts) inputs.push_back({std::move(text), {}, false});
  return inputs;
}

Embedder LocalEmbedder(const EmbedFlags& flags, api::Service* service) {
  Embedder embedder;
  embedder.start = [&flags, service](std::vector<std::string> texts,
                                     api::Callback<api::EmbedResponse> done) {
    api::EmbedRequest request = NewRequest(flags);
    request.inputs = InputsOf(std::move(texts));
    RequestContext context;
    context.priority = Priority::kBulk;
    context.cancel = flags.bulk_options.stop;
    service->Embed(std::move(request), std::move(context), std::move(done));
  };
  embedder.embed_one =
      [start = embedder.start](const std::string& text) -> Expected<std::vector<float>> {
    PENSTOCK_ASSIGN_OR_RETURN(api::EmbedResponse response,
                              Ask<api::EmbedResponse>([&](api::Callback<api::EmbedResponse> done) {
                                start({text}, std::move(done));
                              }).get());
    return std::move(response.values);
  };
  embedder.stop = [] {};
  return embedder;
}

Expected<api::EmbedResponse> AskServer(client::EmbedClient* client,
                                       const std::vector<std::string>& texts) {
  PENSTOCK_ASSIGN_OR_RETURN(client::EmbeddedTexts answer, client->Embed(texts));
  api::EmbedResponse response;
  response.dimensions = answer.dimensions;
  response.values = std::move(answer.values);
  response.usage.prompt_tokens = answer.prompt_tokens;
  response.truncation = {answer.truncated_inputs, answer.truncated_tokens};
  return response;
}

// "3 rows were skipped; x.errors.jsonl names them"
void ReportSkipped(int64_t rows, const std::string& errors_path) {
  std::fprintf(
      stderr, "penstock embed: %lld row%s skipped%s%s\n", static_cast<long long>(rows),
      rows == 1 ? " was" : "s were", errors_path.empty() ? "" : "; ",
      errors_path.empty() ? "" : (errors_path + " names " + (rows == 1 ? "it" : "them")).c_str());
}

// The model that made the vectors, as far as it is known here.
struct Made {
  std::string model;
  int32_t dimensions = 0;
  int32_t max_tokens = 0;
};

// The vectors are in place by now, and stay there if this fails.
Status WritePlot(const EmbedRun& run, const Made& made) {
  if (!*run.plot) return Status::Ok();
  const StepProgress drawing("drawing the plot", !run.progress->on_terminal());
  const Status drawn = (*run.plot)->Write(made.model);
  return drawn.ok() ? drawn : drawn.Annotate("--plot " + run.flags.plot);
}

// The exit code after a run that ended with `status`: that of the signal where one ended it.
int Finish(const EmbedRun& run, Status status, const Made& made) {
  EmbedOutput* const output = run.output;
  const std::string errors_path = output->ErrorsPath();
  if (status.ok()) status = output->Finish(made.dimensions);
  if (status.ok()) {
    run.progress->Finish();
    ReportCut(output->cut(), "embed", made.max_tokens);
    if (const Status plot = WritePlot(run, made); !plot.ok()) return run.line.Fail(plot);
    if (output->skipped() == 0) return kExitOk;
    ReportSkipped(output->skipped(), errors_path);
    return kExitSkipped;
  }
  const int number = run.interruption->signal();
  if (number == 0) {
    status = output->Abandon(status);
    return status.field() == "resume" ? run.line.FailUsage(status.message())
                                      : run.line.Fail(status);
  }
  run.line.Fail(output->Abandon({StatusCode::kCancelled, "interrupted"}));
  return kExitSignal + number;
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

// A thread for each request at work: the client's calls block.
Status RunByServer(const EmbedRun& run, client::EmbedClient* client) {
  PENSTOCK_RETURN_IF_ERROR(client->BeginRun());
  const BulkOptions& options = run.flags.bulk_options;
  WorkerPool pool(options.requests, 2 * options.requests);
  Embedder embedder;
  embedder.start = [&](std::vector<std::string> texts,
                       const api::Callback<api::EmbedResponse>& done) {
    auto shared = std::make_shared<std::vector<std::string>>(std::move(texts));
    const Status taken = pool.Submit([&, shared, done] {
      auto response = AskServer(client, *shared);
      if (!response.ok() && !(options.skip && IsOfRow(response.status()))) {
        client->Stop();  // the retries of other requests
      }
      done(std::move(response));
      return WorkerPool::Turn::kDone;
    });
    if (!taken.ok()) done(taken);
  };
  embedder.embed_one = [client](const std::string& text) -> Expected<std::vector<float>> {
    PENSTOCK_ASSIGN_OR_RETURN(api::EmbedResponse response, AskServer(client, {text}));
    return std::move(response.values);
  };
  embedder.stop = [client] { client->Abort(); };
  const Status status = RunWith(run, embedder);
  if (!status.ok()) client->Abort();
  pool.Stop();
  const auto ended = client->EndRun();
  PENSTOCK_RETURN_IF_ERROR(status);
  // The vectors are complete; a failure to end the bulk run is only logged.
  if (!ended.ok()) LogWarn("the bulk run was not ended: {}", ended.status().message());
  if (ended.ok() && !ended->empty()) LogInfo("{}", *ended);
  return Status::Ok();
}

int EmbedByServer(const EmbedRun& run) {
  auto options = EmbedOptions(run.flags, run.line);
  if (!options.ok()) return run.line.FailUsage(options.status().message());
  client::EmbedClient client(*std::move(options));
  run.progress->Begin("asking the server");
  Status status = RunByServer(run, &client);
  if (run.interruption->signal() != 0) status = {StatusCode::kCancelled, "interrupted"};
  if (client.retries() > 0) {
    LogWarn("{} {} sent again, after waits of {:.1f} s in all", client.retries(),
            client.retries() == 1 ? "request was" : "requests were", client.waited_s());
  }
  const Made made{NameAtServer(run.line, run.flags.model.models), run.flags.dimensions.value_or(0),
                  0};
  return Finish(run, status, made);
}

int EmbedLocally(const EmbedRun& run) {
  const Status fetched = FetchModels(run.flags.model);
  if (!fetched.ok()) return run.line.Fail(fetched);
  const auto load = [&run] {
    const StepProgress loading("loading the model", !run.progress->on_terminal());
    return runtime::LocalModels::Load(run.flags.model);
  };
  auto local = load();
  if (!local.ok()) return run.line.Fail(local.status());
  api::Service& service = *(*local)->service;
  const api::ModelInfo model = service.Models().front();
  const Status status = RunWith(run, LocalEmbedder(run.flags, &service));
  return Finish(run, status,
                {model.name, run.flags.dimensions.value_or(model.dimensions), model.max_tokens});
}

}  // namespace

int RunEmbed(const std::vector<std::string>& args) {
  CommandLine line("embed",
                   "Embed texts. Writes one JSON object a line, {\"index\": 0, \"embedding\": "
                   "[...]}, in the order\nof the input, or a matrix when --output ends in .npy or "
                   ".safetensors.",
                   "  echo 'Hello, world' | penstock embed --model MODEL\n"
                   "  penstock embed --model MODEL texts.txt --output vectors.npy\n"
                   "  penstock embed --model MODEL --prompt-name query --dimensions 256 q.jsonl\n"
                   "  penstock embed --model MODEL corpus.jsonl -o vectors.npy --resume\n"
                   "  penstock embed --model MODEL corpus.jsonl -o vectors.npy --on-error skip\n"
                   "  penstock embed --model MODEL texts.txt -o vectors.npy --plot texts.svg\n"
                   "  penstock embed --url http://127.0.0.1:8080 corpus.jsonl -o vectors.npy\n");
  EmbedFlags flags;
  AddModelFlags(&line, &flags.model, false, "warn");
  AddTextFlags(&line, &flags.text, "Texts: lines, JSON, CSV or TSV");
  AddEmbedFlags(&line, &flags);
  if (const auto exit_code = line.Parse(args)) return *exit_code;
  Interruption interruption;  // before any other thread
  if (const Status log = ApplyLogFlags(flags.model); !log.ok()) {
    return line.FailUsage("--log-level: " + log.message());
  }
  if (line.flags().Get("--batch")->count() > 0) {
    flags.bulk_options.request_rows = static_cast<size_t>(flags.text.batch);
  }
  if (!MatrixFormatOf(flags.text.output) && flags.precision != Precision::kFloat32) {
    return line.FailUsage("--precision is of .npy and .safetensors: JSON lines hold float32");
  }
  if (!flags.server.url.empty()) {
    if (const Status fit = CheckForServer(line); !fit.ok()) return line.FailUsage(fit.message());
  }
  if (const Status input = CheckInput(flags.text); !input.ok()) return line.Fail(input);
  EmbedOutput output({flags.text.output, flags.precision, SettingsText(flags), flags.resume,
                      flags.restart, !flags.text.input.id_field.empty()});
  if (const Status ready = output.Prepare(); !ready.ok()) return line.FailUsage(ready.message());
  std::optional<EmbedPlot> plot;
  if (!flags.plot.empty()) {
    if (flags.plot == flags.text.output) {
      return line.FailUsage("--plot and --output name the same file, " + flags.plot);
    }
    auto opened = EmbedPlot::Open(flags.plot);
    if (!opened.ok()) return line.FailUsage("--plot: " + opened.status().message());
    plot.emplace(*std::move(opened));
  }
  // Typed input is not disturbed.
  ProgressLine progress({flags.text.quiet || ReadsTerminal(flags.text), true,
                         flags.bulk || !flags.server.url.empty()});
  progress.Begin("reading");
  auto scan = ScanInput(flags.text.files, flags.text.input, flags.bulk_options.skip);
  if (!scan.ok()) return line.Fail(scan.status());
  const EmbedRun run{flags, line, &interruption, &output, &plot, &progress, *scan};
  return flags.server.url.empty() ? EmbedLocally(run) : EmbedByServer(run);
}

}  // namespace penstock::cli

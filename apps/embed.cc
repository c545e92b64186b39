// penstock embed: texts to vectors.
#include <fmt/format.h>

#include <mutex>
#include <optional>

#include "bulk_embed.h"
#include "client/embed_client.h"
#include "commands.h"
#include "common/json_writer.h"
#include "common/log.h"
#include "common/worker_pool.h"
#include "local_models.h"
#include "output_file.h"
#include "request_window.h"
#include "text_flags.h"

namespace penstock {
namespace {

struct EmbedFlags {
  ModelFlags model;
  TextFlags text;
  std::optional<std::string> prompt;
  std::optional<std::string> prompt_name;
  std::optional<int32_t> dimensions;
  bool normalize = false;
  CLI::Option* normalize_flag = nullptr;  // was it given?
  bool bulk = false;
  BulkOptions bulk_options;
  std::string url;
  std::string api_key;
};

void AddEmbedFlags(CommandLine* line, EmbedFlags* flags) {
  const std::string group = "Embedding";
  CLI::App& app = line->app();
  app.add_option("--prompt-name", flags->prompt_name, "Prompt of the model, such as query.")
      ->type_name("NAME")
      ->group(group);
  app.add_option("--prompt", flags->prompt, "Text to put before each input.")
      ->type_name("TEXT")
      ->group(group);
  app.add_option("--dimensions", flags->dimensions, "Keep the first N numbers (Matryoshka).")
      ->type_name("N")
      ->group(group);
  flags->normalize_flag =
      app.add_flag("--normalize,!--no-normalize", flags->normalize,
                   "Scale vectors to length 1, or not (default: as the model says).")
          ->group(group);
  const std::string bulk = "Bulk";
  app.add_flag("--bulk", flags->bulk,
               "Many texts: sort by length, keep several requests at work, show rate and remaining "
               "time; the output keeps the order of the input.")
      ->group(bulk);
  app.add_option("--url", flags->url,
                 "Server to send the texts to, such as http://127.0.0.1:8080, instead of loading a "
                 "model; implies --bulk. What may pass is tried again. --model is the name it "
                 "serves, if it serves several.")
      ->type_name("URL")
      ->group(bulk);
  app.add_option("--api-key", flags->api_key,
                 "Key for that server. Better set as PENSTOCK_API_KEY: others can read command "
                 "lines.")
      ->type_name("KEY")
      ->group(bulk);
  app.add_option("--bulk-window", flags->bulk_options.window_rows,
                 "Texts that are sorted together; memory holds two such windows.")
      ->check(CLI::Range(1, 1 << 20))
      ->type_name("N")
      ->group(bulk);
  app.add_option("--bulk-requests", flags->bulk_options.requests, "Requests at work at once.")
      ->check(CLI::Range(1, 64))
      ->type_name("N")
      ->group(bulk);
}

EmbedRequest NewRequest(const EmbedFlags& flags) {
  EmbedRequest request;
  request.text.prompt = flags.prompt;
  request.text.prompt_name = flags.prompt_name;
  request.dimensions = flags.dimensions;
  if (flags.normalize_flag->count() > 0) request.normalize = flags.normalize;
  return request;
}

// Writes answers as .npy or as one JSON object a line.
class VectorWriter {
 public:
  VectorWriter(OutputFile* file, bool npy) : file_(file), npy_(npy), npy_writer_(file) {}

  Status Append(std::span<const float> values, int32_t dimensions) {
    if (npy_) {
      npy_writer_.Append(values, dimensions);
    } else {
      const auto width = static_cast<size_t>(dimensions);
      std::string text;
      for (size_t from = 0; from < values.size(); from += width) {
        JsonWriter writer(&text);
        writer.BeginObject().Field("index", index_++).Key("embedding");
        writer.Floats(values.subspan(from, width)).EndObject();
        text += '\n';
      }
      file_->Write(text);
    }
    // Telling at once beats hours of work for a full disk.
    if (file_->failed()) return {StatusCode::kUnavailable, "cannot write the output"};
    return Status::Ok();
  }
  Status Finish(int32_t dimensions) {
    if (npy_) npy_writer_.Finish(dimensions);
    return file_->Close();
  }

 private:
  OutputFile* file_;
  bool npy_;
  NpyWriter npy_writer_;
  int64_t index_ = 0;
};

Status EmbedAllInputs(const EmbedFlags& flags, Service* service, VectorWriter* writer,
                      ProgressLine* progress) {
  LineReader reader(flags.text.files, flags.text.input);
  RequestWindow<EmbedResponse, size_t> window([&](const EmbedResponse& response, size_t texts) {
    progress->Add(texts, response.usage, response.truncation);
    return writer->Append(response.values, response.dimensions);
  });
  EmbedRequest request = NewRequest(flags);
  const auto send = [&]() -> Status {
    const size_t texts = request.inputs.size();
    if (texts == 0) return Status::Ok();
    auto answer = Ask<EmbedResponse>([&](Callback<EmbedResponse> done) {
      service->Embed(std::exchange(request, NewRequest(flags)), {}, std::move(done));
    });
    return window.Push(std::move(answer), texts);
  };
  PENSTOCK_RETURN_IF_ERROR(ForEachLine(&reader, [&](const LineReader::Line& line) -> Status {
    PENSTOCK_ASSIGN_OR_RETURN(auto text, TextOfLine(line, {"text", "input", "content"}));
    Input input;
    input.text = std::move(text);
    request.inputs.push_back(std::move(input));
    return request.inputs.size() == static_cast<size_t>(flags.text.batch) ? send() : Status::Ok();
  }));
  PENSTOCK_RETURN_IF_ERROR(send());
  return window.Finish();
}

Status BulkFromModel(const EmbedFlags& flags, Service* service, VectorWriter* writer,
                     ProgressLine* progress) {
  LineReader reader(flags.text.files, flags.text.input);
  return EmbedInBulk(
      &reader, flags.bulk_options,
      [&](std::vector<std::string> texts, Callback<EmbedResponse> done) {
        EmbedRequest request = NewRequest(flags);
        for (std::string& text : texts) request.inputs.push_back({std::move(text), {}, false});
        RequestContext context;
        context.priority = Priority::kBulk;
        service->Embed(std::move(request), std::move(context), std::move(done));
      },
      [&](std::span<const float> values, int32_t dimensions) {
        return writer->Append(values, dimensions);
      },
      [&](size_t texts, const EmbedResponse& response, int64_t bytes) {
        progress->Add(texts, response.usage, response.truncation, bytes);
      });
}

Expected<EmbedResponse> AskServer(EmbedClient* client, const std::vector<std::string>& texts) {
  PENSTOCK_ASSIGN_OR_RETURN(EmbeddedTexts answer, client->Embed(texts));
  EmbedResponse response;
  response.dimensions = answer.dimensions;
  response.values = std::move(answer.values);
  response.usage.prompt_tokens = answer.prompt_tokens;
  response.truncation = {answer.truncated_inputs, answer.truncated_tokens};
  return response;
}

// A thread for each request at work: the client's calls block.
Status BulkFromServer(const EmbedFlags& flags, EmbedClient* client, VectorWriter* writer,
                      ProgressLine* progress) {
  PENSTOCK_RETURN_IF_ERROR(client->BeginRun());
  LineReader reader(flags.text.files, flags.text.input);
  std::mutex mutex;
  Status first_failure;  // guarded by mutex
  WorkerPool pool(flags.bulk_options.requests, 2 * flags.bulk_options.requests);
  Status status = EmbedInBulk(
      &reader, flags.bulk_options,
      [&](std::vector<std::string> texts, const Callback<EmbedResponse>& done) {
        auto shared = std::make_shared<std::vector<std::string>>(std::move(texts));
        const Status taken = pool.Submit([&, shared, done] {
          auto response = AskServer(client, *shared);
          if (!response.ok()) {
            // The others need not be tried on and on.
            const std::lock_guard lock(mutex);
            if (first_failure.ok()) first_failure = response.status();
            client->Stop();
          }
          done(std::move(response));
          return WorkerPool::Turn::kDone;
        });
        if (!taken.ok()) done(taken);
      },
      [&](std::span<const float> values, int32_t dimensions) {
        return writer->Append(values, dimensions);
      },
      [&](size_t texts, const EmbedResponse& response, int64_t bytes) {
        progress->Add(texts, response.usage, response.truncation, bytes);
      });
  pool.Stop();
  if (!status.ok()) return status.code() == StatusCode::kCancelled ? first_failure : status;
  const auto ended = client->EndRun();
  // The vectors are there; what the server does with its memory is its own affair.
  if (!ended.ok()) LogWarn("the bulk run was not ended: {}", ended.status().message());
  if (ended.ok() && !ended->empty()) LogInfo("{}", *ended);
  return Status::Ok();
}

int RunEmbedFromServer(const EmbedFlags& flags, const CommandLine& line) {
  EmbedClientOptions options;
  options.url = flags.url;
  options.api_key = flags.api_key;
  if (!flags.model.models.empty()) options.model = flags.model.models.front();
  options.prompt = flags.prompt;
  options.prompt_name = flags.prompt_name;
  options.dimensions = flags.dimensions;
  if (flags.normalize_flag->count() > 0) options.normalize = flags.normalize;
  EmbedClient client(std::move(options));
  auto file = OutputFile::Open(flags.text.output);
  if (!file.ok()) return line.FailUsage(file.status().message());
  VectorWriter writer(&*file, flags.text.output.ends_with(".npy"));
  ProgressLine progress(flags.text.quiet, BytesOfFiles(flags.text.files));
  Status status = BulkFromServer(flags, &client, &writer, &progress);
  if (client.retries() > 0) {
    LogWarn("{} requests were sent again, after waits of {:.1f} s in all", client.retries(),
            client.waited_s());
  }
  const Status closed = writer.Finish(flags.dimensions.value_or(0));
  if (status.ok()) status = closed;
  return status.ok() ? kExitOk : line.Fail(status);
}

}  // namespace

int RunEmbed(const std::vector<std::string>& args) {
  CommandLine line("embed",
                   "Embed texts. Writes one JSON object a line, {\"index\": 0, \"embedding\": "
                   "[...]}, in the order\nof the input, or a float32 matrix when --output ends in "
                   ".npy.",
                   "  echo 'Hello, world' | penstock embed --model MODEL\n"
                   "  penstock embed --model MODEL texts.txt --output vectors.npy\n"
                   "  penstock embed --model MODEL --prompt-name query --dimensions 256 q.jsonl\n"
                   "  penstock embed --model MODEL --bulk corpus.jsonl --output vectors.npy\n"
                   "  penstock embed --url http://127.0.0.1:8080 corpus.jsonl -o vectors.npy\n");
  EmbedFlags flags;
  AddModelFlags(&line, &flags.model, false, "warn");
  AddTextFlags(&line, &flags.text, "Texts: lines, JSON, CSV or TSV");
  AddEmbedFlags(&line, &flags);
  if (const auto exit_code = line.Parse(args)) return *exit_code;
  if (const Status log = ApplyLogFlags(flags.model); !log.ok()) {
    return line.FailUsage("--log-level: " + log.message());
  }
  if (line.app().get_option("--batch")->count() > 0) {
    flags.bulk_options.request_rows = static_cast<size_t>(flags.text.batch);
  }
  if (!flags.url.empty()) return RunEmbedFromServer(flags, line);
  auto local = LocalModels::Load(flags.model);
  if (!local.ok()) return line.Fail(local.status());
  Service& service = *(*local)->service;
  const ModelInfo model = service.Models().front();
  auto file = OutputFile::Open(flags.text.output);
  if (!file.ok()) return line.FailUsage(file.status().message());
  VectorWriter writer(&*file, flags.text.output.ends_with(".npy"));
  ProgressLine progress(flags.text.quiet,
                        flags.bulk ? std::optional(BytesOfFiles(flags.text.files)) : std::nullopt);
  Status status = flags.bulk ? BulkFromModel(flags, &service, &writer, &progress)
                             : EmbedAllInputs(flags, &service, &writer, &progress);
  // What was done until a failure is kept, and the file is whole.
  const Status closed = writer.Finish(flags.dimensions.value_or(model.dimensions));
  if (status.ok()) status = closed;
  if (!status.ok()) return line.Fail(status);
  ReportCut(progress, "embed", model.max_tokens);
  return kExitOk;
}

}  // namespace penstock

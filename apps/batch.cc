// penstock batch: text for each row of files, many at once.
#include <fmt/format.h>

#include <cstdio>

#include "batch_rows.h"
#include "bulk/request_window.h"
#include "commands.h"
#include "json/json_writer.h"
#include "remote_text.h"
#include "served_model_flags.h"
#include "text_service.h"

namespace penstock::cli {
namespace {

// A part that is made twice is to be the same: without a seed each text would be another one.
constexpr uint64_t kSeed = 0;
// All that waits is of this command, whose rows under way bound it.
constexpr int64_t kQueuedTokensMax = int64_t{1} << 30;

struct BatchFlags {
  runtime::ModelOptions model;
  ServerFlags server;
  TextFlags text;
  ShardFlags shard;
  BatchSettings settings;
  int concurrency = 128;
};

// Answers in the order of the rows.
class BatchRun {
 public:
  BatchRun(const BatchFlags& flags, TextService* service, OutputFile* file, ProgressLine* progress)
      : flags_(flags),
        service_(service),
        file_(file),
        progress_(progress),
        window_([this](TextService::Posted answer,
                       const BatchAsk& ask) { return Take(std::move(answer), ask); },
                static_cast<size_t>(flags.concurrency)) {}

  Status Run() {
    corpus::RowReader reader = RowsOf(flags_.text);
    while (true) {
      PENSTOCK_ASSIGN_OR_RETURN(auto row, reader.Next());
      if (!row) break;
      BatchAsk ask = AskOfRow(*row, flags_.settings);
      auto answer =
          bulk::Ask<TextService::Posted>([&](const api::Callback<TextService::Posted>& done) {
            // It has its place in the order all the same.
            if (!ask.status.ok()) return done(TextService::Posted{});
            service_->Post(ask.path, std::move(ask.body), done);
          });
      PENSTOCK_RETURN_IF_ERROR(window_.Push(std::move(answer), std::move(ask)));
    }
    return window_.Finish();
  }

  int64_t failed() const { return failed_; }

 private:
  Status Take(TextService::Posted answer, const BatchAsk& ask) {
    if (answer.print != nullptr) {
      http::HttpResponse response = answer.print();
      answer.status = response.status;
      answer.body = std::move(response.body);
    }
    bool failed = !ask.status.ok();
    file_->Write(failed ? PrintFailure(ask, index_, ask.status)
                        : PrintAnswer(ask, index_, answer.status, answer.body, &failed));
    ++index_;
    progress_->Add(1, {}, {});
    if (failed) {
      ++failed_;
      progress_->AddSkipped(1);
    }
    return file_->status();
  }

  const BatchFlags& flags_;
  TextService* const service_;
  OutputFile* const file_;
  ProgressLine* const progress_;
  int64_t index_ = 0;
  int64_t failed_ = 0;
  bulk::RequestWindow<TextService::Posted, BatchAsk> window_;
};

// The settings that shape the texts, besides the model and the input.
std::string SettingsText(const BatchFlags& flags) {
  std::string text;
  JsonWriter json(&text);
  json.BeginObject().Field("raw", flags.settings.raw).Field("system", flags.settings.system);
  WriteSampling(flags.settings.sampling, &json);
  WriteInputSettings(flags.text.input, &json);
  json.EndObject();
  return text;
}

void AddBatchFlags(CommandLine* line, BatchFlags* flags) {
  AddModelFlags(line, &flags->model, false, "warn");
  line->flags().Get("--model")->DefaultText("");
  AddTextModelFlags(line, &flags->model);
  AddTextFlags(line, &flags->text,
               "Prompts: lines, JSON, CSV or TSV; or requests of OpenAI's batches");
  const FlagGroup group(&line->flags(), "Prompt");
  group.Switch("--raw", flags->settings.raw,
               "Prompts go to the model as they are, without its chat template.");
  group.Add("--system", flags->settings.system, "TEXT", "System message before each prompt.");
  group.Add("--concurrency", flags->concurrency, "N", InRange(1, 4096),
            "Rows under way at once; --max-num-seqs says how many of them the model works on.");
  AddSamplingFlags(line, &flags->settings.sampling);
  AddShardFlags(line, &flags->shard, /*verify=*/false);
  AddServerFlags(line, &flags->server);
}

}  // namespace

int RunBatch(const std::vector<std::string>& args) {
  CommandLine line(
      "batch",
      "Generate text for each row of files: prompts, conversations ({\"messages\": ...}) or "
      "requests "
      "as OpenAI's\nbatches have them. Many rows are worked on at once. Writes a JSON object a "
      "row, in "
      "their order; exits\nwith 3 where some failed, whose lines say why.",
      "  penstock batch -m model.gguf questions.jsonl --text-field question -o answers.jsonl\n"
      "  penstock batch -m MODEL --system 'Translate to French.' -n 200 lines.txt\n"
      "  penstock batch --url http://127.0.0.1:8080 requests.jsonl -o answers.jsonl\n"
      "  penstock batch -m MODEL prompts.jsonl --shards 64 --take -o parts\n");
  BatchFlags flags;
  AddBatchFlags(&line, &flags);
  if (const auto exit_code = line.Parse(args)) return *exit_code;
  if (flags.model.models.empty() && flags.server.url.empty()) {
    return line.FailUsage(ModelRequired("model that generates text"));
  }
  // Fields are looked for here, as rows may be of several kinds.
  flags.settings.text_fields = flags.text.input.text_fields;
  flags.settings.join = flags.text.input.join;
  flags.text.input.needs_text = false;
  flags.text.input.keeps_objects = true;
  flags.model.limits.concurrent_requests =
      std::max(flags.model.limits.concurrent_requests, flags.concurrency);
  flags.model.decode.max_queued_tokens = kQueuedTokensMax;
  if (!flags.settings.sampling.options.seed) flags.settings.sampling.options.seed = kSeed;
  if (!flags.server.url.empty()) {
    flags.settings.model = NameAtServer(line, flags.model.models);
  }
  int64_t failed = 0;
  const int exit_code =
      RunTextCommand({.line = &line,
                      .model = &flags.model,
                      .server = &flags.server,
                      .text = &flags.text,
                      .loads = TextService::Loads::kGenerator,
                      .calls = static_cast<size_t>(flags.concurrency),
                      .shard = &flags.shard,
                      .settings = SettingsText(flags)},
                     [&](TextService* service, OutputFile* file, ProgressLine* progress) {
                       BatchRun run(flags, service, file, progress);
                       const Status status = run.Run();
                       failed += run.failed();
                       return status;
                     });
  if (exit_code != kExitOk || failed == 0) return exit_code;
  std::fprintf(stderr, "penstock batch: %lld row%s failed; their lines say why\n",
               static_cast<long long>(failed), failed == 1 ? "" : "s");
  return kExitSkipped;
}

}  // namespace penstock::cli

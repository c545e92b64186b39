#include "lab/chat_http.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <random>
#include <thread>

#include "devices/backends.h"
#include "generate/generator.h"
#include "load/chat_load.h"
#include "load/http_texts.h"
#include "load/server_process.h"
#include "load/table.h"
#include "log/step_progress.h"

namespace penstock::lab {
namespace {

constexpr double kStreamWarmupS = 1;
constexpr double kPatienceS = 300;
// Prompts are short, so that decoding is nearly all of a request.
constexpr int kPromptTokens = 32;
// Tokens of the stream beside bulk work: more than a measurement lasts.
constexpr int kLongText = 1024;
constexpr double kBoundSteps = 2;
constexpr double kBoundMs = 25;
constexpr const char* kText = "text";
constexpr const char* kEncoder = "encoder";

class ChatHttpBench {
 public:
  ChatHttpBench(const ChatHttpOptions& options, load::BenchRecords* records)
      : options_(options), records_(records) {}

  Status Run() {
    PENSTOCK_RETURN_IF_ERROR(Start());
    PENSTOCK_RETURN_IF_ERROR(MeasureRatio());
    if (!options_.encoder.empty()) PENSTOCK_RETURN_IF_ERROR(MeasureBesideBulk());
    const int exit_code = server_->Stop();
    if (exit_code == 0) return Status::Ok();
    return Status::Internal(fmt::format("the server ended with {}", exit_code));
  }

 private:
  Status Start();
  Expected<double> InProcess();
  Expected<double> OverHttp();
  Status MeasureRatio();
  Expected<load::ChatResult> Stream(double seconds);
  Expected<double> Bulk(double seconds);
  Status MeasureBesideBulk();
  void Add(const char* name, double value, const char* unit) {
    records_->Add(std::string("chat.") + name, value, unit, options_.name);
  }

  const ChatHttpOptions& options_;
  load::BenchRecords* const records_;
  std::unique_ptr<load::ServerProcess> server_;
  std::unique_ptr<program::Backend> backend_;
  std::unique_ptr<generate::TextModel> model_;
  std::unique_ptr<generate::Generator> generator_;
  load::ChatLoad load_;
  std::shared_ptr<load::TextSource> texts_ =
      std::make_shared<load::TextSource>(load::LengthSpec{}, 1);
  double prompt_tokens_ = kPromptTokens;  // as the server counted
  uint64_t seed_ = 1;
};

Status ChatHttpBench::Start() {
  std::vector<std::string> words = {
      "--model",           fmt::format("{}={}", kText, options_.model),
      "--log-level",       "warn",
      "--threads",         std::to_string(options_.threads),
      "--slow-request-ms", "0"};
  if (!options_.encoder.empty()) {
    words.insert(words.end(), {"--model", fmt::format("{}={}", kEncoder, options_.encoder)});
  }
  if (options_.dtype) {
    words.insert(words.end(),
                 {"--dtype", fmt::format("{}={}", kText, numbers::DTypeFlag(*options_.dtype))});
  }
  words.insert(words.end(), {"--cache-type", numbers::DTypeFlag(options_.cache_type)});
  words.insert(words.end(), options_.server_flags.begin(), options_.server_flags.end());
  PENSTOCK_ASSIGN_OR_RETURN(server_, load::ServerProcess::Start(words));
  PENSTOCK_ASSIGN_OR_RETURN(backend_, devices::NewBackend({.threads = options_.threads}));
  generate::TextModelOptions text;
  text.dtype = options_.dtype;
  text.cache_type = options_.cache_type;
  PENSTOCK_ASSIGN_OR_RETURN(model_,
                            generate::TextModel::Load(options_.model, backend_.get(), text));
  PENSTOCK_ASSIGN_OR_RETURN(generator_, generate::Generator::Make(model_.get()));
  load_.request.completions = options_.completions;
  load_.request.model = kText;
  load_.request.prompt_tokens = {kPromptTokens, kPromptTokens};
  load_.request.output_tokens = {options_.tokens, options_.tokens};
  PENSTOCK_ASSIGN_OR_RETURN(load_.scale,
                            load::MeasurePromptScale(server_->target(), load_.request));
  return Status::Ok();
}

// Tokens a second after a prompt as long as that over HTTP was.
Expected<double> ChatHttpBench::InProcess() {
  std::mt19937 random(1);
  generate::GenerateRequest request;
  request.prompt.resize(static_cast<size_t>(prompt_tokens_));
  const auto words = static_cast<uint32_t>(model_->tokenizer->vocab_size());
  for (int32_t& id : request.prompt) id = static_cast<int32_t>(random() % words);
  request.sampling.temperature = 0;
  request.sampling.ignore_eos = true;
  request.sampling.max_tokens = options_.tokens;
  generate::Generated out;
  PENSTOCK_RETURN_IF_ERROR(generator_->Generate(request, &out));
  double seconds = 0;
  for (const double one : out.token_s) seconds += one;
  return static_cast<double>(out.token_s.size()) / seconds;
}

Expected<double> ChatHttpBench::OverHttp() {
  load::ChatLoad load = load_;
  load.seed = ++seed_;
  load::LoadWindow window;
  window.warmup_s = 0;
  window.duration_s = kPatienceS;
  window.requests_max = 1;
  PENSTOCK_ASSIGN_OR_RETURN(const load::ChatResult result,
                            load::RunChatLoad(server_->target(), load, window));
  if (result.whole != 1 || result.per_token.count() != 1) {
    return Status(StatusCode::kUnavailable, "a stream did not come whole: " + result.ErrorsText());
  }
  prompt_tokens_ = static_cast<double>(result.prompt_tokens);
  return 1000 / result.per_token.mean_ms();
}

Status ChatHttpBench::MeasureRatio() {
  double http = 0, alone = 0;
  StepProgress progress({.steps = options_.rounds});
  for (int round = 0; round < options_.rounds; ++round) {
    progress.Next("round");
    PENSTOCK_ASSIGN_OR_RETURN(const double over_http, OverHttp());
    PENSTOCK_ASSIGN_OR_RETURN(const double in_process, InProcess());
    http = std::max(http, over_http);
    alone = std::max(alone, in_process);
  }
  progress.Clear();
  load::BenchTable table({"one text", "tokens/s"});
  table.AddRow({"in this process", load::ShortNumber(alone)});
  table.AddRow({"over HTTP", load::ShortNumber(http)});
  table.AddRow({"  over that in this process", fmt::format("{:.3f}", http / alone)});
  table.Print();
  std::puts("");
  Add("generate.tokens_per_s", alone, "1/s");
  Add("http.tokens_per_s", http, "1/s");
  Add("http_ratio_vs_bench", http / alone, "ratio");
  return Status::Ok();
}

// One client whose texts follow each other.
Expected<load::ChatResult> ChatHttpBench::Stream(double seconds) {
  load::ChatLoad load = load_;
  load.seed = ++seed_;
  const int room = model_->context() - 2 * static_cast<int>(prompt_tokens_);
  const int tokens = std::clamp(room, 1, kLongText);
  load.request.output_tokens = {tokens, tokens};
  load::LoadWindow window;
  window.warmup_s = kStreamWarmupS;
  window.duration_s = seconds;
  window.drain_s = 0;
  PENSTOCK_ASSIGN_OR_RETURN(load::ChatResult result,
                            load::RunChatLoad(server_->target(), load, window));
  result.errors.erase(load::ChatResult::kNoAnswer);  // the text under way at the end
  if (result.between_tokens.count() == 0 || result.ErrorCount() > 0) {
    return Status(StatusCode::kUnavailable, "no stream came: " + result.ErrorsText());
  }
  return result;
}

// Texts a second.
Expected<double> ChatHttpBench::Bulk(double seconds) {
  load::HttpLoad load;
  load.concurrency = options_.bulk_clients;
  load.batch = options_.bulk_batch;
  load.model = kEncoder;
  load.priority = options_.priority;
  load.next_text = [texts = texts_] { return texts->Next(); };
  load::LoadWindow window;
  window.warmup_s = kStreamWarmupS;
  window.duration_s = seconds;
  PENSTOCK_ASSIGN_OR_RETURN(const auto run, load::RunHttpLoads(server_->target(), {load}, window));
  if (run.loads[0].ok == 0 || !run.loads[0].errors.empty()) {
    return Status(StatusCode::kUnavailable, "bulk requests were not answered");
  }
  return static_cast<double>(run.loads[0].texts) / run.seconds;
}

Status ChatHttpBench::MeasureBesideBulk() {
  load::LatencyHistogram alone, beside;
  double bulk_alone = 0, bulk_beside = 0, tokens = 0, tokens_beside = 0;
  const auto per_s = [](const load::ChatResult& one) {
    return static_cast<double>(one.tokens) / one.seconds;
  };
  StepProgress progress({.steps = options_.rounds});
  for (int round = 0; round < options_.rounds; ++round) {
    progress.Next("round beside bulk");
    PENSTOCK_ASSIGN_OR_RETURN(const double bulk, Bulk(options_.round_s));
    PENSTOCK_ASSIGN_OR_RETURN(const load::ChatResult stream, Stream(options_.round_s));
    // Bulk work is there before the stream's window and after it.
    Expected<double> bulk_then = 0.0;
    std::thread other([&] { bulk_then = Bulk(options_.round_s + 0.5); });
    const Expected<load::ChatResult> stream_then = Stream(options_.round_s);
    other.join();
    PENSTOCK_RETURN_IF_ERROR(stream_then.status());
    PENSTOCK_RETURN_IF_ERROR(bulk_then.status());
    alone.Merge(stream.between_tokens);
    beside.Merge(stream_then->between_tokens);
    bulk_alone += bulk;
    bulk_beside += *bulk_then;
    tokens += per_s(stream) / options_.rounds;
    tokens_beside += per_s(*stream_then) / options_.rounds;
  }
  const double step_ms = alone.PercentileMs(0.5);
  const double p99_ms = beside.PercentileMs(0.99);
  const double bound_ms = kBoundSteps * step_ms + kBoundMs;
  progress.Clear();
  load::BenchTable table({"stream and bulk embeddings", "alone", "together", ""});
  table.AddRow(
      {"tokens/s of the stream", load::ShortNumber(tokens), load::ShortNumber(tokens_beside), ""});
  table.AddRow({"between tokens, p50 ms", load::ShortNumber(step_ms),
                load::ShortNumber(beside.PercentileMs(0.5)), ""});
  table.AddRow({"between tokens, p99 ms", load::ShortNumber(alone.PercentileMs(0.99)),
                load::ShortNumber(p99_ms),
                fmt::format("{:.2f} of 2 steps + 25 ms", p99_ms / bound_ms)});
  table.AddRow({"texts/s of bulk", load::ShortNumber(bulk_alone / options_.rounds),
                load::ShortNumber(bulk_beside / options_.rounds),
                fmt::format("{:.0f} %", 100 * bulk_beside / bulk_alone)});
  table.Print();
  Add("step_ms", step_ms, "ms");
  Add("intertoken_p99_beside_bulk_ms", p99_ms, "ms");
  Add("intertoken_p99_over_bound", p99_ms / bound_ms, "ratio");
  Add("encoder_percent_beside_stream", 100 * bulk_beside / bulk_alone, "%");
  return Status::Ok();
}

}  // namespace

Status MeasureChatHttp(const ChatHttpOptions& options, load::BenchRecords* records) {
  return ChatHttpBench(options, records).Run();
}

}  // namespace penstock::lab

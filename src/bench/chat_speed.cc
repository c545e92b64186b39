#include "bench/chat_speed.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <limits>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "bench/random_decoder.h"
#include "devices/backends.h"
#include "generate/decode_scheduler.h"
#include "generate/generator.h"
#include "load/table.h"
#include "log/step_progress.h"
#include "metrics/metrics.h"

namespace penstock::bench {
namespace {

constexpr int kShortPrompt = 200;

double Seconds(Clock::duration time) { return std::chrono::duration<double>(time).count(); }

// When the tokens of a text came.
class Times final : public generate::DecodeSink {
 public:
  void OnToken(int32_t, const generate::GeneratedToken& token, std::string_view) noexcept override {
    const std::lock_guard lock(mutex_);
    tokens_.push_back(Clock::now());
    ids_.push_back(token.id);
    changed_.notify_all();
  }
  void OnSampleEnd(int32_t, generate::FinishReason, std::string_view, int) noexcept override {}
  void OnEnd(const Status& status, const generate::DecodeUsage&) noexcept override {
    const std::lock_guard lock(mutex_);
    status_ = status;
    changed_.notify_all();
  }

  void AwaitTokens(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return tokens_.size() >= count || status_; });
  }
  Status Wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return status_.has_value(); });
    return *status_;
  }
  // After Wait.
  const std::vector<Clock::time_point>& tokens() const { return tokens_; }
  const std::vector<int32_t>& ids() const { return ids_; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Clock::time_point> tokens_;
  std::vector<int32_t> ids_;
  std::optional<Status> status_;
};

// A text under way.
struct Text {
  std::shared_ptr<Times> times = std::make_shared<Times>();
  std::shared_ptr<CancelToken> cancel = std::make_shared<CancelToken>();
  Clock::time_point begin;
  double first_s() const { return Seconds(times->tokens().front() - begin); }
};

// A tokenizer for random weights: a name for each id.
Expected<std::unique_ptr<text::Tokenizer>> NumberedTokenizer(int32_t vocabulary) {
  std::string words;
  for (int32_t id = 0; id < vocabulary; ++id) {
    words += fmt::format("{}\"w{}\":{}", id == 0 ? "" : ",", id, id);
  }
  return text::Tokenizer::FromJson(
      R"({"version":"1.0","added_tokens":[],"normalizer":null,"pre_tokenizer":null,)"
      R"("post_processor":null,"decoder":{"type":"Fuse"},"model":{"type":"BPE","merges":[],"vocab":{)" +
      words + "}}}");
}

class ChatSpeedBench {
 public:
  explicit ChatSpeedBench(const ChatSpeedOptions& options) : options_(options) {}

  Status Load() {
    PENSTOCK_ASSIGN_OR_RETURN(
        backend_, devices::NewBackend({.device = options_.device, .threads = options_.threads}));
    if (!options_.model.empty()) {
      generate::TextModelOptions text;
      text.dtype = options_.dtype;
      text.cache_type = options_.cache_type;
      PENSTOCK_ASSIGN_OR_RETURN(model_,
                                generate::TextModel::Load(options_.model, backend_.get(), text));
    } else {
      PENSTOCK_ASSIGN_OR_RETURN(const auto random,
                                RandomDecoder::Make(options_.shape, options_.mix));
      model_ = std::make_unique<generate::TextModel>();
      model_->cache_type = options_.cache_type;
      PENSTOCK_ASSIGN_OR_RETURN(
          model_->decoder,
          models::DecoderModel::Load(random->files, backend_.get(), {options_.dtype, 0}));
      PENSTOCK_ASSIGN_OR_RETURN(model_->tokenizer,
                                NumberedTokenizer(random->files.config.vocab_size));
    }
    generate::DecodeSchedulerOptions scheduler;
    scheduler.sequences_max = std::max(options_.streams + 2, 8);
    scheduler.cache_blocks = {scheduler.sequences_max *
                              ((options_.prompt + 1024) / kKvBlockTokens)};
    scheduler.gate = &backend_->gate();
    PENSTOCK_ASSIGN_OR_RETURN(scheduler_,
                              generate::DecodeScheduler::Make(model_.get(), scheduler, &metrics_));
    prompt_ = std::min(options_.prompt, model_->context() - 2 * options_.tokens - 128);
    if (prompt_ >= kShortPrompt) return Status::Ok();
    return Status::InvalidArgument("the context of this model is too short for the benchmark",
                                   "model");
  }

  const generate::TextModel& model() const { return *model_; }

  // Tokens a second of one text, without the scheduler.
  Expected<double> Alone() {
    PENSTOCK_ASSIGN_OR_RETURN(const auto generator, generate::Generator::Make(model_.get()));
    generate::GenerateRequest request;
    request.prompt = Prompt(16);
    request.sampling = Sampling();
    generate::Generated out;
    PENSTOCK_RETURN_IF_ERROR(generator->Generate(request, &out));
    double seconds = 0;
    for (const double one : out.token_s) seconds += one;
    return static_cast<double>(out.token_s.size()) / seconds;
  }

  // Tokens a second of all texts together, while all of them run.
  Expected<double> Streams(int count) {
    std::vector<Text> texts;
    for (int i = 0; i < count; ++i) {
      PENSTOCK_ASSIGN_OR_RETURN(Text text, Begin(Prompt(16), options_.tokens));
      texts.push_back(std::move(text));
    }
    Clock::time_point first = Clock::time_point::min(), last = Clock::time_point::max();
    for (const Text& text : texts) {
      PENSTOCK_RETURN_IF_ERROR(text.times->Wait());
      first = std::max(first, text.times->tokens().front());
      last = std::min(last, text.times->tokens().back());
    }
    size_t tokens = 0;
    for (const Text& text : texts) {
      for (const Clock::time_point at : text.times->tokens()) tokens += at > first && at <= last;
    }
    return static_cast<double>(tokens) / Seconds(last - first);
  }

  // Time to first token of a second turn over that of the first.
  Expected<double> SecondTurn() {
    std::vector<int32_t> ids = Prompt(prompt_);
    PENSTOCK_ASSIGN_OR_RETURN(const Text first, Begin(ids, options_.tokens));
    PENSTOCK_RETURN_IF_ERROR(first.times->Wait());
    ids.insert(ids.end(), first.times->ids().begin(), first.times->ids().end());
    const std::vector<int32_t> more = Prompt(32);
    ids.insert(ids.end(), more.begin(), more.end());
    PENSTOCK_ASSIGN_OR_RETURN(const Text second, Begin(ids, 1));
    PENSTOCK_RETURN_IF_ERROR(second.times->Wait());
    return second.first_s() / first.first_s();
  }

  // Between two tokens of running texts while a long prompt runs, the 99th percentile over the
  // median without it.
  Expected<double> Intertoken() {
    std::vector<Text> texts;
    for (int i = 0; i < options_.streams / 2; ++i) {
      PENSTOCK_ASSIGN_OR_RETURN(Text text, Begin(Prompt(16), 1 << 20));
      texts.push_back(std::move(text));
    }
    for (const Text& text : texts) text.times->AwaitTokens(20);
    PENSTOCK_ASSIGN_OR_RETURN(const Text prompt, Begin(Prompt(prompt_), 1));
    PENSTOCK_RETURN_IF_ERROR(prompt.times->Wait());
    const Clock::time_point end = prompt.times->tokens().front();
    for (const Text& text : texts) text.cancel->Cancel();
    std::vector<double> before, during;
    for (const Text& text : texts) {
      (void)text.times->Wait();
      const auto& tokens = text.times->tokens();
      for (size_t i = 5; i < tokens.size(); ++i) {
        if (tokens[i] > end) break;
        (tokens[i - 1] < prompt.begin ? before : during)
            .push_back(Seconds(tokens[i] - tokens[i - 1]));
      }
    }
    if (before.empty() || during.empty()) return std::numeric_limits<double>::quiet_NaN();
    std::sort(before.begin(), before.end());
    std::sort(during.begin(), during.end());
    return during[during.size() * 99 / 100] / before[before.size() / 2];
  }

  // Time to first token of a short prompt beside the longest one, over alone.
  Expected<double> ShortBesideLong() {
    PENSTOCK_ASSIGN_OR_RETURN(const Text alone, Begin(Prompt(kShortPrompt), 1));
    PENSTOCK_RETURN_IF_ERROR(alone.times->Wait());
    PENSTOCK_ASSIGN_OR_RETURN(const Text longest, Begin(Prompt(model_->context() - 8), 1));
    while (scheduler_->stats().running == 0) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    PENSTOCK_ASSIGN_OR_RETURN(const Text beside, Begin(Prompt(kShortPrompt), 1));
    PENSTOCK_RETURN_IF_ERROR(beside.times->Wait());
    longest.cancel->Cancel();
    (void)longest.times->Wait();
    return beside.first_s() / alone.first_s();
  }

 private:
  sample::SamplingOptions Sampling() const {
    sample::SamplingOptions sampling;
    sampling.temperature = 0;
    sampling.ignore_eos = true;
    sampling.max_tokens = options_.tokens;
    return sampling;
  }
  std::vector<int32_t> Prompt(int tokens) {
    std::vector<int32_t> ids(static_cast<size_t>(tokens));
    const auto words = static_cast<uint32_t>(model_->tokenizer->vocab_size());
    for (int32_t& id : ids) id = static_cast<int32_t>(random_() % words);
    return ids;
  }
  Expected<Text> Begin(std::vector<int32_t> prompt, int tokens) {
    Text text;
    auto job = std::make_unique<generate::DecodeJob>();
    job->sampling = Sampling();
    job->sampling.max_tokens =
        std::min(tokens, model_->context() - static_cast<int>(prompt.size()));
    job->prompt = std::move(prompt);
    job->context.cancel = text.cancel;
    job->sink = text.times;
    text.begin = Clock::now();
    PENSTOCK_RETURN_IF_ERROR(scheduler_->Submit(std::move(job)));
    return text;
  }

  const ChatSpeedOptions options_;
  std::mt19937 random_{1};
  metrics::Metrics metrics_;
  std::unique_ptr<program::Backend> backend_;
  std::unique_ptr<generate::TextModel> model_;
  std::unique_ptr<generate::DecodeScheduler> scheduler_;
  int prompt_ = 0;
};

}  // namespace

Status MeasureChatSpeed(const ChatSpeedOptions& options, load::BenchRecords* records) {
  ChatSpeedBench bench(options);
  PENSTOCK_RETURN_IF_ERROR(bench.Load());
  double generate = 0, one = 0, many = 0;
  constexpr double kMost = std::numeric_limits<double>::max();
  double turn = kMost, gap = kMost, beside = kMost;
  StepProgress progress({.steps = options.rounds, .in_log = false});
  for (int round = 0; round < options.rounds; ++round) {
    progress.Next("round");
    PENSTOCK_ASSIGN_OR_RETURN(const double alone, bench.Alone());
    PENSTOCK_ASSIGN_OR_RETURN(const double single, bench.Streams(1));
    PENSTOCK_ASSIGN_OR_RETURN(const double together, bench.Streams(options.streams));
    PENSTOCK_ASSIGN_OR_RETURN(const double second, bench.SecondTurn());
    PENSTOCK_ASSIGN_OR_RETURN(const double between, bench.Intertoken());
    PENSTOCK_ASSIGN_OR_RETURN(const double short_prompt, bench.ShortBesideLong());
    generate = std::max(generate, alone);
    one = std::max(one, single);
    many = std::max(many, together);
    turn = std::min(turn, second);
    gap = std::min(gap, between);
    beside = std::min(beside, short_prompt);
  }
  progress.Clear();
  const std::string name = !options.name.empty() ? options.name : options.mix;
  load::BenchTable table({"", "figure"});
  const auto row = [&](const std::string& what, const std::string& record, double value,
                       const char* unit) {
    table.AddRow({what, fmt::format("{:.3g}{}{}", value, *unit == '\0' ? "" : " ", unit)});
    records->Add("chat." + record + "." + name, value, *unit == '\0' ? "ratio" : unit);
  };
  row("one text without the scheduler", "generate.tokens_per_s", generate, "1/s");
  row("one text", "one.tokens_per_s", one, "1/s");
  row("  over that without the scheduler", "scheduler_ratio_vs_generate", one / generate, "");
  row(fmt::format("{} texts together", options.streams),
      fmt::format("streams{}.tokens_per_s", options.streams), many, "1/s");
  row("  over one", fmt::format("streams{}.ratio_vs_one", options.streams), many / one, "");
  table.AddRow(
      {"first token of a second turn, of the first's", fmt::format("{:.3g} %", 100 * turn)});
  records->Add("chat.second_turn_ttft_percent", 100 * turn, "%", name);
  row("between tokens beside a long prompt (p99), in steps", "intertoken_in_prefill_steps", gap,
      "");
  row(fmt::format("first token after {} tokens beside the longest prompt, over alone",
                  kShortPrompt),
      "short_prompt_ttft_ratio", beside, "");
  table.Print();
  return Status::Ok();
}

}  // namespace penstock::bench

#include "plan/measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "load/chat_load.h"
#include "load/http_sweep.h"
#include "load/http_texts.h"
#include "plan/drive.h"
#include "plan/fleet.h"
#include "sched/encode_batch.h"

namespace penstock::plan {
namespace {

constexpr double kLoadShare = 0.5;  // of the time, for the measurements under load
constexpr double kLowLoad = 0.3;
constexpr double kSomeLoad = 0.7;
constexpr int kSaturatingClients = 32;
constexpr double kSigmas90 = 1.2816;  // the 90th percentile of a normal distribution

class EncoderMeasurement {
 public:
  EncoderMeasurement(const ServedModel& model, const MeasureOptions& options)
      : model_(model), options_(options) {}

  Expected<EncoderCosts> Run() {
    costs_.batch_tokens = model_.batch_tokens;
    costs_.length_max = model_.length_max;
    PENSTOCK_RETURN_IF_ERROR(MeasureWords());
    PENSTOCK_RETURN_IF_ERROR(MeasureBatches());
    PENSTOCK_RETURN_IF_ERROR(MeasureUnderLoad());
    return costs_;
  }

 private:
  struct Measured {
    BatchTotals totals;
    double outside_s = 0;  // of a request, mean
    double wall_s = 0;
    double noise = 0;  // sigma of the logarithm of its time
  };

  // Texts of `lengths` words, `batch` of them a request.
  // rate: requests a second; 0: a client sends its next one when it has the answer.
  Expected<Measured> Ask(const load::LengthSpec& lengths, int batch, int clients, double rate,
                         double seconds) {
    load::TextSource texts(lengths, ++seed_);
    load::HttpLoad load;
    load.concurrency = clients;
    load.rate = rate;
    load.batch = batch;
    load.route = model_.route();
    load.model = model_.name;
    load.next_text = [&texts] { return texts.Next(); };
    // A first request brings memory and caches to their places.
    load::LoadWindow warm{.warmup_s = 0, .duration_s = 60, .requests_max = 1};
    PENSTOCK_RETURN_IF_ERROR(RunHttpLoads(options_.target, {load}, warm).status());
    PENSTOCK_ASSIGN_OR_RETURN(const BatchTotals before,
                              BatchTotals::Read(options_.target, model_.name));
    const load::LoadWindow window{.warmup_s = 0, .duration_s = std::max(seconds, kShortS)};
    PENSTOCK_ASSIGN_OR_RETURN(const load::HttpRunResult run,
                              RunHttpLoads(options_.target, {load}, window));
    const load::LoadResult& result = run.loads.front();
    if (!result.errors.empty() || result.latency.count() == 0) {
      return Status(StatusCode::kUnavailable,
                    "the server did not answer all requests: " + load::ErrorsText(result));
    }
    PENSTOCK_ASSIGN_OR_RETURN(const BatchTotals after,
                              BatchTotals::Read(options_.target, model_.name));
    Measured measured{after - before};
    measured.wall_s = run.seconds;
    measured.noise =
        std::log(result.latency.PercentileMs(0.9) / result.latency.PercentileMs(0.5)) / kSigmas90;
    measured.outside_s =
        std::max(1e-6, result.latency.mean_ms() / 1000 -
                           measured.totals.inside_s / static_cast<double>(result.latency.count()));
    if (measured.totals.inside_s == 0) {
      return Status(StatusCode::kUnavailable, "the server runs with --stage-timers off");
    }
    if (measured.totals.batches < 1) {
      return Status(StatusCode::kUnavailable, "the server ran no batch; does a cache answer?");
    }
    return measured;
  }

  static load::LengthSpec Fixed(int32_t words) {
    load::LengthSpec lengths;
    lengths.kind = load::LengthSpec::Kind::kFixed;
    lengths.min = lengths.max = words;
    return lengths;
  }

  // tokens of a row = added_tokens + word_tokens * words
  Status MeasureWords() {
    constexpr int kFew = 4, kMany = 24;
    PENSTOCK_ASSIGN_OR_RETURN(const Measured few, Ask(Fixed(kFew), 8, 1, 0, kShortS));
    PENSTOCK_ASSIGN_OR_RETURN(const Measured many, Ask(Fixed(kMany), 8, 1, 0, kShortS));
    const double few_tokens = few.totals.tokens / few.totals.rows;
    const double many_tokens = many.totals.tokens / many.totals.rows;
    costs_.word_tokens = std::max(0.1, (many_tokens - few_tokens) / (kMany - kFew));
    costs_.added_tokens = std::max(0.0, std::round(few_tokens - kFew * costs_.word_tokens));
    return Status::Ok();
  }

  // Batches of one request, of several lengths and sizes: one client, so that each is alone.
  Status MeasureBatches() {
    std::set<std::pair<int32_t, int32_t>> shapes;  // length, rows
    const auto longest = costs_.length_max - static_cast<int32_t>(costs_.added_tokens);
    for (const int32_t wanted : {6, 30, 126, 510}) {
      const int32_t length = std::clamp(wanted, 1, longest);
      const double row = length + costs_.added_tokens;
      const int32_t full = std::max(1, static_cast<int32_t>(costs_.batch_tokens / row));
      for (const int32_t rows : {1, static_cast<int32_t>(std::sqrt(full)), full}) {
        shapes.emplace(length, std::clamp(rows, 1, 512));
      }
    }
    const double seconds = options_.seconds * (1 - kLoadShare) / static_cast<double>(shapes.size());
    std::vector<sched::BatchSample> batches;
    std::vector<double> noises;
    for (const auto& [length, rows] : shapes) {
      const auto words =
          std::max<int32_t>(1, static_cast<int32_t>(std::lround(length / costs_.word_tokens)));
      // The second of three: the machine may be slower for a while.
      std::vector<sched::BatchSample> rounds;
      for (int round = 0; round < kRounds; ++round) {
        PENSTOCK_ASSIGN_OR_RETURN(const Measured measured,
                                  Ask(Fixed(words), rows, 1, 0, seconds / kRounds));
        const BatchTotals& totals = measured.totals;
        const double tokens = totals.tokens / totals.batches;
        rounds.push_back(
            {tokens, tokens * totals.tokens / totals.rows, totals.seconds / totals.batches});
        noises.push_back(measured.noise);
      }
      std::ranges::sort(rounds, {}, &sched::BatchSample::seconds);
      batches.push_back(rounds[kRounds / 2]);
    }
    costs_.batch = sched::FitBatchTimes(batches);
    std::ranges::sort(noises);
    costs_.noise = noises[noises.size() / 2];
    return Status::Ok();
  }

  // seconds = fixed_s + token_s * tokens, by least squares of relative errors.
  static void FitLine(const std::vector<sched::BatchSample>& samples, double* fixed_s,
                      double* token_s) {
    double sum = 0, x = 0, y = 0, xx = 0, xy = 0;
    for (const sched::BatchSample& sample : samples) {
      const double weight = 1 / (sample.seconds * sample.seconds);
      sum += weight;
      x += weight * sample.tokens;
      y += weight * sample.seconds;
      xx += weight * sample.tokens * sample.tokens;
      xy += weight * sample.tokens * sample.seconds;
    }
    *token_s = std::max(0.0, (sum * xy - x * y) / (sum * xx - x * x));
    *fixed_s = std::max(0.0, (y - *token_s * x) / sum);
  }

  // Many clients, so that batches follow each other: what requests add to them, and the gaps. Then
  // few requests, so that most find the model idle.
  Status MeasureUnderLoad() {
    load::LengthSpec lengths;
    lengths.kind = load::LengthSpec::Kind::kUniform;
    lengths.min = 4;
    lengths.max = std::clamp(costs_.length_max - static_cast<int32_t>(costs_.added_tokens), 4, 124);
    const double seconds = options_.seconds * kLoadShare / 3;
    PENSTOCK_ASSIGN_OR_RETURN(const Measured many, Ask(lengths, 1, kSaturatingClients, 0, seconds));
    costs_.request_s = std::max(
        0.0, (many.totals.seconds - AloneSeconds(many.totals, lengths)) / many.totals.rows);
    const double rows_per_s = many.totals.rows / many.wall_s;
    PENSTOCK_RETURN_IF_ERROR(MeasureCold(rows_per_s, seconds));
    return Calibrate(rows_per_s, lengths, seconds);
  }

  // Requests as they come in life, and the same ones simulated: what of the batches' time the
  // measurements before do not explain is laid to those that follow another one.
  Status Calibrate(double rows_per_s, const load::LengthSpec& lengths, double seconds) {
    Workload workload;
    workload.rate = kSomeLoad * rows_per_s;
    workload.lengths = lengths;
    DriveOptions drive{options_.target, costs_.word_tokens, 0.5, seconds};
    // Where the processors are busy with the requests themselves, a server of a small model refuses
    // arrivals at a rate that it reaches for clients who wait: then half of that.
    Expected<Driven> tried = DriveServer(model_, workload, drive);
    for (int i = 0; i < kHalvings && tried.status().code() == StatusCode::kUnavailable; ++i) {
      workload.rate /= 2;
      tried = DriveServer(model_, workload, drive);
    }
    PENSTOCK_ASSIGN_OR_RETURN(const Driven driven, std::move(tried));
    costs_.outside_busy_s =
        std::max(costs_.outside_s, driven.outside_s - costs_.outside_token_s * driven.row_tokens);
    FleetRun run;
    run.seconds = drive.warmup_s + drive.seconds;
    double low_s = 0, high_s = 10 * costs_.batch.Seconds(64, 64 * 64);
    for (int i = 0; i < kBisections; ++i) {
      Costs costs;
      costs.encoder = costs_;
      costs.encoder->gap_s = (low_s + high_s) / 2;
      PENSTOCK_ASSIGN_OR_RETURN(const FleetOutcome outcome,
                                SimulateFleet(costs, nullptr, workload, run));
      (outcome.busy_share < driven.busy_share ? low_s : high_s) = costs.encoder->gap_s;
    }
    costs_.gap_s = low_s;
    return Status::Ok();
  }

  // What the first batch after a while takes more, and requests beside it.
  Status MeasureCold(double rows_per_s, double seconds) {
    std::vector<sched::BatchSample> samples, outside;
    for (const int32_t tokens : {8, 64, 192}) {
      const int32_t length = std::min(tokens, costs_.length_max);
      const double alone_s = costs_.batch.Seconds(length, length * length);
      const auto words =
          static_cast<int32_t>(std::lround((length - costs_.added_tokens) / costs_.word_tokens));
      double rate = kLowLoad * std::min(rows_per_s, 1 / alone_s);
      const auto ask = [&] {
        return Ask(Fixed(std::max(words, 1)), 1, kSaturatingClients, rate,
                   std::max(seconds / 3, kFewestArrivals * alone_s / kLowLoad));
      };
      Expected<Measured> tried = ask();
      for (int i = 0; i < kHalvings && tried.status().code() == StatusCode::kUnavailable; ++i) {
        rate /= 2;
        tried = ask();
      }
      PENSTOCK_ASSIGN_OR_RETURN(const Measured few, std::move(tried));
      const BatchTotals& totals = few.totals;
      const double work = totals.tokens * totals.tokens / totals.rows;
      const double more_s = totals.seconds - totals.batches * costs_.batch.fixed_s -
                            costs_.batch.token_s * totals.tokens - costs_.batch.work_s * work;
      samples.push_back(
          {totals.tokens / totals.batches, 0, std::max(kLeastColdS, more_s / totals.batches)});
      outside.push_back({totals.tokens / totals.rows, 0, few.outside_s});
    }
    FitLine(outside, &costs_.outside_s, &costs_.outside_token_s);
    FitLine(samples, &costs_.cold_s, &costs_.cold_token_s);
    return Status::Ok();
  }

  // What the fit says of these batches, with rows of evenly drawn lengths.
  double AloneSeconds(const BatchTotals& totals, const load::LengthSpec& lengths) const {
    const double mean = totals.tokens / totals.rows;
    const double spread = costs_.word_tokens * (lengths.max - lengths.min);
    const double work = totals.rows * (mean * mean + spread * spread / 12);
    return totals.batches * costs_.batch.fixed_s + totals.tokens * costs_.batch.token_s +
           work * costs_.batch.work_s;
  }

  static constexpr int kHalvings = 4;  // of a rate that the server refuses
  static constexpr double kShortS = 0.2;
  static constexpr int kRounds = 3;
  static constexpr int kBisections = 16;
  static constexpr double kLeastColdS = 1e-5;
  static constexpr double kFewestArrivals = 8;

  const ServedModel& model_;
  const MeasureOptions& options_;
  EncoderCosts costs_;
  uint64_t seed_ = 1000;
};

class DecoderMeasurement {
 public:
  DecoderMeasurement(const ServedModel& model, const MeasureOptions& options)
      : model_(model), options_(options) {}

  Expected<DecoderCosts> Run() {
    load_.seed = std::random_device()();  // a server that was measured before knows its prompts
    load_.request.model = model_.name;
    load_.request.completions = !model_.chat;
    PENSTOCK_ASSIGN_OR_RETURN(load_.scale, MeasurePromptScale(options_.target, load_.request));
    costs_.context = model_.context;
    costs_.sequences = model_.sequences;
    costs_.cache_blocks = model_.cache_blocks;
    PENSTOCK_RETURN_IF_ERROR(MeasurePrompts());
    PENSTOCK_RETURN_IF_ERROR(MeasureTexts());
    return costs_;
  }

 private:
  static constexpr int kPrompt = 32, kOutput = 64;
  static constexpr double kPast = kPrompt + kOutput / 2;
  static constexpr int kMany = 16;
  static constexpr int kRuns = 9;

  struct Measured {
    load::ChatResult result;
    StepTotals steps;
  };

  Expected<Measured> Ask(int clients, int prompt, int output) {
    load_.concurrency = clients;
    load_.request.prompt_tokens = {prompt, prompt};
    load_.request.output_tokens = {output, output};
    ++load_.seed;
    // A first request brings memory and caches to their places; then all are measured.
    const load::LoadWindow first{.warmup_s = 0, .duration_s = 60, .requests_max = 1};
    PENSTOCK_RETURN_IF_ERROR(RunChatLoad(options_.target, load_, first).status());
    ++load_.seed;
    Measured measured;
    PENSTOCK_ASSIGN_OR_RETURN(const StepTotals before,
                              StepTotals::Read(options_.target, model_.name));
    const load::LoadWindow window{.warmup_s = 0, .duration_s = options_.seconds / kRuns};
    PENSTOCK_ASSIGN_OR_RETURN(measured.result, RunChatLoad(options_.target, load_, window));
    const load::ChatResult& result = measured.result;
    if (result.ErrorCount() > 0 || result.first_token.count() == 0) {
      return Status(StatusCode::kUnavailable,
                    "the server did not answer all requests: " + result.ErrorsText());
    }
    PENSTOCK_ASSIGN_OR_RETURN(const StepTotals after,
                              StepTotals::Read(options_.target, model_.name));
    measured.steps = after - before;
    if (measured.steps.rows < 1) {
      return Status(StatusCode::kUnavailable, "the server counted no steps of " + model_.name);
    }
    return measured;
  }

  // Prompts alone, of one token to generate, so that each step is a chunk of one.
  Status MeasurePrompts() {
    std::vector<sched::BatchSample> chunks;
    double outside_s = 0;
    for (const int32_t prompt : {kPrompt, 64, 96, 192, 448, 960}) {
      if (2 * prompt > costs_.context) break;
      PENSTOCK_ASSIGN_OR_RETURN(const Measured measured, Ask(1, prompt, 1));
      const StepTotals& steps = measured.steps;
      double tokens = prompt - costs_.template_tokens;
      // A large model may have ended none of them in time.
      if (const auto whole = static_cast<double>(measured.result.whole); whole > 0) {
        // The template's first blocks are cached since the first request.
        const double known = static_cast<double>(measured.result.cached_tokens) / whole;
        costs_.template_tokens = static_cast<int32_t>(std::lround(known));
        tokens = std::max(1.0, static_cast<double>(measured.result.prompt_tokens) / whole - known);
      }
      const double prompts = steps.rows / tokens;
      const double work =
          generate::StepCost::Work(static_cast<int32_t>(tokens), costs_.template_tokens);
      chunks.push_back(
          {steps.rows / steps.steps, work * prompts / steps.steps, steps.seconds / steps.steps});
      outside_s += std::max(
          0.0, measured.result.first_token.PercentileMs(0.5) / 1000 - steps.seconds / prompts);
    }
    costs_.outside_s = outside_s / static_cast<double>(std::max<size_t>(1, chunks.size()));
    const sched::BatchTimes fit = sched::FitBatchTimes(chunks);
    costs_.step.fixed_s = fit.fixed_s;
    costs_.step.row_s = fit.token_s;
    costs_.step.work_s = fit.work_s;
    return Status::Ok();
  }

  // Texts that are generated side by side.
  Status MeasureTexts() {
    generate::StepCost& step = costs_.step;
    PENSTOCK_ASSIGN_OR_RETURN(step.one_s, StepOf(1));
    PENSTOCK_ASSIGN_OR_RETURN(step.few_s, StepOf(generate::StepCost::kFewRows));
    if (costs_.sequences >= kMany) {
      PENSTOCK_ASSIGN_OR_RETURN(const double many_s, StepOf(kMany));
      const double rows_s = std::max(step.few_s, step.Seconds(kMany, kMany * kPast));
      costs_.pick_s = std::max(0.0, many_s - rows_s) / kMany;
    }
    // Without looking back and without logits; a fit may have given these too much.
    const double beside_s = std::min(step.work_s * kPast + costs_.pick_s, step.one_s / 2);
    step.one_s -= beside_s;
    step.few_s = std::max(step.one_s, step.few_s - beside_s * generate::StepCost::kFewRows);
    return Status::Ok();
  }

  // Seconds of a step of that number of texts.
  Expected<double> StepOf(int clients) {
    PENSTOCK_ASSIGN_OR_RETURN(const Measured measured, Ask(clients, kPrompt, kOutput));
    return measured.result.between_tokens.PercentileMs(0.5) / 1000;
  }

  const ServedModel& model_;
  const MeasureOptions& options_;
  load::ChatLoad load_;
  DecoderCosts costs_;
};

}  // namespace

Expected<Costs> MeasureCosts(const ServedModel& model, const MeasureOptions& options) {
  Costs costs;
  costs.model = model.name;
  costs.machine = options.machine;
  costs.version = PENSTOCK_VERSION;
  if (model.generates()) {
    PENSTOCK_ASSIGN_OR_RETURN(costs.decoder, DecoderMeasurement(model, options).Run());
  } else {
    PENSTOCK_ASSIGN_OR_RETURN(costs.encoder, EncoderMeasurement(model, options).Run());
  }
  return costs;
}

}  // namespace penstock::plan

#include "bench/generate_speed.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <limits>
#include <memory>
#include <numeric>
#include <random>

#include "base/int_math.h"
#include "bench/arithmetic_peak.h"
#include "bench/random_decoder.h"
#include "cpu/dispatch.h"
#include "cpu/huge_page_arena.h"
#include "cpu/read_loops.h"
#include "devices/backends.h"
#include "load/clock_units.h"
#include "load/latency.h"
#include "load/table.h"
#include "log/step_progress.h"
#include "metrics/process_stats.h"
#include "models/decoder.h"
#include "os/processors.h"
#include "program/program_cost.h"
#include "sample/sampler.h"
#include "threads/thread_pool.h"

namespace penstock::bench {
namespace {

constexpr int32_t kStepRows = 512;
// Over any cache.
constexpr size_t kReadBytes = size_t{512} << 20;

using SteadyClock = std::chrono::steady_clock;

// The read rate and arithmetic peaks of the processor: the best of all rounds.
class Limits {
 public:
  Limits(const cpu::Kernels& kernels, int threads)
      : kernels_(kernels),
        pool_(threads > 0 ? static_cast<size_t>(threads) : UsableProcessors()),
        memory_(arena_.Alloc(kReadBytes)) {
    std::fill_n(static_cast<uint8_t*>(memory_.data), kReadBytes, uint8_t{1});
  }

  void Measure() {
    const size_t part = kReadBytes / pool_.threads() / 4096 * 4096;
    for (const cpu::ReadLoop& loop : cpu::ReadLoops()) {
      const auto begin = SteadyClock::now();
      pool_.Gang([&](size_t thread) {
        sums_[thread % kSums] =
            loop.read(static_cast<const uint8_t*>(memory_.data) + thread * part, part);
      });
      const double bytes = static_cast<double>(part * pool_.threads());
      read_rate_ = std::max(read_rate_, bytes / load::SecondsSince(begin));
    }
    for (const numbers::DType dtype :
         {numbers::DType::kI8, numbers::DType::kBf16, numbers::DType::kF32}) {
      double& peak = peaks_[static_cast<size_t>(dtype)];
      peak = std::max(peak, ArithmeticPeak(kernels_, dtype, &pool_));
    }
  }

  // Those of a device apart from the host.
  void Take(const program::PeakRates& rates) {
    read_rate_ = rates.bytes_per_s;
    for (double& peak : peaks_) peak = rates.operations_per_s;
  }

  double read_rate() const { return read_rate_; }
  double peak(numbers::DType dtype) const { return peaks_[static_cast<size_t>(dtype)]; }

 private:
  static constexpr size_t kSums = 64;
  const cpu::Kernels& kernels_;
  ThreadPool pool_;
  cpu::HugePageArena arena_;
  cpu::HugePageArena::Block memory_;
  volatile uint64_t sums_[kSums] = {};
  double read_rate_ = 0;
  double peaks_[static_cast<size_t>(numbers::DType::kQ6K) + 1] = {};
};

struct Prefill {
  int tokens = 0;
  double seconds = std::numeric_limits<double>::max();
};

struct Decode {
  int depth = 0;
  load::LatencyHistogram tokens;
  double seconds = std::numeric_limits<double>::max();  // of a round's tokens
  std::vector<program::StageTime> profile;              // of all rounds
  double all_s = 0;                                     // of all rounds, choice of tokens included
  double device_s = 0;                                  // of a device, of all rounds
  double processor_s = 0;                               // of the host's processors, of all rounds
};

// One model, one text at a time.
class GenerateSpeedBench {
 public:
  static Expected<std::unique_ptr<GenerateSpeedBench>> Make(const GenerateSpeedOptions& options) {
    auto bench = std::unique_ptr<GenerateSpeedBench>(new GenerateSpeedBench(options));
    PENSTOCK_ASSIGN_OR_RETURN(bench->backend_, devices::NewBackend({.device = options.device,
                                                                    .threads = options.threads}));
    if (options.model.empty()) {
      PENSTOCK_ASSIGN_OR_RETURN(const auto random, RandomDecoder::Make(options.shape, options.mix));
      PENSTOCK_RETURN_IF_ERROR(bench->Load(random->files));
    } else {
      PENSTOCK_ASSIGN_OR_RETURN(const families::DecoderFiles files,
                                families::DecoderFiles::Open(options.model));
      PENSTOCK_RETURN_IF_ERROR(bench->Load(files));
    }
    bench->backend_->PlaceCaller();
    PENSTOCK_ASSIGN_OR_RETURN(bench->run_, bench->NewRun({}));
    return bench;
  }

  const models::DecoderModel& model() const { return *model_; }

  // Rounds of everything in turns.
  Status Measure(Limits* limits) {
    if (!backend_->is_host()) limits->Take(backend_->peak_rates());
    StepProgress progress({.steps = options_.rounds, .in_log = false});
    for (int round = 0; round < options_.rounds; ++round) {
      progress.Next("round");
      if (backend_->is_host()) limits->Measure();
      for (Prefill& one : prefills_) PENSTOCK_RETURN_IF_ERROR(MeasurePrefill(&one));
      for (Decode& one : decodes_) PENSTOCK_RETURN_IF_ERROR(MeasureDecode(run_.get(), &one));
    }
    if (backend_->is_host()) limits->Measure();
    return Status::Ok();
  }

  // Decoding at depth 0 with each optimisation off: tokens a second over those with all on, in
  // turns.
  Status MeasureTuning(load::BenchRecords* records) {
    load::BenchTable table({"without", "tokens/s, of all on"});
    for (const std::string name : backend_->optimisations()) {
      PENSTOCK_ASSIGN_OR_RETURN(const auto run, NewRun({name}));
      Decode with, without;
      with.depth = without.depth = decodes_.back().depth;
      for (int round = 0; round < options_.rounds; ++round) {
        PENSTOCK_RETURN_IF_ERROR(MeasureDecode(run_.get(), &with));
        PENSTOCK_RETURN_IF_ERROR(MeasureDecode(run.get(), &without));
      }
      const double ratio = with.seconds / without.seconds;
      table.AddRow({name, fmt::format("{:.3f}", ratio)});
      records->Add("generate.decode." + name_ + ".without_" + name, ratio, "1");
    }
    table.Print();
    return Status::Ok();
  }

  void Report(const Limits& limits, load::BenchRecords* records) const {
    const double int8 = limits.peak(numbers::DType::kI8) / 1e9;
    const double bf16 = limits.peak(numbers::DType::kBf16) / 1e9;
    fmt::print("{} | {:.1f} GB of weights | reads {:.1f} GB/s, {}\n", backend_->name(),
               static_cast<double>(model_->weight_bytes()) / 1e9, limits.read_rate() / 1e9,
               backend_->is_host() ? fmt::format("int8 peak {:.0f} GOP/s, bf16 {:.0f}", int8, bf16)
                                   : fmt::format("peak {:.0f} GOP/s", bf16));
    ReportPrefills(limits, records);
    ReportDecodes(limits, records);
    if (backend_->is_host()) ReportStages(records);
  }

 private:
  explicit GenerateSpeedBench(const GenerateSpeedOptions& options)
      : options_(options),
        name_(!options.name.empty()   ? options.name
              : options.model.empty() ? options.mix
                                      : "model") {}

  Status Load(const families::DecoderFiles& files) {
    int longest = 1;
    const int context = files.config.context;
    for (const int tokens : options_.prompts) {
      if (tokens > context) continue;
      prefills_.push_back({tokens});
      longest = std::max(longest, tokens);
    }
    for (const int depth : options_.depths) {
      if (depth + options_.tokens + 1 > context) continue;
      decodes_.emplace_back().depth = depth;
      longest = std::max(longest, depth + options_.tokens + 1);
    }
    if (prefills_.empty() || decodes_.empty()) {
      return Status::InvalidArgument(
          fmt::format("no length fits in the context of {} tokens", context), "prompt");
    }
    models::DecoderOptions decoder;
    decoder.dtype = options_.dtype;
    decoder.context = longest;
    PENSTOCK_ASSIGN_OR_RETURN(model_, models::DecoderModel::Load(files, backend_.get(), decoder));
    blocks_.resize(CeilDiv(static_cast<size_t>(longest), size_t{kKvBlockTokens}));
    std::iota(blocks_.begin(), blocks_.end(), 0);
    vocabulary_ = files.config.vocab_size;
    std::mt19937 random(1);
    ids_.resize(static_cast<size_t>(longest));
    for (int32_t& id : ids_) {
      id = static_cast<int32_t>(random() % static_cast<uint32_t>(vocabulary_));
    }
    return Status::Ok();
  }

  Expected<std::unique_ptr<program::ProgramRun>> NewRun(
      const std::vector<std::string>& without) const {
    program::PrepareOptions step;
    step.cache_type = options_.cache_type;
    step.blocks = {static_cast<int32_t>(blocks_.size())};
    step.rows = std::min(kStepRows, model_->context());
    step.profile = true;
    step.without = without;
    step.ahead = true;
    return model_->NewRun(step);
  }

  Status Step(program::ProgramRun* run, std::span<const int32_t> ids, int32_t past, bool logits,
              program::PickWant want) const {
    const bool long_rope = run->LongRope(static_cast<size_t>(past) + ids.size());
    const program::SingleSequence sequence(ids.size(), past, blocks_, long_rope);
    const auto row = static_cast<int32_t>(ids.size() - 1);
    const size_t picks = logits ? 1 : 0;
    return run->Run(sequence.Batch(ids, {&row, picks}, {&want, picks}));
  }

  // A row of `id`, or of the best token of the step before.
  Status StartRow(program::ProgramRun* run, int32_t id, int32_t past, bool drawn) const {
    const bool long_rope = run->LongRope(static_cast<size_t>(past) + 1);
    const program::SingleSequence sequence(1, past, blocks_, long_rope);
    const int32_t row = 0;
    const program::PickWant want = program::PickWant::kBest;
    const sample::DrawRule greedy = {.uniform = 0, .temperature = 0, .top_p = 1, .keep = 1};
    program::PackedBatch batch = sequence.Batch({&id, 1}, {&row, 1}, {&want, 1});
    batch.draws = {&greedy, 1};
    if (drawn) batch.sources = {&row, 1};
    return run->Start(batch);
  }

  // The first `tokens` ids; the logits of the last.
  Status RunPrompt(program::ProgramRun* run, int tokens, program::PickWant want) const {
    for (int begin = 0; begin < tokens; begin += kStepRows) {
      const int rows = std::min(kStepRows, tokens - begin);
      const auto ids =
          std::span(ids_).subspan(static_cast<size_t>(begin), static_cast<size_t>(rows));
      PENSTOCK_RETURN_IF_ERROR(Step(run, ids, begin, begin + rows == tokens, want));
    }
    return Status::Ok();
  }

  Status MeasurePrefill(Prefill* one) const {
    const auto begin = SteadyClock::now();
    PENSTOCK_RETURN_IF_ERROR(RunPrompt(run_.get(), one->tokens, program::PickWant::kRow));
    one->seconds = std::min(one->seconds, load::SecondsSince(begin));
    return Status::Ok();
  }

  Status MeasureDecode(program::ProgramRun* run, Decode* one) const {
    sample::SamplingOptions greedy;
    greedy.temperature = 0;
    PENSTOCK_ASSIGN_OR_RETURN(
        sample::Sampler sampler,
        sample::Sampler::Make(greedy, vocabulary_, ids_.size(), run->parts_max()));
    const int depth = std::max(one->depth, 1);
    PENSTOCK_RETURN_IF_ERROR(RunPrompt(run, depth, program::PickWant::kBest));
    (void)run->TakeProfile();
    const double processor_before = metrics::ProcessorSeconds();
    const auto begin = SteadyClock::now();
    auto last = begin;
    sample::SampledToken token;
    bool ahead = false;  // the step of the token that is chosen next is under way
    for (int i = 0; i < options_.tokens; ++i) {
      PENSTOCK_RETURN_IF_ERROR(
          sampler.Sample({{}, run->Found(0).parts, {}}, static_cast<uint64_t>(i), &token));
      sampler.Accept(token.id);
      if (!ahead) PENSTOCK_RETURN_IF_ERROR(StartRow(run, token.id, depth + i, false));
      ahead = run->draws() && i + 1 < options_.tokens;
      if (ahead) PENSTOCK_RETURN_IF_ERROR(StartRow(run, 0, depth + i + 1, true));
      PENSTOCK_RETURN_IF_ERROR(run->Finish());
      one->device_s += run->device_seconds();
      const auto now = SteadyClock::now();
      one->tokens.Add(std::chrono::duration<double>(now - last).count() * 1e3);
      last = now;
    }
    const double seconds = load::SecondsSince(begin);
    one->seconds = std::min(one->seconds, seconds);
    one->all_s += seconds;
    one->processor_s += metrics::ProcessorSeconds() - processor_before;
    AddProfile(run->TakeProfile(), &one->profile);
    return Status::Ok();
  }

  static void AddProfile(const std::vector<program::StageTime>& from,
                         std::vector<program::StageTime>* to) {
    if (to->empty()) return void(*to = from);
    for (size_t i = 0; i < from.size(); ++i) (*to)[i].seconds += from[i].seconds;
  }

  double ProgramBytes(int depth) const {
    const program::Cost cost = program::CostOf(
        model_->program(), {.sequences = 1,
                            .length = 1,
                            .past = depth + options_.tokens / 2,
                            .cache_bytes = static_cast<int64_t>(
                                options_.cache_type == numbers::DType::kF32
                                    ? 4
                                    : (options_.cache_type == numbers::DType::kI8 ? 1 : 2))});
    return static_cast<double>(cost.weight_bytes + cost.cache_bytes);
  }

  void ReportPrefills(const Limits& limits, load::BenchRecords* records) const {
    std::vector<std::string> columns = {"prompt", "tokens/s", "ms", "GOP/s"};
    if (backend_->is_host()) {
      columns.insert(columns.end(), {"of int8 peak", "of bf16 peak"});
    } else {
      columns.push_back("of peak");
    }
    load::BenchTable table(columns);
    for (const Prefill& one : prefills_) {
      const double operations = program::CostOf(model_->program(), {1, one.tokens}).operations;
      const double rate = operations / one.seconds;
      const std::string prefix = fmt::format("generate.prefill{}.{}", one.tokens, name_);
      records->Add(prefix + ".tokens_per_s", one.tokens / one.seconds, "1/s");
      records->Add(prefix + ".percent_of_peak", 100 * rate / limits.peak(numbers::DType::kI8), "%");
      std::vector<std::string> row = {
          std::to_string(one.tokens), load::ShortNumber(one.tokens / one.seconds),
          load::ShortNumber(one.seconds * 1e3), load::ShortNumber(rate / 1e9)};
      if (backend_->is_host()) {
        row.push_back(fmt::format("{:.3f}", rate / limits.peak(numbers::DType::kI8)));
      }
      row.push_back(fmt::format("{:.3f}", rate / limits.peak(numbers::DType::kBf16)));
      table.AddRow(row);
    }
    table.Print();
    std::puts("");
  }

  void ReportDecodes(const Limits& limits, load::BenchRecords* records) const {
    load::BenchTable table({"decode at", "tokens/s", "p50 ms", "p95", "p99", "GB/s", "of reads",
                            "processor", "device"});
    for (const Decode& one : decodes_) {
      const double per_second = options_.tokens / one.seconds;
      const double bytes_rate = ProgramBytes(one.depth) * per_second;
      const std::string prefix = "generate.decode." + name_;
      const std::string row = one.depth == 0 ? "" : fmt::format("depth={}", one.depth);
      records->Add(prefix + ".tokens_per_s", per_second, "1/s", row);
      records->Add(prefix + ".percent_of_bandwidth", 100 * bytes_rate / limits.read_rate(), "%",
                   row);
      records->Add(prefix + ".processor_percent", 100 * one.processor_s / one.all_s, "%", row);
      if (!backend_->is_host()) {
        records->Add(prefix + ".device_percent", 100 * one.device_s / one.all_s, "%", row);
      }
      table.AddRow({std::to_string(one.depth), load::ShortNumber(per_second),
                    load::ShortNumber(one.tokens.PercentileMs(0.5)),
                    load::ShortNumber(one.tokens.PercentileMs(0.95)),
                    load::ShortNumber(one.tokens.PercentileMs(0.99)),
                    load::ShortNumber(bytes_rate / 1e9),
                    fmt::format("{:.3f}", bytes_rate / limits.read_rate()),
                    fmt::format("{:.2f}", one.processor_s / one.all_s),
                    backend_->is_host() ? "-" : fmt::format("{:.2f}", one.device_s / one.all_s)});
    }
    table.Print();
    std::puts("");
  }

  // Where a token's time goes at the first depth, summed over all threads.
  void ReportStages(load::BenchRecords* records) const {
    const Decode& one = decodes_.front();
    const double all = one.all_s * static_cast<double>(backend_->threads());
    load::BenchTable table({"stage of decoding", "share"});
    double kernels = 0, stages = 0;
    for (const auto& [name, seconds] : one.profile) {
      stages += seconds;
      if (std::string_view(name) != "wait") kernels += seconds;
      table.AddRow({name, fmt::format("{:.3f}", seconds / all)});
    }
    table.AddRow({"other", fmt::format("{:.3f}", 1 - stages / all)});
    table.Print();
    records->Add("generate.outside_kernels_percent", 100 * (1 - kernels / all), "%");
  }

  const GenerateSpeedOptions options_;
  const std::string name_;
  std::unique_ptr<program::Backend> backend_;
  std::unique_ptr<models::DecoderModel> model_;
  std::unique_ptr<program::ProgramRun> run_;
  std::vector<int32_t> blocks_, ids_;
  int32_t vocabulary_ = 0;
  std::vector<Prefill> prefills_;
  std::vector<Decode> decodes_;
};

}  // namespace

Status MeasureGenerateSpeed(const GenerateSpeedOptions& options, load::BenchRecords* records) {
  PENSTOCK_ASSIGN_OR_RETURN(const cpu::Kernels* kernels, cpu::DefaultKernels());
  // Before the bench, which keeps this thread off the processors of its own workers.
  Limits limits(*kernels, options.threads);
  PENSTOCK_ASSIGN_OR_RETURN(const auto bench, GenerateSpeedBench::Make(options));
  PENSTOCK_RETURN_IF_ERROR(bench->Measure(&limits));
  bench->Report(limits, records);
  return options.tuning ? bench->MeasureTuning(records) : Status::Ok();
}

}  // namespace penstock::bench

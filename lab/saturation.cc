#include "lab/saturation.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <random>

#include "bench/kernel_loop.h"
#include "devices/devices.h"
#include "load/http_load.h"
#include "load/server_process.h"
#include "load/table.h"
#include "log/step_progress.h"

namespace penstock::lab {
namespace {

constexpr size_t kStrata = 64;
constexpr int kKernelRepeats = 4;  // of the same texts, cut into batches at other places
constexpr double kLoadWarmupS = 0.5;
// The scheduler's max_batch_rows: far more than texts of these lengths come to.
constexpr size_t kTextsMax = 512;

// Hands the texts out in turn, the words rotated once more each time round.
class RotatingTexts {
 public:
  explicit RotatingTexts(std::vector<std::string> texts) : texts_(std::move(texts)) {}
  std::string Next() {
    std::string& text = texts_[next_];
    next_ = (next_ + 1) % texts_.size();
    const size_t space = text.find(' ');
    if (space != std::string::npos) {
      text = text.substr(space + 1) + ' ' + text.substr(0, space);
    }
    return text;
  }

 private:
  std::vector<std::string> texts_;
  size_t next_ = 0;
};

struct Phase {
  double seconds = 0;
  double texts = 0;
  double tokens = 0;
  double client_cpu_s = 0;
  double worker_cpu_s = 0;  // of the server, or of the kernel loop

  void Add(const load::HttpRunResult& run) {
    seconds += run.seconds;
    texts += static_cast<double>(run.loads[0].texts);
    tokens += static_cast<double>(run.loads[0].tokens);
    client_cpu_s += run.client_cpu_s;
    worker_cpu_s += run.server_cpu_s;
  }
  void Add(const bench::KernelLoop::Result& run) {
    seconds += run.seconds;
    texts += static_cast<double>(run.texts);
    tokens += static_cast<double>(run.tokens);
    worker_cpu_s += run.cpu_s;
  }
};

class Saturation {
 public:
  Saturation(const SaturationOptions& options, load::BenchRecords* records)
      : options_(options),
        records_(records),
        texts_(std::make_shared<RotatingTexts>(
            StratifiedTexts(options.lengths, kStrata, options.seed))) {}

  Status Run();

 private:
  load::HttpLoad NewLoad(int concurrency, int batch);
  Expected<load::HttpRunResult> Measure(const std::vector<load::HttpLoad>& loads, double seconds);
  Status MeasureRounds();
  void ReportRatio();
  Status MeasureInteractive();
  double cores() const {
    return options_.threads > 0 ? options_.threads
                                : static_cast<double>(sysconf(_SC_NPROCESSORS_ONLN));
  }

  const SaturationOptions& options_;
  load::BenchRecords* const records_;
  const std::shared_ptr<RotatingTexts> texts_;
  std::unique_ptr<load::ServerProcess> server_;
  std::unique_ptr<bench::KernelLoop> kernel_;
  Phase base64_;
  Phase float_;
  Phase kernel_phase_;
};

Status Saturation::Run() {
  std::vector<std::string> words = {"--model",     options_.model_folder,
                                    "--log-level", "warn",
                                    "--threads",   std::to_string(options_.threads)};
  words.insert(words.end(), {"--max-batch-tokens", std::to_string(options_.batch_tokens)});
  words.insert(words.end(), options_.server_flags.begin(), options_.server_flags.end());
  PENSTOCK_ASSIGN_OR_RETURN(server_, load::ServerProcess::Start(words));
  const auto texts = StratifiedTexts(options_.lengths, kStrata, options_.seed);
  std::vector<std::string> kernel_texts;
  for (int i = 0; i < kKernelRepeats; ++i) {
    kernel_texts.insert(kernel_texts.end(), texts.begin(), texts.end());
  }
  PENSTOCK_ASSIGN_OR_RETURN(
      kernel_,
      bench::KernelLoop::Load(options_.model_folder, {devices::Devices::kAuto, options_.threads},
                              kernel_texts, options_.batch_tokens, kTextsMax));
  std::printf("%s, batches of %zu tokens at most, %.1f tokens a text\n\n",
              kernel_->backend_name().c_str(), options_.batch_tokens, kernel_->mean_tokens());
  PENSTOCK_RETURN_IF_ERROR(MeasureRounds());
  ReportRatio();
  if (options_.interactive_s > 0) PENSTOCK_RETURN_IF_ERROR(MeasureInteractive());
  const int exit_code = server_->Stop();
  if (exit_code == 0) return Status::Ok();
  return Status::Internal(fmt::format("the server ended with {}", exit_code));
}

load::HttpLoad Saturation::NewLoad(int concurrency, int batch) {
  load::HttpLoad load;
  load.concurrency = concurrency;
  load.batch = batch;
  load.seed = options_.seed;
  load.next_text = [texts = texts_] { return texts->Next(); };
  return load;
}

Expected<load::HttpRunResult> Saturation::Measure(const std::vector<load::HttpLoad>& loads,
                                                  double seconds) {
  load::LoadWindow window;
  window.warmup_s = kLoadWarmupS;
  window.duration_s = seconds;
  window.server_pid = server_->pid();
  PENSTOCK_ASSIGN_OR_RETURN(load::HttpRunResult run,
                            load::RunHttpLoads(server_->target(), loads, window));
  for (const load::LoadResult& load : run.loads) {
    if (load.ok > 0 && load.errors.empty()) continue;
    return Status(StatusCode::kUnavailable,
                  fmt::format("the server did not answer every request: {} answered, {} kinds of "
                              "failure",
                              load.ok, load.errors.size()));
  }
  return run;
}

Status Saturation::MeasureRounds() {
  StepProgress progress({.steps = options_.rounds});
  for (int round = 0; round < options_.rounds; ++round) {
    progress.Next("round");
    load::HttpLoad load = NewLoad(options_.concurrency, options_.batch);
    PENSTOCK_ASSIGN_OR_RETURN(const auto base64, Measure({load}, options_.round_s));
    base64_.Add(base64);
    // A round of it that does not count: caches and pages are those of the server.
    PENSTOCK_RETURN_IF_ERROR(kernel_->RunFor(kLoadWarmupS).status());
    PENSTOCK_ASSIGN_OR_RETURN(const auto kernel, kernel_->RunFor(options_.round_s));
    kernel_phase_.Add(kernel);
    if (!options_.with_float) continue;
    load.base64 = false;
    PENSTOCK_ASSIGN_OR_RETURN(const auto floats, Measure({load}, options_.round_s));
    float_.Add(floats);
  }
  return Status::Ok();
}

void Saturation::ReportRatio() {
  const double kernel_rate = kernel_phase_.texts / kernel_phase_.seconds;
  const double kernel_cpu = kernel_phase_.worker_cpu_s / kernel_phase_.texts;
  load::BenchTable table({"", "texts/s", "tokens/s", "worker cpu", "client cpu", "raw ratio",
                          "client apart", "cpu a text"});
  const auto add = [&](const char* name, const Phase& phase, const char* record) {
    const double rate = phase.texts / phase.seconds;
    const double client = phase.client_cpu_s / phase.seconds;
    const double raw = rate / kernel_rate;
    // The client ran on the same processors: its time was not left for the server.
    const double corrected = raw / ((cores() - client) / cores());
    const double cpu_ratio = kernel_cpu / (phase.worker_cpu_s / phase.texts);
    table.AddRow({name, load::ShortNumber(rate), load::ShortNumber(phase.tokens / phase.seconds),
                  fmt::format("{:.2f}", phase.worker_cpu_s / phase.seconds),
                  fmt::format("{:.2f}", client), fmt::format("{:.3f}", raw),
                  fmt::format("{:.3f}", corrected), fmt::format("{:.3f}", cpu_ratio)});
    const std::string prefix = record;
    records_->Add(prefix + "texts_per_s", rate, "1/s");
    if (&phase == &kernel_phase_) return;
    records_->Add(prefix + "ratio_vs_kernel_loop_raw", raw, "1");
    records_->Add(prefix + "ratio_vs_kernel_loop", corrected, "1");
    records_->Add(prefix + "cpu_ratio_vs_kernel_loop", cpu_ratio, "1");
    records_->Add(prefix + "client_processors", client, "1");
  };
  add("kernel loop", kernel_phase_, "http.kernel_loop_");
  add("server, base64", base64_, "http.");
  if (options_.with_float) add("server, float", float_, "http.float_");
  table.Print();
  std::printf(
      "\nraw ratio: texts/s over those of the kernel loop. client apart: the same over the share "
      "of\nthe %g processors that the client left. cpu a text: processor time of the kernel loop "
      "over\nthat of the server, for one text.\n",
      cores());
}

Status Saturation::MeasureInteractive() {
  PENSTOCK_ASSIGN_OR_RETURN(const load::LatencyHistogram batch, kernel_->TimeFullestBatch(2));
  load::HttpLoad interactive = NewLoad(64, 1);
  interactive.rate = options_.interactive_rate;
  interactive.priority = "interactive";
  StepProgress progress({.steps = 2, .step_s = options_.interactive_s});
  progress.Next("interactive requests alone");
  PENSTOCK_ASSIGN_OR_RETURN(const auto alone, Measure({interactive}, options_.interactive_s));
  load::HttpLoad bulk = NewLoad(options_.bulk_concurrency, options_.bulk_batch);
  bulk.priority = "bulk";
  progress.Next("interactive requests under bulk load");
  PENSTOCK_ASSIGN_OR_RETURN(const auto loaded,
                            Measure({interactive, bulk}, options_.interactive_s));
  progress.Clear();
  const load::LatencyHistogram& own = alone.loads[0].latency;
  const load::LatencyHistogram& under = loaded.loads[0].latency;
  const double batch_ms = batch.PercentileMs(0.5);
  const double own_ms = own.PercentileMs(0.99);
  const double limit_ms = 2 * batch_ms + own_ms;
  const double ratio = under.PercentileMs(0.99) / limit_ms;
  load::BenchTable table({"interactive requests", "p50 ms", "p90", "p95", "p99", "max", "count"});
  const auto add = [&table](const char* name, const load::LatencyHistogram& times) {
    table.AddRow({name, load::ShortNumber(times.PercentileMs(0.5)),
                  load::ShortNumber(times.PercentileMs(0.9)),
                  load::ShortNumber(times.PercentileMs(0.95)),
                  load::ShortNumber(times.PercentileMs(0.99)), load::ShortNumber(times.max_ms()),
                  std::to_string(times.count())});
  };
  add("alone", own);
  add("under bulk load", under);
  add("(one maximal batch, kernels)", batch);
  std::printf("\n");
  table.Print();
  std::printf(
      "\n2 x one maximal batch (p50) + own (p99 alone) = %.1f ms; p99 under bulk load is %.2f of "
      "it.\nBulk meanwhile: %s texts/s.\n",
      limit_ms, ratio,
      load::ShortNumber(static_cast<double>(loaded.loads[1].texts) / loaded.seconds).c_str());
  records_->Add("http.interactive_p99_ms", under.PercentileMs(0.99), "ms");
  records_->Add("http.interactive_alone_p99_ms", own_ms, "ms");
  records_->Add("http.maximal_batch_ms", batch_ms, "ms");
  records_->Add("http.interactive_p99_ratio", ratio, "1");
  return Status::Ok();
}

}  // namespace

std::vector<std::string> StratifiedTexts(const load::LengthSpec& lengths, size_t count,
                                         uint64_t seed) {
  constexpr size_t kDrawsPerStratum = 101;  // odd: each has a middle
  std::mt19937_64 random(seed);
  std::vector<int32_t> drawn(count * kDrawsPerStratum);
  for (int32_t& length : drawn) length = lengths.Draw(&random);
  std::sort(drawn.begin(), drawn.end());
  std::vector<int32_t> middles;
  for (size_t i = 0; i < count; ++i) {
    middles.push_back(drawn[i * kDrawsPerStratum + kDrawsPerStratum / 2]);
  }
  std::shuffle(middles.begin(), middles.end(), random);
  std::vector<std::string> texts;
  for (const int32_t length : middles) {
    load::LengthSpec fixed;
    fixed.kind = load::LengthSpec::Kind::kFixed;
    fixed.min = fixed.max = length;
    texts.push_back(load::TextSource(fixed, random()).Next());
  }
  return texts;
}

Status RunSaturation(const SaturationOptions& options, load::BenchRecords* records) {
  return Saturation(options, records).Run();
}

}  // namespace penstock::lab

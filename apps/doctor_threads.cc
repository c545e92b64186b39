#include "doctor_threads.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <memory>
#include <utility>

#include "devices/backends.h"
#include "doctor_accuracy.h"
#include "families/decoder_files.h"
#include "generate/generator.h"
#include "generate/text_model.h"
#include "generate/text_stream.h"
#include "load/table.h"
#include "os/topology.h"
#include "runtime/local_models.h"

namespace penstock::cli {
namespace {

// A number of threads is as good as the best one if its rate is at least this part of the best.
constexpr double kNearlyBest = 0.97;
constexpr int kRounds = 3;  // the best of each counts
constexpr size_t kTexts = 256;
constexpr int kSingleTexts = 20;
constexpr int32_t kPromptTokens = 256;
constexpr int32_t kDecodedTokens = 48;

using Measure = std::function<Expected<ThreadSpeed>(int threads)>;

class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

 private:
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

// A text of `words` words; another for another number.
std::string MadeText(size_t number, size_t words) {
  static constexpr const char* kWords[] = {"river", "turbine", "pressure", "valve", "the",
                                           "water", "of",      "a",        "head",  "flow"};
  std::string text = std::to_string(number);
  for (size_t word = 0; word < words; ++word) {
    text += std::string(" ") + kWords[(number + word * (1 + number % 7)) % std::size(kWords)];
  }
  return text;
}

Workload TextsOf(const std::string& task, size_t first, size_t count, size_t words) {
  Workload work;
  work.task = task;
  for (size_t i = first; i < first + count; ++i) {
    work.inputs.push_back(
        {MadeText(i, words), task == "embedding" ? std::nullopt : std::optional("A second text.")});
  }
  return work;
}

Expected<ThreadSpeed> SpeedOfEncoder(runtime::ModelOptions flags, int threads) {
  flags.threads = threads;
  PENSTOCK_ASSIGN_OR_RETURN(const auto local, runtime::LocalModels::Load(flags));
  const std::string task = local->service->Models().front().task;
  ThreadSpeed speed = {threads};
  size_t next = 0;  // no text comes twice: a cache would know it
  const auto ask = [&](size_t count, size_t words) -> Expected<double> {
    const Workload work = TextsOf(task, next, count, words);
    next += count;
    const Stopwatch watch;
    PENSTOCK_RETURN_IF_ERROR(AskAll(local->service.get(), work).status());
    return static_cast<double>(count) / watch.seconds();
  };
  for (int round = 0; round < kRounds; ++round) {
    PENSTOCK_ASSIGN_OR_RETURN(const double many, ask(kTexts, 60));
    speed.many_per_s = std::max(speed.many_per_s, many);
    for (int i = 0; i < kSingleTexts; ++i) {
      PENSTOCK_ASSIGN_OR_RETURN(const double single, ask(1, 12));
      speed.single_per_s = std::max(speed.single_per_s, single);
    }
  }
  return speed;
}

Expected<ThreadSpeed> SpeedOfDecoder(const DecoderPlace& place, const runtime::ModelOptions& flags,
                                     int threads) {
  PENSTOCK_ASSIGN_OR_RETURN(devices::DeviceOptions device, runtime::DeviceAsked(flags));
  device.threads = threads;
  PENSTOCK_ASSIGN_OR_RETURN(const auto backend, devices::NewBackend(device));
  generate::TextModelOptions options;
  PENSTOCK_ASSIGN_OR_RETURN(options.dtype, TypeAsked(flags));
  PENSTOCK_ASSIGN_OR_RETURN(const families::DecoderFiles files,
                            families::DecoderFiles::Open(place.path));
  options.context = std::min(files.config.context, kPromptTokens + kDecodedTokens);
  PENSTOCK_ASSIGN_OR_RETURN(const auto model,
                            generate::TextModel::Load(place.path, backend.get(), options));
  PENSTOCK_ASSIGN_OR_RETURN(const auto generator, generate::Generator::Make(model.get()));
  backend->PlaceCaller();
  // In a shorter context half is for each.
  const int32_t prompt = std::min(kPromptTokens, model->context() / 2);
  const auto vocabulary = static_cast<int32_t>(generate::VocabularyOf(*model));
  generate::GenerateRequest request;
  for (int32_t i = 0; i < prompt; ++i) request.prompt.push_back(i % vocabulary);
  request.sampling.temperature = 0;
  request.sampling.ignore_eos = true;
  request.sampling.max_tokens = std::min(kDecodedTokens, model->context() - prompt);
  ThreadSpeed speed = {threads};
  for (int round = 0; round < kRounds; ++round) {
    generate::Generated made;
    PENSTOCK_RETURN_IF_ERROR(generator->Generate(request, &made));
    speed.many_per_s = std::max(speed.many_per_s, prompt / made.prompt_s);
    const double fastest = *std::ranges::min_element(made.token_s);
    speed.single_per_s = std::max(speed.single_per_s, 1 / fastest);
  }
  return speed;
}

Status TryAll(int asked, const SpeedUnits& units, const Measure& measure, const checks::Say& say) {
  const ProcessorLimits limits = ReadProcessorLimits();
  const Topology topology = ReadTopology();
  say(checks::Verdict::kSkipped, limits.Text() + "; " + topology.Text());
  const auto in_use = static_cast<int>(
      PlanThreads(static_cast<size_t>(std::max(0, asked)), false, limits, topology).threads);
  std::vector<ThreadSpeed> tried;
  for (const int threads : ThreadsToTry(in_use, limits, topology)) {
    // On a thread of its own: one that calls the model may be pinned, which this one must not be,
    // as the next number of threads is planned for the processors it may use.
    PENSTOCK_ASSIGN_OR_RETURN(const ThreadSpeed speed,
                              std::async(std::launch::async, measure, threads).get());
    tried.push_back(speed);
    say(checks::Verdict::kSkipped,
        fmt::format("--threads {}: {} {}, {} {}", threads, load::ShortNumber(speed.many_per_s),
                    units.many, load::ShortNumber(speed.single_per_s), units.single));
  }
  const ThreadSpeed& best = BestThreads(tried);
  const ThreadSpeed& now = *std::ranges::find(tried, in_use, &ThreadSpeed::threads);
  if (now.many_per_s >= kNearlyBest * best.many_per_s) {
    say(checks::Verdict::kOk, fmt::format("{} {} used, and no other number does more", in_use,
                                          in_use == 1 ? "thread is" : "threads are"));
  } else {
    say(checks::Verdict::kAdvice,
        fmt::format("--threads {} does {:.2f} times the work of {}", best.threads,
                    best.many_per_s / now.many_per_s, in_use));
  }
  return Status::Ok();
}

}  // namespace

std::vector<int> ThreadsToTry(int in_use, const ProcessorLimits& limits, const Topology& topology) {
  const size_t cores = std::min(topology.cores.size(), limits.usable());
  std::vector<int> counts;
  for (size_t count = 1; count < cores; count *= 2) counts.push_back(static_cast<int>(count));
  counts.push_back(static_cast<int>(cores));
  counts.push_back(static_cast<int>(std::min(topology.processors(), limits.usable())));
  counts.push_back(in_use);
  std::ranges::sort(counts);
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  return counts;
}

const ThreadSpeed& BestThreads(const std::vector<ThreadSpeed>& tried) {
  const double best = std::ranges::max_element(tried, {}, &ThreadSpeed::many_per_s)->many_per_s;
  return *std::ranges::find_if(
      tried, [&](const ThreadSpeed& speed) { return speed.many_per_s >= kNearlyBest * best; });
}

void TryThreads(const runtime::ModelOptions& flags, const checks::Say& say) {
  const Status done = TryAll(
      flags.threads, {"texts of 60 words/s", "single queries/s"},
      [&](int threads) { return SpeedOfEncoder(flags, threads); }, say);
  if (!done.ok()) say(checks::Verdict::kFailed, done.message());
}

void TryThreadsOfDecoder(const DecoderPlace& place, const runtime::ModelOptions& flags,
                         const checks::Say& say) {
  const Status done = TryAll(
      flags.threads, {"tokens of prompts/s", "tokens decoded/s"},
      [&](int threads) { return SpeedOfDecoder(place, flags, threads); }, say);
  if (!done.ok()) say(checks::Verdict::kFailed, done.message());
}

}  // namespace penstock::cli

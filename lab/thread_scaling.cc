#include "lab/thread_scaling.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>

#include "base/int_math.h"
#include "cpu/cpu_backend.h"
#include "cpu/step_threads.h"
#include "generate/generator.h"
#include "load/table.h"
#include "os/processors.h"
#include "threads/spin_barrier.h"
#include "threads/thread_pool.h"

namespace penstock::lab {
namespace {

constexpr int32_t kPromptTokens = 8;
constexpr int32_t kDecodedTokens = 64;

double Seconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

// Two threads meet, on processors of their own where there are two: each word goes there and back once.
double LineSeconds() {
  constexpr int kMeetings = 20000;
  ThreadPool pool(2, UsableProcessors() == 2);
  SpinBarrier barrier(2);
  const auto begin = std::chrono::steady_clock::now();
  pool.Gang([&](size_t thread) {
    for (int i = 0; i < kMeetings; ++i) barrier.Wait(thread);
  });
  return Seconds(std::chrono::steady_clock::now() - begin) / kMeetings / 2;
}

struct DecodedModel {
  std::unique_ptr<program::Backend> backend;
  std::unique_ptr<generate::TextModel> model;
  std::unique_ptr<generate::Generator> generator;
  double token_s = 1e30;  // the median of the best round

  static Expected<std::unique_ptr<DecodedModel>> Load(const std::string& path, int threads) {
    auto made = std::make_unique<DecodedModel>();
    PENSTOCK_ASSIGN_OR_RETURN(made->backend,
                              cpu::NewCpuBackend({.threads = threads, .exact_threads = true}));
    generate::TextModelOptions options;
    options.context = kPromptTokens + kDecodedTokens;
    PENSTOCK_ASSIGN_OR_RETURN(made->model,
                              generate::TextModel::Load(path, made->backend.get(), options));
    PENSTOCK_ASSIGN_OR_RETURN(made->generator, generate::Generator::Make(made->model.get()));
    return made;
  }

  Status Measure() {
    generate::GenerateRequest request;
    for (int32_t i = 0; i < kPromptTokens; ++i) request.prompt.push_back(i + 3);
    request.sampling.temperature = 0;
    request.sampling.ignore_eos = true;
    request.sampling.max_tokens = kDecodedTokens;
    generate::Generated text;
    PENSTOCK_RETURN_IF_ERROR(generator->Generate(request, &text));
    auto middle = text.token_s.begin() + static_cast<ptrdiff_t>(text.token_s.size() / 2);
    std::nth_element(text.token_s.begin(), middle, text.token_s.end());
    token_s = std::min(token_s, *middle);
    return Status::Ok();
  }
};

size_t DomainsOf(const ImaginedMachine& machine, size_t threads) {
  return CeilDiv(threads, machine.l3_cores);
}

// Seconds in which a line goes to another L3 cache, or, where there are several sockets, to one.
double FarLineS(const ImaginedMachine& machine, const StepCosts& costs, size_t threads) {
  return costs.line_s * (threads > machine.socket_cores ? kFarSocket : kFarL3);
}

// Runs StepThreads on the model until it has settled; the count it uses.
size_t SettledThreads(const ImaginedMachine& machine, const StepCosts& costs) {
  cpu::StepThreads threads(machine.cores);
  for (int step = 0; step < 4000; ++step) {
    threads.Took(1, StepS(machine, costs, threads.Next(1), true));
  }
  return threads.InUse(1);
}

void Simulate(const ThreadScalingOptions& options, const StepCosts& costs,
              load::BenchRecords* records) {
  load::BenchTable table({"cores", "flat, all", "tree, all", "tree, as measured", "threads",
                          "tokens/s", "of bandwidth"});
  for (const uint32_t cores : options.cores) {
    ImaginedMachine machine = options.machine;
    machine.cores = cores;
    const size_t settled = SettledThreads(machine, costs);
    const double one = StepS(machine, costs, 1, true);
    const double flat = one / StepS(machine, costs, cores, false);
    const double tree = one / StepS(machine, costs, cores, true);
    const double step_s = StepS(machine, costs, settled, true);
    const double bandwidth =
        machine.socket_bytes_per_s * static_cast<double>(CeilDiv(cores, machine.socket_cores));
    const double share = costs.bytes / step_s /
                         std::min(bandwidth, costs.bytes_per_s_thread * static_cast<double>(cores));
    table.AddRow({std::to_string(cores), fmt::format("{:.1f}", flat), fmt::format("{:.1f}", tree),
                  fmt::format("{:.1f}", one / step_s), std::to_string(settled),
                  fmt::format("{:.0f}", 1 / step_s), fmt::format("{:.2f}", share)});
    const std::string name = fmt::format("threads.simulated.{}_cores.", cores);
    records->Add(name + "speedup_flat", flat, "1");
    records->Add(name + "speedup_tree", tree, "1");
    records->Add(name + "speedup", one / step_s, "1");
    records->Add(name + "threads", static_cast<double>(settled), "1");
  }
  fmt::print(
      "\nsimulated: {:.3g} MB a step, {:.1f} GB/s a thread, {:.0f} ns a line, {} meetings; "
      "{} cores an L3 cache, {} cores and {:.0f} GB/s a socket\n",
      costs.bytes / 1e6, costs.bytes_per_s_thread / 1e9, costs.line_s * 1e9, costs.meetings,
      options.machine.l3_cores, options.machine.socket_cores,
      options.machine.socket_bytes_per_s / 1e9);
  table.Print();
}

}  // namespace

double FlatMeetingS(const ImaginedMachine& machine, const StepCosts& costs, size_t threads) {
  if (threads <= 1) return 0;
  // Threads arrive in any order, so the line goes to another L3 cache as often as chance has it.
  const double near = DomainsOf(machine, threads) == 1
                          ? 1
                          : static_cast<double>(machine.l3_cores) / static_cast<double>(threads);
  const double line_s = near * costs.line_s + (1 - near) * FarLineS(machine, costs, threads);
  return 2 * static_cast<double>(threads - 1) * line_s;
}

double TreeMeetingS(const ImaginedMachine& machine, const StepCosts& costs, size_t threads) {
  if (threads <= 1) return 0;
  const size_t domains = DomainsOf(machine, threads);
  const double near_s =
      2 * static_cast<double>(std::min(threads, machine.l3_cores) - 1) * costs.line_s;
  return near_s + 2 * static_cast<double>(domains - 1) * FarLineS(machine, costs, threads);
}

double StepS(const ImaginedMachine& machine, const StepCosts& costs, size_t threads, bool tree) {
  const double bandwidth =
      machine.socket_bytes_per_s * static_cast<double>(CeilDiv(threads, machine.socket_cores));
  const double rate = std::min(costs.bytes_per_s_thread * static_cast<double>(threads), bandwidth);
  const double meeting_s =
      tree ? TreeMeetingS(machine, costs, threads) : FlatMeetingS(machine, costs, threads);
  return costs.bytes / rate + static_cast<double>(costs.meetings) * meeting_s;
}

Status MeasureThreadScaling(const ThreadScalingOptions& options, load::BenchRecords* records) {
  const auto processors = static_cast<int>(ReadProcessorLimits().allowed);
  std::vector<int> counts = {1};
  for (const int count : {processors, 2 * processors, 4 * processors, 8 * processors}) {
    if (count > counts.back()) counts.push_back(count);
  }
  std::vector<std::unique_ptr<DecodedModel>> models;
  for (const int count : counts) {
    PENSTOCK_ASSIGN_OR_RETURN(auto model, DecodedModel::Load(options.model, count));
    models.push_back(std::move(model));
  }
  for (int round = 0; round < options.rounds; ++round) {
    for (const auto& model : models) PENSTOCK_RETURN_IF_ERROR(model->Measure());
  }
  load::BenchTable table({"threads in each step", "tokens/s", fmt::format("of {}", processors)});
  const double base_s = models[processors == 1 ? 0 : 1]->token_s;
  for (size_t i = 0; i < counts.size(); ++i) {
    const double ratio = base_s / models[i]->token_s;
    table.AddRow({std::to_string(counts[i]), fmt::format("{:.1f}", 1 / models[i]->token_s),
                  fmt::format("{:.3f}", ratio)});
    if (counts[i] > processors) {
      records->Add(fmt::format("threads.crowded{}.ratio_vs_processors", counts[i]), ratio, "1");
    }
  }
  table.Print();

  StepCosts costs;
  costs.bytes = static_cast<double>(models[0]->model->decoder->weight_bytes());
  costs.bytes_per_s_thread = costs.bytes / models[0]->token_s;
  costs.line_s = LineSeconds();
  // Five a layer and one behind the logits.
  costs.meetings = 5 * models[0]->model->decoder->config().layers.size() + 1;
  Simulate(options, costs, records);
  return Status::Ok();
}

}  // namespace penstock::lab

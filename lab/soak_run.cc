#include "lab/soak_run.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "lab/memory_watch.h"
#include "load/process_stat.h"
#include "load/prometheus_text.h"
#include "load/table.h"
#include "log/step_progress.h"

namespace penstock::lab {
namespace {

constexpr double kLivezIntervalMs = 20;
// Many times the time in which the small queues empty.
constexpr double kDrainS = 30;
// Small, so that overload reaches them: requests, and tokens that wait.
constexpr int kConcurrentRequests = 128;
constexpr int kQueuedTokens = 65'536;
// A server may close a connection that was idle for long just when the next request is sent, and
// no client can tell that from a lost answer: not within one run.
constexpr double kIdleTimeoutMoreS = 600;
// More than the server works on at once: connections are not what limits the load.
constexpr int kConnectionsMax = 2000;
// That fill batches of single texts.
constexpr int kInteractiveClients = 32;
constexpr const char* kRoute = "route=\"/v1/embeddings\"";

}  // namespace

std::string NotJudged(double others) {
  return fmt::format("not judged: others took {:.2f} processors", others);
}

bool SoakPhase::Quiet() const { return others <= SoakRun::kOthersMax; }

SoakRun::SoakRun(const SoakOptions& options, load::BenchRecords* records)
    : options_(options),
      records_(records),
      texts_(std::make_shared<load::TextSource>(options.lengths, options.seed)) {}

Status SoakRun::StartServer(double load_s, const std::vector<std::string>& more_flags) {
  std::vector<std::string> words = {"--model", options_.model, "--log-level", "warn"};
  words.insert(words.end(),
               {"--max-concurrent-requests", std::to_string(kConcurrentRequests),
                "--max-queued-tokens", std::to_string(kQueuedTokens), "--token-cache-bytes",
                std::to_string(kTokenCacheBytes), "--idle-timeout-ms",
                std::to_string(
                    static_cast<int64_t>(std::min(load_s + kIdleTimeoutMoreS, 86'400.0) * 1000))});
  words.insert(words.end(), more_flags.begin(), more_flags.end());
  words.insert(words.end(), options_.server_flags.begin(), options_.server_flags.end());
  PENSTOCK_ASSIGN_OR_RETURN(server_, load::ServerProcess::Start(words));
  return Status::Ok();
}

load::HttpLoad SoakRun::NewLoad(const char* name, int batch, const char* priority) const {
  load::HttpLoad load;
  load.name = name;
  load.batch = batch;
  load.priority = priority;
  load.seed = options_.seed;
  load.next_text = [texts = texts_] { return texts->Next(); };
  return load;
}

Expected<double> SoakRun::MeasureTextsPerSecond(const std::vector<load::HttpLoad>& loads) {
  load::LoadWindow window;
  window.duration_s = options_.capacity_s;
  PENSTOCK_ASSIGN_OR_RETURN(const auto run, load::RunHttpLoads(server_->target(), loads, window));
  uint64_t texts = 0;
  for (const load::LoadResult& load : run.loads) texts += load.texts;
  if (texts == 0) return Status(StatusCode::kUnavailable, "the server answered nothing");
  return static_cast<double>(texts) / run.seconds;
}

Expected<double> SoakRun::MeasureCapacity() {
  StepProgress progress({});
  progress.Next("capacity");
  load::HttpLoad interactive = NewLoad("interactive", 1, "interactive");
  interactive.concurrency = 4;
  load::HttpLoad bulk = NewLoad("bulk", options_.bulk_batch, "bulk");
  bulk.concurrency = 8;
  PENSTOCK_ASSIGN_OR_RETURN(const double capacity, MeasureTextsPerSecond({interactive, bulk}));
  records_->Add("soak.capacity_texts_per_s", capacity, "1/s");
  return capacity;
}

Expected<double> SoakRun::MeasureInteractiveCapacity() {
  load::HttpLoad interactive = NewLoad("interactive", 1, "interactive");
  interactive.concurrency = kInteractiveClients;
  PENSTOCK_ASSIGN_OR_RETURN(const double capacity, MeasureTextsPerSecond({interactive}));
  records_->Add("soak.interactive_capacity_texts_per_s", capacity, "1/s");
  return capacity;
}

std::vector<load::HttpLoad> SoakRun::Overload(double texts_per_s, double interactive_share) const {
  load::HttpLoad interactive = NewLoad("interactive", 1, "interactive");
  interactive.rate = texts_per_s * interactive_share;
  load::HttpLoad bulk = NewLoad("bulk", options_.bulk_batch, "bulk");
  bulk.rate = texts_per_s * (1 - interactive_share) / options_.bulk_batch;
  bulk.seed = options_.seed + 1;
  std::vector<load::HttpLoad> loads = {interactive, bulk};
  for (load::HttpLoad& load : loads) {
    load.concurrency = kConnectionsMax;
    load.timeout_ms = options_.timeout_ms;
    load.timeout_share = 0.5;
    load.leave_share = options_.leave_share;
    load.leave_ms_max = options_.leave_ms_max;
  }
  return loads;
}

Expected<SoakPhase> SoakRun::RunPhase(const std::vector<load::HttpLoad>& loads,
                                      HostileLoad* hostile, bool may_end) {
  SoakPhase phase;
  PENSTOCK_ASSIGN_OR_RETURN(phase.before, load::HttpGet(server_->target(), "/metrics"));
  load::LoadWindow window;
  window.warmup_s = 0;
  window.duration_s = options_.duration_s;
  window.drain_s = kDrainS;
  window.server_pid = server_->pid();
  if (may_end) window.give_up = [this] { return !server_->Running(); };
  const auto cpu_of_others = [this] {
    return load::MachineBusySeconds() - load::ProcessCpuSeconds(server_->pid()) -
           load::ProcessCpuSeconds(getpid());
  };
  // Peaks between two looks count too.
  const bool peak_known = may_end && load::ResetProcessPeak(server_->pid());
  const auto begin = std::chrono::steady_clock::now();
  const double others_before = cpu_of_others();
  MemoryWatch memory(server_->pid());
  LivenessProbe probe(server_->target(), kLivezIntervalMs);
  PENSTOCK_ASSIGN_OR_RETURN(phase.run, load::RunHttpLoads(server_->target(), loads, window));
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  phase.others = (cpu_of_others() - others_before) / elapsed.count();
  phase.livez = probe.Stop();
  if (hostile != nullptr) phase.hostile = hostile->Stop();
  phase.memory_max = memory.Stop();
  if (peak_known)
    phase.memory_max = std::max(phase.memory_max, load::ProcessPeakBytes(server_->pid()));
  // A client that left is counted when the server sees it.
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  phase.ended = may_end && !server_->Running();
  if (phase.ended) return phase;
  PENSTOCK_ASSIGN_OR_RETURN(phase.after, load::HttpGet(server_->target(), "/metrics"));
  return phase;
}

void SoakRun::JudgeAnswers(const load::HttpRunResult& run, bool bulk_refused) {
  load::BenchTable table(
      {"load", "sent", "200", "429", "503", "left", "texts/s", "p50 ms", "p99 ms"});
  for (const load::LoadResult& load : run.loads) {
    const auto count = [&load](int status) {
      const auto found = load.by_status.find(status);
      return found == load.by_status.end() ? uint64_t{0} : found->second;
    };
    table.AddRow({load.name, std::to_string(load.sent), std::to_string(count(200)),
                  std::to_string(count(429)), std::to_string(count(503)), std::to_string(load.left),
                  load::ShortNumber(static_cast<double>(load.texts) / load.seconds),
                  load::ShortNumber(load.latency.PercentileMs(0.5)),
                  load::ShortNumber(load.latency.PercentileMs(0.99))});
    uint64_t other = 0;
    for (const auto& [status, n] : load.by_status) {
      if (status != 200 && status != 429 && status != 503) other += n;
    }
    const bool refused = bulk_refused && load.name == "bulk";
    verdict_.Expect(load.name + ": some answered, some refused",
                    fmt::format("{}, {}", count(200), count(429)), "> 0",
                    count(200) > 0 && (!refused || count(429) > 0));
    verdict_.ExpectNone(load.name + ": answers other than 200, 429, 503", other);
    verdict_.ExpectNone(load.name + ": 429 without Retry-After", load.no_retry_after);
    verdict_.ExpectNone(load.name + ": 503 without a deadline", load.expired_without_deadline);
    verdict_.ExpectNone(load.name + ": never answered", load.no_answer);
    verdict_.ExpectNone(load.name + ": connections lost", load.lost);
    verdict_.ExpectNone(load.name + ": not sent for want of a connection", load.not_sent);
    verdict_.ExpectAtMost(load.name + ": latest answer after its deadline, ms",
                          load.deadline_over_ms_max, options_.deadline_over_ms_max);
    records_->Add("soak.answered", static_cast<double>(count(200)), "1", load.name);
    records_->Add("soak.refused", static_cast<double>(count(429)), "1", load.name);
    records_->Add("soak.expired", static_cast<double>(count(503)), "1", load.name);
    records_->Add("soak.left", static_cast<double>(load.left), "1", load.name);
  }
  table.Print();
  std::printf("client: %.2f processors; server: %.2f\n\n", run.client_cpu_s / run.seconds,
              run.server_cpu_s / run.seconds);
}

// The server's counts equal the clients'; for clients that left, only the server knows the outcome.
void SoakRun::JudgeCounters(const SoakPhase& phase, const std::string& prefix, bool all_by_loads) {
  const auto counted = [&](std::string_view name, std::initializer_list<std::string_view> labels) {
    return load::SumOfSeries(phase.after, name, labels) -
           load::SumOfSeries(phase.before, name, labels);
  };
  double sent = 0;
  double left = 0;
  std::map<int, double> seen;
  for (const load::LoadResult& load : phase.run.loads) {
    sent += static_cast<double>(load.sent);
    left += static_cast<double>(load.left);
    for (const auto& [status, n] : load.by_status) seen[status] += static_cast<double>(n);
  }
  constexpr std::string_view kHttp = "penstock_http_requests_total";
  verdict_.ExpectEqual(prefix + "requests the server counted, all codes", counted(kHttp, {kRoute}),
                       sent);
  double of_those_that_left = counted(kHttp, {kRoute, "code=\"499\""});
  for (const int status : {200, 429, 503}) {
    const double server = counted(kHttp, {kRoute, fmt::format("code=\"{}\"", status)});
    of_those_that_left += server - seen[status];
    verdict_.Expect(
        prefix + fmt::format("... with code {}: as seen, or of clients that left", status),
        fmt::format("{:.0f}", server),
        fmt::format("{:.0f} to {:.0f}", seen[status], seen[status] + left),
        server >= seen[status] && server <= seen[status] + left);
  }
  verdict_.ExpectEqual(prefix + "... left (499), or answered to those that left",
                       of_those_that_left, left);
  constexpr std::string_view kService = "penstock_requests_total";
  const double refused = counted(kHttp, {kRoute, "code=\"429\""});
  const double exhausted =
      counted(kService, {"behaviour=\"embed\"", "outcome=\"resource_exhausted\""});
  if (all_by_loads) {
    verdict_.Expect(prefix + "requests refused by the service, by the network side",
                    fmt::format("{:.0f}", exhausted),
                    fmt::format("{:.0f} to {:.0f}", refused, refused + left),
                    exhausted >= refused && exhausted <= refused + left);
  }
  verdict_.ExpectEqual(prefix + "requests in flight afterwards",
                       load::SumOfSeries(phase.after, "penstock_requests_in_flight"), 0);
  verdict_.ExpectEqual(prefix + "tokens queued afterwards",
                       load::SumOfSeries(phase.after, "penstock_queue_tokens"), 0);
}

Status SoakRun::JudgeAfterwards() {
  verdict_.Expect("the server still runs", server_->Running() ? "yes" : "no", "yes",
                  server_->Running());
  load::LoadWindow window;
  window.warmup_s = 0;
  window.requests_max = 20;
  PENSTOCK_ASSIGN_OR_RETURN(
      const auto run,
      load::RunHttpLoads(server_->target(), {NewLoad("afterwards", 1, "interactive")}, window));
  verdict_.Expect("afterwards: requests answered with 200", std::to_string(run.loads[0].ok), "20",
                  run.loads[0].ok == 20);
  verdict_.ExpectEqual("exit code on SIGTERM", server_->Stop(), 0);
  return Status::Ok();
}

}  // namespace penstock::lab

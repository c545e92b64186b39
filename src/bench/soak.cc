#include "bench/soak.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include "bench/http_load.h"
#include "bench/process_stat.h"
#include "bench/prometheus_text.h"
#include "bench/server_process.h"
#include "bench/table.h"

namespace penstock {
namespace {

constexpr double kMb = 1 << 20;
constexpr double kLivezIntervalMs = 20;
// Many times what the small queues take to empty.
constexpr double kDrainS = 30;
// Processors that other programs may take before the machine is too busy to judge milliseconds.
constexpr double kOthersMax = 0.1;
// Small, so that overload reaches them: requests, and tokens that wait.
constexpr int kConcurrentRequests = 128;
constexpr int kQueuedTokens = 65'536;
// What a cache is meant to take is no growth that the bound on memory is about.
constexpr int kTokenCacheBytes = 16 << 20;
// A server may close a connection that was idle for long just when the next request is sent, and
// no client can tell that from a lost answer: not within one run.
constexpr double kIdleTimeoutMoreS = 600;
// More than the server works on at once: connections are not what limits the load.
constexpr int kConnectionsMax = 2000;
constexpr const char* kRoute = "route=\"/v1/embeddings\"";

// Looks at the server's memory ten times a second.
class MemoryWatch {
 public:
  explicit MemoryWatch(pid_t pid) : thread_([this, pid] { Watch(pid); }) {}
  ~MemoryWatch() { Stop(); }
  double Stop() {
    stopping_ = true;
    if (thread_.joinable()) thread_.join();
    return bytes_max_;
  }

 private:
  void Watch(pid_t pid) {
    while (!stopping_) {
      bytes_max_ = std::max(bytes_max_, ProcessResidentBytes(pid));
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
  }
  std::atomic<bool> stopping_{false};
  double bytes_max_ = 0;  // of the thread, until it is joined
  std::thread thread_;
};

// Expectations, and whether they held.
class Verdict {
 public:
  Verdict() : table_({"expected", "measured", "limit", ""}) {}
  void Expect(const std::string& what, const std::string& measured, const std::string& limit,
              bool held) {
    table_.AddRow({what, measured, limit, held ? "ok" : "FAILED"});
    if (!held) failed_ += (failed_.empty() ? "" : "; ") + what;
  }
  void ExpectNone(const std::string& what, uint64_t count) {
    Expect(what, std::to_string(count), "0", count == 0);
  }
  void ExpectAtMost(const std::string& what, double measured, double limit) {
    Expect(what, ShortNumber(measured), ShortNumber(limit), measured <= limit);
  }
  void ExpectEqual(const std::string& what, double measured, double wanted) {
    Expect(what, fmt::format("{:.0f}", measured), fmt::format("{:.0f}", wanted),
           measured == wanted);
  }
  Status Finish() const {
    table_.Print();
    return failed_.empty() ? Status::Ok() : Status::Internal("did not hold: " + failed_);
  }

 private:
  BenchTable table_;
  std::string failed_;
};

class Soak {
 public:
  Soak(const SoakOptions& options, BenchRecords* records)
      : options_(options),
        records_(records),
        texts_(std::make_shared<TextSource>(options.lengths, options.seed)) {}

  Status Run();

 private:
  HttpLoad NewLoad(const char* name, int batch, const char* priority);
  Expected<double> MeasureCapacity();
  std::vector<HttpLoad> Overload(double texts_per_s);
  void JudgeAnswers(const HttpRunResult& run);
  void JudgeCounters(const HttpRunResult& run, const std::string& before, const std::string& after);
  void JudgeHealth(const LivenessProbe::Result& livez, double others, double memory_before,
                   double memory_max);
  Status JudgeAfterwards();

  const SoakOptions& options_;
  BenchRecords* const records_;
  const std::shared_ptr<TextSource> texts_;
  std::unique_ptr<ServerProcess> server_;
  Verdict verdict_;
};

HttpLoad Soak::NewLoad(const char* name, int batch, const char* priority) {
  HttpLoad load;
  load.name = name;
  load.batch = batch;
  load.priority = priority;
  load.seed = options_.seed;
  load.next_text = [texts = texts_] { return texts->Next(); };
  return load;
}

// Texts a second of the same mix, from clients that wait for their answers.
Expected<double> Soak::MeasureCapacity() {
  HttpLoad interactive = NewLoad("interactive", 1, "interactive");
  interactive.concurrency = 4;
  HttpLoad bulk = NewLoad("bulk", options_.bulk_batch, "bulk");
  bulk.concurrency = 8;
  LoadWindow window;
  window.duration_s = options_.capacity_s;
  PENSTOCK_ASSIGN_OR_RETURN(const auto run,
                            RunHttpLoads(server_->target(), {interactive, bulk}, window));
  const uint64_t texts = run.loads[0].texts + run.loads[1].texts;
  if (texts == 0) return Status(StatusCode::kUnavailable, "the server answered nothing");
  return static_cast<double>(texts) / run.seconds;
}

std::vector<HttpLoad> Soak::Overload(double texts_per_s) {
  HttpLoad interactive = NewLoad("interactive", 1, "interactive");
  interactive.rate = texts_per_s * options_.interactive_share;
  HttpLoad bulk = NewLoad("bulk", options_.bulk_batch, "bulk");
  bulk.rate = texts_per_s * (1 - options_.interactive_share) / options_.bulk_batch;
  bulk.seed = options_.seed + 1;
  std::vector<HttpLoad> loads = {interactive, bulk};
  for (HttpLoad& load : loads) {
    load.concurrency = kConnectionsMax;
    load.timeout_ms = options_.timeout_ms;
    load.timeout_share = 0.5;
    load.leave_share = options_.leave_share;
    load.leave_ms_max = options_.leave_ms_max;
  }
  return loads;
}

Status Soak::Run() {
  std::vector<std::string> words = {"--model", options_.model, "--log-level", "warn"};
  words.insert(words.end(),
               {"--max-concurrent-requests", std::to_string(kConcurrentRequests),
                "--max-queued-tokens", std::to_string(kQueuedTokens), "--token-cache-bytes",
                std::to_string(kTokenCacheBytes), "--idle-timeout-ms",
                std::to_string(static_cast<int64_t>(
                    std::min(options_.duration_s + kIdleTimeoutMoreS, 86'400.0) * 1000))});
  words.insert(words.end(), options_.server_flags.begin(), options_.server_flags.end());
  PENSTOCK_ASSIGN_OR_RETURN(server_, ServerProcess::Start(words));
  std::fprintf(stderr, "capacity ...\n");
  PENSTOCK_ASSIGN_OR_RETURN(const double capacity, MeasureCapacity());
  const auto loads = Overload(options_.overload * capacity);
  std::printf("capacity: %s texts/s; offered: %s single texts/s and %s requests/s of %d\n\n",
              ShortNumber(capacity).c_str(), ShortNumber(loads[0].rate).c_str(),
              ShortNumber(loads[1].rate).c_str(), options_.bulk_batch);
  std::fprintf(stderr, "%g times that for %g s ...\n", options_.overload, options_.duration_s);

  PENSTOCK_ASSIGN_OR_RETURN(const std::string before, HttpGet(server_->target(), "/metrics"));
  const double memory_before = ProcessResidentBytes(server_->pid());
  LoadWindow window;
  window.warmup_s = 0;
  window.duration_s = options_.duration_s;
  window.drain_s = kDrainS;
  window.server_pid = server_->pid();
  const auto cpu_of_others = [this] {
    return MachineBusySeconds() - ProcessCpuSeconds(server_->pid()) - ProcessCpuSeconds(getpid());
  };
  const double others_before = cpu_of_others();
  MemoryWatch memory(server_->pid());
  LivenessProbe probe(server_->target(), kLivezIntervalMs);
  PENSTOCK_ASSIGN_OR_RETURN(const auto run, RunHttpLoads(server_->target(), loads, window));
  const double others = (cpu_of_others() - others_before) / run.seconds;
  const auto livez = probe.Stop();
  const double memory_max = memory.Stop();
  // A client that left is counted when the server sees it.
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  PENSTOCK_ASSIGN_OR_RETURN(const std::string after, HttpGet(server_->target(), "/metrics"));

  JudgeAnswers(run);
  JudgeCounters(run, before, after);
  JudgeHealth(livez, others, memory_before, memory_max);
  PENSTOCK_RETURN_IF_ERROR(JudgeAfterwards());
  records_->Add("soak.capacity_texts_per_s", capacity, "1/s");
  records_->Add("soak.client_processors", run.client_cpu_s / run.seconds, "1");
  return verdict_.Finish();
}

void Soak::JudgeAnswers(const HttpRunResult& run) {
  BenchTable table({"load", "sent", "200", "429", "503", "left", "texts/s", "p50 ms", "p99 ms"});
  for (const LoadResult& load : run.loads) {
    const auto count = [&load](int status) {
      const auto found = load.by_status.find(status);
      return found == load.by_status.end() ? uint64_t{0} : found->second;
    };
    table.AddRow({load.name, std::to_string(load.sent), std::to_string(count(200)),
                  std::to_string(count(429)), std::to_string(count(503)), std::to_string(load.left),
                  ShortNumber(static_cast<double>(load.texts) / load.seconds),
                  ShortNumber(load.latency.PercentileMs(0.5)),
                  ShortNumber(load.latency.PercentileMs(0.99))});
    uint64_t other = 0;
    for (const auto& [status, n] : load.by_status) {
      if (status != 200 && status != 429 && status != 503) other += n;
    }
    verdict_.Expect(load.name + ": some answered, some refused",
                    fmt::format("{}, {}", count(200), count(429)), "> 0",
                    count(200) > 0 && (load.name != "bulk" || count(429) > 0));
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

// What the server counted is what the clients saw; of those that left only the server knows what
// became of their requests.
void Soak::JudgeCounters(const HttpRunResult& run, const std::string& before,
                         const std::string& after) {
  const auto counted = [&](std::string_view name, std::initializer_list<std::string_view> labels) {
    return SumOfSeries(after, name, labels) - SumOfSeries(before, name, labels);
  };
  double sent = 0;
  double left = 0;
  std::map<int, double> seen;
  for (const LoadResult& load : run.loads) {
    sent += static_cast<double>(load.sent);
    left += static_cast<double>(load.left);
    for (const auto& [status, n] : load.by_status) seen[status] += static_cast<double>(n);
  }
  constexpr std::string_view kHttp = "penstock_http_requests_total";
  verdict_.ExpectEqual("requests the server counted, all codes", counted(kHttp, {kRoute}), sent);
  double of_those_that_left = counted(kHttp, {kRoute, "code=\"499\""});
  for (const int status : {200, 429, 503}) {
    const double server = counted(kHttp, {kRoute, fmt::format("code=\"{}\"", status)});
    of_those_that_left += server - seen[status];
    verdict_.Expect(fmt::format("... with code {}: as seen, or of clients that left", status),
                    fmt::format("{:.0f}", server),
                    fmt::format("{:.0f} to {:.0f}", seen[status], seen[status] + left),
                    server >= seen[status] && server <= seen[status] + left);
  }
  verdict_.ExpectEqual("... left (499), or answered to those that left", of_those_that_left, left);
  constexpr std::string_view kService = "penstock_requests_total";
  const double refused = counted(kHttp, {kRoute, "code=\"429\""});
  const double exhausted =
      counted(kService, {"behaviour=\"embed\"", "outcome=\"resource_exhausted\""});
  verdict_.Expect("requests refused by the service, by the network side",
                  fmt::format("{:.0f}", exhausted),
                  fmt::format("{:.0f} to {:.0f}", refused, refused + left),
                  exhausted >= refused && exhausted <= refused + left);
  verdict_.ExpectEqual("requests in flight afterwards",
                       SumOfSeries(after, "penstock_requests_in_flight"), 0);
  verdict_.ExpectEqual("tokens queued afterwards", SumOfSeries(after, "penstock_queue_tokens"), 0);
}

void Soak::JudgeHealth(const LivenessProbe::Result& livez, double others, double memory_before,
                       double memory_max) {
  verdict_.ExpectNone("/livez: no answer or not 200", livez.failures);
  // Who shares the processors with other programs waits for them too.
  const bool judged = others <= kOthersMax;
  verdict_.Expect(fmt::format("/livez: slowest of {} answers, ms", livez.answer.count()),
                  ShortNumber(livez.answer.max_ms()),
                  judged ? ShortNumber(options_.livez_ms_max)
                         : fmt::format("not judged: others took {:.2f} processors", others),
                  !judged || livez.answer.max_ms() <= options_.livez_ms_max);
  const double growth_mb = (memory_max - memory_before) / kMb;
  verdict_.ExpectAtMost(
      fmt::format("resident memory at most, over the {:.0f} MB before, MB", memory_before / kMb),
      growth_mb, options_.memory_growth_mb_max);
  std::printf(
      "/livez: p50 %s ms, p99 %s ms, p99.9 %s ms, max %s ms; the probe's own thread (%s) was woken "
      "%s ms late at p99.9, %s ms at most\n\n",
      ShortNumber(livez.answer.PercentileMs(0.5)).c_str(),
      ShortNumber(livez.answer.PercentileMs(0.99)).c_str(),
      ShortNumber(livez.answer.PercentileMs(0.999)).c_str(),
      ShortNumber(livez.answer.max_ms()).c_str(),
      livez.raised_priority ? "raised priority" : "priority as any",
      ShortNumber(livez.self_late.PercentileMs(0.999)).c_str(),
      ShortNumber(livez.self_late.max_ms()).c_str());
  records_->Add("soak.livez_p999_ms", livez.answer.PercentileMs(0.999), "ms");
  records_->Add("soak.livez_max_ms", livez.answer.max_ms(), "ms");
  records_->Add("soak.other_processors", others, "1");
  records_->Add("soak.memory_growth_mb", growth_mb, "MB");
}

// The server works as before, and stops as it should.
Status Soak::JudgeAfterwards() {
  verdict_.Expect("the server still runs", server_->Running() ? "yes" : "no", "yes",
                  server_->Running());
  LoadWindow window;
  window.warmup_s = 0;
  window.requests_max = 20;
  PENSTOCK_ASSIGN_OR_RETURN(
      const auto run,
      RunHttpLoads(server_->target(), {NewLoad("afterwards", 1, "interactive")}, window));
  verdict_.Expect("afterwards: requests answered with 200", std::to_string(run.loads[0].ok), "20",
                  run.loads[0].ok == 20);
  verdict_.ExpectEqual("exit code on SIGTERM", server_->Stop(), 0);
  return Status::Ok();
}

}  // namespace

Status RunSoak(const SoakOptions& options, BenchRecords* records) {
  return Soak(options, records).Run();
}

}  // namespace penstock

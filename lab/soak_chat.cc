// RunChatSoak of soak.h.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "lab/memory_watch.h"
#include "lab/soak.h"
#include "lab/soak_run.h"
#include "load/chat_load.h"
#include "load/prometheus_text.h"
#include "load/table.h"
#include "log/step_progress.h"

namespace penstock::lab {
namespace {

using Clock = std::chrono::steady_clock;

// Small, so that overload reaches them: requests, tokens of all of them, texts at once.
constexpr int kChatConcurrentRequests = 32;
constexpr int kChatQueuedTokens = 8192;
constexpr int kSequences = 16;
constexpr int kCapacityClients = 16;
constexpr int kChatConnectionsMax = 2000;
constexpr double kChatLivezIntervalMs = 20;
constexpr double kChatDrainS = 60;
constexpr double kChatIdleTimeoutMoreS = 600;  // as SoakRun
constexpr int kLeavers = 8;
constexpr uint64_t kAfterwards = 10;
// From the last client's leaving to free blocks, in metrics that are asked for 50 times a second.
constexpr double kFreeMsMax = 1000;
constexpr const char* kChatRoute = "route=\"/v1/chat/completions\"";
constexpr std::string_view kRequests = "penstock_http_requests_total";
constexpr std::string_view kBlocksUsed = "penstock_kv_blocks_used";

uint64_t CountOf(const load::ChatResult& result, int status) {
  const auto found = result.by_status.find(status);
  return found == result.by_status.end() ? 0 : found->second;
}

class ChatSoak {
 public:
  ChatSoak(const SoakOptions& options, load::BenchRecords* records)
      : options_(options), records_(records) {}

  Status Run() {
    PENSTOCK_RETURN_IF_ERROR(StartServer());
    load::ChatLoad load;
    PENSTOCK_ASSIGN_OR_RETURN(load, MeasureAndMakeLoad());
    PENSTOCK_RETURN_IF_ERROR(Overload(load));
    PENSTOCK_RETURN_IF_ERROR(JudgeLeaving(load));
    PENSTOCK_RETURN_IF_ERROR(JudgeAfterwards(load));
    return verdict_.Finish();
  }

 private:
  Status StartServer();
  load::ChatLoad PlainLoad() const;
  Expected<load::ChatLoad> MeasureAndMakeLoad();
  Status Overload(const load::ChatLoad& load);
  void JudgeAnswers(const load::ChatResult& result, double others);
  void JudgeCounters(const load::ChatResult& result, const std::string& before,
                     const std::string& after);
  void JudgeHealth(const LivenessProbe::Result& livez, double others, double growth_mb);
  Status JudgeLeaving(load::ChatLoad load);
  Status JudgeAfterwards(load::ChatLoad load);
  Expected<double> AwaitFreeBlocks();

  const SoakOptions& options_;
  load::BenchRecords* const records_;
  std::unique_ptr<load::ServerProcess> server_;
  SoakVerdict verdict_;
};

Status ChatSoak::StartServer() {
  // Prompts are as long as their words happen to be: some room beside them.
  const int context = options_.prompt_tokens.max * 3 / 2 + options_.output_tokens.max + 64;
  const double idle_s =
      std::min(options_.duration_s + options_.warmup_s + kChatIdleTimeoutMoreS, 86'400.0);
  std::vector<std::string> words = {"--model", options_.model,      "--log-level",
                                    "warn",    "--slow-request-ms", "0"};
  for (const auto& [flag, value] : {std::pair<const char*, int64_t>{"--context", context},
                                    {"--max-sequences", kSequences},
                                    {"--max-concurrent-requests", kChatConcurrentRequests},
                                    {"--max-queued-tokens", kChatQueuedTokens},
                                    {"--token-cache-bytes", SoakRun::kTokenCacheBytes},
                                    {"--idle-timeout-ms", static_cast<int64_t>(idle_s * 1000)}}) {
    words.insert(words.end(), {flag, std::to_string(value)});
  }
  words.insert(words.end(), options_.server_flags.begin(), options_.server_flags.end());
  PENSTOCK_ASSIGN_OR_RETURN(server_, load::ServerProcess::Start(words));
  return Status::Ok();
}

load::ChatLoad ChatSoak::PlainLoad() const {
  load::ChatLoad load;
  load.request.prompt_tokens = options_.prompt_tokens;
  load.request.output_tokens = options_.output_tokens;
  load.request.prefix_share = 0.25;
  load.seed = options_.seed;
  return load;
}

// Clients that wait for their answers, then the load of `overload` times their rate.
Expected<load::ChatLoad> ChatSoak::MeasureAndMakeLoad() {
  StepProgress progress({.step_s = options_.capacity_s});
  progress.Next("capacity");
  load::ChatLoad load = PlainLoad();
  PENSTOCK_ASSIGN_OR_RETURN(load.scale, load::MeasurePromptScale(server_->target(), load.request));
  load.concurrency = kCapacityClients;
  load::LoadWindow window;
  window.duration_s = options_.capacity_s;
  PENSTOCK_ASSIGN_OR_RETURN(const load::ChatResult alone,
                            load::RunChatLoad(server_->target(), load, window));
  progress.Clear();
  const double mean = 0.5 * (options_.output_tokens.min + options_.output_tokens.max);
  const double capacity = static_cast<double>(alone.tokens) / alone.seconds / mean;
  if (!(capacity > 0)) return Status(StatusCode::kUnavailable, "the server answered nothing");
  load.rate = options_.overload * capacity;
  load.concurrency = kChatConnectionsMax;
  load.request.timeout_ms = options_.timeout_ms;
  load.timeout_share = 0.5;
  load.leave_share = options_.leave_share;
  load.leave_ms_max = options_.leave_ms_max;
  load.slow_share = options_.slow_share;
  std::printf("capacity: %s texts/s (%s tokens/s); offered: %s texts/s\n\n",
              load::ShortNumber(capacity).c_str(),
              load::ShortNumber(static_cast<double>(alone.tokens) / alone.seconds).c_str(),
              load::ShortNumber(load.rate).c_str());
  records_->Add("soak.chat.capacity_texts_per_s", capacity, "1/s");
  return load;
}

Status ChatSoak::Overload(const load::ChatLoad& load) {
  StepProgress progress({.step_s = options_.warmup_s + options_.duration_s});
  progress.Next(fmt::format("{:g} times that for {:g} s and {:g} s", options_.overload,
                            options_.warmup_s, options_.duration_s));
  load::LoadWindow window;
  window.warmup_s = 0;
  window.duration_s = options_.warmup_s;
  window.drain_s = kChatDrainS;
  window.server_pid = server_->pid();
  PENSTOCK_ASSIGN_OR_RETURN(const load::ChatResult warm,
                            load::RunChatLoad(server_->target(), load, window));
  verdict_.ExpectNone("never answered in the warm-up", warm.no_answer);
  verdict_.ExpectNone("cut off or lost in the warm-up", warm.lost + warm.cut);
  PENSTOCK_RETURN_IF_ERROR(AwaitFreeBlocks().status());
  PENSTOCK_ASSIGN_OR_RETURN(const std::string before, load::HttpGet(server_->target(), "/metrics"));
  const double memory_before = load::ProcessResidentBytes(server_->pid());
  const auto cpu_of_others = [this] {
    return load::MachineBusySeconds() - load::ProcessCpuSeconds(server_->pid()) -
           load::ProcessCpuSeconds(getpid());
  };
  const auto begin = Clock::now();
  const double others_before = cpu_of_others();
  MemoryWatch memory(server_->pid());
  LivenessProbe probe(server_->target(), kChatLivezIntervalMs);
  load::ChatLoad measured = load;
  measured.seed += 100;
  window.duration_s = options_.duration_s;
  PENSTOCK_ASSIGN_OR_RETURN(const load::ChatResult result,
                            load::RunChatLoad(server_->target(), measured, window));
  const std::chrono::duration<double> elapsed = Clock::now() - begin;
  const double others = (cpu_of_others() - others_before) / elapsed.count();
  const auto livez = probe.Stop();
  const double growth_mb = (memory.Stop() - memory_before) / SoakRun::kMb;
  PENSTOCK_ASSIGN_OR_RETURN(const double free_ms, AwaitFreeBlocks());
  // A client that left is counted when the server sees it.
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  PENSTOCK_ASSIGN_OR_RETURN(const std::string after, load::HttpGet(server_->target(), "/metrics"));
  JudgeAnswers(result, others);
  verdict_.ExpectAtMost("all blocks of the cache are free after the last request, ms", free_ms,
                        kFreeMsMax);
  JudgeCounters(result, before, after);
  JudgeHealth(livez, others, growth_mb);
  return Status::Ok();
}

void ChatSoak::JudgeAnswers(const load::ChatResult& result, double others) {
  uint64_t other = 0;
  for (const auto& [status, n] : result.by_status) {
    if (status != 200 && status != 429 && status != 503) other += n;
  }
  load::BenchTable table({"sent", "200", "429", "503", "ended by a deadline", "left",
                          "to slow readers", "tokens/s", "ttft p50 ms", "p99", "itl p50 ms",
                          "p99"});
  table.AddRow({std::to_string(result.sent), std::to_string(CountOf(result, 200)),
                std::to_string(CountOf(result, 429)), std::to_string(CountOf(result, 503)),
                std::to_string(result.error_events), std::to_string(result.left),
                std::to_string(result.slow_whole),
                load::ShortNumber(static_cast<double>(result.tokens) / result.seconds),
                load::ShortNumber(result.first_token.PercentileMs(0.5)),
                load::ShortNumber(result.first_token.PercentileMs(0.99)),
                load::ShortNumber(result.between_tokens.PercentileMs(0.5)),
                load::ShortNumber(result.between_tokens.PercentileMs(0.99))});
  table.Print();
  std::printf("client: %.2f processors; server: %.2f\n\n", result.client_cpu_s / result.seconds,
              result.server_cpu_s / result.seconds);
  const auto some = [this](const std::string& what, uint64_t count, bool wanted) {
    verdict_.Expect(what, std::to_string(count), wanted ? "> 0" : "any", count > 0 || !wanted);
  };
  some("whole answers", result.whole, true);
  some("... to slow readers", result.slow_whole, options_.slow_share > 0);
  // Where other programs were busy, the server's capacity was not what it was measured to be.
  const bool judged = others <= SoakRun::kOthersMax;
  verdict_.Expect("refused (429)", std::to_string(CountOf(result, 429)),
                  !judged                 ? NotJudged(others)
                  : options_.overload > 1 ? "> 0"
                                          : "any",
                  !judged || options_.overload <= 1 || CountOf(result, 429) > 0);
  some("clients that left", result.left, options_.leave_share > 0);
  verdict_.ExpectNone("answers other than 200, 429, 503", other);
  verdict_.ExpectNone("429 without Retry-After", result.no_retry_after);
  verdict_.ExpectNone("503, or an error in a stream, without a deadline",
                      result.expired_without_deadline);
  verdict_.ExpectNone("answers that were cut off", result.cut);
  verdict_.ExpectNone("never answered", result.no_answer);
  verdict_.ExpectNone("connections lost", result.lost);
  verdict_.ExpectNone("not sent for want of a connection", result.not_sent);
  verdict_.ExpectAtMost("latest end of an answer after its deadline, ms",
                        result.deadline_over_ms_max, options_.deadline_over_ms_max);
  records_->Add("soak.chat.sent", static_cast<double>(result.sent), "1");
  records_->Add("soak.chat.refused", static_cast<double>(CountOf(result, 429)), "1");
  records_->Add("soak.chat.left", static_cast<double>(result.left), "1");
  records_->Add("soak.chat.unanswered",
                static_cast<double>(result.cut + result.no_answer + result.lost), "1");
}

// The server's counts equal the clients'; for clients that left, only the server knows the outcome.
void ChatSoak::JudgeCounters(const load::ChatResult& result, const std::string& before,
                             const std::string& after) {
  const auto counted = [&](std::initializer_list<std::string_view> labels) {
    return load::SumOfSeries(after, kRequests, labels) -
           load::SumOfSeries(before, kRequests, labels);
  };
  verdict_.ExpectEqual("requests the server counted, all codes", counted({kChatRoute}),
                       static_cast<double>(result.sent));
  const auto left = static_cast<double>(result.left);
  for (const int status : {200, 429, 503}) {
    const double server = counted({kChatRoute, fmt::format("code=\"{}\"", status)});
    auto seen = static_cast<double>(CountOf(result, status));
    // An answer that ends with an error counts as that error.
    if (status == 200) seen -= static_cast<double>(result.error_events);
    if (status == 503) seen += static_cast<double>(result.error_events);
    verdict_.Expect(fmt::format("... with code {}: as seen, or of clients that left", status),
                    fmt::format("{:.0f}", server),
                    fmt::format("{:.0f} to {:.0f}", seen, seen + left),
                    server >= seen && server <= seen + left);
  }
  for (const char* gauge :
       {"penstock_requests_in_flight", "penstock_queue_tokens", "penstock_generate_running",
        "penstock_generate_waiting", "penstock_http_streams"}) {
    verdict_.ExpectEqual(std::string(gauge) + " afterwards", load::SumOfSeries(after, gauge), 0);
  }
  const auto rise = [&](const char* name) {
    return load::SumOfSeries(after, name) - load::SumOfSeries(before, name);
  };
  std::printf("preempted: %.0f; prompt tokens: %.0f, of which cached: %.0f\n",
              rise("penstock_generate_preemptions_total"),
              rise("penstock_generate_prompt_tokens_total"),
              rise("penstock_generate_cached_tokens_total"));
  records_->Add("soak.chat.preemptions", rise("penstock_generate_preemptions_total"), "1");
}

void ChatSoak::JudgeHealth(const LivenessProbe::Result& livez, double others, double growth_mb) {
  verdict_.ExpectNone("/livez: no answer or not 200", livez.failures);
  const double p999 = livez.arrival.PercentileMs(0.999);
  const bool judged = others <= SoakRun::kOthersMax;
  verdict_.Expect(fmt::format("/livez: p99.9 of {} answers, ms", livez.arrival.count()),
                  load::ShortNumber(p999),
                  judged ? load::ShortNumber(options_.livez_p999_ms_max) : NotJudged(others),
                  !judged || p999 <= options_.livez_p999_ms_max);
  verdict_.ExpectAtMost("resident memory at most, over that after the warm-up, MB", growth_mb,
                        options_.memory_growth_mb_max.value_or(SoakOptions::kMemoryGrowthMb));
  std::printf(
      "/livez until its answer had arrived: p50 %s ms, p99 %s ms, p99.9 %s ms, max %s ms\n\n",
      load::ShortNumber(livez.arrival.PercentileMs(0.5)).c_str(),
      load::ShortNumber(livez.arrival.PercentileMs(0.99)).c_str(), load::ShortNumber(p999).c_str(),
      load::ShortNumber(livez.arrival.max_ms()).c_str());
  records_->Add("soak.chat.livez_p999_ms", p999, "ms");
  records_->Add("soak.chat.memory_growth_mb", growth_mb, "MB");
  records_->Add("soak.chat.other_processors", others, "1");
}

// How long it takes until no text holds a block; more than kFreeMsMax: they never were.
Expected<double> ChatSoak::AwaitFreeBlocks() {
  const auto begin = Clock::now();
  for (;;) {
    PENSTOCK_ASSIGN_OR_RETURN(const std::string now, load::HttpGet(server_->target(), "/metrics"));
    const std::chrono::duration<double, std::milli> elapsed = Clock::now() - begin;
    if (load::SumOfSeries(now, kBlocksUsed) == 0 || elapsed.count() > 4 * kFreeMsMax) {
      return elapsed.count();
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

// Clients that all leave in the middle of long texts, on a server that does nothing else.
Status ChatSoak::JudgeLeaving(load::ChatLoad load) {
  load.rate = 0;
  load.concurrency = kLeavers;
  load.request.timeout_ms = 0;
  load.request.output_tokens.min = load.request.output_tokens.max;
  load.leave_share = 1;
  load.slow_share = 0;
  load.seed += 200;
  load::LoadWindow window;
  window.warmup_s = 0;
  window.requests_max = 4 * kLeavers;
  PENSTOCK_ASSIGN_OR_RETURN(const load::ChatResult result,
                            load::RunChatLoad(server_->target(), load, window));
  PENSTOCK_ASSIGN_OR_RETURN(const double free_ms, AwaitFreeBlocks());
  verdict_.Expect("clients that leave in the middle", std::to_string(result.left), "> 0",
                  result.left > 0);
  verdict_.ExpectAtMost("... blocks of the cache are free, ms", free_ms, kFreeMsMax);
  records_->Add("soak.chat.blocks_free_ms", free_ms, "ms");
  return Status::Ok();
}

Status ChatSoak::JudgeAfterwards(load::ChatLoad load) {
  verdict_.Expect("the server still runs", server_->Running() ? "yes" : "no", "yes",
                  server_->Running());
  const load::PromptScale scale = load.scale;
  load = PlainLoad();
  load.scale = scale;
  load.seed += 300;
  load::LoadWindow window;
  window.warmup_s = 0;
  window.duration_s = 4 * kChatDrainS;
  window.requests_max = kAfterwards;
  PENSTOCK_ASSIGN_OR_RETURN(const load::ChatResult result,
                            load::RunChatLoad(server_->target(), load, window));
  verdict_.Expect("afterwards: whole answers", std::to_string(result.whole),
                  std::to_string(kAfterwards), result.whole == kAfterwards);
  verdict_.ExpectEqual("exit code on SIGTERM", server_->Stop(), 0);
  return Status::Ok();
}

}  // namespace

Status RunChatSoak(const SoakOptions& options, load::BenchRecords* records) {
  return ChatSoak(options, records).Run();
}

}  // namespace penstock::lab

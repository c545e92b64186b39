// RunHostileSoak of soak.h.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lab/hostile_load.h"
#include "lab/soak.h"
#include "lab/soak_run.h"
#include "load/process_stat.h"
#include "load/table.h"
#include "log/step_progress.h"

namespace penstock::lab {
namespace {

// Short, so that a run sees held connections end; a body of 30 MiB takes a tenth of a second.
constexpr const char* kServerTimeoutMs = "5000";
// At least as many as unfinished requests hold at the default rate.
constexpr int kClientsMin = 40;

// The number of hostile clients that makes them a quarter of all clients.
int HostileClients(const SoakPhase& alone) {
  uint64_t clients = 0;
  for (const load::LoadResult& load : alone.run.loads) clients += load.connections;
  return std::max(kClientsMin, static_cast<int>((clients + 2) / 3));
}

using HostileRequests = std::shared_ptr<const std::vector<HostileRequest>>;

Expected<HostileRequests> RequestsOf(const load::HttpTarget& target, const std::string& only) {
  auto requests = MakeHostileRequests(target);
  std::erase_if(requests, [&only](const HostileRequest& request) {
    return request.name.find(only) == std::string::npos;
  });
  if (requests.empty()) {
    return Status::InvalidArgument("no kind of hostile request has \"" + only + "\" in its name",
                                   "hostile_only");
  }
  return std::make_shared<const std::vector<HostileRequest>>(std::move(requests));
}

class HostileSoak {
 public:
  HostileSoak(const SoakOptions& options, load::BenchRecords* records)
      : options_(options), records_(records), soak_(options, records) {}

  Status Run();

 private:
  Expected<std::vector<load::HttpLoad>> MeasureAndMakeLoads();
  Expected<bool> RunPhases(const std::vector<load::HttpLoad>& loads);
  Expected<SoakPhase> RunOne(const char* name, std::vector<load::HttpLoad> loads,
                             HostileLoad* hostile);
  void JudgeHostile(const HostileResult& hostile);
  void JudgeLivez();
  void JudgeInteractive();
  void JudgeMemory();
  void JudgeLost();
  void JudgeEnd();

  const SoakOptions& options_;
  load::BenchRecords* const records_;
  SoakRun soak_;
  double memory_before_ = 0;
  std::vector<SoakPhase> phases_;  // the overload alone, then beside hostile clients
};

Expected<std::vector<load::HttpLoad>> HostileSoak::MeasureAndMakeLoads() {
  PENSTOCK_ASSIGN_OR_RETURN(const double capacity, soak_.MeasureCapacity());
  PENSTOCK_ASSIGN_OR_RETURN(const double of_single, soak_.MeasureInteractiveCapacity());
  const double offered = options_.overload * capacity;
  const double interactive = SoakOptions::kInteractiveOfCapacity * std::min(capacity, of_single);
  auto loads = soak_.Overload(offered, interactive / offered);
  std::printf(
      "capacity: %s texts/s, %s of single texts alone; offered: %s single texts/s (%g of it) and "
      "%s requests/s of %d\n\n",
      load::ShortNumber(capacity).c_str(), load::ShortNumber(of_single).c_str(),
      load::ShortNumber(loads[0].rate).c_str(), SoakOptions::kInteractiveOfCapacity,
      load::ShortNumber(loads[1].rate).c_str(), options_.bulk_batch);
  return loads;
}

Expected<SoakPhase> HostileSoak::RunOne(const char* name, std::vector<load::HttpLoad> loads,
                                        HostileLoad* hostile) {
  StepProgress progress({.step_s = options_.duration_s});
  progress.Next(fmt::format("{}: {:g} times the capacity for {:g} s", name, options_.overload,
                            options_.duration_s));
  for (load::HttpLoad& load : loads) load.name = fmt::format("{}: {}", name, load.name);
  PENSTOCK_ASSIGN_OR_RETURN(SoakPhase phase, soak_.RunPhase(loads, hostile, true));
  records_->Add("soak.other_processors", phase.others, "1", name);
  records_->Add("soak.client_processors", phase.run.client_cpu_s / phase.run.seconds, "1", name);
  return phase;
}

// Whether the server lived to the end.
Expected<bool> HostileSoak::RunPhases(const std::vector<load::HttpLoad>& loads) {
  // Before the first phase: both see a client of the same size.
  PENSTOCK_ASSIGN_OR_RETURN(const HostileRequests requests,
                            RequestsOf(soak_.server()->target(), options_.hostile_only));
  memory_before_ = load::ProcessResidentBytes(soak_.server()->pid());
  PENSTOCK_ASSIGN_OR_RETURN(SoakPhase alone, RunOne("alone", loads, nullptr));
  phases_.push_back(std::move(alone));
  if (phases_[0].ended) return false;
  HostileOptions hostile;
  hostile.rate = options_.hostile_rate;
  hostile.clients = HostileClients(phases_[0]);
  HostileLoad load(soak_.server()->target(), hostile, requests);
  PENSTOCK_ASSIGN_OR_RETURN(SoakPhase beside, RunOne("hostile", loads, &load));
  phases_.push_back(std::move(beside));
  std::printf("hostile: %g requests/s from %d clients at most, %.2f processors\n\n", hostile.rate,
              hostile.clients, phases_[1].hostile.cpu_s / phases_[1].run.seconds);
  return !phases_[1].ended;
}

void HostileSoak::JudgeHostile(const HostileResult& hostile) {
  load::BenchTable table({"hostile", "sent", "2xx", "429, 503", "4xx, 5xx", "500", "closed", "left",
                          "late", "wrong", "slowest ms", ""});
  for (const HostileKind& kind : hostile.kinds) {
    table.AddRow({kind.name, std::to_string(kind.sent), std::to_string(kind.served),
                  std::to_string(kind.busy), std::to_string(kind.refused),
                  std::to_string(kind.internal_errors), std::to_string(kind.closed),
                  std::to_string(kind.left), std::to_string(kind.late), std::to_string(kind.wrong),
                  load::ShortNumber(kind.slowest_ms), kind.first_wrong});
    records_->Add("soak.hostile_slowest_ms", kind.slowest_ms, "ms", kind.name);
  }
  table.Print();
  std::printf("\n");
  const uint64_t sent = hostile.Sum(&HostileKind::sent);
  const uint64_t late = hostile.Sum(&HostileKind::late);
  const uint64_t wrong = hostile.Sum(&HostileKind::wrong);
  SoakVerdict& verdict = *soak_.verdict();
  verdict.ExpectNone("hostile requests neither answered nor closed in time", late);
  verdict.Expect("hostile requests answered as they should not be", std::to_string(wrong),
                 std::to_string(options_.hostile_wrong_max), wrong <= options_.hostile_wrong_max);
  verdict.ExpectAtMost("hostile requests not sent, all clients held: share",
                       static_cast<double>(hostile.not_sent) /
                           static_cast<double>(std::max<uint64_t>(1, sent + hostile.not_sent)),
                       options_.hostile_not_sent_max);
  records_->Add("soak.hostile_sent", static_cast<double>(sent), "1");
  records_->Add("soak.hostile_not_sent", static_cast<double>(hostile.not_sent), "1");
  records_->Add("soak.hostile_late", static_cast<double>(late), "1");
  records_->Add("soak.hostile_wrong", static_cast<double>(wrong), "1");
  records_->Add("soak.hostile_internal_errors",
                static_cast<double>(hostile.Sum(&HostileKind::internal_errors)), "1");
}

void HostileSoak::JudgeLivez() {
  const SoakPhase& phase = phases_.back();
  const LivenessProbe::Result& livez = phase.livez;
  const double p999 = livez.arrival.PercentileMs(0.999);
  SoakVerdict& verdict = *soak_.verdict();
  verdict.ExpectNone("/livez: no answer or not 200", livez.failures);
  verdict.Expect(
      fmt::format("/livez: p99.9 of {} answers, ms", livez.arrival.count()),
      load::ShortNumber(p999),
      phase.Quiet() ? load::ShortNumber(options_.livez_p999_ms_max) : NotJudged(phase.others),
      !phase.Quiet() || p999 <= options_.livez_p999_ms_max);
  std::printf(
      "/livez until its answer had arrived: p50 %s ms, p99 %s ms, p99.9 %s ms, max %s ms (alone: "
      "p99.9 %s ms); until the probe's own thread (%s) had read it: p99.9 %s ms\n\n",
      load::ShortNumber(livez.arrival.PercentileMs(0.5)).c_str(),
      load::ShortNumber(livez.arrival.PercentileMs(0.99)).c_str(), load::ShortNumber(p999).c_str(),
      load::ShortNumber(livez.arrival.max_ms()).c_str(),
      load::ShortNumber(phases_[0].livez.arrival.PercentileMs(0.999)).c_str(),
      livez.raised_priority ? "raised priority" : "priority as any",
      load::ShortNumber(livez.answer.PercentileMs(0.999)).c_str());
  records_->Add("soak.livez_p999_ms", p999, "ms");
  records_->Add("soak.livez_max_ms", livez.arrival.max_ms(), "ms");
  records_->Add("soak.livez_alone_p999_ms", phases_[0].livez.arrival.PercentileMs(0.999), "ms");
}

void HostileSoak::JudgeInteractive() {
  uint64_t refused = 0;
  std::vector<double> p99;
  bool quiet = true;
  for (const SoakPhase& phase : phases_) {
    const load::LoadResult& load = phase.run.loads[0];
    for (const auto& [status, n] : load.by_status) {
      if (status == 429 || status == 503) refused += n;
    }
    // No answer at all is the slowest of answers.
    p99.push_back(load.latency.count() > 0 ? load.latency.PercentileMs(0.99) : HUGE_VAL);
    quiet = quiet && phase.Quiet();
    records_->Add("soak.interactive_p99_ms", p99.back(), "ms", load.name);
  }
  SoakVerdict& verdict = *soak_.verdict();
  verdict.Expect("interactive requests refused (429, 503) in both phases", std::to_string(refused),
                 std::to_string(options_.interactive_refused_max),
                 refused <= options_.interactive_refused_max);
  records_->Add("soak.interactive_refused", static_cast<double>(refused), "1");
  if (phases_.size() < 2) return;
  const double ratio = p99[1] / p99[0];
  verdict.Expect("interactive p99 beside hostile clients over that without",
                 fmt::format("{} ({} / {} ms)", load::ShortNumber(ratio), load::ShortNumber(p99[1]),
                             load::ShortNumber(p99[0])),
                 quiet ? load::ShortNumber(options_.p99_ratio_max) : "not judged: others were busy",
                 !quiet || ratio <= options_.p99_ratio_max);
  records_->Add("soak.interactive_p99_ratio", ratio, "1");
}

void HostileSoak::JudgeMemory() {
  const double limit = options_.memory_growth_mb_max.value_or(
      SoakOptions::kMemoryGrowthMb + SoakOptions::kInflightMb +
      SoakRun::kTokenCacheBytes / SoakRun::kMb);
  double most = 0;
  for (const SoakPhase& phase : phases_) most = std::max(most, phase.memory_max);
  const double growth_mb = (most - memory_before_) / SoakRun::kMb;
  soak_.verdict()->ExpectAtMost(
      fmt::format("resident memory at most, over the {:.0f} MB before, MB",
                  memory_before_ / SoakRun::kMb),
      growth_mb, limit);
  records_->Add("soak.rss_growth_mb", growth_mb, "MB");
  records_->Add("soak.rss_growth_limit_mb", limit, "MB");
}

void HostileSoak::JudgeLost() {
  uint64_t lost = 0;
  for (const SoakPhase& phase : phases_) {
    for (const load::LoadResult& load : phase.run.loads) lost += load.lost_after_sent;
  }
  soak_.verdict()->ExpectNone("requests sent whole and never answered", lost);
  records_->Add("soak.accepted_lost", static_cast<double>(lost), "1");
}

void HostileSoak::JudgeEnd() {
  soak_.verdict()->Expect("the server lives",
                          fmt::format("the server ended, exit code {}", soak_.server()->Stop()),
                          "it does", false);
}

Status HostileSoak::Run() {
  PENSTOCK_RETURN_IF_ERROR(soak_.StartServer(
      2 * options_.duration_s,
      {"--read-timeout-ms", kServerTimeoutMs, "--write-timeout-ms", kServerTimeoutMs}));
  PENSTOCK_ASSIGN_OR_RETURN(const auto loads, MeasureAndMakeLoads());
  PENSTOCK_ASSIGN_OR_RETURN(const bool lived, RunPhases(loads));
  for (const SoakPhase& phase : phases_) {
    const bool alone = &phase == &phases_[0];
    soak_.JudgeAnswers(phase.run, false);
    if (!phase.ended) soak_.JudgeCounters(phase, alone ? "alone: " : "hostile: ", alone);
  }
  if (phases_.size() > 1) JudgeHostile(phases_[1].hostile);
  JudgeLivez();
  JudgeInteractive();
  JudgeMemory();
  JudgeLost();
  records_->Add("soak.server_ended", lived ? 0 : 1, "1");
  if (lived) {
    PENSTOCK_RETURN_IF_ERROR(soak_.JudgeAfterwards());
  } else {
    JudgeEnd();
  }
  return soak_.verdict()->Finish();
}

}  // namespace

Status RunHostileSoak(const SoakOptions& options, load::BenchRecords* records) {
  return HostileSoak(options, records).Run();
}

}  // namespace penstock::lab

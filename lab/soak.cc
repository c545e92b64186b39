#include "lab/soak.h"

#include <fmt/format.h>

#include "lab/soak_run.h"
#include "load/process_stat.h"
#include "load/table.h"
#include "log/step_progress.h"

namespace penstock::lab {
namespace {

void JudgeHealth(const SoakOptions& options, const SoakPhase& phase, double memory_before,
                 SoakVerdict* verdict, load::BenchRecords* records) {
  const LivenessProbe::Result& livez = phase.livez;
  verdict->ExpectNone("/livez: no answer or not 200", livez.failures);
  const bool judged = phase.Quiet();
  verdict->Expect(fmt::format("/livez: slowest of {} answers, ms", livez.answer.count()),
                  load::ShortNumber(livez.answer.max_ms()),
                  judged ? load::ShortNumber(options.livez_ms_max) : NotJudged(phase.others),
                  !judged || livez.answer.max_ms() <= options.livez_ms_max);
  const double growth_mb = (phase.memory_max - memory_before) / SoakRun::kMb;
  verdict->ExpectAtMost(fmt::format("resident memory at most, over the {:.0f} MB before, MB",
                                    memory_before / SoakRun::kMb),
                        growth_mb,
                        options.memory_growth_mb_max.value_or(SoakOptions::kMemoryGrowthMb));
  std::printf(
      "/livez: p50 %s ms, p99 %s ms, p99.9 %s ms, max %s ms; the probe's own thread (%s) was woken "
      "%s ms late at p99.9, %s ms at most\n\n",
      load::ShortNumber(livez.answer.PercentileMs(0.5)).c_str(),
      load::ShortNumber(livez.answer.PercentileMs(0.99)).c_str(),
      load::ShortNumber(livez.answer.PercentileMs(0.999)).c_str(),
      load::ShortNumber(livez.answer.max_ms()).c_str(),
      livez.raised_priority ? "raised priority" : "priority as any",
      load::ShortNumber(livez.self_late.PercentileMs(0.999)).c_str(),
      load::ShortNumber(livez.self_late.max_ms()).c_str());
  records->Add("soak.livez_p999_ms", livez.answer.PercentileMs(0.999), "ms");
  records->Add("soak.livez_max_ms", livez.answer.max_ms(), "ms");
  records->Add("soak.other_processors", phase.others, "1");
  records->Add("soak.memory_growth_mb", growth_mb, "MB");
}

}  // namespace

Status RunSoak(const SoakOptions& options, load::BenchRecords* records) {
  if (options.hostile) return RunHostileSoak(options, records);
  if (options.chat) return RunChatSoak(options, records);
  SoakRun soak(options, records);
  PENSTOCK_RETURN_IF_ERROR(soak.StartServer(options.duration_s, {}));
  PENSTOCK_ASSIGN_OR_RETURN(const double capacity, soak.MeasureCapacity());
  const auto loads = soak.Overload(options.overload * capacity, options.interactive_share);
  std::printf("capacity: %s texts/s; offered: %s single texts/s and %s requests/s of %d\n\n",
              load::ShortNumber(capacity).c_str(), load::ShortNumber(loads[0].rate).c_str(),
              load::ShortNumber(loads[1].rate).c_str(), options.bulk_batch);
  StepProgress progress({.step_s = options.duration_s});
  progress.Next(fmt::format("{:g} times that for {:g} s", options.overload, options.duration_s));
  const double memory_before = load::ProcessResidentBytes(soak.server()->pid());
  PENSTOCK_ASSIGN_OR_RETURN(const SoakPhase phase, soak.RunPhase(loads, nullptr, false));
  progress.Clear();
  soak.JudgeAnswers(phase.run, true);
  soak.JudgeCounters(phase, "", true);
  JudgeHealth(options, phase, memory_before, soak.verdict(), records);
  PENSTOCK_RETURN_IF_ERROR(soak.JudgeAfterwards());
  records->Add("soak.client_processors", phase.run.client_cpu_s / phase.run.seconds, "1");
  return soak.verdict()->Finish();
}

}  // namespace penstock::lab

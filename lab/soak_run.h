// Shared by the kinds of soak: the server, its capacity, the overload, and the expectations of
// answers and counters. One thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lab/hostile_load.h"
#include "lab/liveness_probe.h"
#include "lab/soak.h"
#include "lab/soak_verdict.h"
#include "load/http_load.h"
#include "load/records.h"
#include "load/server_process.h"

namespace penstock::lab {

// A period of load and its measurements.
struct SoakPhase {
  load::HttpRunResult run;
  LivenessProbe::Result livez;
  HostileResult hostile;
  double others = 0;          // processors that other programs took
  double memory_max = 0;      // resident bytes of the server
  std::string before, after;  // its metrics
  bool ended = false;         // the server did; `after` is empty then

  // Whether milliseconds can be judged: on processors shared with other programs they include
  // waiting.
  bool Quiet() const;
};

// Stands for the limit of what is not judged.
std::string NotJudged(double others);

class SoakRun {
 public:
  static constexpr double kMb = 1 << 20;
  // Processors that other programs may take before the machine is too busy to judge milliseconds.
  static constexpr double kOthersMax = 0.1;
  // Small, as the cache counts as growth of memory too.
  static constexpr int kTokenCacheBytes = 16 << 20;

  SoakRun(const SoakOptions& options, load::BenchRecords* records);

  // `load_s`: how long there will be load. `more_flags`: of the server.
  Status StartServer(double load_s, const std::vector<std::string>& more_flags);
  // Texts a second of the same mix, from clients that wait for their answers.
  Expected<double> MeasureCapacity();
  // ... of single texts alone, of which a server may manage fewer.
  Expected<double> MeasureInteractiveCapacity();
  // Single texts and bulk, `texts_per_s` together; `interactive_share` of them are single.
  std::vector<load::HttpLoad> Overload(double texts_per_s, double interactive_share) const;
  // `hostile`: null = none. With `may_end`, a server that ended is told by the phase; else it is
  // kUnavailable.
  Expected<SoakPhase> RunPhase(const std::vector<load::HttpLoad>& loads, HostileLoad* hostile,
                               bool may_end);

  // `bulk_refused`: the load must have been more than the queues hold.
  void JudgeAnswers(const load::HttpRunResult& run, bool bulk_refused);
  // `prefix`: of the table's rows. `all_by_loads`: no client but the loads asked for embeddings.
  void JudgeCounters(const SoakPhase& phase, const std::string& prefix, bool all_by_loads);
  // The server works as before, and stops as it should.
  Status JudgeAfterwards();

  load::ServerProcess* server() { return server_.get(); }
  SoakVerdict* verdict() { return &verdict_; }

 private:
  load::HttpLoad NewLoad(const char* name, int batch, const char* priority) const;
  Expected<double> MeasureTextsPerSecond(const std::vector<load::HttpLoad>& loads);

  const SoakOptions& options_;
  load::BenchRecords* const records_;
  const std::shared_ptr<load::TextSource> texts_;
  std::unique_ptr<load::ServerProcess> server_;
  SoakVerdict verdict_;
};

}  // namespace penstock::lab

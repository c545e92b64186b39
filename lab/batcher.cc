#include "lab/batcher.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>

#include "lab/batcher_cell.h"
#include "lab/batcher_ring.h"
#include "load/table.h"
#include "log/step_progress.h"

namespace penstock::lab {
namespace {

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double Percentile(const std::vector<double>& sorted, double share) {
  if (sorted.empty()) return 0;
  const auto at = static_cast<size_t>(share * static_cast<double>(sorted.size()));
  return sorted[std::min(at, sorted.size() - 1)];
}

// Leaders, and how they get their rows.
struct RatioWay {
  const char* row;   // of the records
  size_t contender;  // of RingContenders()
};
constexpr RatioWay kRatioWays[] = {{"", 1}, {" way=run", 3}, {" way=turn", 4}};
constexpr size_t kReservations = 0;  // of kRatioWays
constexpr size_t kRuns = 1;

// Rounds of all contenders with one number of producers and one size of row.
struct CellRounds {
  BatcherCell cell;
  std::vector<std::vector<double>> rates;  // [contender, round]
  std::vector<load::LatencyHistogram> sealed, result;
  // Ratios of kRatioWays over the best peer: medians of the rounds' own ratios; 0: there is no
  // peer.
  std::array<double, std::size(kRatioWays)> ratios{};
};

BatcherCell MakeCell(const BatcherOptions& options, uint32_t producers, uint32_t row_bytes,
                     uint32_t burst) {
  BatcherCell cell;
  cell.producers = producers;
  cell.row_bytes = row_bytes;
  cell.burst = burst;
  // A batch stays within a core's second cache.
  cell.batch_rows = std::clamp(131'072 / row_bytes, 16u, 256u);
  cell.window = row_bytes <= 512 ? 1024 : 128;
  cell.seconds = options.seconds;
  return cell;
}

constexpr size_t kCallbacks = 2;  // of RingContenders()

Expected<CellRounds> RunCell(const BatcherOptions& options, const BatcherCell& cell,
                             const std::vector<BatcherContender>& contenders) {
  CellRounds rounds;
  rounds.cell = cell;
  rounds.rates.resize(contenders.size());
  rounds.sealed.resize(contenders.size());
  rounds.result.resize(contenders.size());
  std::array<std::vector<double>, std::size(kRatioWays)> ratios;
  for (int round = 0; round < options.rounds; ++round) {
    double best_peer = 0;
    for (size_t i = 0; i < contenders.size(); ++i) {
      const BatcherMeasurement measured = contenders[i].run(cell);
      if (measured.wrong_results > 0) {
        return Status::Internal(std::string(contenders[i].name) + ": " +
                                std::to_string(measured.wrong_results) + " wrong results");
      }
      rounds.rates[i].push_back(measured.rows_per_s);
      rounds.sealed[i].Merge(measured.sealed);
      rounds.result[i].Merge(measured.result);
      if (contenders[i].is_peer) best_peer = std::max(best_peer, measured.rows_per_s);
    }
    if (best_peer == 0) continue;
    for (size_t i = 0; i < ratios.size(); ++i) {
      ratios[i].push_back(rounds.rates[kRatioWays[i].contender].back() / best_peer);
    }
  }
  for (size_t i = 0; i < ratios.size(); ++i) rounds.ratios[i] = Median(ratios[i]);
  return rounds;
}

std::string Micros(const load::LatencyHistogram& histogram) {
  std::string text;
  for (const double share : {0.5, 0.99, 0.999}) {
    text += (text.empty() ? "" : " / ") + load::ShortNumber(histogram.PercentileMs(share) * 1e3);
  }
  return text;
}

void AddCellRows(const CellRounds& rounds, const std::vector<BatcherContender>& contenders,
                 load::BenchTable* table, load::BenchRecords* records) {
  const std::string row = "row_bytes=" + std::to_string(rounds.cell.row_bytes) +
                          " producers=" + std::to_string(rounds.cell.producers) +
                          " burst=" + std::to_string(rounds.cell.burst);
  for (size_t i = 0; i < contenders.size(); ++i) {
    const double rate = Median(rounds.rates[i]);
    table->AddRow({contenders[i].name, std::to_string(rounds.cell.row_bytes),
                   std::to_string(rounds.cell.producers), std::to_string(rounds.cell.burst),
                   load::ShortNumber(rate * 1e-6), Micros(rounds.sealed[i]),
                   Micros(rounds.result[i])});
    const std::string contender_row = row + " contender=" + contenders[i].name;
    records->Add("batcher.rows_per_s", rate, "1/s", contender_row);
    records->Add("batcher.result_p99_us", rounds.result[i].PercentileMs(0.99) * 1e3, "us",
                 contender_row);
  }
  for (size_t i = 0; i < rounds.ratios.size(); ++i) {
    records->Add("batcher.ratio_vs_best_mpmc", rounds.ratios[i], "1", row + kRatioWays[i].row);
  }
}

// The library stays loaded.
Expected<std::vector<BatcherContender>> PeerContenders(const std::string& library) {
  std::vector<BatcherContender> peers;
  if (library.empty()) return peers;
  void* const loaded = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (loaded == nullptr) return Status(StatusCode::kUnavailable, dlerror());
  using Peers = const BatcherContender*(size_t * count);
  const auto list = reinterpret_cast<Peers*>(dlsym(loaded, "penstock_queue_peers"));
  if (list == nullptr) {
    return Status(StatusCode::kUnavailable, library + " is not a library of bench/queue_peers.cc");
  }
  size_t count = 0;
  const BatcherContender* const first = list(&count);
  peers.assign(first, first + count);
  return peers;
}

Status RunContest(const BatcherOptions& options, load::BenchRecords* records) {
  std::vector<BatcherContender> contenders = RingContenders();
  PENSTOCK_ASSIGN_OR_RETURN(const auto peers, PeerContenders(options.peers_library));
  contenders.insert(contenders.end(), peers.begin(), peers.end());
  load::BenchTable table({"contender", "row bytes", "producers", "burst", "M rows/s",
                          "submit->sealed us p50/p99/p99.9", "submit->result us p50/p99/p99.9"});
  load::BenchTable ratios({"row bytes", "producers", "burst", "penstock, leaders / best peer",
                           "leaders, runs", "leaders, turns"});
  StepProgress progress(
      {.steps = static_cast<int>(options.bursts.size() * options.row_bytes.size() *
                                 options.producers.size()),
       .in_log = false});
  for (const uint32_t burst : options.bursts) {
    double worst_2p = 0;
    const std::string burst_row = burst == 1 ? "" : "burst=" + std::to_string(burst);
    for (const uint32_t row_bytes : options.row_bytes) {
      for (const uint32_t producers : options.producers) {
        progress.Next(fmt::format("rows of {} bytes by {} producers", row_bytes, producers));
        PENSTOCK_ASSIGN_OR_RETURN(
            const CellRounds rounds,
            RunCell(options, MakeCell(options, producers, row_bytes, burst), contenders));
        AddCellRows(rounds, contenders, &table, records);
        ratios.AddRow({std::to_string(row_bytes), std::to_string(producers), std::to_string(burst),
                       load::ShortNumber(rounds.ratios[0]), load::ShortNumber(rounds.ratios[1]),
                       load::ShortNumber(rounds.ratios[2])});
        if (producers != 2) continue;
        const double ratio = rounds.ratios[kReservations];
        worst_2p = worst_2p == 0 ? ratio : std::min(worst_2p, ratio);
        if (ratio > 0) {
          records->Add("batcher.run_ratio_vs_best_mpmc_2p." + std::to_string(row_bytes),
                       rounds.ratios[kRuns], "1", burst_row);
        }
        if (row_bytes == 128 && burst == 1) {
          records->Add("batcher.rows_per_s_submit_to_result", Median(rounds.rates[kCallbacks]),
                       "1/s");
        }
      }
    }
    // The worst of the row sizes that were run.
    if (worst_2p > 0) {
      records->Add("batcher.ratio_vs_best_mpmc_2p", worst_2p, "1", burst_row);
    }
  }
  progress.Clear();
  table.Print();
  std::printf("\nThe median of %d rounds' ratios, each within its round:\n", options.rounds);
  ratios.Print();
  return Status::Ok();
}

void RunAlone(const BatcherOptions& options, load::BenchRecords* records) {
  std::vector<double> rates;
  for (int round = 0; round < options.rounds; ++round) {
    rates.push_back(MeasureReservations(2, options.seconds));
  }
  const double reservations = Median(rates);
  const AddedLatency latency = MeasureAddedLatency(options.rate, options.latency_seconds);
  const double idle = MeasureIdleProcessor(options.idle_seconds);
  const double direct_p99 = Percentile(latency.direct_us, 0.99);
  const double leader_p99 = Percentile(latency.leader_us, 0.99);
  const double handed_p99 = Percentile(latency.handed_us, 0.99);

  std::printf("\nReservations with 2 producers: %s M/s\n",
              load::ShortNumber(reservations * 1e-6).c_str());
  std::printf("\nA lone request, %s a second, in us:\n", load::ShortNumber(options.rate).c_str());
  load::BenchTable table({"way", "p50", "p99", "added at p99"});
  const auto add = [&](const char* way, const std::vector<double>& sorted, double p99) {
    table.AddRow({way, load::ShortNumber(Percentile(sorted, 0.5)), load::ShortNumber(p99),
                  load::ShortNumber(p99 - direct_p99)});
  };
  add("the model, called directly", latency.direct_us, direct_p99);
  add("ring, the submitting thread leads", latency.leader_us, leader_p99);
  add("ring, handed to an executor thread", latency.handed_us, handed_p99);
  table.Print();
  std::printf("\nProcessor while idle: %s %%\n", load::ShortNumber(idle * 100).c_str());

  records->Add("batcher.reservations_per_s", reservations, "1/s");
  records->Add("batcher.added_p99_us_at_10rps", leader_p99 - direct_p99, "us");
  records->Add("batcher.added_p99_us_at_10rps", handed_p99 - direct_p99, "us", "way=handed");
  records->Add("batcher.idle_processor_percent", idle * 100, "%");
}

}  // namespace

Status RunBatcherBench(const BatcherOptions& options, load::BenchRecords* records) {
  PENSTOCK_RETURN_IF_ERROR(RunContest(options, records));
  RunAlone(options, records);
  return Status::Ok();
}

}  // namespace penstock::lab

#include "plan_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "json/json_writer.h"
#include "load/table.h"

namespace penstock::cli {
namespace {

std::string Ms(double ms) { return load::ShortNumber(ms); }
std::string Percent(double part) { return fmt::format("{:.0f} %", 100 * part); }

// Why the objective is missed at a rate.
std::string Reason(const plan::PlanPoint& point, const plan::PlanOptions& options) {
  if (point.answers.refused > 0) {
    return fmt::format("the queue is full: {} of {} requests are refused", point.answers.refused,
                       point.answers.requests);
  }
  std::string reason;
  for (size_t i = 0; i < options.objectives.size(); ++i) {
    const plan::Objective& objective = options.objectives[i];
    if (point.highest_ms[i] <= objective.ms && i + 1 < options.objectives.size()) continue;
    reason = fmt::format("{}: {} to {} ms", objective.Text(), Ms(point.lowest_ms[i]),
                         Ms(point.highest_ms[i]));
    break;
  }
  reason += fmt::format(", replicas {} busy", Percent(point.busy_share));
  if (point.preemptions > 0) {
    reason += fmt::format("; the cache has no block left {:.0f} times, and texts begin anew",
                          point.preemptions);
  }
  return reason;
}

void AddPoint(const std::string& name, const plan::PlanPoint& point,
              const plan::PlanOptions& options, load::BenchTable* table) {
  std::vector<std::string> row = {name, fmt::format("{}", point.replicas), Ms(point.rate),
                                  Percent(point.busy_share)};
  for (size_t i = 0; i < options.objectives.size(); ++i) {
    const load::LatencyHistogram& times = options.objectives[i].In(point.answers);
    for (const double share : {0.5, 0.95, 0.99}) row.push_back(Ms(times.PercentileMs(share)));
    row.push_back(fmt::format("{} to {}", Ms(point.lowest_ms[i]), Ms(point.highest_ms[i])));
  }
  row.push_back(Percent(point.kept));
  table->AddRow(std::move(row));
}

void WritePoint(const plan::PlanPoint& point, const plan::PlanOptions& options, JsonWriter* json) {
  json->BeginObject().Field("replicas", point.replicas).Field("rate", point.rate);
  json->Field("kept", point.kept).Field("busy", point.busy_share);
  json->Field("refused", point.answers.refused).Field("requests", point.answers.requests);
  json->Field("cache_peak", point.cache_peak).Field("preemptions", point.preemptions);
  json->Key("objectives").BeginArray();
  for (size_t i = 0; i < options.objectives.size(); ++i) {
    const plan::Objective& objective = options.objectives[i];
    const load::LatencyHistogram& times = objective.In(point.answers);
    json->BeginObject().Field("objective", objective.Text());
    json->Field("p50_ms", times.PercentileMs(0.5)).Field("p95_ms", times.PercentileMs(0.95));
    json->Field("p99_ms", times.PercentileMs(0.99));
    json->Field("lowest_ms", point.lowest_ms[i]).Field("highest_ms", point.highest_ms[i]);
    json->EndObject();
  }
  json->EndArray().EndObject();
}

// Demand of a replica, in seconds a second, at the highest rate that keeps the objective.
double DemandAtMost(const plan::Plan& plan) {
  return plan.asked_s * plan.chosen.rate * plan.headroom / plan.chosen.replicas;
}

}  // namespace

void PlanReport::Print() const {
  const plan::PlanPoint& chosen = plan.chosen;
  fmt::print(
      "{} on {}: a request takes {} ms of a replica; {:.2f} replicas would always be busy.\n\n",
      costs.model, costs.machine, Ms(1000 * plan.demand_s), chosen.rate * plan.demand_s);
  std::vector<std::string> head = {"", "replicas", "requests/s", "busy"};
  for (const plan::Objective& objective : options.objectives) {
    const char* const name = objective.of == plan::Objective::Of::kWhole        ? ""
                             : objective.of == plan::Objective::Of::kFirstToken ? "ttft "
                                                                                : "itl ";
    for (const char* p : {"p50 ms", "p95", "p99"}) head.push_back(name + std::string(p));
    head.push_back(fmt::format("p{:g} of runs", 100 * objective.share));
  }
  head.emplace_back("runs that keep it");
  load::BenchTable table(head);
  AddPoint("planned", chosen, options, &table);
  int lost = 0;
  for (const plan::PlanPoint& point : plan.fewer) {
    AddPoint(fmt::format("{} lost", ++lost), point, options, &table);
  }
  if (!plan.over.keeps()) AddPoint("too much", plan.over, options, &table);
  table.Print();
  fmt::print("\n");
  if (chosen.keeps()) {
    fmt::print("replicas       {}", chosen.replicas);
    if (lose > 0) fmt::print("; {} keep the objective with {} lost", chosen.replicas + lose, lose);
    fmt::print("\nheadroom       {} of the rate\n",
               plan.over.keeps() ? fmt::format("more than {:.0f} times", plan.headroom - 1)
                                 : Percent(plan.headroom - 1));
  } else {
    fmt::print("replicas       {} miss the objective; they keep it up to {} of the rate\n",
               chosen.replicas, Percent(plan.headroom));
  }
  if (!plan.over.keeps()) {
    fmt::print("breaks first   {}\n", Reason(plan.over, options));
    fmt::print("a replica      {} requests/s at most\n",
               Ms(chosen.rate * plan.headroom / chosen.replicas));
  }
  if (costs.encoder && !plan.over.keeps()) {
    fmt::print(
        "autoscaler     demand {:.2f} (autoscaling.demand of the chart: processor seconds a "
        "second and replica)\n",
        DemandAtMost(plan) * plan::kScaleShare);
  }
  fmt::print(
      "not modelled   the network, neighbours on a machine, texts that repeat (caches of the "
      "server),\n               loading of models{}\n",
      costs.decoder ? ", guessed tokens, grammars, answers in the cache" : "");
}

std::string PlanReport::ToJson() const {
  std::string text;
  JsonWriter json(&text);
  json.BeginObject().Field("model", costs.model).Field("machine", costs.machine);
  json.Field("replicas", plan.chosen.replicas).Field("keeps", plan.chosen.keeps());
  json.Field("perfect", plan.perfect).Field("request_s", plan.demand_s);
  json.Field("headroom", plan.headroom - 1);
  json.Field("rate_per_replica", plan.chosen.rate * plan.headroom / plan.chosen.replicas);
  if (costs.encoder) json.Field("autoscaler_demand", DemandAtMost(plan) * plan::kScaleShare);
  json.Key("breaks_first");
  if (plan.over.keeps()) {
    json.Null();
  } else {
    json.String(Reason(plan.over, options));
  }
  json.Key("planned");
  WritePoint(plan.chosen, options, &json);
  json.Key("over");
  WritePoint(plan.over, options, &json);
  json.Key("lost").BeginArray();
  for (const plan::PlanPoint& point : plan.fewer) WritePoint(point, options, &json);
  json.EndArray().EndObject();
  return text + "\n";
}

void PrintCosts(const plan::Costs& costs) {
  if (costs.encoder) {
    const plan::EncoderCosts& one = *costs.encoder;
    fmt::print(
        "{} on {}: a batch takes {:.1f} us + {:.3f} us a token + {:.3f} ns a squared length, "
        "{:.1f} "
        "us more after\nanother one, {:.1f} us + {:.3f} us a token more after an idle time, and "
        "{:.1f} us more for each "
        "request that comes meanwhile;\na request takes {:.1f} us + {:.3f} us a token beside it. "
        "Batches of up to {} tokens.\n",
        costs.model, costs.machine, 1e6 * one.batch.fixed_s, 1e6 * one.batch.token_s,
        1e9 * one.batch.work_s, 1e6 * one.gap_s, 1e6 * one.cold_s, 1e6 * one.cold_token_s,
        1e6 * one.request_s, 1e6 * one.outside_s, 1e6 * one.outside_token_s, one.batch_tokens);
    return;
  }
  const plan::DecoderCosts& one = *costs.decoder;
  fmt::print(
      "{} on {}: a step takes {:.2f} ms with 1 row, {:.2f} with 8, {:.2f} + {:.3f} a row with "
      "more,\n{:.3f} for each text that gets a token, and {:.3f} us for 1,000 tokens that a row "
      "looks back at; a request\n{:.2f} ms beside them. "
      "Up to {} texts at once, {} blocks.\n",
      costs.model, costs.machine, 1e3 * one.step.one_s, 1e3 * one.step.few_s,
      1e3 * one.step.fixed_s, 1e3 * one.step.row_s, 1e3 * one.pick_s, 1e9 * one.step.work_s,
      1e3 * one.outside_s, one.sequences, one.cache_blocks);
}

namespace {

double Median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

// One row of the table: of all rounds at a load the median.
struct Shown {
  const char* name;
  plan::Percentiles plan::VerifiedLoad::*times;
  plan::Percentiles plan::VerifiedLoad::*gaps;
  double plan::VerifiedLoad::*busy;
};

using Rounds = std::vector<const plan::VerifiedLoad*>;

double MedianOf(const Rounds& rounds, plan::Percentiles plan::VerifiedLoad::*times,
                double plan::Percentiles::*percentile) {
  std::vector<double> values;
  for (const plan::VerifiedLoad* one : rounds) values.push_back(one->*times.*percentile);
  return Median(std::move(values));
}

double MedianRatio(const Rounds& rounds, plan::Percentiles plan::VerifiedLoad::*times,
                   double plan::Percentiles::*percentile) {
  std::vector<double> values;
  for (const plan::VerifiedLoad* one : rounds) {
    values.push_back(one->*times.*percentile / (one->measured.*percentile));
  }
  return Median(std::move(values));
}

constexpr double plan::Percentiles::*kPercentiles[] = {
    &plan::Percentiles::p50, &plan::Percentiles::p95, &plan::Percentiles::p99};

// Adds the rows of a load. Returns by how much the predicted 95th percentile is off.
double AddLoad(const Rounds& rounds, bool chat, load::BenchTable* table) {
  using Load = plan::VerifiedLoad;
  std::vector<Shown> shown = {
      {"predicted", &Load::predicted, &Load::predicted_gap, &Load::predicted_busy},
      {"measured", &Load::measured, &Load::measured_gap, &Load::measured_busy}};
  shown.push_back({"at its speed", &Load::at_speed, &Load::measured_gap, &Load::measured_busy});
  for (const Shown& one : shown) {
    const bool first = &one == shown.data();
    std::vector<std::string> row = {first ? fmt::format("{:g}", rounds[0]->load) : "",
                                    first ? Ms(rounds[0]->rate) : "", one.name};
    for (const auto percentile : kPercentiles) {
      row.push_back(Ms(MedianOf(rounds, one.times, percentile)));
    }
    if (chat) {
      row.push_back(Ms(MedianOf(rounds, one.gaps, &plan::Percentiles::p50)));
      row.push_back(Ms(MedianOf(rounds, one.gaps, &plan::Percentiles::p95)));
    }
    std::vector<double> busy;
    for (const Load* round : rounds) busy.push_back(round->*one.busy);
    row.push_back(Percent(Median(std::move(busy))));
    table->AddRow(std::move(row));
  }
  for (const Shown& one : shown) {
    if (one.times == &Load::measured) continue;
    std::vector<std::string> row = {"", "", std::string(one.name) + " / measured"};
    for (const auto percentile : kPercentiles) {
      row.push_back(fmt::format("{:.3f}", MedianRatio(rounds, one.times, percentile)));
    }
    table->AddRow(std::move(row));
  }
  return std::abs(MedianRatio(rounds, &Load::predicted, &plan::Percentiles::p95) - 1);
}

}  // namespace

double PrintVerified(const std::vector<plan::VerifiedLoad>& loads, bool chat) {
  std::vector<std::string> head = {"load", "requests/s", "", "p50 ms", "p95", "p99"};
  if (chat) head.insert(head.end(), {"between tokens p50", "p95"});
  head.emplace_back("busy");
  load::BenchTable table(std::move(head));
  double worst = 0;
  for (size_t i = 0; i < loads.size() && loads[i].round == 0; ++i) {
    Rounds rounds;
    for (const plan::VerifiedLoad& one : loads) {
      if (one.load == loads[i].load) rounds.push_back(&one);
    }
    worst = std::max(worst, AddLoad(rounds, chat, &table));
  }
  table.Print();
  return worst;
}

}  // namespace penstock::cli

#include "plan/planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "sched/encode_batch.h"

namespace penstock::plan {
namespace {

// Requests of a seed, about: enough for its 99th percentile.
constexpr double kRequestsOfSeed = 5000;
constexpr double kRequestsMax = 500'000;
constexpr double kWarmupShare = 0.2;
constexpr double kRefusedMax = 0.001;  // of the requests
constexpr double kRateStep = 0.05;     // to which the highest rate is found
constexpr double kRateMax = 16;        // times the planned one
constexpr double kRateLeast = 0.01;

struct Name {
  const char* name;
  Objective::Of of;
};
constexpr Name kNames[] = {{"e2el", Objective::Of::kWhole},
                           {"ttft", Objective::Of::kFirstToken},
                           {"itl", Objective::Of::kBetweenTokens}};

// Reads a number at the begin of the text and takes it off.
bool TakeNumber(std::string_view* text, double* number) {
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), *number);
  if (error != std::errc()) return false;
  text->remove_prefix(static_cast<size_t>(end - text->data()));
  return true;
}

}  // namespace

Expected<Objective> Objective::Parse(const std::string& text, bool chat) {
  Objective objective;
  objective.of = chat ? Of::kFirstToken : Of::kWhole;
  std::string_view rest = text;
  for (const Name& name : kNames) {
    const std::string dotted = std::string(name.name) + ".";
    if (!rest.starts_with(dotted)) continue;
    objective.of = name.of;
    rest.remove_prefix(dotted.size());
  }
  double percent = 0;
  bool good = rest.starts_with('p');
  if (good) rest.remove_prefix(1);
  good = good && TakeNumber(&rest, &percent) && rest.starts_with('=');
  if (good) rest.remove_prefix(1);
  good = good && TakeNumber(&rest, &objective.ms);
  if (good && rest == "s") objective.ms *= 1000;
  good = good && (rest == "s" || rest == "ms") && percent > 0 && percent < 100 && objective.ms > 0;
  if (!good || (!chat && objective.of != Of::kWhole)) {
    return Status::InvalidArgument(
        fmt::format("an objective is {}, not '{}'",
                    chat ? "ttft.p95=500ms, itl.p95=80ms or e2el.p95=10s" : "p95=50ms or p99=0.2s",
                    text),
        "slo");
  }
  objective.share = percent / 100;
  return objective;
}

std::string Objective::Text() const {
  const char* name = "";
  for (const Name& one : kNames) {
    if (one.of == of && of != Of::kWhole) name = one.name;
  }
  return fmt::format("{}{}p{:g} within {:g} ms", name, *name == '\0' ? "" : " ", 100 * share, ms);
}

const load::LatencyHistogram& Objective::In(const Answers& answers) const {
  switch (of) {
    case Of::kWhole:
      return answers.whole;
    case Of::kFirstToken:
      return answers.first_token;
    case Of::kBetweenTokens:
      return answers.between_tokens;
  }
  return answers.whole;
}

Expected<Planner> Planner::Make(const Costs& costs, PlanOptions options) {
  const bool chat = costs.decoder.has_value();
  if (options.workload.trace != nullptr) {
    options.workload.chat = options.workload.trace->front().lengths.empty();
  }
  if (options.workload.chat != chat) {
    return Status::InvalidArgument(
        chat ? "the model generates text: its requests have --prompts and --outputs"
             : "the model takes texts: its requests have --lengths");
  }
  if (chat) options.workload.context = std::min(options.workload.context, costs.decoder->context);
  Planner planner(costs, std::move(options));
  if (chat) {
    PENSTOCK_ASSIGN_OR_RETURN(planner.chat_, ChatModel::Make(costs.decoder->context));
  }
  planner.CountDemand();
  return planner;
}

void Planner::CountDemand() {
  constexpr int kDraws = 5000;
  Workload workload = options_.workload;
  RequestSource source(workload, 1);
  Request request;
  double tokens = 0, work = 0, rows = 0;
  if (!costs_.encoder) {
    // Prompts in whole chunks, and a row of a step in which all places are taken.
    const DecoderCosts& costs = *costs_.decoder;
    const double row_s =
        costs.step.Seconds(costs.sequences, 0) / static_cast<double>(costs.sequences) +
        costs.pick_s;
    for (int i = 0; i < kDraws; ++i) {
      source.Next(&request);
      const int32_t known = request.prompt - request.fresh;
      demand_s_ += costs.step.row_s * request.fresh + row_s * request.output +
                   costs.step.work_s * (generate::StepCost::Work(request.fresh, known) +
                                        generate::StepCost::Work(request.output, request.prompt));
    }
    demand_s_ /= kDraws;
    asked_s_ = demand_s_;
    return;
  }
  const EncoderCosts& costs = *costs_.encoder;
  double alone_s = 0;
  for (int i = 0; i < kDraws; ++i) {
    source.Next(&request);
    for (const int32_t words : request.lengths) {
      const auto length =
          std::clamp(static_cast<int32_t>(words + costs.added_tokens), 1, costs.length_max);
      tokens += length;
      work += static_cast<double>(sched::AttentionWork(length));
      ++rows;
    }
  }
  alone_s = costs.batch.token_s * tokens + costs.batch.work_s * work;
  const double batches = tokens / costs.batch_tokens;
  demand_s_ = (alone_s + batches * (costs.batch.fixed_s + costs.gap_s)) / kDraws + costs.request_s;
  asked_s_ = alone_s / kDraws;
}

double Planner::SecondsOf(double rate) const {
  if (options_.seconds > 0) return options_.seconds;
  double longest_ms = 0;
  for (const Objective& objective : options_.objectives) {
    longest_ms = std::max(longest_ms, objective.ms);
  }
  // Long enough for a queue to build up, too; of a trace all of it.
  double seconds = std::max({kRequestsOfSeed / rate, 0.05 * longest_ms, 1.0});
  if (options_.workload.trace != nullptr) {
    seconds = std::max(seconds, static_cast<double>(options_.workload.trace->size()) / rate);
  }
  return std::min(seconds, kRequestsMax / rate);
}

Expected<PlanPoint> Planner::At(int replicas, double rate) const {
  PlanPoint point;
  point.replicas = replicas;
  point.rate = rate;
  const size_t count = options_.objectives.size();
  point.lowest_ms.assign(count, INFINITY);
  point.highest_ms.assign(count, 0);
  FleetRun run;
  run.replicas = std::min(replicas, kSliceReplicas);
  run.routing = options_.routing;
  Workload workload = options_.workload;
  workload.rate = rate * run.replicas / replicas;
  run.seconds = SecondsOf(workload.rate);
  run.warmup_s = kWarmupShare * run.seconds;
  int kept = 0;
  for (int seed = 1; seed <= options_.seeds; ++seed) {
    run.seed = static_cast<uint64_t>(seed);
    PENSTOCK_ASSIGN_OR_RETURN(const FleetOutcome outcome,
                              SimulateFleet(costs_, chat_.get(), workload, run));
    const Answers& answers = outcome.answers;
    bool keeps = answers.whole.count() > 0 &&
                 answers.refused <= kRefusedMax * static_cast<double>(answers.requests);
    for (size_t i = 0; i < count; ++i) {
      const Objective& objective = options_.objectives[i];
      // A single token has none between it and the next.
      const double ms = objective.In(answers).PercentileMs(objective.share);
      point.lowest_ms[i] = std::min(point.lowest_ms[i], ms);
      point.highest_ms[i] = std::max(point.highest_ms[i], ms);
      keeps = keeps && ms <= objective.ms;
    }
    kept += keeps ? 1 : 0;
    const bool hopeless = answers.whole.count() == 0 && point.answers.whole.count() == 0;
    point.answers.requests += answers.requests;
    point.answers.refused += answers.refused;
    point.answers.whole.Merge(answers.whole);
    point.answers.first_token.Merge(answers.first_token);
    point.answers.between_tokens.Merge(answers.between_tokens);
    point.busy_share += outcome.busy_share / options_.seeds;
    point.cache_peak = std::max(point.cache_peak, outcome.cache_peak);
    point.preemptions += static_cast<double>(outcome.preemptions) / options_.seeds;
    if (hopeless) break;  // other seeds would answer nothing either
  }
  point.kept = static_cast<double>(kept) / options_.seeds;
  return point;
}

namespace {

Status NoNumber(const PlanPoint& point, const std::vector<Objective>& objectives) {
  std::string why;
  if (point.answers.whole.count() == 0) {
    why = point.answers.refused > 0 ? "a request alone is more than a queue holds"
                                    : "no interactive request is among them";
  }
  for (const Objective& objective : objectives) {
    const double ms = objective.In(point.answers).PercentileMs(objective.share);
    if (!why.empty() || ms <= objective.ms) continue;
    why = fmt::format("with {} it is {:.1f} ms", point.replicas, ms);
    return Status::InvalidArgument(
        fmt::format("no number of replicas keeps {}: {}", objective.Text(), why), "slo");
  }
  if (why.empty()) why = fmt::format("with {} too many runs miss it", point.replicas);
  return Status::InvalidArgument(
      fmt::format("no number of replicas keeps {}: {}", objectives.front().Text(), why), "slo");
}

}  // namespace

Expected<Plan> Planner::Find(int lost) const {
  const double rate = options_.workload.rate;
  const double perfect = std::ceil(rate * demand_s_);
  if (perfect > options_.replicas_max) {
    return Status::InvalidArgument(
        fmt::format(
            "the requests take {:.0f} replicas that are always busy; {} at most are planned",
            perfect, options_.replicas_max),
        "rate");
  }
  int under = 0;  // misses
  int over = std::max(static_cast<int>(perfect), 1);
  // A fleet of several times the replicas that misses will miss with any number.
  const int most =
      static_cast<int>(std::min<int64_t>(options_.replicas_max, 64 + int64_t{8} * over));
  while (true) {
    PENSTOCK_ASSIGN_OR_RETURN(const PlanPoint point, At(over, rate));
    if (point.keeps()) break;
    under = over;
    const bool hopeless = point.answers.whole.count() == 0;
    if (over >= most || hopeless) return NoNumber(point, options_.objectives);
    over = std::min(most, over + std::max(1, over / 4));
  }
  while (over - under > 1) {
    const int middle = under + (over - under) / 2;
    PENSTOCK_ASSIGN_OR_RETURN(const PlanPoint point, At(middle, rate));
    (point.keeps() ? over : under) = middle;
  }
  return Of(over, lost);
}

Expected<Plan> Planner::Of(int replicas, int lost) const {
  const double rate = options_.workload.rate;
  Plan plan;
  plan.demand_s = demand_s_;
  plan.asked_s = asked_s_;
  plan.perfect = std::ceil(rate * demand_s_);
  PENSTOCK_ASSIGN_OR_RETURN(plan.chosen, At(replicas, rate));
  // The highest rate that keeps the objective: between `good` and `bad` times the planned one.
  double good = 0, bad = 1;
  plan.over = plan.chosen;
  while (plan.over.keeps() && bad < kRateMax) {
    good = bad;
    bad *= 1.25;
    PENSTOCK_ASSIGN_OR_RETURN(plan.over, At(replicas, bad * rate));
  }
  while (!plan.over.keeps() && bad - good > kRateStep * bad && bad > kRateLeast) {
    const double middle = (good + bad) / 2;
    PENSTOCK_ASSIGN_OR_RETURN(PlanPoint point, At(replicas, middle * rate));
    if (point.keeps()) {
      good = middle;
    } else {
      bad = middle;
      plan.over = std::move(point);
    }
  }
  plan.headroom = good;
  for (int i = 1; i <= lost && i < replicas; ++i) {
    PENSTOCK_ASSIGN_OR_RETURN(PlanPoint point, At(replicas - i, rate));
    plan.fewer.push_back(std::move(point));
  }
  return plan;
}

}  // namespace penstock::plan

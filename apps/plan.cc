// penstock plan: how many replicas a load needs.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <memory>

#include "cli/command_line.h"
#include "commands.h"
#include "load/server_process.h"
#include "load/text_file.h"
#include "os/processors.h"
#include "plan/measure.h"
#include "plan/verify.h"
#include "plan_report.h"
#include "target_url.h"

namespace penstock::cli {
namespace {

// How far a 95th percentile may be from what is measured.
constexpr double kErrorMax = 0.15;
constexpr double kChatErrorMax = 0.20;

struct PlanFlags {
  std::string model, costs, model_name, save_costs, api_key;
  std::vector<std::string> server_flags;
  double measure_s = 20;
  plan::PlanOptions options;
  std::string lengths, prompts = "lognormal:256,0.8,16,2048", outputs = "lognormal:128,0.8,8,1024";
  std::string trace;
  std::vector<std::string> slo;
  std::string routing = "least";
  int lose = 1;
  int replicas = 0;
  std::string verify;
  plan::VerifyOptions verified;
  std::string json_file;
};

void AddCostFlags(FlagSet* app, PlanFlags* flags) {
  const FlagGroup costs(app, "Costs: one of --model and --costs");
  costs.Add("-m,--model", flags->model, "REF",
            "Start a server with this model here, and measure what requests cost it.");
  costs.Add("--costs", flags->costs, "FILE|URL",
            "A file that --save-costs has written, here or on another machine; or a server, at "
            "http://, to measure. Nothing else may ask it meanwhile.");
  costs.Add("--model-name", flags->model_name, "NAME",
            "The model to measure, where the server has several.");
  costs.AddRepeated("--server-flag", flags->server_flags, "FLAG",
                    "Flag for the server of --model, as --server-flag=--threads=8. May be given "
                    "again.");
  costs.Add("--api-key", flags->api_key, "KEY", "Sent to servers as a bearer token.");
  costs.Add("--measure-s", flags->measure_s, "S", InRange(1.0, 3600.0), "Seconds of measuring.");
  costs.Add("--save-costs", flags->save_costs, "FILE", "Write the costs, for --costs.");
}

void AddLoadFlags(FlagSet* app, PlanFlags* flags) {
  plan::Workload& load = flags->options.workload;
  const FlagGroup requests(app, "Requests");
  requests.Add("--rate", load.rate, "R", InRange(1e-6, 1e9),
               "Requests a second; the times of a trace are stretched to it.");
  requests.Add("--burst", load.burst, "N", InRange(1, 100'000), "Requests that arrive together.");
  requests
      .Add("--lengths", flags->lengths, "SPEC",
           "Tokens of a text: fixed:N, uniform:MIN,MAX or lognormal:MEAN,SIGMA[,MIN,MAX] "
           "(SIGMA of the logarithm).")
      ->DefaultText("lognormal:64,0.8");
  requests.Add("--texts", load.texts, "N", InRange(1, 100'000),
               "Texts of a request; documents to rerank.");
  requests.Add("--bulk-share", load.bulk_share, "X", InRange(0.0, 1.0),
               "Share of the requests that have priority bulk; their time is not looked at.");
  requests.Add("--prompts", flags->prompts, "SPEC", "Chats: new tokens of a turn's prompt.");
  requests.Add("--outputs", flags->outputs, "SPEC", "Chats: tokens of an answer.");
  requests.Add("--shared-prompt", load.shared, "TOKENS", InRange(0, 1 << 20),
               "Chats: a system message that all begin with.");
  requests.Add("--turns", load.turns, "X", InRange(1.0, 1000.0),
               "Chats: turns of a conversation, in the mean.");
  requests.Add(
      "--trace", flags->trace, "FILE", ExistingFile(),
      "Instead of these: requests as JSON lines, {\"at\": S, \"tokens\": N or [N, ...]} or "
      "{\"at\": S, \"prompt\": N, \"output\": N, \"session\": TEXT}.");
}

void AddPlanFlags(FlagSet* app, PlanFlags* flags) {
  const FlagGroup plan(app, "Plan");
  plan.Add("--slo", flags->slo, "pN=TIME,...",
           "What is to be kept: p95=50ms; of chats ttft.p95=500ms (also without ttft), "
           "itl.p95=80ms, e2el.p95=10s. Without it the costs are printed, no more.")
      ->Delimiter(',');
  plan.Add("--routing", flags->routing, "NAME",
           OneOf({"least", "affinity", "round-robin", "random"}),
           "How requests find a replica: least (outstanding requests), affinity (by conversation, "
           "with bounded load), round-robin or random.");
  plan.Add("--lose", flags->lose, "N", InRange(0, 1000), "Replicas that may be lost.");
  plan.Add("--replicas", flags->replicas, "N", InRange(0, 100'000),
           "Look at this number of replicas; 0: the smallest that is enough.");
  plan.Add("--seeds", flags->options.seeds, "N", InRange(1, 1000),
           "Runs of each simulation; 95 % of them have to keep the objective.");
  plan.Add("--simulated-s", flags->options.seconds, "S", InRange(0.0, 1e7),
           "Seconds of arrivals of a run; 0: enough for 5000 requests.");
  const FlagGroup verify(app, "Verification");
  verify.Add("--verify", flags->verify, "URL",
             "Ask this server at several rates, simulate the same requests, and print both. Exits "
             "with 1 where a 95th percentile is off by more than 15 % (20 % of first tokens).");
  verify
      .Add("--loads", flags->verified.loads, "X,...", InRange(0.01, 2.0),
           "Rates of --verify, as parts of what a replica can do.")
      ->Delimiter(',');
  verify.Add("--verify-s", flags->verified.seconds, "S", InRange(1.0, 3600.0),
             "Seconds of each rate and round.");
  verify.Add("--verify-rounds", flags->verified.rounds, "N", InRange(1, 100),
             "Rounds over all rates, with other requests each; medians of them are printed.");
  FlagGroup(app, "Output").Add("--json", flags->json_file, "FILE", "Write the plan as JSON.");
}

Status ReadSpecs(const FlagSet& app, PlanFlags* flags) {
  plan::Workload& load = flags->options.workload;
  struct Spec {
    const char* flag;
    const std::string& text;
    load::LengthSpec* to;
  };
  const std::string lengths = flags->lengths.empty() ? "lognormal:64,0.8" : flags->lengths;
  for (const Spec& spec :
       {Spec{"--lengths", lengths, &load.lengths}, Spec{"--prompts", flags->prompts, &load.prompts},
        Spec{"--outputs", flags->outputs, &load.outputs}}) {
    auto parsed = load::LengthSpec::Parse(spec.text);
    if (!parsed.ok()) {
      return Status::InvalidArgument(std::string(spec.flag) + ": " + parsed.status().message());
    }
    *spec.to = *parsed;
  }
  for (size_t i = 0; i < std::size(plan::kRoutingNames); ++i) {
    if (flags->routing == plan::kRoutingNames[i]) {
      flags->options.routing = static_cast<plan::Routing>(i);
    }
  }
  if (flags->trace.empty()) return Status::Ok();
  PENSTOCK_ASSIGN_OR_RETURN(load.trace, plan::ReadTrace(flags->trace));
  if (app.Count("--rate") == 0) load.rate = plan::RateOf(*load.trace);
  return Status::Ok();
}

// "AMD EPYC, 2 of 64 processors (affinity)".
std::string ThisMachine() {
  std::ifstream file("/proc/cpuinfo");
  std::string name = "this machine";
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("model name")) continue;
    name = line.substr(std::min(line.find(':') + 2, line.size()));
    break;
  }
  return name + ", " + ReadProcessorLimits().Text();
}

bool IsUrl(const std::string& text) { return text.starts_with("http://"); }

Expected<plan::Costs> Measure(const std::string& model, const std::string& machine,
                              const PlanFlags& flags, load::HttpTarget target) {
  target.api_key = flags.api_key;
  PENSTOCK_ASSIGN_OR_RETURN(const plan::ServedModel served, plan::ServedModel::Find(target, model));
  std::fprintf(stderr, "penstock plan: measuring %s for about %.0f s\n", served.name.c_str(),
               flags.measure_s);
  return plan::MeasureCosts(served, {target, machine, flags.measure_s});
}

Expected<plan::Costs> GetCosts(const PlanFlags& flags) {
  if (!flags.costs.empty() && !IsUrl(flags.costs)) return plan::Costs::ReadFile(flags.costs);
  if (!flags.costs.empty()) {
    load::HttpTarget target;
    PENSTOCK_RETURN_IF_ERROR(ParseTarget("--costs", flags.costs, &target));
    return Measure(flags.model_name, flags.costs, flags, target);
  }
  // Caches would answer, guesses would come true: of made-up texts more than of others.
  std::vector<std::string> words = {
      "--model", flags.model, "--log-level", "warn", "--no-speculation", "--slow-request-ms", "0"};
  words.insert(words.end(), flags.server_flags.begin(), flags.server_flags.end());
  PENSTOCK_ASSIGN_OR_RETURN(const auto server, load::ServerProcess::Start(words));
  return Measure("", ThisMachine(), flags, server->target());
}

Status Verify(const plan::Planner& planner, PlanFlags* flags, bool* close) {
  PENSTOCK_RETURN_IF_ERROR(ParseTarget("--verify", flags->verify, &flags->verified.target));
  flags->verified.target.api_key = flags->api_key;
  PENSTOCK_ASSIGN_OR_RETURN(const plan::ServedModel served,
                            plan::ServedModel::Find(flags->verified.target, flags->model_name));
  PENSTOCK_ASSIGN_OR_RETURN(const auto loads, plan::VerifyPlan(served, planner, flags->verified));
  const bool chat = planner.costs().decoder.has_value();
  *close = PrintVerified(loads, chat) <= (chat ? kChatErrorMax : kErrorMax);
  return Status::Ok();
}

Status MakePlan(const plan::Costs& costs, PlanFlags* flags, bool* kept) {
  const bool chat = costs.decoder.has_value();
  flags->options.workload.chat = chat;
  for (const std::string& text : flags->slo) {
    PENSTOCK_ASSIGN_OR_RETURN(const plan::Objective objective, plan::Objective::Parse(text, chat));
    flags->options.objectives.push_back(objective);
  }
  PENSTOCK_ASSIGN_OR_RETURN(const plan::Planner planner,
                            plan::Planner::Make(costs, flags->options));
  if (!flags->verify.empty()) {
    PENSTOCK_RETURN_IF_ERROR(Verify(planner, flags, kept));
  }
  if (flags->slo.empty()) return Status::Ok();
  PENSTOCK_ASSIGN_OR_RETURN(const plan::Plan plan, flags->replicas > 0
                                                       ? planner.Of(flags->replicas, flags->lose)
                                                       : planner.Find(flags->lose));
  const PlanReport report{costs, flags->options, plan, flags->lose};
  report.Print();
  *kept = *kept && plan.chosen.keeps();
  return flags->json_file.empty() ? Status::Ok()
                                  : load::WriteTextFile(flags->json_file, report.ToJson());
}

}  // namespace

int RunPlan(const std::vector<std::string>& args) {
  CommandLine line(
      "plan",
      "How many replicas a load needs: measures what requests cost a server, then simulates "
      "fleets\n"
      "by the schedulers of the server itself. Says what breaks first, how much room there is, "
      "and\n"
      "what is left when replicas are lost. Exits with 1 where the objective is missed.",
      "  penstock plan --model MODEL --rate 2000 --lengths lognormal:64,0.8 --slo p95=50ms\n"
      "  penstock plan --model MODEL --save-costs costs.json\n"
      "  penstock plan --costs costs.json --trace day.jsonl --slo p99=200ms --lose 2\n"
      "  penstock plan --costs chat.json --rate 5 --turns 4 --routing affinity "
      "--slo ttft.p95=1s,itl.p95=80ms\n"
      "  penstock plan --costs costs.json --verify http://replica:8080\n");
  PlanFlags flags;
  AddCostFlags(&line.flags(), &flags);
  AddLoadFlags(&line.flags(), &flags);
  AddPlanFlags(&line.flags(), &flags);
  if (const auto exit_code = line.Parse(args)) return *exit_code;
  if (flags.model.empty() == flags.costs.empty()) {
    return line.FailUsage("give either --model or --costs");
  }
  if (flags.slo.empty() && (flags.replicas > 0 || !flags.json_file.empty())) {
    return line.FailUsage("--replicas and --json need an objective: --slo");
  }
  if (const Status specs = ReadSpecs(line.flags(), &flags); !specs.ok()) {
    return line.FailUsage(specs.message());
  }
  for (const auto& [flag, url] : {std::pair("--verify", flags.verify), {"--costs", flags.costs}}) {
    load::HttpTarget ignored;
    if (url.empty() || (std::string(flag) == "--costs" && !IsUrl(url))) continue;
    if (const Status parsed = ParseTarget(flag, url, &ignored); !parsed.ok()) {
      return line.FailUsage(parsed.message());
    }
    if (ignored.tls) return line.FailUsage(std::string(flag) + ": a server at http:// is needed");
  }
  auto costs = GetCosts(flags);
  if (!costs.ok()) return line.Fail(costs.status());
  Status status = load::WriteTextFile(flags.save_costs, costs->ToJson());
  if (flags.slo.empty() && flags.verify.empty()) PrintCosts(*costs);
  bool kept = true;
  const bool asked = !flags.slo.empty() || !flags.verify.empty();
  if (status.ok() && asked) status = MakePlan(*costs, &flags, &kept);
  if (!status.ok()) {
    return status.field() == "slo" ? line.FailUsage(status.message()) : line.Fail(status);
  }
  return kept ? kExitOk : kExitFailure;
}

}  // namespace penstock::cli

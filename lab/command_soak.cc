// penstock-lab soak: a server under several times the load it can carry, and hostile clients.
#include "cli/command_line.h"
#include "lab/commands.h"
#include "lab/soak.h"

namespace penstock::lab {
namespace {

void AddLoadFlags(cli::FlagSet* app, SoakOptions* options, std::string* lengths) {
  const cli::FlagGroup load(app, "Load");
  load.Add("-m,--model", options->model, "REF", "Folder, or owner/name on the Hugging Face hub.")
      ->Required();
  load.AddRepeated("--server-flag", options->server_flags, "FLAG",
                   "Flag for the server, as --server-flag=--threads=1. May be given again.");
  load.Add("--duration", options->duration_s, "S", cli::InRange(0.1, 1e6), "Seconds of overload.");
  load.Add("--overload", options->overload, "X", cli::InRange(0.1, 1000.0),
           "Times the capacity, which is measured first.");
  load.Add("--capacity-s", options->capacity_s, "S", cli::InRange(0.1, 3600.0),
           "Seconds that takes.");
  load.Add("--bulk-batch", options->bulk_batch, "N", cli::InRange(1, 2048),
           "Texts of a bulk request.");
  load.Add("--interactive-share", options->interactive_share, "SHARE", cli::InRange(0.001, 0.999),
           "Share of the texts that come alone, as interactive requests.");
  load.Add("--lengths", *lengths, "SPEC",
           "Words of texts: fixed:N, uniform:MIN,MAX or lognormal:MEAN,SIGMA,MIN,MAX.");
  load.Add("--timeout-ms", options->timeout_ms, "MS", cli::InRange(int64_t{1}, int64_t{86'400'000}),
           "Deadline of half the requests; with --chat 5000.");
  load.Add("--leave-share", options->leave_share, "SHARE", cli::InRange(0.0, 1.0),
           "Share of the clients that leave.");
  load.Add("--leave-ms-max", options->leave_ms_max, "MS", cli::InRange(0.0, 1e6),
           "... at a random moment within this time.");
  load.Add("--seed", options->seed, "N", "Seed of texts, arrivals and departures.");
}

void AddHostileFlags(cli::FlagSet* app, SoakOptions* options) {
  const cli::FlagGroup hostile(app, "Hostile clients");
  auto* const with_hostile =
      hostile
          .Switch("--hostile", options->hostile,
                  "The same overload a second time, beside clients that send huge, broken or "
                  "unfinished requests, a quarter of all. Each time takes --duration. Interactive "
                  "work alone is 0.4 of the server's capacity for it.")
          ->Excludes(app->Get("--interactive-share"));
  hostile
      .Add("--hostile-rate", options->hostile_rate, "R", cli::InRange(0.1, 10'000.0),
           "Their requests a second; of 40, 4 are bodies of megabytes, 1 is heavy work.")
      ->Needs(with_hostile);
  hostile
      .Add("--hostile-only", options->hostile_only, "TEXT",
           "Only the kinds of requests whose name contains this.")
      ->Needs(with_hostile);
}

struct ChatTokens {
  std::string prompt = "32-256";
  std::string output = "16-96";
};

void AddChatFlags(cli::FlagSet* app, SoakOptions* options, ChatTokens* tokens) {
  const cli::FlagGroup group(app, "Text generation");
  auto* const chat = group.Switch("--chat", options->chat,
                                  "Streams of text from a model that generates it. --overload is "
                                  "of the rate at which 16 clients get theirs.");
  for (const char* other : {"--hostile", "--bulk-batch", "--interactive-share", "--lengths"}) {
    chat->Excludes(app->Get(other));
  }
  group.Add("--prompt-tokens", tokens->prompt, "N[-MAX]", "Tokens of a prompt: N or MIN-MAX.")
      ->Needs(chat);
  group.Add("--output-tokens", tokens->output, "N[-MAX]", "Tokens of a text: N or MIN-MAX.")
      ->Needs(chat);
  group
      .Add("--slow-share", options->slow_share, "SHARE", cli::InRange(0.0, 1.0),
           "Share of the clients that read slowly, from a small window, events of kilobytes.")
      ->Needs(chat);
  group
      .Add("--warmup", options->warmup_s, "S", cli::InRange(0.1, 1e6),
           "Seconds of overload before memory is judged.")
      ->Needs(chat);
}

// What differs from the defaults of embeddings.
Status ReadChatFlags(const cli::FlagSet& app, const ChatTokens& tokens, SoakOptions* options) {
  auto prompt = load::TokenRange::Parse(tokens.prompt);
  if (!prompt.ok()) return prompt.status().Annotate("--prompt-tokens");
  auto output = load::TokenRange::Parse(tokens.output);
  if (!output.ok()) return output.status().Annotate("--output-tokens");
  options->prompt_tokens = *prompt;
  options->output_tokens = *output;
  if (app.Count("--timeout-ms") == 0) options->timeout_ms = SoakOptions::kChatTimeoutMs;
  if (app.Count("--livez-p999-ms-max") == 0) {
    options->livez_p999_ms_max = SoakOptions::kChatLivezP999Ms;
  }
  return Status::Ok();
}

void AddLimitFlags(cli::FlagSet* app, SoakOptions* options) {
  const cli::FlagGroup limits(app, "Limits");
  limits.Add("--livez-ms-max", options->livez_ms_max, "MS",
             "Slowest answer of /livez; not judged where other programs are busy.");
  limits
      .Add("--memory-growth-mb-max", options->memory_growth_mb_max, "MB",
           "Resident memory over that after the capacity was measured; 64, or 592 with --hostile: "
           "512 of requests in flight and 16 of the token cache more.")
      ->DefaultText("");
  limits.Add("--deadline-over-ms-max", options->deadline_over_ms_max, "MS",
             "Latest answer after its deadline.");
  limits.Add("--livez-p999-ms-max", options->livez_p999_ms_max, "MS",
             "With --hostile: p99.9 of /livez; with --chat too, 10 there; not judged where other "
             "programs are busy.");
  limits.Add("--p99-ratio-max", options->p99_ratio_max, "X",
             "With --hostile: p99 of interactive requests beside hostile clients, over that "
             "without; not judged where other programs are busy.");
  limits.Add("--interactive-refused-max", options->interactive_refused_max, "N",
             "With --hostile: interactive requests answered 429 or 503.");
  limits.Add("--hostile-wrong-max", options->hostile_wrong_max, "N",
             "With --hostile: malformed requests that were served, right ones that were not.");
  limits.Add("--hostile-not-sent-max", options->hostile_not_sent_max, "SHARE",
             "With --hostile: share of the hostile requests not sent because the server held all "
             "their clients.");
}

}  // namespace

int SoakCommand(const std::vector<std::string>& args) {
  cli::CommandLine line(
      "lab soak",
      "Offer a server several times its capacity, from clients that leave before "
      "their answer,\nand check that it refuses in good order: every request answered, "
      "refused or expired, memory\nbounded, /livez prompt, counters right. Starts a "
      "server of its own; fails if anything fails.",
      "  penstock-lab soak --model MODEL --duration 600\n"
      "  penstock-lab soak --model MODEL --hostile --duration 120 --json soak.json\n"
      "  penstock-lab soak --model model.gguf --chat --duration 600\n");
  SoakOptions options;
  std::string lengths = "lognormal:64,0.8,4,250";
  std::string json_file;
  AddLoadFlags(&line.flags(), &options, &lengths);
  AddHostileFlags(&line.flags(), &options);
  ChatTokens tokens;
  AddChatFlags(&line.flags(), &options, &tokens);
  AddLimitFlags(&line.flags(), &options);
  cli::FlagGroup(&line.flags(), "Output")
      .Add("--json", json_file, "FILE", "File for the records, a JSON object a line.");
  if (const auto exit_code = line.Parse(args)) return *exit_code;
  auto spec = load::LengthSpec::Parse(lengths);
  if (!spec.ok()) return line.FailUsage("--lengths: " + spec.status().message());
  options.lengths = *spec;
  if (options.chat) {
    const Status chat = ReadChatFlags(line.flags(), tokens, &options);
    if (!chat.ok()) return line.FailUsage(chat.message());
  }
  if (options.hostile && options.overload <= SoakOptions::kInteractiveOfCapacity) {
    return line.FailUsage("--overload: with --hostile it must be more than 0.4");
  }
  load::BenchRecords records;
  const Status status = RunSoak(options, &records);
  // Also of a failed run: the measurements say why.
  const Status written = records.WriteFile(json_file);
  if (!status.ok()) return line.Fail(status);
  return written.ok() ? cli::kExitOk : line.Fail(written);
}

}  // namespace penstock::lab

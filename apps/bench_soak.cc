// penstock bench soak: a server under several times the load it can carry, and hostile clients.
#include "command_line.h"
#include "commands.h"
#include "load/soak.h"

namespace penstock {
namespace {

void AddLoadFlags(FlagSet* app, SoakOptions* options, std::string* lengths) {
  const std::string load = "Load";
  app->AddOption("-m,--model", options->model, "Folder, or owner/name on the Hugging Face hub.")
      ->TypeName("REF")
      ->Required()
      ->Group(load);
  app->AddOption("--server-flag", options->server_flags,
                 "Flag for the server, as --server-flag=--threads=1. May be given again.")
      ->TypeName("FLAG")
      ->AllowExtraArgs(false)
      ->Group(load);
  app->AddOption("--duration", options->duration_s, "Seconds of overload.")
      ->Check(InRange(0.1, 1e6))
      ->TypeName("S")
      ->Group(load);
  app->AddOption("--overload", options->overload, "Times the capacity, which is measured first.")
      ->Check(InRange(0.1, 1000.0))
      ->TypeName("X")
      ->Group(load);
  app->AddOption("--capacity-s", options->capacity_s, "Seconds that takes.")
      ->Check(InRange(0.1, 3600.0))
      ->TypeName("S")
      ->Group(load);
  app->AddOption("--bulk-batch", options->bulk_batch, "Texts of a bulk request.")
      ->Check(InRange(1, 2048))
      ->TypeName("N")
      ->Group(load);
  app->AddOption("--interactive-share", options->interactive_share,
                 "Share of the texts that come alone, as interactive requests.")
      ->Check(InRange(0.001, 0.999))
      ->TypeName("SHARE")
      ->Group(load);
  app->AddOption("--lengths", *lengths,
                 "Words of texts: fixed:N, uniform:MIN,MAX or lognormal:MEAN,SIGMA,MIN,MAX.")
      ->TypeName("SPEC")
      ->Group(load);
  app->AddOption("--timeout-ms", options->timeout_ms,
                 "Deadline of half the requests; with --chat 5000.")
      ->Check(InRange(int64_t{1}, int64_t{86'400'000}))
      ->TypeName("MS")
      ->Group(load);
  app->AddOption("--leave-share", options->leave_share, "Share of the clients that leave.")
      ->Check(InRange(0.0, 1.0))
      ->TypeName("SHARE")
      ->Group(load);
  app->AddOption("--leave-ms-max", options->leave_ms_max,
                 "... at a random moment within this time.")
      ->Check(InRange(0.0, 1e6))
      ->TypeName("MS")
      ->Group(load);
  app->AddOption("--seed", options->seed, "Seed of texts, arrivals and departures.")
      ->TypeName("N")
      ->Group(load);
}

void AddHostileFlags(FlagSet* app, SoakOptions* options) {
  const std::string hostile = "Hostile clients";
  auto* const with_hostile =
      app->AddSwitch(
             "--hostile", options->hostile,
             "The same overload a second time, beside clients that send huge, broken "
             "or unfinished requests, a quarter of all. Each time takes --duration. Interactive "
             "work alone is 0.4 of the server's capacity for it.")
          ->Excludes(app->Get("--interactive-share"))
          ->Group(hostile);
  app->AddOption("--hostile-rate", options->hostile_rate,
                 "Their requests a second; of 40, 4 are bodies of megabytes, 1 is heavy work.")
      ->Check(InRange(0.1, 10'000.0))
      ->Needs(with_hostile)
      ->TypeName("R")
      ->Group(hostile);
  app->AddOption("--hostile-only", options->hostile_only,
                 "Only the kinds of requests whose name contains this.")
      ->Needs(with_hostile)
      ->TypeName("TEXT")
      ->Group(hostile);
}

struct ChatTokens {
  std::string prompt = "32-256";
  std::string output = "16-96";
};

void AddChatFlags(FlagSet* app, SoakOptions* options, ChatTokens* tokens) {
  const std::string group = "Text generation";
  auto* const chat =
      app->AddSwitch("--chat", options->chat,
                     "Streams of text from a model that generates it. --overload is of the rate at "
                     "which 16 clients get theirs.")
          ->Group(group);
  for (const char* other : {"--hostile", "--bulk-batch", "--interactive-share", "--lengths"}) {
    chat->Excludes(app->Get(other));
  }
  app->AddOption("--prompt-tokens", tokens->prompt, "Tokens of a prompt: N or MIN-MAX.")
      ->Needs(chat)
      ->TypeName("N[-MAX]")
      ->Group(group);
  app->AddOption("--output-tokens", tokens->output, "Tokens of a text: N or MIN-MAX.")
      ->Needs(chat)
      ->TypeName("N[-MAX]")
      ->Group(group);
  app->AddOption("--slow-share", options->slow_share,
                 "Share of the clients that read slowly, from a small window, events of "
                 "kilobytes.")
      ->Check(InRange(0.0, 1.0))
      ->Needs(chat)
      ->TypeName("SHARE")
      ->Group(group);
  app->AddOption("--warmup", options->warmup_s, "Seconds of overload before memory is judged.")
      ->Check(InRange(0.1, 1e6))
      ->Needs(chat)
      ->TypeName("S")
      ->Group(group);
}

// What differs from the defaults of embeddings.
Status ReadChatFlags(const FlagSet& app, const ChatTokens& tokens, SoakOptions* options) {
  auto prompt = TokenRange::Parse(tokens.prompt);
  if (!prompt.ok()) return prompt.status().Annotate("--prompt-tokens");
  auto output = TokenRange::Parse(tokens.output);
  if (!output.ok()) return output.status().Annotate("--output-tokens");
  options->prompt_tokens = *prompt;
  options->output_tokens = *output;
  if (app.Count("--timeout-ms") == 0) options->timeout_ms = SoakOptions::kChatTimeoutMs;
  if (app.Count("--livez-p999-ms-max") == 0) {
    options->livez_p999_ms_max = SoakOptions::kChatLivezP999Ms;
  }
  return Status::Ok();
}

void AddLimitFlags(FlagSet* app, SoakOptions* options) {
  const std::string limits = "Limits";
  app->AddOption("--livez-ms-max", options->livez_ms_max,
                 "Slowest answer of /livez; not judged where other programs are busy.")
      ->TypeName("MS")
      ->Group(limits);
  app->AddOption("--memory-growth-mb-max", options->memory_growth_mb_max,
                 "Resident memory over that after the capacity was measured; 64, or 592 with "
                 "--hostile: 512 of requests in flight and 16 of the token cache more.")
      ->DefaultText("")
      ->TypeName("MB")
      ->Group(limits);
  app->AddOption("--deadline-over-ms-max", options->deadline_over_ms_max,
                 "Latest answer after its deadline.")
      ->TypeName("MS")
      ->Group(limits);
  app->AddOption("--livez-p999-ms-max", options->livez_p999_ms_max,
                 "With --hostile: p99.9 of /livez; with --chat too, 10 there; not judged where "
                 "other programs are busy.")
      ->TypeName("MS")
      ->Group(limits);
  app->AddOption("--p99-ratio-max", options->p99_ratio_max,
                 "With --hostile: p99 of interactive requests beside hostile clients, over that "
                 "without; not judged where other programs are busy.")
      ->TypeName("X")
      ->Group(limits);
  app->AddOption("--interactive-refused-max", options->interactive_refused_max,
                 "With --hostile: interactive requests answered 429 or 503.")
      ->TypeName("N")
      ->Group(limits);
  app->AddOption("--hostile-wrong-max", options->hostile_wrong_max,
                 "With --hostile: malformed requests that were served, right ones that were not.")
      ->TypeName("N")
      ->Group(limits);
  app->AddOption("--hostile-not-sent-max", options->hostile_not_sent_max,
                 "With --hostile: share of the hostile requests not sent because the server held "
                 "all their clients.")
      ->TypeName("SHARE")
      ->Group(limits);
}

}  // namespace

int RunBenchSoak(const std::vector<std::string>& args) {
  CommandLine line(
      "bench soak",
      "Offer a server several times its capacity, from clients that leave before "
      "their answer,\nand check that it refuses in good order: every request answered, "
      "refused or expired, memory\nbounded, /livez prompt, counters right. Starts a "
      "server of its own; fails if anything fails.",
      "  penstock bench soak --model MODEL --duration 600\n"
      "  penstock bench soak --model MODEL --hostile --duration 120 --json soak.json\n"
      "  penstock bench soak --model model.gguf --chat --duration 600\n");
  SoakOptions options;
  std::string lengths = "lognormal:64,0.8,4,250";
  std::string json_file;
  AddLoadFlags(&line.flags(), &options, &lengths);
  AddHostileFlags(&line.flags(), &options);
  ChatTokens tokens;
  AddChatFlags(&line.flags(), &options, &tokens);
  AddLimitFlags(&line.flags(), &options);
  line.flags()
      .AddOption("--json", json_file, "File for the records, a JSON object a line.")
      ->TypeName("FILE")
      ->Group("Output");
  if (const auto exit_code = line.Parse(args)) return *exit_code;
  auto spec = LengthSpec::Parse(lengths);
  if (!spec.ok()) return line.FailUsage("--lengths: " + spec.status().message());
  options.lengths = *spec;
  if (options.chat) {
    const Status chat = ReadChatFlags(line.flags(), tokens, &options);
    if (!chat.ok()) return line.FailUsage(chat.message());
  }
  if (options.hostile && options.overload <= SoakOptions::kInteractiveOfCapacity) {
    return line.FailUsage("--overload: with --hostile it must be more than 0.4");
  }
  BenchRecords records;
  const Status status = RunSoak(options, &records);
  // Also of a failed run: the measurements say why.
  const Status written = records.WriteFile(json_file);
  if (!status.ok()) return line.Fail(status);
  return written.ok() ? kExitOk : line.Fail(written);
}

}  // namespace penstock

// penstock bench soak: a server under several times the load it can carry, and hostile clients.
#include "command_line.h"
#include "commands.h"
#include "load/soak.h"

namespace penstock {
namespace {

void AddLoadFlags(CLI::App* app, SoakOptions* options, std::string* lengths) {
  const std::string load = "Load";
  app->add_option("-m,--model", options->model, "Folder, or owner/name on the Hugging Face hub.")
      ->type_name("REF")
      ->required()
      ->group(load);
  app->add_option("--server-flag", options->server_flags,
                  "Flag for the server, as --server-flag=--threads=1. May be given again.")
      ->type_name("FLAG")
      ->allow_extra_args(false)
      ->group(load);
  app->add_option("--duration", options->duration_s, "Seconds of overload.")
      ->check(CLI::Range(0.1, 1e6))
      ->type_name("S")
      ->group(load);
  app->add_option("--overload", options->overload, "Times the capacity, which is measured first.")
      ->check(CLI::Range(0.1, 1000.0))
      ->type_name("X")
      ->group(load);
  app->add_option("--capacity-s", options->capacity_s, "Seconds that takes.")
      ->check(CLI::Range(0.1, 3600.0))
      ->type_name("S")
      ->group(load);
  app->add_option("--bulk-batch", options->bulk_batch, "Texts of a bulk request.")
      ->check(CLI::Range(1, 2048))
      ->type_name("N")
      ->group(load);
  app->add_option("--interactive-share", options->interactive_share,
                  "Share of the texts that come alone, as interactive requests.")
      ->check(CLI::Range(0.001, 0.999))
      ->type_name("SHARE")
      ->group(load);
  app->add_option("--lengths", *lengths,
                  "Words of texts: fixed:N, uniform:MIN,MAX or lognormal:MEAN,SIGMA,MIN,MAX.")
      ->type_name("SPEC")
      ->group(load);
  app->add_option("--timeout-ms", options->timeout_ms,
                  "Deadline of half the requests; with --chat 5000.")
      ->check(CLI::Range(int64_t{1}, int64_t{86'400'000}))
      ->type_name("MS")
      ->group(load);
  app->add_option("--leave-share", options->leave_share, "Share of the clients that leave.")
      ->check(CLI::Range(0.0, 1.0))
      ->type_name("SHARE")
      ->group(load);
  app->add_option("--leave-ms-max", options->leave_ms_max,
                  "... at a random moment within this time.")
      ->check(CLI::Range(0.0, 1e6))
      ->type_name("MS")
      ->group(load);
  app->add_option("--seed", options->seed, "Of texts, arrivals and departures.")
      ->type_name("N")
      ->group(load);
}

void AddHostileFlags(CLI::App* app, SoakOptions* options) {
  const std::string hostile = "Hostile clients";
  auto* const with_hostile =
      app->add_flag(
             "--hostile", options->hostile,
             "The same overload a second time, beside clients that send huge, broken "
             "or unfinished requests, a quarter of all. Each time takes --duration. Interactive "
             "work alone is 0.4 of the server's capacity for it.")
          ->excludes(app->get_option("--interactive-share"))
          ->group(hostile);
  app->add_option("--hostile-rate", options->hostile_rate,
                  "Their requests a second; of 40, 4 are bodies of megabytes, 1 is heavy work.")
      ->check(CLI::Range(0.1, 10'000.0))
      ->needs(with_hostile)
      ->type_name("R")
      ->group(hostile);
  app->add_option("--hostile-only", options->hostile_only,
                  "Only the kinds of requests whose name contains this.")
      ->needs(with_hostile)
      ->type_name("TEXT")
      ->group(hostile);
}

struct ChatTokens {
  std::string prompt = "32-256";
  std::string output = "16-96";
};

void AddChatFlags(CLI::App* app, SoakOptions* options, ChatTokens* tokens) {
  const std::string group = "Text generation";
  auto* const chat =
      app->add_flag("--chat", options->chat,
                    "Streams of text from a model that generates it. --overload is of the rate at "
                    "which 16 clients get theirs.")
          ->group(group);
  for (const char* other : {"--hostile", "--bulk-batch", "--interactive-share", "--lengths"}) {
    chat->excludes(app->get_option(other));
  }
  app->add_option("--prompt-tokens", tokens->prompt, "Tokens of a prompt: N or MIN-MAX.")
      ->needs(chat)
      ->type_name("N[-MAX]")
      ->group(group);
  app->add_option("--output-tokens", tokens->output, "Tokens of a text: N or MIN-MAX.")
      ->needs(chat)
      ->type_name("N[-MAX]")
      ->group(group);
  app->add_option("--slow-share", options->slow_share,
                  "Share of the clients that read slowly, from a small window, events of "
                  "kilobytes.")
      ->check(CLI::Range(0.0, 1.0))
      ->needs(chat)
      ->type_name("SHARE")
      ->group(group);
  app->add_option("--warmup", options->warmup_s, "Seconds of overload before memory is judged.")
      ->check(CLI::Range(0.1, 1e6))
      ->needs(chat)
      ->type_name("S")
      ->group(group);
}

// What differs from the defaults of embeddings.
Status ReadChatFlags(const CLI::App& app, const ChatTokens& tokens, SoakOptions* options) {
  auto prompt = TokenRange::Parse(tokens.prompt);
  if (!prompt.ok()) return prompt.status().Annotate("--prompt-tokens");
  auto output = TokenRange::Parse(tokens.output);
  if (!output.ok()) return output.status().Annotate("--output-tokens");
  options->prompt_tokens = *prompt;
  options->output_tokens = *output;
  if (app.count("--timeout-ms") == 0) options->timeout_ms = SoakOptions::kChatTimeoutMs;
  if (app.count("--livez-p999-ms-max") == 0) {
    options->livez_p999_ms_max = SoakOptions::kChatLivezP999Ms;
  }
  return Status::Ok();
}

void AddLimitFlags(CLI::App* app, SoakOptions* options) {
  const std::string limits = "Limits";
  app->add_option("--livez-ms-max", options->livez_ms_max,
                  "Slowest answer of /livez; not judged where other programs are busy.")
      ->type_name("MS")
      ->group(limits);
  app->add_option("--memory-growth-mb-max", options->memory_growth_mb_max,
                  "Resident memory over that after the capacity was measured; 64, or 592 with "
                  "--hostile: 512 of requests in flight and 16 of the token cache more.")
      ->default_str("")
      ->type_name("MB")
      ->group(limits);
  app->add_option("--deadline-over-ms-max", options->deadline_over_ms_max,
                  "Latest answer after its deadline.")
      ->type_name("MS")
      ->group(limits);
  app->add_option("--livez-p999-ms-max", options->livez_p999_ms_max,
                  "With --hostile: p99.9 of /livez; with --chat too, 10 there; not judged where "
                  "other programs are busy.")
      ->type_name("MS")
      ->group(limits);
  app->add_option("--p99-ratio-max", options->p99_ratio_max,
                  "With --hostile: p99 of interactive requests beside hostile clients, over that "
                  "without; not judged where other programs are busy.")
      ->type_name("X")
      ->group(limits);
  app->add_option("--interactive-refused-max", options->interactive_refused_max,
                  "With --hostile: interactive requests answered 429 or 503.")
      ->type_name("N")
      ->group(limits);
  app->add_option("--hostile-wrong-max", options->hostile_wrong_max,
                  "With --hostile: malformed requests that were served, right ones that were not.")
      ->type_name("N")
      ->group(limits);
  app->add_option("--hostile-not-sent-max", options->hostile_not_sent_max,
                  "With --hostile: share of the hostile requests not sent because the server held "
                  "all their clients.")
      ->type_name("SHARE")
      ->group(limits);
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
  AddLoadFlags(&line.app(), &options, &lengths);
  AddHostileFlags(&line.app(), &options);
  ChatTokens tokens;
  AddChatFlags(&line.app(), &options, &tokens);
  AddLimitFlags(&line.app(), &options);
  line.app()
      .add_option("--json", json_file, "File for the records, a JSON object a line.")
      ->type_name("FILE")
      ->group("Output");
  if (const auto exit_code = line.Parse(args)) return *exit_code;
  auto spec = LengthSpec::Parse(lengths);
  if (!spec.ok()) return line.FailUsage("--lengths: " + spec.status().message());
  options.lengths = *spec;
  if (options.chat) {
    const Status chat = ReadChatFlags(line.app(), tokens, &options);
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

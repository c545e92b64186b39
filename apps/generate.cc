// penstock generate: text after a prompt.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <numeric>

#include "base/regular_file.h"
#include "chat_printer.h"
#include "commands.h"
#include "decoder_flags.h"
#include "generate/generator.h"
#include "json/json_writer.h"
#include "os/interruption.h"
#include "remote_text.h"
#include "server_flags.h"

namespace penstock::cli {
namespace {

// A prompt is read whole.
constexpr size_t kPromptBytesMax = size_t{256} << 20;

// Tokens by a server where -n is not given, whose own default is 16.
constexpr int32_t kTokensAtServer = 256;

struct GenerateFlags {
  DecoderFlags decoder;
  ServerFlags server;
  SamplingFlags sampling;
  std::optional<std::string> prompt;
  std::string file;
  bool special_tokens = true;
  bool echo = false;
  bool json = false;
  bool quiet = false;
  std::optional<int32_t> logprobs;
};

Expected<std::string> ReadStandardInput() {
  if (isatty(STDIN_FILENO) == 1) {
    std::fprintf(stderr,
                 "penstock generate: reading the prompt from the terminal; end with Ctrl-D\n");
  }
  std::string text;
  char block[1 << 16];
  while (const size_t got = std::fread(block, 1, sizeof(block), stdin)) {
    text.append(block, got);
    if (text.size() > kPromptBytesMax) {
      return Status(StatusCode::kPayloadTooLarge, "the prompt has more than 256 MiB", "prompt");
    }
  }
  return text;
}

// The last line break of a file or a pipe is not part of the prompt.
std::string WithoutLineEnd(std::string text) {
  if (text.ends_with('\n')) text.pop_back();
  if (text.ends_with('\r')) text.pop_back();
  return text;
}

Expected<std::string> ReadPrompt(const GenerateFlags& flags) {
  if (flags.prompt && *flags.prompt != "-") return *flags.prompt;
  Expected<std::string> text = flags.file.empty() || flags.file == "-"
                                   ? ReadStandardInput()
                                   : ReadRegularFile(flags.file, kPromptBytesMax);
  if (!text.ok()) return text;
  return WithoutLineEnd(*std::move(text));
}

double Percentile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  const auto index = static_cast<size_t>(share * static_cast<double>(values.size() - 1) + 0.5);
  std::nth_element(values.begin(), values.begin() + static_cast<ptrdiff_t>(index), values.end());
  return values[index];
}

// Tokens after the first, a second.
double TokensPerSecond(const generate::Generated& made) {
  const double seconds = std::accumulate(made.token_s.begin(), made.token_s.end(), 0.0);
  return seconds > 0 ? static_cast<double>(made.token_s.size()) / seconds : 0;
}

void PrintLogprobs(const generate::Generated& made, const text::Tokenizer& tokenizer,
                   JsonWriter* json) {
  json->Key("logprobs").BeginArray();
  for (const generate::GeneratedToken& token : made.tokens) {
    json->BeginObject().Field("id", token.id).Field("token", tokenizer.IdToToken(token.id));
    json->Field("logprob", token.logprob).Key("top_logprobs").BeginArray();
    for (const sample::TokenLogprob& one : token.top) {
      json->BeginObject().Field("id", one.id).Field("token", tokenizer.IdToToken(one.id));
      json->Field("logprob", one.logprob).EndObject();
    }
    json->EndArray().EndObject();
  }
  json->EndArray();
}

std::string PrintJson(const GenerateFlags& flags, const generate::Generated& made,
                      size_t prompt_tokens, double load_s, const text::Tokenizer& tokenizer) {
  std::string text;
  JsonWriter json(&text);
  json.BeginObject().Field("text", made.text);
  json.Field("finish_reason", generate::FinishReasonName(made.finish)).Field("seed", made.seed);
  json.Key("usage").BeginObject().Field("prompt_tokens", prompt_tokens);
  json.Field("completion_tokens", made.tokens.size()).EndObject();
  json.Key("ids").BeginArray();
  for (const generate::GeneratedToken& token : made.tokens) json.Int(token.id);
  json.EndArray();
  if (flags.logprobs) PrintLogprobs(made, tokenizer, &json);
  json.Key("timings").BeginObject().Field("load_ms", load_s * 1e3);
  json.Field("prompt_ms", made.prompt_s * 1e3);
  json.Field("prompt_per_second", static_cast<double>(prompt_tokens) / made.prompt_s);
  json.Field("predicted_per_second", TokensPerSecond(made));
  json.Field("token_ms_p50", Percentile(made.token_s, 0.5) * 1e3);
  json.Field("token_ms_p95", Percentile(made.token_s, 0.95) * 1e3);
  json.Field("token_ms_p99", Percentile(made.token_s, 0.99) * 1e3);
  json.EndObject().EndObject();
  return text + '\n';
}

// `bounded`: by a flag, not by a default.
void PrintSummary(const generate::Generated& made, size_t prompt_tokens, int32_t context,
                  bool bounded) {
  const auto tokens = [](size_t count) {
    return fmt::format("{} token{}", count, count == 1 ? "" : "s");
  };
  std::fprintf(stderr, "\n%s of prompt in %.0f ms (%.0f a second), %s",
               tokens(prompt_tokens).c_str(), made.prompt_s * 1e3,
               static_cast<double>(prompt_tokens) / made.prompt_s,
               tokens(made.tokens.size()).c_str());
  if (!made.token_s.empty()) {
    std::fprintf(stderr, " at %.1f a second (p50 %.2f ms, p99 %.2f ms)", TokensPerSecond(made),
                 Percentile(made.token_s, 0.5) * 1e3, Percentile(made.token_s, 0.99) * 1e3);
  }
  std::fputc('\n', stderr);
  if (made.finish == generate::FinishReason::kLength && !bounded) {
    std::fprintf(stderr, "penstock generate: stopped after %zu tokens; -n allows more\n",
                 made.tokens.size());
  }
  if (made.finish != generate::FinishReason::kContext) return;
  std::fprintf(stderr,
               "penstock generate: the context is full: %zu tokens of prompt and %zu of text are "
               "its %d\n",
               prompt_tokens, made.tokens.size(), context);
}

bool WriteOut(std::string_view text) {
  return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() &&
         std::fflush(stdout) == 0;
}

// Writes text of a model or a server. On a terminal its control characters are escaped, or they
// could act on it; a file gets the bytes.
bool WriteText(std::string_view text) {
  static const bool terminal = isatty(STDOUT_FILENO) == 1;
  return WriteOut(terminal ? TerminalText(text) : std::string(text));
}

Status Generate(const GenerateFlags& flags, Interruption* interruption) {
  const auto begin = Clock::now();
  PENSTOCK_ASSIGN_OR_RETURN(const LoadedDecoder loaded, LoadedDecoder::Load(flags.decoder));
  const generate::TextModel& model = *loaded.model;
  PENSTOCK_ASSIGN_OR_RETURN(const auto generator, generate::Generator::Make(&model));
  const double load_s = std::chrono::duration<double>(Clock::now() - begin).count();
  PENSTOCK_ASSIGN_OR_RETURN(const std::string prompt, ReadPrompt(flags));
  generate::GenerateRequest request;
  text::Encoding encoding;
  text::EncodeOptions encode;
  encode.add_special_tokens = flags.special_tokens;
  PENSTOCK_RETURN_IF_ERROR(model.tokenizer->Encode(prompt, encode, &encoding));
  request.prompt = encoding.ids;
  request.sampling = flags.sampling.For(model.defaults);
  // A bound that is a default gives way to the context.
  const bool bounded = flags.sampling.options.max_tokens.has_value();
  auto& most = request.sampling.max_tokens;
  const size_t longest = request.prompt.size() + static_cast<size_t>(most.value_or(0));
  if (!bounded && longest > static_cast<size_t>(model.context())) most.reset();
  if (flags.logprobs) {
    request.sampling.logprobs = true;
    request.sampling.top_logprobs = *flags.logprobs;
  }
  CancelToken cancel;
  request.stop.cancel = &cancel;
  if (!flags.json) {
    if (flags.echo) WriteText(prompt);
    request.on_text = WriteText;
  }
  generate::Generated made;
  Status status;
  {
    const Interruption::Stop stop(interruption, [&cancel] { cancel.Cancel(); });
    status = generator->Generate(request, &made);
  }
  if (status.code() == StatusCode::kCancelled && interruption->signal() != 0) return status;
  PENSTOCK_RETURN_IF_ERROR(status);
  if (flags.json) {
    WriteOut(PrintJson(flags, made, request.prompt.size(), load_s, *model.tokenizer));
  } else {
    WriteOut("\n");
    if (!flags.quiet) PrintSummary(made, request.prompt.size(), model.context(), bounded);
  }
  if (std::ferror(stdout) != 0) {
    return Status(StatusCode::kUnavailable, "standard output cannot be written");
  }
  return Status::Ok();
}

std::string BodyForServer(const GenerateFlags& flags, const std::string& model,
                          const std::string& prompt) {
  std::string body;
  JsonWriter json(&body);
  json.BeginObject();
  if (!model.empty()) json.Field("model", model);
  json.Field("prompt", prompt).Field("stream", !flags.json);
  if (!flags.json) {
    json.Key("stream_options").BeginObject().Field("include_usage", true).EndObject();
  }
  SamplingFlags sampling = flags.sampling;
  if (!sampling.options.max_tokens) sampling.options.max_tokens = kTokensAtServer;
  WriteSampling(sampling, &json);
  if (flags.logprobs) json.Field("logprobs", *flags.logprobs);
  if (!flags.special_tokens) json.Field("add_special_tokens", false);
  json.EndObject();
  return body;
}

// With --json the server's answer as it is.
Status GenerateAtServer(const GenerateFlags& flags, const std::string& model,
                        Interruption* interruption) {
  PENSTOCK_ASSIGN_OR_RETURN(client::ServerClientOptions options, ClientOptions(flags.server));
  options.interactive = true;
  client::ServerClient client(std::move(options));
  PENSTOCK_ASSIGN_OR_RETURN(const std::string prompt, ReadPrompt(flags));
  const std::string body = BodyForServer(flags, model, prompt);
  const Interruption::Stop stop(interruption, [&client] { client.Abort(); });
  if (flags.json) {
    PENSTOCK_ASSIGN_OR_RETURN(const client::PostAnswer answer,
                              client.PostOnce("/v1/completions", body));
    if (answer.status != 200) return client::StatusOfAnswer(answer);
    WriteText(answer.body + '\n');
  } else {
    if (flags.echo) WriteText(prompt);
    PENSTOCK_ASSIGN_OR_RETURN(const RemoteText made, StreamText(&client, "/v1/completions", body,
                                                                [](const reply::ReplyDelta& delta) {
                                                                  WriteText(delta.text);
                                                                }));
    WriteOut("\n");
    const bool cut =
        made.finish == generate::FinishReason::kLength && !flags.sampling.options.max_tokens;
    if (!flags.quiet && made.completion_tokens >= 0) {
      std::fprintf(stderr, "\n%lld tokens of prompt, %lld of text%s\n",
                   static_cast<long long>(made.prompt_tokens),
                   static_cast<long long>(made.completion_tokens), cut ? "; -n allows more" : "");
    }
  }
  if (std::ferror(stdout) == 0) return Status::Ok();
  return {StatusCode::kUnavailable, "standard output cannot be written"};
}

Status GenerateHereOrThere(const CommandLine& line, const GenerateFlags& flags,
                           Interruption* interruption) {
  if (flags.server.url.empty()) return Generate(flags, interruption);
  std::vector<std::string> models;
  if (!flags.decoder.model.empty()) models.push_back(flags.decoder.model);
  return GenerateAtServer(flags, NameAtServer(line, models), interruption);
}

}  // namespace

int RunGenerate(const std::vector<std::string>& args) {
  CommandLine line("generate",
                   "Generate text after a prompt. The text streams to standard output, a line of "
                   "timings to standard error.",
                   "  penstock generate -m model.gguf -p 'The capital of France is' -n 32\n"
                   "  penstock generate -m ./Llama-3.2-1B --temperature 0 prompt.txt\n"
                   "  penstock generate --url http://127.0.0.1:8080 -p 'The capital of France is'\n"
                   "  git diff | penstock generate -m model.gguf --json\n");
  GenerateFlags flags;
  AddDecoderFlags(&line, &flags.decoder);
  FlagSet& app = line.flags();
  const FlagGroup group(&app, "Prompt");
  auto* prompt =
      group.Add("-p,--prompt", flags.prompt, "TEXT", "The prompt; - reads it from standard input.");
  app.AddOption("FILE", flags.file, "File with the prompt; none, or -: standard input.")
      ->TypeName("FILE")
      ->Excludes(prompt);
  group.Switch("--special-tokens,!--no-special-tokens", flags.special_tokens,
               "With those the model's template adds (such as the begin token), or without. [on]");
  group.Switch("--echo", flags.echo, "Print the prompt before the text.");
  AddSamplingFlags(&line, &flags.sampling);
  AddServerFlags(&line, &flags.server);
  app.Get("--url")->Description(
      "Server that generates, such as http://127.0.0.1:8080, instead of a model loaded here. "
      "--model is its name there. Without -n, 256 tokens; --json prints the server's answer.");
  const FlagGroup output(&app, "Output");
  output.Switch("--json", flags.json, "One JSON object with text, tokens and timings.");
  output.Add("--logprobs", flags.logprobs, "N", InRange(0, sample::kTopLogprobsMax),
             "With --json: log-probabilities of the tokens, and of the N most probable ones.");
  output.Switch("-q,--quiet", flags.quiet, "No line of timings.");
  if (const auto exit_code = line.Parse(args)) return *exit_code;
  if (flags.logprobs && !flags.json) return line.FailUsage("--logprobs goes with --json");
  if (!flags.server.url.empty()) {
    if (const Status fits = CheckForServer(line); !fits.ok()) return line.FailUsage(fits.message());
  }
  Interruption interruption;
  const Status status = GenerateHereOrThere(line, flags, &interruption);
  if (interruption.signal() != 0) return kExitSignal + interruption.signal();
  return status.ok() ? kExitOk : line.Fail(status);
}

}  // namespace penstock::cli

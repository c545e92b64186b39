#include "bench_http_chat.h"

namespace penstock::cli {

void AddChatLoadFlags(FlagSet* app, const std::vector<std::string>& others, ChatLoadFlags* flags) {
  const FlagGroup group(app, "Text generation");
  Flag* const chat = group.Switch("--chat", flags->chat,
                                  "Streams of generated text instead: time to first token, time "
                                  "between tokens, tokens a second.");
  for (const std::string& other : others) chat->Excludes(app->Get(other));
  group
      .Add("--chat-route", flags->route, "ROUTE",
           OneOf({"/v1/chat/completions", "/v1/completions"}),
           "/v1/chat/completions or /v1/completions, for models without a chat template.")
      ->Needs(chat);
  group
      .Add("--prompt-tokens", flags->prompt_tokens, "N[-MAX]",
           "Tokens of a prompt, the template's included: N, or MIN-MAX drawn evenly. Made of "
           "common words; how many tokens these are is asked of the server first.")
      ->Needs(chat);
  group.Add("--output-tokens", flags->output_tokens, "N[-MAX]", "Tokens of a text: N, or MIN-MAX.")
      ->Needs(chat);
  group
      .Add("--prefix-share", flags->load.request.prefix_share, "SHARE", InRange(0.0, 1.0),
           "Part of a prompt, at its begin, that is the same in all requests.")
      ->Needs(chat);
  group
      .Switch("--ignore-eos,!--no-ignore-eos", flags->load.request.ignore_eos,
              "Ask for texts of that length whatever the model would end with, or leave "
              "`ignore_eos` out, which some servers refuse.")
      ->Needs(chat);
  group
      .Add("--goodput", flags->goodput, "LIMITS",
           "Limits of requests that count as good: ttft:MS (first token), itl:MS (mean time "
           "between its tokens), e2el:MS (whole answer), with commas between.")
      ->Needs(chat);
}

Status ChatLoadFlags::Read() {
  auto prompt = load::TokenRange::Parse(prompt_tokens);
  if (!prompt.ok()) return prompt.status().Annotate("--prompt-tokens");
  auto output = load::TokenRange::Parse(output_tokens);
  if (!output.ok()) return output.status().Annotate("--output-tokens");
  auto limits = load::Goodput::Parse(goodput);
  if (!limits.ok()) return limits.status().Annotate("--goodput");
  load.request.prompt_tokens = *prompt;
  load.request.output_tokens = *output;
  load.request.completions = route == "/v1/completions";
  load.goodput = *limits;
  return Status::Ok();
}

}  // namespace penstock::cli

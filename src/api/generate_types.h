// Generation of text: what is asked for, and the events that answer it. No wire format in here.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/status.h"
#include "chat/json_value.h"
#include "generate/generated.h"
#include "grammar/grammar_spec.h"
#include "reply/reply_parser.h"
#include "sample/generation_defaults.h"
#include "sample/sampling_options.h"

namespace penstock {
class HeldMemory;
}  // namespace penstock

namespace penstock::api {

// A conversation, for the model's chat template.
struct ChatPrompt {
  std::shared_ptr<HeldMemory> held;  // the memory of the values below; null: not counted
  chat::JsonValue messages;          // an array of objects
  chat::JsonValue tools;             // an array of objects; null: none
  chat::JsonValue kwargs;            // an object: more variables for the template; null: none
  bool add_generation_prompt = true;
  bool continue_final_message = false;
  // The field that asks the model to think; "": none does. A template without a place for it is an
  // error then, which names the field.
  std::string thinking_field;
};

// Two texts between which the model writes one.
struct FillPrompt {
  std::string prefix, suffix;
  std::string begun;  // of the text between
  // Files that stand before, for models that know where a file begins.
  struct File {
    std::string name, text;
  };
  std::vector<File> files;
};

struct GeneratePrompt {
  // A text, token ids that are taken as they are, a conversation, or two texts.
  std::variant<std::string, std::vector<int32_t>, ChatPrompt, FillPrompt> value;
  // Counts for a text only: a conversation gets its special tokens from the template.
  bool add_special_tokens = true;
  std::string field = "prompt";  // for errors: "prompt", "prompt[2]", "messages"
};

// Sampling as a request asks for it. What is absent is as the model's defaults say, else as
// SamplingOptions has it; for their number of tokens see max_tokens_default.
struct SamplingRequest {
  std::optional<float> temperature, top_p, min_p, repetition_penalty;
  std::optional<int32_t> top_k;
  sample::SamplingOptions options;  // all other settings; those above are not read

  sample::SamplingOptions With(const sample::GenerationDefaults& model) const {
    sample::SamplingOptions all = options;
    model.ApplyTo(&all);
    all.max_tokens = options.max_tokens;
    if (!options.stop.empty()) all.stop = options.stop;
    if (temperature) all.temperature = *temperature;
    if (top_p) all.top_p = *top_p;
    if (min_p) all.min_p = *min_p;
    if (repetition_penalty) all.repetition_penalty = *repetition_penalty;
    if (top_k) all.top_k = *top_k;
    return all;
  }
};

struct TextRequest {
  static constexpr int32_t kSamplesMax = 16;  // texts for a prompt
  static constexpr size_t kChoicesMax = 128;  // texts of a request

  std::string model;                    // "" = the first that generates text
  std::vector<GeneratePrompt> prompts;  // choice i is sample i % samples of prompt i / samples
  int32_t samples = 1;
  SamplingRequest sampling;
  // Where sampling.options.max_tokens is absent; absent too: the model's max_new_tokens. Both are
  // cut to what the context leaves.
  std::optional<int32_t> max_tokens_default;
  // Whether thinking and tool calls are told apart from content, for conversations.
  bool parses_reply = false;
  std::shared_ptr<const reply::ToolSet> tools;  // that may be called; null: none
  bool parallel_calls = true;
  // The reply is calls of these tools, one at least; or of the one of this name.
  bool requires_call = false;
  std::string required_tool;  // "": any
  bool whole_calls = false;   // arguments of a call come at once, also where the answer streams
  std::optional<grammar::GrammarSpec> grammar;  // that each text is held to
  bool echoes_prompt = false;                   // GenerateBegun has the prompts' texts
  // With sampling.options.logprobs: PromptPart has the prompts' tokens.
  bool scores_prompt = false;
  bool prompt_only = false;  // no text is generated
  // As RequestContext::keep_alive, which it overrides.
  std::optional<std::chrono::milliseconds> keep_alive;
  std::string cache_salt;  // parts what is cached for its client further; "": it does not
  // True: each event is told at once, and arguments of calls as they come, unless `whole_calls`.
  // False: the front end is woken once, at the end.
  bool streams = false;
};

struct GenerateUsage {
  int64_t prompt_tokens = 0;  // each prompt once, whatever number of samples it has
  int64_t cached_tokens = 0;  // of these, the ones that were not computed again
  int64_t completion_tokens = 0;
};

// A token and its text. Bytes, since a token may end inside of a character.
struct TokenText {
  int32_t id = 0;
  float logprob = 0;
  bool special = false;
  std::string bytes;
};

struct TokenInfo : TokenText {
  std::vector<TokenText> top;  // most probable first; where asked for
};

// The request was taken: its prompts are tokens, and the model has them. Comes first, unless the
// request was refused.
struct GenerateBegun {
  std::string model;                 // the name that was asked for, else that of the model
  std::vector<std::string> prompts;  // echoes_prompt: their texts
  int64_t prompt_tokens = 0;         // as GenerateUsage has them
};

// scores_prompt: the next tokens of a prompt. The first of all has no log-probability. All parts of
// a prompt come before the text of its choices.
struct PromptPart {
  int32_t prompt = 0;
  std::vector<TokenInfo> tokens;
  bool last = false;
};

// What became certain with a token of a choice. Without parses_reply all is kContent.
struct GeneratedPart {
  int32_t choice = 0;
  std::vector<reply::ReplyDelta> deltas;
  std::optional<TokenInfo> token;  // where log-probabilities are asked for
};

struct ChoiceEnd {
  int32_t choice = 0;
  generate::FinishReason reason = generate::FinishReason::kStop;
  int calls = 0;                          // of tools, whole ones
  int stop_string = -1;                   // that ended it; -1: none did
  int32_t tokens = 0;                     // generated, the end token included
  std::vector<reply::ReplyDelta> deltas;  // the last of the text, which was held back
  int32_t reasoning_tokens = 0;           // of `tokens`, the ones in blocks of thinking
};

// From the time the model was there.
struct GenerateTimes {
  std::chrono::nanoseconds prompt{0};  // to the first token, waiting for the model's steps included
  std::chrono::nanoseconds decode{0};  // from there to the end
};

// Comes last, exactly once.
struct GenerateEnd {
  Status status;  // OK: every choice has ended
  GenerateUsage usage;
  GenerateTimes times;
};

using GenerateEvent =
    std::variant<GenerateBegun, PromptPart, GeneratedPart, ChoiceEnd, GenerateEnd>;

// What a chat template makes of a conversation.
struct RenderRequest {
  std::string model;
  ChatPrompt chat;
  bool counts_tokens = false;
};
struct RenderResponse {
  std::string prompt;
  int64_t tokens = 0;  // of the prompt, where they are counted
};

}  // namespace penstock::api

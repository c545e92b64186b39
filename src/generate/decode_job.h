// DecodeJob: one request for generated text on its way through the decode scheduler.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "generate/generated.h"
#include "generate/grammar_use.h"
#include "sample/sampling_options.h"
#include "threads/request_context.h"

namespace penstock::generate {

struct DecodeUsage {
  int32_t prompt_tokens = 0;
  int32_t cached_tokens = 0;      // of the prompt, whose keys and values were cached already
  int32_t completion_tokens = 0;  // of all samples, end tokens included
  double queue_s = 0;             // from Submit to the job's first step
  double prompt_s = 0;            // from there to the first token
  double decode_s = 0;            // from there to the last
};

// Takes what is generated. Called by the engine's step thread between two steps, so calls must be
// short and may not block; they throw nothing. One call at a time.
class DecodeSink {
 public:
  virtual ~DecodeSink() = default;
  // With DecodeJob::scores_prompt: the next tokens of the prompt, before any other call. The first
  // token of all has no log-probability, as nothing stands before it.
  virtual void OnPrompt(std::span<const GeneratedToken> /*tokens*/) noexcept {}
  // A token of sample `sample`, the end token included. `text`: what became certain with it, whole
  // characters; it may be empty, or the text of several tokens.
  virtual void OnToken(int32_t sample, const GeneratedToken& token,
                       std::string_view text) noexcept = 0;
  // The sample has ended. `text`: the last of it, which was held back. `stop_string`: the index in
  // SamplingOptions::stop of the string that ended it; -1: none did.
  virtual void OnSampleEnd(int32_t sample, FinishReason reason, std::string_view text,
                           int stop_string) noexcept = 0;
  // Last, exactly once for a job that was taken. Not OK: kCancelled, kDeadlineExceeded, kInternal
  // (the model failed), kResourceExhausted (no memory), kUnavailable (the engine ends).
  virtual void OnEnd(const Status& status, const DecodeUsage& usage) noexcept = 0;
};

struct DecodeJob {
  std::vector<int32_t> prompt;       // tokens, at least one, fewer than the context
  sample::SamplingOptions sampling;  // sample i draws with seed + i
  int32_t samples = 1;               // texts for the one prompt, 1 to kSamplesMax
  // The prompt's own tokens get log-probabilities, with sampling.top_logprobs; what is cached of it
  // is computed again.
  bool scores_prompt = false;
  bool prompt_only = false;  // no text is generated; the prompt may fill the context
  // Special tokens that are part of the text, such as <tool_call>; others are left out.
  std::vector<int32_t> shown;
  GrammarUse grammar;  // that each text is held to
  RequestContext context;
  std::shared_ptr<DecodeSink> sink;

  static constexpr int32_t kSamplesMax = 16;
};

// What a job holds while it waits, beside its prompt's tokens: itself, its place in the line, its
// sink and its settings. What its texts hold is taken when they begin.
inline int64_t WaitingBytes(const sample::SamplingOptions& sampling) {
  constexpr auto kPlaceBytes = 1024;
  return static_cast<int64_t>(sizeof(DecodeJob)) + kPlaceBytes + sampling.HeapBytes();
}

}  // namespace penstock::generate

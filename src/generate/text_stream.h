// TextStream: turns the logits of one text, position after position, into tokens and the tokens
// into the text that is given out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "generate/generated.h"
#include "generate/grammar_use.h"
#include "generate/text_constraint.h"
#include "generate/text_model.h"
#include "program/program_run.h"
#include "sample/finish_check.h"
#include "sample/sampler.h"
#include "sample/stop_strings.h"

namespace penstock::generate {

// Not thread-safe. Allocates nothing after Make, but for log-probabilities and long pieces of text.
class TextStream {
 public:
  // `parts_max`: ProgramRun::parts_max. `shown`: as DecodeJob::shown. `scratch`: of streams that
  // take their tokens in turns; null: one of its own. The model must outlive it. Errors as Check.
  static Expected<TextStream> Make(const TextModel& model, const sample::SamplingOptions& sampling,
                                   std::span<const int32_t> prompt, size_t parts_max,
                                   const std::vector<int32_t>& shown = {},
                                   std::shared_ptr<sample::SamplerScratch> scratch = nullptr,
                                   const GrammarUse& grammar = {});
  // Before the first Take, where `grammar` was not there for Make. Errors as TextConstraint::Make.
  Status Hold(const TextModel& model, const GrammarUse& grammar);
  // kInvalidArgument as SamplingOptions::Check, or as CheckStopStrings.
  static Status Check(const TextModel& model, const sample::SamplingOptions& sampling);
  // At most so many bytes are allocated for one, beside its scratch.
  static int64_t HeapBytes(const TextModel& model, const sample::SamplingOptions& sampling,
                           size_t prompt, bool constrained = false);

  // What a step has to find of the logits that Take is given next.
  program::PickWant want() const;
  uint64_t seed() const { return sampler_.seed(); }
  // How the token `after` tokens behind the last one is drawn, where that is known: of a text that
  // no grammar holds, and that does not end by its length before it.
  std::optional<sample::DrawRule> RuleAfter(size_t after) const;

  // Chooses the next token from a pick of the last step, or from logits. kInternal: logits that
  // are not finite.
  Status Take(program::ProgramRun* run, size_t pick);
  Status Take(const sample::Logits& logits);
  // After Take: takes the next token that the grammar forces, which needs no logits. False: the next
  // token is a choice.
  Expected<bool> TakeForced();

  // Of the last Take.
  const GeneratedToken& token() const { return token_; }
  // What became certain with it: whole characters, perhaps none.
  std::string_view text() const { return text_; }
  // Why the text ends with it; no token may be taken after that.
  std::optional<FinishReason> end() const { return end_; }
  // The index of the stop string that ended it; -1: none.
  int stop_string() const { return stops_.matched(); }

 private:
  TextStream(sample::Sampler sampler, sample::FinishCheck finish, sample::StopStrings stops,
             std::unique_ptr<text::StreamDecoder> decoder, TextConstraint constraint, size_t length,
             size_t context, int32_t min_tokens, bool forces)
      : sampler_(std::move(sampler)),
        finish_(std::move(finish)),
        stops_(std::move(stops)),
        decoder_(std::move(decoder)),
        constraint_(std::move(constraint)),
        length_(length),
        context_(context),
        min_tokens_(min_tokens),
        forces_(forces) {}
  // Takes in the token that was chosen.
  Status Follow(const sample::SampledToken& sampled);
  void End(FinishReason reason);

  sample::Sampler sampler_;
  sample::FinishCheck finish_;
  sample::StopStrings stops_;
  std::unique_ptr<text::StreamDecoder> decoder_;
  TextConstraint constraint_;
  size_t length_;  // tokens of prompt and text
  const size_t context_;
  const int32_t min_tokens_;
  const bool forces_;            // log-probabilities are not asked for
  std::vector<int32_t> forced_;  // tokens that come next, the first last
  int64_t generated_ = 0;
  GeneratedToken token_;
  std::string text_;
  std::optional<FinishReason> end_;
};

// The tokens of the vocabulary that `model` gives logits for.
size_t VocabularyOf(const TextModel& model);

// The most tokens of prompt and text together.
size_t MostTokens(const TextModel& model, const sample::SamplingOptions& sampling, size_t prompt);

// kInvalidArgument, field prompt: empty, or not shorter than the context; field max_tokens: they do
// not fit beside the prompt. Messages have both numbers.
Status CheckLengths(size_t prompt, const sample::SamplingOptions& sampling, int32_t context);

}  // namespace penstock::generate

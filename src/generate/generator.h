// Generator: one text at a time from one model, with nothing between two tokens but the choice of
// the token: no queue, no allocation, and no lock that another thread holds.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "generate/generated.h"
#include "generate/text_model.h"
#include "sample/sampling_options.h"
#include "threads/request_context.h"

namespace penstock::generate {

class TextStream;  // text_stream.h

struct GenerateRequest {
  std::vector<int32_t> prompt;  // tokens, at least one, fewer than the context
  sample::SamplingOptions sampling;
  StopCondition stop;
  // Takes the text as it comes, whole characters; false ends the generation. May be empty.
  std::function<bool(std::string_view)> on_text;
};

struct Generated {
  std::string text;
  std::vector<GeneratedToken> tokens;  // with the end token, if there is one
  FinishReason finish = FinishReason::kStop;
  uint64_t seed = 0;
  double prompt_s = 0;          // until the logits of the first token
  std::vector<double> token_s;  // of each token after the first
};

class Generator {
 public:
  // Tokens of a prompt that are run in one step.
  static constexpr int32_t kPromptRows = 512;

  // The model must outlive it. `picks`: the most that Step is asked for. kResourceExhausted:
  // no memory for activations.
  static Expected<std::unique_ptr<Generator>> Make(const TextModel* model, int32_t picks = 1);

  // kInvalidArgument, field: prompt (empty, or not shorter than the context: both numbers), a
  // setting of sampling (SamplingOptions::Check; max_tokens that do not fit in the context beside
  // the prompt: both numbers); kCancelled, kDeadlineExceeded: `stop`, with what was made so far in
  // *out.
  Status Generate(const GenerateRequest& request, Generated* out);

  // One step: `ids`, at most kPromptRows, after `past` cached tokens, the end of those there are or
  // none; picks, their want and long_rope as in PackedBatch. For benchmarks and comparisons.
  Status Step(std::span<const int32_t> ids, int32_t past, std::span<const int32_t> picks,
              program::PickWant want = program::PickWant::kRow, bool long_rope = false);
  // The logits of the last token of `text`, of which all but the last one are cached or none are:
  // `past` says how many. Computes it all again where the text grew beyond ProgramRun::rope_switch.
  // For comparisons. Errors: those of `stop` and of ProgramRun::Run.
  Status Extend(std::span<const int32_t> text, int32_t past, const StopCondition& stop,
                program::PickWant want = program::PickWant::kRow);
  program::ProgramRun& run() { return *run_; }

 private:
  Generator(const TextModel* model, std::unique_ptr<program::ProgramRun> run);
  Status Decode(const GenerateRequest& request, TextStream* stream, Generated* out);
  Status StartRow(int32_t id, int32_t past, const TextStream& stream, size_t after);
  // Starts the step of the text's last token, unless it is under way as `ahead`, and perhaps the one
  // behind it, and waits for the former; *ahead: whether the latter was started.
  Status StepBehind(const std::vector<int32_t>& text, const GenerateRequest& request,
                    const TextStream& stream, bool* ahead);

  const TextModel* const model_;
  const std::unique_ptr<program::ProgramRun> run_;
  std::vector<program::PickWant> wants_;  // of the step under way
  const std::vector<BlockTable> tables_;
};

}  // namespace penstock::generate

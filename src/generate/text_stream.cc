#include "generate/text_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace penstock::generate {

size_t VocabularyOf(const TextModel& model) {
  const program::Program& program = model.decoder->program();
  return static_cast<size_t>(program.values[program.result].width);
}

Status CheckLengths(size_t prompt, const sample::SamplingOptions& sampling, int32_t context) {
  if (prompt == 0) return Status::InvalidArgument("the prompt has no token", "prompt");
  if (prompt >= static_cast<size_t>(context)) {
    return Status::InvalidArgument(
        fmt::format("the prompt has {} tokens; the context holds {}, the text to come included",
                    prompt, context),
        "prompt");
  }
  const std::optional<int32_t>& most = sampling.max_tokens;
  if (most && *most > 0 && prompt + static_cast<size_t>(*most) > static_cast<size_t>(context)) {
    return Status::InvalidArgument(
        fmt::format("{} tokens after a prompt of {} are {}; the context holds {}", *most, prompt,
                    prompt + static_cast<size_t>(*most), context),
        "max_tokens");
  }
  return Status::Ok();
}

size_t MostTokens(const TextModel& model, const sample::SamplingOptions& sampling, size_t prompt) {
  const auto most = static_cast<size_t>(sampling.max_tokens.value_or(model.context()));
  return std::min(static_cast<size_t>(model.context()), prompt + most);
}

Status TextStream::Check(const TextModel& model, const sample::SamplingOptions& sampling) {
  PENSTOCK_RETURN_IF_ERROR(sampling.Check(static_cast<int32_t>(VocabularyOf(model))));
  return sample::CheckStopStrings(sampling.stop);
}

int64_t TextStream::HeapBytes(const TextModel& model, const sample::SamplingOptions& sampling,
                              size_t prompt, bool constrained) {
  // The decoder of its bytes, pieces of text, the last token's alternatives.
  constexpr int64_t kPieces = 4096;
  const size_t vocabulary = VocabularyOf(model);
  int64_t bytes = kPieces + sample::Sampler::HeapBytes(sampling, static_cast<int32_t>(vocabulary),
                                                       MostTokens(model, sampling, prompt));
  if (constrained) bytes += TextConstraint::HeapBytes(model);
  // A byte of a stop string has a border, and may be held back.
  for (const std::string& stop : sampling.stop)
    bytes += 128 + 8 * static_cast<int64_t>(stop.size());
  return bytes;
}

Expected<TextStream> TextStream::Make(const TextModel& model,
                                      const sample::SamplingOptions& sampling,
                                      std::span<const int32_t> prompt, size_t parts_max,
                                      const std::vector<int32_t>& shown,
                                      std::shared_ptr<sample::SamplerScratch> scratch,
                                      const GrammarUse& grammar) {
  const size_t vocabulary = VocabularyOf(model);
  const auto context = static_cast<size_t>(model.context());
  const size_t tokens_max = MostTokens(model, sampling, prompt.size());
  sample::FinishCheck finish(sampling, model.end_ids);
  PENSTOCK_ASSIGN_OR_RETURN(
      sample::Sampler sampler,
      sample::Sampler::Make(sampling, static_cast<int32_t>(vocabulary), tokens_max, parts_max,
                            finish.ends(), std::move(scratch)));
  PENSTOCK_ASSIGN_OR_RETURN(sample::StopStrings stops,
                            sample::StopStrings::Make(sampling.stop, sampling.include_stop));
  PENSTOCK_ASSIGN_OR_RETURN(TextConstraint constraint, TextConstraint::Make(model, grammar));
  sampler.AddPrompt(prompt);
  auto decoder = model.tokenizer->NewStreamDecoder(/*skip_special_tokens=*/true, shown);
  // The text goes on after the prompt: a word that begins with a space keeps it.
  (void)decoder->Push(prompt.back());
  return TextStream(std::move(sampler), std::move(finish), std::move(stops), std::move(decoder),
                    std::move(constraint), prompt.size(), context, sampling.min_tokens,
                    !sampling.logprobs);
}

Status TextStream::Hold(const TextModel& model, const GrammarUse& grammar) {
  PENSTOCK_ASSIGN_OR_RETURN(constraint_, TextConstraint::Make(model, grammar));
  return Status::Ok();
}

void TextStream::End(FinishReason reason) {
  end_ = reason;
  const bool may_end = generated_ > min_tokens_;
  if (!stops_.Push(decoder_->Finish(), &text_, may_end)) stops_.Finish(&text_);
}

program::PickWant TextStream::want() const {
  if (sampler_.row_need() == sample::RowNeed::kAlways) return program::PickWant::kRow;
  return sampler_.wants_sums() ? program::PickWant::kBestAndSums : program::PickWant::kBest;
}

std::optional<sample::DrawRule> TextStream::RuleAfter(size_t after) const {
  const bool ends =
      length_ + after >= context_ || finish_.IsLength(generated_ + static_cast<int64_t>(after));
  if (ends || end_ || constraint_.holds()) return std::nullopt;
  return sampler_.RuleAt(length_ + after);
}

Status TextStream::Take(program::ProgramRun* run, size_t pick) {
  const program::FoundLogits found = run->Found(pick);
  sample::Logits logits = {{}, found.parts, found.blocks, constraint_.allowed()};
  if (sampler_.row_need() != sample::RowNeed::kNever || found.parts.empty() ||
      !constraint_.allowed().empty()) {
    PENSTOCK_ASSIGN_OR_RETURN(logits.row, run->Row(pick));
  }
  return Take(logits);
}

Status TextStream::Take(const sample::Logits& logits) {
  sample::SampledToken sampled;
  PENSTOCK_RETURN_IF_ERROR(sampler_.Sample(logits, static_cast<uint64_t>(length_), &sampled));
  PENSTOCK_RETURN_IF_ERROR(Follow(sampled));
  if (forces_ && !end_) {
    forced_ = constraint_.Forced(context_ - length_);
    std::reverse(forced_.begin(), forced_.end());
  }
  return Status::Ok();
}

Expected<bool> TextStream::TakeForced() {
  if (end_ || forced_.empty()) return false;
  sample::SampledToken sampled;
  sampled.id = forced_.back();
  forced_.pop_back();
  PENSTOCK_RETURN_IF_ERROR(Follow(sampled));
  return true;
}

Status TextStream::Follow(const sample::SampledToken& sampled) {
  text_.clear();
  sampler_.Accept(sampled.id);
  token_.id = sampled.id;
  token_.logprob = sampled.logprob;
  token_.top.assign(sampled.top.begin(), sampled.top.end());
  const sample::Finish finish = finish_.After(sampled.id, ++generated_);
  ++length_;
  if (finish == sample::Finish::kStopToken) {
    End(FinishReason::kStop);
    return Status::Ok();
  }
  const std::string piece = decoder_->Push(sampled.id);
  const bool stops = stops_.Push(piece, &text_, generated_ > min_tokens_);
  if (!stops) PENSTOCK_RETURN_IF_ERROR(constraint_.Accept(sampled.id, piece));
  if (stops) {
    end_ = FinishReason::kStop;
  } else if (constraint_.complete()) {
    End(FinishReason::kStop);
  } else if (finish == sample::Finish::kLength) {
    End(FinishReason::kLength);
  } else if (length_ >= context_) {
    End(FinishReason::kContext);
  }
  return Status::Ok();
}

}  // namespace penstock::generate

#include "generate/generator.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "generate/text_stream.h"
#include "kv/cache_pools.h"

namespace penstock::generate {
namespace {

double SecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

Status CheckStop(const StopCondition& stop) {
  if (stop.cancel != nullptr && stop.cancel->cancelled()) {
    return Status(StatusCode::kCancelled, "the generation was cancelled");
  }
  if (stop.deadline != Clock::time_point::max() && Clock::now() > stop.deadline) {
    return Status(StatusCode::kDeadlineExceeded, "the time for the generation is over");
  }
  return Status::Ok();
}

}  // namespace

Generator::Generator(const TextModel* model, std::unique_ptr<program::ProgramRun> run)
    : model_(model),
      run_(std::move(run)),
      tables_(kv::TablesOfOneText(run_->groups(), model->context(), kPromptRows)) {}

Expected<std::unique_ptr<Generator>> Generator::Make(const TextModel* model, int32_t picks) {
  program::PrepareOptions options;
  options.cache_type = model->cache_type;
  options.rows = std::min(kPromptRows, model->context());
  options.picks = picks;
  options.ahead = true;
  options.blocks = kv::BlocksOfOneText(program::CacheGroups(model->decoder->program()),
                                       model->context(), kPromptRows);
  PENSTOCK_ASSIGN_OR_RETURN(auto run, model->decoder->NewRun(options));
  return std::unique_ptr<Generator>(new Generator(model, std::move(run)));
}

Status Generator::Step(std::span<const int32_t> ids, int32_t past, std::span<const int32_t> picks,
                       program::PickWant want, bool long_rope) {
  const program::SingleSequence sequence(ids.size(), past, tables_, long_rope);
  wants_.assign(picks.size(), want);
  return run_->Run(sequence.Batch(ids, picks, wants_));
}

Status Generator::Extend(std::span<const int32_t> text, int32_t past, const StopCondition& stop,
                         program::PickWant want) {
  const bool long_rope = run_->LongRope(text.size());
  // What is cached was rotated as shorter texts are.
  if (long_rope && !run_->LongRope(static_cast<size_t>(past))) past = 0;
  for (auto begin = static_cast<size_t>(past); begin < text.size(); begin += kPromptRows) {
    PENSTOCK_RETURN_IF_ERROR(CheckStop(stop));
    const size_t rows = std::min<size_t>(kPromptRows, text.size() - begin);
    const bool last = begin + rows == text.size();
    const auto row = static_cast<int32_t>(rows) - 1;
    PENSTOCK_RETURN_IF_ERROR(Step(text.subspan(begin, rows), static_cast<int32_t>(begin),
                                  {&row, last ? size_t{1} : size_t{0}}, want, long_rope));
  }
  return Status::Ok();
}

Status Generator::Generate(const GenerateRequest& request, Generated* out) {
  *out = Generated();
  PENSTOCK_RETURN_IF_ERROR(
      CheckLengths(request.prompt.size(), request.sampling, model_->context()));
  PENSTOCK_ASSIGN_OR_RETURN(TextStream stream, TextStream::Make(*model_, request.sampling,
                                                                request.prompt, run_->parts_max()));
  out->seed = stream.seed();
  const auto room = static_cast<size_t>(model_->context()) - request.prompt.size();
  const auto most = static_cast<size_t>(request.sampling.max_tokens.value_or(model_->context()));
  out->tokens.reserve(std::min(room, most));
  out->token_s.reserve(std::min(room, most));
  const auto begin = Clock::now();
  PENSTOCK_RETURN_IF_ERROR(Extend(request.prompt, 0, request.stop, stream.want()));
  out->prompt_s = SecondsSince(begin);
  return Decode(request, &stream, out);
}

// A step of one row: of `id`, or of the token that the step before draws, whose `after` is 1.
Status Generator::StartRow(int32_t id, int32_t past, const TextStream& stream, size_t after) {
  const int32_t row = 0;
  const program::PickWant want = stream.want();
  const sample::DrawRule rule =
      run_->draws() ? stream.RuleAfter(after).value_or(sample::DrawRule{}) : sample::DrawRule{};
  const program::SingleSequence sequence(1, past, tables_,
                                         run_->LongRope(static_cast<size_t>(past) + 1));
  program::PackedBatch batch = sequence.Batch({&id, 1}, {&row, 1}, {&want, 1});
  batch.draws = {&rule, 1};
  if (after > 0) batch.sources = {&row, 1};
  return run_->Start(batch);
}

Status Generator::StepBehind(const std::vector<int32_t>& text, const GenerateRequest& request,
                             const TextStream& stream, bool* ahead) {
  PENSTOCK_RETURN_IF_ERROR(CheckStop(request.stop));
  const auto last = static_cast<int32_t>(text.size()) - 1;
  // Where the text is rotated otherwise from this token on, it begins anew.
  if (!*ahead && run_->LongRope(text.size()) != run_->LongRope(text.size() - 1)) {
    return Extend(text, last, request.stop, stream.want());
  }
  if (!*ahead) PENSTOCK_RETURN_IF_ERROR(StartRow(text.back(), last, stream, 0));
  *ahead = run_->draws() && stream.RuleAfter(0) && stream.RuleAfter(1) &&
           run_->LongRope(text.size() + 1) == run_->LongRope(text.size()) &&
           StartRow(0, last + 1, stream, 1).ok();
  return run_->Finish();
}

Status Generator::Decode(const GenerateRequest& request, TextStream* stream, Generated* out) {
  std::vector<int32_t> text = request.prompt;
  // So that nothing is allocated between two tokens.
  text.reserve(text.size() + out->tokens.capacity());
  // Whether the step behind the one whose logits are there is under way; it is waited for at the end.
  bool ahead = false;
  const auto finish = [&](bool* is) {
    if (std::exchange(*is, false)) (void)run_->Finish();
  };
  const std::unique_ptr<bool, decltype(finish)> at_end(&ahead, finish);
  auto begin = Clock::now();
  while (true) {
    PENSTOCK_RETURN_IF_ERROR(stream->Take(run_.get(), 0));
    const int32_t id = stream->token().id;
    const bool as_drawn = ahead && run_->Found(0).drawn == id;
    out->tokens.push_back(stream->token());
    out->text += stream->text();
    const bool goes_on =
        stream->text().empty() || !request.on_text || request.on_text(stream->text());
    if (stream->end() || !goes_on) {
      out->finish = stream->end().value_or(FinishReason::kCaller);
      return Status::Ok();
    }
    text.push_back(id);
    if (!as_drawn) finish(&ahead);
    PENSTOCK_RETURN_IF_ERROR(StepBehind(text, request, *stream, &ahead));
    const auto now = Clock::now();
    out->token_s.push_back(std::chrono::duration<double>(now - begin).count());
    begin = now;
  }
}

}  // namespace penstock::generate

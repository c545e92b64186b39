#include "generate/generator.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <utility>

#include "common/int_math.h"
#include "generate/candidate_sink.h"
#include "sample/stop_strings.h"

namespace penstock {
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

const char* FinishReasonName(FinishReason reason) {
  constexpr const char* kNames[] = {"stop", "length", "context", "caller"};
  return kNames[static_cast<size_t>(reason)];
}

// What turns logits into tokens and tokens into text, for one request.
struct Generator::Stream {
  Sampler sampler;
  FinishCheck finish;
  StopStrings stops;
  CandidateSink candidates;
  std::unique_ptr<StreamDecoder> decoder;
  std::string piece;  // text that is given out next

  // The text that `id` completes. True: a stop string ended.
  bool Push(int32_t id) {
    piece.clear();
    return stops.Push(decoder->Push(id), &piece);
  }
  // The text held back.
  void Flush() {
    piece.clear();
    if (stops.Push(decoder->Finish(), &piece)) return;
    stops.Finish(&piece);
  }
};

Generator::Generator(const TextModel* model, std::unique_ptr<StepRun> run)
    : model_(model),
      run_(std::move(run)),
      blocks_(CeilDiv(static_cast<size_t>(model->context()), size_t{kKvBlockTokens})) {
  std::iota(blocks_.begin(), blocks_.end(), 0);
}

Expected<std::unique_ptr<Generator>> Generator::Make(const TextModel* model, int32_t logit_rows) {
  StepOptions options;
  options.cache_type = model->cache_type;
  options.rows = std::min(kPromptRows, model->context());
  options.logit_rows = logit_rows;
  options.blocks =
      static_cast<int32_t>(CeilDiv(static_cast<size_t>(model->context()), size_t{kKvBlockTokens}));
  PENSTOCK_ASSIGN_OR_RETURN(auto run, model->decoder->NewRun(options));
  return std::unique_ptr<Generator>(new Generator(model, std::move(run)));
}

Status Generator::Step(std::span<const int32_t> ids, int32_t past,
                       std::span<const int32_t> logit_rows, LogitSink* sink) {
  const StepSequence sequence = {static_cast<int32_t>(ids.size()), past, blocks_};
  return run_->Run({ids, {&sequence, 1}, logit_rows}, sink);
}

Status Generator::Check(const GenerateRequest& request) const {
  const auto context = static_cast<size_t>(model_->context());
  if (request.prompt.empty()) return Status::InvalidArgument("the prompt has no token", "prompt");
  if (request.prompt.size() >= context) {
    return Status::InvalidArgument(
        fmt::format("the prompt has {} tokens; the context holds {}, the text to come included",
                    request.prompt.size(), context),
        "prompt");
  }
  const std::optional<int32_t>& most = request.sampling.max_tokens;
  if (most && *most > 0 && request.prompt.size() + static_cast<size_t>(*most) > context) {
    return Status::InvalidArgument(
        fmt::format("{} tokens after a prompt of {} are {}; the context holds {}", *most,
                    request.prompt.size(), request.prompt.size() + static_cast<size_t>(*most),
                    context),
        "max_tokens");
  }
  return Status::Ok();
}

Status Generator::RunPrompt(const GenerateRequest& request, LogitSink* sink) {
  const std::span<const int32_t> prompt = request.prompt;
  for (size_t begin = 0; begin < prompt.size(); begin += kPromptRows) {
    PENSTOCK_RETURN_IF_ERROR(CheckStop(request.stop));
    const size_t rows = std::min<size_t>(kPromptRows, prompt.size() - begin);
    const bool last = begin + rows == prompt.size();
    const auto row = static_cast<int32_t>(rows - 1);
    PENSTOCK_RETURN_IF_ERROR(Step(prompt.subspan(begin, rows), static_cast<int32_t>(begin),
                                  {&row, last ? size_t{1} : size_t{0}}, sink));
  }
  return Status::Ok();
}

Status Generator::Generate(const GenerateRequest& request, Generated* out) {
  *out = Generated();
  PENSTOCK_RETURN_IF_ERROR(Check(request));
  const auto vocabulary = static_cast<size_t>(
      model_->decoder->program().values[model_->decoder->program().result].width);
  const auto context = static_cast<size_t>(model_->context());
  const auto most = static_cast<size_t>(request.sampling.max_tokens.value_or(model_->context()));
  const size_t tokens_max = std::min(context, request.prompt.size() + most);
  PENSTOCK_ASSIGN_OR_RETURN(
      Sampler sampler, Sampler::Make(request.sampling, static_cast<int32_t>(vocabulary), tokens_max,
                                     run_->workers()));
  PENSTOCK_ASSIGN_OR_RETURN(
      StopStrings stops, StopStrings::Make(request.sampling.stop, request.sampling.include_stop));
  const bool sums = sampler.wants_sums();
  Stream stream = {std::move(sampler),
                   FinishCheck(request.sampling, model_->end_ids),
                   std::move(stops),
                   CandidateSink(run_->workers(), vocabulary, sums),
                   model_->tokenizer->NewStreamDecoder(/*skip_special_tokens=*/true),
                   {}};
  stream.sampler.AddPrompt(request.prompt);
  // The text goes on after the prompt: a word that begins with a space keeps it.
  (void)stream.decoder->Push(request.prompt.back());
  out->seed = stream.sampler.seed();
  out->tokens.reserve(tokens_max - request.prompt.size());
  out->token_s.reserve(tokens_max - request.prompt.size());
  const auto begin = Clock::now();
  PENSTOCK_RETURN_IF_ERROR(RunPrompt(request, &stream.candidates));
  out->prompt_s = SecondsSince(begin);
  return Decode(request, &stream, out);
}

Status Generator::Decode(const GenerateRequest& request, Stream* stream, Generated* out) {
  const auto context = static_cast<size_t>(model_->context());
  const auto give = [&] {
    out->text += stream->piece;
    return stream->piece.empty() || !request.on_text || request.on_text(stream->piece);
  };
  const auto end = [&](FinishReason reason) {
    out->finish = reason;
    stream->Flush();
    give();
    return Status::Ok();
  };
  const int32_t row = 0;
  SampledToken token;
  auto begin = Clock::now();
  for (size_t length = request.prompt.size();; ++length) {
    PENSTOCK_RETURN_IF_ERROR(stream->sampler.Sample(stream->candidates.Find(run_->logits(0)),
                                                    static_cast<uint64_t>(length), &token));
    stream->sampler.Accept(token.id);
    out->tokens.push_back({token.id, token.logprob, {token.top.begin(), token.top.end()}});
    const Finish finish = stream->finish.After(token.id, static_cast<int64_t>(out->tokens.size()));
    if (finish == Finish::kStopToken) return end(FinishReason::kStop);
    if (stream->Push(token.id)) {
      give();
      out->finish = FinishReason::kStop;
      return Status::Ok();
    }
    if (!give()) {
      out->finish = FinishReason::kCaller;
      return Status::Ok();
    }
    if (finish == Finish::kLength) return end(FinishReason::kLength);
    if (length + 1 >= context) return end(FinishReason::kContext);
    PENSTOCK_RETURN_IF_ERROR(CheckStop(request.stop));
    stream->candidates.Reset();
    PENSTOCK_RETURN_IF_ERROR(
        Step({&token.id, 1}, static_cast<int32_t>(length), {&row, 1}, &stream->candidates));
    const auto now = Clock::now();
    out->token_s.push_back(std::chrono::duration<double>(now - begin).count());
    begin = now;
  }
}

}  // namespace penstock

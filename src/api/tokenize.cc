// Tokens of texts, and texts of tokens, without the model.
#include <fmt/format.h>

#include <algorithm>

#include "api/request_checks.h"
#include "api/service_impl.h"
#include "metrics/stages.h"

namespace penstock::api {
namespace {

// A printed token besides its text: {"id":1234567,"text":"","special":false,"start":1234567,
// "stop":1234567}, and a control character as \u0001.
constexpr int64_t kPrintedTokenBytes = 80;
constexpr int64_t kPrintedTextFactor = 6;

// Calls step(i) for i = 0, 1, ... count - 1 on the pool, some in a turn, until one fails; then
// done(status).
struct PoolLoop {
  // A turn: a millisecond or so.
  static constexpr size_t kTurnSteps = 32;
  static constexpr size_t kTurnBytes = 64 << 10;
  // A step with this many bytes of input runs as a long turn.
  static constexpr size_t kLongStepBytes = 256 << 10;

  RequestContext context;
  size_t count = 0;
  std::function<size_t(size_t)> bytes;  // of a step's input
  std::function<Status(size_t)> step;
  std::function<void(Status)> done;
  size_t next = 0;

  static void Start(WorkerPool* pool, const std::string& model, PoolLoop settings) {
    const auto loop = std::make_shared<PoolLoop>(std::move(settings));
    if (metrics::RequestTrace* const trace = loop->context.trace.get()) {
      trace->SetModel(model);
      trace->SetRows(static_cast<int64_t>(loop->count));
      trace->Enter(metrics::Stage::kTokenize);
    }
    const auto length = loop->IsLong() ? WorkerPool::Length::kLong : WorkerPool::Length::kShort;
    const Status status =
        pool->Submit([loop] { return loop->Run(); }, loop->context.priority, length);
    if (!status.ok()) loop->done(status);
  }

  WorkerPool::Turn Run() {
    try {
      size_t turn_bytes = 0;
      for (size_t i = 0; i < kTurnSteps && turn_bytes < kTurnBytes && next < count; ++i) {
        turn_bytes += bytes(next);
        if (i > 0 && IsLong()) break;
        Status status = context.CheckWanted(Clock::now());
        if (status.ok()) status = step(next);
        if (!status.ok()) return Done(std::move(status));
        ++next;
      }
    } catch (...) {
      return Done(ExceptionStatus());
    }
    if (next == count) return Done(Status::Ok());
    return IsLong() ? WorkerPool::Turn::kAgainLong : WorkerPool::Turn::kAgain;
  }

  bool IsLong() const { return next < count && bytes(next) >= kLongStepBytes; }

  WorkerPool::Turn Done(Status status) {
    if (context.trace != nullptr) context.trace->Enter(metrics::Stage::kComplete);
    done(std::move(status));
    return WorkerPool::Turn::kDone;
  }
};

// Bytes that a response takes while it is made: its values, and the text that is printed of them.
class ResponseBytes {
 public:
  ResponseBytes(RequestMemory* memory, int64_t printed_max)
      : memory_(memory), printed_max_(printed_max) {}

  // 413 over --max-response-bytes, else as RequestMemory::Take. Before the memory is allocated.
  Status Add(int64_t values, int64_t printed) {
    if (memory_ == nullptr) return Status::Ok();
    printed_ += printed;
    PENSTOCK_RETURN_IF_ERROR(encode::CheckResponseBytes(printed_, printed_max_));
    return memory_->Take(values + printed);
  }

 private:
  RequestMemory* const memory_;
  const int64_t printed_max_;
  int64_t printed_ = 0;
};

// A model of any kind, of which the tokenizer alone is used.
struct TokenizerLease {
  registry::Lease<engine::EncoderEngine> engine;
  registry::Lease<engine::DecoderEngine> text;

  const std::string& name() const { return engine ? engine->name() : text->name(); }
  const text::Tokenizer& tokenizer() const {
    return engine ? engine->tokenizer() : text->tokenizer();
  }
};

Expected<TokenizerLease> FindTokenizer(const registry::Registry& registry,
                                       const std::string& model) {
  TokenizerLease lease;
  auto engine = registry.Find<engine::EncoderEngine>(model);
  if (engine.ok()) {
    lease.engine = *std::move(engine);
    return lease;
  }
  auto text = registry.Find<engine::DecoderEngine>(model);
  if (!text.ok()) return engine.status();
  lease.text = *std::move(text);
  return lease;
}

struct TokenizeWork {
  TokenizeRequest request;
  TokenizeResponse response;
  std::string prompt;
  TokenizerLease model;
  StopCondition stop;
  ResponseBytes bytes;

  TokenizeWork(const RequestContext& context, int64_t response_bytes)
      : stop{context.cancel.get(), context.deadline}, bytes(context.memory.get(), response_bytes) {}

  Status Step(size_t i) {
    const text::Tokenizer& tokenizer = model.tokenizer();
    text::EncodeOptions options;
    options.add_special_tokens = request.add_special_tokens;
    options.with_offsets = true;
    options.stop = stop;
    text::Encoding encoding;
    const std::string& text = request.inputs[i];
    const Status status = model.engine
                              ? tokenizer.Encode(encode::PreparedText(*model.engine, prompt, text),
                                                 options, &encoding)
                              : tokenizer.Encode(text, options, &encoding);
    if (!status.ok()) return status.Annotate(fmt::format("inputs[{}]", i));
    int64_t texts = 0;
    for (const int32_t id : encoding.ids) {
      texts += static_cast<int64_t>(tokenizer.IdToToken(id).size());
    }
    const auto count = static_cast<int64_t>(encoding.ids.size());
    PENSTOCK_RETURN_IF_ERROR(
        bytes.Add(count * static_cast<int64_t>(sizeof(TokenizeResponse::Token)) + texts,
                  count * kPrintedTokenBytes + texts * kPrintedTextFactor));
    auto& tokens = response.inputs[i];
    tokens.resize(encoding.ids.size());
    for (size_t t = 0; t < tokens.size(); ++t) {
      tokens[t].id = encoding.ids[t];
      tokens[t].text = tokenizer.IdToToken(encoding.ids[t]);
      tokens[t].special = tokenizer.IsSpecial(encoding.ids[t]);
      tokens[t].offset = encoding.offsets[t];
    }
    return Status::Ok();
  }
};

struct DecodeWork {
  DecodeRequest request;
  DecodeResponse response;
  TokenizerLease model;
  ResponseBytes bytes;

  DecodeWork(RequestMemory* memory, int64_t response_bytes) : bytes(memory, response_bytes) {}

  Status Step(size_t i) {
    const std::vector<int32_t>& ids = request.inputs[i];
    const int32_t vocab_size = model.tokenizer().vocab_size();
    for (size_t t = 0; t < ids.size(); ++t) {
      if (ids[t] >= 0 && ids[t] < vocab_size) continue;
      const std::string field = fmt::format("inputs[{}]", i);
      return Status::InvalidArgument(fmt::format("{}[{}]: {} is not a token id; they are 0 to {}",
                                                 field, t, ids[t], vocab_size - 1),
                                     field);
    }
    // A text is as long as its tokens, but for characters that decoding adds (a space a token).
    int64_t text_bytes = 0;
    for (const int32_t id : ids) {
      text_bytes += 1 + static_cast<int64_t>(model.tokenizer().IdToToken(id).size());
    }
    PENSTOCK_RETURN_IF_ERROR(bytes.Add(text_bytes, text_bytes * kPrintedTextFactor));
    response.texts[i] = model.tokenizer().Decode(ids, request.skip_special_tokens);
    return Status::Ok();
  }
};

Status CheckTokenize(const registry::Registry& registry, const ServiceOptions& options,
                     TokenizeWork* work) {
  const TokenizeRequest& request = work->request;
  PENSTOCK_ASSIGN_OR_RETURN(work->model, FindTokenizer(registry, request.model));
  PENSTOCK_RETURN_IF_ERROR(CheckCount(request.inputs.size(), "inputs", options));
  for (size_t i = 0; i < request.inputs.size(); ++i) {
    PENSTOCK_RETURN_IF_ERROR(CheckBytes(request.inputs[i], fmt::format("inputs[{}]", i), options));
  }
  if (request.prompt_name && !work->model.engine) {
    return Status::InvalidArgument(
        fmt::format("model '{}' generates text: it has no prompts", work->model.name()),
        "prompt_name");
  }
  if (request.prompt_name) {
    PENSTOCK_ASSIGN_OR_RETURN(work->prompt,
                              PromptByName(*work->model.engine, *request.prompt_name));
  }
  work->response.model = request.model.empty() ? work->model.name() : request.model;
  work->response.inputs.resize(request.inputs.size());
  return Status::Ok();
}

Status CheckDecode(const registry::Registry& registry, const ServiceOptions& options,
                   DecodeWork* work) {
  const DecodeRequest& request = work->request;
  PENSTOCK_ASSIGN_OR_RETURN(work->model, FindTokenizer(registry, request.model));
  PENSTOCK_RETURN_IF_ERROR(CheckCount(request.inputs.size(), "inputs", options));
  // As many ids as the longest text may have bytes.
  for (size_t i = 0; i < request.inputs.size(); ++i) {
    if (request.inputs[i].size() <= static_cast<size_t>(options.input_bytes)) continue;
    const std::string field = fmt::format("inputs[{}]", i);
    return {StatusCode::kPayloadTooLarge,
            fmt::format("{} has {} ids; the limit is {} (--max-input-bytes)", field,
                        request.inputs[i].size(), options.input_bytes),
            field};
  }
  work->response.texts.resize(request.inputs.size());
  return Status::Ok();
}

size_t BytesOf(const std::string& text) { return text.size(); }
size_t BytesOf(const std::vector<int32_t>& ids) { return ids.size() * sizeof(int32_t); }

// Checked work, an input a turn.
template <typename Work, typename Answer>
void StartLoop(WorkerPool* pool, std::shared_ptr<Work> work, RequestContext context,
               const Answer& answer) {
  PoolLoop loop;
  loop.context = std::move(context);
  loop.count = work->request.inputs.size();
  loop.bytes = [work](size_t i) { return BytesOf(work->request.inputs[i]); };
  loop.step = [work](size_t i) { return work->Step(i); };
  loop.done = [work, answer](Status status) {
    if (!status.ok()) return answer(std::move(status));
    answer(std::move(work->response));
  };
  PoolLoop::Start(pool, work->model.name(), std::move(loop));
}

}  // namespace

void Service::Tokenize(TokenizeRequest request, RequestContext context,
                       Callback<TokenizeResponse> done) {
  auto answer = impl_->Admit(Behaviour::kTokenize, context, std::move(done));
  if (!answer) return;
  const auto work = std::make_shared<TokenizeWork>(context, options_.response_bytes);
  work->request = std::move(request);
  impl_->WithModel(work->request.model, Impl::UseOf(Behaviour::kTokenize), std::move(context),
                   answer, [this, work, answer](RequestContext with) {
                     if (Status checked = CheckTokenize(*impl_->registry, options_, work.get());
                         !checked.ok()) {
                       return answer(std::move(checked));
                     }
                     StartLoop(&impl_->pool, work, std::move(with), answer);
                   });
}

void Service::Decode(DecodeRequest request, RequestContext context, Callback<DecodeResponse> done) {
  auto answer = impl_->Admit(Behaviour::kDecode, context, std::move(done));
  if (!answer) return;
  const auto work = std::make_shared<DecodeWork>(context.memory.get(), options_.response_bytes);
  work->request = std::move(request);
  impl_->WithModel(work->request.model, Impl::UseOf(Behaviour::kDecode), std::move(context), answer,
                   [this, work, answer](RequestContext with) {
                     if (Status checked = CheckDecode(*impl_->registry, options_, work.get());
                         !checked.ok()) {
                       return answer(std::move(checked));
                     }
                     StartLoop(&impl_->pool, work, std::move(with), answer);
                   });
}

}  // namespace penstock::api

// Tokenize and Decode, and what all behaviours share.
#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "api/request_checks.h"
#include "api/service_impl.h"
#include "metrics/stages.h"

namespace penstock {
namespace {

// More workers do not help: a model takes tokens more slowly than a few of them make them.
constexpr unsigned kWorkersDefaultMax = 8;

size_t Workers(const ServiceLimits& limits) {
  if (limits.tokenization_workers > 0) return limits.tokenization_workers;
  return std::clamp(std::thread::hardware_concurrency(), 1u, kWorkersDefaultMax);
}

std::unique_ptr<RemoteStore> NewRemoteStore(const ServiceLimits& limits, Metrics* metrics) {
  if (!limits.redis) return nullptr;
  RemoteStoreOptions options;
  options.url = *limits.redis;
  options.secret = limits.redis_secret;
  options.timeout = std::chrono::milliseconds(limits.redis_timeout_ms);
  options.ttl = std::chrono::seconds(limits.cache_ttl_s);
  return std::make_unique<RemoteStore>(options, metrics);
}

// Calls step(i) for i = 0, 1, ... count - 1 on the pool, a few at a time, until one fails; then
// done(status).
struct PoolLoop {
  static constexpr size_t kStepsAtATime = 32;

  static void Start(WorkerPool* pool, RequestContext context, const Engine& engine, size_t count,
                    std::function<Status(size_t)> step, std::function<void(Status)> done) {
    auto loop = std::make_shared<PoolLoop>();
    if (RequestTrace* const trace = context.trace.get()) {
      trace->SetModel(engine.name());
      trace->SetRows(static_cast<int64_t>(count));
      trace->Enter(Stage::kTokenize);
    }
    loop->context = std::move(context);
    loop->count = count;
    loop->step = std::move(step);
    loop->done = std::move(done);
    const Status status = pool->Submit([loop] { return loop->Run(); });
    if (!status.ok()) loop->done(status);
  }

  bool Run() {
    const size_t end = std::min(count, next + kStepsAtATime);
    for (; next < end; ++next) {
      Status status;
      if (context.cancelled()) {
        status = Status(StatusCode::kCancelled, "the client left");
      } else if (context.deadline <= Clock::now()) {
        status = Status(StatusCode::kDeadlineExceeded,
                        "the request's time ran out before its turn came");
      } else {
        status = step(next);
      }
      if (!status.ok()) return Done(std::move(status)), false;
    }
    if (next < count) return true;
    Done(Status::Ok());
    return false;
  }

  void Done(Status status) {
    if (context.trace != nullptr) context.trace->Enter(Stage::kComplete);
    done(std::move(status));
  }

  RequestContext context;
  size_t count = 0;
  size_t next = 0;
  std::function<Status(size_t)> step;
  std::function<void(Status)> done;
};

}  // namespace

Service::Impl::Impl(Registry* registry_in, const ServiceLimits& limits_in, Metrics* metrics_in)
    : registry(registry_in),
      limits(limits_in),
      metrics(metrics_in),
      remote(NewRemoteStore(limits_in, metrics_in)),
      tokens(static_cast<size_t>(limits_in.token_cache_bytes),
             std::chrono::seconds(limits_in.cache_ttl_s), remote.get(), metrics_in),
      results(static_cast<size_t>(limits_in.result_cache_bytes),
              std::chrono::seconds(limits_in.cache_ttl_s), remote.get(), metrics_in),
      // A request puts at most one task a worker there.
      pool(Workers(limits_in),
           static_cast<size_t>(limits_in.concurrent_requests) * Workers(limits_in)),
      stats(registry, &pool, metrics_in) {}

Status Service::Impl::TakePlace(const RequestContext& context,
                                std::shared_ptr<const void>* in_run) {
  if (!accepting) return {StatusCode::kUnavailable, "the server is shutting down"};
  if (!context.bulk_run.empty()) {
    PENSTOCK_ASSIGN_OR_RETURN(*in_run, bulk_runs.Enter(context.bulk_run));
  }
  if (in_flight.fetch_add(1, std::memory_order_relaxed) >= limits.concurrent_requests) {
    in_flight.fetch_sub(1, std::memory_order_relaxed);
    return Status(StatusCode::kResourceExhausted,
                  fmt::format("{} requests are being worked on, the limit "
                              "(--max-concurrent-requests)",
                              limits.concurrent_requests))
        .WithRetryAfter(1);
  }
  served.fetch_add(1, std::memory_order_relaxed);
  metrics.in_flight().Add(1);
  return Status::Ok();
}

void Service::Impl::CountAnswered() {
  // Notified under the lock: once it is released the Service may be gone.
  const std::lock_guard lock(mutex);
  --unanswered;
  answered.notify_all();
}

Expected<Engine*> Service::Impl::EngineFor(const std::string& model, Behaviour behaviour) const {
  std::optional<ModelTask> task;
  if (behaviour == Behaviour::kRerank) task = ModelTask::kReranking;
  if (behaviour == Behaviour::kClassify) task = ModelTask::kClassification;
  if (behaviour == Behaviour::kEmbed || behaviour == Behaviour::kEmbedAll ||
      behaviour == Behaviour::kSimilarity) {
    task = ModelTask::kEmbedding;
  }
  PENSTOCK_ASSIGN_OR_RETURN(Engine * engine, registry->Find(model, task));
  // No classifier among them: a reranker will do.
  if (model.empty() && behaviour == Behaviour::kClassify && engine->task() != *task) {
    PENSTOCK_ASSIGN_OR_RETURN(engine, registry->Find(model, ModelTask::kReranking));
  }
  PENSTOCK_RETURN_IF_ERROR(CheckTask(*engine, behaviour));
  return engine;
}

EncodePlan Service::Impl::NewPlan(Engine* engine, const TextOptions& text,
                                  RequestContext context) const {
  EncodePlan plan;
  plan.engine = engine;
  plan.truncate = text.truncate.value_or(limits.auto_truncate);
  plan.side = text.side;
  plan.context = std::move(context);
  return plan;
}

namespace {

struct TokenizeWork {
  TokenizeRequest request;
  TokenizeResponse response;
  std::string prompt;
  const Engine* engine = nullptr;

  Status Step(size_t i) {
    const Tokenizer& tokenizer = engine->tokenizer();
    EncodeOptions options;
    options.add_special_tokens = request.add_special_tokens;
    options.with_offsets = true;
    Encoding encoding;
    const Status status =
        tokenizer.Encode(PreparedText(*engine, prompt, request.inputs[i]), options, &encoding);
    if (!status.ok()) return status.Annotate(fmt::format("inputs[{}]", i));
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
  const Engine* engine = nullptr;

  Status Step(size_t i) {
    const std::vector<int32_t>& ids = request.inputs[i];
    const int32_t vocab_size = engine->tokenizer().vocab_size();
    for (size_t t = 0; t < ids.size(); ++t) {
      if (ids[t] >= 0 && ids[t] < vocab_size) continue;
      const std::string field = fmt::format("inputs[{}]", i);
      return Status::InvalidArgument(fmt::format("{}[{}]: {} is not a token id; they are 0 to {}",
                                                 field, t, ids[t], vocab_size - 1),
                                     field);
    }
    response.texts[i] = engine->tokenizer().Decode(ids, request.skip_special_tokens);
    return Status::Ok();
  }
};

}  // namespace

void Service::Tokenize(TokenizeRequest request, RequestContext context,
                       Callback<TokenizeResponse> done) {
  auto answer = impl_->Admit(Behaviour::kTokenize, context, std::move(done));
  if (!answer) return;
  const auto work = std::make_shared<TokenizeWork>();
  const Status checked = [&]() -> Status {
    PENSTOCK_ASSIGN_OR_RETURN(work->engine, impl_->EngineFor(request.model, Behaviour::kTokenize));
    PENSTOCK_RETURN_IF_ERROR(CheckCount(request.inputs.size(), "inputs", limits_));
    for (size_t i = 0; i < request.inputs.size(); ++i) {
      PENSTOCK_RETURN_IF_ERROR(
          CheckBytes(request.inputs[i], fmt::format("inputs[{}]", i), limits_));
    }
    if (request.prompt_name) {
      PENSTOCK_ASSIGN_OR_RETURN(work->prompt, PromptByName(*work->engine, *request.prompt_name));
    }
    return Status::Ok();
  }();
  if (!checked.ok()) return answer(checked);
  work->request = std::move(request);
  work->response.model = work->engine->name();
  work->response.inputs.resize(work->request.inputs.size());
  PoolLoop::Start(
      &impl_->pool, std::move(context), *work->engine, work->request.inputs.size(),
      [work](size_t i) { return work->Step(i); },
      [work, answer](Status status) {
        if (!status.ok()) return answer(std::move(status));
        answer(std::move(work->response));
      });
}

void Service::Decode(DecodeRequest request, RequestContext context, Callback<DecodeResponse> done) {
  auto answer = impl_->Admit(Behaviour::kDecode, context, std::move(done));
  if (!answer) return;
  const auto work = std::make_shared<DecodeWork>();
  const Status checked = [&]() -> Status {
    PENSTOCK_ASSIGN_OR_RETURN(work->engine, impl_->EngineFor(request.model, Behaviour::kDecode));
    PENSTOCK_RETURN_IF_ERROR(CheckCount(request.inputs.size(), "inputs", limits_));
    // As many ids as the longest text may have bytes.
    for (size_t i = 0; i < request.inputs.size(); ++i) {
      if (request.inputs[i].size() > static_cast<size_t>(limits_.input_bytes)) {
        const std::string field = fmt::format("inputs[{}]", i);
        return {StatusCode::kPayloadTooLarge,
                fmt::format("{} has {} ids; the limit is {} (--max-input-bytes)", field,
                            request.inputs[i].size(), limits_.input_bytes),
                field};
      }
    }
    return Status::Ok();
  }();
  if (!checked.ok()) return answer(checked);
  work->request = std::move(request);
  work->response.texts.resize(work->request.inputs.size());
  PoolLoop::Start(
      &impl_->pool, std::move(context), *work->engine, work->request.inputs.size(),
      [work](size_t i) { return work->Step(i); },
      [work, answer](Status status) {
        if (!status.ok()) return answer(std::move(status));
        answer(std::move(work->response));
      });
}

}  // namespace penstock

// The parts of the Service that its behaviours share.
#include "api/service_impl.h"

#include <fmt/format.h>

#include <algorithm>

#include "api/generate.h"
#include "api/request_checks.h"
#include "metrics/stages.h"
#include "os/memory.h"

namespace penstock::api {
namespace {

std::unique_ptr<cache::RemoteStore> NewRemoteStore(const ServiceOptions& options,
                                                   metrics::Metrics* metrics) {
  if (!options.redis) return nullptr;
  cache::RemoteStoreOptions remote;
  remote.url = *options.redis;
  remote.secret = options.redis_secret;
  remote.timeout = std::chrono::milliseconds(options.redis_timeout_ms);
  remote.ttl = std::chrono::seconds(options.cache_ttl_s);
  return std::make_unique<cache::RemoteStore>(remote, metrics);
}

// "512 requests are being worked on, 300 of them of this client, whose share is 256; the limit for
// requests is 512 (...)".
Status TooMany(const ClientSlots::Refused& refused, const char* what, Priority priority,
               int64_t limit) {
  const std::string own = refused.alone
                              ? std::string()
                              : fmt::format(", {} of them of this client, whose share is {}",
                                            refused.own, refused.share);
  return Status(StatusCode::kResourceExhausted,
                fmt::format("{} requests {}{}; the limit{} is {} (--max-concurrent-requests)",
                            refused.all, what, own,
                            priority == Priority::kBulk ? " for bulk requests" : "", limit))
      .WithRetryAfter(1);
}

uint64_t ResidentLimit(const ServiceOptions& options) {
  if (options.resident_bytes_max > 0) return options.resident_bytes_max;
  return static_cast<uint64_t>(ResidentGuard::kShare * static_cast<double>(MemoryLimitBytes()));
}

}  // namespace

Service::Impl::Impl(registry::Registry* registry_in, const ServiceOptions& options_in,
                    metrics::Metrics* metrics_in)
    : registry(registry_in),
      options(options_in),
      budget(std::make_shared<ByteBudget>(options_in.inflight_bytes)),
      resident(ResidentLimit(options_in), PrivateResidentBytes, metrics_in),
      metrics(metrics_in),
      shared_memory(static_cast<uint64_t>(options_in.shared_memory_bytes)),
      remote(NewRemoteStore(options_in, metrics_in)),
      tokens(static_cast<size_t>(options_in.token_cache_bytes),
             std::chrono::seconds(options_in.cache_ttl_s), remote.get(), metrics_in),
      results(static_cast<size_t>(options_in.result_cache_bytes),
              std::chrono::seconds(options_in.cache_ttl_s), remote.get(), metrics_in),
      // A request puts at most one task a worker there.
      pool(static_cast<size_t>(options_in.tokenization_workers),
           static_cast<size_t>(ClientSlots::Most(options_in.concurrent_requests)) *
               static_cast<size_t>(options_in.tokenization_workers)),
      telemetry(registry, &pool, metrics_in) {
  metrics_in->AddFunction("penstock_inflight_bytes",
                          "Memory that requests hold: bodies, ids, results and answers.",
                          metrics::Metrics::Kind::kGauge,
                          [kept = budget] { return static_cast<double>(kept->used()); });
}

Status Service::Impl::AcquireSlot(const RequestContext& context,
                                  std::shared_ptr<const void>* in_run) {
  if (!accepting) return {StatusCode::kUnavailable, "the server is shutting down"};
  PENSTOCK_RETURN_IF_ERROR(CheckMemory(context.priority));
  if (!context.bulk_run.empty()) {
    PENSTOCK_ASSIGN_OR_RETURN(*in_run, bulk_runs.Enter(context.bulk_run));
  }
  const int64_t limit = ClassLimit(options.concurrent_requests, context.priority);
  ClientSlots::Refused refused;
  if (!in_flight.TryTake(ShareOf(context), limit, &refused)) {
    return TooMany(refused, "are being worked on", context.priority, limit);
  }
  served.fetch_add(1, std::memory_order_relaxed);
  metrics.in_flight().Add(1);
  return Status::Ok();
}

void Service::Impl::CountRefused(const std::string& model, Priority priority) const {
  const auto engine = registry->Find<engine::EncoderEngine>(model);
  if (engine.ok()) (*engine)->scheduler().CountRefused(priority);
}

auto Service::Impl::BeginWait(const RequestContext& context, bool has_slot)
    -> Expected<std::shared_ptr<ModelWait>> {
  const int64_t limit = ClassLimit(options.concurrent_requests, context.priority);
  const ClientShare from = ShareOf(context);
  ClientSlots::Refused refused;
  if (!waiting.TryTake(from, limit, &refused)) {
    return TooMany(refused, "wait for models that are being loaded", context.priority, limit);
  }
  return std::make_shared<ModelWait>(this, from, has_slot);
}

void Service::Impl::ReleaseSlot(const ClientShare& from) {
  in_flight.Release(from);
  metrics.in_flight().Add(-1);
}

void Service::Impl::ReacquireSlot(const ClientShare& from) {
  in_flight.Take(from);
  metrics.in_flight().Add(1);
}

void Service::Impl::CountAnswered() {
  // Notified under the lock: once it is released the Service may be gone.
  const std::lock_guard lock(mutex);
  --unanswered;
  answered.notify_all();
}

bool Service::Impl::AwaitAnswers(std::unique_lock<std::mutex>* lock,
                                 std::chrono::milliseconds timeout) {
  // The end of an Infer call, or of a worker's task, wakes no waiter, so Drain polls the counts.
  // Tasks of RunOnWorker may use what their callers own, and are not requests.
  constexpr std::chrono::milliseconds kLookAgain{1};
  const Clock::time_point until = Clock::now() + timeout;
  while (unanswered > 0 || !metrics.infers().AllEnded() || !pool.IsIdle()) {
    const Clock::time_point now = Clock::now();
    if (now >= until) return false;
    if (unanswered > 0) {
      answered.wait_until(*lock, until);
    } else {
      answered.wait_for(*lock, std::min<Clock::duration>(kLookAgain, until - now));
    }
  }
  return true;
}

registry::ModelUse Service::Impl::UseOf(Behaviour behaviour) {
  switch (behaviour) {
    case Behaviour::kEmbed:
    case Behaviour::kEmbedAll:
    case Behaviour::kSimilarity:
      return {.task = families::ModelTask::kEmbedding};
    case Behaviour::kRerank:
      return {.task = families::ModelTask::kReranking};
    case Behaviour::kClassify:
      return {.task = families::ModelTask::kClassification,
              .instead = families::ModelTask::kReranking};
    case Behaviour::kGenerate:
    case Behaviour::kRender:
      return {.capability = engine::Capability::kGenerate};
    case Behaviour::kInfer:
      return {.capability = engine::Capability::kTensors};
    default:
      return {};
  }
}

Expected<registry::Lease<engine::EncoderEngine>> Service::Impl::EngineFor(
    const std::string& model, Behaviour behaviour) const {
  const registry::ModelUse use = UseOf(behaviour);
  const std::optional<families::ModelTask> task = use.task;
  auto found = registry->Find<engine::EncoderEngine>(model, task);
  if (found.code() == StatusCode::kUnsupported) {
    return CannotEncode(*registry, model, behaviour, use);
  }
  if (found.code() == StatusCode::kUnavailable && !model.empty()) {
    // It was not loaded for this, where it is known to do something else.
    const auto known = registry->Look(model, {});
    if (known && known->purpose.encodes()) {
      PENSTOCK_RETURN_IF_ERROR(CheckTask(known->name, known->purpose.task, behaviour));
    }
  }
  PENSTOCK_ASSIGN_OR_RETURN(registry::Lease<engine::EncoderEngine> engine, std::move(found));
  // Without a classifier a reranker will do.
  if (use.instead && engine->task() != *task && !registry->Has(model)) {
    PENSTOCK_ASSIGN_OR_RETURN(engine, registry->Find<engine::EncoderEngine>(model, use.instead));
  }
  PENSTOCK_RETURN_IF_ERROR(CheckTask(engine->name(), engine->task(), behaviour));
  return engine;
}

encode::EncodePlan Service::Impl::NewPlan(registry::Lease<engine::EncoderEngine> engine,
                                          const TextOptions& text, RequestContext context) const {
  encode::EncodePlan plan;
  plan.engine = std::move(engine);
  plan.truncate = text.truncate.value_or(options.auto_truncate);
  plan.side = text.side;
  plan.context = std::move(context);
  return plan;
}

std::shared_ptr<RequestMemory> Service::NewRequestMemory(Priority priority) const {
  return std::make_shared<RequestMemory>(impl_->budget, priority);
}

namespace {

WorkerPool::Task OneTurn(std::function<void()> work) {
  return [work = std::move(work)] {
    work();
    return WorkerPool::Turn::kDone;
  };
}

WorkerPool::Length LengthOf(size_t bytes) {
  return bytes >= Service::kLongWorkBytes ? WorkerPool::Length::kLong : WorkerPool::Length::kShort;
}

}  // namespace

Status Service::Impl::CheckMemory(Priority priority) {
  Status status = resident.Check(priority);
  // Free blocks of the heap count as the process's own. A full queue does not justify a wait.
  if (!status.ok() && resident.TrimDue()) {
    (void)pool.Submit(OneTurn(TrimHeap), Priority::kBulk, WorkerPool::Length::kLong).ok();
  }
  return status;
}

Status Service::CheckMemory(Priority priority) { return impl_->CheckMemory(priority); }

bool Service::IsShortOfMemory(Priority priority) { return impl_->resident.Refuses(priority); }

Status Service::RunOnWorker(Priority priority, size_t bytes, std::function<void()> work) {
  return impl_->pool.Submit(OneTurn(std::move(work)), priority, LengthOf(bytes));
}

void Service::FinishOnWorker(Priority priority, size_t bytes, std::function<void()> work) {
  if (!impl_->pool.SubmitAdmitted(OneTurn(work), priority, LengthOf(bytes))) work();
}

}  // namespace penstock::api

// The inside of Service, shared by the files of its behaviours.
//
// Every request passes Admit, which counts it in and wraps its callback so that the answer,
// whichever way it comes, is counted out exactly once.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "api/admitted_request.h"
#include "api/bulk_runs.h"
#include "api/client_slots.h"
#include "api/resident_guard.h"
#include "api/service.h"
#include "api/service_metrics.h"
#include "api/shared_memory.h"
#include "cache/cache_salt.h"
#include "encode/encode_pipeline.h"
#include "metrics/stages.h"
#include "registry/registry.h"
#include "telemetry/collector.h"
#include "threads/byte_budget.h"
#include "threads/worker_pool.h"

namespace penstock::api {

struct Service::Impl final : RequestSlots {
  // tokenization_workers of the options is the actual number, not 0.
  Impl(registry::Registry* registry_in, const ServiceOptions& options_in,
       metrics::Metrics* metrics_in);

  // The callback to answer with; null when the request was refused (and answered).
  template <typename Response>
  Callback<Response> Admit(Behaviour behaviour, const RequestContext& context,
                           Callback<Response> done) {
    const auto request =
        std::make_shared<AdmittedRequest<Response>>(this, &metrics, behaviour, std::move(done));
    Callback<Response> answer = [request](Expected<Response> result) {
      request->Answer(std::move(result));
    };
    {
      const std::lock_guard lock(mutex);
      ++unanswered;  // before `accepting` is read: Drain after StopAccepting sees it
    }
    request->SetCounted();
    std::shared_ptr<const void> in_run;
    if (const Status refused = AcquireSlot(context, &in_run); !refused.ok()) {
      answer(refused);
      return nullptr;
    }
    request->SetSlot(ShareOf(context), std::move(in_run));
    return answer;
  }
  Status AcquireSlot(const RequestContext& context, std::shared_ptr<const void>* in_run);
  static ClientShare ShareOf(const RequestContext& context) {
    return {context.client, context.client_weight};
  }
  void ReleaseSlot(const ClientShare& from) override;
  // For a request that released its slot before its end: it is not refused.
  void ReacquireSlot(const ClientShare& from);
  void CountAnswered() override;
  // Waits, with the mutex in `lock`, until every request was answered, at most `timeout`. True if
  // so.
  bool AwaitAnswers(std::unique_lock<std::mutex>* lock, std::chrono::milliseconds timeout);

  // The model by name (or the default for the behaviour), which must offer the behaviour.
  Expected<registry::Lease<engine::EncoderEngine>> EngineFor(const std::string& model,
                                                             Behaviour behaviour) const;
  encode::EncodePlan NewPlan(registry::Lease<engine::EncoderEngine> engine, const TextOptions& text,
                             RequestContext context) const;
  Expected<encode::EncodePlan> PlanEmbed(const std::shared_ptr<const EmbedRequest>& request,
                                         RequestContext context, Behaviour behaviour);
  Expected<encode::EncodePlan> PlanRerank(const std::shared_ptr<const RerankRequest>& request,
                                          RequestContext context) const;
  Expected<encode::EncodePlan> PlanClassify(const std::shared_ptr<const ClassifyRequest>& request,
                                            RequestContext context) const;
  Expected<encode::EncodePlan> PlanSimilarity(
      const std::shared_ptr<const SimilarityRequest>& request, RequestContext context) const;
  void Start(encode::EncodePlan plan, encode::EncodeDone done) {
    encode::StartEncode(std::move(plan),
                        {&pool, &tokens, &results, &metrics.tokenize_duration(), options.run_stages,
                         options.response_bytes},
                        std::move(done));
  }

  // Runs every request that needs the model. plan(request, context) checks it and gives the
  // EncodePlan; fill(request, outcome, response) fills the response. Both are called once at most;
  // `fill` on the thread that ended the encoding.
  template <typename Request, typename Response, typename Plan, typename Fill>
  void Run(Behaviour behaviour, Request request, RequestContext context, Callback<Response> done,
           const Plan& plan, Fill fill) {
    auto answer = Admit(behaviour, context, std::move(done));
    if (!answer) return CountRefused(request.model, context.priority);
    if (request.text.keep_alive) context.keep_alive = request.text.keep_alive;
    context.cache_salt = cache::JoinCacheSalt(context.cache_salt, request.text.cache_salt);
    const auto owned = std::make_shared<const Request>(std::move(request));
    WithModel(owned->model, UseOf(behaviour), std::move(context), answer,
              [this, behaviour, owned, answer, plan, fill](RequestContext with) {
                Expected<encode::EncodePlan> planned = plan(owned, std::move(with));
                if (!planned.ok()) return answer(planned.status());
                Start(*std::move(planned), [this, behaviour, owned, answer,
                                            fill](Expected<encode::EncodeOutcome> outcome) {
                  if (!outcome.ok()) return answer(outcome.status());
                  Response response;
                  response.model = owned->model.empty() ? outcome->engine->name() : owned->model;
                  response.usage = outcome->usage;
                  response.truncation = outcome->truncation;
                  fill(*owned, &*outcome, &response);
                  metrics.CountTokens(behaviour, response.usage, response.truncation);
                  answer(std::move(response));
                });
              });
  }

  // Counts a request for an encoder that was not admitted into what is asked of it.
  void CountRefused(const std::string& model, Priority priority) const;

  // What a request of that behaviour needs a model for.
  static registry::ModelUse UseOf(Behaviour behaviour);
  // A request that waits for its model. It leaves its place among the concurrent requests to those
  // whose models are there; as many as these may wait.
  class ModelWait {
   public:
    // `has_slot`: the request holds such a place. It takes it again at the end, even if others
    // have come meanwhile.
    ModelWait(Impl* impl, const ClientShare& from, bool has_slot)
        : impl_(impl), from_(from), has_slot_(has_slot) {
      if (has_slot_) impl_->ReleaseSlot(from_);
    }
    ~ModelWait() { End(); }
    ModelWait(const ModelWait&) = delete;
    ModelWait& operator=(const ModelWait&) = delete;
    void End() {
      if (std::exchange(ended_, true)) return;
      if (has_slot_) impl_->ReacquireSlot(from_);
      impl_->waiting.Release(from_);
    }

   private:
    Impl* const impl_;
    const ClientShare from_;
    const bool has_slot_;
    bool ended_ = false;
  };
  // kResourceExhausted: too many wait.
  Expected<std::shared_ptr<ModelWait>> BeginWait(const RequestContext& context, bool has_slot);

  // Calls then(context) when the model is there, mostly at once; answers with a Status where it
  // will not be. `then` finds the model itself.
  template <typename Answer, typename Then>
  void WithModel(const std::string& model, const registry::ModelUse& use, RequestContext context,
                 Answer answer, Then then, bool has_slot = true) {
    registry::Lease<penstock::engine::Model> hold;  // until `then` has a lease of its own
    const bool waits = registry->MustAwait(model, use, &hold);
    if (!waits && !context.keep_alive) return then(std::move(context));
    std::shared_ptr<ModelWait> wait;
    if (waits) {
      auto begun = BeginWait(context, has_slot);
      if (!begun.ok()) return answer(begun.status());
      wait = *std::move(begun);
    }
    if (context.trace != nullptr) context.trace->Enter(metrics::Stage::kLoad);
    registry->Await(model, use, context,
                    [answer = std::move(answer), then = std::move(then), context,
                     wait = std::move(wait)](const Status& status) {
                      if (wait) wait->End();
                      if (!status.ok()) return answer(status);
                      if (context.trace != nullptr) context.trace->Enter(metrics::Stage::kParse);
                      then(context);
                    });
  }

  // Warns, once for a model, of ids that another tokenizer must have made: they neither begin nor
  // end with a special token, where the model's template adds some.
  void WarnOfForeignIds(const engine::EncoderEngine& engine, const std::vector<Input>& inputs);

  // See Service::CheckMemory.
  Status CheckMemory(Priority priority);

  // Bytes that can go back to the system; and their release, which returns by how many bytes
  // resident memory fell.
  uint64_t HeldBytes() const;
  uint64_t ReleaseMemory();

  registry::Registry* const registry;
  const ServiceOptions options;
  const std::shared_ptr<ByteBudget> budget;  // of all requests
  ResidentGuard resident;
  ServiceMetrics metrics;
  SharedMemory shared_memory;
  const std::unique_ptr<cache::RemoteStore> remote;  // null without --redis-url
  encode::TokenCache tokens;
  encode::ResultCache results;
  std::atomic<bool> accepting{true};
  std::atomic<bool> leaving{false};   // still accepting, but no more ready
  std::atomic<bool> starting{false};  // not ready yet
  ClientSlots in_flight;
  ClientSlots waiting;              // requests whose models are being loaded; not in flight
  std::atomic<uint64_t> served{0};  // requests taken since the start
  BulkRuns bulk_runs;
  std::mutex mutex;
  std::condition_variable answered;
  int64_t unanswered = 0;  // guarded by mutex
  std::mutex warned_mutex;
  std::set<std::string> warned;  // guarded by warned_mutex; names of models
  WorkerPool pool;               // after what its threads use
  telemetry::Collector telemetry;
};

}  // namespace penstock::api

// The inside of Service, shared by service.cc and service_tokenize.cc.
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

#include "api/admitted_request.h"
#include "api/bulk_runs.h"
#include "api/encode_pipeline.h"
#include "api/service.h"
#include "api/service_metrics.h"
#include "api/stats.h"
#include "common/byte_budget.h"
#include "common/worker_pool.h"
#include "engine/registry.h"

namespace penstock {

struct Service::Impl final : RequestPlaces {
  // tokenization_workers of the limits is the number of them, not 0.
  Impl(Registry* registry_in, const ServiceLimits& limits_in, Metrics* metrics_in);

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
    if (const Status refused = TakePlace(context, &in_run); !refused.ok()) {
      answer(refused);
      return nullptr;
    }
    request->SetPlace(std::move(in_run));
    return answer;
  }
  Status TakePlace(const RequestContext& context, std::shared_ptr<const void>* in_run);
  void LeavePlace() override;
  // For a request that left its place before its end: it is not refused.
  void ReturnToPlace();
  void CountAnswered() override;

  // The model by name (or the default for the behaviour), which must offer it.
  Expected<EngineLease> EngineFor(const std::string& model, Behaviour behaviour) const;
  EncodePlan NewPlan(EngineLease engine, const TextOptions& text, RequestContext context) const;
  Expected<EncodePlan> PlanEmbed(const std::shared_ptr<EmbedRequest>& request,
                                 RequestContext context, Behaviour behaviour);
  Expected<EncodePlan> PlanRerank(const std::shared_ptr<RerankRequest>& request,
                                  RequestContext context);
  Expected<EncodePlan> PlanClassify(const std::shared_ptr<ClassifyRequest>& request,
                                    RequestContext context);
  Expected<EncodePlan> PlanSimilarity(const std::shared_ptr<SimilarityRequest>& request,
                                      RequestContext context);
  void Start(EncodePlan plan, EncodeDone done) {
    StartEncode(std::move(plan),
                {&pool, &tokens, &results, &metrics.tokenize_duration(), limits.run_stages,
                 limits.response_bytes},
                std::move(done));
  }

  template <typename Response>
  void Finish(Behaviour behaviour, const std::string& asked_model, const EncodeOutcome& outcome,
              Response* response) {
    response->model = asked_model.empty() ? outcome.engine->name() : asked_model;
    response->usage = outcome.usage;
    response->truncation = outcome.truncation;
    metrics.CountTokens(behaviour, outcome.usage, outcome.truncation);
  }

  // Says in the log, once for a model, that ids come which another tokenizer must have made: they
  // neither begin nor end with a special token, where the model's template adds some.
  void WarnOfForeignIds(const Engine& engine, const std::vector<Input>& inputs);

  // What could be given back to the system, and giving it back; by how many bytes resident memory
  // fell.
  uint64_t HeldBytes() const;
  uint64_t ReleaseMemory();

  Registry* const registry;
  const ServiceLimits limits;
  const std::shared_ptr<ByteBudget> budget;  // of all requests
  ServiceMetrics metrics;
  const std::unique_ptr<RemoteStore> remote;  // null without --redis-url
  TokenCache tokens;
  ResultCache results;
  std::atomic<bool> accepting{true};
  std::atomic<int32_t> in_flight{0};
  std::atomic<uint64_t> served{0};  // requests taken since the start
  BulkRuns bulk_runs;
  std::mutex mutex;
  std::condition_variable answered;
  int64_t unanswered = 0;  // guarded by mutex
  std::mutex warned_mutex;
  std::set<std::string> warned;  // guarded by warned_mutex; names of models
  WorkerPool pool;               // after what its threads use
  ServiceStats stats;
};

}  // namespace penstock

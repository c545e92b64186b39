// Service: every behaviour of Penstock. Routes and commands parse, call this, and print.
//
// Calls return at once: texts are tokenized on worker threads, the model runs on its executor,
// and the callback comes from one of them (or from the caller, when a request is refused). A
// callback holds the executor up while it runs, so it hands long work (printing) to another thread.
// An empty text is embedded as the special tokens the model's template adds; where it adds none,
// it is refused. Requests are checked here: a Status names the field (as the native type spells it:
// "inputs", "dimensions", ...) and the limit.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/embed_stream.h"
#include "api/generate_types.h"
#include "api/types.h"
#include "base/status.h"
#include "cache/redis_url.h"
#include "metrics/metrics.h"
#include "sched/tensor_scheduler.h"
#include "threads/byte_budget.h"
#include "threads/request_context.h"

namespace penstock::registry {
class Registry;
}  // namespace penstock::registry

namespace penstock::telemetry {
struct Limits;  // telemetry/snapshot.h, as the next
struct Snapshot;
struct Stats;  // telemetry/collector.h
}  // namespace penstock::telemetry

namespace penstock::api {

class GenerateFeed;  // api/generate_feed.h
class InferCall;     // api/infer.h
class SharedMemory;  // api/shared_memory.h
class ModelStore;    // api/model_store.h

// Limits of one server; each is a flag of `penstock serve`.
struct ServiceOptions {
  int32_t inputs_per_request = 2048;  // --max-client-batch-size
  int64_t input_bytes = 1 << 20;      // longest text, in bytes: --max-input-bytes
  int32_t concurrent_requests = 512;  // --max-concurrent-requests; bulk takes 3/4 at most
  // Bodies, ids, results and printed answers of all requests: --max-inflight-bytes; bulk takes 3/4
  // at most.
  int64_t inflight_bytes = 512 << 20;
  // Memory of the process, mapped files aside; over it new work is refused: --max-resident-bytes.
  // 0: a share of what it may have (ResidentGuard::kShare).
  uint64_t resident_bytes_max = 0;
  int64_t response_bytes = 256 << 20;    // printed, of one request: --max-response-bytes
  bool auto_truncate = true;             // --auto-truncate
  bool token_input = true;               // --token-input; false: routes refuse ids as input
  bool openai_token_ids = true;          // --openai-token-ids; false: OpenAI's route refuses them
  int64_t token_cache_bytes = 64 << 20;  // --token-cache-bytes; 0: off
  int64_t cache_ttl_s = 3600;            // --cache-ttl-s; 0: for ever
  int64_t result_cache_bytes = 0;        // --result-cache-bytes; 0: off
  int64_t shared_memory_bytes = 0;       // --shared-memory-bytes; 0: no regions
  std::optional<cache::RedisUrl> redis;  // --redis-url
  std::string redis_secret;              // --redis-key; "": entries are not authenticated
  int32_t redis_timeout_ms = 5;          // --redis-timeout-ms
  encode::RunStages run_stages = encode::RunStages::kAll;  // --run-stages
  int32_t tokenization_workers = 0;  // --tokenization-workers; 0: one a processor, 8 at most
};

class Service {
 public:
  // Registry and metrics must outlive the service.
  Service(registry::Registry* registry, const ServiceOptions& options, metrics::Metrics* metrics);
  ~Service();

  void Embed(EmbedRequest request, RequestContext context, Callback<EmbedResponse> done);
  // Calls `then` when the model of an EmbedInParts is loaded, or with why it will not be; at once
  // where it is. The other calls wait themselves.
  void AwaitEmbedder(const std::string& model, const RequestContext& context,
                     std::function<void(const Status&)> then);
  // Embed, with rows delivered as they are computed: see embed_stream.h. `sink` has
  // EmbedStream::kEvents slots and gets one EmbedEnd, as the last event. No part is started yet.
  // Null: the request was refused, and the end is in the sink.
  std::shared_ptr<EmbedStream> EmbedInParts(EmbedRequest request, RequestContext context,
                                            const EmbedPartOptions& options,
                                            std::shared_ptr<Sink<EmbedEvent>> sink);
  void EmbedAll(EmbedRequest request, RequestContext context, Callback<EmbedAllResponse> done);
  void Rerank(RerankRequest request, RequestContext context, Callback<RerankResponse> done);
  void Classify(ClassifyRequest request, RequestContext context, Callback<ClassifyResponse> done);
  void Similarity(SimilarityRequest request, RequestContext context,
                  Callback<SimilarityResponse> done);
  void Tokenize(TokenizeRequest request, RequestContext context, Callback<TokenizeResponse> done);
  void Decode(DecodeRequest request, RequestContext context, Callback<DecodeResponse> done);

  // Text from a model, as events of the feed; its GenerateEnd comes last, whatever happens.
  void Generate(TextRequest request, RequestContext context, std::shared_ptr<GenerateFeed> feed);
  // What a model's chat template makes of a conversation.
  void Render(RenderRequest request, RequestContext context, Callback<RenderResponse> done);

  // Runs a tensor model. The outcome is told by call->Done, within this call where the request is
  // refused or the model ran on this thread.
  void Infer(InferCall* call);
  // Totals of a loaded tensor model. kNotFound; kUnavailable: it is not loaded; kUnsupported: it is
  // no tensor model.
  Expected<sched::TensorStatistics> InferStatistics(const std::string& model) const;
  // Through which tensors may come and go.
  SharedMemory& shared_memory();

  // Through which clients add and delete models; null: they may not. Set before the first request;
  // outlives all of them.
  ModelStore* model_store() const { return model_store_; }
  void SetModelStore(ModelStore* store) { model_store_ = store; }

  // Begin and end of a bulk run: see api/bulk_runs.h. Its requests carry the id in their context.
  // At the end the server decides whether to release memory. kResourceExhausted: too many are open;
  // kNotFound: no such run. `client` as in RequestContext: each may have a few open.
  Expected<BulkRunBegun> BeginBulkRun(uint64_t client = 0);
  void EndBulkRun(const std::string& id, Callback<BulkRunEnded> done);

  // These never wait behind inference.
  std::vector<ModelInfo> Models() const;
  // "" = the default model's; kNotFound. One that is still loading has its name and ready == false.
  Expected<ModelInfo> Model(const std::string& name) const;
  // The same for requests that embed, or that generate text: where any name is accepted
  // (AcceptAnyName of the registry), it is the model that such a request gets, loaded or not. "" =
  // the first that does this.
  Expected<ModelInfo> EmbeddingModel(const std::string& name) const;
  Expected<ModelInfo> TextModel(const std::string& name) const;
  // Loads a model, and waits for it; StartLoadModel does not wait. kNotFound lists the names;
  // others as Registry::Load.
  void LoadModel(const std::string& name, const RequestContext& context, Callback<ModelInfo> done);
  Expected<ModelInfo> StartLoadModel(const std::string& name);
  // Takes no more requests for it (the next one loads it again); it leaves when those under way are
  // finished. kNotFound; kUnavailable: it is being loaded.
  Expected<ModelInfo> UnloadModel(const std::string& name);
  Expected<ModelInfo> PinModel(const std::string& name, bool pinned);
  bool Ready() const;  // no model is being loaded or failed to, and not stopping
  // The options in force: tokenization_workers is the actual number.
  const ServiceOptions& options() const { return options_; }

  // Why Ready() is false, or OK.
  Status Readiness() const;

  // While it is held, readiness is off: the server is being started.
  void HoldReadiness(bool held);
  // Readiness is off from now on; requests are still taken.
  void AnnounceStop();

  // kUnavailable, with retry_after_s: the process is short of memory, and new work of this class is
  // refused. Every request is checked when it is admitted; callers may ask earlier.
  Status CheckMemory(Priority priority);
  // The same, not counted as a refusal.
  bool IsShortOfMemory(Priority priority);
  // For RequestContext::memory.
  std::shared_ptr<RequestMemory> NewRequestMemory(Priority priority) const;
  // Runs `work` that would hold up an io thread on a worker. It counts as a long turn from
  // kLongWorkBytes on. kResourceExhausted: the queue is full.
  static constexpr size_t kLongWorkBytes = 1 << 20;
  Status RunOnWorker(Priority priority, size_t bytes, std::function<void()> work);
  // As RunOnWorker, for the end of an admitted request: never refused; where the service has
  // stopped, `work` runs on this thread.
  void FinishOnWorker(Priority priority, size_t bytes, std::function<void()> work);

  // The front end hands over the trace of each request that it timed.
  void RecordTrace(const metrics::RequestTrace& trace);
  // Since the last ResetStats().
  telemetry::Stats GetStats() const;
  void ResetStats();
  telemetry::Snapshot TakeSnapshot() const;
  telemetry::Limits GetLimits() const;

  // No more requests are taken (kUnavailable); those accepted are finished.
  void StopAccepting();
  // Waits until every accepted request was answered and no work of RunOnWorker is left, at most
  // `timeout`. True if so: what that work uses may go.
  bool Drain(std::chrono::milliseconds timeout);

 private:
  friend class EmbedParts;
  friend class InferRun;
  struct Impl;
  ServiceOptions options_;
  ModelStore* model_store_ = nullptr;
  std::unique_ptr<Impl> impl_;
};

}  // namespace penstock::api

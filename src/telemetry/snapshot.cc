#include "telemetry/snapshot.h"

#include <algorithm>

namespace penstock::telemetry {
namespace {

template <typename T>
void Subtract(const T& earlier, T* sum) {
  *sum -= std::min(*sum, earlier);
}

void Subtract(const Snapshot::Cache& earlier, Snapshot::Cache* cache) {
  Subtract(earlier.hits, &cache->hits);
  Subtract(earlier.lookups, &cache->lookups);
}

void Subtract(const Snapshot::Model& earlier, Snapshot::Model* model) {
  Subtract(earlier.batches, &model->batches);
  Subtract(earlier.rows, &model->rows);
  Subtract(earlier.tokens, &model->tokens);
  Subtract(earlier.fill, &model->fill);
  Subtract(earlier.busy_s, &model->busy_s);
  Subtract(earlier.requests, &model->requests);
  model->decode = model->decode.Since(earlier.decode);
}

}  // namespace

int64_t Snapshot::Model::queued_requests() const {
  int64_t all = 0;
  for (const Queue& queue : queues) all += queue.requests;
  return all;
}

int64_t Snapshot::Model::queued_tokens() const {
  int64_t all = 0;
  for (const Queue& queue : queues) all += queue.tokens;
  return all;
}

Snapshot Snapshot::Since(const Snapshot& earlier) const {
  Snapshot window = *this;
  Subtract(earlier.seconds, &window.seconds);
  window.requests = requests.Since(earlier.requests);
  for (size_t s = 0; s < metrics::kStages; ++s) {
    window.stages[s] = stages[s].Since(earlier.stages[s]);
  }
  window.infers = infers.Since(earlier.infers);
  for (Model& model : window.models) {
    for (const std::vector<Model>* list : {&earlier.models, &earlier.gone}) {
      const auto before = std::ranges::find(*list, model.name, &Model::name);
      if (before != list->end()) Subtract(*before, &model);  // else it came meanwhile
    }
  }
  Subtract(earlier.token_cache, &window.token_cache);
  Subtract(earlier.result_cache, &window.result_cache);
  Subtract(earlier.tokenization.busy_s, &window.tokenization.busy_s);
  Subtract(earlier.processor_s, &window.processor_s);
  return window;
}

}  // namespace penstock::telemetry

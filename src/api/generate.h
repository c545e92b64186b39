// One request for generated text: from its prompts to jobs of the decode scheduler, and their
// results to the front end's GenerateFeed.
//
//   worker      renders and tokenizes prompt after prompt, taking turns with other requests; then
//               hands the jobs to the model's scheduler
//   step thread gives tokens to the feed
//   worker      the front end reads the feed
// The client's CancelToken ends the jobs within a step, and so does a request that has failed.
#pragma once

#include <memory>
#include <string>

#include "api/generate_feed.h"
#include "api/generate_model.h"
#include "api/generate_types.h"
#include "api/service.h"
#include "api/service_metrics.h"
#include "registry/registry.h"
#include "threads/worker_pool.h"

namespace penstock::api {

// What a request needs besides its model.
struct GenerateParts {
  WorkerPool* pool;
  ServiceMetrics* metrics;
  const ServiceOptions* options;
};

// kInvalidArgument or kPayloadTooLarge, before any work.
Status CheckGenerate(const TextRequest& request, const ServiceOptions& options);

// `request` is checked; its conversations go from it as they are rendered. `answer` is called once,
// when all is over; the feed gets its end from it.
void StartGenerate(const GenerateParts& parts, std::shared_ptr<GenerateModel> model,
                   std::shared_ptr<TextRequest> request, RequestContext context,
                   std::shared_ptr<GenerateFeed> feed, Callback<GenerateEnd> answer);

// The model by name, which must generate text; "" = the first that does. kNotFound lists names;
// kInvalidArgument says what the model is for and which one generates text.
Expected<std::shared_ptr<GenerateModel>> FindGenerateModel(const registry::Registry& registry,
                                                           const std::string& name);

// Why the model of that name, which is not an encoder, does not offer an encoder's behaviour, and
// which model does.
Status CannotEncode(const registry::Registry& registry, const std::string& name,
                    Behaviour behaviour, const registry::ModelUse& use);

}  // namespace penstock::api

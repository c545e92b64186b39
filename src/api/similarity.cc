// Similarity: of one text to each of others, or of texts in pairs, by their embeddings.
#include <fmt/format.h>

#include "api/request_checks.h"
#include "api/scores.h"
#include "api/service_impl.h"
#include "models/encoder.h"

namespace penstock::api {
namespace {

// Source, or sources.
size_t FirstTexts(const SimilarityRequest& request) {
  return request.sources.empty() ? 1 : request.sources.size();
}

void FillResponse(const SimilarityRequest& request, encode::EncodeOutcome* outcome,
                  SimilarityResponse* response) {
  const std::span<float> values = outcome->values;
  const auto row = [&](size_t i) { return values.subspan(i * outcome->width, outcome->width); };
  const families::ModelFolder& folder = outcome->engine->folder();
  const size_t first_texts = FirstTexts(request);
  for (size_t i = 0; folder.normalize && i < first_texts + request.sentences.size(); ++i) {
    models::FinishEmbedding(row(i), outcome->width, true);
  }
  for (size_t i = 0; i < request.sentences.size(); ++i) {
    const auto first = row(request.sources.empty() ? 0 : i);
    response->scores.push_back(SimilarityOf(folder.similarity, first, row(first_texts + i)));
  }
}

// The texts of both sides, the first ones before the second ones.
Status AddItems(const SimilarityRequest& request, const ServiceOptions& limits,
                std::vector<encode::EncodeItem>* items) {
  items->reserve(FirstTexts(request) + request.sentences.size());
  const auto add = [&](std::string_view text, std::string field) -> Status {
    PENSTOCK_RETURN_IF_ERROR(CheckBytes(text, field, limits));
    encode::EncodeItem item;
    item.first = text;
    item.field = std::move(field);
    items->push_back(std::move(item));
    return Status::Ok();
  };
  if (request.sources.empty()) PENSTOCK_RETURN_IF_ERROR(add(request.source, "source"));
  for (size_t i = 0; i < request.sources.size(); ++i) {
    PENSTOCK_RETURN_IF_ERROR(add(request.sources[i], fmt::format("sources[{}]", i)));
  }
  for (size_t i = 0; i < request.sentences.size(); ++i) {
    PENSTOCK_RETURN_IF_ERROR(add(request.sentences[i], fmt::format("sentences[{}]", i)));
  }
  return Status::Ok();
}

}  // namespace

Expected<encode::EncodePlan> Service::Impl::PlanSimilarity(
    const std::shared_ptr<const SimilarityRequest>& request, RequestContext context) const {
  PENSTOCK_ASSIGN_OR_RETURN(registry::Lease<engine::EncoderEngine> engine,
                            EngineFor(request->model, Behaviour::kSimilarity));
  PENSTOCK_RETURN_IF_ERROR(CheckCount(request->sentences.size(), "sentences", options));
  if (!request->sources.empty() && request->sources.size() != request->sentences.size()) {
    return Status::InvalidArgument(fmt::format("sources has {} texts for {} sentences",
                                               request->sources.size(), request->sentences.size()),
                                   "sources");
  }
  encode::EncodePlan plan = NewPlan(std::move(engine), request->text, std::move(context));
  PENSTOCK_ASSIGN_OR_RETURN(plan.prompt,
                            ResolvePrompt(*plan.engine, request->text, false, options));
  plan.owner = request;
  PENSTOCK_RETURN_IF_ERROR(AddItems(*request, options, &plan.items));
  return plan;
}

void Service::Similarity(SimilarityRequest request, RequestContext context,
                         Callback<SimilarityResponse> done) {
  impl_->Run(
      Behaviour::kSimilarity, std::move(request), std::move(context), std::move(done),
      [this](const auto& owned, RequestContext with) {
        return impl_->PlanSimilarity(owned, std::move(with));
      },
      FillResponse);
}

}  // namespace penstock::api

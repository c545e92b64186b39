// Similarity: of one text to each of others, by their embeddings.
#include <fmt/format.h>

#include "api/request_checks.h"
#include "api/scores.h"
#include "api/service_impl.h"
#include "models/encoder.h"

namespace penstock {
namespace {

void FillResponse(const SimilarityRequest& request, EncodeOutcome* outcome,
                  SimilarityResponse* response) {
  const std::span<float> values = outcome->values;
  const auto row = [&](size_t i) { return values.subspan(i * outcome->width, outcome->width); };
  const ModelFolder& folder = outcome->engine->folder();
  for (size_t i = 0; i <= request.sentences.size(); ++i) {
    if (folder.normalize) FinishEmbedding(row(i), outcome->width, true);
    if (i > 0) response->scores.push_back(SimilarityOf(folder.similarity, row(0), row(i)));
  }
}

}  // namespace

Expected<EncodePlan> Service::Impl::PlanSimilarity(
    const std::shared_ptr<const SimilarityRequest>& request, RequestContext context) const {
  PENSTOCK_ASSIGN_OR_RETURN(EngineLease engine, EngineFor(request->model, Behaviour::kSimilarity));
  PENSTOCK_RETURN_IF_ERROR(CheckBytes(request->source, "source", options));
  PENSTOCK_RETURN_IF_ERROR(CheckCount(request->sentences.size(), "sentences", options));
  EncodePlan plan = NewPlan(std::move(engine), request->text, std::move(context));
  PENSTOCK_ASSIGN_OR_RETURN(plan.prompt,
                            ResolvePrompt(*plan.engine, request->text, false, options));
  plan.owner = request;
  plan.items.reserve(request->sentences.size() + 1);
  EncodeItem source;
  source.first = request->source;
  source.field = "source";
  plan.items.push_back(std::move(source));
  for (size_t i = 0; i < request->sentences.size(); ++i) {
    EncodeItem item;
    item.field = fmt::format("sentences[{}]", i);
    PENSTOCK_RETURN_IF_ERROR(CheckBytes(request->sentences[i], item.field, options));
    item.first = request->sentences[i];
    plan.items.push_back(std::move(item));
  }
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

}  // namespace penstock

// Reranking: a score for each document beside the query.
#include <fmt/format.h>

#include "api/request_checks.h"
#include "api/scores.h"
#include "api/service_impl.h"

namespace penstock {

Expected<EncodePlan> Service::Impl::PlanRerank(const std::shared_ptr<const RerankRequest>& request,
                                               RequestContext context) const {
  PENSTOCK_ASSIGN_OR_RETURN(EngineLease engine, EngineFor(request->model, Behaviour::kRerank));
  if (request->query.empty()) return Status::InvalidArgument("query is empty", "query");
  PENSTOCK_RETURN_IF_ERROR(CheckBytes(request->query, "query", options));
  PENSTOCK_RETURN_IF_ERROR(CheckCount(request->documents.size(), "documents", options));
  if (request->top_n && *request->top_n < 1) {
    return Status::InvalidArgument(fmt::format("top_n is {}; at least 1", *request->top_n),
                                   "top_n");
  }
  PENSTOCK_RETURN_IF_ERROR(CheckNoPrompt(request->text, Behaviour::kRerank));
  EncodePlan plan = NewPlan(std::move(engine), request->text, std::move(context));
  plan.owner = request;
  // A decoder reads query and document in one text of its own form.
  const std::optional<PairTemplate>& pair = plan.engine->folder().pair_template;
  if (pair) plan.prompt = pair->before_query + request->query + pair->before_document;
  plan.output = EncoderOutput::kLogits;
  plan.printed_value_bytes = kPrintedScoreBytes;
  plan.response_value_bytes = sizeof(RerankResponse::Item);
  plan.items.reserve(request->documents.size());
  for (size_t i = 0; i < request->documents.size(); ++i) {
    EncodeItem item;
    item.field = fmt::format("documents[{}]", i);
    PENSTOCK_RETURN_IF_ERROR(CheckBytes(request->documents[i], item.field, options));
    if (pair) {
      item.first = request->documents[i];
    } else {
      item.first = request->query;
      item.second = request->documents[i];
    }
    plan.items.push_back(std::move(item));
  }
  return plan;
}

void Service::Rerank(RerankRequest request, RequestContext context, Callback<RerankResponse> done) {
  impl_->Run(
      Behaviour::kRerank, std::move(request), std::move(context), std::move(done),
      [this](const auto& owned, RequestContext with) {
        return impl_->PlanRerank(owned, std::move(with));
      },
      [](const RerankRequest& asked, EncodeOutcome* outcome, RerankResponse* response) {
        ScoreFunction function = RerankFunction(outcome->engine->folder().encoder);
        if (asked.raw_scores) {
          function = *asked.raw_scores ? ScoreFunction::kIdentity : ScoreFunction::kSigmoid;
        }
        const auto all = static_cast<int32_t>(asked.documents.size());
        response->items = RankedItems(outcome->values, function, asked.top_n.value_or(all));
      });
}

}  // namespace penstock

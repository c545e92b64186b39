// Reranking: a score for each document beside the query, or beside a query of its own.
#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "api/request_checks.h"
#include "api/scores.h"
#include "api/service_impl.h"
#include "threads/byte_budget.h"

namespace penstock::api {
namespace {

// Each document has a query of its own.
Status CheckQueries(const RerankRequest& request, const ServiceOptions& limits) {
  if (request.queries.size() != request.documents.size()) {
    return Status::InvalidArgument(fmt::format("queries has {} texts for {} documents",
                                               request.queries.size(), request.documents.size()),
                                   "queries");
  }
  for (size_t i = 0; i < request.queries.size(); ++i) {
    const std::string field = fmt::format("queries[{}]", i);
    if (request.queries[i].empty()) return Status::InvalidArgument(field + " is empty", field);
    PENSTOCK_RETURN_IF_ERROR(CheckBytes(request.queries[i], field, limits));
  }
  return Status::Ok();
}

// What a decoder reads behind before_query, where each document has a query of its own.
struct PairTexts {
  std::shared_ptr<const RerankRequest> request;
  std::vector<std::string> texts;
};

Status UsePairTexts(const std::shared_ptr<const RerankRequest>& request,
                    const families::PairTemplate& pair, encode::EncodePlan* plan) {
  if (plan->context.memory != nullptr) {
    size_t bytes = 0;
    for (size_t i = 0; i < request->documents.size(); ++i) {
      bytes += sizeof(std::string) + request->queries[i].size() + pair.before_document.size() +
               request->documents[i].size();
    }
    PENSTOCK_RETURN_IF_ERROR(plan->context.memory->Take(static_cast<int64_t>(bytes)));
  }
  const auto owner = std::make_shared<PairTexts>();
  owner->request = request;
  owner->texts.reserve(request->documents.size());
  for (size_t i = 0; i < request->documents.size(); ++i) {
    owner->texts.push_back(request->queries[i] + pair.before_document + request->documents[i]);
    plan->items[i].first = owner->texts.back();
    plan->items[i].second.reset();
  }
  plan->prompt = pair.before_query;
  plan->owner = owner;
  return Status::Ok();
}

}  // namespace

Expected<encode::EncodePlan> Service::Impl::PlanRerank(
    const std::shared_ptr<const RerankRequest>& request, RequestContext context) const {
  PENSTOCK_ASSIGN_OR_RETURN(registry::Lease<engine::EncoderEngine> engine,
                            EngineFor(request->model, Behaviour::kRerank));
  const bool own_queries = !request->queries.empty();
  if (!own_queries) {
    if (request->query.empty()) return Status::InvalidArgument("query is empty", "query");
    PENSTOCK_RETURN_IF_ERROR(CheckBytes(request->query, "query", options));
  }
  PENSTOCK_RETURN_IF_ERROR(CheckCount(request->documents.size(), "documents", options));
  if (own_queries) PENSTOCK_RETURN_IF_ERROR(CheckQueries(*request, options));
  if (request->top_n && *request->top_n < 1) {
    return Status::InvalidArgument(fmt::format("top_n is {}; at least 1", *request->top_n),
                                   "top_n");
  }
  PENSTOCK_RETURN_IF_ERROR(CheckNoPrompt(request->text, Behaviour::kRerank));
  encode::EncodePlan plan = NewPlan(std::move(engine), request->text, std::move(context));
  plan.owner = request;
  // A decoder reads query and document in one text of its own form.
  const std::optional<families::PairTemplate>& pair = plan.engine->folder().pair_template;
  if (pair && !own_queries)
    plan.prompt = pair->before_query + request->query + pair->before_document;
  plan.output = program::EncoderOutput::kLogits;
  plan.printed_value_bytes = kPrintedScoreBytes;
  plan.response_value_bytes = sizeof(RerankResponse::Item);
  plan.items.reserve(request->documents.size());
  for (size_t i = 0; i < request->documents.size(); ++i) {
    encode::EncodeItem item;
    item.field = fmt::format("documents[{}]", i);
    PENSTOCK_RETURN_IF_ERROR(CheckBytes(request->documents[i], item.field, options));
    if (pair) {
      item.first = request->documents[i];
    } else {
      item.first = own_queries ? request->queries[i] : request->query;
      item.second = request->documents[i];
    }
    plan.items.push_back(std::move(item));
  }
  if (pair && own_queries) PENSTOCK_RETURN_IF_ERROR(UsePairTexts(request, *pair, &plan));
  return plan;
}

void Service::Rerank(RerankRequest request, RequestContext context, Callback<RerankResponse> done) {
  impl_->Run(
      Behaviour::kRerank, std::move(request), std::move(context), std::move(done),
      [this](const auto& owned, RequestContext with) {
        return impl_->PlanRerank(owned, std::move(with));
      },
      [](const RerankRequest& asked, encode::EncodeOutcome* outcome, RerankResponse* response) {
        ScoreFunction function = RerankFunction(outcome->engine->folder().encoder);
        if (asked.raw_scores) {
          function = *asked.raw_scores ? ScoreFunction::kIdentity : ScoreFunction::kSigmoid;
        }
        const auto all = static_cast<int32_t>(asked.documents.size());
        response->items = RankedItems(outcome->values, function, asked.top_n.value_or(all));
      });
}

}  // namespace penstock::api

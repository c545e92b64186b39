// Classification: a score for each label of the model.
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "api/request_checks.h"
#include "api/scores.h"
#include "api/service_impl.h"

namespace penstock::api {
namespace {

// Bytes of the longest label, printed; generated names are shorter.
int64_t PrintedLabelBytes(const families::EncoderConfig& config) {
  size_t longest = 16;
  for (const std::string& label : config.labels) longest = std::max(longest, label.size());
  return kPrintedScoreBytes + 2 * static_cast<int64_t>(longest);
}

// Every label of each input, best first.
void FillResponse(const ClassifyRequest& request, encode::EncodeOutcome* outcome,
                  ClassifyResponse* response) {
  const families::EncoderConfig& config = outcome->engine->folder().encoder;
  const ScoreFunction function =
      request.raw_scores ? ScoreFunction::kIdentity : ClassifyFunction(config, outcome->width);
  response->labels = config.labels;
  // transformers names labels so where config.json has no id2label.
  while (static_cast<int32_t>(response->labels.size()) < outcome->width) {
    response->labels.push_back(fmt::format("LABEL_{}", response->labels.size()));
  }
  for (size_t i = 0; i < request.inputs.size(); ++i) {
    const auto row = std::span(outcome->values).subspan(i * outcome->width, outcome->width);
    ApplyScoreFunction(function, row);
    response->inputs.push_back(SortedLabels(row));
  }
}

}  // namespace

Expected<encode::EncodePlan> Service::Impl::PlanClassify(
    const std::shared_ptr<const ClassifyRequest>& request, RequestContext context) const {
  PENSTOCK_ASSIGN_OR_RETURN(registry::Lease<engine::EncoderEngine> engine,
                            EngineFor(request->model, Behaviour::kClassify));
  PENSTOCK_RETURN_IF_ERROR(CheckCount(request->inputs.size(), "inputs", options));
  PENSTOCK_RETURN_IF_ERROR(CheckNoPrompt(request->text, Behaviour::kClassify));
  encode::EncodePlan plan = NewPlan(std::move(engine), request->text, std::move(context));
  plan.owner = request;
  plan.output = program::EncoderOutput::kLogits;
  plan.printed_value_bytes = PrintedLabelBytes(plan.engine->folder().encoder);
  plan.response_value_bytes = sizeof(ClassifyResponse::Label);
  plan.items.reserve(request->inputs.size());
  for (size_t i = 0; i < request->inputs.size(); ++i) {
    const ClassifyInput& input = request->inputs[i];
    encode::EncodeItem item;
    item.field = fmt::format("inputs[{}]", i);
    PENSTOCK_RETURN_IF_ERROR(CheckBytes(input.first, item.field, options));
    item.first = input.first;
    if (plan.engine->folder().pair_template) {
      return Status::InvalidArgument(
          fmt::format("model '{}' scores documents for a query: ask it to rerank",
                      plan.engine->name()),
          "model");
    }
    if (input.second) {
      PENSTOCK_RETURN_IF_ERROR(CheckBytes(*input.second, item.field, options));
      item.second = *input.second;
    }
    plan.items.push_back(std::move(item));
  }
  return plan;
}

void Service::Classify(ClassifyRequest request, RequestContext context,
                       Callback<ClassifyResponse> done) {
  impl_->Run(
      Behaviour::kClassify, std::move(request), std::move(context), std::move(done),
      [this](const auto& owned, RequestContext with) {
        return impl_->PlanClassify(owned, std::move(with));
      },
      FillResponse);
}

}  // namespace penstock::api

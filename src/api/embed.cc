// Embeddings: of whole texts, and of each token.
#include <fmt/format.h>

#include <algorithm>

#include "api/request_checks.h"
#include "api/scores.h"
#include "api/service_impl.h"
#include "log/log.h"
#include "models/encoder.h"

namespace penstock::api {
namespace {

// Whether an input is over a limit, and where.
Status CheckInputs(const std::vector<Input>& inputs, const ServiceOptions& options) {
  PENSTOCK_RETURN_IF_ERROR(CheckCount(inputs.size(), "inputs", options));
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::string field = fmt::format("inputs[{}]", i);
    if (inputs[i].is_ids && inputs[i].ids.empty()) {
      return Status::InvalidArgument(field + " has no token ids", field);
    }
    PENSTOCK_RETURN_IF_ERROR(CheckBytes(inputs[i].text, field, options));
  }
  return Status::Ok();
}

}  // namespace

void Service::Impl::WarnOfForeignIds(const engine::EncoderEngine& engine,
                                     const std::vector<Input>& inputs) {
  const text::Tokenizer& tokenizer = engine.tokenizer();
  if (tokenizer.special_tokens_single() == 0) return;
  const bool foreign = std::any_of(inputs.begin(), inputs.end(), [&](const Input& input) {
    return input.is_ids && !input.ids.empty() && !tokenizer.IsSpecial(input.ids.front()) &&
           !tokenizer.IsSpecial(input.ids.back());
  });
  if (!foreign) return;
  {
    const std::lock_guard lock(warned_mutex);
    if (!warned.insert(engine.name()).second) return;
  }
  LogWarn(
      "model '{}' gets token ids without its special tokens: likely those of another tokenizer, "
      "for which its vectors are worthless (LangChain's OpenAIEmbeddings sends OpenAI's unless it "
      "has check_embedding_ctx_length=False); --no-token-input refuses ids",
      engine.name());
}

Expected<encode::EncodePlan> Service::Impl::PlanEmbed(
    const std::shared_ptr<const EmbedRequest>& request, RequestContext context,
    Behaviour behaviour) {
  PENSTOCK_ASSIGN_OR_RETURN(registry::Lease<engine::EncoderEngine> engine,
                            EngineFor(request->model, behaviour));
  PENSTOCK_RETURN_IF_ERROR(CheckInputs(request->inputs, options));
  if (request->dimensions) {
    const int32_t size = engine->info().embedding_size;
    if (*request->dimensions < 1 || *request->dimensions > size) {
      return Status::InvalidArgument(fmt::format("dimensions is {}; model '{}' has 1 to {}",
                                                 *request->dimensions, engine->name(), size),
                                     "dimensions");
    }
  }
  const bool with_ids = std::any_of(request->inputs.begin(), request->inputs.end(),
                                    [](const Input& input) { return input.is_ids; });
  if (with_ids) WarnOfForeignIds(*engine, request->inputs);
  encode::EncodePlan plan = NewPlan(std::move(engine), request->text, std::move(context));
  PENSTOCK_ASSIGN_OR_RETURN(plan.prompt,
                            ResolvePrompt(*plan.engine, request->text, with_ids, options));
  plan.owner = request;
  plan.add_special_tokens = request->add_special_tokens;
  plan.output = behaviour == Behaviour::kEmbedAll ? program::EncoderOutput::kTokens
                                                  : program::EncoderOutput::kPooled;
  plan.printed_value_bytes = std::max(encode::kPrintedFloatBytes, request->printed_value_bytes);
  plan.items.reserve(request->inputs.size());
  for (size_t i = 0; i < request->inputs.size(); ++i) {
    const Input& input = request->inputs[i];
    encode::EncodeItem item;
    item.first = input.text;
    item.ids = input.ids;
    item.is_ids = input.is_ids;
    item.field = input.single ? "inputs" : fmt::format("inputs[{}]", i);
    plan.items.push_back(std::move(item));
  }
  return plan;
}

void Service::Embed(EmbedRequest request, RequestContext context, Callback<EmbedResponse> done) {
  impl_->Run(
      Behaviour::kEmbed, std::move(request), std::move(context), std::move(done),
      [this](const auto& owned, RequestContext with) {
        return impl_->PlanEmbed(owned, std::move(with), Behaviour::kEmbed);
      },
      [](const EmbedRequest& asked, encode::EncodeOutcome* outcome, EmbedResponse* response) {
        response->dimensions = asked.dimensions.value_or(outcome->width);
        response->values = std::move(outcome->values);
        FinishEmbeddings(outcome->width, response->dimensions,
                         asked.normalize.value_or(outcome->engine->folder().normalize),
                         &response->values);
      });
}

void Service::EmbedAll(EmbedRequest request, RequestContext context,
                       Callback<EmbedAllResponse> done) {
  impl_->Run(
      Behaviour::kEmbedAll, std::move(request), std::move(context), std::move(done),
      [this](const auto& owned, RequestContext with) -> Expected<encode::EncodePlan> {
        if (owned->dimensions) {
          return Status::InvalidArgument("token embeddings are not cut: leave dimensions out",
                                         "dimensions");
        }
        return impl_->PlanEmbed(owned, std::move(with), Behaviour::kEmbedAll);
      },
      [](const EmbedRequest& asked, encode::EncodeOutcome* outcome, EmbedAllResponse* response) {
        response->dimensions = outcome->width;
        response->values = std::move(outcome->values);
        if (asked.normalize.value_or(false)) {
          const std::span<float> values = response->values;
          for (size_t i = 0; i < values.size(); i += outcome->width) {
            models::FinishEmbedding(values.subspan(i, outcome->width), outcome->width, true);
          }
        }
        response->token_counts = std::move(outcome->lengths);
      });
}

}  // namespace penstock::api

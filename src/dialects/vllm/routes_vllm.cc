// The routes that vLLM alone has. Its form of /tokenize is in routes_tei.cc.
#include <ctime>

#include "dialects/shared/answer.h"
#include "dialects/shared/rows.h"
#include "dialects/vllm/vllm.h"

namespace penstock::dialects {
namespace {

using serving::About;
using serving::Route;
using serving::RouteCall;

// The model of that name; "" = the first reranker, else the first that embeds.
Expected<api::ModelInfo> FindScorer(const api::Service& service, const std::string& name) {
  if (!name.empty()) return service.Model(name);
  for (const char* const task : {"reranking", "embedding"}) {
    for (api::ModelInfo& model : service.Models()) {
      if (model.task == task) return std::move(model);
    }
  }
  return service.Model(name);
}

// In the order of the documents.
std::vector<float> ByDocument(const std::vector<api::RerankResponse::Item>& items) {
  std::vector<float> scores(items.size());
  for (const auto& item : items) scores.at(static_cast<size_t>(item.index)) = item.score;
  return scores;
}

// A reranker gives its scores, a model of embeddings their similarity.
void Score(const RouteCall& call, const JsonObject& object) {
  auto parsed = ParseScore(object, call.service->options());
  if (!parsed.ok()) return call.Fail(parsed.status());
  const auto model = FindScorer(*call.service, parsed->model);
  if (!model.ok()) return call.Fail(model.status());
  if (parsed->model.empty()) parsed->model = model->name;
  frontend::FieldNames names = parsed->names;
  const auto print = [request = call.request](const auto& response, std::vector<float> scores) {
    return PrintScores({response.model, std::move(scores), response.usage, response.truncation},
                       request->id, std::time(nullptr));
  };
  if (model->task == "embedding") {
    return call.service->Similarity(
        (*std::move(parsed)).ToSimilarity(), call.request->context,
        Answer<api::SimilarityResponse>(call, std::move(names),
                                        [print](const api::SimilarityResponse& response) {
                                          return print(response, response.scores);
                                        }));
  }
  call.service->Rerank((*std::move(parsed)).ToRerank(), call.request->context,
                       Answer<api::RerankResponse>(
                           call, std::move(names), [print](const api::RerankResponse& response) {
                             return print(response, ByDocument(response.items));
                           }));
}

void Pooling(const RouteCall& call, const JsonObject& object) {
  auto parsed = ParsePooling(object, call.service->options());
  if (!parsed.ok()) return call.Fail(parsed.status());
  api::EmbedRequest& request = parsed->request;
  const auto model = call.service->Model(request.model);
  if (!model.ok()) return call.Fail(model.status());
  const PoolingTask task = parsed->task.value_or(PoolingTaskOf(model->task));
  const frontend::FieldNames names = {{"inputs", "input"}};
  const auto print = [http = call.request](const auto& response) {
    return PrintPooled(response, http->id, std::time(nullptr));
  };
  if (task == PoolingTask::kEmbed) {
    return call.service->Embed(
        std::move(request), call.request->context,
        Answer<api::EmbedResponse>(
            call, names,
            [http = call.request, base64 = parsed->base64](const api::EmbedResponse& response) {
              return PrintPooled(response, http->id, std::time(nullptr), base64);
            }));
  }
  if (parsed->base64) {
    return call.Fail(Status::InvalidArgument(
        "'encoding_format' must be \"float\", unless the task is \"embed\"", "encoding_format"));
  }
  if (task == PoolingTask::kTokenEmbed) {
    return call.service->EmbedAll(std::move(request), call.request->context,
                                  Answer<api::EmbedAllResponse>(call, names, print));
  }
  auto classify = ToClassify(std::move(request));
  if (!classify.ok()) return call.Fail(classify.status());
  call.service->Classify(*std::move(classify), call.request->context,
                         Answer<api::ClassifyResponse>(call, names, print));
}

void VllmVersion(const RouteCall& call) { call.Ok(R"({"version":")" PENSTOCK_VERSION R"("})"); }

constexpr Route kVllmRoutes[] = {
    {"POST", "/score", kOpenAiErrors, WithObject<Score>,
     About("How well texts fit one, as vLLM has it", "ScoreRequest", "Scores")},
    {"POST", "/v1/score", kOpenAiErrors, WithObject<Score>,
     About("The same as /score", "ScoreRequest", "Scores")},
    {"POST", "/pooling", kOpenAiErrors, WithObject<Pooling>,
     About("Vectors, of texts or of their tokens, or scores of labels, as vLLM has it",
           "PoolingRequest", "Pooled")},
    {"GET", "/version", kOpenAiErrors, VllmVersion,
     About("The version of Penstock, in vLLM's form", nullptr, "Version")},
};

}  // namespace

std::span<const serving::Route> VllmRoutes() { return kVllmRoutes; }

}  // namespace penstock::dialects

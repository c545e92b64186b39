#include "dialects/shared/answer.h"

namespace penstock::dialects {

void AddRunStages(const api::Service& service, http::HttpResponse* response) {
  const encode::RunStages stages = service.options().run_stages;
  if (stages == encode::RunStages::kAll) return;
  response->headers.emplace_back("X-Penstock-Run-Stages",
                                 stages == encode::RunStages::kInfer ? "infer" : "tokenize");
}

}  // namespace penstock::dialects

#include "dialects/list.h"

#include "dialects/shared/errors.h"
#include "dialects/shared/rows.h"

namespace penstock::dialects {

const serving::RouteTable& AllRoutes() {
  static const serving::DialectRoutes kDialects[] = {
      {OpenAiRoutes(), {{"/v1/", kOpenAiErrors}}},
      {ChatRoutes()},
      {ResponsesRoutes()},
      {MessagesRoutes()},
      {TgiRoutes()},
      {CohereRoutes()},
      {RerankRoutes()},
      {ClassifyRoutes()},
      {TeiRoutes()},
      {VertexRoutes()},
      {VllmRoutes()},
      {LlamaRoutes()},
      {BatchRoutes()},
      {OllamaRoutes(), {{"/api/", kOllamaErrors}}},
      {PullRoutes()},
      {BulkRoutes()},
      {ModelRoutes()},
      {KserveRoutes(), {{"/v2/", kKserveErrors}}},
      {UiRoutes()},
      {MetaRoutes()},
  };
  static const serving::RouteTable table(kDialects, kTeiErrors);
  return table;
}

}  // namespace penstock::dialects

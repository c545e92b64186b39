#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dialects/list.h"
#include "dialects/schemas.h"
#include "dialects/shared/errors.h"
#include "json/json.h"
#include "serving/openapi.h"
#include "serving/path_pattern.h"

namespace penstock::server {
namespace {

using serving::About;
using serving::PrintOpenApi;
using serving::Route;

TEST(OpenApi, EveryRouteHasASummary) {
  for (const Route& route : dialects::AllRoutes().routes())
    EXPECT_STRNE(route.about.summary, "") << route.path;
}

TEST(OpenApi, TheDocumentHoldsTheRoutesAndTheSchemasTheyName) {
  const auto document =
      JsonDocument::Parse(PrintOpenApi(dialects::AllRoutes().routes(), dialects::kSchemas));
  ASSERT_TRUE(document.ok()) << document.status().ToString();
  const JsonObject root = *document->Object();
  const JsonObject paths = *root.GetObject("paths");
  const JsonObject schemas = *(*root.GetObject("components")).GetObject("schemas");
  size_t operations = 0;
  paths.ForEach([&](std::string_view, JsonElement operation) {
    JsonObject methods;
    ASSERT_TRUE(operation.Get(&methods));
    operations += methods.size();
  });
  EXPECT_EQ(operations, dialects::AllRoutes().routes().size());
  EXPECT_TRUE((*paths.GetObject("/v1/models/{id}")).Has("get"));
  EXPECT_TRUE((*paths.GetObject("/")).Has("get"));
  EXPECT_TRUE((*paths.GetObject("/")).Has("post"));
  const JsonObject sparse = *(*paths.GetObject("/embed_sparse")).GetObject("post");
  EXPECT_TRUE((*sparse.GetObject("responses")).Has("424"));
  const JsonObject infer =
      *(*paths.GetObject("/v2/models/{model}/versions/{version}/infer")).GetObject("post");
  EXPECT_EQ(*infer.GetString("operationId"), "post_v2_models_model_versions_version_infer");
  EXPECT_EQ((*infer.GetArray("parameters")).size(), 6u);
  for (const Route& route : dialects::AllRoutes().routes()) {
    for (const char* schema : {route.about.request, route.about.answer, route.about.event}) {
      if (schema != nullptr) {
        EXPECT_TRUE(schemas.Has(schema)) << schema;
      }
    }
  }
}

TEST(OpenApi, ARouteSaysWhatItsErrorsLookLike) {
  const Route added = {"POST", "/added", dialects::kRerankErrors, nullptr, About("Added")};
  const std::string text = PrintOpenApi({&added, 1}, "{}");
  EXPECT_THAT(text, testing::HasSubstr(R"("/added":{"post":{"operationId":"post_added",)"));
  EXPECT_THAT(text, testing::HasSubstr("schemas/RerankError"));
}

// A request gets the first route that matches.
TEST(AllRoutes, MoreSpecificRoutesStandFirst) {
  size_t last = SIZE_MAX;
  bool with_parts = false;
  for (const Route& route : dialects::AllRoutes().routes()) {
    if (serving::PathPartNames(route.path).empty()) {
      EXPECT_FALSE(with_parts) << route.path;
      continue;
    }
    with_parts = true;
    EXPECT_LE(serving::LiteralLength(route.path), last) << route.path;
    last = serving::LiteralLength(route.path);
  }
  EXPECT_TRUE(with_parts);
}

}  // namespace
}  // namespace penstock::server

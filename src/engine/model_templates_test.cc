#include "engine/model_templates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/temp_folder_test_util.h"

namespace penstock::engine {
namespace {

using testing::AllOf;
using testing::HasSubstr;

ModelTemplates Made(const families::ChatTemplates& own, const std::string& given = "") {
  auto made = ModelTemplates::Make(own, given, "m");
  EXPECT_TRUE(made.ok()) << made.status().ToString();
  return *std::move(made);
}

TEST(ModelTemplates, ToolUseIsForRequestsWithTools) {
  const ModelTemplates both = Made({{{"default", "d"}, {"tool_use", "t"}, {"rag", "r"}}});
  EXPECT_EQ(both.For(false)->source(), "d");
  EXPECT_EQ(both.For(true)->source(), "t");
  const ModelTemplates one = Made({{{"default", "d"}}});
  EXPECT_EQ(one.For(true)->source(), "d");
  // Of the two only one may be of use.
  const ModelTemplates tools = Made({{{"tool_use", "t"}}});
  EXPECT_EQ(tools.For(true)->source(), "t");
  EXPECT_THAT(tools.For(false).status().message(),
              AllOf(HasSubstr("no default"), HasSubstr("tool_use"), HasSubstr("--chat-template")));
}

TEST(ModelTemplates, WithoutOneTheErrorSaysWhatHelps) {
  const ModelTemplates none = Made({});
  for (const bool tools : {false, true}) {
    EXPECT_EQ(none.For(tools).status().code(), StatusCode::kUnsupported);
    EXPECT_EQ(none.For(tools).status().field(), "messages");
    EXPECT_THAT(none.For(tools).status().message(),
                AllOf(HasSubstr("'m' has no chat template"), HasSubstr("--chat-template")));
  }
  const ModelTemplates broken = Made({{{"default", "{% nothing %}"}}});
  EXPECT_THAT(broken.For(false).status().message(),
              AllOf(HasSubstr("cannot be used"), HasSubstr("nothing")));
}

TEST(ModelTemplates, ANameOrAFileIsForAllRequests) {
  const families::ChatTemplates own = {{{"default", "d"}, {"tool_use", "t"}, {"rag", "r"}}};
  EXPECT_EQ(Made(own, "rag").For(true)->source(), "r");
  EXPECT_EQ(Made(own, "rag").For(false)->source(), "r");
  const TempFolder folder;
  const std::string file = folder.Write("own.jinja", "f{{ 1 }}");
  EXPECT_EQ(Made(own, file).For(true)->source(), "f{{ 1 }}");
  EXPECT_EQ(Made({}, file).For(false)->source(), "f{{ 1 }}");
  std::ofstream(file) << "{% if %}";
  const auto broken = ModelTemplates::Make(own, file, "m");
  EXPECT_EQ(broken.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(broken.status().message(), HasSubstr(file));
  const auto missing = ModelTemplates::Make(own, "rga", "m");
  EXPECT_EQ(missing.status().code(), StatusCode::kNotFound);
  EXPECT_THAT(missing.status().message(),
              AllOf(HasSubstr("--chat-template rga"), HasSubstr("default, rag, tool_use")));
}

}  // namespace
}  // namespace penstock::engine

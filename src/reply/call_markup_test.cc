#include "reply/call_markup.h"

#include <gtest/gtest.h>

#include "reply/reply_parser.h"

namespace penstock::reply {
namespace {

// What the markup says is what the parser reads, one call or three.
TEST(CallMarkup, IsReadAsCalls) {
  for (const ToolForm form : {ToolForm::kHermes, ToolForm::kLlama, ToolForm::kMistral,
                              ToolForm::kMistralNames, ToolForm::kQwenCoder}) {
    ReplyOptions options;
    options.format.tools = form;
    options.tools =
        std::make_shared<const ToolSet>(std::vector<ReplyTool>{{"add", ""}, {"say", ""}});
    const auto markup = CallMarkupOf(options.format);
    ASSERT_TRUE(markup);
    for (const int calls : {1, 3}) {
      std::string text = markup->begin;
      for (int i = 0; i < calls; ++i) {
        text += (i > 0 ? markup->separator : "") + markup->before_name + (i == 1 ? "say" : "add") +
                markup->before_arguments +
                (markup->has_parameters ? "<parameter=a>\n[1, \"}\"]\n</parameter>\n"
                                        : R"({"a": [1, "}"]})") +
                markup->after;
      }
      text += markup->end;
      ReplyParser parser(options);
      std::vector<ReplyDelta> deltas;
      parser.Add(text, &deltas);
      parser.Finish(&deltas);
      EXPECT_EQ(parser.calls(), calls) << text;
      for (const ReplyDelta& delta : deltas) {
        EXPECT_NE(delta.kind, ReplyDelta::Kind::kContent) << delta.text << " of " << text;
      }
    }
  }
}

TEST(CallMarkup, ModelsWithoutCallsHaveNone) { EXPECT_FALSE(CallMarkupOf(ReplyFormat())); }

}  // namespace
}  // namespace penstock::reply

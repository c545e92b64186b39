// What a conversation takes of the heap, beside what is counted of it; and what is left if memory
// runs out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "base/failing_new.h"
#include "chat/chat_template.h"
#include "chat/json_value.h"
#include "json/json.h"
#include "threads/held_memory.h"
#include "threads/request_context.h"

namespace penstock::chat {
namespace {

using testing::HasSubstr;

TEST(JsonValue, ACopyWithoutMemoryLeavesNothing) {
  const JsonValue::Object small = {
      {"a name that is not a short string", "a text that is not a short string"}};
  const JsonValue whole(JsonValue::Array{small, "another text that is not a short string", small});
  int64_t n = 0;
  for (bool failed = true; failed;) {
    const FailingNew fail(++n);
    try {
      JsonValue copy = whole;
      copy.Set("x", whole);
    } catch (const std::bad_alloc&) {
    }
    failed = fail.failed();
  }
  EXPECT_GT(n, 10);
}

// As a connection, the router and JsonValue take it.
constexpr int64_t kPerBodyByte = 4, kPerParsedByte = 16;
constexpr size_t kShapeBytes = 1'200'000;

std::string Times(const std::string& item, const std::string& open = "[",
                  const std::string& close = "]") {
  std::string text = open + item;
  while (text.size() + item.size() + 1 < kShapeBytes) text += "," + item;
  return text + close;
}

// Objects of at most 4,000 members "k0", "k1", ... with this value.
std::string Objects(const std::string& value, size_t members) {
  std::string object = "{";
  for (size_t i = 0; i < members; ++i) {
    object += (i > 0 ? ",\"k" : "\"k") + std::to_string(i) + "\":" + value;
  }
  return Times(object + "}");
}

std::string Nested(const std::string& open, const std::string& close, int levels) {
  std::string text;
  for (int i = 0; i < levels; ++i) text += open;
  for (int i = 0; i < levels; ++i) text += close;
  return Times(text);
}

std::vector<std::pair<std::string, std::string>> Shapes() {
  const auto quoted = [](size_t bytes, const char* what = "x") {
    std::string text = "\"";
    while (text.size() <= bytes) text += what;
    return text + "\"";
  };
  std::vector<std::pair<std::string, std::string>> shapes = {
      {"zeros", Times("0")},
      {"numbers", Times("-123456789")},
      {"fractions", Times("1.5e300")},
      {"large integers", Times("123456789012345678901")},
      {"nulls", Times("null")},
      {"truths", Times("true,false")},
      {"empty arrays", Times("[]")},
      {"empty objects", Times("{}")},
      {"empty texts", Times("\"\"")},
      {"arrays of a number", Times("[0]")},
      {"arrays of two", Times("[0,0]")},
      {"arrays of nine", Times("[0,0,0,0,0,0,0,0,0]")},
      {"arrays of a text", Times("[\"\"]")},
      {"objects of a number", Times(R"({"":0})")},
      {"objects of a text", Times(R"({"a":"b"})")},
      {"objects of an object", Times(R"({"a":{}})")},
      {"objects of an array", Times(R"({"a":[]})")},
      {"a key twice", Times(R"({"a":0,"a":0})")},
      {"messages", Times(R"({"role":"user","content":"Good morning, how are you?"})")},
      {"one text", quoted(kShapeBytes)},
      {"one text of escapes", quoted(kShapeBytes, "\\n")},
      {"one text of code points", quoted(kShapeBytes, "\\u00e9")},
      {"texts of escapes", Times(quoted(20, "\\u0001"))},
      {"texts in three bytes a character", Times(quoted(30, "\xe2\x82\xac"))},
  };
  for (const size_t bytes : {1, 15, 16, 24, 40, 100, 1000}) {
    shapes.emplace_back("texts of " + std::to_string(bytes), Times(quoted(bytes)));
  }
  for (const size_t members : {2, 8, 9, 17, 200, 4000}) {
    shapes.emplace_back("objects of " + std::to_string(members), Objects("0", members));
  }
  shapes.emplace_back("objects of objects", Objects("{}", 100));
  shapes.emplace_back("keys of 40", Times(R"({"a key that has as many as forty letters!":0})"));
  for (const int levels : {2, 10, 50}) {
    shapes.emplace_back(std::to_string(levels) + " levels of arrays", Nested("[", "]", levels));
  }
  shapes.emplace_back("levels of objects", Times(R"({"a":{"a":{"a":{"a":{"a":0}}}}})"));
  return shapes;
}

// What becomes of a variable of a request, from its body to the text that the template makes.
Status Use(const std::string& shape, int64_t budget_bytes) {
  const auto budget = std::make_shared<ByteBudget>(budget_bytes);
  RequestContext context;
  context.memory = std::make_shared<RequestMemory>(budget, Priority::kInteractive);
  const std::string body = R"({"v":)" + shape + "}";
  const auto bytes = static_cast<int64_t>(body.size());
  PENSTOCK_RETURN_IF_ERROR(context.memory->Take(bytes * kPerBodyByte));
  HeldMemory held(context.memory);
  ChatInput input;
  {
    ScopedMemory parsing(context.memory.get());
    PENSTOCK_RETURN_IF_ERROR(parsing.Take(bytes * kPerParsedByte));
    PENSTOCK_ASSIGN_OR_RETURN(const JsonDocument document, JsonDocument::Parse(body));
    JsonValue::Limits limits;
    limits.members_max = 4096;
    limits.context = &context;
    limits.memory = &held;
    PENSTOCK_ASSIGN_OR_RETURN(input.variables, JsonValue::Copy(document.root(), limits));
  }
  PENSTOCK_ASSIGN_OR_RETURN(const ChatTemplate shown,
                            ChatTemplate::Parse("{{ v|tojson|length }}{{ v|length }}"));
  const auto text = shown.Render(input, &context);
  // A shape may be more than one rendering may take; what it took until then was counted.
  return text.ok() || text.code() == StatusCode::kUnprocessable ? Status::Ok() : text.status();
}

TEST(ConversationMemory, IsCountedInEveryShape) {
  const auto shapes = Shapes();
  EXPECT_EQ(shapes.size(), 43u);
  for (const auto& [name, shape] : shapes) {
    const LiveBytes live;
    const Status used = Use(shape, int64_t{1} << 40);
    ASSERT_TRUE(used.ok()) << name << ": " << used.ToString();
    // A budget in which it does not fit by a quarter must not have been enough.
    const auto most = static_cast<int64_t>(static_cast<double>(live.peak()) / 1.25);
    EXPECT_EQ(Use(shape, most).code(), StatusCode::kPayloadTooLarge)
        << name << " holds " << live.peak() << " bytes within a budget of " << most;
  }
}

// The parser's memory is not counted for small bodies, which io threads parse one after the other.
TEST(ConversationMemory, OfTheParserIsBoundedByTheText) {
  for (const auto& [name, shape] : Shapes()) {
    const LiveBytes live;
    ASSERT_TRUE(JsonDocument::Parse(shape).ok()) << name;
    EXPECT_LT(live.peak(), 20 * static_cast<int64_t>(shape.size())) << name;
  }
}

TEST(ConversationMemory, GoesWithTheRendering) {
  const auto budget = std::make_shared<ByteBudget>(64 << 20);
  RequestContext context;
  context.memory = std::make_shared<RequestMemory>(budget, Priority::kInteractive);
  const auto shown = ChatTemplate::Parse("{{ ('a' * 1000000)|length }}");
  ASSERT_TRUE(shown.ok());
  EXPECT_EQ(shown->Render({}, &context).value(), "1000000");
  EXPECT_EQ(budget->used(), 0);
  const auto large = ChatTemplate::Parse("{{ ('a' * 100000000)|length }}");
  ASSERT_TRUE(large.ok());
  const Status refused = large->Render({}, &context).status();
  EXPECT_EQ(refused.code(), StatusCode::kPayloadTooLarge) << refused.ToString();
  EXPECT_THAT(refused.message(), HasSubstr("--max-inflight-bytes"));
  EXPECT_EQ(budget->used(), 0);
  // Beside another request that holds it, it is to come back.
  RequestMemory other(budget, Priority::kInteractive);
  ASSERT_TRUE(other.Take((63 << 20) + (512 << 10)).ok());
  const Status later = shown->Render({}, &context).status();
  EXPECT_EQ(later.code(), StatusCode::kResourceExhausted);
  EXPECT_GT(later.retry_after_s(), 0);
}

// A text that grows, beside its old place.
TEST(ConversationMemory, OfARenderingStaysWithinItsLimit) {
  jinja::Limits limits;
  limits.memory_bytes = 24 << 20;
  for (const char* const source : {
           "{{ ('a' * 100000).replace('a', 'b' * 200)|length }}",
           "{{ ('a\\n' * 100000)|indent(150)|length }}",
           "{{ ('ab' * 100).join('a' * 70000)|length }}",
           "{% for a in range(17000) %}{{ 'x' * 1000 }}{% endfor %}",
           "{% set b %}{% for a in range(17000) %}{{ 'x' * 1000 }}{% endfor %}{% endset %}",
           "{{ 'x'.ljust(17000000)|length }}",
           "{{ ([1] * 150000)|sort|length }}",
           "{{ ([[1]] * 250000)|groupby(0)|length }}",
           "{{ ([1] * 500000)|slice(2)|list|length }}",
           "{{ ('%s' % ('x' * 9000000))|length }}",
           "{{ ('\u0390' * 3000000)|upper|length }}",
           "{{ 'a'|map(*(['map'] * 4000))|list|length }}",
           "{{ [1]|sort(attribute='a,' * 150000)|length }}",
           "{{ raise_exception('x' * 10000000) }}",
       }) {
    const auto shown = ChatTemplate::Parse(source, limits);
    ASSERT_TRUE(shown.ok()) << source;
    const LiveBytes live;
    (void)shown->Render({}).ok();
    EXPECT_LT(live.peak(), (24 << 20) + (1 << 20)) << source;
  }
}

// What operators, filters and calls need beside what they are given and what they make.
TEST(ConversationMemory, OfTemporariesIsCounted) {
  for (const char* const source : {
           "{{ ([1] * 100000)|sort|length }}",
           "{{ ([[1]] * 100000)|groupby(0)|length }}",
           "{{ dict.fromkeys(range(50000))|dictsort|length }}",
           "{{ range(50000)|unique|list|length }}",
           "{{ ([1] * 100000)|map('abs')|list|length }}",
           "{{ ([1] * 100000)|select('odd')|list|length }}",
           "{{ ([1] * 100000)|reverse|list|length }}",
           "{{ ([1] * 100000)|slice(3)|list|length }}",
           "{{ ([1] * 100000)|batch(3)|list|length }}",
           "{{ ([1] * 100000 + [2] * 100000)|length }}",
           "{{ ([1] * 100000 * 2)|length }}",
           "{{ ('x' * 2000000 * 2)|length }}",
           "{{ ('x' * 2000000 + 'y' * 2000000)|length }}",
           "{{ ('x' * 2000000 ~ 'y' * 2000000)|length }}",
           "{{ ('%s' % ('x' * 2000000))|length }}",
           "{{ ('%9s|%r' % ('x' * 2000000, 'y'))|length }}",
           "{{ '{:>9}'.format('x' * 2000000)|length }}",
           "{{ '{!r}'.format('x' * 2000000)|length }}",
           "{% set d = dict.fromkeys(range(50000)|map('string')) %}{{ '{x}'.format_map(d) }}",
           "{{ ('\u0390' * 500000)|upper|length }}",
           "{{ ('\u0390' * 500000)|title|length }}",
           "{{ ('\u0390' * 500000).title()|length }}",
           "{{ ('\u0390' * 500000).swapcase()|length }}",
           "{{ ('\u0130' * 500000)|lower|length }}",
           "{{ ('\u0130' * 500000)|capitalize|length }}",
           "{{ ('\u00e4' * 500000)[::-1]|length }}",
           "{{ dict.fromkeys(range(50000)).items()|string|length }}",
           "{{ ('a' * 2000000).rfind('a' * 1000000) }}",
           "{{ ('a' * 2000000).rsplit('a' * 1000000)|length }}",
           "{{ ('a' * 2000000).rpartition('a' * 1000000)|length }}",
           "{{ 'a'|indent(2000000, true)|length }}",
           "{{ [1]|tojson(indent=2000000)|length }}",
           "{{ [1]|tojson(separators=('x' * 2000000, 'y' * 2000000))|length }}",
           "{{ dict.fromkeys(range(50000))|tojson(sort_keys=true)|length }}",
           "{{ ('[' ~ '0,' * 50000 ~ '0]')|from_json|length }}",
           "{{ [1]|sort(attribute='a,' * 20000)|length }}",
           "{{ [1]|map(attribute='a.' * 20000)|list|length }}",
           "{{ 'a'|map(*(['map'] * 400))|list|length }}",
           "{{ cycler(*([1] * 100000)).items|length }}",
           "{% macro m() %}{{ varargs|length }}{% endmacro %}{{ m(*([1] * 100000)) }}",
           "{% for i in [1] * 100000 if i %}{% if loop.first %}{{ loop.length }}{% endif %}"
           "{% endfor %}",
           "{{ raise_exception('x' * 2000000) }}",
           "{{ {}['x' * 2000000]() }}",
       }) {
    const auto shown = ChatTemplate::Parse(source);
    ASSERT_TRUE(shown.ok()) << source << shown.status().ToString();
    const auto render = [&](int64_t budget_bytes) {
      RequestContext context;
      context.memory = std::make_shared<RequestMemory>(std::make_shared<ByteBudget>(budget_bytes),
                                                       Priority::kInteractive);
      return shown->Render({}, &context).status();
    };
    constexpr int64_t kEnough = int64_t{1} << 40;
    (void)render(kEnough);  // tables that are made once, whoever needs them first
    const LiveBytes live;
    EXPECT_NE(render(kEnough).code(), StatusCode::kUnprocessable) << source;
    // A budget in which it does not fit by a quarter must not have been enough.
    const auto most = static_cast<int64_t>(static_cast<double>(live.peak()) / 1.25);
    EXPECT_EQ(render(most).code(), StatusCode::kPayloadTooLarge)
        << source << " takes " << live.peak() << " bytes within a budget of " << most;
  }
}

TEST(ConversationMemory, ARenderingThatIsNotWantedEnds) {
  RequestContext context;
  context.cancel = std::make_shared<CancelToken>();
  context.cancel->Cancel();
  ChatInput input;
  input.variables.Set("v", JsonValue::Array(5000));
  const auto shown = ChatTemplate::Parse("{{ v|length }}");
  ASSERT_TRUE(shown.ok());
  EXPECT_EQ(shown->Render(input, &context).code(), StatusCode::kCancelled);
  EXPECT_EQ(shown->Render(input).value(), "5000");
}

}  // namespace
}  // namespace penstock::chat

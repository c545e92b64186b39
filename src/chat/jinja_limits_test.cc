// Templates and inputs that ask for too much end with an error that says what it was.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <iostream>

#include "base/one_hash_test_util.h"
#include "chat/chat_template.h"

namespace penstock::chat {
namespace {

using testing::HasSubstr;

std::string Repeated(std::string_view text, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += text;
  return out;
}

Status Failure(const std::string& source, const jinja::Limits& limits = {}) {
  const auto parsed = ChatTemplate::Parse(source, limits);
  if (!parsed.ok()) return parsed.status();
  return parsed->Render({}).status();
}

// Fails by the limit of what `what` names.
void ExpectLimit(const std::string& source, const std::string& what,
                 const jinja::Limits& limits = {}) {
  const auto begin = std::chrono::steady_clock::now();
  const Status status = Failure(source, limits);
  EXPECT_EQ(status.code(), StatusCode::kUnprocessable) << source << status.ToString();
  EXPECT_THAT(status.message(), HasSubstr(what)) << source;
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60)) << source;
}

TEST(JinjaLimits, Steps) {
  jinja::Limits limits;
  limits.steps = 100'000;
  ExpectLimit("{% for a in range(1000) %}{% for b in range(1000) %}{% endfor %}{% endfor %}",
              "steps", limits);
  ExpectLimit(
      "{% set ns = namespace(l=[1]) %}{% for a in range(99) %}"
      "{% set ns.l = ns.l + ns.l %}{% endfor %}",
      "steps", limits);
  ExpectLimit(
      "{% set s = 'ab' * 1000 %}{% for a in range(100000) %}{% if 'x' in s %}{% endif %}"
      "{% endfor %}",
      "steps", limits);
  ExpectLimit("{{ range(90000)|map('string')|sort|join }}", "steps", limits);
  ExpectLimit("{{ ('[' ~ '0,' * 60000 ~ '0]')|from_json|length }}", "steps", limits);
  ExpectLimit("{% set l = range(2000)|list %}{{ l|select('in', l)|list }}", "steps", limits);
}

TEST(JinjaLimits, Memory) {
  jinja::Limits small;
  small.memory_bytes = 16 << 20;
  ExpectLimit("{{ 'a' * 10 ** 9 }}", "bytes", small);
  ExpectLimit("{{ 'a' * 9223372036854775807 }}", "bytes", small);
  ExpectLimit("{{ 'ab' * 9223372036854775807 }}", "bytes", small);
  ExpectLimit("{{ [1] * 10 ** 9 }}", "bytes", small);
  ExpectLimit("{{ [1, 2] * 9223372036854775807 }}", "", small);
  ExpectLimit("{{ 'a'.ljust(10 ** 12) }}", "bytes", small);
  ExpectLimit("{{ 'a'.zfill(10 ** 12) }}", "bytes", small);
  ExpectLimit("{{ 'a'|center(10 ** 12) }}", "bytes", small);
  ExpectLimit("{{ 'a'|indent(10 ** 12) }}", "bytes", small);
  ExpectLimit("{{ [1]|tojson(indent=10 ** 12) }}", "bytes", small);
  ExpectLimit("{{ ('[' ~ '0,' * 10 ** 6 ~ '0]')|from_json|length }}", "bytes", small);
  ExpectLimit("{{ ('a' * 10 ** 6).replace('a', 'b' * 10 ** 6) }}", "bytes", small);
  ExpectLimit("{{ ('b' * 10 ** 6).join('a' * 10 ** 6) }}", "bytes", small);
  ExpectLimit("{{ ('a,' * 10 ** 7).split(',')|length }}", "", small);
  ExpectLimit("{{ range(10 ** 12) }}", "range", small);
  ExpectLimit("{{ '%*d' % (10 ** 12, 1) }}", "format", small);
  ExpectLimit("{{ '%999999999d' % 1 }}", "format", small);
  ExpectLimit("{{ '{:999999999d}'.format(1) }}", "format", small);
  ExpectLimit("{{ '{:.999999999f}'.format(1.5) }}", "format", small);
  jinja::Limits limits;
  limits.memory_bytes = 1 << 20;
  ExpectLimit(
      "{% set ns = namespace(s='x') %}{% for a in range(99) %}"
      "{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
      "bytes", limits);
  ExpectLimit(
      "{% set ns = namespace(l=[]) %}{% for a in range(90000) %}"
      "{% set ns.l = [ns.l, a] %}{% endfor %}",
      "bytes", limits);
}

TEST(JinjaLimits, SearchesAreLinear) {
  const std::string texts =
      "{% set s = 'a' * 2000000 %}{% set t = 'a' * 1000000 ~ 'b' %}{% set u = 'b' ~ 'a' * 1000000 "
      "%}";
  const auto begin = std::chrono::steady_clock::now();
  for (const char* use : {"t in s", "s.find(t)", "s.rfind(u)", "s.rsplit(u)", "s.split(t)",
                          "s.count(t)", "s.replace(t, '')", "s.rpartition(u)"}) {
    EXPECT_TRUE(Failure(texts + "{% set x = " + use + " %}").ok()) << use;
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
}

TEST(JinjaLimits, MemoryThatIsGivenBackCounts) {
  jinja::Limits limits;
  limits.memory_bytes = 4 << 20;
  EXPECT_TRUE(
      Failure("{% for a in range(200) %}{% set x = 'a' * 10 ** 6 %}{% endfor %}", limits).ok());
}

TEST(JinjaLimits, Output) {
  jinja::Limits limits;
  limits.output_bytes = 1000;
  ExpectLimit("{% for a in range(200) %}123456{% endfor %}", "longer than 1000", limits);
  ExpectLimit("{{ 'x' * 1001 }}", "longer than 1000", limits);
  ExpectLimit("{% set a %}{{ 'x' * 600 }}{% set b %}{{ 'x' * 600 }}{% endset %}{% endset %}",
              "longer than 1000", limits);
  EXPECT_TRUE(Failure("{% set a %}{{ 'x' * 600 }}{% endset %}{% set a %}{{ 'x' * 600 }}"
                      "{% endset %}",
                      limits)
                  .ok());
}

TEST(JinjaLimits, DepthOfTemplates) {
  for (const auto& [open, close] :
       std::vector<std::pair<std::string, std::string>>{{"(", ")"},
                                                        {"[", "]"},
                                                        {"{1:", "}"},
                                                        {"-", ""},
                                                        {"not ", ""},
                                                        {"x[", "]"},
                                                        {"x(", ")"},
                                                        {"x|default(", ")"},
                                                        {"1 if ", ""},
                                                        {"x is in x[", "]"}}) {
    const auto nested = [&](int times) {
      return Failure("{{ " + Repeated(open, times) + "1" + Repeated(close, times) + " }}");
    };
    EXPECT_FALSE(nested(100'000).ok()) << open;
    for (const int times : {40, 60, 90, 190}) (void)nested(times).ok();  // near the limits
  }
  for (const char* chain : {" + 1", "|abs", ".a", "[0]", " ** 1", " or 1", "()", " is odd"}) {
    EXPECT_FALSE(Failure("{{ x" + Repeated(chain, 100'000) + " }}").ok()) << chain;
  }
  EXPECT_THAT(Failure("{{ " + Repeated("(", 500)).message(), HasSubstr("nested deeper"));
  EXPECT_THAT(Failure(Repeated("{% if 1 %}", 500)).message(), HasSubstr("nested deeper"));
  EXPECT_THAT(Failure(Repeated("{% for x in y %}", 30)).message(), HasSubstr("loops"));
  EXPECT_FALSE(Failure(Repeated("{% macro m() %}", 100'000)).ok());
  // Long is not deep.
  EXPECT_TRUE(Failure("{{ 1" + Repeated(" ~ 1", 5000) + " }}").ok());
  EXPECT_TRUE(Failure(Repeated("{% if 1 %}{% elif 2 %}{% endif %}", 5000)).ok());
  EXPECT_TRUE(Failure("{% if 1 %}" + Repeated("{% elif 2 %}", 2000) + "{% endif %}").ok());
}

TEST(JinjaLimits, DepthOfEvaluation) {
  ExpectLimit("{% macro m(x) %}{{ m(x) }}{% endmacro %}{{ m(1) }}", "levels");
  ExpectLimit(
      "{% macro m(x) %}{% if x %}{% for y in [x] %}{% set z %}{{ m(x)|upper }}{% endset %}"
      "{{ z }}{% endfor %}{% endif %}{% endmacro %}{{ m(1) }}",
      "levels");
  ExpectLimit(
      "{% macro m() %}{% call m() %}{{ caller }}{% endcall %}{{ caller }}{% endmacro %}"
      "{{ m() }}",
      "levels");
  ExpectLimit("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}", "levels");
  ExpectLimit("{{ 'a'|map(*(['map'] * 2000))|list }}", "levels");
  // Values that are deep: printed, compared, hashed, freed.
  const std::string deep =
      "{% set ns = namespace(l=1, t=1, m=1) %}{% for a in range(50000) %}{% set ns.l = [ns.l] %}"
      "{% set ns.t = (ns.t,) %}{% set ns.m = [ns.m] %}{% endfor %}";
  EXPECT_TRUE(Failure(deep).ok());
  for (const char* use :
       {"{{ ns.l }}", "{{ ns.l|tojson }}", "{{ {ns.t: 1} }}", "{{ ns.l == ns.m }}",
        "{{ ns.l < ns.m }}", "{{ {}[ns.t] }}", "{{ '%s' % ns.l }}", "{{ '%r' % [ns.l] }}"}) {
    ExpectLimit(deep + use, "levels");
  }
  ExpectLimit("{% set ns = namespace() %}{% set ns.a = [ns] %}{{ ns }}", "levels");
}

TEST(JinjaLimits, MessagesAreShort) {
  for (const char* source : {"{{ raise_exception('x' * 100000) }}", "{{ ({}['x' * 100000])() }}",
                             "{{ {}|attr('x' * 100000) + 1 }}", "{{ 1|map('x' * 9999)|list }}"}) {
    const Status status = Failure(source);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << source;
    EXPECT_LT(status.message().size(), 5000u) << source;
  }
}

TEST(JinjaLimits, CyclesAreFreed) {
  EXPECT_TRUE(Failure("{% set ns = namespace() %}{% set ns.a = ns %}{% set ns.b = [ns, {1: ns}] %}"
                      "{% macro m() %}{{ ns }}{% endmacro %}{% set ns.m = m %}"
                      "{% set ns.f = ns.b.count %}{% set ns.i = ns.b|map('default') %}"
                      "{% for x in [1] %}{% set ns.loop = loop %}{% endfor %}"
                      "{% set ns.c = cycler(ns) %}{% set ns.j = joiner(ns) %}"
                      "{% set ns.v = {1: ns}.items() %}")
                  .ok());
}

// Numbers that share a bucket where they are their own hashes: 351,061 is a size of tables.
TEST(JinjaLimits, KeysOfDictsDoNotMeet) {
  jinja::Limits limits;
  limits.steps = 3'000'000;
  const auto begin = std::chrono::steady_clock::now();
  const Status status = Failure(
      "{% set P = 351061 %}{% set a = range(0, 100000 * P, P)|list + "
      "range(100000 * P, 200000 * P, P)|list %}{{ dict.fromkeys(a)|length }}",
      limits);
  EXPECT_TRUE(status.ok()) << status.ToString();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
}

TEST(JinjaLimits, TextsOfOneHashTakeNoLongerAsKeys) {
  const auto tmpl = ChatTemplate::Parse("{{ v|length }}{{ v[k] }}");
  ASSERT_TRUE(tmpl.ok());
  const double ratio = OneHashRatio(20'000, [&](const std::vector<std::string>& keys) {
    JsonValue::Object members;
    for (const std::string& key : keys) members.emplace_back(key, JsonValue(1));
    ChatInput input;
    input.variables.Set("v", JsonValue(std::move(members)));
    input.variables.Set("k", keys.back());
    EXPECT_EQ(tmpl->Render(input).value(), "200001");
  });
  std::cout << "time of keys of one hash over others: " << ratio << "\n";
  EXPECT_LT(ratio, 2);
}

TEST(JinjaLimits, EqualKeysAreOne) {
  const auto shown = [](const char* source) {
    const auto tmpl = ChatTemplate::Parse(source);
    return tmpl.ok() ? tmpl->Render({}).value() : tmpl.status().ToString();
  };
  // Enough entries for a table; of numbers, texts, tuples, ranges.
  EXPECT_EQ(shown("{% set d = {1: 'a', 2: 1, 3: 1, 4: 1, 5: 1, 6: 1, 7: 1, 8: 1, 9: 1, 'x': 2, "
                  "(1, 'x'): 3, range(0): 4, range(5, 6): 5, range(1, 9, 3): 6, 1.5: 7} %}"
                  "{{ d[1.0] }}{{ d[true] }}{{ d['x'] }}{{ d[(1, 'x')] }}{{ d[(1.0, 'x')] }}"
                  "{{ d[range(7, 7)] }}{{ d[range(5, 7, 2)] }}{{ d[range(1, 8, 3)] }}{{ d[1.5] }}"
                  "{{ d[range(1, 9, 2)] is defined }}{{ 'y' in d }}"),
            "aa233456"
            "7FalseFalse");
}

TEST(JinjaLimits, SizeOfTemplates) {
  EXPECT_THAT(Failure(std::string(ChatTemplate::kSourceBytesMax + 1, 'a')).message(),
              HasSubstr("at most"));
  EXPECT_THAT(Failure(Repeated("{{1}}", 600'000)).message(), HasSubstr("tokens"));
  // Many variables and branches: bounded, and fast.
  std::string source;
  for (int i = 0; i < 20'000; ++i) {
    source += "{% if x %}{% set v" + std::to_string(i) + " = 1 %}{% endif %}";
  }
  EXPECT_THAT(Failure(source).message(), HasSubstr("too many variables"));
}

}  // namespace
}  // namespace penstock::chat

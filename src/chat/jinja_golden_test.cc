// Every expression, filter, test, method and statement, with the answers of Python's jinja2:
// tests/golden/jinja.json, which tests/parity/jinja_parity.py --golden writes.
#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>
#include <fstream>
#include <sstream>

#include "chat/chat_template.h"

namespace penstock::chat {
namespace {

TEST(JinjaGolden, AnswersAsPython) {
  setenv("TZ", "UTC", 1);
  tzset();
  std::stringstream text;
  text << std::ifstream(PENSTOCK_GOLDEN_DIR "/jinja.json").rdbuf();
  const auto data = JsonValue::Parse(text.str());
  ASSERT_TRUE(data.ok()) << data.status().ToString();
  ChatInput input;
  input.now = std::chrono::system_clock::from_time_t(0);
  input.variables = *data->Find("variables");
  const JsonValue::Array& cases = *data->Find("cases")->array();
  EXPECT_GT(cases.size(), 800u);
  for (const JsonValue& row : cases) {
    const std::string& source = *(*row.array())[0].string();
    const std::string* expected = (*row.array())[1].string();
    const auto parsed = ChatTemplate::Parse(source);
    const Expected<std::string> got =
        parsed.ok() ? parsed->Render(input) : Expected<std::string>(parsed.status());
    if (expected == nullptr) {
      EXPECT_FALSE(got.ok()) << source << "\ngave " << *got;
    } else if (!got.ok()) {
      ADD_FAILURE() << source << "\n" << got.status().ToString();
    } else {
      EXPECT_EQ(*got, *expected) << source;
    }
  }
}

}  // namespace
}  // namespace penstock::chat

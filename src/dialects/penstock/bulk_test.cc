#include "dialects/penstock/bulk.h"

#include <gtest/gtest.h>

namespace penstock::dialects {
namespace {

TEST(Bulk, Parses) {
  EXPECT_TRUE(ParseBulkCall(R"({"action": "begin"})")->begin);
  const auto end = ParseBulkCall(R"({"action": "end", "id": "bulk-1"})");
  ASSERT_TRUE(end.ok());
  EXPECT_FALSE(end->begin);
  EXPECT_EQ(end->id, "bulk-1");
}

TEST(Bulk, RefusesByName) {
  const auto field_of = [](const char* body) {
    const Status status = ParseBulkCall(body).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << body;
    return status.field();
  };
  EXPECT_EQ(field_of("{}"), "action");
  EXPECT_EQ(field_of(R"({"action": "stop"})"), "action");
  EXPECT_EQ(field_of(R"({"action": 1})"), "action");
  EXPECT_EQ(field_of(R"({"action": "end"})"), "id");
  EXPECT_EQ(field_of(R"({"action": "end", "id": 7})"), "id");
  field_of("[]");
  field_of("");
}

TEST(Bulk, Prints) {
  EXPECT_EQ(PrintBulkRunBegun({.id = "bulk-1", .idle_s_max = 600}),
            R"({"object":"bulk_run","id":"bulk-1","state":"open","idle_s_max":600})");
  EXPECT_EQ(
      PrintBulkRunEnded(
          {.id = "bulk-1", .requests = 3, .released = true, .reason = "why", .released_bytes = 5}),
      R"({"object":"bulk_run","id":"bulk-1","state":"ended","requests":3,"released":true,)"
      R"("reason":"why","released_bytes":5})");
}

}  // namespace
}  // namespace penstock::dialects

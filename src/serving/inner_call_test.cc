#include "serving/inner_call.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "serving/route.h"
#include "threads/byte_budget.h"

namespace penstock::serving {
namespace {

int64_t held = -1;  // while the handler ran

void Handle(const RouteCall& call) {
  held = call.request->context.memory->held();
  call.Ok("read");
}

void WriteNothing(int, const Status&, std::string_view, JsonWriter*) {}

// The status of the answer to a body of 1,000 bytes.
int StatusWithin(int64_t budget_bytes) {
  static constexpr Route kRoute("POST", "/x", ErrorBody{WriteNothing, "Error"}, Handle,
                                About("Reads"));
  const auto budget = std::make_shared<ByteBudget>(budget_bytes);
  auto request = std::make_shared<http::HttpRequest>();
  request->context.memory = std::make_shared<RequestMemory>(budget, Priority::kInteractive);
  const std::shared_ptr<const http::HttpRequest> sent = request;
  http::Exchange::Print print;
  CallInner({}, &kRoute, sent, std::string(1000, ' '),
            [&](http::Exchange::Print given) { print = given; });
  EXPECT_EQ(sent->context.memory->held(), 0);
  return print ? print().status : 0;
}

TEST(InnerCall, ParsingIsCountedWhileTheHandlerRuns) {
  EXPECT_EQ(StatusWithin(16'000), 200);
  EXPECT_EQ(held, 16'000);
  held = -1;
  EXPECT_EQ(StatusWithin(15'999), 413);
  EXPECT_EQ(held, -1);
}

}  // namespace
}  // namespace penstock::serving

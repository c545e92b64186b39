#include "lab/hostile_load.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <charconv>
#include <set>
#include <thread>

#include "load/fake_server.h"

namespace penstock::lab {
namespace {

const char kRequest[] = "POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n";

// One kind of request for `seconds`.
HostileKind RunOne(const load::HttpTarget& target, HostileRequest request, double seconds,
                   HostileOptions options = {}) {
  request.name = "one";
  options.rate = 100;
  HostileLoad load(
      target, options,
      std::make_shared<const std::vector<HostileRequest>>(std::vector<HostileRequest>{request}));
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));  // the load runs meanwhile
  const HostileResult result = load.Stop();
  return result.kinds[0];
}

load::FakeServer::Handler Always(int status) {
  return [status](const std::string&) { return load::FakeServer::Answer(status, "{}"); };
}

TEST(HostileRequestsTest, AreWhatTheySayTheyAre) {
  const auto requests = MakeHostileRequests({.host = "h", .port = 7, .api_key = "secret"});
  std::set<std::string> names;
  double weights = 0;
  size_t bytes = 0;
  for (const HostileRequest& request : requests) {
    EXPECT_TRUE(names.insert(request.name).second) << request.name;
    weights += request.weight;
    bytes += request.bytes.size();
    // A request that has to be served is a right one: its length is its body's.
    const size_t at = request.bytes.find("Content-Length: ");
    if (request.right != HostileAnswer::kServed || request.answers > 1 || at > 1000) continue;
    size_t length = 0;
    std::from_chars(request.bytes.data() + at + 16, request.bytes.data() + at + 30, length);
    EXPECT_EQ(request.bytes.size() - request.bytes.find("\r\n\r\n") - 4, length) << request.name;
  }
  EXPECT_NEAR(weights, 40, 0.5);
  EXPECT_LT(bytes, size_t{256} << 20);
  EXPECT_EQ(EmptyTextsBody(9), R"({"inputs":["","",""]})");
}

TEST(HostileLoadTest, JudgesAnswers) {
  load::FakeServer good(Always(200));
  HostileKind kind = RunOne(good.target(), {.bytes = kRequest}, 0.3);
  EXPECT_GT(kind.sent, 5u);
  EXPECT_EQ(kind.served, kind.sent);
  EXPECT_EQ(kind.wrong, 0u);
  EXPECT_GT(kind.slowest_ms, 0);
  kind = RunOne(good.target(), {.bytes = kRequest, .right = HostileAnswer::kRefusal}, 0.3);
  EXPECT_EQ(kind.wrong, kind.sent);
  EXPECT_EQ(kind.first_wrong, "status 200");

  load::FakeServer refusing(Always(400));
  kind = RunOne(refusing.target(), {.bytes = kRequest, .right = HostileAnswer::kRefusal}, 0.3);
  EXPECT_EQ(kind.refused, kind.sent);
  EXPECT_EQ(kind.wrong, 0u);
  kind = RunOne(refusing.target(), {.bytes = kRequest, .right = HostileAnswer::kServed}, 0.3);
  EXPECT_EQ(kind.wrong, kind.sent);

  load::FakeServer busy(Always(429));
  kind = RunOne(busy.target(), {.bytes = kRequest, .right = HostileAnswer::kServed}, 0.3);
  EXPECT_EQ(kind.busy, kind.sent);
  EXPECT_EQ(kind.wrong, 0u);

  load::FakeServer failing(Always(500));
  kind = RunOne(failing.target(), {.bytes = kRequest}, 0.3);
  EXPECT_EQ(kind.internal_errors, kind.sent);
}

TEST(HostileLoadTest, AClosedConnectionIsAnAnswerToWhatIsBroken) {
  load::FakeServer closing([](const std::string&) { return std::string(); });
  HostileKind kind =
      RunOne(closing.target(), {.bytes = kRequest, .right = HostileAnswer::kRefusal}, 0.3);
  EXPECT_EQ(kind.closed, kind.sent);
  EXPECT_EQ(kind.wrong, 0u);
  kind = RunOne(closing.target(), {.bytes = kRequest, .right = HostileAnswer::kServed}, 0.3);
  EXPECT_EQ(kind.closed, kind.sent);
  EXPECT_EQ(kind.wrong, kind.sent);
  EXPECT_EQ(kind.first_wrong, "closed after 0 answers");
}

TEST(HostileLoadTest, CountsPipelinedAnswers) {
  load::FakeServer good(Always(200));
  const std::string two = std::string(kRequest) + kRequest;
  HostileKind kind =
      RunOne(good.target(), {.bytes = two, .right = HostileAnswer::kServed, .answers = 2}, 0.3);
  EXPECT_EQ(kind.served, 2 * kind.sent);
  EXPECT_EQ(kind.wrong, 0u);
  // One request that is answered twice is a request too many.
  load::FakeServer twice([](const std::string&) {
    return load::FakeServer::Answer(200, "{}") + load::FakeServer::Answer(200, "{}");
  });
  kind = RunOne(twice.target(), {.bytes = kRequest}, 0.3);
  EXPECT_EQ(kind.wrong, kind.sent);
  EXPECT_EQ(kind.first_wrong, "more answers than requests");
}

TEST(HostileLoadTest, WhatIsNeverAnsweredIsLate) {
  load::FakeServer server(Always(200));
  HostileOptions options;
  options.patience_s = 0.2;
  options.clients = 4;
  HostileRequest unfinished{.bytes = "POST / HTTP/1.1\r\nContent-Length: 10\r\n\r\n"};
  const HostileKind kind = RunOne(server.target(), unfinished, 0.5, options);
  EXPECT_GE(kind.late, 4u);
  EXPECT_EQ(kind.late, kind.sent);
  EXPECT_LE(kind.sent, 16u);  // four clients, each held for 0.2 s
}

TEST(HostileLoadTest, LeavesAsMeant) {
  load::FakeServer server(
      [](const std::string&) { return load::FakeServer::Answer(200, std::string(8 << 20, 'a')); });
  HostileOptions options;
  options.hold_s = 0.1;
  options.idle_s = 0.1;
  using Manner = HostileManner;
  for (const Manner manner :
       {Manner::kLeaveInBody, Manner::kLeaveInAnswer, Manner::kReadSlowly, Manner::kReadNothing}) {
    HostileKind kind = RunOne(server.target(), {.bytes = kRequest, .manner = manner}, 0.3, options);
    EXPECT_GT(kind.sent, 5u) << static_cast<int>(manner);
    EXPECT_EQ(kind.left, kind.sent) << static_cast<int>(manner);
    EXPECT_EQ(kind.wrong + kind.late, 0u) << static_cast<int>(manner);
  }
  load::FakeServer good(Always(200));
  HostileKind idle =
      RunOne(good.target(), {.bytes = kRequest, .manner = Manner::kStayIdle}, 0.3, options);
  EXPECT_EQ(idle.served, idle.sent);
  EXPECT_EQ(idle.left, idle.sent);
  HostileKind silent = RunOne(good.target(), {.manner = Manner::kStayIdle}, 0.3, options);
  EXPECT_EQ(silent.left, silent.sent);
}

TEST(HostileLoadTest, DripsAndHalfCloses) {
  load::FakeServer server(Always(200));
  HostileOptions options;
  options.drip_ms = 1;
  HostileRequest drip{.bytes = kRequest, .manner = HostileManner::kDrip};
  HostileKind kind = RunOne(server.target(), drip, 0.5, options);
  EXPECT_GT(kind.served, 5u);
  EXPECT_EQ(kind.served + kind.left, kind.sent);
  EXPECT_GE(kind.slowest_ms, 30);
  HostileRequest half{.bytes = kRequest, .manner = HostileManner::kHalfClose};
  kind = RunOne(server.target(), half, 0.3);
  EXPECT_EQ(kind.served, kind.sent);
}

TEST(HostileLoadTest, KindsComeInTheirProportions) {
  load::FakeServer server(Always(200));
  const std::vector<HostileRequest> requests = {{.name = "often", .weight = 3, .bytes = kRequest},
                                                {.name = "seldom", .weight = 1, .bytes = kRequest}};
  HostileOptions options;
  options.rate = 200;
  HostileLoad load(server.target(), options,
                   std::make_shared<const std::vector<HostileRequest>>(requests));
  std::this_thread::sleep_for(std::chrono::milliseconds(500));  // the load runs meanwhile
  const HostileResult result = load.Stop();
  const uint64_t often = result.kinds[0].sent;
  EXPECT_GT(often, 10u);
  EXPECT_THAT(result.kinds[1].sent,
              testing::AllOf(testing::Ge(often / 3 - 1), testing::Le(often / 3 + 1)));
  EXPECT_EQ(result.Sum(&HostileKind::sent), often + result.kinds[1].sent);
}

}  // namespace
}  // namespace penstock::lab

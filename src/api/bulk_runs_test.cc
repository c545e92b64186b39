#include "api/bulk_runs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock::api {
namespace {

using testing::HasSubstr;

class BulkRunsTest : public testing::Test {
 protected:
  Clock::time_point now_ = Clock::now();
  BulkRuns runs_{[this] { return now_; }};
};

TEST_F(BulkRunsTest, CountsWhatRan) {
  const auto id = runs_.Begin(100);
  ASSERT_TRUE(id.ok());
  const auto other = runs_.Begin(100);
  EXPECT_NE(*id, *other);
  EXPECT_LE(id->size(), BulkRuns::kIdBytesMax);
  { const auto place = runs_.Enter(*id); }
  ASSERT_TRUE(runs_.Enter(*id).ok());
  const auto ended = runs_.End(*id, 107);
  ASSERT_TRUE(ended.ok());
  EXPECT_EQ(ended->requests, 2);
  EXPECT_EQ(ended->served_since, 7u);
  EXPECT_EQ(ended->others, 1u);
  EXPECT_EQ(runs_.End(*other, 107)->others, 0u);
}

TEST_F(BulkRunsTest, UnknownIdsAreNamed) {
  const auto id = runs_.Begin(0);
  ASSERT_TRUE(runs_.End(*id, 0).ok());
  const Status twice = runs_.End(*id, 0).status();
  EXPECT_EQ(twice.code(), StatusCode::kNotFound);
  EXPECT_EQ(twice.field(), "id");
  const Status late = runs_.Enter(*id).status();
  EXPECT_EQ(late.code(), StatusCode::kNotFound);
  EXPECT_EQ(late.field(), "bulk_run");
  EXPECT_THAT(late.message(), HasSubstr(*id));
  EXPECT_LT(runs_.Enter(std::string(10'000, 'x')).status().message().size(), 300u);
}

TEST_F(BulkRunsTest, TheNumberOfRunsIsBounded) {
  std::string last;
  for (size_t i = 0; i < BulkRuns::kRunsMax; ++i) last = *runs_.Begin(0, i / 4);
  const Status full = runs_.Begin(0, 4).status();
  EXPECT_EQ(full.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(full.message(), HasSubstr("16 bulk runs are open"));
  ASSERT_TRUE(runs_.End(last, 0).ok());
  EXPECT_TRUE(runs_.Begin(0, 4).ok());
}

TEST_F(BulkRunsTest, AClientHoldsFourRunsAtMost) {
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(runs_.Begin(0, 7).ok());
  const Status full = runs_.Begin(0, 7).status();
  EXPECT_EQ(full.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(full.message(), HasSubstr("this client has 4 bulk runs open"));
  EXPECT_TRUE(runs_.Begin(0, 8).ok());
}

TEST_F(BulkRunsTest, AnIdleRunMakesRoomWhereAllAreTaken) {
  std::vector<std::string> ids;
  for (size_t i = 0; i < BulkRuns::kRunsMax; ++i) {
    ids.push_back(*runs_.Begin(0, i / 4));
    now_ += std::chrono::milliseconds(1);
  }
  const auto busy = runs_.Enter(ids[0]);
  now_ += BulkRuns::kIdleWhenFull + std::chrono::seconds(1);
  EXPECT_TRUE(runs_.Enter(ids[1]).ok());
  EXPECT_TRUE(runs_.Begin(0, 4).ok());
  EXPECT_TRUE(runs_.Enter(ids[0]).ok());
  EXPECT_TRUE(runs_.Enter(ids[1]).ok());
  EXPECT_FALSE(runs_.Enter(ids[2]).ok());
}

TEST_F(BulkRunsTest, APlaceMayOutliveTheRuns) {
  auto runs = std::make_unique<BulkRuns>();
  auto place = runs->Enter(*runs->Begin(0));
  ASSERT_TRUE(place.ok());
  runs.reset();
  place = std::shared_ptr<const void>();  // the address sanitizer looks on
}

TEST_F(BulkRunsTest, IdleRunsAreForgotten) {
  const auto idle = runs_.Begin(0);
  const auto used = runs_.Begin(0);
  const auto busy = runs_.Begin(0);
  auto place = runs_.Enter(*busy);
  now_ += BulkRuns::kIdleMax;
  EXPECT_TRUE(runs_.Enter(*used).ok());
  now_ += std::chrono::seconds(1);
  EXPECT_EQ(runs_.open(), 2u);
  EXPECT_FALSE(runs_.Enter(*idle).ok());
  now_ += 2 * BulkRuns::kIdleMax;
  EXPECT_EQ(runs_.open(), 1u);  // a request of it is in flight
  *place = nullptr;
  now_ += BulkRuns::kIdleMax;
  EXPECT_EQ(runs_.open(), 1u);
  now_ += std::chrono::seconds(1);
  EXPECT_EQ(runs_.open(), 0u);
}

TEST_F(BulkRunsTest, ARequestMayOutliveItsRun) {
  const auto id = runs_.Begin(0);
  auto place = runs_.Enter(*id);
  ASSERT_TRUE(runs_.End(*id, 1).ok());
  *place = nullptr;
  EXPECT_EQ(runs_.open(), 0u);
}

TEST(DecideRelease, SaysWhy) {
  const ReleaseFacts idle{.served_since = 5, .held_bytes = kReleaseBytesMin};
  EXPECT_TRUE(DecideRelease(idle).release);
  EXPECT_THAT(DecideRelease(idle).reason, HasSubstr("8388608 bytes were held"));
  const auto refused = [&](auto change) {
    ReleaseFacts facts = idle;
    change(&facts);
    const ReleaseDecision decision = DecideRelease(facts);
    EXPECT_FALSE(decision.release);
    return decision.reason;
  };
  EXPECT_EQ(refused([](ReleaseFacts* f) { f->served_since = 0; }),
            "nothing ran since the run began");
  EXPECT_EQ(refused([](ReleaseFacts* f) { f->other_runs = 1; }), "1 other bulk run is open");
  EXPECT_EQ(refused([](ReleaseFacts* f) { f->other_runs = 2; }), "2 other bulk runs are open");
  EXPECT_EQ(refused([](ReleaseFacts* f) { f->in_flight = 1; }), "1 request is in flight");
  EXPECT_EQ(refused([](ReleaseFacts* f) { f->held_bytes = kReleaseBytesMin - 1; }),
            "8388607 bytes are held, too little to matter");
}

}  // namespace
}  // namespace penstock::api

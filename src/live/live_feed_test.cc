#include "live/live_feed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>
#include <thread>

#include "frontend/route_info.h"
#include "json/json.h"
#include "live/live_print.h"
#include "registry/registry.h"

namespace penstock::live {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;
using testing::StartsWith;

// An exchange that keeps what is streamed.
class FakeExchange final : public http::Exchange {
 public:
  void Post(Print) noexcept override { posted_ = true; }
  std::unique_ptr<http::Stream> Begin(http::HttpResponse head,
                                      std::function<void()> ready) override {
    buffer_ = std::make_shared<http::StreamBuffer>(std::move(head), false, size_t{1} << 20,
                                                   std::move(ready));
    // Not the exchange itself: streams outlive it.
    return std::make_unique<http::Stream>(buffer_, std::make_shared<NoWake>());
  }
  bool began() const { return buffer_ != nullptr; }
  bool posted() const { return posted_; }
  void Leave() { buffer_->Leave(); }
  bool ended() const { return ended_; }
  // What has come since the last call; the kernel takes it.
  std::string Take() {
    const http::StreamBuffer::Batch batch = buffer_->Take();
    buffer_->Sent(batch);
    ended_ = ended_ || batch.last;
    return batch.text;
  }
  // Takes until `text` is in it.
  std::string TakeUntil(const std::string& text) {
    std::string all;
    const auto give_up = Clock::now() + std::chrono::seconds(20);
    while (all.find(text) == std::string::npos && Clock::now() < give_up) {
      all += Take();
      std::this_thread::yield();
    }
    return all;
  }

 private:
  struct NoWake : http::StreamWake {
    void Wake() noexcept override {}
  };
  std::shared_ptr<http::StreamBuffer> buffer_;
  bool posted_ = false;
  bool ended_ = false;
};

const std::vector<frontend::RouteInfo> kRoutes = {{"GET", "/v1/live"}, {"POST", "/embed"}};

class LiveFeedTest : public testing::Test {
 protected:
  LiveFeedTest()
      : registry_(nullptr, &metrics_),
        service_(&registry_, {}, &metrics_),
        http_(&metrics_, kRoutes) {}

  std::shared_ptr<FakeExchange> Watch(LiveFeed* feed, Status* status = nullptr,
                                      Clock::time_point deadline = Clock::time_point::max()) {
    auto exchange = std::make_shared<FakeExchange>();
    http::HttpRequest request;
    request.context.deadline = deadline;
    const Status watched = feed->Watch(request, http::Responder(exchange));
    if (status != nullptr) *status = watched;
    return exchange;
  }

  metrics::Metrics metrics_;
  registry::Registry registry_;
  api::Service service_;
  frontend::HttpMetrics http_;
};

constexpr milliseconds kFast{5};
constexpr milliseconds kNever{3'600'000};

TEST(TextRing, KeepsTheLast) {
  TextRing ring(3);
  EXPECT_EQ(ring.Joined(), "");
  for (const char* text : {"a", "b"}) ring.Push(text);
  EXPECT_EQ(ring.Joined(), "a,b");
  for (const char* text : {"c", "d", "e"}) ring.Push(text);
  EXPECT_EQ(ring.size(), 3u);
  EXPECT_EQ(ring.Joined(), "c,d,e");
}

TEST_F(LiveFeedTest, AWatcherGetsTheHistoryAndThenPoints) {
  LiveFeed feed(&service_, &http_, {}, kFast);
  const auto early = Watch(&feed);
  ASSERT_TRUE(early->began());
  const std::string begin = early->TakeUntil("event: point");
  EXPECT_THAT(begin, StartsWith("event: history\ndata: {\"version\":"));
  EXPECT_THAT(begin, HasSubstr("\nevent: stats\ndata: {\"uptime_s\":"));
  EXPECT_LT(begin.find("event: stats"), begin.find("event: point"));
  // One that comes later finds what was before it.
  const std::string late = Watch(&feed)->Take();
  EXPECT_THAT(late, HasSubstr("\"points\":[[1"));
}

TEST_F(LiveFeedTest, PointsAreKeptWhileNobodyWatches) {
  LiveFeed feed(&service_, &http_, {}, kFast);
  const auto give_up = Clock::now() + std::chrono::seconds(20);
  std::string history;
  while (history.find("],[") == std::string::npos && Clock::now() < give_up) {
    const auto watcher = Watch(&feed);
    ASSERT_TRUE(watcher->began());
    history = watcher->Take();
    watcher->Leave();
    while (feed.watchers() > 0 && Clock::now() < give_up) std::this_thread::yield();
  }
  EXPECT_THAT(history, HasSubstr("],["));
}

TEST_F(LiveFeedTest, WatchersThatLeaveAreForgotten) {
  LiveFeed feed(&service_, &http_, {}, kFast);
  const auto one = Watch(&feed);
  const auto two = Watch(&feed);
  EXPECT_EQ(feed.watchers(), 2u);
  one->Leave();
  const auto give_up = Clock::now() + std::chrono::seconds(20);
  while (feed.watchers() == 2 && Clock::now() < give_up) two->Take();
  EXPECT_EQ(feed.watchers(), 1u);
}

TEST_F(LiveFeedTest, ASlowWatcherMissesPointsAndHoldsNoneBack) {
  LiveFeed feed(&service_, &http_, {}, kFast);
  const auto slow = Watch(&feed);
  const auto quick = Watch(&feed);
  for (int i = 0; i < 5; ++i) {
    EXPECT_THAT(quick->TakeUntil("event: point"), HasSubstr("event: point"));
  }
  EXPECT_EQ(slow->Take().find("event: point"), std::string::npos);
  EXPECT_EQ(feed.watchers(), 2u);
}

TEST_F(LiveFeedTest, ThereIsALimitOfWatchers) {
  LiveFeed feed(&service_, &http_, {}, kNever);
  std::vector<std::shared_ptr<FakeExchange>> watchers;
  for (size_t i = 0; i < LiveFeed::kWatchersMax; ++i) {
    Status status;
    watchers.push_back(Watch(&feed, &status));
    EXPECT_TRUE(status.ok());
  }
  Status status;
  EXPECT_FALSE(Watch(&feed, &status)->began());
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_GT(status.retry_after_s(), 0);
  watchers.front()->Leave();  // makes room at once
  EXPECT_TRUE(Watch(&feed, &status)->began());
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(feed.watchers(), LiveFeed::kWatchersMax);
}

TEST_F(LiveFeedTest, StopEndsTheStreamsAndRefusesMore) {
  LiveFeed feed(&service_, &http_, {}, kNever);
  const auto watcher = Watch(&feed);
  feed.Stop();
  watcher->Take();
  EXPECT_TRUE(watcher->ended());
  Status status;
  Watch(&feed, &status);
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  feed.Stop();
}

TEST_F(LiveFeedTest, AStreamEndsBeforeItsDeadline) {
  LiveFeed feed(&service_, &http_, {}, kFast);
  const auto watcher = Watch(&feed, nullptr, Clock::now() + kFast);
  const auto give_up = Clock::now() + std::chrono::seconds(20);
  while (!watcher->ended() && Clock::now() < give_up) watcher->Take();
  EXPECT_TRUE(watcher->ended());
  // The feed's thread ends the stream first and forgets the watcher after that.
  while (feed.watchers() > 0 && Clock::now() < give_up) std::this_thread::yield();
  EXPECT_EQ(feed.watchers(), 0u);
}

}  // namespace
}  // namespace penstock::live

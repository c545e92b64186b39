#include "grpc/write_watch.h"

#include <gtest/gtest.h>

#include <future>
#include <thread>

namespace penstock {
namespace {

using std::chrono::milliseconds;

TEST(WriteWatch, ALateWriteIsToldOnce) {
  std::promise<void> late;
  const auto watch = std::make_shared<WriteWatch>(milliseconds(20), [&] { late.set_value(); });
  watch->Begin();
  EXPECT_EQ(late.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
  watch->Stop();
}

TEST(WriteWatch, WritesThatEndAreNotLate) {
  const auto watch = std::make_shared<WriteWatch>(milliseconds(200), [] { ADD_FAILURE(); });
  // Longer than the time-out in sum.
  for (int i = 0; i < 30; ++i) {
    watch->Begin();
    std::this_thread::sleep_for(milliseconds(10));
    watch->End();
  }
  watch->Stop();
}

TEST(WriteWatch, NothingIsToldAfterStop) {
  const auto watch = std::make_shared<WriteWatch>(milliseconds(5), [] { ADD_FAILURE(); });
  watch->Stop();
  watch->Begin();
}

TEST(WriteWatch, ItsAlarmDoesNotKeepIt) {
  auto watch = std::make_shared<WriteWatch>(std::chrono::hours(1), [] { ADD_FAILURE(); });
  watch->Begin();
  watch->Stop();
  const std::weak_ptr<WriteWatch> gone = watch;
  watch.reset();
  // The callback of the cancelled alarm may hold it for a moment.
  while (!gone.expired()) std::this_thread::yield();
}

}  // namespace
}  // namespace penstock

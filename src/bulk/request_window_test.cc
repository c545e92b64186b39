#include "bulk/request_window.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <vector>

namespace penstock::bulk {
namespace {

using ::testing::ElementsAre;

TEST(RequestWindow, GivesAnswersInOrderAndStopsAtAFailure) {
  std::vector<int> got;
  RequestWindow<int, int> window([&](int value, int tag) -> Status {
    got.push_back(10 * tag + value);
    return Status::Ok();
  });
  std::vector<std::promise<Expected<int>>> promises(4);
  promises[1].set_value(1);
  promises[0].set_value(0);
  promises[2].set_value(2);
  promises[3].set_value(Status::Internal("broken"));
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(window.Push(promises[i].get_future(), i).ok());
  EXPECT_EQ(window.Finish().message(), "broken");
  EXPECT_THAT(got, ElementsAre(0, 11, 22));
}

}  // namespace
}  // namespace penstock::bulk

#include "log/status_line.h"

#include <gtest/gtest.h>

#include "log/step_progress.h"

namespace penstock {
namespace {

using std::chrono::milliseconds;

// A line on a terminal, or in a log, by a clock that tests move.
class StatusLineTest : public testing::Test {
 protected:
  std::string Printed(const std::function<void()>& work) {
    testing::internal::CaptureStderr();
    work();
    return testing::internal::GetCapturedStderr();
  }
  std::function<StatusLine::TimePoint()> Clock() {
    return [this] { return now_; };
  }

  StatusLine::TimePoint now_{};
};

TEST_F(StatusLineTest, ATerminalShowsOneLineThatIsWrittenOver) {
  const std::string printed = Printed([&] {
    StatusLine line(StatusLine::Place::kTerminal, Clock());
    EXPECT_FALSE(line.IsDue());
    now_ += milliseconds(199);
    EXPECT_FALSE(line.IsDue());
    now_ += milliseconds(1);
    EXPECT_TRUE(line.IsDue());
    line.Show("one");
    EXPECT_FALSE(line.IsDue());
    line.Show("two");
    StatusLine::MakeRoom();
    StatusLine::MakeRoom();  // nothing is open now
    line.Show("three");
    line.End("done");
  });
  EXPECT_EQ(printed, "\r\033[Kone\r\033[Ktwo\n\r\033[Kthree\r\033[Kdone\n");
}

TEST_F(StatusLineTest, ALogGetsWholeLinesSeldom) {
  const std::string printed = Printed([&] {
    StatusLine line(StatusLine::Place::kLog, Clock());
    now_ += milliseconds(4999);
    EXPECT_FALSE(line.IsDue());
    now_ += milliseconds(1);
    EXPECT_TRUE(line.IsDue());
    line.Show("one");
    line.Clear();
    line.End("done");
  });
  EXPECT_EQ(printed, "one\ndone\n");
}

TEST_F(StatusLineTest, QuietIsNowhere) {
  const std::string printed = Printed([&] {
    EXPECT_EQ(StatusLine::PlaceFor(true, true), StatusLine::Place::kNowhere);
    StatusLine line(StatusLine::Place::kNowhere, Clock());
    now_ += milliseconds(10'000);
    EXPECT_FALSE(line.IsDue());
    line.Show("one");
    line.End("done");
  });
  EXPECT_EQ(printed, "");
}

TEST_F(StatusLineTest, IsTakenOffWhereItIsNotEnded) {
  EXPECT_EQ(Printed([&] {
              StatusLine line(StatusLine::Place::kTerminal, Clock());
              line.Show("one");
              line.Clear();
            }),
            "\r\033[Kone\r\033[K");
  EXPECT_EQ(Printed([&] {
              StatusLine line(StatusLine::Place::kTerminal, Clock());
              line.Show("one");
            }),
            "\r\033[Kone\n");
}

TEST(DurationText, IsShort) {
  EXPECT_EQ(DurationText(-1), "0 s");
  EXPECT_EQ(DurationText(0.2), "1 s");
  EXPECT_EQ(DurationText(119), "119 s");
  EXPECT_EQ(DurationText(120), "2 min");
  EXPECT_EQ(DurationText(7199), "2 h 0 min");
  EXPECT_EQ(DurationText(12'000), "3 h 20 min");
}

TEST(StepText, TellsStepTimeAndTimeLeft) {
  StepFacts facts{"loading the model", 1, 1, 0, 0, 0};
  EXPECT_EQ(StepText(facts, 80), "loading the model");
  facts.so_far_s = 12.9;
  EXPECT_EQ(StepText(facts, 80), "loading the model, 12 s");
  facts = {"round", 3, 5, 0, 20, 4};
  EXPECT_EQ(StepText(facts, 80), "3 of 5: round, 4 s, 26 s left");
  facts.so_far_s = 30;  // longer than those before
  EXPECT_EQ(StepText(facts, 80), "3 of 5: round, 30 s, 20 s left");
  facts = {"load", 1, 2, 300, 0, 60};
  EXPECT_EQ(StepText(facts, 80), "1 of 2: load, 60 s, 9 min left");
}

TEST(StepText, ShowsAsMuchAsFits) {
  const StepFacts facts{"round", 3, 5, 0, 20, 4};
  const std::string whole = StepText(facts, 80);
  EXPECT_EQ(StepText(facts, whole.size() - 1), "3 of 5: round, 4 s");
  for (size_t columns = 0; columns < 40; ++columns) {
    EXPECT_LE(StepText(facts, columns).size(), columns);
  }
}

}  // namespace
}  // namespace penstock

#include "telemetry/bottleneck.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock::telemetry {
namespace {

using testing::HasSubstr;

metrics::DurationSnapshot Lasting(double seconds) {
  metrics::DurationHistogram times;
  times.Record(static_cast<int64_t>(seconds * 1e9));
  return times.Snapshot();
}

// Ten seconds of the models "a" and "b".
Snapshot Window(double forward_s, double queue_s, int64_t workers = 4, int64_t processors = 2) {
  Snapshot window;
  window.seconds = 10;
  window.requests = Lasting(1);
  window.stages[static_cast<size_t>(metrics::Stage::kForward)] = Lasting(forward_s);
  window.stages[static_cast<size_t>(metrics::Stage::kQueue)] = Lasting(queue_s);
  window.models.resize(2);
  window.models[0].name = "a";
  window.models[1].name = "b";
  window.tokenization.workers = workers;
  window.processors_max = processors;
  return window;
}

TEST(Bottleneck, AModelThatWritesAllTheTime) {
  Snapshot window = Window(1, 1);
  window.models[1].kind = Snapshot::Model::Kind::kText;
  window.models[1].busy_s = 9.5;
  const Bottleneck found = FindBottleneck(window);
  EXPECT_EQ(found.name, "decode");
  EXPECT_TRUE(found.saturated);
  EXPECT_THAT(found.why, HasSubstr("'b' is busy 95 %"));
}

TEST(Bottleneck, ABusyModelComesFirst) {
  Snapshot window = Window(10, 500);
  window.models[1].busy_s = 9.7;
  const Bottleneck found = FindBottleneck(window);
  EXPECT_EQ(found.name, "forward");
  EXPECT_EQ(found.why, "the model 'b' is busy 97 % of the time");
  EXPECT_TRUE(found.saturated);
  EXPECT_EQ(found.window_s, 10);
}

TEST(Bottleneck, ReplicasAreBusyTogether) {
  Snapshot window = Window(10, 500);
  window.models[1].busy_s = 9.7;
  window.models[1].replicas = 2;
  EXPECT_FALSE(FindBottleneck(window).saturated);
  window.models[1].busy_s = 19.4;
  EXPECT_EQ(FindBottleneck(window).why, "the model 'b' is busy 97 % of the time");
}

TEST(Bottleneck, PercentagesHaveADigitAfterThePointWhereItIsNotZero) {
  Snapshot window = Window(10, 500);
  window.models[1].busy_s = 9.662;
  EXPECT_EQ(FindBottleneck(window).why, "the model 'b' is busy 96.6 % of the time");
  window.models[1].busy_s = 12;  // of two threads
  EXPECT_EQ(FindBottleneck(window).why, "the model 'b' is busy 100 % of the time");
}

TEST(Bottleneck, ThenBusyWorkersThenBusyProcessors) {
  Snapshot window = Window(10, 5, 4, 4);
  window.processor_s = 19;
  EXPECT_EQ(FindBottleneck(window).name, "forward");  // not all are busy
  EXPECT_FALSE(FindBottleneck(window).saturated);
  window.processors_max = 2;
  const Bottleneck processor = FindBottleneck(window);
  EXPECT_EQ(processor.name, "processor");
  EXPECT_THAT(processor.why, HasSubstr("2 processors are busy 95 %"));
  EXPECT_THAT(processor.why, HasSubstr("forward"));
  window.tokenization.busy_s = 38;
  const Bottleneck workers = FindBottleneck(window);
  EXPECT_EQ(workers.name, "tokenize");
  EXPECT_EQ(workers.why, "the 4 tokenization workers are busy 95 % of the time");
}

TEST(Bottleneck, ElseTheStageThatTakesMost) {
  const Bottleneck found = FindBottleneck(Window(1, 3));
  EXPECT_EQ(found.name, "queue");
  EXPECT_THAT(found.why, HasSubstr("75 % of the requests' time"));
  EXPECT_FALSE(found.saturated);
}

TEST(Bottleneck, NothingToDoAndNoModel) {
  EXPECT_EQ(FindBottleneck(Snapshot()).name, "none");
  Snapshot idle;
  idle.seconds = 10;
  idle.processor_s = 20;  // of something else: loading a model
  EXPECT_EQ(FindBottleneck(idle).name, "none");
}

}  // namespace
}  // namespace penstock::telemetry

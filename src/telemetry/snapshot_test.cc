#include "telemetry/snapshot.h"

#include <gtest/gtest.h>

#include "telemetry/bottleneck.h"

namespace penstock::telemetry {
namespace {

// Models come, go and change places between two looks.
TEST(Snapshot, ModelsAreKnownByTheirNames) {
  Snapshot before, now;
  before.seconds = 100;
  now.seconds = 115;
  before.models.resize(2);
  before.models[0].name = "a";
  before.models[0].batches = 760;
  before.models[0].busy_s = 80;
  before.models[1].name = "b";
  before.models[1].batches = 5;
  now.models = {before.models[1], before.models[0], Snapshot::Model()};
  now.models[0].batches = 7;
  now.models[1].queues[0].tokens = 12;
  now.models[2].name = "c";
  now.models[2].batches = 1;
  const Snapshot window = now.Since(before);
  EXPECT_EQ(window.seconds, 15);
  EXPECT_EQ(window.models[0].batches, 2u);
  EXPECT_EQ(window.models[1].batches, 0u);
  EXPECT_EQ(window.models[1].busy_s, 0);
  EXPECT_EQ(window.models[1].queued_tokens(), 12);  // a level
  EXPECT_EQ(window.models[2].batches, 1u);
  EXPECT_EQ(FindBottleneck(window).name, "none");
}

TEST(Snapshot, AModelThatComesAgainHasWhatItHadBefore) {
  Snapshot before, now;
  before.gone.resize(1);
  before.gone[0].name = "a";
  before.gone[0].batches = 5;
  now.models.resize(1);
  now.models[0].name = "a";
  now.models[0].batches = 7;
  EXPECT_EQ(now.Since(before).models[0].batches, 2u);
}

TEST(Snapshot, SumsThatFellCountAsUnchanged) {
  Snapshot before, now;
  before.models.resize(1);
  before.models[0].rows = 10;
  before.models[0].busy_s = 2;
  before.models[0].decode.steps = 5;
  before.models[0].decode.busy_s = 2;
  now.models.resize(1);
  now.models[0].busy_s = 1;  // another model of the name
  now.models[0].decode.steps = 7;
  now.models[0].decode.busy_s = 1;
  now.models[0].decode.generated_tokens = 3;
  const Snapshot window = now.Since(before);
  EXPECT_EQ(window.models[0].rows, 0u);
  EXPECT_EQ(window.models[0].busy_s, 0);
  EXPECT_EQ(window.models[0].decode.steps, 2u);
  EXPECT_EQ(window.models[0].decode.busy_s, 0);
  EXPECT_EQ(window.models[0].decode.generated_tokens, 3u);
}

}  // namespace
}  // namespace penstock::telemetry

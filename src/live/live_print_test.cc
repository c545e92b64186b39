#include "live/live_print.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "json/json.h"

namespace penstock::live {
namespace {

using telemetry::Snapshot;
using testing::HasSubstr;
using testing::StartsWith;

metrics::DurationSnapshot Times(int count, int64_t ns) {
  metrics::DurationHistogram times;
  for (int i = 0; i < count; ++i) times.Record(ns);
  return times.Snapshot();
}

// The number of a field; "null" reads as NaN.
double Value(const LivePoint& point, std::string_view name) {
  const std::string printed = PrintLivePoint(point);
  const auto at = std::ranges::find(LiveFields(), name) - LiveFields().begin();
  size_t begin = 1;
  for (int64_t i = 0; i < at; ++i) begin = printed.find(',', begin) + 1;
  const std::string text = printed.substr(begin, printed.find_first_of(",]", begin) - begin);
  return text == "null" ? std::numeric_limits<double>::quiet_NaN() : std::stod(text);
}

TEST(LivePrint, APointHasTheFieldsThatAreNamed) {
  LivePoint point;
  point.unix_ms = 1'764'000'000'123;
  point.window.seconds = 0.7;
  point.window.requests = Times(8, 2'000'000);
  point.window.stages[metrics::kStages - 1] = Times(8, 1'230);
  point.window.models.resize(1);
  point.window.models[0].weights_bytes = 90'123'456;
  const std::string text = PrintLivePoint(point);
  const auto document = JsonDocument::Parse("{\"a\":" + text + "}");
  ASSERT_TRUE(document.ok()) << text;
  EXPECT_THAT(text, StartsWith("[1764000000123,11.43,0,"));
  EXPECT_THAT(text, HasSubstr(",null,"));
  EXPECT_THAT(text, HasSubstr(",90123456,"));
  EXPECT_THAT(text, testing::EndsWith(",0.00123]"));
  EXPECT_EQ(static_cast<size_t>(std::count(text.begin(), text.end(), ',')) + 1,
            LiveFields().size());
  const std::set<std::string_view> names(LiveFields().begin(), LiveFields().end());
  EXPECT_EQ(names.size(), LiveFields().size());
  for (size_t s = 0; s < metrics::kStages; ++s) {
    const std::string name =
        std::string("stage_") + metrics::StageName(static_cast<metrics::Stage>(s)) + "_ms";
    EXPECT_EQ(LiveFields()[LiveFields().size() - metrics::kStages + s], name);
  }
}

TEST(LivePrint, RatesAreOfTheTimeBetween) {
  LivePoint point;
  Snapshot& window = point.window;
  window.seconds = 2;
  window.requests = Times(100, 2'000'000);
  window.stages[0] = Times(1, 500'000'000);
  window.infers = Times(6, 3'000'000);
  window.models.resize(3);
  Snapshot::Model& encoder = window.models[0];
  encoder.kind = Snapshot::Model::Kind::kEncoder;
  encoder.rows = 50;
  encoder.batches = 4;
  encoder.fill = 2;
  encoder.queues[1].requests = 3;
  Snapshot::Model& tensors = window.models[1];
  tensors.kind = Snapshot::Model::Kind::kTensors;
  tensors.rows = 48;
  tensors.batches = 4;
  tensors.fill = 3;
  tensors.tensors.queued_rows = 5;
  Snapshot::Model& text = window.models[2];
  text.kind = Snapshot::Model::Kind::kText;
  text.rows = 8;  // in no rate of encoders
  text.decode.generated_tokens = 8;
  text.text.emplace().running = 7;
  window.processor_s = 3;
  window.tokenization = {4, 0, 2};
  window.token_cache = {3, 4, 100};
  point.client_errors = 1;
  EXPECT_EQ(Value(point, "requests_per_s"), 50);
  EXPECT_NEAR(Value(point, "p50_ms"), 2, 0.04);
  EXPECT_NEAR(Value(point, "max_ms"), 2, 0.04);
  EXPECT_EQ(Value(point, "client_errors_per_s"), 0.5);
  EXPECT_EQ(Value(point, "rows_per_s"), 25);
  EXPECT_EQ(Value(point, "batches_per_s"), 2);
  EXPECT_EQ(Value(point, "batch_fill"), 0.5);
  EXPECT_EQ(Value(point, "interactive_requests"), 0);
  EXPECT_EQ(Value(point, "bulk_requests"), 3);
  EXPECT_EQ(Value(point, "tensor_requests_per_s"), 3);
  EXPECT_NEAR(Value(point, "tensor_p99_ms"), 3, 0.06);
  EXPECT_EQ(Value(point, "tensor_rows_per_s"), 24);
  EXPECT_EQ(Value(point, "tensor_batches_per_s"), 2);
  EXPECT_EQ(Value(point, "tensor_batch_fill"), 0.75);
  EXPECT_EQ(Value(point, "tensor_queue_rows"), 5);
  EXPECT_EQ(Value(point, "generated_tokens_per_s"), 4);
  EXPECT_EQ(Value(point, "texts_running"), 7);
  EXPECT_EQ(Value(point, "stage_receive_ms"), 5);
  EXPECT_EQ(Value(point, "processors"), 1.5);
  EXPECT_EQ(Value(point, "tokenization"), 0.25);
  EXPECT_EQ(Value(point, "token_cache_hits"), 0.75);
  EXPECT_EQ(Value(point, "caches_bytes"), 100);
}

TEST(LivePrint, NothingIsNotZero) {
  LivePoint point;
  point.window.seconds = 1;
  EXPECT_EQ(Value(point, "requests_per_s"), 0);
  EXPECT_EQ(Value(point, "tensor_requests_per_s"), 0);
  for (const char* ratio : {"p50_ms", "p99_ms", "tensor_p50_ms", "stage_receive_ms", "batch_fill",
                            "tensor_batch_fill", "token_cache_hits", "result_cache_hits"}) {
    EXPECT_TRUE(std::isnan(Value(point, ratio))) << ratio;
  }
}

}  // namespace
}  // namespace penstock::live

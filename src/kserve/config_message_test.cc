#include "kserve/config_message.h"

#include <gmock/gmock.h>
#include <kserve/model_config.pb.h>

namespace penstock::kserve {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

ModelConfigParts Parts() {
  ModelConfigParts parts{.name = "digits", .platform = "onnxruntime_onnx", .replicas = 2};
  parts.linger_us = 50;
  parts.signature.max_batch_size = 8;
  parts.signature.inputs = {{"x", signature::ElementType::kFp32, {{{1, -1}, {28, 28}, {1, 5}}}}};
  parts.signature.outputs = {{"y", signature::ElementType::kBytes, std::nullopt}};
  return parts;
}

TEST(ConfigMessageTest, SaysWhatIsServed) {
  inference::ModelConfig config;
  FillModelConfig(Parts(), &config);
  EXPECT_EQ(config.name(), "digits");
  EXPECT_EQ(config.backend(), "onnxruntime");
  EXPECT_EQ(config.max_batch_size(), 8);
  ASSERT_EQ(config.input_size(), 1);
  EXPECT_THAT(config.input(0).dims(), ::testing::ElementsAre(28, -1));
  EXPECT_EQ(config.output(0).data_type(), inference::TYPE_STRING);
  EXPECT_EQ(config.instance_group(0).count(), 2);
  EXPECT_EQ(config.dynamic_batching().max_queue_delay_microseconds(), 50u);
}

TEST(ConfigMessageTest, JsonHasNumbersAndDefaults) {
  const std::string json = ModelConfigJson(Parts());
  EXPECT_TRUE(json.starts_with(
      R"({"name":"digits","platform":"onnxruntime_onnx","backend":"onnxruntime","runtime":"",)"
      R"("version_policy":{"latest":{"num_versions":1}},"max_batch_size":8,)"
      R"("input":[{"name":"x","data_type":"TYPE_FP32","format":"FORMAT_NONE","dims":[28,-1],)"
      R"("is_shape_tensor":false,)"))
      << json;
  EXPECT_THAT(json, HasSubstr(R"("max_queue_delay_microseconds":50)"));
  EXPECT_THAT(json, HasSubstr(R"("parameters":{},"model_warmup":[])"));
  EXPECT_THAT(json, Not(HasSubstr("sequence_batching")));
}

TEST(ConfigMessageTest, WithoutBatchesDimsAreWhole) {
  ModelConfigParts parts = Parts();
  parts.signature.max_batch_size = 0;
  inference::ModelConfig config;
  FillModelConfig(parts, &config);
  EXPECT_THAT(config.input(0).dims(), ::testing::ElementsAre(-1, 28, -1));
  EXPECT_FALSE(config.has_dynamic_batching());
  parts.name = "\"quoted\"\n";
  EXPECT_THAT(ModelConfigJson(parts), HasSubstr(R"("name":"\"quoted\"\n")"));
}

}  // namespace
}  // namespace penstock::kserve

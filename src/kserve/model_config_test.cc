#include "kserve/model_config.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace penstock::kserve {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kWhole[] = R"(
name: "digits"
platform: "onnxruntime_onnx"
backend: "onnxruntime"
max_batch_size: 8
input [
  { name: "x" data_type: TYPE_FP32 dims: [ 28, 28 ] reshape { shape: [ 1, 784 ] } },
  { name: "ids" data_type: TYPE_INT64 dims: [ -1 ] }
]
output { name: "y" data_type: TYPE_BF16 dims: 10 }
instance_group [ { count: 2 kind: KIND_CPU }, { kind: KIND_AUTO } ]
dynamic_batching { max_queue_delay_microseconds: 250 }
version_policy { specific { versions: [ 3, 1 ] } }
default_model_filename: "net.onnx"
parameters { key: "check_finite" value { string_value: "true" } }
)";

TEST(ModelConfigTest, ReadsWhatItKnows) {
  const auto config = ParseModelConfig(kWhole, "config.pbtxt");
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_EQ(config->name, "digits");
  EXPECT_EQ(config->platform, "onnxruntime_onnx");
  EXPECT_EQ(config->max_batch_size, 8);
  EXPECT_EQ(config->replicas, 3);
  EXPECT_EQ(config->linger_us, 250);
  EXPECT_EQ(config->file, "net.onnx");
  EXPECT_THAT(config->versions, ElementsAre(1, 3));
  EXPECT_TRUE(config->check_finite);
  ASSERT_EQ(config->tensors.inputs.size(), 2u);
  const signature::DeclaredTensor& x = config->tensors.inputs[0];
  EXPECT_EQ(x.name, "x");
  EXPECT_EQ(x.type, signature::ElementType::kFp32);
  EXPECT_THAT(x.dims, ElementsAre(28, 28));
  EXPECT_THAT(*x.reshape, ElementsAre(1, 784));
  EXPECT_THAT(config->tensors.inputs[1].dims, ElementsAre(-1));
  EXPECT_FALSE(config->tensors.inputs[1].reshape);
  EXPECT_EQ(config->tensors.outputs[0].type, signature::ElementType::kBf16);
  EXPECT_THAT(config->no_effect, ElementsAre(HasSubstr("version_policy.specific has one version")));
}

TEST(ModelConfigTest, WhatIsNotSaidIsLeftToTheModel) {
  const auto config = ParseModelConfig("", "config.pbtxt");
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_FALSE(config->max_batch_size || config->replicas || config->linger_us);
  EXPECT_TRUE(config->tensors.empty());
  EXPECT_THAT(config->no_effect, IsEmpty());
  // As in Triton, dims without max_batch_size are those of a whole request.
  const auto dims = ParseModelConfig("input { name: 'x' data_type: TYPE_INT8 dims: 1 }", "c");
  ASSERT_TRUE(dims.ok());
  EXPECT_EQ(dims->max_batch_size, 0);
}

struct Refusal {
  const char* text;
  StatusCode code;
  const char* says;
};

TEST(ModelConfigTest, RefusesByNameAndPlace) {
  constexpr StatusCode kNot = StatusCode::kUnsupported, kBad = StatusCode::kInvalidArgument;
  const Refusal refusals[] = {
      {"\n\n  sequence_batching { }", kNot, "c:3:3: sequence_batching is not supported: models"},
      {"ensemble_scheduling { step { model_name: 'a' } }", kNot, "c:1:1: ensemble_scheduling"},
      {"input { name: 'x' data_type: TYPE_FP32 format: FORMAT_NCHW dims: [3, 8, 8] }", kNot,
       "c:1:40: input[0].format is not supported"},
      {"input { name: 'x' dims: 1 data_type: TYPE_FP32 }\n"
       "input { name: 'y' dims: 1 data_type: TYPE_FP32 optional: true }",
       kNot, "c:2:48: input[1].optional is not supported"},
      {"input { is_shape_tensor: true }", kNot, "input[0].is_shape_tensor"},
      {"input { allow_ragged_batch: true }", kNot, "input[0].allow_ragged_batch"},
      {"instance_group { kind: KIND_GPU }", kNot, "c:1:18: instance_group[0].kind KIND_GPU"},
      {"instance_group { gpus: [ 0 ] }", kNot, "instance_group[0].gpus is not supported"},
      {"instance_group { profile: '1' }", kNot, "instance_group[0].profile"},
      {"dynamic_batching { priority_levels: 2 }", kNot, "dynamic_batching.priority_levels"},
      {"dynamic_batching { default_queue_policy { max_queue_size: 4 } }", kNot,
       "dynamic_batching.default_queue_policy.max_queue_size"},
      {"dynamic_batching { preserve_ordering: true }", kNot, "dynamic_batching.preserve_ordering"},
      {"batch_input { kind: BATCH_ITEM_SHAPE }", kNot, "batch_input is not supported"},
      {"model_transaction_policy { decoupled: true }", kNot, "model_transaction_policy.decoupled"},
      {"model_operations { op_library_filename: '/tmp/a.so' }", kNot, "model_operations"},
      {"model_repository_agents { }", kNot, "model_repository_agents"},
      {"runtime: 'libtriton_x.so'", kNot, "runtime is not supported"},
      {"platform: 'tensorrt_plan'", kNot,
       "platform 'tensorrt_plan' is not supported; supported: onnxruntime_onnx, openvino, "},
      {"backend: 'python'", kNot, "backend 'python' is not supported; supported: onnxruntime, "},
      {"platform: 'onnxruntime_onnx' backend: 'tensorflow'", kBad, "does not go with"},
      {"default_model_filename: '../x.onnx'", kBad, "default_model_filename is to name"},
      {"default_model_filename: '.x'", kBad, "default_model_filename is to name"},
      {"max_batch_size: -1", kBad, "max_batch_size is to be from 0 to"},
      {"max_batch_size: 4294967296", kBad, "c:1:17: Integer out of range"},
      {"max_batch_size: 2000000", kBad, "from 0 to 1048576"},
      {"instance_group { count: 65 }", kBad, "instance_group[0].count"},
      {"instance_group { count: -3 }", kBad, "instance_group[0].count"},
      {"instance_group { count: 64 } instance_group { }", kBad, "instance_group[1].count"},
      {"dynamic_batching { max_queue_delay_microseconds: 99999999999 }", kBad,
       "dynamic_batching.max_queue_delay_microseconds is to be at most 10000000"},
      {"version_policy { specific { } }", kBad, "version_policy.specific names no version"},
      {"version_policy { specific { versions: [1, 0] } }", kBad, "specific.versions[1]"},
      {"input { name: 'x' dims: 1 }", kBad, "input[0].data_type is to be"},
      {"input { name: 'x' data_type: 99 dims: 1 }", kBad, "input[0].data_type is to be"},
      {"input { data_type: TYPE_FP32 dims: 1 }", kBad, "input[0].name is to have"},
      {"output { name: 'x' data_type: TYPE_FP32 }", kBad, "output[0].dims is missing"},
      {"output { name: 'x' data_type: TYPE_FP32 dims: [2, 0] }", kBad, "1 or more, not 0"},
      {"output { name: 'x' data_type: TYPE_FP32 dims: -2 }", kBad, "1 or more, not -2"},
      {"output { name: 'x' data_type: TYPE_FP32 dims: [4294967296, 4294967296] }", kBad,
       "more than 2^59 elements"},
      {"output { name: 'x' data_type: TYPE_FP32 dims: [2, 3] reshape { shape: [5] } }", kBad,
       "c:1:54: output[0].reshape : reshape [5] does not keep the elements of [2,3]"},
      {"output { name: 'x' data_type: TYPE_FP32 dims: 1 } output { name: 'x' data_type: TYPE_FP32 "
       "dims: 1 }",
       kBad, "output[1].name 'x' is there twice"},
      {"parameters { key: 'check_finite' value { string_value: 'yes' } }", kBad, "'check_finite'"},
      {"max_batch_sise: 3", kBad, "c:1:15: Message type \"inference.ModelConfig\" has no field"},
      {"max_batch_size: 3\nmax_batch_size: 4", kBad, "c:2:15"},
      {"input {", kBad, "c:1:8"},
      {"name: \"\xff\"", kBad, "c: is not text in UTF-8"},
      {"}", kBad, "c:1:1"},
  };
  for (const Refusal& refusal : refusals) {
    const auto config = ParseModelConfig(refusal.text, "c");
    ASSERT_FALSE(config.ok()) << refusal.text;
    EXPECT_EQ(config.code(), refusal.code) << refusal.text;
    EXPECT_THAT(config.status().message(), HasSubstr(refusal.says)) << refusal.text;
  }
  EXPECT_EQ(ParseModelConfig("input { format: 2 }", "c").status().field(), "input[0].format");
}

TEST(ModelConfigTest, TellsWhatHasNoEffect) {
  const auto config = ParseModelConfig(R"(
optimization { execution_accelerators { cpu_execution_accelerator { name: "openvino" } } }
model_warmup { name: "w" batch_size: 1 }
response_cache { enable: true }
metric_tags { key: "a" value: "b" }
dynamic_batching { preferred_batch_size: [ 4, 8 ] }
instance_group { rate_limiter { priority: 2 } host_policy: "p" }
output { name: "y" data_type: TYPE_FP32 dims: 4 label_filename: "labels.txt" }
version_policy { all { } }
parameters { key: "NUM_STREAMS" value { string_value: "2" } }
)",
                                       "c");
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  for (const char* said :
       {"c:2:1: optimization has no effect", "model_warmup has no effect",
        "response_cache.enable has no effect", "metric_tags has no effect",
        "dynamic_batching.preferred_batch_size", "instance_group[0].rate_limiter",
        "instance_group[0].host_policy", "output[0].label_filename", "version_policy.all",
        "parameters has keys without effect: NUM_STREAMS"}) {
    EXPECT_THAT(config->no_effect, ::testing::Contains(HasSubstr(said)));
  }
  EXPECT_EQ(config->no_effect.size(), 10u);
  // What is at its default asks for nothing.
  const auto off = ParseModelConfig(
      "response_cache { enable: false } model_transaction_policy { decoupled: false } "
      "input { name: 'x' data_type: TYPE_FP32 dims: 1 format: FORMAT_NONE optional: false } "
      "version_policy { latest { num_versions: 1 } } "
      "dynamic_batching { default_queue_policy { timeout_action: REJECT } }",
      "c");
  ASSERT_TRUE(off.ok()) << off.status().ToString();
  EXPECT_THAT(off->no_effect, IsEmpty());
}

TEST(ModelConfigTest, BoundsItsText) {
  const std::string large(ModelConfigLimits::kBytesMax + 1, '\n');
  EXPECT_EQ(ParseModelConfig(large, "c").code(), StatusCode::kPayloadTooLarge);
  std::string deep = "optimization { cuda { graph_spec { input { value {";
  for (int i = 0; i < 100000; ++i) deep += "{";
  EXPECT_EQ(ParseModelConfig(deep, "c").code(), StatusCode::kInvalidArgument);
  std::string many;
  for (size_t i = 0; i <= ModelConfigLimits::kTensorsMax; ++i) many += "input { name: '' } ";
  EXPECT_THAT(ParseModelConfig(many, "c").status().message(), HasSubstr("at most 4096"));
  std::string dims = "input { name: 'x' data_type: TYPE_FP32 ";
  for (size_t i = 0; i <= ModelConfigLimits::kDimsMax; ++i) dims += "dims: 1 ";
  EXPECT_THAT(ParseModelConfig(dims + "}", "c").status().message(), HasSubstr("over 64"));
}

TEST(ModelConfigTest, FileOfAPlatform) {
  EXPECT_EQ(ModelFileOf("onnxruntime_onnx", ""), "model.onnx");
  EXPECT_EQ(ModelFileOf("", "onnxruntime"), "model.onnx");
  EXPECT_EQ(ModelFileOf("tensorflow_graphdef", "tensorflow"), "model.graphdef");
  EXPECT_EQ(ModelFileOf("", "tensorflow"), "");
  EXPECT_EQ(ModelFileOf("", "openvino"), "");
  EXPECT_EQ(ModelFileOf("", ""), "");
}

}  // namespace
}  // namespace penstock::kserve

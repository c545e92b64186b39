#include "runtime/tensor_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/temp_folder_test_util.h"

namespace penstock::runtime {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// Model `net` with versions 3, 2 and 1, of which each has model.onnx.
class TensorSettingsTest : public testing::Test {
 protected:
  TensorSettingsTest() {
    for (const char* version : {"1", "2", "3"}) Write(fs::path("net") / version / "model.onnx", "");
  }

  void Write(const fs::path& path, const std::string& text) const { temp_.Write(path, text); }
  std::optional<kserve::TensorModelConfig> Read(const std::string& text) {
    Write("net/config.pbtxt", text);
    auto found = ScanRepository(root_.string());
    EXPECT_TRUE(found.ok());
    model_ = found->models[0];
    return ReadTensorSettings(&model_);
  }
  std::vector<std::string> Errors() const {
    std::vector<std::string> errors;
    for (const RepositoryVersion& version : model_.versions) errors.push_back(version.error);
    return errors;
  }

  const TempFolder temp_;
  const fs::path root_ = temp_.path();
  RepositoryModel model_;
};

TEST_F(TensorSettingsTest, SettingsReachTheModel) {
  const auto config = Read(
      "max_batch_size: 8 instance_group { count: 3 } "
      "dynamic_batching { max_queue_delay_microseconds: 70 } "
      "input { name: 'x' data_type: TYPE_FP32 dims: 4 } "
      "parameters { key: 'check_finite' value { string_value: 'true' } }");
  ASSERT_TRUE(config);
  EXPECT_THAT(Errors(), testing::ElementsAre("", "", ""));
  registry::ModelSpec spec;
  ApplyTensorSettings(*config, &spec);
  const engine::TensorEngineOptions& options = spec.options.tensors;
  EXPECT_EQ(options.max_batch_size, 8);
  EXPECT_EQ(spec.replicas, 3);
  EXPECT_EQ(options.scheduler.linger_us, 70);
  EXPECT_TRUE(options.scheduler.check_finite);
  EXPECT_EQ(options.declared.inputs.size(), 1u);
  EXPECT_EQ(TensorModelReference(*config, "a/1"), "a/1");
}

TEST_F(TensorSettingsTest, WhatIsNotSaidStaysAsItIs) {
  const auto config = Read("# nothing");
  ASSERT_TRUE(config);
  registry::ModelSpec spec;
  engine::TensorEngineOptions& options = spec.options.tensors;
  options.max_batch_size = 5;
  spec.replicas = 2;
  options.scheduler.linger_us = 9;
  ApplyTensorSettings(*config, &spec);
  EXPECT_EQ(options.max_batch_size, 5);
  EXPECT_EQ(spec.replicas, 2);
  EXPECT_EQ(options.scheduler.linger_us, 9);
}

TEST_F(TensorSettingsTest, FilesByNameAndPlatform) {
  Write("net/2/other.onnx", "");
  auto config = Read("default_model_filename: 'other.onnx'");
  ASSERT_TRUE(config);
  EXPECT_THAT(Errors(), testing::ElementsAre(HasSubstr("has no other.onnx"), "",
                                             HasSubstr("has no other.onnx")));
  EXPECT_EQ(TensorModelReference(*config, "a/2"), "a/2/other.onnx");
  config = Read("platform: 'onnxruntime_onnx'");
  ASSERT_TRUE(config);
  EXPECT_EQ(TensorModelReference(*config, "a/2"), "a/2/model.onnx");
  ASSERT_TRUE(Read("platform: 'tensorflow_graphdef'"));
  EXPECT_THAT(Errors()[0], HasSubstr("it has no model.graphdef, which config.pbtxt names"));
}

TEST_F(TensorSettingsTest, OnlyTheVersionsPicked) {
  ASSERT_TRUE(Read("version_policy { specific { versions: [ 1, 2, 9 ] } }"));
  ASSERT_EQ(model_.versions.size(), 2u);
  EXPECT_EQ(model_.versions[0].number, 2);
}

TEST_F(TensorSettingsTest, ABadFileIsAnErrorOfEveryVersion) {
  EXPECT_FALSE(Read("ensemble_scheduling { }"));
  EXPECT_THAT(Errors(), testing::Each(HasSubstr("config.pbtxt:1:1: ensemble_scheduling is not")));
  ASSERT_TRUE(Read("name: 'nett'"));
  EXPECT_THAT(Errors(), testing::Each(HasSubstr("name 'nett' is not that of the folder")));
}

TEST_F(TensorSettingsTest, AFolderWithoutATensorModel) {
  fs::remove(root_ / "net/3/model.onnx");
  Write("net/3/model.safetensors", "");
  ASSERT_TRUE(Read(""));
  EXPECT_THAT(Errors()[0], HasSubstr("it has a config.pbtxt and no model.onnx"));
  EXPECT_EQ(Errors()[1], "");
}

}  // namespace
}  // namespace penstock::runtime

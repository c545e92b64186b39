// Tensor models that OpenVINO computes, as engines; skipped where it is not installed.
#include "engine/openvino_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "engine/openvino_runner.h"
#include "openvino/openvino_test_util.h"

namespace penstock::engine {
namespace {

using openvino::CanOpenRuntime;
using openvino::Golden;
using openvino::Runtime;
using testing::ElementsAre;
using testing::HasSubstr;

TensorEngineOptions Options(int32_t max_batch_size = -1, int32_t replicas = 1) {
  TensorEngineOptions options;
  options.name = "model";
  options.max_batch_size = max_batch_size;
  options.replicas = replicas;
  return options;
}

template <typename T>
std::vector<T> ValuesOf(std::span<const std::byte> bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

// y = x w, w = [[0, 1, 2], [3, 4, 5], ...].
std::vector<float> Multiplied(const std::vector<float>& x, size_t rows) {
  std::vector<float> y;
  for (size_t row = 0; row < rows; ++row) {
    for (size_t column = 0; column < 3; ++column) {
      float sum = 0;
      for (size_t i = 0; i < 4; ++i) sum += x[row * 4 + i] * static_cast<float>(i * 3 + column);
      y.push_back(sum);
    }
  }
  return y;
}

TEST(PlanRows, TakesTheSizesThatAreDoneSoonest) {
  const auto first_rows = [](const std::vector<CompiledRows>& sizes, uint32_t rows_max) {
    std::vector<uint32_t> rows;
    for (const uint8_t index : PlanRows(sizes, rows_max)) rows.push_back(sizes[index].rows);
    rows.erase(rows.begin());  // of none
    return rows;
  };
  // A run costs as much as a row: seven rows in one of eight, but five in four and one.
  const std::vector<CompiledRows> near = {
      {1, 2, nullptr}, {2, 3, nullptr}, {4, 5, nullptr}, {8, 9, nullptr}};
  EXPECT_THAT(first_rows(near, 8), ElementsAre(1, 2, 4, 4, 4, 4, 8, 8));
  // Rows alone cost: none is computed in vain.
  const std::vector<CompiledRows> linear = {{1, 1, nullptr}, {2, 2, nullptr}, {4, 4, nullptr}};
  EXPECT_THAT(first_rows(linear, 9), ElementsAre(1, 2, 2, 4, 4, 4, 4, 4, 4));
  // Runs alone cost.
  const std::vector<CompiledRows> flat = {{1, 1, nullptr}, {4, 1, nullptr}, {10, 1, nullptr}};
  EXPECT_THAT(first_rows(flat, 5), ElementsAre(10, 10, 10, 10, 10));
}

TEST(OpenVinoModel, RunsRowsInParts) {
  PENSTOCK_RUNTIME_OR_SKIP(runtime);
  (void)runtime;
  const auto parts = LoadOpenVinoModel(Golden("matmul.onnx"), Options(), 2);
  ASSERT_TRUE(parts.ok()) << parts.status().ToString();
  EXPECT_EQ(parts->platform, "onnxruntime_onnx");
  EXPECT_THAT(parts->backend, HasSubstr("(2 threads)"));
  EXPECT_GT(parts->weight_bytes, 0u);
  const signature::TensorSignature& signature = parts->signature;
  EXPECT_GE(signature.max_batch_size, 8);
  EXPECT_LE(signature.max_batch_size, 64);
  EXPECT_EQ(signature::ShapeText(signature.inputs[0].shape), "[1..,4]");
  EXPECT_EQ(signature::ShapeText(signature.outputs[0].shape), "[1..,3]");
  ASSERT_TRUE(signature.has_fixed_rows());
  const auto rows_max = static_cast<uint32_t>(signature.max_batch_size);
  std::vector<float> x(rows_max * 4);
  std::iota(x.begin(), x.end(), 0.0f);
  const std::vector<float> wanted = Multiplied(x, rows_max);
  for (uint32_t rows = 1; rows <= rows_max; ++rows) {
    for (const uint32_t capacity : {rows, rows_max}) {
      // What lies behind the rows is no part of the result, and behind the capacity nobody's.
      std::vector<float> in(x.begin(), x.begin() + rows * 4), y(rows_max * 3 + 1, -1);
      in.resize(capacity * 4, NAN);
      const std::byte* const from = std::as_bytes(std::span(in)).data();
      std::byte* const to = reinterpret_cast<std::byte*>(y.data());
      const Status status = parts->runners[0]->RunRows(rows, capacity, {&from, 1}, {&to, 1});
      ASSERT_TRUE(status.ok()) << status.ToString();
      ASSERT_TRUE(std::equal(y.begin(), y.begin() + rows * 3, wanted.begin())) << rows;
      for (size_t i = capacity * 3; i < y.size(); ++i) ASSERT_EQ(y[i], -1) << rows;
    }
  }
  std::vector<signature::TensorData> outputs;
  const signature::TensorData all{{5, 4}, std::as_bytes(std::span(x)).first(5 * 16)};
  ASSERT_TRUE(parts->runners[0]->Run({&all, 1}, &outputs).ok());
  EXPECT_THAT(outputs[0].shape, ElementsAre(5, 3));
  EXPECT_EQ(ValuesOf<float>(outputs[0].bytes),
            std::vector<float>(wanted.begin(), wanted.begin() + 15));
}

TEST(OpenVinoModel, HasTheBatchThatIsAskedFor) {
  PENSTOCK_RUNTIME_OR_SKIP(runtime);
  (void)runtime;
  const auto five = LoadOpenVinoModel(Golden("matmul.onnx"), Options(5, 2), 1);
  ASSERT_TRUE(five.ok());
  EXPECT_EQ(five->signature.max_batch_size, 5);
  EXPECT_EQ(five->runners.size(), 2u);
  const auto none = LoadOpenVinoModel(Golden("matmul.onnx"), Options(0), 1);
  ASSERT_TRUE(none.ok());
  EXPECT_EQ(none->signature.max_batch_size, 0);
  EXPECT_EQ(signature::ShapeText(none->signature.inputs[0].shape), "[-1,4]");
  const std::vector<float> x = {1, 2, 3, 4, 5, 6, 7, 8};
  const signature::TensorData two{{2, 4}, std::as_bytes(std::span(x))};
  std::vector<signature::TensorData> outputs;
  ASSERT_TRUE(none->runners[0]->Run({&two, 1}, &outputs).ok());
  EXPECT_THAT(outputs[0].shape, ElementsAre(2, 3));
  EXPECT_EQ(ValuesOf<float>(outputs[0].bytes), Multiplied(x, 2));
}

TEST(OpenVinoModel, RowsThatDependOnEachOtherAreNotBatched) {
  PENSTOCK_RUNTIME_OR_SKIP(runtime);
  (void)runtime;
  // A sum over the rows, and outputs with other numbers of rows.
  for (const char* name : {"running_sum.onnx", "fixed_inside.onnx"}) {
    const auto parts = LoadOpenVinoModel(Golden(name), Options(), 1);
    ASSERT_TRUE(parts.ok()) << name << ": " << parts.status().ToString();
    EXPECT_EQ(parts->signature.max_batch_size, 0) << name;
  }
  // Who says so must know; but where a batch has another number of rows, nobody can.
  const auto told = LoadOpenVinoModel(Golden("running_sum.onnx"), Options(4), 1);
  ASSERT_TRUE(told.ok());
  EXPECT_EQ(told->signature.max_batch_size, 4);
  const Status refused = LoadOpenVinoModel(Golden("fixed_inside.onnx"), Options(4), 1).status();
  EXPECT_EQ(refused.code(), StatusCode::kUnsupported);
  EXPECT_THAT(refused.message(), HasSubstr("cannot run in batches"));
}

TEST(OpenVinoModel, FormatsHaveThePlatformsOfTriton) {
  PENSTOCK_RUNTIME_OR_SKIP(runtime);
  (void)runtime;
  const std::pair<const char*, const char*> platforms[] = {
      {"matmul.xml", "openvino"},
      {"add.pb", "tensorflow_graphdef"},
      {"add_saved_model", "tensorflow_savedmodel"},
      {"double.tflite", "tflite"}};
  for (const auto& [name, platform] : platforms) {
    const auto parts = LoadOpenVinoModel(Golden(name), Options(), 1);
    ASSERT_TRUE(parts.ok()) << name << ": " << parts.status().ToString();
    EXPECT_EQ(parts->platform, platform);
  }
}

TEST(OpenVinoModel, EveryTypeIsBatchedOrSaysWhyNot) {
  PENSTOCK_RUNTIME_OR_SKIP(runtime);
  (void)runtime;
  for (const char* type : {"bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32",
                           "uint64", "float16", "bfloat16", "float", "double"}) {
    const auto parts =
        LoadOpenVinoModel(Golden(std::string("same_") + type + ".onnx"), Options(), 1);
    ASSERT_TRUE(parts.ok()) << type << ": " << parts.status().ToString();
    EXPECT_GT(parts->signature.max_batch_size, 0) << type;
  }
  EXPECT_EQ(LoadOpenVinoModel(Golden("same_string.onnx"), Options(), 1).status().code(),
            StatusCode::kUnsupported);
}

TEST(OpenVinoModel, NeedsAreToldBeforeTheModelIsRead) {
  PENSTOCK_RUNTIME_OR_SKIP(runtime);
  (void)runtime;
  TensorEngineOptions options = Options();
  options.scheduler.ring_bytes_max = 1000;
  const auto needs = OpenVinoNeedsOf(Golden("external.onnx"), options);
  ASSERT_TRUE(needs.ok());
  EXPECT_GT(needs->least.weights, 1000u);
  EXPECT_EQ(OpenVinoNeedsOf(Golden("external_missing.onnx"), options).status().code(),
            StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace penstock::engine

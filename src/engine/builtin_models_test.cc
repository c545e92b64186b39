#include "engine/builtin_models.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

namespace penstock::engine {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

TensorEngineParts Made(const std::string& reference, int32_t max_batch_size = -1) {
  TensorEngineOptions options;
  options.max_batch_size = max_batch_size;
  auto parts = MakeBuiltinModel(reference, options);
  EXPECT_TRUE(parts.ok()) << parts.status().ToString();
  return parts.ok() ? *std::move(parts) : TensorEngineParts();
}

Status Refused(const std::string& reference) {
  const auto parts = MakeBuiltinModel(reference, {});
  EXPECT_FALSE(parts.ok()) << reference;
  return parts.status();
}

template <typename T>
std::vector<T> RunRows(signature::TensorRunner* runner, const std::vector<std::vector<T>>& inputs,
                       size_t outputs, uint32_t rows, Status* status) {
  std::vector<const std::byte*> in;
  for (const auto& input : inputs) in.push_back(std::as_bytes(std::span(input)).data());
  std::vector<T> results(outputs * inputs[0].size());
  std::vector<std::byte*> out;
  for (size_t i = 0; i < outputs; ++i) {
    out.push_back(reinterpret_cast<std::byte*>(&results[i * inputs[0].size()]));
  }
  *status = runner->RunRows(rows, rows + 1, in, out);
  return results;
}

TEST(BuiltinModels, IdentityHasTheShapeThatIsAskedFor) {
  const TensorEngineParts parts = Made("builtin:identity?type=UINT8&shape=3x2&batch=7&inputs=2");
  EXPECT_THAT(parts.signature.inputs, SizeIs(2));
  EXPECT_THAT(parts.signature.outputs, SizeIs(2));
  EXPECT_EQ(parts.signature.inputs[1].name, "INPUT1");
  EXPECT_EQ(parts.signature.outputs[1].name, "OUTPUT1");
  EXPECT_EQ(parts.signature.inputs[1].type, signature::ElementType::kUint8);
  EXPECT_EQ(signature::ShapeText(parts.signature.inputs[1].shape), "[1..,3,2]");
  EXPECT_EQ(parts.signature.max_batch_size, 7);
  EXPECT_TRUE(parts.signature.has_fixed_rows());
  EXPECT_FALSE(Made("builtin:identity?type=BYTES").signature.has_fixed_rows());
  EXPECT_FALSE(Made("builtin:identity?shape=-1x2").signature.has_fixed_rows());
  const TensorEngineParts single = Made("builtin:identity?shape=-1x2&batch=0");
  EXPECT_EQ(signature::ShapeText(single.signature.inputs[0].shape), "[-1,2]");
  EXPECT_EQ(single.signature.max_batch_size, 0);
  // What the server is told goes before what the reference says.
  EXPECT_EQ(Made("builtin:identity?batch=7", 5).signature.max_batch_size, 5);
  EXPECT_EQ(signature::ShapeText(Made("builtin:identity?batch=7", 0).signature.inputs[0].shape),
            "[32]");
}

TEST(BuiltinModels, AddGivesSumAndDifference) {
  Status status;
  const std::vector<std::vector<int32_t>> ints = {{1, 2, INT32_MAX, 0}, {3, 5, 1, 0}};
  const TensorEngineParts add = Made("builtin:add?type=INT32&shape=1");
  EXPECT_THAT(RunRows(add.runners[0].get(), ints, 2, 3, &status),
              ElementsAre(4, 7, INT32_MIN, 0, -2, -3, INT32_MAX - 1, 0));
  EXPECT_TRUE(status.ok());
  const std::vector<std::vector<float>> floats = {{1, 0.5f}, {3, 0.25f}};
  const TensorEngineParts real = Made("builtin:add?shape=1");
  EXPECT_THAT(RunRows(real.runners[0].get(), floats, 2, 2, &status),
              ElementsAre(4, 0.75f, -2, 0.25f));
}

TEST(BuiltinModels, AddOfDifferentShapesIsRefused) {
  const TensorEngineParts add = Made("builtin:add?shape=-1&batch=0");
  const std::vector<float> values = {1, 2};
  const auto bytes = std::as_bytes(std::span(values));
  std::vector<signature::TensorData> outputs;
  const std::vector<signature::TensorData> equal = {{{2}, bytes}, {{2}, bytes}};
  ASSERT_TRUE(add.runners[0]->Run(equal, &outputs).ok());
  EXPECT_THAT(outputs[1].shape, ElementsAre(2));
  const std::vector<signature::TensorData> unequal = {{{2}, bytes}, {{1}, bytes.first(4)}};
  EXPECT_EQ(add.runners[0]->Run(unequal, &outputs).code(), StatusCode::kInvalidArgument);
}

TEST(BuiltinModels, FailingFailsWhereItIsToldTo) {
  Status status;
  const std::vector<std::vector<float>> rows = {{1, 2, -3}};
  const TensorEngineParts negative = Made("builtin:failing?shape=1");
  EXPECT_THAT(RunRows(negative.runners[0].get(), rows, 1, 2, &status), ElementsAre(1, 2, 0));
  EXPECT_TRUE(status.ok());  // the third row is not one of the batch
  RunRows(negative.runners[0].get(), rows, 1, 3, &status);
  EXPECT_EQ(status.code(), StatusCode::kUnprocessable);
  const TensorEngineParts third = Made("builtin:failing?shape=1&every=3");
  for (int run = 1; run <= 9; ++run) {
    RunRows(third.runners[0].get(), rows, 1, 3, &status);
    EXPECT_EQ(status.ok(), run % 3 != 0) << run;
  }
}

TEST(BuiltinModels, WrongReferencesAreRefusedByName) {
  EXPECT_EQ(Refused("builtin:nothing").code(), StatusCode::kNotFound);
  EXPECT_THAT(Refused("builtin:nothing").message(), HasSubstr("identity, add, slow, failing"));
  EXPECT_EQ(Refused("builtin:").code(), StatusCode::kNotFound);
  const auto expect = [](const std::string& options, const std::string& key) {
    const Status status = Refused("builtin:" + options);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << options;
    EXPECT_EQ(status.field(), key) << options;
    EXPECT_THAT(status.message(), HasSubstr("'" + key + "'")) << options;
  };
  expect("identity?type=FP33", "type");
  expect("add?type=FP16", "type");
  expect("failing?type=BYTES", "type");
  for (const char* shape : {"", "0", "-2", "3x", "x3", "3X3", "1x1x1x1x1x1x1x1x1", "5000x5000"}) {
    expect(std::string("identity?shape=") + shape, "shape");
  }
  for (const char* batch : {"", "-1", "65537", "1.5", "many", "99999999999999999999"}) {
    expect(std::string("identity?batch=") + batch, "batch");
  }
  expect("identity?inputs=0", "inputs");
  expect("slow?ms=-1", "ms");
  expect("slow?ms=nan", "ms");
  expect("failing?every=x", "every");
  expect("identity?ms=5", "ms");
  expect("add?inputs=3", "inputs");
  expect("identity?shape=3&shape=4", "shape");
  EXPECT_THAT(Refused("builtin:identity?ms=5").message(),
              HasSubstr("its options are inputs, type, shape, batch"));
  EXPECT_EQ(Refused("builtin:identity?shape").code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Refused("builtin:identity?=3").code(), StatusCode::kInvalidArgument);
}

TEST(BuiltinModels, NamesOfReferences) {
  EXPECT_TRUE(IsBuiltinModel("builtin:identity"));
  EXPECT_FALSE(IsBuiltinModel("identity"));
  EXPECT_EQ(BuiltinModelName("builtin:identity?shape=3"), "identity");
  EXPECT_EQ(BuiltinModelName("builtin:add"), "add");
}

}  // namespace
}  // namespace penstock::engine

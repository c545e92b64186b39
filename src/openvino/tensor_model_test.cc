#include "openvino/tensor_model.h"

#include <gmock/gmock.h>

#include <limits>
#include <numeric>
#include <thread>

#include "openvino/openvino_test_util.h"

namespace penstock::openvino {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Loaded {
  std::unique_ptr<TensorModel> model;
  std::unique_ptr<CompiledModel> compiled;
  std::unique_ptr<InferRequest> request;
};

Loaded Load(const Runtime* runtime, const std::string& name, CompileOptions options = {}) {
  Loaded loaded;
  auto model = TensorModel::Load(runtime, Golden(name));
  EXPECT_TRUE(model.ok()) << model.status().ToString();
  if (!model.ok()) return loaded;
  loaded.model = *std::move(model);
  auto compiled = loaded.model->Compile(options);
  EXPECT_TRUE(compiled.ok()) << compiled.status().ToString();
  if (!compiled.ok()) return loaded;
  loaded.compiled = *std::move(compiled);
  auto request = loaded.compiled->NewRequest();
  EXPECT_TRUE(request.ok()) << request.status().ToString();
  if (request.ok()) loaded.request = *std::move(request);
  return loaded;
}

template <typename T>
std::vector<T> Values(const OutputView& view) {
  std::vector<T> values(view.bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), view.bytes.data(), view.bytes.size());
  return values;
}

std::vector<int64_t> Shape(std::initializer_list<int64_t> sizes) { return sizes; }

TEST(TensorModelTest, TellsNamesTypesAndShapes) {
  PENSTOCK_RUNTIME_OR_SKIP(runtime);
  for (int i = 0; i <= static_cast<int>(signature::ElementType::kBytes); ++i) {
    const auto type = static_cast<signature::ElementType>(i);
    const std::vector<const char*> names = {"bool",     "uint8", "uint16", "uint32", "uint64",
                                            "int8",     "int16", "int32",  "int64",  "float16",
                                            "bfloat16", "float", "double", "string"};
    const auto model =
        TensorModel::Load(runtime, Golden("same_" + std::string(names.at(i)) + ".onnx"));
    ASSERT_TRUE(model.ok()) << model.status().ToString();
    for (const auto* specs : {&(*model)->inputs(), &(*model)->outputs()}) {
      ASSERT_EQ(specs->size(), 1u);
      EXPECT_EQ(specs->front().name, specs == &(*model)->inputs() ? "x" : "y");
      EXPECT_EQ(specs->front().type, type);
      EXPECT_EQ(signature::ShapeText(specs->front().shape), "[-1,3]");
      EXPECT_FALSE(specs->front().fixed());
    }
  }
}

// Bytes in are bytes out, for values that 32 bits hold.
TEST(TensorModelTest, EveryTypePassesUnchanged) {
  PENSTOCK_RUNTIME_OR_SKIP(runtime);
  const auto check = [&](const char* name, const auto& values) {
    const Loaded loaded = Load(runtime, "same_" + std::string(name) + ".onnx");
    ASSERT_NE(loaded.request, nullptr);
    const auto bytes = BytesOf(values);
    ASSERT_TRUE(loaded.request->BindInput(0, Shape({2, 3}), bytes).ok());
    const Status ran = loaded.request->Run();
    ASSERT_TRUE(ran.ok()) << ran.ToString();
    const auto output = loaded.request->Output(0);
    ASSERT_TRUE(output.ok()) << output.status().ToString();
    EXPECT_EQ(output->shape, Shape({2, 3}));
    ASSERT_EQ(output->bytes.size(), bytes.size()) << name;
    EXPECT_EQ(std::memcmp(output->bytes.data(), bytes.data(), bytes.size()), 0) << name;
  };
  const auto limits = [&](const char* name, auto zero) {
    using T = decltype(zero);
    check(name, std::vector<T>{std::numeric_limits<T>::lowest(), std::numeric_limits<T>::max(), 0,
                               1, 2, 3});
  };
  limits("uint8", uint8_t{});
  limits("uint16", uint16_t{});
  limits("uint32", uint32_t{});
  limits("int8", int8_t{});
  limits("int16", int16_t{});
  limits("int32", int32_t{});
  limits("float", float{});
  check("bool", std::vector<uint8_t>{0, 1, 1, 0, 0, 1});
  check("int64", std::vector<int64_t>{-(int64_t{1} << 31), (int64_t{1} << 31) - 1, 0, 1, 2, 3});
  check("uint64", std::vector<uint64_t>{(uint64_t{1} << 31) - 1, 5, 0, 1, 2, 3});
  check("double", std::vector<double>{-1.5, 1e30, 0, 1, 2, 3});
  check("float16", std::vector<uint16_t>{0x3c00, 0x7bff, 0x0001, 0xbc00, 0, 0x4200});
  check("bfloat16", std::vector<uint16_t>{0x3f80, 0x7f7f, 0xbf80, 0, 0x4040, 0x4000});
}

// OpenVINO would take the lower 32 bits of an integer, and the largest float.
TEST(TensorModelTest, ValuesThatItWouldChangeAreRefusedByName) {
  PENSTOCK_RUNTIME_OR_SKIP(runtime);
  const auto check = [&](const char* name, const auto& values, bool fits) {
    const Loaded loaded = Load(runtime, "same_" + std::string(name) + ".onnx");
    ASSERT_NE(loaded.request, nullptr);
    ASSERT_TRUE(loaded.request->BindInput(0, Shape({1, 3}), BytesOf(values)).ok());
    const Status ran = loaded.request->Run();
    EXPECT_EQ(ran.ok(), fits) << name << ran.ToString();
    EXPECT_EQ(loaded.request->CheckValues(0, BytesOf(values)).ToString(), ran.ToString());
    if (ran.ok()) return;
    EXPECT_EQ(ran.code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(ran.field(), "x");
    EXPECT_THAT(ran.message(), HasSubstr("element 2"));
  };
  check("int64", std::vector<int64_t>{0, 0, int64_t{1} << 31}, false);
  check("int64", std::vector<int64_t>{0, 0, -(int64_t{1} << 31) - 1}, false);
  check("uint64", std::vector<uint64_t>{0, 0, uint64_t{1} << 31}, false);
  check("double", std::vector<double>{0, 0, 1e39}, false);
  check("double", std::vector<double>{0, 0, std::numeric_limits<double>::infinity()}, true);
}

TEST(TensorModelTest, EveryFormatRuns) {
  PENSTOCK_RUNTIME_OR_SKIP(runtime);
  const auto run = [&](const char* name, const std::vector<float>& x, std::vector<int64_t> shape) {
    const Loaded loaded = Load(runtime, name);
    std::vector<float> values;
    if (loaded.request == nullptr) return values;
    EXPECT_TRUE(loaded.request->BindInput(0, shape, BytesOf(x)).ok());
    EXPECT_TRUE(loaded.request->Run().ok());
    const auto output = loaded.request->Output(0);
    EXPECT_TRUE(output.ok());
    if (output.ok()) values = Values<float>(*output);
    return values;
  };
  EXPECT_THAT(run("matmul.onnx", {1, 1, 1, 1}, {1, 4}), ElementsAre(18, 22, 26));
  EXPECT_THAT(run("external.onnx", {1, 1, 1, 1}, {1, 4}), ElementsAre(18, 22, 26));
  EXPECT_THAT(run("matmul.xml", {1, 1, 1, 1, 0, 0, 0, 1}, {2, 4}),
              ElementsAre(18, 22, 26, 9, 10, 11));
  EXPECT_THAT(run("double.tflite", {1, 2, 3}, {1, 3}), ElementsAre(2, 4, 6));
  EXPECT_THAT(run("add.pb", {1, 1, 1}, {1, 3}), ElementsAre(2, 3, 4));
  EXPECT_THAT(run("add_saved_model", {1, 1, 1}, {1, 3}), ElementsAre(2, 3, 4));
}

TEST(TensorModelTest, FixedShapesReadAndWriteTheCallersMemory) {
  PENSTOCK_RUNTIME_OR_SKIP(runtime);
  const Loaded loaded = Load(runtime, "two.onnx", {.threads = 1, .batch = 2});
  ASSERT_NE(loaded.request, nullptr);
  EXPECT_EQ(signature::ShapeText(loaded.compiled->inputs()[0].shape), "[2,2]");
  EXPECT_EQ(loaded.compiled->outputs()[1].name, "product");
  EXPECT_EQ(loaded.compiled->outputs()[1].bytes(), 16u);
  std::vector<float> a = {1, 2, 3, 4}, b = {5, 6, 7, 8}, sum(4), product(4);
  ASSERT_TRUE(loaded.request->BindInput(0, Shape({2, 2}), BytesOf(a)).ok());
  ASSERT_TRUE(loaded.request->BindInput(1, Shape({2, 2}), BytesOf(b)).ok());
  ASSERT_TRUE(loaded.request->BindOutput(0, std::as_writable_bytes(std::span(sum))).ok());
  ASSERT_TRUE(loaded.request->BindOutput(1, std::as_writable_bytes(std::span(product))).ok());
  ASSERT_TRUE(loaded.request->Run().ok());
  EXPECT_THAT(sum, ElementsAre(6, 8, 10, 12));
  EXPECT_THAT(product, ElementsAre(5, 12, 21, 32));
  a = {0, 0, 0, 1};  // what is bound is read again by each run
  ASSERT_TRUE(loaded.request->Run().ok());
  EXPECT_THAT(sum, ElementsAre(5, 6, 7, 9));
  EXPECT_THAT(product, ElementsAre(0, 0, 0, 8));
  const auto output = loaded.request->Output(0);
  ASSERT_TRUE(output.ok());
  EXPECT_EQ(static_cast<const void*>(output->bytes.data()), sum.data());
}

// OpenVINO would leave the memory as it was.
TEST(TensorModelTest, AnOutputThatIsAnInputIsWrittenToo) {
  PENSTOCK_RUNTIME_OR_SKIP(runtime);
  const Loaded loaded = Load(runtime, "same_float.onnx", {.threads = 1, .batch = 2});
  ASSERT_NE(loaded.request, nullptr);
  std::vector<float> x = {1, 2, 3, 4, 5, 6}, y(6);
  ASSERT_TRUE(loaded.request->BindInput(0, Shape({2, 3}), BytesOf(x)).ok());
  ASSERT_TRUE(loaded.request->BindOutput(0, std::as_writable_bytes(std::span(y))).ok());
  ASSERT_TRUE(loaded.request->Run().ok());
  EXPECT_EQ(y, x);
  x[5] = 7;
  ASSERT_TRUE(loaded.request->Run().ok());
  EXPECT_EQ(y, x);
  const auto output = loaded.request->Output(0);
  ASSERT_TRUE(output.ok());
  EXPECT_EQ(output->shape, Shape({2, 3}));
  EXPECT_EQ(Values<float>(*output), x);
}

TEST(TensorModelTest, ScalarsInAndOut) {
  PENSTOCK_RUNTIME_OR_SKIP(runtime);
  const Loaded loaded = Load(runtime, "scalar.onnx");
  ASSERT_NE(loaded.request, nullptr);
  EXPECT_EQ(signature::ShapeText(loaded.compiled->inputs()[0].shape), "[]");
  const std::vector<float> x = {3};
  ASSERT_TRUE(loaded.request->BindInput(0, {}, BytesOf(x)).ok());
  ASSERT_TRUE(loaded.request->Run().ok());
  const auto output = loaded.request->Output(0);
  ASSERT_TRUE(output.ok()) << output.status().ToString();
  EXPECT_TRUE(output->shape.empty());
  EXPECT_THAT(Values<float>(*output), ElementsAre(6));
}

TEST(TensorModelTest, NamesAreThoseOfTheFile) {
  PENSTOCK_RUNTIME_OR_SKIP(runtime);
  // Dropout does nothing here, so OpenVINO calls the input by the output's name.
  const auto dropout = TensorModel::Load(runtime, Golden("dropout.onnx"));
  ASSERT_TRUE(dropout.ok()) << dropout.status().ToString();
  EXPECT_EQ((*dropout)->inputs()[0].name, "x");
  EXPECT_EQ((*dropout)->outputs()[0].name, "y");
  EXPECT_THAT((*dropout)->ignored_inputs(), ::testing::IsEmpty());
  const auto axes = TensorModel::Load(runtime, Golden("no_axes.onnx"));
  ASSERT_TRUE(axes.ok()) << axes.status().ToString();
  ASSERT_EQ((*axes)->inputs().size(), 1u);
  EXPECT_EQ((*axes)->inputs()[0].name, "x");
  EXPECT_THAT((*axes)->ignored_inputs(), ElementsAre("axes"));
}

TEST(TensorModelTest, OneModelCompilesForSeveralBatches) {
  PENSTOCK_RUNTIME_OR_SKIP(runtime);
  const auto model = TensorModel::Load(runtime, Golden("matmul.onnx"));
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  for (const int64_t batch : {4, 1, 64, 0, 2}) {
    const auto compiled = (*model)->Compile({.threads = 2, .batch = batch});
    ASSERT_TRUE(compiled.ok()) << compiled.status().ToString();
    const int64_t rows = batch == 0 ? 3 : batch;
    EXPECT_EQ((*compiled)->outputs()[0].fixed(), batch != 0);
    const auto request = (*compiled)->NewRequest();
    ASSERT_TRUE(request.ok());
    std::vector<float> x(static_cast<size_t>(rows) * 4, 1);
    ASSERT_TRUE((*request)->BindInput(0, Shape({rows, 4}), BytesOf(x)).ok());
    ASSERT_TRUE((*request)->Run().ok());
    const auto output = (*request)->Output(0);
    ASSERT_TRUE(output.ok());
    EXPECT_EQ(output->shape, Shape({rows, 3}));
    EXPECT_EQ(Values<float>(*output).back(), 26);
  }
  EXPECT_EQ(signature::ShapeText((*model)->inputs()[0].shape), "[-1,4]")
      << "what the file declares stays";
}

TEST(TensorModelTest, ABatchThatTheModelCannotHaveIsRefused) {
  PENSTOCK_RUNTIME_OR_SKIP(runtime);
  const auto inside = TensorModel::Load(runtime, Golden("fixed_inside.onnx"));
  ASSERT_TRUE(inside.ok()) << inside.status().ToString();
  const auto compiled = (*inside)->Compile({.threads = 1, .batch = 2});
  ASSERT_EQ(compiled.code(), StatusCode::kUnsupported);
  EXPECT_THAT(compiled.status().message(), HasSubstr("output 'y' has shape [1,4]"));
  EXPECT_TRUE((*inside)->Compile({.threads = 1}).ok());
  const auto fixed = TensorModel::Load(runtime, Golden("double.tflite"));
  ASSERT_TRUE(fixed.ok());
  EXPECT_THAT((*fixed)->Compile({.threads = 1, .batch = 2}).status().message(),
              HasSubstr("input 'x' of shape [1,3] cannot have a batch of 2"));
}

TEST(TensorModelTest, OutputsMayDependOnTheData) {
  PENSTOCK_RUNTIME_OR_SKIP(runtime);
  const Loaded loaded = Load(runtime, "nonzero.onnx");
  ASSERT_NE(loaded.request, nullptr);
  EXPECT_EQ(signature::ShapeText(loaded.compiled->outputs()[0].shape), "[1,0..4]");
  std::vector<int64_t> room(4);
  EXPECT_EQ(loaded.request->BindOutput(0, std::as_writable_bytes(std::span(room))).code(),
            StatusCode::kInvalidArgument);
  std::vector<float> x = {0, 5, 0, 7};
  ASSERT_TRUE(loaded.request->BindInput(0, Shape({4}), BytesOf(x)).ok());
  ASSERT_TRUE(loaded.request->Run().ok());
  auto output = loaded.request->Output(0);
  ASSERT_TRUE(output.ok());
  EXPECT_EQ(output->shape, Shape({1, 2}));
  EXPECT_THAT(Values<int64_t>(*output), ElementsAre(1, 3));
  x = {0, 0, 0, 0};
  ASSERT_TRUE(loaded.request->Run().ok());
  output = loaded.request->Output(0);
  ASSERT_TRUE(output.ok());
  EXPECT_EQ(output->shape, Shape({1, 0}));
  EXPECT_TRUE(output->bytes.empty());
}

TEST(TensorModelTest, NoRowsGiveNoRows) {
  PENSTOCK_RUNTIME_OR_SKIP(runtime);
  const Loaded loaded = Load(runtime, "matmul.onnx");
  ASSERT_NE(loaded.request, nullptr);
  ASSERT_TRUE(loaded.request->BindInput(0, Shape({0, 4}), {}).ok());
  const Status ran = loaded.request->Run();
  ASSERT_TRUE(ran.ok()) << ran.ToString();
  const auto output = loaded.request->Output(0);
  ASSERT_TRUE(output.ok());
  EXPECT_EQ(output->shape, Shape({0, 3}));
}

TEST(TensorModelTest, WrongInputsAreRefusedByName) {
  PENSTOCK_RUNTIME_OR_SKIP(runtime);
  const Loaded loaded = Load(runtime, "two.onnx");
  ASSERT_NE(loaded.request, nullptr);
  const std::vector<float> values(8);
  ASSERT_TRUE(loaded.request->BindInput(0, Shape({4, 2}), BytesOf(values)).ok());
  const Status missing = loaded.request->Run();
  EXPECT_EQ(missing.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(missing.field(), "b");
  for (const auto& shape : {Shape({8}), Shape({4, 3}), Shape({2, 2}), Shape({-1, 2}),
                            Shape({4, 2, 1}), Shape({std::numeric_limits<int64_t>::max(), 2})}) {
    const Status status = loaded.request->BindInput(1, shape, BytesOf(values));
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << signature::ShapeText(shape);
    EXPECT_EQ(status.field(), "b");
  }
}

// OpenVINO itself would give what lies behind the input, or no rows.
TEST(TensorModelTest, ShapesThatDoNotGoTogetherAreRefused) {
  PENSTOCK_RUNTIME_OR_SKIP(runtime);
  const std::vector<float> two(4, 2), three(6, 3);
  const Loaded reshape = Load(runtime, "three_rows.onnx");
  ASSERT_NE(reshape.request, nullptr);
  for (int i = 0; i < 2; ++i) {  // a shape that was refused is not remembered as right
    ASSERT_TRUE(reshape.request->BindInput(0, Shape({2, 2}), BytesOf(two)).ok());
    const Status status = reshape.request->Run();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status.ToString();
    EXPECT_THAT(status.message(), HasSubstr("do not go together"));
  }
  ASSERT_TRUE(reshape.request->BindInput(0, Shape({3, 2}), BytesOf(three)).ok());
  ASSERT_TRUE(reshape.request->Run().ok());
  EXPECT_THAT(Values<float>(*reshape.request->Output(0)), ElementsAre(3, 3, 3, 3, 3, 3));

  const Loaded add = Load(runtime, "two.onnx");
  ASSERT_NE(add.request, nullptr);
  ASSERT_TRUE(add.request->BindInput(0, Shape({2, 2}), BytesOf(two)).ok());
  ASSERT_TRUE(add.request->BindInput(1, Shape({3, 2}), BytesOf(three)).ok());
  EXPECT_EQ(add.request->Run().code(), StatusCode::kInvalidArgument);
  ASSERT_TRUE(add.request->BindInput(1, Shape({2, 2}), BytesOf(two)).ok());
  ASSERT_TRUE(add.request->Run().ok());
  EXPECT_THAT(Values<float>(*add.request->Output(1)), ElementsAre(4, 4, 4, 4));
}

TEST(TensorModelTest, SizesThatValuesDecideAreRefusedUnlessAllowed) {
  PENSTOCK_RUNTIME_OR_SKIP(runtime);
  const auto model = TensorModel::Load(runtime, Golden("shape_by_input.onnx"));
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  const auto refused = (*model)->Compile({});
  ASSERT_EQ(refused.code(), StatusCode::kUnsupported);
  EXPECT_THAT(refused.status().message(), HasSubstr("how large output 'y' of shape [-1,-1] is"));
  const Loaded loaded = Load(runtime, "shape_by_input.onnx", {.sizes_by_values = true});
  ASSERT_NE(loaded.request, nullptr);
  const std::vector<int64_t> shape = {1, 4};
  ASSERT_TRUE(loaded.request->BindInput(0, Shape({2}), BytesOf(shape)).ok());
  ASSERT_TRUE(loaded.request->Run().ok());
  EXPECT_EQ(loaded.request->Output(0)->shape, Shape({1, 4}));

  // Where inputs have no fixed shape, a run tells.
  const Loaded tile = Load(runtime, "repeats_by_input.onnx");
  ASSERT_NE(tile.request, nullptr);
  const std::vector<float> x = {1, 2};
  const std::vector<int64_t> repeats = {2};
  ASSERT_TRUE(tile.request->BindInput(0, Shape({2}), BytesOf(x)).ok());
  ASSERT_TRUE(tile.request->BindInput(1, Shape({1}), BytesOf(repeats)).ok());
  EXPECT_EQ(tile.request->Run().code(), StatusCode::kUnsupported);
}

TEST(TensorModelTest, WhatCannotBeServedIsRefusedByName) {
  PENSTOCK_RUNTIME_OR_SKIP(runtime);
  const auto unknown = TensorModel::Load(runtime, Golden("no_such_operator.onnx"));
  ASSERT_EQ(unknown.code(), StatusCode::kUnsupported);
  EXPECT_THAT(unknown.status().message(), HasSubstr("Frobnicate"));
  const auto type = TensorModel::Load(runtime, Golden("same_float8.onnx"));
  ASSERT_EQ(type.code(), StatusCode::kUnsupported);
  EXPECT_THAT(type.status().message(), HasSubstr("input 'x': its element type"));
  const auto huge = TensorModel::Load(runtime, Golden("huge.onnx"));
  ASSERT_EQ(huge.code(), StatusCode::kPayloadTooLarge);
  EXPECT_THAT(huge.status().message(), HasSubstr("'x' has shape [1099511627776,3]"));
  const auto strings = TensorModel::Load(runtime, Golden("same_string.onnx"));
  ASSERT_TRUE(strings.ok());
  EXPECT_THAT((*strings)->Compile({}).status().message(), HasSubstr("'x' has strings"));
  const auto rank = TensorModel::Load(runtime, Golden("any_rank.onnx"));
  ASSERT_TRUE(rank.ok()) << rank.status().ToString();
  EXPECT_EQ(signature::ShapeText((*rank)->inputs()[0].shape), "[...]");
  EXPECT_EQ((*rank)->Compile({}).code(), StatusCode::kUnsupported);
}

TEST(TensorModelTest, RequestsOfOneModelRunOnManyThreads) {
  PENSTOCK_RUNTIME_OR_SKIP(runtime);
  const auto model = TensorModel::Load(runtime, Golden("matmul.onnx"));
  ASSERT_TRUE(model.ok());
  const auto compiled = (*model)->Compile({.threads = 1});
  ASSERT_TRUE(compiled.ok());
  std::vector<std::thread> threads;
  std::atomic<int> right = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const auto request = (*compiled)->NewRequest();
      if (!request.ok()) return;
      const std::vector<float> x(4, static_cast<float>(t));
      for (int i = 0; i < 50; ++i) {
        if (!(*request)->BindInput(0, Shape({1, 4}), BytesOf(x)).ok()) return;
        if (!(*request)->Run().ok()) return;
        right += Values<float>(*(*request)->Output(0))[0] == 18.0f * static_cast<float>(t);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 200);
}

size_t ThreadsOfTheProcess() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return static_cast<size_t>(std::distance(begin(tasks), end(tasks)));
}

// A model of one thread runs on the thread that calls. OpenVINO keeps two more a model, which
// sleep: they are for runs without a waiting thread.
TEST(TensorModelTest, ThreadsAreThoseAskedFor) {
  PENSTOCK_RUNTIME_OR_SKIP(runtime);
  const std::vector<float> x(4096 * 4, 1);
  std::vector<Loaded> models;
  const size_t before = ThreadsOfTheProcess();
  for (int i = 0; i < 8; ++i) {
    models.push_back(Load(runtime, "matmul.onnx", {.threads = 1}));
    ASSERT_NE(models.back().request, nullptr);
    ASSERT_TRUE(models.back().request->BindInput(0, Shape({4096, 4}), BytesOf(x)).ok());
    ASSERT_TRUE(models.back().request->Run().ok());
  }
  EXPECT_LE(ThreadsOfTheProcess(), before + 8 * 2);
}

TEST(TensorModelTest, ShapesAsText) {
  EXPECT_EQ(signature::ShapeText(std::nullopt), "[...]");
  EXPECT_EQ(signature::ShapeText(std::vector<signature::DimensionRange>{}), "[]");
  EXPECT_EQ(signature::ShapeText(
                std::vector<signature::DimensionRange>{{0, -1}, {2, 2}, {1, 8}, {3, -1}}),
            "[-1,2,1..8,3..]");
}

TEST(TensorModelTest, CountsOfElements) {
  EXPECT_EQ(signature::ElementCount({}), 1u);
  EXPECT_EQ(signature::ElementCount(Shape({2, 3})), 6u);
  EXPECT_EQ(signature::ElementCount(Shape({int64_t{1} << 40, 0})), 0u);
  EXPECT_EQ(signature::ElementCount(Shape({-1})), std::nullopt);
  EXPECT_EQ(signature::ElementCount(Shape({int64_t{1} << 40, int64_t{1} << 20})), std::nullopt);
}

}  // namespace
}  // namespace penstock::openvino

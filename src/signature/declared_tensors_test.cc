#include "signature/declared_tensors.h"

#include <gmock/gmock.h>

#include <cstring>

namespace penstock::signature {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Dims = std::vector<int64_t>;

TensorSpec Spec(const std::string& name, std::optional<std::vector<DimensionRange>> shape,
                ElementType type = ElementType::kFp32) {
  return {name, type, std::move(shape)};
}

// x [n, 6], ids [n, any] to y [n, any, 2] and z [n, 2].
TensorSignature Model() {
  TensorSignature model;
  model.max_batch_size = 4;
  model.inputs = {Spec("x", {{{1, -1}, {6, 6}}}),
                  Spec("ids", {{{1, -1}, {0, -1}}}, ElementType::kInt64)};
  model.outputs = {Spec("y", {{{1, -1}, {0, -1}, {2, 2}}}), Spec("z", {{{1, -1}, {2, 2}}})};
  return model;
}

DeclaredTensors Declared() {
  return {
      {{"ids", ElementType::kInt64, {3}, std::nullopt}, {"x", ElementType::kFp32, {2, 3}, Dims{6}}},
      {{"y", ElementType::kFp32, {-1, 1, 2, 1}, Dims{-1, 2}}}};
}

TEST(DeclaredTensorsTest, DimsAndReshape) {
  const auto check = [](Dims dims, std::optional<Dims> reshape) {
    return CheckDims({"x", ElementType::kFp32, std::move(dims), std::move(reshape)});
  };
  EXPECT_TRUE(check({2, 3}, Dims{6}).ok());
  EXPECT_TRUE(check({1}, Dims{}).ok());
  EXPECT_TRUE(check({2, -1, 4}, Dims{2, 1, -1, 2, 2}).ok());
  EXPECT_TRUE(check({-1, -1}, Dims{-1, 1, -1}).ok());
  for (const auto& [dims, reshape] :
       std::vector<std::pair<Dims, Dims>>{{{2, 3}, {5}},
                                          {{2, -1}, {-1, 2}},
                                          {{-1}, {4}},
                                          {{4}, {-1}},
                                          {{2}, {2, 0}},
                                          {{1}, {int64_t{1} << 40, int64_t{1} << 40}}}) {
    EXPECT_EQ(check(dims, reshape).code(), StatusCode::kInvalidArgument)
        << ShapeText(dims) << ShapeText(reshape);
  }
}

TEST(DeclaredTensorsTest, Signature) {
  const auto users = DeclareTensors(Model(), Declared());
  ASSERT_TRUE(users.ok()) << users.status().ToString();
  ASSERT_EQ(users->inputs.size(), 2u);
  EXPECT_EQ(users->inputs[0].name, "x");
  EXPECT_EQ(ShapeText(users->inputs[0].shape), "[1..,2,3]");
  EXPECT_EQ(ShapeText(users->inputs[1].shape), "[1..,3]");
  ASSERT_EQ(users->outputs.size(), 1u);
  EXPECT_EQ(ShapeText(users->outputs[0].shape), "[1..,-1,1,2,1]");
}

TEST(DeclaredTensorsTest, RefusesWhatTheModelHasNot) {
  const auto refused = [](const std::function<void(DeclaredTensors*)>& change) {
    DeclaredTensors declared = Declared();
    change(&declared);
    return DeclareTensors(Model(), declared).status().message();
  };
  EXPECT_THAT(refused([](auto* all) { all->inputs[0].name = "a"; }),
              HasSubstr("the model has no input 'a'; it has x, ids"));
  EXPECT_THAT(refused([](auto* all) { all->inputs[0].type = ElementType::kFp32; }),
              HasSubstr("input 'ids' is declared as FP32, the model has INT64"));
  EXPECT_THAT(refused([](auto* all) {
                all->inputs[1].reshape = Dims{3, 2};
              }),
              HasSubstr("input 'x' is declared as [3,2], the model has [6] after"));
  EXPECT_THAT(refused([](auto* all) {
                all->inputs[1] = {"x", ElementType::kFp32, {-1}, {}};
              }),
              HasSubstr("is declared as [-1], the model has [6]"));
  EXPECT_THAT(refused([](auto* all) { all->outputs[0].reshape.reset(); }),
              HasSubstr("output 'y' is declared as [-1,1,2,1]"));
  EXPECT_THAT(refused([](auto* all) { all->inputs.pop_back(); }),
              HasSubstr("input 'x' of the model is not declared"));
  EXPECT_THAT(refused([](auto* all) { all->inputs.push_back(all->inputs[0]); }),
              HasSubstr("declared twice"));
}

// Gives y as [n, 2 * ids, 2] and z, numbered through; keeps the shapes that it was given.
class Runner : public TensorRunner {
 public:
  Status RunRows(uint32_t rows, uint32_t capacity, std::span<const std::byte* const> inputs,
                 std::span<std::byte* const> outputs) override {
    capacity_ = capacity;
    for (std::byte* output : outputs) std::memset(output, static_cast<int>(rows), capacity * 8);
    in_ = inputs[0];
    return Status::Ok();
  }
  Status Run(std::span<const TensorData> inputs, std::vector<TensorData>* outputs) override {
    shapes_ = {inputs[0].shape, inputs[1].shape};
    in_ = inputs[0].bytes.data();
    const int64_t rows = inputs[0].shape[0], size = inputs[1].shape[1];
    values_.resize(rows * size * 4);
    for (size_t i = 0; i < values_.size(); ++i) values_[i] = static_cast<float>(i);
    const auto bytes = std::as_bytes(std::span(values_));
    *outputs = {{{rows, 2 * size, 2}, bytes}, {{rows, 2}, bytes.first(rows * 8)}};
    return Status::Ok();
  }

  std::vector<Dims> shapes_;
  uint32_t capacity_ = 0;
  const std::byte* in_ = nullptr;
  std::vector<float> values_;
};

TEST(DeclaredTensorsTest, ShapesAreNamedAnewAndNothingIsCopied) {
  auto owned = std::make_unique<Runner>();
  Runner* const inner = owned.get();
  const auto runner = NewDeclaredRunner(std::move(owned), Model(), Declared());
  alignas(64) const float x[12] = {};
  const int64_t ids[6] = {};
  const TensorData inputs[] = {{{2, 2, 3}, std::as_bytes(std::span(x))},
                               {{2, 3}, std::as_bytes(std::span(ids))}};
  std::vector<TensorData> outputs;
  ASSERT_TRUE(runner->Run(inputs, &outputs).ok());
  EXPECT_THAT(inner->shapes_, ElementsAre(ElementsAre(2, 6), ElementsAre(2, 3)));
  EXPECT_EQ(inner->in_, inputs[0].bytes.data());
  ASSERT_EQ(outputs.size(), 1u);
  EXPECT_THAT(outputs[0].shape, ElementsAre(2, 6, 1, 2, 1));
  EXPECT_EQ(outputs[0].bytes.data(), std::as_bytes(std::span(inner->values_)).data());
}

TEST(DeclaredTensorsTest, OutputsAreHeldToWhatIsDeclared) {
  DeclaredTensors declared = Declared();
  declared.outputs[0] = {"y", ElementType::kFp32, {5, 2}, std::nullopt};
  const auto runner = NewDeclaredRunner(std::make_unique<Runner>(), Model(), declared);
  alignas(64) const float x[12] = {};
  const int64_t ids[6] = {};
  const TensorData inputs[] = {{{2, 2, 3}, std::as_bytes(std::span(x))},
                               {{2, 3}, std::as_bytes(std::span(ids))}};
  std::vector<TensorData> outputs;
  const Status status = runner->Run(inputs, &outputs);
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_THAT(status.message(), HasSubstr("output 'y' has the shape [2,6,2]"));
}

TEST(DeclaredTensorsTest, RowsFixedByDeclaration) {
  DeclaredTensors declared = Declared();
  declared.outputs = {{"y", ElementType::kFp32, {12}, Dims{6, 2}}};
  ASSERT_TRUE(DeclareTensors(Model(), declared)->has_fixed_rows());
  const auto runner = NewDeclaredRunner(std::make_unique<Runner>(), Model(), declared);
  alignas(64) const float x[24] = {};
  const int64_t ids[12] = {};
  float y[4 * 12] = {};
  const std::byte* inputs[] = {std::as_bytes(std::span(x)).data(),
                               std::as_bytes(std::span(ids)).data()};
  std::byte* outputs[] = {std::as_writable_bytes(std::span(y)).data()};
  ASSERT_TRUE(runner->RunRows(3, 4, inputs, outputs).ok());
  for (int i = 0; i < 36; ++i) EXPECT_EQ(y[i], i);
  EXPECT_EQ(y[36], 0);
}

TEST(DeclaredTensorsTest, OutputsLeftOut) {
  TensorSignature model = Model();
  model.inputs.pop_back();
  model.outputs[0].shape = {{{1, -1}, {2, 2}}};
  DeclaredTensors declared = {{}, {{"z", ElementType::kFp32, {2}, std::nullopt}}};
  auto owned = std::make_unique<Runner>();
  Runner* const inner = owned.get();
  const auto runner = NewDeclaredRunner(std::move(owned), model, declared);
  ASSERT_EQ(DeclareTensors(model, declared)->outputs.size(), 1u);
  alignas(64) const float x[24] = {};
  unsigned char z[32] = {};
  const std::byte* inputs[] = {std::as_bytes(std::span(x)).data()};
  std::byte* outputs[] = {std::as_writable_bytes(std::span(z)).data()};
  ASSERT_TRUE(runner->RunRows(3, 4, inputs, outputs).ok());
  EXPECT_EQ(inner->capacity_, 4u);
  EXPECT_EQ(inner->in_, inputs[0]);  // rows are passed on where they lie
  EXPECT_THAT(z, ::testing::Each(3));
}

}  // namespace
}  // namespace penstock::signature

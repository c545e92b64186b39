// Valid programs, and every way they can be broken.
#include "program/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "program/program_cost.h"
#include "program/program_run.h"
#include "program/test_fakes.h"

namespace penstock::program {
namespace {

using testing::HasSubstr;

constexpr int32_t kHidden = 8;
constexpr int32_t kInner = 20;
constexpr int32_t kLength = 16;
constexpr int32_t kLabels = 3;

// One layer that ends with a token of each sequence, and a classifier:
//   0 embed  1 linear (qkv)  2 attention  3 pool  4 linear  5 feed_forward  6 linear  7 norm
struct Encoder {
  FakeTable words{50, kHidden}, positions{kLength, kHidden}, types{2, kHidden}, one{1, kHidden},
      rope{kLength, 2}, bias{2, 7}, label_norm{1, kLabels};
  FakeLinear qkv{3 * kHidden, kHidden}, out{kHidden, kHidden}, ff_in{kInner, kHidden},
      ff_gate{kInner, kHidden}, ff_out{kHidden, kInner}, head{kLabels, kHidden};
  Program program;
  ValueId x, wide, context, picked, logits;

  Encoder() {
    program.max_length = kLength;
    x = program.AddValue(Rows::kTokens, kHidden);
    wide = program.AddValue(Rows::kTokens, 3 * kHidden);
    context = program.AddValue(Rows::kSequences, kHidden);
    picked = program.AddValue(Rows::kSequences, kHidden);
    logits = program.AddValue(Rows::kSequences, kLabels);
    const Norm norm = {&one, &one, 1e-5f};
    AttentionShape shape;
    shape.heads = shape.kv_heads = 2;
    shape.head_size = 4;
    shape.rope_cos = shape.rope_sin = &rope;
    shape.rope_size = 4;
    shape.relative_bias = &bias;
    const Residual residual = {.value = picked, .after = norm};
    program.ops = {
        EmbedOp{.words = &words, .positions = &positions, .types = &types, .norm = norm, .y = x},
        LinearOp{.x = x, .weight = &qkv, .y = wide},
        AttentionOp{.x = wide, .shape = shape, .queries = Pick::kFirst, .y = context},
        PoolOp{x, Pooling::kCls, 0, picked},
        LinearOp{.x = context, .weight = &out, .residual = residual, .y = picked},
        FeedForwardOp{.x = picked,
                      .in = &ff_in,
                      .activation = Activation::kGelu,
                      .up = &ff_gate,
                      .out = &ff_out,
                      .residual = residual,
                      .y = picked},
        LinearOp{.x = picked, .weight = &head, .activation = Activation::kTanh, .y = logits},
        NormOp{logits, {&label_norm, nullptr, 1e-5f}, logits}};
    program.result = logits;
  }
  template <typename T>
  T& Get(size_t op) {
    return std::get<T>(program.ops[op]);
  }
};

TEST(CheckProgram, TakesOneThatIsRight) {
  EXPECT_TRUE(CheckProgram(Encoder().program).ok()) << CheckProgram(Encoder().program).ToString();
}

struct Broken {
  const char* message;
  std::function<void(Encoder*)> damage;
};

// Long: one row per defect.
TEST(CheckProgram, NamesWhatIsBroken) {
  static const FakeTable narrow(50, kHidden - 1), brief(kLength - 1, kHidden),
      brief_rope(kLength - 1, 2), row(1, kHidden + 1), even(2, 6), wide_norm(1, 3 * kHidden);
  static const FakeLinear other(kHidden, kHidden + 1);
  const std::vector<Broken> cases = {
      {"max_length must be positive", [](Encoder* e) { e->program.max_length = 0; }},
      {"value 1 has no width", [](Encoder* e) { e->program.values[1].width = 0; }},
      {"result is not a value", [](Encoder* e) { e->program.result = kNoValue; }},
      {"result is read before it is written", [](Encoder* e) { e->program.ops.resize(6); }},
      {"op 0 (embed): words are missing", [](Encoder* e) { e->Get<EmbedOp>(0).words = nullptr; }},
      {"op 0 (embed): words are a table and a matrix",
       [](Encoder* e) { e->Get<EmbedOp>(0).matrix = &e->out; }},
      {"op 0 (embed): positions are [15, 8], [16, 8] are needed",
       [](Encoder* e) { e->Get<EmbedOp>(0).positions = &brief; }},
      {"op 0 (embed): positions are [16, 8], [18, 8] are needed",
       [](Encoder* e) { e->Get<EmbedOp>(0).position_padding = 1; }},
      {"types have another width", [](Encoder* e) { e->Get<EmbedOp>(0).types = &narrow; }},
      {"the norm is [1, 9], its rows have width 8",
       [](Encoder* e) { e->Get<EmbedOp>(0).norm.beta = &row; }},
      {"op 0 (embed): y must be rows of tokens",
       [](Encoder* e) { e->Get<EmbedOp>(0).y = e->picked; }},
      {"op 1 (linear): x is not a value of the program",
       [](Encoder* e) { e->Get<LinearOp>(1).x = 99; }},
      {"op 1 (linear): x is read before it is written",
       [](Encoder* e) { e->Get<LinearOp>(1).x = e->wide; }},
      {"op 1 (linear): y is x", [](Encoder* e) { e->Get<LinearOp>(1).y = e->x; }},
      {"op 1 (linear): the weight is missing",
       [](Encoder* e) { e->Get<LinearOp>(1).weight = nullptr; }},
      {"op 1 (linear): the weight takes width 9, it is given 8",
       [](Encoder* e) { e->Get<LinearOp>(1).weight = &other; }},
      {"op 1 (linear): y has width 24, the op gives 8",
       [](Encoder* e) { e->Get<LinearOp>(1).weight = &e->out; }},
      {"x has width 24, its heads take 36",
       [](Encoder* e) {
         AttentionShape& shape = e->Get<AttentionOp>(2).shape;
         shape.heads = shape.kv_heads = 3;
         shape.relative_bias = nullptr;
       }},
      {"q, k and v have a norm and no matrix",
       [](Encoder* e) { e->Get<AttentionOp>(2).norm = {&wide_norm}; }},
      {"there are no heads", [](Encoder* e) { e->Get<AttentionOp>(2).shape.head_size = 0; }},
      {"the scale must be positive", [](Encoder* e) { e->Get<AttentionOp>(2).shape.scale = 0; }},
      {"the window or soft cap is negative",
       [](Encoder* e) { e->Get<AttentionOp>(2).shape.window = -1; }},
      {"rotary tables come in pairs",
       [](Encoder* e) { e->Get<AttentionOp>(2).shape.rope_sin = nullptr; }},
      {"rotary tables do not fit", [](Encoder* e) { e->Get<AttentionOp>(2).shape.rope_size = 6; }},
      {"rotary tables are shorter",
       [](Encoder* e) { e->Get<AttentionOp>(2).shape.rope_cos = &brief_rope; }},
      {"the relative bias must be",
       [](Encoder* e) { e->Get<AttentionOp>(2).shape.relative_bias = &even; }},
      {"op 2 (attention): y must be rows of tokens",
       [](Encoder* e) { e->Get<AttentionOp>(2).queries = Pick::kAll; }},
      {"op 3 (pool): y is too narrow", [](Encoder* e) { e->Get<PoolOp>(3).y = e->logits; }},
      {"op 3 (pool): columns of y are filled from the left",
       [](Encoder* e) { e->Get<PoolOp>(3).column = 1; }},
      {"op 3 (pool): y must be rows of sequences", [](Encoder* e) { e->Get<PoolOp>(3).y = e->x; }},
      {"op 4 (linear): residual must be rows of sequences",
       [](Encoder* e) { e->Get<LinearOp>(4).residual.value = e->x; }},
      {"op 4 (linear): sum is y", [](Encoder* e) { e->Get<LinearOp>(4).residual.sum = e->picked; }},
      {"op 4 (linear): y is x", [](Encoder* e) { e->Get<LinearOp>(4).y = e->context; }},
      {"op 5 (feed_forward): out takes width 8, it is given 20",
       [](Encoder* e) { e->Get<FeedForwardOp>(5).out = &e->out; }},
      {"op 5 (feed_forward): up and in differ in width",
       [](Encoder* e) { e->Get<FeedForwardOp>(5).up = &e->out; }},
      {"op 5 (feed_forward): residual is not a value",
       [](Encoder* e) { e->Get<FeedForwardOp>(5).residual = {}; }},
      {"op 6 (linear): the residual is missing",
       [](Encoder* e) { e->Get<LinearOp>(6).residual.scale = 2; }},
      {"op 7 (norm): the norm is missing",
       [](Encoder* e) { e->Get<NormOp>(7).norm.gamma = nullptr; }},
      {"op 7 (norm): an op over tokens follows one over sequences",
       [](Encoder* e) {
         e->program.ops[7] = NormOp{e->x, {&e->one, nullptr, 0}, e->x};
       }},
      {"op 7 (embed): an op over tokens follows one over sequences",
       [](Encoder* e) { e->program.ops[7] = e->program.ops[0]; }},
  };
  for (const Broken& one : cases) {
    Encoder encoder;
    one.damage(&encoder);
    const Status status = CheckProgram(encoder.program);
    EXPECT_EQ(status.code(), StatusCode::kInternal) << one.message;
    EXPECT_THAT(status.message(), HasSubstr(one.message));
  }
}

TEST(CheckProgram, PoolsFillAValueFromTheLeft) {
  Encoder e;
  e.program.ops.resize(1);
  const ValueId both = e.program.AddValue(Rows::kSequences, 2 * kHidden);
  e.program.result = both;
  e.program.ops.push_back(PoolOp{e.x, Pooling::kMean, 0, both});
  EXPECT_THAT(CheckProgram(e.program).message(), HasSubstr("result is read before"));
  e.program.ops.push_back(PoolOp{e.x, Pooling::kMax, kHidden, both});
  EXPECT_TRUE(CheckProgram(e.program).ok()) << CheckProgram(e.program).ToString();
}

TEST(CheckBatch, RefusesWhatAProgramCannotRun) {
  const Encoder e;
  const std::vector<int32_t> ids = {1, 2, 49, 0, 7}, types = {0, 1, 0, 1, 0}, offsets = {0, 3, 5},
                             skip = {2, 0};
  std::vector<float> out(2 * kLabels);
  const std::vector<float*> sinks = {out.data(), out.data() + kLabels};
  const PackedBatch good{ids, types, offsets, skip};
  EXPECT_TRUE(CheckBatch(e.program, good, sinks).ok());
  const auto field = [&](const PackedBatch& batch) {
    const Status status = CheckBatch(e.program, batch, sinks);
    EXPECT_FALSE(status.ok());
    return status.field();
  };
  EXPECT_EQ(field({}), "inputs");
  EXPECT_EQ(field({std::vector<int32_t>{1, 2, 50, 0, 7}, types, offsets, skip}), "inputs");
  EXPECT_EQ(field({std::vector<int32_t>{1, 2, -1, 0, 7}, types, offsets, skip}), "inputs");
  EXPECT_EQ(field({ids, std::span(types).first(4), offsets, skip}), "type_ids");
  EXPECT_EQ(field({ids, std::vector<int32_t>{0, 2, 0, 0, 0}, offsets, skip}), "type_ids");
  EXPECT_EQ(field({ids, types, std::span(offsets).first(2), skip}), "offsets");
  EXPECT_EQ(field({ids, types, std::vector<int32_t>{0, 5, 5}, {}}), "inputs");
  EXPECT_EQ(field({ids, types, offsets, std::vector<int32_t>{3, 0}}), "pool_skip");
  EXPECT_EQ(field({ids, types, offsets, std::span(skip).first(1)}), "pool_skip");
  const std::vector<int32_t> many(kLength + 1, 1), whole = {0, kLength + 1};
  EXPECT_EQ(field({many, {}, whole, {}}), "inputs");
  EXPECT_EQ(CheckBatch(e.program, good, std::span(sinks).first(1)).field(), "out");

  Program input;
  input.max_length = kLength;
  input.result = input.AddValue(Rows::kTokens, 2);
  input.ops = {InputOp{input.result}};
  PackedBatch batch = good;
  EXPECT_EQ(CheckBatch(input, batch, sinks).field(), "inputs");
  const std::vector<float> rows(10);
  batch.input = rows;
  EXPECT_TRUE(CheckBatch(input, batch, sinks).ok());
}

TEST(ProgramCost, CountsMultiplyAddsAndBytes) {
  const Encoder e;
  const BatchShape batch = {3, 5};
  const auto cost = [&](size_t op) { return CostOf(e.program, e.program.ops[op], batch); };
  EXPECT_EQ(cost(0).operations, 0);
  EXPECT_EQ(cost(1).operations, 2.0 * 15 * 8 * 24);  // tokens
  EXPECT_EQ(cost(1).weight_bytes, 8u * 24 * 4);
  EXPECT_EQ(cost(1).activation_bytes, 15u * (8 + 24) * 4);
  EXPECT_EQ(cost(2).operations, 4.0 * 3 * 5 * 8);  // one query a sequence
  EXPECT_EQ(cost(4).operations, 2.0 * 3 * 8 * 8);  // sequences
  EXPECT_EQ(cost(5).operations, 2.0 * 3 * 3 * 8 * 20);
  double sum = 0;
  for (size_t i = 0; i < e.program.ops.size(); ++i) sum += cost(i).operations;
  EXPECT_EQ(CostOf(e.program, batch).operations, sum);
  EXPECT_EQ(ValueBytes(e.program, batch), (15u * (8 + 24) + 3u * (8 + 8 + 3)) * 4);
}

TEST(ProgramCost, AWindowBoundsThePairs) {
  Encoder e;
  AttentionOp op = e.Get<AttentionOp>(2);
  op.queries = Pick::kAll;
  const auto pairs = [&](int32_t window, int64_t length) {
    op.shape.window = window;
    return CostOf(e.program, op, {1, length}).operations / (4 * 8);
  };
  EXPECT_EQ(pairs(0, 5), 25);
  EXPECT_EQ(pairs(2, 5), 13);  // 2 + 3 + 3 + 3 + 2
  EXPECT_EQ(pairs(9, 5), 25);
  op.queries = Pick::kLast;
  EXPECT_EQ(pairs(2, 5), 2);
  EXPECT_EQ(pairs(0, 5), 5);
}

TEST(ProgramCost, OpsReadAsText) {
  Encoder e;
  const auto text = [&](size_t op) { return OpText(e.program.ops[op]); };
  EXPECT_EQ(text(0), "%0 = embed(words [50, 8], positions [16, 8], types [2, 8], norm)");
  EXPECT_EQ(text(1), "%1 = linear(%0, [24, 8] f32)");
  EXPECT_EQ(text(2), "%2 = attention(%1, 2 heads of 4, rotary 4, relative bias, first token)");
  EXPECT_EQ(text(3), "%3 = pool(%0, cls)");
  EXPECT_EQ(text(4), "%3 = linear(%2, [8, 8] f32, + %3, norm)");
  EXPECT_EQ(text(5),
            "%3 = feed_forward(%3, in [20, 8] f32, gelu, up [20, 8] f32, out [8, 20] f32, + %3, "
            "norm)");
  EXPECT_EQ(text(6), "%4 = linear(%3, [3, 8] f32, tanh)");
  EXPECT_EQ(text(7), "%4 = norm(%4)");
  e.Get<LinearOp>(4).residual.sum = e.x;
  EXPECT_EQ(text(4), "%0, %3 = linear(%2, [8, 8] f32, + %3, norm)");
  EXPECT_EQ(ValueText(e.program, e.wide), "%1: tokens x 24");
  EXPECT_EQ(ValueText(e.program, e.logits), "%4: sequences x 3");
}

}  // namespace
}  // namespace penstock::program

// Programs of decoders: valid ones, every way they can be broken, and their costs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "program/program.h"
#include "program/program_cost.h"
#include "program/test_fakes.h"

namespace penstock::program {
namespace {

using testing::HasSubstr;

constexpr int32_t kHidden = 16;
constexpr int32_t kHead = 4;
constexpr int32_t kHeads = 6;
constexpr int32_t kKvHeads = 2;
constexpr int32_t kInner = 24;
constexpr int32_t kVocabulary = 50;
constexpr int32_t kContext = 64;

// 0 embed  1 attention  2 linear  3 feed_forward  4 picks
struct Decoder {
  FakeTable gamma{1, kHidden}, head_gamma{1, kHead}, rope{kContext, kHead / 2};
  FakeLinear words{kVocabulary, kHidden, numbers::DType::kBf16},
      q{kHeads * kHead, kHidden, numbers::DType::kBf16},
      k{kKvHeads * kHead, kHidden, numbers::DType::kBf16},
      v{kKvHeads * kHead, kHidden, numbers::DType::kBf16},
      out{kHidden, kHeads*kHead, numbers::DType::kBf16},
      gate{kInner, kHidden, numbers::DType::kBf16}, up{kInner, kHidden, numbers::DType::kBf16},
      down{kHidden, kInner, numbers::DType::kBf16};
  Program program;
  ValueId x, attended, logits;

  Decoder() {
    program.max_length = kContext;
    x = program.AddValue(Rows::kTokens, kHidden);
    attended = program.AddValue(Rows::kTokens, kHeads * kHead);
    logits = program.AddValue(Rows::kSequences, kVocabulary);
    const Norm norm = {&gamma, nullptr, 1e-5f, NormKind::kRms};
    const Norm head_norm = {&head_gamma, nullptr, 1e-5f, NormKind::kRms};
    AttentionShape shape;
    shape.layer = 0;
    shape.causal = true;
    shape.heads = kHeads;
    shape.kv_heads = kKvHeads;
    shape.head_size = kHead;
    shape.rope_cos = shape.rope_sin = &rope;
    shape.rope_size = kHead;
    shape.q_norm = shape.k_norm = head_norm;
    program.ops = {
        EmbedOp{.matrix = &words, .y = x},
        AttentionOp{.x = x, .norm = norm, .q = &q, .k = &k, .v = &v, .shape = shape, .y = attended},
        LinearOp{.x = attended, .weight = &out, .residual = {.value = x, .norm = norm}, .y = x},
        FeedForwardOp{.x = x,
                      .norm = norm,
                      .in = &gate,
                      .activation = Activation::kSilu,
                      .up = &up,
                      .out = &down,
                      .residual = {.value = x},
                      .y = x},
        PicksOp{.x = x, .norm = norm, .weight = &words, .y = logits}};
    program.result = logits;
  }
  AttentionOp& attention() { return std::get<AttentionOp>(program.ops[1]); }
  template <typename T>
  T& Get(size_t op) {
    return std::get<T>(program.ops[op]);
  }
};

TEST(CheckStepProgram, TakesOneThatIsRight) {
  EXPECT_TRUE(CheckProgram(Decoder().program).ok()) << CheckProgram(Decoder().program).ToString();
}

struct Broken {
  const char* message;
  std::function<void(Decoder*)> damage;
};

// Long: one row per defect.
TEST(CheckStepProgram, NamesWhatIsBroken) {
  static const FakeTable wide(1, kHidden + 1), brief(kContext - 1, kHead / 2);
  static const FakeLinear other(kHidden, kHidden + 2, numbers::DType::kBf16);
  const std::vector<Broken> cases = {
      {"op 0 (embed): words are missing", [](Decoder* d) { d->Get<EmbedOp>(0).matrix = nullptr; }},
      {"y must be rows of tokens", [](Decoder* d) { d->Get<EmbedOp>(0).y = d->logits; }},
      {"op 1 (attention): x is read before it is written",
       [](Decoder* d) { d->attention().x = d->attended; }},
      {"y is x", [](Decoder* d) { d->attention().y = d->x; }},
      {"an RMS norm has no beta", [](Decoder* d) { d->attention().norm.beta = &d->gamma; }},
      {"the norm is [1, 17], its rows have width 16",
       [](Decoder* d) { d->attention().norm.gamma = &wide; }},
      {"there are no heads", [](Decoder* d) { d->attention().shape.kv_heads = 0; }},
      {"heads is not a multiple of kv_heads",
       [](Decoder* d) { d->attention().shape.kv_heads = 4; }},
      {"the head size is odd", [](Decoder* d) { d->attention().shape.head_size = 3; }},
      {"the layer is negative", [](Decoder* d) { d->attention().shape.layer = -2; }},
      {"the scale must be positive", [](Decoder* d) { d->attention().shape.scale = 0; }},
      {"the window or soft cap is negative", [](Decoder* d) { d->attention().shape.window = -1; }},
      {"the window or soft cap is negative",
       [](Decoder* d) { d->attention().shape.soft_cap = -1; }},
      {"rotary tables come in pairs", [](Decoder* d) { d->attention().shape.rope_sin = nullptr; }},
      {"rotary tables are shorter than max_length",
       [](Decoder* d) { d->attention().shape.rope_cos = &brief; }},
      {"rotary tables do not fit the head", [](Decoder* d) { d->attention().shape.rope_size = 2; }},
      {"rotary tables for long sequences need a rope_switch",
       [](Decoder* d) { d->attention().shape.long_rope_cos = &d->rope; }},
      {"rotary tables come in pairs",
       [](Decoder* d) {
         d->program.rope_switch = 32;
         d->attention().shape.long_rope_cos = &d->rope;
       }},
      {"rotary tables are shorter than max_length",
       [](Decoder* d) {
         d->program.rope_switch = 32;
         d->attention().shape.long_rope_cos = d->attention().shape.long_rope_sin = &brief;
       }},
      {"the norm is [1, 16], its rows have width 4",
       [](Decoder* d) { d->attention().shape.k_norm.gamma = &d->gamma; }},
      {"q is missing", [](Decoder* d) { d->attention().q = nullptr; }},
      {"q does not fit its heads", [](Decoder* d) { d->attention().q = &d->k; }},
      {"k does not fit its heads", [](Decoder* d) { d->attention().k = &d->q; }},
      {"v does not fit its heads", [](Decoder* d) { d->attention().v = &d->q; }},
      {"v takes width 18, it is given 16", [](Decoder* d) { d->attention().v = &other; }},
      {"layers attend in one direction and in both",
       [](Decoder* d) {
         AttentionOp second = d->attention();
         second.shape.causal = !second.shape.causal;
         d->program.ops.insert(d->program.ops.begin() + 2, second);
       }},
      {"op 2 (linear): y is x", [](Decoder* d) { d->Get<LinearOp>(2).x = d->x; }},
      {"residual has width 24, the op gives 16",
       [](Decoder* d) { d->Get<LinearOp>(2).residual.value = d->attended; }},
      {"y has width 24, the op gives 16",
       [](Decoder* d) { d->Get<FeedForwardOp>(3).y = d->attended; }},
      {"op 3 (feed_forward): up and in differ in width",
       [](Decoder* d) { d->Get<FeedForwardOp>(3).up = &d->words; }},
      {"out takes width 16, it is given 24",
       [](Decoder* d) { d->Get<FeedForwardOp>(3).out = &d->gate; }},
      {"op 4 (picks): y must be rows of sequences",
       [](Decoder* d) { d->Get<PicksOp>(4).y = d->x; }},
      {"the soft cap is negative", [](Decoder* d) { d->Get<PicksOp>(4).soft_cap = -2; }},
      {"result is read before it is written", [](Decoder* d) { d->program.ops.resize(4); }},
      {"states have no scale and no soft cap",
       [](Decoder* d) {
         d->Get<PicksOp>(4).weight = nullptr;
         d->Get<PicksOp>(4).scale = 2;
       }},
  };
  for (const Broken& one : cases) {
    Decoder decoder;
    one.damage(&decoder);
    EXPECT_THAT(CheckProgram(decoder.program).message(), HasSubstr(one.message));
  }
}

TEST(CheckStepProgram, ALayerMayHaveNoRotationAndNoNorms) {
  Decoder decoder;
  AttentionShape& shape = decoder.attention().shape;
  shape.rope_cos = shape.rope_sin = nullptr;
  shape.q_norm = shape.k_norm = Norm();
  decoder.attention().norm = Norm();
  EXPECT_TRUE(CheckProgram(decoder.program).ok());
}

TEST(StepProgramCost, CountsWeightsKeysAndPickedRows) {
  const Decoder decoder;
  const Program& program = decoder.program;
  const BatchShape decode = {.sequences = 1, .length = 1, .past = 10};
  const Cost words = CostOf(program, program.ops[0], decode);
  EXPECT_EQ(words.weight_bytes, 2u * kHidden);  // one row
  const Cost attention = CostOf(program, program.ops[1], decode);
  const double linear = 2.0 * kHidden * (kHeads + 2 * kKvHeads) * kHead;
  EXPECT_EQ(attention.operations, linear + 4.0 * 11 * kHeads * kHead);
  // Eleven keys and values read, one of each appended.
  EXPECT_EQ(attention.cache_bytes, 2u * 2 * (11 + 1) * kKvHeads * kHead);
  const BatchShape prompt = {.sequences = 2, .length = 3, .past = 0};
  EXPECT_EQ(CostOf(program, program.ops[1], prompt).operations,
            2 * (3 * linear + 4.0 * (1 + 2 + 3) * kHeads * kHead));
  EXPECT_EQ(CostOf(program, program.ops[4], prompt).operations, 2.0 * 2 * kHidden * kVocabulary);
  EXPECT_EQ(CostOf(program, prompt).cache_bytes,
            CostOf(program, program.ops[1], prompt).cache_bytes);
}

TEST(StepProgramCost, AWindowBoundsTheKeys) {
  Decoder decoder;
  decoder.attention().shape.window = 8;
  const Cost cost =
      CostOf(decoder.program, decoder.program.ops[1], {.sequences = 1, .length = 1, .past = 40});
  EXPECT_EQ(cost.cache_bytes, 2u * 2 * (8 + 1) * kKvHeads * kHead);
}

TEST(StepProgramCost, OpsReadAsText) {
  Decoder decoder;
  decoder.attention().shape.window = 8;
  decoder.Get<PicksOp>(4).soft_cap = 30;
  const Program& program = decoder.program;
  EXPECT_EQ(OpText(program.ops[0]), "%0 = embed(words [50, 16] bf16)");
  EXPECT_EQ(OpText(program.ops[1]),
            "%1 = attention(%0, norm, q [24, 16] bf16, k [8, 16] bf16, v [8, 16] bf16, "
            "layer 0, 6 heads of 4, 2 kv, q norm, k norm, rotary 4, window 8)");
  EXPECT_EQ(OpText(program.ops[2]), "%0 = linear(%1, [16, 24] bf16, norm, + %0)");
  EXPECT_EQ(OpText(program.ops[3]),
            "%0 = feed_forward(%0, norm, in [24, 16] bf16, silu, up [24, 16] bf16, out "
            "[16, 24] bf16, + %0)");
  EXPECT_EQ(OpText(program.ops[4]), "%2 = picks(%0, norm, [50, 16] bf16, soft cap 30)");
}

TEST(CacheGroups, OneForTheWindowsOfACausalProgram) {
  const auto window = [](int32_t tokens) {
    return std::vector<CacheGroup>{kFullGroup, {CacheKind::kWindow, tokens}};
  };
  Decoder decoder;
  EXPECT_EQ(CacheGroups(decoder.program), std::vector<CacheGroup>{kFullGroup});
  auto second = std::get<AttentionOp>(decoder.program.ops[1]);
  second.shape.layer = 1;
  second.shape.window = 20;
  decoder.program.ops.insert(decoder.program.ops.begin() + 2, second);
  EXPECT_EQ(CacheGroups(decoder.program), window(20));
  const auto shape = [&](size_t op) -> const AttentionShape& {
    return std::get<AttentionOp>(decoder.program.ops[op]).shape;
  };
  EXPECT_EQ(CacheGroupOf(shape(1), window(20)), 0u);
  EXPECT_EQ(CacheGroupOf(shape(2), window(20)), 1u);
  EXPECT_EQ(CacheGroupOf(shape(2), {&kFullGroup, 1}), 0u);
  std::get<AttentionOp>(decoder.program.ops[1]).shape.window = 30;
  EXPECT_EQ(CacheGroups(decoder.program), window(30));
  std::get<AttentionOp>(decoder.program.ops[2]).shape.causal = false;
  EXPECT_EQ(CacheGroups(decoder.program), std::vector<CacheGroup>{kFullGroup});
}

}  // namespace
}  // namespace penstock::program

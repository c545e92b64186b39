// What the CPU does not run is refused by name.
#include "cpu/op_support.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "cpu/cpu_backend.h"
#include "program/test_fakes.h"

namespace penstock::cpu {
namespace {

constexpr int32_t kWidth = 8;

// One of each operation, with a cache or without; nothing of it is refused.
struct EachOp {
  explicit EachOp(bool cached) {
    program.max_length = 16;
    x = program.AddValue(program::Rows::kTokens, kWidth);
    qkv = program.AddValue(program::Rows::kTokens, 3 * kWidth);
    context = program.AddValue(program::Rows::kTokens, kWidth);
    program.result = program.AddValue(program::Rows::kSequences, kWidth);
    program::AttentionShape shape;
    shape.heads = shape.kv_heads = 2;
    shape.head_size = kWidth / 2;
    program::LinearOp add{.x = context, .weight = &square, .residual = {.value = x}, .y = x};
    program::FeedForwardOp feed{
        .x = x, .in = &square, .up = &square, .out = &square, .residual = {.value = x}, .y = x};
    if (cached) {
      shape.layer = 0;
      shape.causal = true;
      add.residual.norm = feed.norm = feed.residual.norm = rms;
      program.ops = {program::EmbedOp{.matrix = &square, .y = x},
                     program::AttentionOp{.x = x,
                                          .norm = rms,
                                          .q = &square,
                                          .k = &square,
                                          .v = &square,
                                          .shape = shape,
                                          .y = context},
                     add, feed,
                     program::PicksOp{.x = x, .norm = rms, .weight = &square, .y = program.result}};
    } else {
      add.residual.after = feed.residual.after = layer;
      program.ops = {program::EmbedOp{.words = &words, .norm = layer, .y = x},
                     program::LinearOp{.x = x, .weight = &wide, .y = qkv},
                     program::AttentionOp{.x = qkv, .shape = shape, .y = context},
                     add,
                     feed,
                     program::NormOp{x, layer, x},
                     program::PoolOp{x, program::Pooling::kMean, 0, program.result}};
    }
  }
  template <typename T>
  T& Get(size_t op) {
    return std::get<T>(program.ops[op]);
  }

  program::FakeTable words{50, kWidth}, gamma{1, kWidth}, bias{2, 3};
  program::FakeLinear square{kWidth, kWidth}, wide{3 * kWidth, kWidth},
      bf16{kWidth, kWidth, numbers::DType::kBf16};
  program::Norm rms{&gamma, nullptr, 1e-5f, program::NormKind::kRms}, layer{&gamma, nullptr, 1e-5f};
  program::Program program;
  program::ValueId x, qkv, context;
};

struct Refused {
  const char* message;
  std::function<void(EachOp*)> change;
};

void ExpectRefused(bool cached, const std::vector<Refused>& cases) {
  EachOp good(cached);
  EXPECT_TRUE(program::CheckProgram(good.program).ok())
      << program::CheckProgram(good.program).ToString();
  EXPECT_TRUE(CheckSupport(good.program).ok()) << CheckSupport(good.program).ToString();
  for (const auto& [message, change] : cases) {
    EachOp changed(cached);
    change(&changed);
    const Status status = CheckSupport(changed.program);
    EXPECT_EQ(status.code(), StatusCode::kUnsupported) << message;
    EXPECT_THAT(status.message(), testing::HasSubstr(message));
  }
}

TEST(CheckSupport, NamesWhatStepsDoNotRun) {
  ExpectRefused(
      true, {{"op 0 (embed): the CPU does not run words that are a table in a program with a cache",
              [](EachOp* e) { e->Get<program::EmbedOp>(0).words = &e->words; }},
             {"op 1 (attention): the CPU does not run a layer norm",
              [](EachOp* e) { e->Get<program::AttentionOp>(1).norm = e->layer; }},
             {"a relative bias",
              [](EachOp* e) { e->Get<program::AttentionOp>(1).shape.relative_bias = &e->bias; }},
             {"one token's result",
              [](EachOp* e) { e->Get<program::AttentionOp>(1).queries = program::Pick::kLast; }},
             {"attention without a cache",
              [](EachOp* e) {
                program::AttentionOp op = e->Get<program::AttentionOp>(1);
                op.shape.layer = program::kNoCache;
                e->program.ops[2] = op;
              }},
             {"a norm of the sum",
              [](EachOp* e) { e->Get<program::LinearOp>(2).residual.after = e->rms; }},
             {"a linear layer without a residual",
              [](EachOp* e) { e->Get<program::LinearOp>(2).residual = program::Residual(); }},
             {"a feed-forward without a gate",
              [](EachOp* e) { e->Get<program::FeedForwardOp>(3).up = nullptr; }},
             {"a layer norm", [](EachOp* e) { e->Get<program::PicksOp>(4).norm = e->layer; }},
             {"op 4 (norm)", [](EachOp* e) {
                e->program.ops[4] = program::NormOp{e->x, e->layer, e->x};
              }}});
}

TEST(CheckSupport, NamesWhatIsNotRunWithoutACache) {
  ExpectRefused(
      false,
      {{"op 0 (embed): the CPU does not run words that are a matrix in a program without a cache",
        [](EachOp* e) { e->Get<program::EmbedOp>(0).matrix = &e->square; }},
       {"a scale", [](EachOp* e) { e->Get<program::EmbedOp>(0).scale = 2; }},
       {"an activation before the sum",
        [](EachOp* e) { e->Get<program::LinearOp>(3).activation = program::Activation::kTanh; }},
       {"a norm or scale before the sum",
        [](EachOp* e) { e->Get<program::LinearOp>(3).residual.scale = 2; }},
       {"an RMS norm", [](EachOp* e) { e->Get<program::LinearOp>(3).residual.after = e->rms; }},
       {"one direction", [](EachOp* e) { e->Get<program::AttentionOp>(2).shape.causal = true; }},
       {"fewer kv heads", [](EachOp* e) { e->Get<program::AttentionOp>(2).shape.kv_heads = 1; }},
       {"a window of one token",
        [](EachOp* e) { e->Get<program::AttentionOp>(2).shape.window = 1; }},
       {"a norm of x", [](EachOp* e) { e->Get<program::FeedForwardOp>(4).norm = e->layer; }},
       {"up and in of two types",
        [](EachOp* e) { e->Get<program::FeedForwardOp>(4).up = &e->bf16; }},
       {"op 6 (picks): the CPU does not run picked rows", [](EachOp* e) {
          e->program.ops[6] = program::PicksOp{.x = e->x, .y = e->program.result};
        }}});
}

TEST(Prepare, RefusesWhatTheCpuDoesNotRun) {
  const auto backend = *NewCpuBackend({.threads = 1, .pin = false});
  EachOp plain(false), cached(true);
  plain.Get<program::EmbedOp>(0).scale = 2;
  const auto scaled = backend->Prepare(plain.program);
  EXPECT_EQ(scaled.status().code(), StatusCode::kUnsupported);
  EXPECT_THAT(scaled.status().message(), testing::HasSubstr("op 0 (embed)"));
  EachOp good(false);
  EXPECT_TRUE(backend->Prepare(good.program).ok());
  const program::Program* const both[] = {&good.program, &cached.program};
  EXPECT_EQ(backend->Prepare(both).status().code(), StatusCode::kUnsupported);
  // Rows, picks and blocks of a cache must be given.
  EXPECT_EQ(backend->Prepare(cached.program).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace penstock::cpu

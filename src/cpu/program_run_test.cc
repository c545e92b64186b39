// Programs on the CPU, by the Backend seam alone: the same bits however a batch is cut, values that
// begin in the middle of a model, memory that programs share, errors as a Status.
#include "cpu/program_run.h"

#include <gtest/gtest.h>

#include "cpu/cpu_backend.h"
#include "cpu/test_util.h"

namespace penstock::cpu {
namespace {

constexpr int32_t kHidden = 48;
constexpr int32_t kInner = 96;
constexpr int32_t kLength = 300;

std::vector<float> Random(size_t n, unsigned seed) { return NormalFloats(n, seed, 0, 0.5f); }

// Half a model: hidden states in, a layer, then rows of tokens or the mean of each sequence.
class Layer {
 public:
  explicit Layer(program::Backend* backend) {
    qkv_ = Pack(backend, 3 * kHidden, kHidden, 1);
    out_ = Pack(backend, kHidden, kHidden, 2);
    ff_in_ = Pack(backend, kInner, kHidden, 3);
    ff_out_ = Pack(backend, kHidden, kInner, 4);
    dense_ = Pack(backend, 5, 2 * kHidden, 5);
    const std::vector<float> gamma = Random(kHidden, 6);
    gamma_ = backend->Keep(program::ViewOf(gamma, kHidden));
    for (const bool pooled : {false, true}) programs_.push_back(Make(pooled));
    for (const program::Program& program : programs_) {
      EXPECT_TRUE(program::CheckProgram(program).ok()) << program::CheckProgram(program).ToString();
    }
  }
  std::vector<const program::Program*> programs() const { return {&programs_[0], &programs_[1]}; }
  static size_t Width(size_t program) { return program == 0 ? kHidden : 5; }

 private:
  static std::unique_ptr<program::PackedLinear> Pack(program::Backend* backend, int32_t out,
                                                     int32_t in, unsigned seed) {
    const std::vector<float> weight =
        Random(static_cast<size_t>(out) * static_cast<size_t>(in), seed);
    const program::LinearRows rows = {program::ViewOf(weight, in), {}};
    return *backend->Pack(std::span(&rows, 1), {});
  }

  program::Program Make(bool pooled) const {
    program::Program program;
    program.max_length = kLength;
    const program::ValueId x = program.AddValue(program::Rows::kTokens, kHidden);
    const program::ValueId qkv = program.AddValue(program::Rows::kTokens, 3 * kHidden);
    const program::ValueId context = program.AddValue(program::Rows::kTokens, kHidden);
    const program::Norm norm = {gamma_.get(), nullptr, 1e-5f};
    program::AttentionShape shape;
    shape.heads = shape.kv_heads = 3;
    shape.head_size = kHidden / 3;
    const program::Residual residual = {.value = x, .after = norm};
    program.ops = {
        program::InputOp{x}, program::LinearOp{.x = x, .weight = qkv_.get(), .y = qkv},
        program::AttentionOp{.x = qkv, .shape = shape, .y = context},
        program::LinearOp{.x = context, .weight = out_.get(), .residual = residual, .y = x},
        program::FeedForwardOp{.x = x,
                               .in = ff_in_.get(),
                               .activation = program::Activation::kRelu,
                               .out = ff_out_.get(),
                               .residual = residual,
                               .y = x}};
    program.result = x;
    if (pooled) {
      const program::ValueId both = program.AddValue(program::Rows::kSequences, 2 * kHidden);
      program.result = program.AddValue(program::Rows::kSequences, 5);
      program.ops.push_back(program::PoolOp{x, program::Pooling::kMean, 0, both});
      program.ops.push_back(program::PoolOp{x, program::Pooling::kMax, kHidden, both});
      program.ops.push_back(program::LinearOp{.x = both,
                                              .weight = dense_.get(),
                                              .activation = program::Activation::kTanh,
                                              .y = program.result});
    }
    return program;
  }

  std::unique_ptr<program::PackedLinear> qkv_, out_, ff_in_, ff_out_, dense_;
  std::unique_ptr<program::Table> gamma_;
  std::vector<program::Program> programs_;
};

struct Batch {
  explicit Batch(const std::vector<int32_t>& lengths) {
    for (const int32_t length : lengths) offsets.push_back(offsets.back() + length);
    ids.resize(static_cast<size_t>(offsets.back()));
    input = Random(ids.size() * kHidden, 9);
  }
  program::PackedBatch view() const { return {.ids = ids, .offsets = offsets, .input = input}; }
  program::PackedBatch one(size_t s) {
    alone = {0, offsets[s + 1] - offsets[s]};
    const auto first = static_cast<size_t>(offsets[s]), count = static_cast<size_t>(alone[1]);
    return {.ids = std::span(ids).subspan(first, count),
            .offsets = alone,
            .input = std::span(input).subspan(first * kHidden, count * kHidden)};
  }
  std::vector<int32_t> ids, offsets{0}, alone;
  std::vector<float> input;
};

// The result of a program, with every sequence's rows in their place.
std::vector<float> RunProgram(program::ProgramRun* run, size_t program,
                              const program::PackedBatch& batch) {
  const size_t width = Layer::Width(program);
  std::vector<float> out((program == 0 ? batch.tokens() : batch.sequences()) * width);
  std::vector<float*> sinks;
  for (size_t s = 0; s < batch.sequences(); ++s) {
    const size_t row = program == 0 ? static_cast<size_t>(batch.offsets[s]) : s;
    sinks.push_back(out.data() + row * width);
  }
  const Status status = run->Run(program, batch, sinks);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return out;
}

class Programs : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    backend_ = *NewCpuBackend({.threads = GetParam(), .pin = false, .exact_threads = true});
    layer_ = std::make_unique<Layer>(backend_.get());
    run_ = *backend_->Prepare(layer_->programs());
  }
  std::unique_ptr<program::Backend> backend_;
  std::unique_ptr<Layer> layer_;
  std::unique_ptr<program::ProgramRun> run_;
};

INSTANTIATE_TEST_SUITE_P(Threads, Programs, testing::Values(1, 2, 3, 5));

// Whether or not a batch is cut into groups, and with any number of threads: each sequence's result
// is the one it has alone.
TEST_P(Programs, RowsAreThoseOfTheirSequenceAlone) {
  const auto other_backend = *NewCpuBackend({.threads = 1, .pin = false});
  const Layer other_layer(other_backend.get());
  const auto other = *other_backend->Prepare(other_layer.programs());
  for (const std::vector<int32_t>& lengths :
       {std::vector<int32_t>{300, 1, 7}, std::vector<int32_t>(40, 32), std::vector<int32_t>{13},
        std::vector<int32_t>{90, 80, 70, 60, 50, 250, 250}}) {
    Batch batch(lengths);
    for (const size_t program : {0, 1}) {
      const std::vector<float> all = RunProgram(run_.get(), program, batch.view());
      EXPECT_EQ(all, RunProgram(other.get(), program, batch.view()));
      std::vector<float> singly;
      for (size_t s = 0; s < lengths.size(); ++s) {
        const std::vector<float> one = RunProgram(run_.get(), program, batch.one(s));
        singly.insert(singly.end(), one.begin(), one.end());
      }
      EXPECT_EQ(all, singly) << "program " << program << ", " << lengths.size() << " sequences";
    }
  }
}

TEST_P(Programs, ShareMemoryThatIsReservedAndReleased) {
  EXPECT_EQ(run_->HeldBytes(), 0u);
  ASSERT_TRUE(run_->Reserve(1280, 40).ok());
  const uint64_t held = run_->HeldBytes();
  EXPECT_GE(held, 1280u * 5 * kHidden * sizeof(float));
  const Batch batch(std::vector<int32_t>(40, 32));
  RunProgram(run_.get(), 0, batch.view());
  RunProgram(run_.get(), 1, batch.view());
  EXPECT_EQ(run_->HeldBytes(), held);
  EXPECT_EQ(run_->Release(), held);
  EXPECT_EQ(run_->HeldBytes(), 0u);
}

TEST_P(Programs, RefuseABatchTheyCannotRun) {
  const Batch batch({kLength + 1, 3});
  std::vector<float> out(2 * 5);
  const std::vector<float*> sinks = {out.data(), out.data() + 5};
  EXPECT_EQ(run_->Run(1, batch.view(), sinks).code(), StatusCode::kInvalidArgument);
  const Batch good({2, 3});
  EXPECT_EQ(run_->Run(1, good.view(), std::span(sinks).first(1)).field(), "out");
  program::PackedBatch without_input = good.view();
  without_input.input = {};
  EXPECT_EQ(run_->Run(1, without_input, sinks).field(), "inputs");
  EXPECT_EQ(run_->HeldBytes(), 0u);
  EXPECT_EQ(run_->Reserve(size_t{1} << 50, 1).code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(run_->Run(1, good.view(), sinks).ok());
}

}  // namespace
}  // namespace penstock::cpu

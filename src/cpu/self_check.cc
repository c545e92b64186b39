#include "cpu/self_check.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <random>

#include "cpu/amx.h"
#include "cpu/block_linear.h"
#include "cpu/dispatch.h"
#include "cpu/huge_page_arena.h"
#include "cpu/packed_linear.h"
#include "numbers/random_blocks.h"

namespace penstock::cpu {
namespace {

constexpr unsigned kSeed = 20260101;
// Unit roundoff of f32 times a small constant times the length of the chain's square root: both
// sides round in their own order, so errors add up like a random walk.
double Tolerance(size_t chain) { return 6e-8 * 8 * std::sqrt(static_cast<double>(chain)); }

class Inputs {
 public:
  Inputs() : random_(kSeed) {}
  std::vector<float> Make(size_t n, float spread = 1) {
    std::normal_distribution<float> normal(0, spread);
    std::vector<float> out(n);
    for (float& v : out) v = normal(random_);
    return out;
  }

 private:
  std::mt19937 random_;
};

double Error(const std::vector<float>& got, const std::vector<float>& want) {
  double scale = 0;
  double difference = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    scale = std::max(scale, std::abs(static_cast<double>(want[i])));
    const double d = std::abs(static_cast<double>(got[i]) - static_cast<double>(want[i]));
    // NaN compares as no difference: count it as the largest.
    difference = std::isnan(d) ? INFINITY : std::max(difference, d);
  }
  return scale > 0 ? difference / scale : difference;
}

struct AlignedFree {
  void operator()(float* p) const { std::free(p); }
};

// Runs each kernel of one set and hands the results on by name, always in the same order.
class Runner {
 public:
  explicit Runner(const Kernels& kernels) : kernels_(kernels) {}

  struct Result {
    std::string kernel;
    std::vector<float> values;
    double error_max;
  };

  std::vector<Result> RunAll() {
    for (numbers::DType dtype :
         {numbers::DType::kF32, numbers::DType::kBf16, numbers::DType::kI8}) {
      for (size_t in : {1, 7, 64, 1500}) Gemm(29, in, 77, program::Activation::kNone, dtype);
    }
    for (program::Activation activation :
         {program::Activation::kGelu, program::Activation::kGeluTanh, program::Activation::kRelu,
          program::Activation::kSilu, program::Activation::kTanh}) {
      Gemm(5, 33, 50, activation);
    }
    for (size_t width : {1, 15, 64, 387}) {
      Norms(width);
      Pools(width);
      Embeds(width);
    }
    Attentions();
    for (numbers::DType stored : numbers::kStoredTypes) {
      for (numbers::DType dtype :
           {numbers::DType::kI8, numbers::DType::kBf16, numbers::DType::kF32}) {
        if (dtype == numbers::DType::kI8 && !numbers::IsBlockType(stored)) continue;
        for (size_t rows : {1, 3, 29}) Blocks(stored, dtype, rows);
      }
    }
    return std::move(results_);
  }

 private:
  void Add(std::string kernel, std::vector<float> values, double error_max) {
    results_.push_back({std::move(kernel), std::move(values), error_max});
  }

  void Gemm(size_t rows, size_t in, size_t out,
            program::Activation activation = program::Activation::kNone,
            numbers::DType dtype = numbers::DType::kF32) {
    const std::vector<float> x = inputs_.Make(rows * in);
    const std::vector<float> weight = inputs_.Make(out * in);
    const std::vector<float> shift = inputs_.Make(out);
    const PanelLinear linear({program::ViewOf(weight, static_cast<int64_t>(in)),
                              program::ViewOf(shift, static_cast<int64_t>(out))},
                             {dtype, {}}, static_cast<size_t>(kernels_.panel), &arena_);
    AlignedBuffer memory(rows * PackedRowBytes(dtype, in) / sizeof(float), &arena_);
    const PackedRows packed(memory.data(), rows, linear);
    kernels_.pack_rows(packed.Pack(x.data(), in, rows, 0, in));
    std::vector<float> y(rows * out);
    GemmTask task;
    linear.FillTask(0, linear.panels(), &task);
    task.x = packed.words;
    task.x_scales = packed.scales;
    task.y = y.data();
    task.rows = rows;
    task.y_stride = out;
    task.activation = activation;
    kernels_.gemm(task);
    constexpr const char* kNames[] = {"", " gelu", " gelu_tanh", " relu", " silu", " tanh"};
    std::string name = "gemm";
    if (dtype != numbers::DType::kF32) name += dtype == numbers::DType::kBf16 ? " bf16" : " int8";
    // A value halfway between two integers may go to either: one step of 1/255 in a product or two.
    const double error_max = dtype == numbers::DType::kI8 ? 0.01 : Tolerance(in + 16);
    Add(name + kNames[static_cast<int>(activation)] + " k=" + std::to_string(in), std::move(y),
        error_max);
  }

  void Blocks(numbers::DType stored, numbers::DType dtype, size_t rows) {
    const size_t in = 512, out = 77;
    const std::vector<float> x = inputs_.Make(rows * in);
    const std::vector<std::byte> blocks =
        numbers::RandomBlocks(stored, out * in / numbers::BlockOf(stored).elements, kSeed);
    const program::LinearRows weight = {{stored, out, in, blocks.data()}, {}};
    ThreadPool pool(1, false);
    const auto linear = BlockLinear::Pack({&weight, 1}, {dtype, {}}, &kernels_, &pool, &arena_);
    PENSTOCK_CHECK(linear.ok());
    AlignedBuffer packed((*linear)->PackedWords(rows), &arena_);
    AlignedBuffer scratch(kBlockScratchBytes / sizeof(float), &arena_);
    (*linear)->PackRows(x.data(), in, rows, reinterpret_cast<Word*>(packed.data()));
    std::vector<float> y(rows * out);
    BlockRun run;
    run.x = reinterpret_cast<const Word*>(packed.data());
    run.rows = rows;
    run.y = y.data();
    run.y_stride = out;
    run.scratch = scratch.data();
    (*linear)->Run(run, 0, (*linear)->panels());
    // As in Gemm.
    const double error_max = dtype == numbers::DType::kI8 ? 0.01 : Tolerance(in + 16);
    std::string name = std::string("blocks ") + numbers::DTypeName(stored);
    if (dtype != numbers::DType::kF32) name += dtype == numbers::DType::kBf16 ? " bf16" : " int8";
    Add(name + " rows=" + std::to_string(rows), std::move(y), error_max);
  }

  void Norms(size_t width) {
    const size_t rows = 3;
    const std::vector<float> x = inputs_.Make(rows * width, 3);
    const std::vector<float> residual = inputs_.Make(rows * width, 3);
    const std::vector<float> gamma = inputs_.Make(width);
    const std::vector<float> beta = inputs_.Make(width);
    std::vector<float> sum(rows * width);
    std::vector<float> y(rows * width);
    kernels_.add_norm(x.data(), residual.data(), rows, width, {gamma.data(), beta.data(), 1e-5f},
                      sum.data(), y.data());
    Add("add_norm width=" + std::to_string(width), std::move(y), Tolerance(width + 16));
    Add("add_norm sum width=" + std::to_string(width), std::move(sum), 0);
  }

  void Pools(size_t width) {
    const std::vector<float> x = inputs_.Make(9 * width);
    std::vector<float> all;
    for (program::Pooling pooling :
         {program::Pooling::kCls, program::Pooling::kMean, program::Pooling::kMax,
          program::Pooling::kLastToken, program::Pooling::kMeanSqrtLen,
          program::Pooling::kWeightedMean}) {
      std::vector<float> y(width);
      kernels_.pool(x.data(), 2, 9, width, pooling, y.data());
      all.insert(all.end(), y.begin(), y.end());
    }
    Add("pool width=" + std::to_string(width), std::move(all), Tolerance(16));
  }

  void Embeds(size_t width) {
    const std::vector<float> words = inputs_.Make(5 * width);
    const std::vector<float> positions = inputs_.Make(4 * width);
    const std::vector<float> types = inputs_.Make(2 * width);
    const std::vector<int32_t> ids = {4, 0, 3};
    const std::vector<int32_t> type_ids = {0, 1, 1};
    const std::vector<int32_t> position_ids = {1, 2, 3};
    EmbedTask task;
    task.ids = ids.data();
    task.type_ids = type_ids.data();
    task.position_ids = position_ids.data();
    task.words = words.data();
    task.positions = positions.data();
    task.types = types.data();
    task.width = static_cast<int32_t>(width);
    std::vector<float> x(3 * width);
    kernels_.embed(task, 0, 3, x.data());
    Add("embed width=" + std::to_string(width), std::move(x), 0);
  }

  void Attentions() {
    for (numbers::DType dtype : {numbers::DType::kF32, numbers::DType::kBf16}) {
      for (size_t length : {1, 13, 70, 1100}) {
        Attend("plain", dtype, length, 32, 0, false, false);
        Attend("rotary", dtype, length, 16, 0, true, false);
        Attend("window", dtype, length, 8, 5, false, false);
        Attend("relative", dtype, length, 13, 0, false, true);
        Attend("window rotary", dtype, length, 64, 3, true, false);
      }
    }
  }

  void Attend(const std::string& name, numbers::DType dtype, size_t length, size_t size,
              int32_t window, bool rotary, bool relative) {
    const std::vector<float> qkv = inputs_.Make(length * 3 * size);
    const std::vector<float> cosines = inputs_.Make(length * size / 2);
    const std::vector<float> sines = inputs_.Make(length * size / 2);
    const std::vector<float> bias = inputs_.Make(2 * 10 + 1);
    const size_t floats = kernels_.attention_scratch_floats(dtype, length, size);
    const std::unique_ptr<float, AlignedFree> scratch(
        static_cast<float*>(std::aligned_alloc(64, (floats * sizeof(float) + 63) / 64 * 64)));
    std::vector<float> out(length * size);
    AttentionTask task;
    task.dtype = dtype;
    task.q = qkv.data();
    task.k = qkv.data() + size;
    task.v = qkv.data() + 2 * size;
    task.stride = 3 * size;
    task.out = out.data();
    task.out_stride = size;
    task.length = static_cast<int32_t>(length);
    task.query_end = task.length;
    task.head_size = static_cast<int32_t>(size);
    task.scale = 0.25f;
    task.window = window;
    if (rotary) {
      task.rope_cos = cosines.data();
      task.rope_sin = sines.data();
      task.rope_size = static_cast<int32_t>(size);
    }
    if (relative) {
      task.relative_bias = bias.data();
      task.bias_reach = 10;
    }
    task.scratch = scratch.get();
    kernels_.attention(task);
    // A weight of softmax may round to either side in bf16.
    const bool f32 = dtype == numbers::DType::kF32;
    Add("attention " + std::string(f32 ? "" : "bf16 ") + name + " n=" + std::to_string(length),
        std::move(out), f32 ? Tolerance(length + 4 * size) : 4e-3);
  }

  const Kernels& kernels_;
  HugePageArena arena_;
  Inputs inputs_;
  std::vector<Result> results_;
};

}  // namespace

std::vector<program::KernelDifference> CheckKernels() {
  const std::vector<Runner::Result> reference = Runner(*ScalarKernels()).RunAll();
  std::vector<program::KernelDifference> checks;
  std::vector<Runner::Result> emulated;
  for (const Kernels* kernels : AllKernels()) {
    if (kernels == ScalarKernels()) continue;
    std::vector<Runner::Result> results = Runner(*kernels).RunAll();
    for (size_t i = 0; i < results.size(); ++i) {
      checks.push_back({std::string(kernels->name) + " " + results[i].kernel,
                        Error(results[i].values, reference[i].values), results[i].error_max});
      if (kernels == AmxKernels() && !emulated.empty()) {
        checks.push_back({"amx as emulated " + results[i].kernel,
                          Error(results[i].values, emulated[i].values), kAmxErrorMax});
      }
    }
    if (kernels == EmulatedAmxKernels()) emulated = std::move(results);
  }
  return checks;
}

}  // namespace penstock::cpu

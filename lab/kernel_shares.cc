#include "lab/kernel_shares.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <random>

#include "bench/arithmetic_peak.h"
#include "cpu/cpu_device.h"
#include "cpu/dispatch.h"
#include "cpu/packed_linear.h"
#include "load/table.h"
#include "log/step_progress.h"
#include "os/processors.h"
#include "threads/thread_pool.h"

namespace penstock::lab {
namespace {

struct Model {
  const char* name;
  const char* record;                    // part of the record's name
  int32_t hidden, heads, ff_in, ff_out;  // ff_in: rows of the first matrix of the feed-forward
  bool gelu;  // applied by that linear layer; gated models apply it later
};
constexpr Model kModels[] = {
    {"MiniLM-L6", "minilm_l6", 384, 12, 1536, 1536, true},
    {"bge-base", "bge_base", 768, 12, 3072, 3072, true},
    {"bge-large", "bge_large", 1024, 16, 4096, 4096, true},
    {"ModernBERT-base", "modernbert_base", 768, 12, 2304, 1152, false},
};

constexpr size_t kBandwidthBytes = size_t{256} << 20;  // well over any L3

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// One thing to time, and the best time so far.
struct Case {
  const Model* model = nullptr;
  std::string operation;
  int tokens = 0;
  numbers::DType dtype = numbers::DType::kF32;
  double operations = 0;
  double bytes = 0;
  bool linear = false;
  std::function<void()> run;
  double seconds = 1e30;
  std::function<double()> peer;  // seconds of one run; empty: none
  double peer_seconds = 1e30;
};

// Functions of bench/onednn_kernels.cc.
struct OneDnn {
  void* (*make)(int dtype, long rows, long in, long out, int gelu, int threads) = nullptr;
  double (*run)(void* product) = nullptr;
  void (*free)(void* product) = nullptr;

  static Expected<OneDnn> Open(const std::string& path) {
    OneDnn out;
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return Status(StatusCode::kUnavailable, dlerror());
    out.make = reinterpret_cast<decltype(out.make)>(dlsym(library, "penstock_onednn_make"));
    out.run = reinterpret_cast<decltype(out.run)>(dlsym(library, "penstock_onednn_run"));
    out.free = reinterpret_cast<decltype(out.free)>(dlsym(library, "penstock_onednn_free"));
    if (out.make == nullptr || out.run == nullptr || out.free == nullptr) {
      return Status(StatusCode::kUnavailable,
                    path + " is not a library of bench/onednn_kernels.cc");
    }
    return out;
  }
};

class Shares {
 public:
  Shares(const KernelShareOptions& options, const cpu::Kernels* kernels, size_t threads,
         OneDnn onednn)
      : options_(options),
        kernels_(kernels),
        device_(kernels, PlanThreads(threads, true)),
        pool_(threads),
        onednn_(onednn),
        bulk_(kBandwidthBytes / sizeof(uint64_t), 1) {}
  ~Shares() {
    for (void* product : onednn_products_) onednn_.free(product);
  }
  Shares(const Shares&) = delete;
  Shares& operator=(const Shares&) = delete;

  void Run(load::BenchRecords* records) {
    for (const Model& model : kModels) {
      if (!options_.models.empty() && std::find(options_.models.begin(), options_.models.end(),
                                                model.name) == options_.models.end()) {
        continue;
      }
      for (int tokens : options_.tokens) AddModel(model, tokens);
    }
    StepProgress progress({.steps = options_.rounds, .in_log = false});
    for (int round = 0; round < options_.rounds; ++round) {
      progress.Next("round");
      MeasurePeaks();
      for (Case& c : cases_) {
        c.run();  // warms the caches as the layer before would
        const double start = Now();
        c.run();
        c.seconds = std::min(c.seconds, Now() - start);
        if (c.peer) c.peer_seconds = std::min({c.peer_seconds, c.peer(), c.peer()});
      }
    }
    progress.Clear();
    Print(records);
  }

 private:
  std::vector<float> Random(size_t n) {
    std::normal_distribution<float> normal(0, 1);
    std::vector<float> out(n);
    for (float& v : out) v = normal(random_);
    return out;
  }
  float* NewBuffer(size_t n) {
    buffers_.emplace_back(n, &device_.work_arena);
    std::ranges::copy(Random(n), buffers_.back().data());
    return buffers_.back().data();
  }

  void AddModel(const Model& model, int tokens) {
    for (numbers::DType dtype : options_.dtypes) {
      AddLinear(model, "qkv", tokens, model.hidden, 3 * model.hidden, false, dtype);
      AddLinear(model, "attention out", tokens, model.hidden, model.hidden, false, dtype);
      AddLinear(model, "feed-forward in", tokens, model.hidden, model.ff_in, model.gelu, dtype);
      AddLinear(model, "feed-forward out", tokens, model.ff_out, model.hidden, false, dtype);
    }
    for (numbers::DType dtype : options_.dtypes) {
      if (dtype != numbers::DType::kI8) AddAttention(model, tokens, dtype);
    }
    AddNorm(model, tokens);
  }

  void AddLinear(const Model& model, const char* operation, int tokens, int32_t in, int32_t out,
                 bool gelu, numbers::DType dtype) {
    const size_t rows = static_cast<size_t>(tokens);
    const size_t depth = static_cast<size_t>(in);
    const size_t width = static_cast<size_t>(out);
    const std::vector<float> weight = Random(depth * width);
    const std::vector<float> bias = Random(width);
    weights_.push_back(std::make_unique<cpu::PanelLinear>(
        program::LinearRows{program::ViewOf(weight, in), program::ViewOf(bias, out)},
        program::PackOptions{dtype, {}}, static_cast<size_t>(kernels_->panel),
        &device_.weight_arena));
    device_.ReserveLinear(*weights_.back());
    Case c;
    c.model = &model;
    c.operation = operation;
    c.tokens = tokens;
    c.dtype = dtype;
    c.linear = true;
    c.operations = 2.0 * static_cast<double>(rows * depth * width);
    c.bytes =
        static_cast<double>(weights_.back()->bytes() + rows * (depth + width) * sizeof(float));
    const program::Activation activation =
        gelu ? program::Activation::kGelu : program::Activation::kNone;
    c.run = [this, x = NewBuffer(rows * depth), y = NewBuffer(rows * width), rows, activation,
             linear = weights_.back().get()] {
      device_.ops.gemm().Linear(x, rows, *linear, activation, y);
    };
    if (onednn_.make != nullptr) {
      void* product = onednn_.make(static_cast<int>(dtype), tokens, in, out, gelu ? 1 : 0,
                                   static_cast<int>(pool_.threads()));
      if (product != nullptr) {
        onednn_products_.push_back(product);
        c.peer = [this, product] { return onednn_.run(product); };
      }
    }
    cases_.push_back(std::move(c));
  }

  // Sequences of at most 128 tokens. Where the backend has no bf16 of its own, that is f32 again.
  void AddAttention(const Model& model, int tokens, numbers::DType dtype) {
    offsets_.push_back(std::make_unique<std::vector<int32_t>>(1, 0));
    std::vector<int32_t>& offsets = *offsets_.back();
    Case c;
    while (offsets.back() < tokens) {
      const int32_t length = std::min(128, tokens - offsets.back());
      c.operations += 4.0 * length * length * model.hidden;
      offsets.push_back(offsets.back() + length);
    }
    const size_t floats = static_cast<size_t>(tokens) * static_cast<size_t>(model.hidden);
    cpu::AttentionArgs args;
    args.qkv = NewBuffer(3 * floats);
    args.out = NewBuffer(floats);
    args.offsets = offsets;
    args.shape.heads = model.heads;
    args.shape.head_size = model.hidden / model.heads;
    args.shape.scale = 0.125f;
    args.shape.dtype = dtype;
    c.model = &model;
    c.operation = "attention";
    c.dtype = dtype;
    c.tokens = tokens;
    c.bytes = static_cast<double>(4 * floats * sizeof(float));
    c.run = [this, args] { device_.ops.Attention(args); };
    cases_.push_back(std::move(c));
  }

  void AddNorm(const Model& model, int tokens) {
    const size_t rows = static_cast<size_t>(tokens);
    const size_t width = static_cast<size_t>(model.hidden);
    cpu::NormWeights norm{NewBuffer(width), NewBuffer(width), 1e-5f};
    Case c;
    c.model = &model;
    c.operation = "norm";
    c.tokens = tokens;
    c.operations = 8.0 * static_cast<double>(rows * width);
    c.bytes = 2.0 * static_cast<double>(rows * width * sizeof(float));
    c.run = [this, norm, rows, x = NewBuffer(rows * width), y = NewBuffer(rows * width), width] {
      device_.ops.NormRows(x, rows, width, norm, y);
    };
    cases_.push_back(std::move(c));
  }

  void MeasurePeaks() {
    for (numbers::DType dtype : options_.dtypes) {
      double& best = peak_[static_cast<size_t>(dtype)];
      best = std::max(best, bench::ArithmeticPeak(*kernels_, dtype, &pool_));
    }
    const size_t parts = 8 * pool_.threads();
    std::vector<uint64_t> sums(parts * 8, 0);
    const double start = Now();
    pool_.ParallelFor(parts, [&](size_t part, size_t) {
      const size_t end = bulk_.size() * (part + 1) / parts;
      uint64_t sum[4] = {};
      for (size_t i = bulk_.size() * part / parts; i + 4 <= end; i += 4) {
        for (size_t j = 0; j < 4; ++j) sum[j] += bulk_[i + j];
      }
      sums[part * 8] = sum[0] + sum[1] + sum[2] + sum[3];
    });
    bandwidth_ = std::max(bandwidth_, static_cast<double>(kBandwidthBytes) / (Now() - start));
    checksum_ += sums[0];
  }

  void Print(load::BenchRecords* records) {
    std::printf("%s\npeak:", device_.name().c_str());
    for (numbers::DType dtype : options_.dtypes) {
      std::printf(" %s %s GOP/s,", numbers::DTypeFlag(dtype),
                  load::ShortNumber(Peak(dtype) * 1e-9).c_str());
    }
    std::printf(" memory %s GB/s (checksum %llu)\n\n", load::ShortNumber(bandwidth_ * 1e-9).c_str(),
                static_cast<unsigned long long>(checksum_));
    std::vector<std::string> header = {"model", "operation", "tokens", "type",
                                       "GOP/s", "% of peak", "GB/s",   "% of memory"};
    if (onednn_.make != nullptr) header.insert(header.end(), {"oneDNN GOP/s", "ours / oneDNN"});
    load::BenchTable table(header);
    for (size_t i = 0; i < cases_.size(); ++i) {
      const Case& c = cases_[i];
      AddRow(c, &table);
      // The linear layers of a model's layer together, after their last.
      if (!c.linear || (i + 1 < cases_.size() && cases_[i + 1].linear &&
                        cases_[i + 1].dtype == c.dtype && cases_[i + 1].tokens == c.tokens)) {
        continue;
      }
      Case all = Sum(i);
      AddRow(all, &table);
      records->Add(fmt::format("gemm.{}.{}_{}.percent_of_peak", numbers::DTypeFlag(c.dtype),
                               c.model->record, c.tokens),
                   100 * all.operations / all.seconds / Peak(c.dtype), "%");
    }
    table.Print();
  }

  // The sum of the run of linear layers that ends at `last`.
  Case Sum(size_t last) const {
    Case all = cases_[last];
    all.operation = "all linear";
    for (size_t i = last; i-- > 0;) {
      const Case& c = cases_[i];
      if (!c.linear || c.dtype != all.dtype || c.tokens != all.tokens || c.model != all.model) {
        break;
      }
      all.operations += c.operations;
      all.bytes += c.bytes;
      all.seconds += c.seconds;
      all.peer_seconds += c.peer_seconds;
    }
    return all;
  }

  void AddRow(const Case& c, load::BenchTable* table) const {
    const double rate = c.operations / c.seconds;
    const double traffic = c.bytes / c.seconds;
    std::vector<std::string> cells = {c.model->name,
                                      c.operation,
                                      std::to_string(c.tokens),
                                      numbers::DTypeFlag(c.dtype),
                                      load::ShortNumber(rate * 1e-9),
                                      fmt::format("{:.1f}", 100 * rate / Peak(c.dtype)),
                                      load::ShortNumber(traffic * 1e-9),
                                      fmt::format("{:.0f}", 100 * traffic / bandwidth_)};
    if (c.peer) {
      const double theirs = c.operations / c.peer_seconds;
      cells.push_back(load::ShortNumber(theirs * 1e-9));
      cells.push_back(load::ShortNumber(rate / theirs));
    }
    table->AddRow(std::move(cells));
  }

  double Peak(numbers::DType dtype) const { return peak_[static_cast<size_t>(dtype)]; }

  const KernelShareOptions& options_;
  const cpu::Kernels* kernels_;
  cpu::CpuDevice device_;
  ThreadPool pool_;
  OneDnn onednn_;
  std::vector<uint64_t> bulk_;
  std::mt19937 random_{1};
  std::vector<cpu::AlignedBuffer> buffers_;
  std::vector<std::unique_ptr<cpu::PanelLinear>> weights_;
  std::vector<std::unique_ptr<std::vector<int32_t>>> offsets_;
  std::vector<void*> onednn_products_;
  std::vector<Case> cases_;
  double peak_[16] = {};
  double bandwidth_ = 0;
  uint64_t checksum_ = 0;
};

}  // namespace

std::vector<std::string> KernelShareModels() {
  std::vector<std::string> names;
  for (const Model& model : kModels) names.push_back(model.name);
  return names;
}

Status MeasureKernelShares(const KernelShareOptions& options, load::BenchRecords* records) {
  const std::vector<std::string> known = KernelShareModels();
  for (const std::string& name : options.models) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      return Status::InvalidArgument("unknown model shape '" + name + "'", "model-shape");
    }
  }
  const size_t threads =
      options.threads > 0 ? static_cast<size_t>(options.threads) : UsableProcessors();
  PENSTOCK_ASSIGN_OR_RETURN(const cpu::Kernels* kernels, cpu::DefaultKernels());
  OneDnn onednn;
  if (!options.onednn_library.empty()) {
    PENSTOCK_ASSIGN_OR_RETURN(onednn, OneDnn::Open(options.onednn_library));
  }
  Shares shares(options, kernels, threads, onednn);
  shares.Run(records);
  return Status::Ok();
}

}  // namespace penstock::lab

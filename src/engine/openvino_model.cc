#include "engine/openvino_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/printable.h"
#include "engine/openvino_runner.h"
#include "gate/bulk_turn.h"
#include "log/log.h"
#include "openvino/tensor_model.h"
#include "os/memory.h"

namespace penstock::engine {
namespace {

using openvino::CompiledModel;
using openvino::InferRequest;
using openvino::ModelFormat;
using openvino::TensorModel;

// Where nothing is said: rows of a batch at most, and bytes of its inputs and outputs; rows that it
// has at least, where that many do not take longer than kBatchLongS: a busy machine must not make
// batches of one row of a model that takes milliseconds.
constexpr int64_t kRowsMax = 64;
constexpr int64_t kOpenRowsMax = 8;  // where a row may have any size
constexpr int64_t kRowsMin = 8;
constexpr double kBatchLongS = 0.2;
constexpr uint64_t kBatchBytes = uint64_t{64} << 20;
// A size is worth its memory if it makes a row so much cheaper; and not if the one before already
// takes so long, for a batch holds up the other models.
constexpr double kCheaper = 0.95;
constexpr double kRunLongS = 0.05;
// Each size is timed so often, but not again after so long; the shortest run counts.
constexpr int kRuns = 5;
constexpr double kRunsLongS = 0.02;

// Where the model refuses made-up values: as if all sizes took as long.
constexpr double kUnknownRunS = 1e-3;

// What a model of that size takes: measured, files of 3 and 11 MB took 17 and 68 with one size, and
// each further size twice the file and its activations. More is charged where it is measured.
constexpr uint64_t kFileFactor = 6;
constexpr uint64_t kAnyModelBytes = uint64_t{16} << 20;

// As Triton calls the backends that run these formats: clients look at it.
const char* PlatformOf(ModelFormat format) {
  switch (format) {
    case ModelFormat::kOnnx:
      return "onnxruntime_onnx";
    case ModelFormat::kIr:
      return "openvino";
    case ModelFormat::kSavedModel:
      return "tensorflow_savedmodel";
    case ModelFormat::kTensorFlowGraph:
      return "tensorflow_graphdef";
    case ModelFormat::kTfLite:
      return "tflite";
  }
  return "openvino";
}

// --- Runs with made-up values -------------------------------------------------------------------

using Bytes = std::vector<std::byte>;

// Values that any model takes: from 0 to 1, of integers 0 or 1, which are ids of any vocabulary.
// Those of a row depend on its number.
Bytes MadeUpRow(signature::ElementType type, size_t elements, uint32_t row) {
  Bytes bytes(elements * signature::ElementBytes(type));
  uint64_t state = row + 1;
  for (size_t i = 0; i < elements; ++i) {
    // Knuth's MMIX generator (The Art of Computer Programming 2, 3.3.4).
    state = state * 6364136223846793005u + 1442695040888963407u;
    const auto bits = static_cast<uint32_t>(state >> 33);
    const auto put = [&](auto value) {
      std::memcpy(bytes.data() + i * sizeof value, &value, sizeof value);
    };
    const float number = static_cast<float>(bits) / 2147483648.0f;
    switch (type) {
      case signature::ElementType::kFp32:
        put(number);
        break;
      case signature::ElementType::kFp64:
        put(static_cast<double>(number));
        break;
      case signature::ElementType::kFp16:
        put(static_cast<uint16_t>(bits % 2 == 0 ? 0 : 0x3c00));
        break;
      case signature::ElementType::kBf16:
        put(static_cast<uint16_t>(bits % 2 == 0 ? 0 : 0x3f80));
        break;
      default:  // little-endian: the first byte
        bytes[i * signature::ElementBytes(type)] = static_cast<std::byte>(bits % 2);
        break;
    }
  }
  return bytes;
}

// What open dimensions are in such runs, one after the other until a model takes one: texts of any
// length, images that are to be large enough for all layers.
constexpr int64_t kOpenSizes[] = {16, 1, 64, 224};

// A request of a model with rows first .. first + rows - 1 of such values.
class MadeUpRun {
 public:
  static Expected<std::unique_ptr<MadeUpRun>> Make(const CompiledModel& compiled, uint32_t first,
                                                   uint32_t rows,
                                                   int64_t open_size = kOpenSizes[0]) {
    auto run = std::unique_ptr<MadeUpRun>(new MadeUpRun(compiled));
    PENSTOCK_ASSIGN_OR_RETURN(run->request_, compiled.NewRequest());
    for (size_t i = 0; i < compiled.inputs().size(); ++i) {
      const signature::TensorSpec& spec = compiled.inputs()[i];
      std::vector<int64_t> shape;
      for (const signature::DimensionRange& one : *spec.shape) {
        const int64_t most = one.max < 0 ? open_size : std::min(one.max, open_size);
        shape.push_back(one.fixed() ? one.min : std::max(one.min, most));
      }
      shape[0] = rows;
      const auto elements = signature::ElementCount(std::span(shape).subspan(1));
      if (!elements) return Status::Unsupported("an input is too large");
      Bytes& all = run->inputs_.emplace_back();
      for (uint32_t row = first; row < first + rows; ++row) {
        const Bytes one = MadeUpRow(spec.type, *elements, row);
        all.insert(all.end(), one.begin(), one.end());
      }
      PENSTOCK_RETURN_IF_ERROR(run->request_->BindInput(i, shape, all));
    }
    return run;
  }

  Status Run(gate::ComputeGate* gate, double* took_s = nullptr) {
    std::optional<gate::BulkTurn> turn;
    if (gate != nullptr) turn.emplace(gate);
    const Clock::time_point begin = Clock::now();
    const Status status = request_->Run();
    if (took_s != nullptr) *took_s = std::chrono::duration<double>(Clock::now() - begin).count();
    return status;
  }

  Expected<std::vector<Bytes>> Outputs() const {
    std::vector<Bytes> outputs;
    for (size_t i = 0; i < compiled_.outputs().size(); ++i) {
      PENSTOCK_ASSIGN_OR_RETURN(const auto view, request_->Output(i));
      outputs.emplace_back(view.bytes.begin(), view.bytes.end());
    }
    return outputs;
  }

 private:
  explicit MadeUpRun(const CompiledModel& compiled) : compiled_(compiled) {}

  const CompiledModel& compiled_;
  std::unique_ptr<InferRequest> request_;
  std::vector<Bytes> inputs_;
};

// Whether two results of one row are alike: but for rounding, which the batch may change.
bool AreAlike(signature::ElementType type, std::span<const std::byte> a,
              std::span<const std::byte> b) {
  if (a.size() != b.size()) return false;
  if (type != signature::ElementType::kFp32) {
    // Halves are rounded, too; that they are of one size must do.
    const bool rounded = type == signature::ElementType::kFp16 ||
                         type == signature::ElementType::kBf16 ||
                         type == signature::ElementType::kFp64;
    return rounded || std::equal(a.begin(), a.end(), b.begin());
  }
  constexpr float kTolerance = 1e-3f;
  std::vector<float> x(a.size() / sizeof(float)), y(x.size());
  std::memcpy(x.data(), a.data(), a.size());
  std::memcpy(y.data(), b.data(), b.size());
  float largest = 0;
  for (const float value : x) {
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  }
  for (size_t i = 0; i < x.size(); ++i) {
    if (!std::isfinite(x[i]) || !std::isfinite(y[i])) continue;
    if (std::abs(x[i] - y[i]) > kTolerance * largest) return false;
  }
  return true;
}

// OK: two rows give together what each gives alone. `two` and `one` may be the same model.
Status CheckRowsApart(const CompiledModel& two, const CompiledModel& one, gate::ComputeGate* gate) {
  int64_t open_size = 0;
  const auto outputs_of = [&](const CompiledModel& compiled, uint32_t first,
                              uint32_t rows) -> Expected<std::vector<Bytes>> {
    PENSTOCK_ASSIGN_OR_RETURN(const auto run, MadeUpRun::Make(compiled, first, rows, open_size));
    PENSTOCK_RETURN_IF_ERROR(run->Run(gate));
    return run->Outputs();
  };
  Expected<std::vector<Bytes>> found = std::vector<Bytes>();
  for (const int64_t size : kOpenSizes) {
    open_size = size;
    found = outputs_of(two, 0, 2);
    if (found.ok()) break;
  }
  PENSTOCK_ASSIGN_OR_RETURN(const auto together, std::move(found));
  for (uint32_t row = 0; row < 2; ++row) {
    PENSTOCK_ASSIGN_OR_RETURN(const auto alone, outputs_of(one, row, 1));
    for (size_t i = 0; i < alone.size(); ++i) {
      const size_t bytes = together[i].size() / 2;
      const std::span<const std::byte> part(together[i].data() + row * bytes, bytes);
      if (AreAlike(two.outputs()[i].type, part, alone[i])) continue;
      return Status::Unsupported(
          fmt::format("row {} of output '{}' changes when a second row is computed with it: "
                      "rows depend on each other",
                      row, Printable(two.outputs()[i].name, 200)));
    }
  }
  return Status::Ok();
}

// --- Batches ------------------------------------------------------------------------------------

// Whether the first dimension of all inputs and outputs may be anything.
bool MayBatch(const TensorModel& model) {
  for (const auto* specs : {&model.inputs(), &model.outputs()}) {
    for (const signature::TensorSpec& spec : *specs) {
      if (!spec.shape || spec.shape->empty() || spec.shape->front().max >= 0) return false;
    }
  }
  return true;
}

// What the model takes and gives in batches of `asked` rows, or for -1 as many as seem fit.
// kUnsupported: it does not run in batches.
Expected<signature::TensorSignature> BatchedSignature(const TensorModel& model, int32_t asked) {
  signature::TensorSignature signature;
  PENSTOCK_RETURN_IF_ERROR(
      model.ShapesForBatch(asked > 0 ? asked : 2, &signature.inputs, &signature.outputs));
  uint64_t row_bytes = 1;
  bool open = false;
  for (auto* specs : {&signature.inputs, &signature.outputs}) {
    for (signature::TensorSpec& spec : *specs) {
      spec.shape->front() = {1, 1};
      if (spec.fixed()) {
        row_bytes += spec.bytes();
      } else {
        open = true;
      }
      spec.shape->front() = {1, -1};
    }
  }
  signature.max_batch_size = asked;
  if (asked < 0) {
    const auto rows = std::min<uint64_t>(kBatchBytes / row_bytes, open ? kOpenRowsMax : kRowsMax);
    signature.max_batch_size = 1;
    while (static_cast<uint64_t>(signature.max_batch_size) * 2 <= rows) {
      signature.max_batch_size *= 2;
    }
  }
  return signature;
}

// Loads one model.
class Loading {
 public:
  Loading(const TensorModel* model, const TensorEngineOptions* options, int threads)
      : model_(model), options_(options), threads_(threads), gate_(options->scheduler.gate) {}

  // Sets signature and runners.
  Status Load(TensorEngineParts* parts) {
    const int32_t asked = options_->max_batch_size;
    if (asked > 0) return LoadBatched(parts);
    if (asked < 0 && MayBatch(*model_)) {
      const Status batched = LoadBatched(parts);
      if (batched.code() != StatusCode::kUnsupported) return batched;
      LogInfo("model '{}' is served without batches: {}", options_->name, batched.message());
    }
    parts->signature = {model_->inputs(), model_->outputs(), 0};
    PENSTOCK_ASSIGN_OR_RETURN(const auto compiled, model_->Compile({.threads = threads_}));
    return AddRunners(parts, [&] { return NewShapesRunner(*compiled); });
  }

 private:
  Status LoadBatched(TensorEngineParts* parts) {
    PENSTOCK_ASSIGN_OR_RETURN(parts->signature,
                              BatchedSignature(*model_, options_->max_batch_size));
    if (parts->signature.has_fixed_rows()) return LoadRows(parts);
    PENSTOCK_ASSIGN_OR_RETURN(const auto compiled, model_->Compile({.threads = threads_}));
    PENSTOCK_RETURN_IF_ERROR(Judge(CheckRowsApart(*compiled, *compiled, gate_)));
    return AddRunners(parts, [&] { return NewShapesRunner(*compiled); });
  }

  Status LoadRows(TensorEngineParts* parts) {
    const auto rows_max = static_cast<uint32_t>(parts->signature.max_batch_size);
    std::vector<CompiledRows> sizes;
    size_t best = 0;  // the size with the cheapest row
    for (uint32_t rows = 1;; rows = std::min(rows * 2, rows_max)) {
      PENSTOCK_ASSIGN_OR_RETURN(auto compiled,
                                model_->Compile({.threads = threads_, .batch = rows}));
      CompiledRows& made = sizes.emplace_back();
      made.rows = rows;
      made.compiled = std::move(compiled);
      if (rows == 2) {
        PENSTOCK_RETURN_IF_ERROR(Judge(CheckRowsApart(*made.compiled, *sizes[0].compiled, gate_)));
      }
      const auto run_s = Time(*made.compiled, rows);
      PENSTOCK_RETURN_IF_ERROR(Judge(run_s.status()));
      made.run_s = run_s.ok() ? *run_s : kUnknownRunS;
      const auto row_s = [&](size_t i) { return sizes[i].run_s / sizes[i].rows; };
      const size_t last = sizes.size() - 1;
      if (row_s(last) < kCheaper * row_s(best)) best = last;
      // One size may be unlucky, two in a row are not.
      if (rows == rows_max || last >= best + 2 || made.run_s > kRunLongS) break;
    }
    sizes.resize(best + 1);
    if (options_->max_batch_size < 0) {
      const CompiledRows& largest = sizes.back();
      const auto within = static_cast<int64_t>(kBatchLongS / (largest.run_s / largest.rows));
      parts->signature.max_batch_size = static_cast<int32_t>(
          std::min<int64_t>(std::max<int64_t>(largest.rows, std::min(within, kRowsMin)), rows_max));
    }
    std::string told;
    for (const CompiledRows& size : sizes) {
      told +=
          fmt::format("{}{} ({:.3g} ms)", told.empty() ? "" : ", ", size.rows, 1e3 * size.run_s);
    }
    LogInfo("model '{}' runs batches of {} rows at most; compiled for {}", options_->name,
            parts->signature.max_batch_size, told);
    return AddRunners(parts, [&] { return NewRowsRunner(parts->signature, sizes); });
  }

  // Of a model that was said to have batches, what was found is no reason to refuse it.
  Status Judge(const Status& apart) const {
    if (apart.ok()) return apart;
    if (options_->max_batch_size > 0) {
      LogWarn("model '{}': {}; it has batches because --max-batch-size or its settings say so",
              options_->name, apart.message());
      return Status::Ok();
    }
    return Status::Unsupported(apart.message());
  }

  // The shortest of some runs. The first takes the memory for activations.
  Expected<double> Time(const CompiledModel& compiled, uint32_t rows) const {
    PENSTOCK_ASSIGN_OR_RETURN(const auto run, MadeUpRun::Make(compiled, 0, rows));
    PENSTOCK_RETURN_IF_ERROR(run->Run(gate_));
    double shortest_s = 0;
    for (int i = 0; i < kRuns; ++i) {
      double took_s = 0;
      PENSTOCK_RETURN_IF_ERROR(run->Run(gate_, &took_s));
      shortest_s = i == 0 ? took_s : std::min(shortest_s, took_s);
      if (took_s > kRunsLongS) break;
    }
    return shortest_s;
  }

  template <typename MakeRunner>
  Status AddRunners(TensorEngineParts* parts, MakeRunner make) const {
    for (int32_t i = 0; i < options_->replicas; ++i) {
      PENSTOCK_ASSIGN_OR_RETURN(auto runner, make());
      parts->runners.push_back(std::move(runner));
    }
    return Status::Ok();
  }

  const TensorModel* const model_;
  const TensorEngineOptions* const options_;
  const int threads_;
  gate::ComputeGate* const gate_;
};

}  // namespace

Expected<TensorEngineParts> LoadOpenVinoModel(const std::string& path,
                                              const TensorEngineOptions& options, int threads) {
  PENSTOCK_ASSIGN_OR_RETURN(const openvino::Runtime* const runtime, openvino::Runtime::Shared());
  const uint64_t before = ResidentBytes();
  PENSTOCK_ASSIGN_OR_RETURN(const auto model, TensorModel::Load(runtime, path));
  TensorEngineParts parts;
  parts.platform = PlatformOf(model->files().format);
  parts.ignored_inputs = model->ignored_inputs();
  parts.backend = openvino::BackendName(*runtime, threads);
  PENSTOCK_RETURN_IF_ERROR(Loading(model.get(), &options, threads).Load(&parts));
  // OpenVINO keeps a model's activations with what it compiled, so they count as its weights do.
  // Where other models work meanwhile, what they take is counted as well.
  const uint64_t after = ResidentBytes();
  parts.weight_bytes = std::max(model->files().bytes, after > before ? after - before : 0);
  return parts;
}

Expected<ModelNeeds> OpenVinoNeedsOf(const std::string& path, const TensorEngineOptions& options) {
  PENSTOCK_ASSIGN_OR_RETURN(const openvino::ModelFiles files, openvino::FindModelFiles(path));
  // A server that cannot run its model is to say so when it starts.
  PENSTOCK_RETURN_IF_ERROR(openvino::FindRuntimeFolder().status().Annotate(path));
  ModelNeeds needs;
  // How large the batches are is only known once the model was read.
  needs.wanted.weights =
      kFileFactor * files.bytes + kAnyModelBytes + options.scheduler.ring_bytes_max;
  needs.least = needs.wanted;
  return needs;
}

}  // namespace penstock::engine

#include "cuda/cuda_backend.h"

#include <algorithm>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/int_math.h"
#include "cuda/block_weights.h"
#include "cuda/program_run.h"
#include "cuda/step_run.h"
#include "cuda/weights.h"
#include "log/exception_status.h"

namespace penstock::cuda {
namespace {

using numbers::DType;

// Keep and Pack throw where memory runs out.
template <typename T>
T ValueOf(Expected<T> made) {
  if (made.ok()) return std::move(*made);
  if (made.status().code() == StatusCode::kResourceExhausted) throw std::bad_alloc();
  throw std::runtime_error(made.status().message());
}

// Rows of several views, one under the other, as floats.
void CopyRows(std::span<const program::LinearRows> parts, int64_t first, int64_t count, float* to) {
  for (const program::LinearRows& part : parts) {
    const int64_t rows = std::min(count, part.weight.rows - first);
    if (rows > 0) {
      part.weight.CopyToF32(first, rows, to);
      to += rows * part.weight.columns;
      count -= rows;
      first += rows;
    }
    first -= part.weight.rows;
    if (count == 0) return;
  }
}

// Two turns: one batch computes, one waits behind it.
constexpr program::BackendSizes kSizes = {.turns = 2,
                                          .runners = 3,
                                          .shared_activations = true,
                                          .batch_tokens = 32768,
                                          .batch_rows = 2048};

class CudaBackend final : public program::Backend {
 public:
  CudaBackend(std::unique_ptr<Device> device, const RunOptions& options)
      : program::Backend(kSizes),
        device_(std::move(device)),
        shared_(device_.get()),
        options_(options) {}

  std::string name() const override { return "cuda (" + device_->info().name + ")"; }
  bool is_host() const override { return false; }
  DType preferred_dtype() const override { return DType::kF16; }
  DType StepDType(DType /*stored*/) const override { return DType::kF16; }
  std::span<const char* const> optimisations() const override { return kCudaOptimisations; }
  program::PeakRates peak_rates() const override {
    return {device_->info().operations_per_s, device_->info().bytes_per_s};
  }
  uint64_t AvailableBytes() const override { return device_->AvailableBytes(); }
  Status Health() const override { return device_->Health(); }
  std::shared_ptr<const program::DeviceCounters> counters() const override {
    return shared_.counters;
  }

  std::unique_ptr<program::Table> Keep(int64_t rows, int32_t width, const FillRows& fill) override {
    const auto row_bytes = static_cast<uint64_t>(width) * sizeof(float);
    DeviceBlock block = ValueOf(Alloc(static_cast<uint64_t>(rows) * row_bytes));
    Check(staging_.Copy(block.data(), static_cast<uint64_t>(rows), row_bytes,
                        [&](uint64_t first, std::span<std::byte> to) {
                          fill(static_cast<int64_t>(first),
                               {reinterpret_cast<float*>(to.data()), to.size() / sizeof(float)});
                        }));
    auto table = std::make_unique<DeviceTable>(rows, width, std::move(block));
    CountPacked(table->bytes());
    return table;
  }

  Expected<std::unique_ptr<program::PackedLinear>> Pack(
      std::span<const program::LinearRows> parts, const program::PackOptions& options) override {
    PENSTOCK_RETURN_IF_ERROR(CheckPacked(options));
    const DType dtype = options.dtype;
    const int64_t rows = program::RowsOf(parts);
    const int64_t columns = parts[0].weight.columns;
    const BlockForm form = FormOf(parts, options);
    DeviceBlock weights = ValueOf(Alloc(WeightBytes(parts, options)));
    std::vector<float> scales(IsScaled(options) ? static_cast<size_t>(rows) : 0);
    if (form != BlockForm::kNone) {
      CopyBlocks(parts[0].weight, form, weights.data(), scales);
    } else if (dtype == DType::kF32) {
      Check(staging_.Copy(weights.data(), static_cast<uint64_t>(rows),
                          static_cast<uint64_t>(columns) * sizeof(float),
                          [&](uint64_t first, std::span<std::byte> to) {
                            const auto count = static_cast<int64_t>(to.size() / sizeof(float));
                            CopyRows(parts, static_cast<int64_t>(first), count / columns,
                                     reinterpret_cast<float*>(to.data()));
                          }));
    } else {
      CopyPieces(parts, rows, columns, dtype == DType::kF16, weights.data(), scales);
    }
    std::vector<float> bias(parts[0].bias.data == nullptr ? 0 : static_cast<size_t>(rows));
    if (!bias.empty()) {
      float* at = bias.data();
      for (const program::LinearRows& part : parts) {
        part.bias.CopyToF32(0, 1, at);
        at += part.weight.rows;
      }
    }
    auto packed = std::make_unique<DeviceLinear>(
        static_cast<int32_t>(columns), static_cast<int32_t>(rows), dtype, std::move(weights),
        CopyFloats(bias), CopyFloats(scales), form);
    CountPacked(packed->bytes());
    return std::unique_ptr<program::PackedLinear>(std::move(packed));
  }

  Expected<uint64_t> LinearBytes(std::span<const program::LinearRows> parts,
                                 const program::PackOptions& options) const override {
    PENSTOCK_RETURN_IF_ERROR(CheckPacked(options));
    const int64_t rows = program::RowsOf(parts);
    const int vectors = (parts[0].bias.data != nullptr ? 1 : 0) + (IsScaled(options) ? 1 : 0);
    return WeightBytes(parts, options) +
           static_cast<uint64_t>(vectors) * static_cast<uint64_t>(rows) * sizeof(float);
  }

  Expected<uint64_t> StepBytes(const program::Program& program,
                               const program::PrepareOptions& options) const override {
    return StepRunBytes(program, device_->info(), options);
  }

  Expected<std::unique_ptr<program::ProgramRun>> Prepare(
      std::span<const program::Program* const> programs,
      const program::PrepareOptions& options) override {
    try {
      if (programs.size() == 1 && program::UsesCache(*programs[0])) {
        PENSTOCK_ASSIGN_OR_RETURN(std::unique_ptr<program::ProgramRun> run,
                                  CudaStepRun::Make(&shared_, *programs[0], options, options_));
        return run;
      }
      PENSTOCK_ASSIGN_OR_RETURN(std::unique_ptr<program::ProgramRun> run,
                                CudaProgramRun::Make(&shared_, programs, options_));
      return run;
    } catch (...) {
      return ExceptionStatus();
    }
  }

 private:
  // Blocks stay as they are where programs with a cache multiply them in f16.
  static BlockForm FormOf(std::span<const program::LinearRows> parts,
                          const program::PackOptions& options) {
    const bool keeps = IsScaled(options) && parts.size() == 1;
    return keeps ? BlockFormOf(parts[0].weight.dtype) : BlockForm::kNone;
  }
  static uint64_t WeightBytes(std::span<const program::LinearRows> parts,
                              const program::PackOptions& options) {
    const int64_t rows = program::RowsOf(parts), columns = parts[0].weight.columns;
    const BlockForm form = FormOf(parts, options);
    if (form != BlockForm::kNone) return BlockBytes(form, rows, columns);
    return DeviceLinear::WeightBytes(columns, rows, options.dtype);
  }
  void CopyBlocks(const program::TensorView& from, BlockForm form, std::byte* to,
                  std::span<float> scales) {
    const uint64_t unit = BlockRowBytes(form, from.columns);
    Check(staging_.Copy(to, CeilDiv(static_cast<size_t>(from.rows), 16), unit,
                        [&](uint64_t first, std::span<std::byte> memory) {
                          for (uint64_t i = 0; i < memory.size() / unit; ++i) {
                            const auto row = static_cast<int64_t>((first + i) * 16);
                            WriteBlocks(from, row, std::min<int64_t>(16, from.rows - row),
                                        memory.data() + i * unit, scales.data() + row);
                          }
                        }));
  }
  static Status CheckPacked(const program::PackOptions& options) {
    const DType dtype = options.dtype;
    if (dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBf16) return Status::Ok();
    return Status::Unsupported("the GPU does not multiply in " +
                               std::string(numbers::DTypeFlag(dtype)));
  }
  static void Check(const Status& status) {
    if (status.ok()) return;
    ValueOf(Expected<int>(status));
  }
  Expected<DeviceBlock> Alloc(uint64_t bytes) {
    const std::lock_guard lock(shared_.mutex);
    return DeviceBlock::OnDevice(device_.get(), bytes);
  }

  // Nothing of nothing.
  DeviceBlock CopyFloats(std::span<const float> values) {
    if (values.empty()) return {};
    DeviceBlock block = ValueOf(Alloc(values.size_bytes()));
    Check(staging_.Copy(block.data(), values.size(), sizeof(float),
                        [&](uint64_t first, std::span<std::byte> to) {
                          std::memcpy(to.data(), values.data() + first, to.size());
                        }));
    return block;
  }

  // `scales`: of all rows, written; or empty.
  void CopyPieces(std::span<const program::LinearRows> parts, int64_t rows, int64_t columns,
                  bool half, std::byte* to, std::span<float> scales) {
    const auto k = static_cast<size_t>(columns);
    const uint64_t unit = 16 * RoundUp(k, 64) * sizeof(uint16_t);
    std::vector<float> values(16 * k);
    Check(staging_.Copy(to, CeilDiv(static_cast<size_t>(rows), 16), unit,
                        [&](uint64_t first, std::span<std::byte> memory) {
                          for (uint64_t i = 0; i < memory.size() / unit; ++i) {
                            const auto row = static_cast<int64_t>((first + i) * 16);
                            const int64_t count = std::min<int64_t>(16, rows - row);
                            CopyRows(parts, row, count, values.data());
                            WritePieces({values.data(), static_cast<size_t>(count) * k}, k, half,
                                        reinterpret_cast<uint16_t*>(memory.data() + i * unit),
                                        scales.empty() ? nullptr : scales.data() + row);
                          }
                        }));
  }

  const std::unique_ptr<Device> device_;
  SharedDevice shared_;
  Staging staging_{&shared_};
  const RunOptions options_;
};

}  // namespace

std::unique_ptr<program::Backend> NewCudaBackend(std::unique_ptr<Device> device,
                                                 const RunOptions& options) {
  return std::make_unique<CudaBackend>(std::move(device), options);
}

}  // namespace penstock::cuda

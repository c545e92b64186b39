#include "cpu/cpu_backend.h"

#include <algorithm>

#include "cpu/block_linear.h"
#include "cpu/cpu_device.h"
#include "cpu/dispatch.h"
#include "cpu/op_support.h"
#include "cpu/packed_linear.h"
#include "cpu/program_run.h"
#include "cpu/step_run.h"
#include "log/exception_status.h"
#include "os/memory.h"
#include "os/processors.h"

namespace penstock::cpu {
namespace {

class CpuBackend final : public program::Backend {
 public:
  CpuBackend(const Kernels* kernels, const ThreadPlan& plan, bool exact_threads)
      : device_(kernels, plan, exact_threads) {}

  std::string name() const override { return device_.name(); }
  int threads() const override { return static_cast<int>(device_.workers()); }
  numbers::DType preferred_dtype() const override {
    return device_.kernels->multiplies_bf16 ? numbers::DType::kBf16 : numbers::DType::kF32;
  }
  std::span<const char* const> optimisations() const override { return kCpuOptimisations; }
  uint64_t AvailableBytes() const override { return penstock::AvailableBytes(); }
  void PlaceCaller() const override { device_.pool.PlaceCaller(); }

  std::unique_ptr<program::Table> Keep(int64_t rows, int32_t width, const FillRows& fill) override {
    constexpr int64_t kBlock = 256;
    auto table = std::make_unique<FloatTable>(rows, width, &device_.weight_arena);
    for (int64_t first = 0; first < rows; first += kBlock) {
      const size_t count = static_cast<size_t>(std::min(kBlock, rows - first));
      const size_t row = static_cast<size_t>(width);
      fill(first, std::span(table->data() + static_cast<size_t>(first) * row, count * row));
    }
    CountPacked(table->bytes());
    return table;
  }

  Expected<std::unique_ptr<program::PackedLinear>> Pack(
      std::span<const program::LinearRows> parts, const program::PackOptions& options) override {
    PENSTOCK_ASSIGN_OR_RETURN(
        std::unique_ptr<program::PackedLinear> packed,
        options.as_stored ? PackStored(parts, options) : PackPanels(parts, options));
    CountPacked(packed->bytes());
    return packed;
  }

  Expected<std::unique_ptr<program::ProgramRun>> Prepare(
      std::span<const program::Program* const> programs,
      const program::PrepareOptions& options) override {
    try {
      for (const program::Program* program : programs)
        PENSTOCK_RETURN_IF_ERROR(CheckSupport(*program));
      if (std::ranges::none_of(
              programs, [](const program::Program* one) { return program::UsesCache(*one); })) {
        return std::unique_ptr<program::ProgramRun>(
            std::make_unique<CpuProgramRun>(&device_, programs));
      }
      if (programs.size() > 1)
        return Status::Unsupported("several programs of which one has a cache");
      PENSTOCK_ASSIGN_OR_RETURN(std::unique_ptr<program::ProgramRun> run,
                                CpuStepRun::Make(&device_, *programs[0], options));
      return run;
    } catch (...) {
      return ExceptionStatus();
    }
  }

 private:
  Expected<std::unique_ptr<program::PackedLinear>> PackPanels(
      std::span<const program::LinearRows> parts, const program::PackOptions& options) {
    const bool known = options.dtype == numbers::DType::kF32 ||
                       options.dtype == numbers::DType::kBf16 ||
                       options.dtype == numbers::DType::kI8;
    if (!known) {
      return Status::Unsupported(std::string("the CPU does not multiply in ") +
                                 std::string(numbers::DTypeFlag(options.dtype)));
    }
    auto packed = std::make_unique<PanelLinear>(
        parts, options, static_cast<size_t>(device_.kernels->panel), &device_.weight_arena);
    device_.ReserveLinear(*packed);
    return std::unique_ptr<program::PackedLinear>(std::move(packed));
  }
  Expected<std::unique_ptr<program::PackedLinear>> PackStored(
      std::span<const program::LinearRows> parts, const program::PackOptions& options) {
    gate::LoadTurn own(&gate());
    gate::LoadTurn* const turn = options.turn != nullptr ? options.turn : &own;
    PENSTOCK_ASSIGN_OR_RETURN(std::unique_ptr<program::PackedLinear> packed,
                              BlockLinear::Pack(parts, options, device_.kernels, &device_.pool,
                                                &device_.weight_arena, turn));
    return packed;
  }

  CpuDevice device_;
};

}  // namespace

Expected<std::unique_ptr<program::Backend>> NewCpuBackend(const CpuOptions& options) {
  auto kernels = options.isa.empty() ? DefaultKernels() : ChooseKernels(options.isa);
  if (!kernels.ok()) return kernels.status();
  const auto wanted = static_cast<size_t>(std::max(0, options.threads));
  ThreadPlan plan = PlanThreads(wanted, options.pin);
  if (options.exact_threads && wanted > plan.threads)
    plan = {.threads = wanted, .at_once = plan.at_once};
  return std::unique_ptr<program::Backend>(
      std::make_unique<CpuBackend>(*kernels, plan, options.exact_threads));
}

}  // namespace penstock::cpu

// DryBackend: a Backend that keeps sizes and no numbers. A model "loaded" for it says what it takes
// in memory, and its programs what a batch takes, without reading a weight.
#pragma once

#include <memory>
#include <string>

#include "numbers/dtype.h"
#include "program/backend.h"

namespace penstock::program {

class DryBackend final : public Backend {
 public:
  // `of`: the backend that the model would be loaded for; it must outlive this.
  explicit DryBackend(const Backend* of) : preferred_(of->preferred_dtype()), of_(of) {}
  // One that prefers this type, and packs as Backend::LinearBytes says.
  explicit DryBackend(numbers::DType preferred) : preferred_(preferred) {}

  std::string name() const override { return "dry"; }
  numbers::DType preferred_dtype() const override { return preferred_; }
  numbers::DType StepDType(numbers::DType stored) const override {
    return of_ != nullptr ? of_->StepDType(stored) : Backend::StepDType(stored);
  }
  uint64_t AvailableBytes() const override { return 0; }

  std::unique_ptr<Table> Keep(int64_t rows, int32_t width, const FillRows& fill) override;
  Expected<std::unique_ptr<PackedLinear>> Pack(std::span<const LinearRows> parts,
                                               const PackOptions& options) override;
  // kUnsupported: nothing runs here.
  Expected<std::unique_ptr<ProgramRun>> Prepare(std::span<const Program* const> programs,
                                                const PrepareOptions& options) override;

 private:
  const numbers::DType preferred_;
  const Backend* const of_ = nullptr;
};

}  // namespace penstock::program

#include "program/dry_backend.h"

namespace penstock::program {
namespace {

class DryTable final : public Table {
 public:
  DryTable(int64_t rows, int32_t width) : Table(rows, width) {}
};

class DryLinear final : public PackedLinear {
 public:
  DryLinear(int32_t in, int32_t out, numbers::DType dtype, uint64_t bytes)
      : PackedLinear(in, out, dtype), bytes_(bytes) {}
  uint64_t bytes() const override { return bytes_; }

 private:
  const uint64_t bytes_;
};

}  // namespace

std::unique_ptr<Table> DryBackend::Keep(int64_t rows, int32_t width, const FillRows& /*fill*/) {
  auto table = std::make_unique<DryTable>(rows, width);
  CountPacked(table->bytes());
  return table;
}

Expected<std::unique_ptr<PackedLinear>> DryBackend::Pack(std::span<const LinearRows> parts,
                                                         const PackOptions& options) {
  PENSTOCK_ASSIGN_OR_RETURN(const uint64_t bytes, of_ != nullptr ? of_->LinearBytes(parts, options)
                                                                 : LinearBytes(parts, options));
  CountPacked(bytes);
  return std::unique_ptr<PackedLinear>(
      std::make_unique<DryLinear>(static_cast<int32_t>(parts[0].weight.columns),
                                  static_cast<int32_t>(RowsOf(parts)), options.dtype, bytes));
}

Expected<std::unique_ptr<ProgramRun>> DryBackend::Prepare(
    std::span<const Program* const> /*programs*/, const PrepareOptions& /*options*/) {
  return Status::Unsupported("nothing runs on a dry backend");
}

}  // namespace penstock::program

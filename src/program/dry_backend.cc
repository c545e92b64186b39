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

int64_t RowsOf(std::span<const LinearRows> parts) {
  int64_t rows = 0;
  for (const LinearRows& part : parts) rows += part.weight.rows;
  return rows;
}

// As stored, or a weight, and a bias and a scale a row where there are such.
uint64_t PackedBytes(std::span<const LinearRows> parts, const PackOptions& options) {
  const auto rows = static_cast<uint64_t>(RowsOf(parts));
  if (options.as_stored) return parts[0].weight.row_bytes() * rows;
  const auto columns = static_cast<uint64_t>(parts[0].weight.columns);
  uint64_t bytes = rows * columns * numbers::DTypeBytes(options.dtype);
  if (parts[0].bias.data != nullptr) bytes += rows * sizeof(float);
  if (options.dtype == numbers::DType::kI8) bytes += rows * 2 * sizeof(float);
  return bytes;
}

}  // namespace

std::unique_ptr<Table> DryBackend::Keep(int64_t rows, int32_t width, const FillRows& /*fill*/) {
  auto table = std::make_unique<DryTable>(rows, width);
  CountPacked(table->bytes());
  return table;
}

Expected<std::unique_ptr<PackedLinear>> DryBackend::Pack(std::span<const LinearRows> parts,
                                                         const PackOptions& options) {
  const uint64_t bytes = PackedBytes(parts, options);
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

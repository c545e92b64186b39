#include "program/backend.h"

#include "program/program_cost.h"

namespace penstock::program {

int64_t RowsOf(std::span<const LinearRows> parts) {
  int64_t rows = 0;
  for (const LinearRows& part : parts) rows += part.weight.rows;
  return rows;
}

std::unique_ptr<Table> Backend::Keep(const TensorView& view) {
  return Keep(
      view.rows, static_cast<int32_t>(view.columns), [&view](int64_t first, std::span<float> rows) {
        view.CopyToF32(first, static_cast<int64_t>(rows.size()) / view.columns, rows.data());
      });
}

Expected<uint64_t> Backend::LinearBytes(std::span<const LinearRows> parts,
                                        const PackOptions& options) const {
  const auto rows = static_cast<uint64_t>(RowsOf(parts));
  if (options.as_stored) return parts[0].weight.row_bytes() * rows;
  const auto columns = static_cast<uint64_t>(parts[0].weight.columns);
  uint64_t bytes = rows * columns * numbers::DTypeBytes(options.dtype);
  if (parts[0].bias.data != nullptr) bytes += rows * sizeof(float);
  if (options.dtype == numbers::DType::kI8) bytes += rows * 2 * sizeof(float);
  return bytes;
}

Expected<uint64_t> Backend::StepBytes(const Program& program, const PrepareOptions& options) const {
  const auto* const picks = FirstOp<PicksOp>(program);
  const bool logits = picks != nullptr && picks->weight != nullptr;
  return ValueBytes(program, {.sequences = 1, .length = options.rows}) +
         (logits ? static_cast<uint64_t>(options.picks) *
                       static_cast<uint64_t>(picks->weight->out()) * sizeof(float)
                 : 0);
}

}  // namespace penstock::program

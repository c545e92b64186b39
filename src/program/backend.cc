#include "program/backend.h"

namespace penstock::program {

std::unique_ptr<Table> Backend::Keep(const TensorView& view) {
  return Keep(
      view.rows, static_cast<int32_t>(view.columns), [&view](int64_t first, std::span<float> rows) {
        view.CopyToF32(first, static_cast<int64_t>(rows.size()) / view.columns, rows.data());
      });
}

}  // namespace penstock::program

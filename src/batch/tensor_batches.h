// TensorBatches: the arrays of a BatchRing's slots where a row is a tensor of fixed shape, e.g.
// rows of [1, 32, 32] in batches of [128, 32, 32]. One contiguous [rows, ...shape] array a slot,
// all allocated when made; the ring decides which thread may touch a row. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "batch/batch_ring.h"
#include "common/status.h"

namespace penstock {

template <typename Element>
class TensorBatches {
 public:
  static constexpr size_t kBytesMax = size_t{1} << 34;

  // `shape`: of one row; every dimension at least 1. All slots together at most kBytesMax.
  TensorBatches(size_t batches, uint32_t rows, std::span<const uint32_t> shape)
      : row_elements_(std::accumulate(shape.begin(), shape.end(), size_t{1},
                                      [](size_t product, uint32_t dimension) {
                                        PENSTOCK_CHECK(dimension >= 1 &&
                                                       product <= kBytesMax / dimension);
                                        return product * dimension;
                                      })),
        rows_(rows) {
    PENSTOCK_CHECK(row_elements_ <= kBytesMax / sizeof(Element) / batches / rows);
    elements_.resize(batches * rows * row_elements_);
  }

  size_t row_elements() const { return row_elements_; }
  // Where a producer writes its rows: [reservation.rows, ...shape].
  std::span<Element> RowsOf(const Reservation& reservation) {
    return Part(reservation.slot, reservation.row, reservation.rows);
  }
  // The model's input: [claimed.rows, ...shape].
  std::span<Element> BatchOf(const BatchRing::Claimed& claimed) {
    return Part(claimed.slot, 0, claimed.rows);
  }

 private:
  std::span<Element> Part(uint32_t slot, uint32_t row, uint32_t rows) {
    return std::span(elements_).subspan((size_t{slot} * rows_ + row) * row_elements_,
                                        rows * row_elements_);
  }

  const size_t row_elements_;
  const size_t rows_;
  std::vector<Element> elements_;  // [batches, rows, row_elements]
};

}  // namespace penstock

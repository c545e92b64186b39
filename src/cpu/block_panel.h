// Columns of a panel (see block_layout.h) from and to the rows of a file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "numbers/dtype.h"

namespace penstock::cpu {

struct BlockPanelShape {
  numbers::DType stored = numbers::DType::kF32;  // one of kStoredTypes
  size_t in = 0;                                 // ValidBlockRow
  size_t width = 0;                              // columns of the panel
};

// `rows`: as stored, at most `width`; the columns after them are not written.
void WriteBlockPanel(const BlockPanelShape& shape, std::span<const std::byte* const> rows,
                     uint8_t* panel);

// The row that became column `column`, to[in], with the bits that ConvertToF32 gives (of a NaN: the
// processor's own).
void ReadBlockPanelRow(const BlockPanelShape& shape, const uint8_t* panel, size_t column,
                       float* to);

}  // namespace penstock::cpu

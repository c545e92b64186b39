// A matrix of 16-bit values in a device's memory, from which kernels copy tiles (simt::CopyTile).
#pragma once

#include <cstddef>
#include <cstdint>

namespace penstock::cuda {

// What host and emulator know of it. For a GPU the driver writes its own form, a CUtensorMap, in the
// place of all of it when a kernel is launched: hence size and alignment.
struct alignas(128) TileMap {
  const uint16_t* data;
  int rows;
  int width;      // values of a row, a multiple of 8
  int stride;     // values between rows, a multiple of 8
  int tile_rows;  // of a tile, which is 64 values wide
  std::byte reserved[128 - sizeof(const uint16_t*) - 4 * sizeof(int)];
};
static_assert(sizeof(TileMap) == 128);

}  // namespace penstock::cuda

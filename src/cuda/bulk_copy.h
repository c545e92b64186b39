// A copy that lands by itself (simt::CopyBulk, simt::CopyTile), for the emulator.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include "cuda/race_hooks.h"
#include "cuda/tile_map.h"

namespace penstock::cuda::emulator {

// A tile of a matrix, whose rows are 128 bytes and whose 16-byte columns change places.
struct TileSource {
  TileMap map;
  int column, row;

  void TellRead(void* line) const {
    for (int r = row; r < std::min(map.rows, row + map.tile_rows); ++r) {
      const int count = std::min(map.width - column, 64);
      if (count <= 0) return;
      race::Read(map.data + static_cast<int64_t>(r) * map.stride + column,
                 static_cast<size_t>(count) * sizeof(uint16_t), line);
    }
  }
  void ReadTo(std::byte* to) const {
    for (int r = 0; r < map.tile_rows; ++r) {
      for (int c = 0; c < 8; ++c) {
        std::byte* const at = to + r * 128 + 16 * (c ^ r % 8);
        const int first = column + 8 * c;
        if (row + r < map.rows && first < map.width) {
          std::memcpy(at, map.data + static_cast<int64_t>(row + r) * map.stride + first, 16);
        } else {
          std::memset(at, 0, 16);
        }
      }
    }
  }
};

struct BulkCopy {
  void* to = nullptr;
  const void* from = nullptr;
  std::optional<TileSource> tile;  // instead of it
  std::vector<std::byte> data;     // what it read already; empty: it reads when it lands
  size_t bytes = 0;

  void Read() {
    data.resize(bytes);
    ReadTo(data.data());
  }
  void Land() const {
    if (data.empty()) return ReadTo(static_cast<std::byte*>(to));
    std::memcpy(to, data.data(), bytes);
  }
  // It reads and writes at any time from its start until it lands, so this is called at both.
  void Tell(void* line) const {
    race::Write(to, bytes, line);
    if (tile) return tile->TellRead(line);
    race::Read(from, bytes, line);
  }

 private:
  void ReadTo(std::byte* at) const {
    if (tile) return tile->ReadTo(at);
    std::memcpy(at, from, bytes);
  }
};

}  // namespace penstock::cuda::emulator

#include <algorithm>

#include "cuda/device.h"

namespace penstock::cuda {

KernelLaunch GemmLaunch(KernelId kernel, const GemmArgs& args, int rows, int columns,
                        const DeviceInfo& device) {
  const KernelRow& row = RowOf(kernel);
  const int across = BlocksOf(columns, row.tile_features), down = BlocksOf(rows, row.tile_rows);
  if (row.is_narrow)
    return KernelLaunch::Of(kernel, across, down, GemmNarrowArgs{args, {}, {}, true});
  if (!row.has_tile_map) return KernelLaunch::Of(kernel, across, down, args);
  const TileMap map = {args.x, rows, args.k, args.stride, row.tile_rows, {}};
  // A block for each multiprocessor, which takes tile after tile.
  const int blocks = std::min(across * down, device.multiprocessors);
  return KernelLaunch::Of(kernel, blocks, 1, GemmWgmmaArgs{map, args});
}

}  // namespace penstock::cuda

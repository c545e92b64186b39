// penstock embed --plot: the vectors of a run as points in the plane of their two principal axes.
//
// From large inputs a sample is drawn: kRowsMax rows, and fewer where vectors are so long that they
// would take more than kBytesMax. A row is in it by a hash of its number, so that the sample is
// spread evenly over the input and the same in each run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bulk/bulk_embed.h"
#include "os/output_file.h"
#include "plot/scatter_plot.h"

namespace penstock::bulk {

// Why a file of this name cannot be a plot; "": it can, by its ending, .svg.
std::string PlotNameFault(const std::string& path);

class EmbedPlot {
 public:
  static constexpr size_t kRowsMax = 10'000;
  static constexpr size_t kBytesMax = size_t{64} << 20;
  static constexpr size_t kLabelBytes = 120;  // of a text, kept for its label

  // `path`: one that PlotNameFault lets pass. Opens it, so that a run is not lost on a plot that
  // cannot be written; it is replaced when the plot is whole. kUnavailable names the file.
  static Expected<EmbedPlot> Open(const std::string& path);

  // Rows that were skipped have no point.
  void Add(const BulkWindow& window);
  // `model`: for the title; "" = not known here. kInternal: a vector is not finite.
  Status Write(const std::string& model);

  // The picture, for tests.
  Expected<plot::ScatterPlot> Draw(const std::string& model) const;

 private:
  struct Sample {
    uint64_t hash = 0;
    int64_t row = 0;
    std::string label;
    std::vector<float> vector;
  };

  explicit EmbedPlot(OutputFile file) : file_(std::move(file)) {}
  void AddRow(int64_t row, const std::string& label, std::span<const float> vector);

  OutputFile file_;
  std::vector<Sample> samples_;  // a heap, the largest hash on top
  int64_t rows_ = 0;             // with a vector, sampled or not
  int64_t next_row_ = 0;
  size_t dimensions_ = 0;
};

}  // namespace penstock::bulk

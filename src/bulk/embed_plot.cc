#include "bulk/embed_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "base/printable.h"
#include "plot/principal_axes.h"

namespace penstock::bulk {
namespace {

bool HasEnding(const std::string& path, const std::string& ending) {
  return path.size() > ending.size() &&
         std::equal(
             ending.begin(), ending.end(), path.end() - static_cast<ptrdiff_t>(ending.size()),
             [](char a, char b) { return a == std::tolower(static_cast<unsigned char>(b)); });
}

// A mix of the bits of a number (Sebastiano Vigna's splitmix64).
uint64_t HashOf(uint64_t number) {
  number += 0x9e3779b97f4a7c15U;
  number = (number ^ (number >> 30)) * 0xbf58476d1ce4e5b9U;
  number = (number ^ (number >> 27)) * 0x94d049bb133111ebU;
  return number ^ (number >> 31);
}

// "12,345"
std::string WithCommas(int64_t number) {
  std::string text = std::to_string(number);
  for (auto at = static_cast<int64_t>(text.size()) - 3; at > 0; at -= 3) {
    text.insert(static_cast<size_t>(at), ",");
  }
  return text;
}

std::string AxisTitle(int number, double share) {
  return fmt::format("principal axis {} ({:.1f} % of the variance)", number, 100 * share);
}

}  // namespace

std::string PlotNameFault(const std::string& path) {
  if (HasEnding(path, ".svg")) return "";
  return fmt::format("'{}' does not end in .svg: plots are SVG files", path);
}

Expected<EmbedPlot> EmbedPlot::Open(const std::string& path) {
  PENSTOCK_ASSIGN_OR_RETURN(OutputFile file, OutputFile::Open(path));
  return EmbedPlot(std::move(file));
}

void EmbedPlot::Add(const BulkWindow& window) {
  dimensions_ = static_cast<size_t>(window.dimensions());
  for (size_t i = 0; i < window.rows(); ++i, ++next_row_) {
    if (window.error(i)) continue;
    AddRow(next_row_, window.label(i), window.values().subspan(i * dimensions_, dimensions_));
  }
}

void EmbedPlot::AddRow(int64_t row, const std::string& label, std::span<const float> vector) {
  const auto less = [](const Sample& a, const Sample& b) { return a.hash < b.hash; };
  const size_t fit = kBytesMax / (sizeof(float) * std::max<size_t>(dimensions_, 1));
  const uint64_t hash = HashOf(static_cast<uint64_t>(row));
  ++rows_;
  if (samples_.size() >= std::clamp<size_t>(fit, 1, kRowsMax)) {
    if (hash >= samples_.front().hash) return;
    std::pop_heap(samples_.begin(), samples_.end(), less);
    samples_.pop_back();
  }
  samples_.push_back({hash, row, label, {vector.begin(), vector.end()}});
  std::push_heap(samples_.begin(), samples_.end(), less);
}

Expected<plot::ScatterPlot> EmbedPlot::Draw(const std::string& model) const {
  std::vector<const Sample*> samples;  // in the order of the input
  for (const Sample& sample : samples_) samples.push_back(&sample);
  std::sort(samples.begin(), samples.end(),
            [](const Sample* a, const Sample* b) { return a->row < b->row; });
  std::vector<std::span<const float>> vectors;
  for (const Sample* sample : samples) {
    if (!std::all_of(sample->vector.begin(), sample->vector.end(),
                     [](float value) { return std::isfinite(value); })) {
      return Status::Internal(fmt::format("the vector of row {} is not finite", sample->row));
    }
    vectors.emplace_back(sample->vector);
  }
  const plot::Projection projection = plot::ProjectOnPrincipalAxes(vectors);
  plot::ScatterPlot plot;
  plot.title = fmt::format("{} text{}{}{}", WithCommas(rows_), rows_ == 1 ? "" : "s",
                           model.empty() ? "" : " by ", Printable(model, 80));
  if (rows_ > static_cast<int64_t>(samples.size())) {
    plot.note = fmt::format("{} of them drawn, spread evenly over the input",
                            WithCommas(static_cast<int64_t>(samples.size())));
  }
  if (projection.shares[0] == 0) {
    plot.note = rows_ == 0   ? "nothing to draw"
                : rows_ == 1 ? "one text has no variance"
                             : "all vectors are the same";
  }
  plot.x_label = AxisTitle(1, projection.shares[0]);
  plot.y_label = AxisTitle(2, projection.shares[1]);
  for (size_t i = 0; i < samples.size(); ++i) {
    plot.points.push_back({projection.points[i][0], projection.points[i][1], samples[i]->label});
  }
  return plot;
}

Status EmbedPlot::Write(const std::string& model) {
  PENSTOCK_ASSIGN_OR_RETURN(const plot::ScatterPlot plot, Draw(model));
  file_.Write(plot.ToSvg());
  return file_.Close();
}

}  // namespace penstock::bulk

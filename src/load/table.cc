#include "load/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace penstock::load {

std::string BenchTable::ToText() const {
  std::vector<size_t> widths;
  for (const auto& row : rows_) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  const auto end_line = [&text] {
    while (!text.empty() && text.back() == ' ') text.pop_back();
    text += '\n';
  };
  for (size_t r = 0; r < rows_.size(); ++r) {
    for (size_t i = 0; i < rows_[r].size(); ++i) {
      if (i > 0) text += "  ";
      text += i == 0 ? fmt::format("{:<{}}", rows_[r][i], widths[i])
                     : fmt::format("{:>{}}", rows_[r][i], widths[i]);
    }
    end_line();
    if (r > 0) continue;
    for (size_t i = 0; i < widths.size(); ++i) {
      text += (i > 0 ? "  " : "") + std::string(widths[i], '-');
    }
    end_line();
  }
  return text;
}

void BenchTable::Print(std::FILE* out) const {
  std::fputs(ToText().c_str(), out);
  std::fflush(out);
}

std::string ShortNumber(double value) {
  if (!std::isfinite(value)) return "-";
  const double size = std::abs(value);
  if (size >= 1000 || value == 0) return fmt::format("{:.0f}", value);
  if (size >= 100) return fmt::format("{:.1f}", value);
  if (size >= 10) return fmt::format("{:.2f}", value);
  return fmt::format("{:.3f}", value);
}

}  // namespace penstock::load

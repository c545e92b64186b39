// BenchTable: rows of text in columns, for people to read. One thread.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace penstock::load {

class BenchTable {
 public:
  // The first column is set flush left, the others flush right.
  explicit BenchTable(std::vector<std::string> header) : rows_{std::move(header)} {}

  // Missing cells are empty; more cells than the header has widen the table.
  void AddRow(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  std::string ToText() const;
  void Print(std::FILE* out = stdout) const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

// A number with about four digits and no exponent: "12.34", "1234", "1234567".
std::string ShortNumber(double value);

inline double PerSecond(uint64_t count, double seconds) {
  return static_cast<double>(count) / seconds;
}

}  // namespace penstock::load

// Tables that give numbers a name: arrays of rows, looked through from the top.
#pragma once

#include <cstddef>

namespace penstock {

struct NumberName {
  int number;
  const char* name;
};

// The name of `number`, or `other`.
template <size_t rows>
constexpr const char* NameOfNumber(const NumberName (&table)[rows], int number, const char* other) {
  for (const NumberName& row : table) {
    if (row.number == number) return row.name;
  }
  return other;
}

}  // namespace penstock

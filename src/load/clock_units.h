// Times of the steady clock in the units of flags and reports.
#pragma once

#include <chrono>

namespace penstock::load {

inline double Ms(std::chrono::steady_clock::duration time) {
  return std::chrono::duration<double, std::milli>(time).count();
}
inline std::chrono::steady_clock::duration Seconds(double s) {
  return std::chrono::duration_cast<std::chrono::steady_clock::duration>(
      std::chrono::duration<double>(s));
}
inline double SecondsSince(std::chrono::steady_clock::time_point begin) {
  return Ms(std::chrono::steady_clock::now() - begin) / 1000;
}

}  // namespace penstock::load

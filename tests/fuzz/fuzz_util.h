// Shared by the fuzz targets: an input cut into parts, and mutations that leave most of a
// structured input whole.
//
// A target is a function over bytes, LLVMFuzzerTestOneInput. Built by the preset `fuzz` it runs
// under libFuzzer; in every other build replay_main.cc runs it over its corpus and
// changes of it, as a test. A failed
// PENSTOCK_CHECK, a signal, a sanitizer's finding, too much time or memory: each is a defect.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace penstock::fuzz {

// Reads an input from front to back; at its end numbers are 0 and texts empty.
class Input {
 public:
  Input(const uint8_t* data, size_t size) : rest_(reinterpret_cast<const char*>(data), size) {}

  uint8_t Byte() {
    if (rest_.empty()) return 0;
    const auto byte = static_cast<uint8_t>(rest_[0]);
    rest_.remove_prefix(1);
    return byte;
  }
  // From `min` to `max`, from two bytes.
  size_t Number(size_t min, size_t max) {
    const size_t low = Byte();
    return min + (low | static_cast<size_t>(Byte()) << 8) % (max - min + 1);
  }
  bool Bit() { return Byte() & 1; }
  // Up to the next NUL, which is dropped.
  std::string_view Part() {
    const size_t end = rest_.find('\0');
    const std::string_view part = rest_.substr(0, end);
    rest_ = end == std::string_view::npos ? std::string_view() : rest_.substr(end + 1);
    return part;
  }
  std::string_view Rest() const { return rest_; }

 private:
  std::string_view rest_;
};

// Change `size` bytes at `data`, which has room for `size_max`; give the new size. For
// LLVMFuzzerCustomMutator; both leave much of the work to LLVMFuzzerMutate.
//
// Text: also repeats a piece up to thousands of times, which single changes never reach.
size_t MutateText(uint8_t* data, size_t size, size_t size_max, unsigned seed);
// Text with JSON in it: also replaces, copies and takes out values, and changes inside of strings.
size_t MutateJson(uint8_t* data, size_t size, size_t size_max, unsigned seed);

}  // namespace penstock::fuzz

#define PENSTOCK_FUZZ_MUTATE_WITH(Mutate)                                                \
  extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t size_max, \
                                            unsigned seed) {                             \
    return Mutate(data, size, size_max, seed);                                           \
  }

// Texts to load a server with: the lines of a file, or made of common words with lengths drawn
// from a distribution. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/status.h"

namespace penstock::load {

// How many tokens a made text has, counted as words, each of which is one token in the
// vocabulary of BERT; special tokens come on top.
struct LengthSpec {
  enum class Kind { kFixed, kUniform, kLogNormal };
  Kind kind = Kind::kLogNormal;
  double mean = 64;    // kFixed: the length; kLogNormal: of the distribution before it is cut
  double sigma = 0.8;  // of the logarithm
  int32_t min = 4;
  int32_t max = 250;

  // "fixed:N", "uniform:MIN,MAX" or "lognormal:MEAN,SIGMA[,MIN,MAX]"; lengths from 1 to 100000.
  static Expected<LengthSpec> Parse(const std::string& text);
  int32_t Draw(std::mt19937_64* random) const;
};

// Common words, one after the other with spaces between.
void AppendWords(int32_t count, std::mt19937_64* random, std::string* text);

class TextSource {
 public:
  static constexpr size_t kFileBytesMax = size_t{1} << 30;

  TextSource(const LengthSpec& lengths, uint64_t seed) : lengths_(lengths), random_(seed) {}
  // Lines that are not blank, in their order and over again. Messages begin with the path.
  static Expected<TextSource> FromFile(const std::string& path);

  // The next text; a made one is new each time, so that no cache of texts can know it.
  const std::string& Next();

 private:
  LengthSpec lengths_;
  std::mt19937_64 random_;
  std::shared_ptr<const std::vector<std::string>> lines_;
  size_t next_line_ = 0;
  std::string made_;
};

}  // namespace penstock::load

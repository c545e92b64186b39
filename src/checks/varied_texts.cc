#include "checks/varied_texts.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <random>

#include "base/seeded_hash.h"
#include "base/status.h"

namespace penstock::checks {
namespace {

// Not std::uniform_int_distribution: its numbers differ between standard libraries.
size_t Below(std::mt19937_64* random, size_t n) { return static_cast<size_t>((*random)() % n); }

std::string_view Pick(std::mt19937_64* random) {
  const auto sentences = VariedSentences();
  return sentences[Below(random, sentences.size())];
}

// Neighbouring sentences are often of one topic: a passage begins anywhere and goes on, with a leap
// now and then.
std::string Passage(std::mt19937_64* random, size_t sentences) {
  const auto all = VariedSentences();
  size_t at = Below(random, all.size());
  std::string text;
  for (size_t i = 0; i < sentences; ++i) {
    if (!text.empty()) text += ' ';
    text += all[at];
    at = Below(random, 4) == 0 ? Below(random, all.size()) : (at + 1) % all.size();
  }
  return text;
}

std::string FirstWords(std::string_view text, size_t words) {
  size_t end = 0;
  while (words-- > 0 && end != std::string_view::npos) end = text.find(' ', end + 1);
  return std::string(text.substr(0, end));
}

std::string Numbers(std::mt19937_64* random) {
  std::string text = fmt::format("No. {}:", 1000 + Below(random, 9000));
  for (size_t i = Below(random, 12) + 1; i > 0; --i) {
    text += fmt::format(" {}.{:02}", Below(random, 2000), Below(random, 100));
  }
  return text;
}

std::string List(std::mt19937_64* random) {
  std::string text;
  const size_t items = 2 + Below(random, 6);
  for (size_t i = 0; i < items; ++i) {
    text += fmt::format("{}{}. {}", i == 0 ? "" : "\n", i + 1,
                        FirstWords(Pick(random), 2 + Below(random, 6)));
  }
  return text;
}

std::string Make(std::mt19937_64* random) {
  const size_t kind = Below(random, 100);
  if (kind < 8) return FirstWords(Pick(random), 1 + Below(random, 3));
  if (kind < 14) return Numbers(random);
  if (kind < 22) return List(random);
  if (kind < 45) return std::string(Pick(random)) + " " + FirstWords(Pick(random), 4);
  if (kind < 80) return Passage(random, 2 + Below(random, 3));
  if (kind < 97) return Passage(random, 5 + Below(random, 6));
  return Passage(random, 30 + Below(random, 40));
}

}  // namespace

std::vector<std::string> VariedTexts(size_t count) {
  PENSTOCK_CHECK(count <= kVariedTextsMax);
  std::mt19937_64 random(20240229);
  std::vector<std::string> texts;
  SeededSet<std::string> known;
  // Each sentence by itself comes first or in its turn, so that small counts are varied, too.
  const auto sentences = VariedSentences();
  size_t next = 0;
  while (texts.size() < count) {
    const bool alone = next < sentences.size() && texts.size() % 4 == 0;
    std::string text =
        alone ? std::string(sentences[next++ * 7 % sentences.size()]) : Make(&random);
    if (known.insert(text).second) texts.push_back(std::move(text));
  }
  return texts;
}

}  // namespace penstock::checks

#include "load/http_texts.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <string_view>

namespace penstock::load {
namespace {

// Common English words; every one is a whole token for BERT.
constexpr std::string_view kWords[] = {
    "the",       "water",       "of",        "and",      "to",        "in",       "time",
    "people",    "river",       "under",     "city",     "power",     "system",   "house",
    "world",     "school",      "state",     "never",    "great",     "music",    "number",
    "always",    "night",       "point",     "history",  "because",   "small",    "between",
    "early",     "company",     "group",     "often",    "problem",   "against",  "place",
    "public",    "without",     "money",     "story",    "fact",      "month",    "different",
    "right",     "study",       "book",      "eye",      "job",       "word",     "business",
    "issue",     "side",        "kind",      "head",     "service",   "friend",   "father",
    "hour",      "game",        "line",      "end",      "member",    "law",      "car",
    "community", "name",        "president", "team",     "minute",    "idea",     "kid",
    "body",      "information", "back",      "parent",   "face",      "others",   "level",
    "office",    "door",        "health",    "person",   "art",       "war",      "party",
    "result",    "change",      "morning",   "reason",   "research",  "girl",     "guy",
    "moment",    "air",         "teacher",   "force",    "education", "field",    "paper",
    "light",     "energy",      "market",    "price",    "future",    "value",    "film",
    "garden",    "winter",      "summer",    "mountain", "bridge",    "engine",   "station",
    "island",    "village",     "station",   "pressure", "machine",   "steel",    "valley",
    "forest",    "science",     "theory",    "measure",  "surface",   "simple",   "complex",
    "common",    "special",     "certain",   "open",     "short",     "long",     "young",
    "old",       "large",       "heavy",     "cold",     "warm",      "dark",     "bright",
    "slow",      "quick",       "happy",     "serious",  "possible",  "likely",   "several",
    "many",      "few",         "every",     "another",  "other",     "first",    "second",
    "third",     "last",        "next",      "before",   "after",     "during",   "through",
    "across",    "behind",      "around",    "near",     "far",       "together", "almost",
    "carry",     "build",       "hold",      "turn",     "move",      "write",    "read",
    "speak",     "learn",       "teach",     "follow",   "lead",      "begin",    "stop",
    "create",    "grow",        "walk",      "run",      "offer",     "remember", "consider",
    "appear",    "buy",         "wait",      "serve",    "send",      "expect",   "stay",
    "fall",      "reach",       "remain",    "suggest",  "raise",     "pass",     "sell",
    "require",   "report",      "decide",    "pull",     "return",
};

Expected<std::vector<double>> ParseNumbers(std::string_view text, size_t count) {
  std::vector<double> numbers;
  const Status wrong = Status::InvalidArgument(
      "lengths are fixed:N, uniform:MIN,MAX or lognormal:MEAN,SIGMA[,MIN,MAX]");
  while (!text.empty()) {
    double number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc()) return wrong;
    numbers.push_back(number);
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    if (text.empty()) break;
    if (text[0] != ',' || text.size() == 1) return wrong;
    text.remove_prefix(1);
  }
  if (numbers.size() != count) return wrong;
  return numbers;
}

}  // namespace

Expected<LengthSpec> LengthSpec::Parse(const std::string& text) {
  constexpr double kTokensMax = 100'000;
  const size_t colon = std::min(text.find(':'), text.size());
  const std::string kind = text.substr(0, colon);
  const std::string_view rest = std::string_view(text).substr(std::min(colon + 1, text.size()));
  LengthSpec spec;
  spec.kind = kind == "fixed"     ? Kind::kFixed
              : kind == "uniform" ? Kind::kUniform
                                  : Kind::kLogNormal;
  const size_t count = kind == "fixed" ? 1 : kind == "uniform" ? 2 : 4;
  std::string all(rest);
  if (kind == "lognormal" && std::ranges::count(rest, ',') == 1) {
    all += fmt::format(",1,{:.0f}", kTokensMax);
  }
  PENSTOCK_ASSIGN_OR_RETURN(
      const std::vector<double> numbers,
      ParseNumbers(count == 4 && kind != "lognormal" ? std::string_view() : all, count));
  if (count == 4) {
    spec.mean = numbers[0];
    spec.sigma = numbers[1];
  }
  const double min = count == 4 ? numbers[2] : numbers[0];
  const double max = numbers.back();
  if (!(min >= 1 && max >= min && max <= kTokensMax) ||
      !(spec.mean > 0 && spec.mean <= kTokensMax) || !(spec.sigma >= 0 && spec.sigma <= 10)) {
    return Status::InvalidArgument(
        fmt::format("lengths '{}': 1 <= MIN <= MAX <= {}, 0 < MEAN <= {}, 0 <= SIGMA <= 10", text,
                    kTokensMax, kTokensMax));
  }
  spec.min = static_cast<int32_t>(min);
  spec.max = static_cast<int32_t>(max);
  return spec;
}

int32_t LengthSpec::Draw(std::mt19937_64* random) const {
  switch (kind) {
    case Kind::kFixed:
      return max;
    case Kind::kUniform:
      return std::uniform_int_distribution<int32_t>(min, max)(*random);
    case Kind::kLogNormal:
      break;
  }
  // The mean of a log-normal is exp(mu + sigma^2 / 2).
  const double mu = std::log(mean) - sigma * sigma / 2;
  const double drawn = std::lognormal_distribution<double>(mu, sigma)(*random);
  return static_cast<int32_t>(
      std::clamp(std::round(drawn), static_cast<double>(min), static_cast<double>(max)));
}

Expected<TextSource> TextSource::FromFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return Status::NotFound("cannot read " + path);
  if (static_cast<size_t>(file.tellg()) > kFileBytesMax) {
    return Status::InvalidArgument(fmt::format("{} has more than {} bytes", path, kFileBytesMax));
  }
  file.seekg(0);
  auto lines = std::make_shared<std::vector<std::string>>();
  for (std::string line; std::getline(file, line);) {
    if (line.find_first_not_of(" \t\r") != std::string::npos) lines->push_back(std::move(line));
  }
  if (lines->empty()) return Status::InvalidArgument(path + " has no line with text");
  TextSource source({}, 0);
  source.lines_ = std::move(lines);
  return source;
}

const std::string& TextSource::Next() {
  if (lines_ != nullptr) return (*lines_)[next_line_++ % lines_->size()];
  made_.clear();
  AppendWords(lengths_.Draw(&random_), &random_, &made_);
  return made_;
}

void AppendWords(int32_t count, std::mt19937_64* random, std::string* text) {
  std::uniform_int_distribution<size_t> pick(0, std::size(kWords) - 1);
  for (int32_t i = 0; i < count; ++i) {
    if (!text->empty()) *text += ' ';
    *text += kWords[pick(*random)];
  }
}

}  // namespace penstock::load

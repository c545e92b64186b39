#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "fuzz_util.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t size_max);

namespace penstock::fuzz {
namespace {

struct Span {
  size_t begin, end;
};

using Random = std::minstd_rand;

size_t Below(Random* random, size_t bound) { return bound == 0 ? 0 : (*random)() % bound; }

size_t StringEnd(std::string_view text, size_t at) {
  for (++at; at < text.size() && text[at] != '"'; ++at) {
    if (text[at] == '\\') ++at;
  }
  return std::min(at + 1, text.size());
}

bool IsWordByte(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == '-' || c == '+' || c == '.' ||
         c == 'E';
}

// Every value and key, objects and arrays with all they hold.
std::vector<Span> Values(std::string_view text) {
  constexpr size_t kValuesMax = 4096;
  std::vector<Span> values;
  std::vector<size_t> open;
  for (size_t i = 0; i < text.size() && values.size() < kValuesMax;) {
    const char c = text[i];
    size_t end = i + 1;
    if (c == '{' || c == '[') {
      open.push_back(i);
    } else if ((c == '}' || c == ']') && !open.empty()) {
      values.push_back({open.back(), end});
      open.pop_back();
    } else if (c == '"') {
      end = StringEnd(text, i);
      values.push_back({i, end});
    } else if (IsWordByte(c)) {
      while (end < text.size() && IsWordByte(text[end])) ++end;
      values.push_back({i, end});
    }
    i = end;
  }
  return values;
}

// Values that readers of numbers, sizes and names get wrong.
constexpr const char* kInteresting[] = {"null",
                                        "true",
                                        "false",
                                        "0",
                                        "1",
                                        "-1",
                                        "2",
                                        "3",
                                        "16",
                                        "64",
                                        "127",
                                        "255",
                                        "256",
                                        "1024",
                                        "65535",
                                        "16777215",
                                        "2147483647",
                                        "2147483648",
                                        "4294967296",
                                        "9007199254740993",
                                        "4611686018427387904",
                                        "9223372036854775807",
                                        "9223372036854775808",
                                        "18446744073709551615",
                                        "1000000000000000019884624838656",
                                        "-9223372036854775808",
                                        "0.5",
                                        "-0.0",
                                        "1e308",
                                        "1e-320",
                                        "1e999",
                                        "{}",
                                        "[]",
                                        "\"\"",
                                        "\"a\"",
                                        "\" \"",
                                        "\"\\u0000\"",
                                        "\"\\ud83d\\ude00\"",
                                        "[[]]",
                                        "[0]",
                                        "[0,0]",
                                        "[\"a\",\"b\"]",
                                        "{\"a\":1}"};

std::string Replaced(std::string_view text, Span span, std::string_view with) {
  std::string out(text.substr(0, span.begin));
  out += with;
  out += text.substr(span.end);
  return out;
}

// The inside of a string, or of a bare part, through libFuzzer's own mutations.
std::string InsideMutated(std::string_view text, Span span, size_t size_max) {
  const size_t quotes = text[span.begin] == '"' ? 1 : 0;
  if (span.end - span.begin < 2 * quotes) return std::string(text);
  const Span inside{span.begin + quotes, span.end - quotes};
  const size_t size = inside.end - inside.begin;
  const size_t room = size + std::min<size_t>(64, size_max - text.size());
  std::vector<uint8_t> buffer(text.begin() + static_cast<ptrdiff_t>(inside.begin),
                              text.begin() + static_cast<ptrdiff_t>(inside.end));
  buffer.resize(std::max<size_t>(room, 1));
  const size_t now = LLVMFuzzerMutate(buffer.data(), size, room);
  return Replaced(text, inside, {reinterpret_cast<const char*>(buffer.data()), now});
}

// A value without the comma beside it.
std::string WithoutValue(std::string_view text, Span span) {
  if (span.end < text.size() && text[span.end] == ',') {
    ++span.end;
  } else if (span.begin > 0 && text[span.begin - 1] == ',') {
    --span.begin;
  }
  return Replaced(text, span, "");
}

std::string JsonMutated(std::string_view text, size_t size_max, Random* random) {
  const std::vector<Span> values = Values(text);
  if (values.empty()) return std::string(text);
  const Span at = values[Below(random, values.size())];
  const Span other = values[Below(random, values.size())];
  const std::string_view found = text.substr(other.begin, other.end - other.begin);
  switch (Below(random, 5)) {
    case 0:
      return Replaced(text, at, kInteresting[Below(random, std::size(kInteresting))]);
    case 1:
      return Replaced(text, at, found);
    case 2:
      return Replaced(text, {at.begin, at.begin}, std::string(found) + ",");
    case 3:
      return WithoutValue(text, at);
    default:
      return InsideMutated(text, at, size_max);
  }
}

std::string PieceRepeated(std::string_view text, size_t size_max, Random* random) {
  const size_t begin = Below(random, text.size());
  const size_t size = 1 + Below(random, std::min<size_t>(text.size() - begin, 12));
  const size_t times_max = (size_max - text.size()) / size;
  const size_t times = std::min(times_max, size_t{1} << Below(random, 14));
  std::string pieces;
  pieces.reserve(times * size);
  for (size_t i = 0; i < times; ++i) pieces += text.substr(begin, size);
  return Replaced(text, {begin, begin}, pieces);
}

size_t Put(const std::string& text, uint8_t* data, size_t size_max) {
  const size_t size = std::min(text.size(), size_max);
  std::memcpy(data, text.data(), size);
  return size;
}

}  // namespace

size_t MutateText(uint8_t* data, size_t size, size_t size_max, unsigned seed) {
  Random random(seed);
  if (size == 0 || size >= size_max || Below(&random, 8) != 0) {
    return LLVMFuzzerMutate(data, size, size_max);
  }
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  return Put(PieceRepeated(text, size_max, &random), data, size_max);
}

size_t MutateJson(uint8_t* data, size_t size, size_t size_max, unsigned seed) {
  Random random(seed);
  if (size == 0 || size > size_max || Below(&random, 3) == 0) {
    return MutateText(data, size, size_max, seed + 1);
  }
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  return Put(JsonMutated(text, size_max, &random), data, size_max);
}

}  // namespace penstock::fuzz

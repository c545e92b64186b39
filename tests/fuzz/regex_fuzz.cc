// A pattern and a text: the pattern's begin, NUL, its end, NUL, the text, NUL, and three bytes: how
// often the text is repeated, how many bytes before the pattern's end are, and how often. So short
// inputs make the long ones that limits are for.
#include <algorithm>
#include <string>
#include <vector>

#include "fuzz_util.h"
#include "regex/regex.h"
#include "unicode/utf8.h"

namespace penstock {
namespace {

constexpr size_t kTextBytesMax = 64 << 10;
constexpr size_t kPatternBytesMax = 64 << 10;  // Regex::Compile refuses more

std::string Repeated(std::string_view once, size_t times, size_t bytes_max) {
  std::string out;
  for (; times > 0 && out.size() + once.size() <= bytes_max; --times) out += once;
  return out;
}

bool AtCharacter(const std::string& text, size_t at) {
  return at == text.size() || !unicode::IsUtf8Continuation(static_cast<unsigned char>(text[at]));
}

void CheckMatches(const regex::Regex& regex, const std::string& text) {
  std::vector<regex::ByteRange> matches;
  if (!regex.FindAll(text, &matches)) return;  // too many steps
  size_t at = 0;
  for (const regex::ByteRange& match : matches) {
    PENSTOCK_CHECK(match.begin >= at && match.begin <= match.end && match.end <= text.size());
    PENSTOCK_CHECK(AtCharacter(text, match.begin) && AtCharacter(text, match.end));
    PENSTOCK_CHECK(match.begin < match.end || regex.can_be_empty());
    at = match.end;
  }
}

}  // namespace
}  // namespace penstock

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  fuzz::Input input(data, size);
  std::string pattern(input.Part());
  const std::string_view end = input.Part();
  std::string once;
  unicode::AppendSanitizedUtf8(input.Part(), &once);
  const uint8_t repeats = input.Byte();  // seldom very long: that takes its time
  const std::string text =
      Repeated(once, size_t{1} << (repeats < 0xf0 ? repeats % 11 : 16), kTextBytesMax);
  const size_t tail = std::min<size_t>(input.Byte() % 16, pattern.size());
  const size_t room = kPatternBytesMax - std::min(kPatternBytesMax, pattern.size() + end.size());
  pattern += Repeated(pattern.substr(pattern.size() - tail), size_t{1} << input.Byte() % 16, room);
  pattern += end;
  const auto regex = regex::Regex::Compile(pattern);
  if (regex.ok()) CheckMatches(*regex, text);
  // Matches nothing but itself.
  std::string literal;
  unicode::AppendSanitizedUtf8(std::string_view(pattern).substr(0, 64), &literal);
  if (!literal.empty()) {
    std::vector<regex::ByteRange> matches;
    PENSTOCK_CHECK(regex::Regex::Literal(literal).FindAll(text + literal, &matches));
    PENSTOCK_CHECK(!matches.empty());
    for (const regex::ByteRange& match : matches) {
      PENSTOCK_CHECK((text + literal).compare(match.begin, literal.size(), literal) == 0);
    }
  }
  return 0;
}

PENSTOCK_FUZZ_MUTATE_WITH(penstock::fuzz::MutateText)

// Tokens to text, with special tokens that are part of it.
#include "generate/text_stream.h"

#include <gtest/gtest.h>

#include "cpu/cpu_backend.h"
#include "generate/tiny_model_test_util.h"

namespace penstock::generate {
namespace {

// "<s>" is a special token that does not end the text, as tool-call markers are.
constexpr int32_t kMarker = kTinyBegin;

struct Taken {
  std::vector<std::string> pieces;  // of each token
  std::string text;
  int stop_string = -1;
  std::optional<FinishReason> end;
};

class TextStreamTest : public testing::Test {
 protected:
  // Has a stream take the letters of `letters`, '#' for the marker.
  Taken Take(const std::string& letters, sample::SamplingOptions options, bool shown = true) {
    options.temperature = 0;
    const std::vector<int32_t> ids = shown ? std::vector<int32_t>{kMarker} : std::vector<int32_t>();
    auto stream =
        TextStream::Make(tiny_.model(), options, std::vector<int32_t>{kTinyBegin}, 1, ids);
    EXPECT_TRUE(stream.ok()) << stream.status().ToString();
    Taken taken;
    for (const char letter : letters) {
      std::vector<float> row(kTinyVocabulary, 0);
      row[static_cast<size_t>(letter == '#' ? kMarker : TinyId(letter))] = 9;
      EXPECT_TRUE(stream->Take(sample::Logits{row, {}, {}}).ok());
      taken.pieces.emplace_back(stream->text());
      taken.text += stream->text();
      taken.end = stream->end();
      if (taken.end) break;
    }
    taken.stop_string = stream->stop_string();
    return taken;
  }
  static sample::SamplingOptions Stops(std::vector<std::string> stop) {
    sample::SamplingOptions options;
    options.stop = std::move(stop);
    return options;
  }

  TinyModel tiny_{64, *cpu::NewCpuBackend({1, false, ""})};
};

TEST_F(TextStreamTest, SpecialTokensAreLeftOutUnlessTheyAreShown) {
  EXPECT_EQ(Take("ab#cd", {}, false).text, "abcd");
  EXPECT_EQ(Take("ab#cd", {}).text, "ab<s>cd");
}

TEST_F(TextStreamTest, AMarkerStandsAtItsPlaceBesideAStopString) {
  // "ab" may be the begin of "abx", and is held back; the marker shows that it is not.
  const Taken held = Take("ab#c", Stops({"abx"}));
  EXPECT_EQ(held.pieces, (std::vector<std::string>{"", "", "ab<s>", "c"}));
  // The text that is held back goes before the marker, and the stop string is found behind it.
  const Taken before = Take("ab#abx", Stops({"abx"}));
  EXPECT_EQ(before.text, "ab<s>");
  EXPECT_EQ(before.end, FinishReason::kStop);
  // Across the marker no stop string ends: its text is between.
  EXPECT_EQ(Take("a#b", Stops({"ab"})).text, "a<s>b");
  EXPECT_EQ(Take("a#b", Stops({"ab"}), false).text, "");
  // Right before it the text ends, and the marker never comes.
  EXPECT_EQ(Take("xab#", Stops({"ab"})).text, "x");
}

TEST_F(TextStreamTest, AMarkerMayBePartOfAStopString) {
  const Taken taken = Take("ab#cd", Stops({"never", "b<s>c"}));
  EXPECT_EQ(taken.text, "a");
  EXPECT_EQ(taken.stop_string, 1);
}

TEST_F(TextStreamTest, StopStringsOfTheFirstTokensAreText) {
  sample::SamplingOptions options = Stops({"ab"});
  options.min_tokens = 3;
  const Taken taken = Take("ababc", options);
  EXPECT_EQ(taken.text, "ab") << "the first is text, the second ends with the fourth token";
  EXPECT_EQ(taken.pieces.size(), 4u);
}

}  // namespace
}  // namespace penstock::generate

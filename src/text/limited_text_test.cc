// Property tests of cut points, EncodeLimited and Combine: the result must be that of reading
// everything. Over the golden tokenizers, those of the test data, random texts.
#include "text/limited_text.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <random>
#include <set>

#include "text/tokenizer.h"
#include "unicode/utf8.h"

namespace penstock::text {
namespace {

namespace fs = std::filesystem;

const std::string kGoldens = PENSTOCK_GOLDEN_DIR "/tokenizers/";

std::vector<std::string> GoldenFiles() {
  std::set<std::string> files;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(kGoldens, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(".tokenizer.json")) files.insert(entry.path().string());
  }
  return {files.begin(), files.end()};
}

// Random texts of parts of real and hostile ones.
class RandomTexts {
 public:
  RandomTexts(uint32_t seed, const Tokenizer& tokenizer) : random_(seed) {
    // Its own tokens, added ones among them, meet the boundaries that matter.
    for (int i = 0; i < 400; ++i) {
      const auto id = static_cast<int32_t>(random_() % tokenizer.vocab_size());
      pieces_.emplace_back(tokenizer.IdToToken(id));
    }
    for (int32_t id = tokenizer.vocab_size() - 1; id >= 0 && pieces_.size() < 460; --id) {
      if (tokenizer.IsSpecial(id)) pieces_.emplace_back(tokenizer.IdToToken(id));
    }
  }
  // Long: lists of words.
  std::string Make(size_t bytes) {
    static const std::vector<std::string> kWords = {
        "the",
        "Dog's",
        "I'll",
        "state-of-the-art",
        "x",
        "1984",
        "3.14",
        "a1b2",
        "HTTP/1.1",
        "(see",
        "page)",
        "caf\xC3\xA9",
        "na\xC3\xAFve",
        "\xC4\xB0stanbul",
        "stra\xC3\x9F"
        "e",
        "\xD0\x9C\xD0\xBE\xD1\x81\xD0\xBA\xD0\xB2\xD0\xB0",
        "\xD0\xB9",
        "\xCE\xA3\xCE\xAF\xCF\x82",
        "\xD7\xA9\xD7\x9C\xD7\x95\xD7\x9D",
        "\xD8\xB3\xD9\x84\xD8\xA7\xD9\x85",
        "\xE0\xA4\x95\xE0\xA5\x8D\xE0\xA4\xB7",
        "\xED\x95\x9C\xEA\xB8\x80",
        "\xE4\xB8\xAD\xE6\x96\x87\xE5\xAD\x97",
        "\xE6\x97\xA5\xE3\x81\xAE",
        "\xEF\xBC\xA1\xEF\xBC\xA2",
        "\xEF\xAC\x81n",
        "\xC2\xAA",
        "\xE2\x84\xA2",
        "\xF0\x9F\x98\x80",
        "e\xCC\x81",
        "\xCC\x81x",
        "\xE1\x84\x92\xE1\x85\xA1\xE1\x86\xAB",
        "\xD8\x80",
        "\xE2\x96\x81",
        "''",
        "``",
        "\xE0\xB5\x8E",
        "[MASK]",
        "<mask>",
        "</s>",
        "\xF0\xA0\x80\x80",
        "\xCD\xBA",
        "\xC2\xB4"};
    static const std::vector<std::string> kSpaces = {" ",
                                                     " ",
                                                     " ",
                                                     " ",
                                                     " ",
                                                     " ",
                                                     " ",
                                                     "  ",
                                                     "   ",
                                                     "",
                                                     "",
                                                     "\n",
                                                     "\n\n",
                                                     "\t",
                                                     " \n ",
                                                     "\xC2\xA0",
                                                     "\xE3\x80\x80",
                                                     ". ",
                                                     ", ",
                                                     " ' ",
                                                     "\xE2\x80\x8B",
                                                     " \xCC\x81",
                                                     "\r\n",
                                                     "_"};
    static const std::vector<std::string> kBad = {
        "\xFF", "\xC3", "\xE2\x82", "\xF0\x9F\x98", "\x80", std::string(1, '\0'), "\x01"};
    std::string text;
    while (text.size() < bytes) {
      const uint32_t kind = random_() % 100;
      text += kind < 60 ? Pick(kWords) : kind < 97 ? Pick(pieces_) : Pick(kBad);
      text += Pick(kSpaces);
    }
    return text;
  }
  uint32_t Below(uint32_t n) { return random_() % n; }

 private:
  const std::string& Pick(const std::vector<std::string>& from) {
    return from[random_() % from.size()];
  }
  std::mt19937 random_;
  std::vector<std::string> pieces_;
};

std::vector<int32_t> Ids(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<int32_t> ids;
  const Status status = tokenizer.EncodeText(text, &ids);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return ids;
}

std::string Hex(std::string_view text) {
  std::string hex;
  char two[3];
  for (const char c : text.substr(0, 600)) {
    std::snprintf(two, sizeof two, "%02x", static_cast<unsigned char>(c));
    hex += two;
  }
  return hex;
}

// Every cut of a text. Returns how many there were.
size_t ExpectCutsHold(const Tokenizer& tokenizer, std::string_view text, bool both) {
  const std::vector<int32_t> all = Ids(tokenizer, text);
  size_t cuts = 0;
  for (size_t high = text.size(); high > 0;) {
    const size_t at = tokenizer.CutBefore(text, 0, high, both);
    if (at == Tokenizer::kNoCut) break;
    EXPECT_LE(at, high);
    std::vector<int32_t> ids = Ids(tokenizer, text.substr(0, at));
    if (both) {
      const std::vector<int32_t> right = Ids(tokenizer, text.substr(at));
      ids.insert(ids.end(), right.begin(), right.end());
      EXPECT_EQ(ids, all) << "cut at " << at << " of " << Hex(text);
    } else {
      EXPECT_LE(ids.size(), all.size());
      EXPECT_TRUE(std::equal(ids.begin(), ids.end(), all.begin()))
          << "cut at " << at << " of " << Hex(text);
    }
    if (testing::Test::HasFailure()) return cuts;
    ++cuts;
    high = at - 1;
  }
  return cuts;
}

void ExpectEqual(const Encoding& limited, const Encoding& whole, size_t unread) {
  EXPECT_EQ(limited.ids, whole.ids);
  EXPECT_EQ(limited.type_ids, whole.type_ids);
  EXPECT_EQ(limited.special_mask, whole.special_mask);
  EXPECT_EQ(limited.sequence_ids, whole.sequence_ids);
  if (unread == 0) {
    EXPECT_EQ(limited.truncated_tokens, whole.truncated_tokens);
  } else {
    EXPECT_GT(limited.truncated_tokens, 0u);
    EXPECT_LE(limited.truncated_tokens, whole.truncated_tokens);
  }
}

LimitedTokens Limited(const Tokenizer& tokenizer, std::string_view text, size_t limit,
                      TruncationSide side) {
  LimitedTokens tokens;
  const auto encode = [&](std::string_view part, std::vector<int32_t>* ids) {
    return tokenizer.EncodeText(part, ids);
  };
  EXPECT_TRUE(EncodeLimited(tokenizer, text, limit, side, encode, &tokens).ok());
  return tokens;
}

// One text and pairs of it, at a limit. Returns the bytes left unread.
size_t ExpectLimitedIsWhole(const Tokenizer& tokenizer, const std::string& a, const std::string& b,
                            size_t limit, TruncationSide side) {
  EncodeOptions options;
  options.side = side;
  options.max_tokens = limit + tokenizer.special_tokens_single();
  Encoding whole, limited;
  EXPECT_TRUE(tokenizer.Encode(a, options, &whole).ok());
  const LimitedTokens first = Limited(tokenizer, a, limit, side);
  EXPECT_TRUE(tokenizer.Combine(first.ids, nullptr, options, &limited).ok());
  ExpectEqual(limited, whole, first.unread_bytes);

  options.max_tokens = limit + tokenizer.special_tokens_pair();
  EXPECT_TRUE(tokenizer.EncodePair(a, b, options, &whole).ok());
  const LimitedTokens second = Limited(tokenizer, b, limit, side);
  if (PairCanBeCut(first, second, limit)) {
    const std::span<const int32_t> second_ids = second.ids;
    EXPECT_TRUE(tokenizer.Combine(first.ids, &second_ids, options, &limited).ok());
    ExpectEqual(limited, whole, first.unread_bytes + second.unread_bytes);
  }
  if (testing::Test::HasFailure()) {
    ADD_FAILURE() << "limit " << limit << (side == TruncationSide::kLeft ? " left of " : " of ")
                  << Hex(a) << " and " << Hex(b);
  }
  return first.unread_bytes;
}

void Check(const Tokenizer& tokenizer, uint32_t seed, int rounds) {
  RandomTexts random(seed, tokenizer);
  for (int round = 0; round < rounds && !testing::Test::HasFailure(); ++round) {
    const std::string a = random.Make(random.Below(2500));
    const std::string b = random.Make(random.Below(1200));
    ExpectCutsHold(tokenizer, std::string_view(a).substr(0, 500), true);
    ExpectCutsHold(tokenizer, std::string_view(b).substr(0, 500), false);
    for (const size_t limit : {1u, 2u, 5u, 11u, 1 + random.Below(60)}) {
      for (const auto side : {TruncationSide::kRight, TruncationSide::kLeft}) {
        ExpectLimitedIsWhole(tokenizer, a, b, limit, side);
      }
    }
  }
}

class LimitedText : public testing::TestWithParam<std::string> {};

TEST_P(LimitedText, IsWhatAllOfItGives) {
  const auto tokenizer = Tokenizer::FromFile(GetParam());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
  Check(**tokenizer, 1, 150);
}

INSTANTIATE_TEST_SUITE_P(Goldens, LimitedText, testing::ValuesIn(GoldenFiles()),
                         [](const auto& test) {
                           return fs::path(test.param).stem().stem().string();
                         });

TEST(LimitedTextFiles, OfTheTestData) {
  const char* given = std::getenv("PENSTOCK_TESTDATA");
  const fs::path folder = given != nullptr ? given : PENSTOCK_SOURCE_DIR "/../shared/testdata";
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) GTEST_SKIP() << "NO TEST DATA: set PENSTOCK_TESTDATA";
  int checked = 0, with_cuts = 0;
  std::set<uintmax_t> sizes;  // copies of one file are one
  for (auto it = fs::recursive_directory_iterator(folder, ignored);
       it != fs::recursive_directory_iterator(); it.increment(ignored)) {
    if (it->path().filename() != "tokenizer.json" || !sizes.insert(it->file_size()).second)
      continue;
    const auto tokenizer = Tokenizer::FromFile(it->path().string());
    if (!tokenizer.ok() || (*tokenizer)->vocab_size() == 0) continue;  // tests/parity/ says why
    SCOPED_TRACE(it->path().string());
    Check(**tokenizer, 2, 15);
    with_cuts += (*tokenizer)->CutBefore("the cat sat", 0, 11, false) == 7;
    if (HasFailure()) break;
    ++checked;
  }
  std::printf("%d tokenizers, %d of them with cuts\n", checked, with_cuts);
  EXPECT_GT(checked, 0);
}

// The properties above would hold without a single cut.
TEST(CutPoints, AreKnownForTheUsualTokenizers) {
  enum class Cuts { kNone, kLeft, kBoth };
  const std::map<std::string, Cuts> expected = {
      {"added_tokens", Cuts::kNone},       // added words
      {"added_tokens_bert", Cuts::kNone},  // the same
      {"albert", Cuts::kBoth},
      {"bert", Cuts::kBoth},
      {"bert_accents", Cuts::kBoth},
      {"bert_cased", Cuts::kBoth},
      {"clip", Cuts::kNone},  // a pattern of its own
      {"falcon", Cuts::kBoth},
      {"gemma", Cuts::kNone},  // merges across spaces
      {"gpt2", Cuts::kBoth},
      {"gpt2_trim", Cuts::kBoth},
      {"llama2", Cuts::kNone},  // merges across spaces
      {"llama3", Cuts::kBoth},
      {"metaspace_never", Cuts::kNone},  // one piece
      {"mistral_metaspace", Cuts::kBoth},
      {"modernbert", Cuts::kBoth},
      {"o200k", Cuts::kBoth},
      {"qwen2", Cuts::kBoth},
      {"roberta", Cuts::kBoth},
      {"starcoder", Cuts::kBoth},
      {"t5", Cuts::kBoth},
      {"unigram_bytes", Cuts::kBoth},
      {"wordpiece_sequence", Cuts::kLeft},  // strips spaces on the left
      {"xlm_roberta", Cuts::kBoth}};
  for (const auto& [name, cuts] : expected) {
    SCOPED_TRACE(name);
    const auto tokenizer = Tokenizer::FromFile(kGoldens + name + ".tokenizer.json");
    ASSERT_TRUE(tokenizer.ok());
    for (const bool both : {false, true}) {
      const bool some = cuts == Cuts::kBoth || (cuts == Cuts::kLeft && !both);
      EXPECT_EQ((*tokenizer)->CutBefore("the cat. sat", 0, 12, both), some ? 8 : Tokenizer::kNoCut);
    }
  }
  EXPECT_EQ(GoldenFiles().size(), expected.size());
}

TEST(CutPoints, LieBetweenWords) {
  const auto tokenizer = Tokenizer::FromFile(kGoldens + "bert.tokenizer.json");
  ASSERT_TRUE(tokenizer.ok());
  const auto cut = [&](std::string_view text, size_t low = 0, size_t high = 1000) {
    return (*tokenizer)->CutBefore(text, low, high, true);
  };
  constexpr size_t kNone = Tokenizer::kNoCut;
  EXPECT_EQ(cut("ab cd ef"), 5u);
  EXPECT_EQ(cut("ab cd ef", 0, 4), 2u);
  EXPECT_EQ(cut("ab cd ef", 3, 4), kNone);
  EXPECT_EQ(cut("ab  cd"), kNone);
  EXPECT_EQ(cut(" ab"), kNone);
  EXPECT_EQ(cut("ab "), kNone);
  EXPECT_EQ(cut("a \xCC\x81"), kNone);  // a mark on the space
  EXPECT_EQ(cut("ab (cd"), kNone);
  EXPECT_EQ(cut("ab) cd"), 3u);
  EXPECT_EQ(cut("\xFF cd"), kNone);
  EXPECT_EQ(cut("ab \xD0"), kNone);
  EXPECT_EQ(cut("\xD0\xBC \xD0\xBC"), 2u);
  EXPECT_EQ(cut("\xE4\xB8\xAD\xE6\x96\x87"), 3u);  // between Han characters
  EXPECT_EQ(cut(""), kNone);
  EXPECT_EQ(cut("a"), kNone);
}

TEST(EncodeLimited, ReadsNoFurtherThanItMust) {
  const auto tokenizer = Tokenizer::FromFile(kGoldens + "bert.tokenizer.json");
  ASSERT_TRUE(tokenizer.ok());
  std::string text;
  while (text.size() < 100'000) text += "the return of a plan ";
  for (const auto side : {TruncationSide::kRight, TruncationSide::kLeft}) {
    size_t read = 0;
    LimitedTokens tokens;
    const auto encode = [&](std::string_view part, std::vector<int32_t>* ids) {
      read += part.size();
      return (*tokenizer)->EncodeText(part, ids);
    };
    ASSERT_TRUE(EncodeLimited(**tokenizer, text, 100, side, encode, &tokens).ok());
    EXPECT_LT(read, 1000u);
    EXPECT_EQ(tokens.unread_bytes, text.size() - read);
    EXPECT_GT(tokens.ids.size(), 100u);
  }
  // No cut: all of it, and no less.
  const std::string one_word(5000, 'a');
  const LimitedTokens all = Limited(**tokenizer, one_word, 10, TruncationSide::kRight);
  EXPECT_EQ(all.unread_bytes, 0u);
}

}  // namespace
}  // namespace penstock::text

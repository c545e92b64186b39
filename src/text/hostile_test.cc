// Tokenizer files and texts made to take memory or time: each is refused, or done within bounds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <random>

#include "text/added_tokens.h"
#include "text/model_unigram.h"
#include "text/model_wordpiece.h"
#include "text/token_automaton.h"
#include "text/tokenizer.h"

namespace penstock::text {
namespace {

using ::testing::HasSubstr;
using Ids = std::vector<int32_t>;
using Seconds = std::chrono::duration<double>;

// Times are generous: they tell milliseconds from minutes, also under sanitizers.
constexpr double kSoon = 10;

double SecondsOf(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return Seconds(std::chrono::steady_clock::now() - start).count();
}

std::string Repeat(std::string_view part, size_t count, std::string_view between = "") {
  std::string all;
  for (size_t i = 0; i < count; ++i) {
    if (i > 0) all += between;
    all += part;
  }
  return all;
}

// A tokenizer of words; sections as JSON, or null.
std::string Json(const std::string& normalizer, const std::string& pre_tokenizer = "null",
                 const std::string& added = "[]", const std::string& decoder = "null") {
  return R"({"added_tokens":)" + added + R"(,"normalizer":)" + normalizer + R"(,"pre_tokenizer":)" +
         pre_tokenizer + R"(,"post_processor":null,"decoder":)" + decoder +
         R"(,"model":{"type":"WordLevel","vocab":{"<unk>":0,"a":1,"aa":2," ":3},"unk_token":"<unk>"}})";
}

std::string ReplaceStep(const std::string& from, const std::string& to) {
  return R"({"type":"Replace","pattern":{"String":")" + from + R"("},"content":")" + to + R"("})";
}

std::string Sequence(const std::string& part, size_t count) {
  return R"({"type":"Sequence","normalizers":[)" + Repeat(part, count, ",") + "]}";
}

std::unique_ptr<Tokenizer> Load(const std::string& json) {
  auto tokenizer = Tokenizer::FromJson(json);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
  return tokenizer.ok() ? std::move(*tokenizer) : nullptr;
}

std::string LoadError(const std::string& json) {
  auto tokenizer = Tokenizer::FromJson(json);
  return tokenizer.ok() ? "loads" : tokenizer.status().ToString();
}

Status Encode(const Tokenizer& tokenizer, std::string_view text, Ids* ids = nullptr) {
  Encoding out;
  const Status status = tokenizer.Encode(text, {}, &out);
  if (ids != nullptr) *ids = out.ids;
  return status;
}

TEST(HostileNormalizer, GrowthIsBounded) {
  const std::string thousand = ReplaceStep("a", std::string(1000, 'a'));
  const double seconds = SecondsOf([&] {
    for (const size_t steps : {2, 4, 16, 64}) {
      const auto t = Load(Json(Sequence(thousand, steps)));
      const Status status = Encode(*t, "a");
      EXPECT_EQ(status.ok(), steps == 2) << steps;
      if (steps > 2) {
        EXPECT_EQ(status.code(), StatusCode::kUnprocessable);
        EXPECT_THAT(status.message(), HasSubstr("grows too long"));
      }
      EXPECT_TRUE(Encode(*t, "b").ok());
    }
  });
  EXPECT_LT(seconds, kSoon);
  // An added token goes through the same at load.
  EXPECT_THAT(LoadError(Json(Sequence(thousand, 4), "null", R"([{"id":9,"content":"a"}])")),
              HasSubstr("cannot be normalised"));
}

TEST(HostileNormalizer, GrowthIsThatOfAllSections) {
  // Sections between added tokens each become a megabyte; together they may not.
  const auto t = Load(Json(R"({"type":"Prepend","prepend":")" + std::string(1 << 19, 'x') + R"("})",
                           "null", R"([{"id":9,"content":"|","normalized":false}])"));
  EXPECT_TRUE(Encode(*t, "a|").ok());
  EXPECT_EQ(Encode(*t, Repeat("a|", 100)).code(), StatusCode::kUnprocessable);
}

TEST(HostileNormalizer, PreTokenizersGrowTheTextToo) {
  const std::string bytes = R"({"type":"ByteLevel","add_prefix_space":false,"use_regex":false})";
  const auto t =
      Load(Json("null", R"({"type":"Sequence","pretokenizers":[)" + Repeat(bytes, 64, ",") + "]}"));
  const double seconds =
      SecondsOf([&] { EXPECT_EQ(Encode(*t, "a é").code(), StatusCode::kUnprocessable); });
  EXPECT_LT(seconds, kSoon);
  EXPECT_TRUE(Encode(*t, "a").ok());
}

TEST(HostileNormalizer, WorkAtLoadIsBounded) {
  const std::string nfc = R"({"type":"NFC"})";
  const std::string charsmap =
      R"({"type":"Replace","pattern":{"Regex":"(?:a{1,1000}){12}b|c"},"content":"d"})";
  const double seconds = SecondsOf([&] {
    // 16 steps that make a probe of three bytes enormous: no cuts, but it loads.
    const auto t = Load(Json(Sequence(ReplaceStep("a", std::string(1000, 'a')), 16),
                             R"({"type":"WhitespaceSplit"})"));
    EXPECT_EQ(t->CutBefore("a a a a", 0, 6, false), Tokenizer::kNoCut);
    Load(Json(Sequence(charsmap, 64), R"({"type":"WhitespaceSplit"})"));
    EXPECT_THAT(LoadError(Json(Sequence(Sequence(Sequence(nfc, 64), 64), 64))),
                HasSubstr("more than 128 parts"));
    EXPECT_THAT(LoadError(Json(Sequence(Sequence("", 0), 65))), HasSubstr("too long or too deep"));
    EXPECT_THAT(LoadError(Json(Sequence(Sequence(nfc, 64), 2))), HasSubstr("more than 128 parts"));
    EXPECT_EQ(LoadError(Json(Sequence(Sequence(nfc, 31), 3))), "loads");
    // Many added tokens through many steps.
    std::string added;
    for (int i = 0; i < 100'000; ++i) {
      added += (i ? "," : "") + (R"({"id":9,"content":"t)" + std::to_string(i) + R"("})");
    }
    EXPECT_THAT(LoadError(Json(Sequence(nfc, 64), "null", "[" + added + "]")),
                HasSubstr("cannot be normalised: takes too many steps"));
    EXPECT_EQ(LoadError(Json(Sequence(nfc, 4), "null", "[" + added + "]")), "loads");
  });
  EXPECT_LT(seconds, 2 * kSoon);
}

TEST(HostileNormalizer, StagesOfOtherSectionsAreBounded) {
  const auto nested = [](const char* name, const std::string& part) {
    std::string all = part;
    for (int i = 0; i < 3; ++i) {
      all = R"({"type":"Sequence",")" + std::string(name) + R"(":[)" + Repeat(all, 64, ",") + "]}";
    }
    return all;
  };
  EXPECT_THAT(LoadError(Json("null", nested("pretokenizers", R"({"type":"WhitespaceSplit"})"))),
              HasSubstr("more than 128 parts"));
  EXPECT_THAT(LoadError(Json("null", "null", "[]", nested("decoders", R"({"type":"Fuse"})"))),
              HasSubstr("more than 128 parts"));
}

TEST(HostileNormalizer, DecodersDoNotGrowWithoutEnd) {
  const std::string steps = R"({"type":"Fuse"},)" + Repeat(ReplaceStep("a", "aa"), 63, ",");
  const auto t =
      Load(Json("null", "null", "[]", R"({"type":"Sequence","decoders":[)" + steps + "]}"));
  const double seconds = SecondsOf([&] {
    const std::string text = t->Decode(Ids{1, 1}, false);
    EXPECT_GT(text.size(), 1u << 19);
    EXPECT_LT(text.size(), 4u << 20);
  });
  EXPECT_LT(seconds, kSoon);
}

TEST(HostileDecoder, StripIsLinear) {
  const auto t = Load(Json("null", "null", "[]",
                           R"({"type":"Sequence","decoders":[{"type":"Fuse"},{"type":"Strip",
                              "content":" ","start":1000000,"stop":1000000}]})"));
  Ids ids(300'000, 3);
  const double seconds = SecondsOf([&] {
    EXPECT_EQ(t->Decode(ids, false), "");
    auto stream = t->NewStreamDecoder(false);
    std::string text = stream->Push(1);
    for (int32_t id : ids) text += stream->Push(id);
    EXPECT_EQ(text, "a");
    text = stream->Push(1);
    EXPECT_EQ(text.size(), ids.size() + 1);
    EXPECT_EQ(stream->Finish(), "");
  });
  EXPECT_LT(seconds, kSoon);
}

// A vocabulary of words over "ab", some of them long.
std::vector<std::string> LongTokens(std::mt19937* random, size_t count, const char* letters) {
  std::vector<std::string> tokens = {"a", "b"};
  for (size_t i = 0; i < count; ++i) {
    std::string token;
    const size_t period = 1 + (*random)() % 4;
    for (size_t n = 1 + (*random)() % (i % 4 == 0 ? 600 : 12); n > 0; --n) {
      token += token.size() < period ? letters[(*random)() % 2] : token[token.size() - period];
    }
    tokens.push_back(token);
  }
  return tokens;
}

std::string LongText(std::mt19937* random, const std::vector<std::string>& tokens) {
  std::string text;
  while (text.size() < 3000) {
    text += (*random)() % 3 ? tokens[(*random)() % tokens.size()]
                            : std::string(1, "abc"[(*random)() % 3]);
  }
  return text;
}

TEST(LongTokens, KeysAreThoseATrieFinds) {
  std::mt19937 random(5);
  for (int round = 0; round < 20; ++round) {
    const auto tokens = LongTokens(&random, 40, "ab");
    std::vector<std::pair<std::string_view, int32_t>> keys;
    for (size_t i = 0; i < tokens.size(); ++i) keys.emplace_back(tokens[i], int32_t(i));
    ByteTrie trie;
    trie.Build(keys);
    LongestKeys longest;
    longest.Build(keys);
    ASSERT_FALSE(longest.empty());
    const std::string text = LongText(&random, tokens);
    std::vector<LongestKeys::Match> matches;
    longest.Find(text, &matches);
    ASSERT_EQ(matches.size(), text.size());
    for (size_t at = 0; at < text.size(); ++at) {
      size_t length = 0;
      const int32_t value =
          trie.Longest(ByteTrie::kRoot, std::string_view(text).substr(at), &length);
      ASSERT_EQ(matches[at].value, value);
      ASSERT_EQ(matches[at].length, length);
    }
  }
}

// The models' algorithms in their plainest form.
std::vector<ModelToken> PlainWordPiece(const std::vector<std::string>& tokens,
                                       std::string_view text) {
  std::vector<ModelToken> out;
  for (size_t at = 0; at < text.size();) {
    int32_t best = -1;
    size_t length = 0;
    for (size_t i = 0; i < tokens.size(); ++i) {
      std::string_view token = tokens[i];
      if (token.starts_with("##") != (at > 0)) continue;
      if (at > 0) token.remove_prefix(2);
      if (token.size() > length && text.substr(at).starts_with(token)) {
        best = int32_t(i);
        length = token.size();
      }
    }
    if (best < 0) return {{0, 0, uint32_t(text.size())}};
    out.push_back({best, uint32_t(at), uint32_t(at + length)});
    at += length;
  }
  return out;
}

std::vector<ModelToken> PlainUnigram(const std::vector<std::string>& tokens,
                                     const std::vector<double>& scores, std::string_view text) {
  const double unknown = *std::min_element(scores.begin(), scores.end()) - 10;
  std::vector<double> best(text.size() + 1, -1e300);
  std::vector<std::pair<size_t, int32_t>> from(text.size() + 1);
  best[0] = 0;
  for (size_t end = 1; end <= text.size(); ++end) {
    bool single = false;
    for (size_t at = 0; at < end; ++at) {
      for (size_t i = 0; i < tokens.size(); ++i) {
        if (tokens[i].size() != end - at || text.substr(at, end - at) != tokens[i]) continue;
        single = single || end - at == 1;
        if (scores[i] + best[at] > best[end]) {
          best[end] = scores[i] + best[at];
          from[end] = {at, int32_t(i)};
        }
      }
    }
    if (!single && unknown + best[end - 1] > best[end]) {
      best[end] = unknown + best[end - 1];
      from[end] = {end - 1, 0};
    }
  }
  std::vector<ModelToken> out;
  for (size_t end = text.size(); end > 0; end = from[end].first) {
    if (from[end].second == 0 && !out.empty() && out.back().id == 0) {
      out.back().begin = uint32_t(from[end].first);
    } else {
      out.push_back({from[end].second, uint32_t(from[end].first), uint32_t(end)});
    }
  }
  return {out.rbegin(), out.rend()};
}

Vocabulary VocabularyOf(const std::vector<std::string>& tokens) {
  Vocabulary vocabulary;
  for (size_t i = 0; i < tokens.size(); ++i) vocabulary.Add(tokens[i], int32_t(i));
  vocabulary.Build();
  return vocabulary;
}

std::vector<std::string> Unique(const std::vector<std::string>& tokens) {
  std::vector<std::string> unique;
  for (const std::string& token : tokens) {
    if (std::find(unique.begin(), unique.end(), token) == unique.end()) unique.push_back(token);
  }
  return unique;
}

void ExpectEqual(const std::vector<ModelToken>& got, const std::vector<ModelToken>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].id, want[i].id) << i;
    ASSERT_EQ(got[i].begin, want[i].begin) << i;
    ASSERT_EQ(got[i].end, want[i].end) << i;
  }
}

TEST(LongTokens, WordPieceIsExact) {
  std::mt19937 random(6);
  for (int round = 0; round < 30; ++round) {
    std::vector<std::string> tokens = {"[UNK]"};
    for (const std::string& token : LongTokens(&random, 30, "ab")) tokens.push_back(token);
    for (const std::string& token : LongTokens(&random, 30, "ab")) tokens.push_back("##" + token);
    if (round % 3) tokens.push_back("##c");
    tokens = Unique(tokens);
    const WordPieceModel model(VocabularyOf(tokens), "[UNK]", "##", 1 << 20);
    std::string text = LongText(&random, tokens);
    std::erase(text, '#');
    if (text[0] == 'c') text[0] = 'a';
    Work work;
    std::vector<ModelToken> got;
    ASSERT_TRUE(model.Tokenize(text, &work, &got));
    ExpectEqual(got, PlainWordPiece(tokens, text));
  }
}

TEST(LongTokens, UnigramIsExact) {
  std::mt19937 random(7);
  for (int round = 0; round < 6; ++round) {
    std::vector<std::string> tokens = {"<unk>"};
    for (const std::string& token : LongTokens(&random, 30, "ab")) tokens.push_back(token);
    tokens = Unique(tokens);
    std::vector<double> scores;
    // Few different scores, so that many ways are equally good.
    for (const std::string& token : tokens) scores.push_back(-double(token.size() + random() % 2));
    const UnigramModel model(VocabularyOf(tokens), scores, 0, false);
    const std::string text = LongText(&random, tokens).substr(0, 1200);
    Work work;
    std::vector<ModelToken> got;
    ASSERT_TRUE(model.Tokenize(text, &work, &got));
    ExpectEqual(got, PlainUnigram(tokens, scores, text));
  }
}

// One token of 50,000 bytes that almost matches everywhere.
TEST(LongTokens, CostNoSecondsAByte) {
  const std::string almost = std::string(49'999, 'a') + "b", text(200'000, 'a');
  const double seconds = SecondsOf([&] {
    const WordPieceModel words(VocabularyOf({"[UNK]", "a", "##a", almost, "##" + almost}), "[UNK]",
                               "##", 1 << 20);
    Work work;
    std::vector<ModelToken> got;
    EXPECT_TRUE(words.Tokenize(text, &work, &got));
    EXPECT_EQ(got.size(), text.size());
    const UnigramModel unigram(VocabularyOf({"<unk>", "a", almost}), {0, -1, -2}, 0, false);
    got.clear();
    EXPECT_TRUE(unigram.Tokenize(text, &work, &got));
    EXPECT_EQ(got.size(), text.size());
    AddedTokenMatcher matcher;
    std::vector<AddedToken> tokens(1);
    tokens[0].content = tokens[0].pattern = almost;
    EXPECT_TRUE(matcher.Build(tokens, true).ok());
    std::vector<Piece> pieces;
    EXPECT_TRUE(matcher.Cut(text + "b" + text, 0, uint32_t(2 * text.size() + 1), &pieces).ok());
    EXPECT_EQ(pieces.size(), 3u);
  });
  EXPECT_LT(seconds, kSoon);
}

TEST(LongTokens, UnigramThatMatchesEverywhereIsRefused) {
  std::vector<std::string> tokens = {"<unk>"};
  std::vector<double> scores = {0};
  for (size_t n = 1; n <= 2000; ++n) {
    tokens.push_back(std::string(n, 'a'));
    scores.push_back(-1);
  }
  const UnigramModel model(VocabularyOf(tokens), scores, 0, false);
  std::vector<ModelToken> got;
  Work work;
  const double seconds =
      SecondsOf([&] { EXPECT_FALSE(model.Tokenize(std::string(1 << 20, 'a'), &work, &got)); });
  EXPECT_EQ(work.status().code(), StatusCode::kUnprocessable);
  EXPECT_LT(seconds, kSoon);
}

TEST(HostileLoad, SizesOfVocabulariesAreBounded) {
  const auto model = [](const std::string& fields) {
    return R"({"model":{"type":"WordPiece","unk_token":"a","max_input_chars_per_word":100,)" +
           fields + "}}";
  };
  EXPECT_EQ(LoadError(model(R"("continuing_subword_prefix":"##","vocab":{"a":0})")), "loads");
  EXPECT_THAT(LoadError(model(R"("continuing_subword_prefix":"##","vocab":{"a":0,")" +
                              std::string(70'000, 'a') + R"(":1})")),
              HasSubstr("a token of more than 64 KiB"));
  EXPECT_THAT(LoadError(model(R"("continuing_subword_prefix":")" + std::string(300, '#') +
                              R"(","vocab":{"a":0})")),
              HasSubstr("longer than 256 bytes"));
  EXPECT_THAT(LoadError(Json("null", "null",
                             R"([{"id":9,"content":")" + std::string(5 << 20, 'x') + R"("}])")),
              HasSubstr("take more than 8 MiB"));
  EXPECT_THAT(LoadError(Json(ReplaceStep(std::string(70'000, 'x'), "y"))),
              HasSubstr("literal is too long"));
}

// The number whose product with an odd number is 1, modulo 2^64, by Newton's method.
uint64_t Inverse(uint64_t odd) {
  uint64_t inverse = odd;
  for (int i = 0; i < 6; ++i) inverse *= 2 - odd * inverse;
  return inverse;
}

// Tokens of eight bytes that would all fall into one slot of the table if HashBytes were a product
// and a shift without a seed (as it once was): each step of that can be undone.
TEST(HostileLoad, TokensCannotBeMadeToMeet) {
  constexpr uint64_t kStep = 0xD6E8FEB86659FD93ull, kLast = 0x9E3779B97F4A7C15ull;
  Vocabulary vocabulary;
  const size_t count = 100'000;
  for (uint64_t i = 0; i < count; ++i) {
    uint64_t h = i << 32 | 12345;
    h = (h ^ h >> 29 ^ h >> 58) * Inverse(kLast);
    const uint64_t word = (h ^ h >> 32) * Inverse(kStep) ^ kLast ^ 8 * kStep;
    char bytes[8];
    std::memcpy(bytes, &word, 8);
    vocabulary.Add({bytes, 8}, int32_t(i));
  }
  EXPECT_LT(SecondsOf([&] { vocabulary.Build(); }), 1);
  EXPECT_EQ(vocabulary.size(), count);
  EXPECT_NE(HashBytes("penstock", 1), HashBytes("penstock", 2));
  EXPECT_NE(HashBytes("pen", 1), HashBytes("pen", 2));
}

TEST(HostileText, RunsOfSpacesAreReadOnce) {
  const auto t =
      Load(Json("null", "null", R"([{"id":9,"content":" ","rstrip":true,"normalized":false}])"));
  const double seconds = SecondsOf([&] {
    const Status status = Encode(*t, std::string(1 << 20, ' '));
    EXPECT_EQ(status.code(), StatusCode::kUnprocessable) << status.ToString();
  });
  EXPECT_LT(seconds, kSoon);
  Ids ids;
  EXPECT_TRUE(Encode(*t, "a   a", &ids).ok());
  EXPECT_EQ(ids, (Ids{1, 3, 3, 3, 1}));
}

// Pieces that the cache of pieces never has, and many sections of a piece each.
TEST(HostileText, IdsOfManyPiecesAndSectionsAreWrittenOnce) {
  const auto t = Load(Json("null", R"({"type":"WhitespaceSplit"})",
                           R"([{"id":4,"content":"<s>","special":true}])"));
  constexpr size_t kCount = 250'000;
  Ids ids;
  const double seconds = SecondsOf([&] {
    std::string words;
    for (size_t i = 0; i < kCount; ++i) words += "word" + std::to_string(100'000'000'000 + i) + " ";
    EXPECT_TRUE(Encode(*t, words, &ids).ok());
    EXPECT_EQ(ids, Ids(kCount, 0));
    EXPECT_TRUE(Encode(*t, Repeat("<s>a", kCount), &ids).ok());
  });
  EXPECT_LT(seconds, kSoon);
  ASSERT_EQ(ids.size(), 2 * kCount);
  EXPECT_EQ(ids[2 * kCount - 2], 4);
  EXPECT_EQ(ids[2 * kCount - 1], 1);
}

TEST(HostileText, MetaspaceOfManyPiecesIsLinear) {
  const auto t = Load(Json("null", R"({"type":"Sequence","pretokenizers":[
      {"type":"FixedLength","length":1},{"type":"Metaspace","replacement":"_","prepend_scheme":"never"}]})"));
  Ids ids;
  const double seconds =
      SecondsOf([&] { EXPECT_TRUE(Encode(*t, std::string(1 << 20, 'a'), &ids).ok()); });
  EXPECT_EQ(ids.size(), size_t(1 << 20));
  EXPECT_LT(seconds, kSoon);
}

TEST(HostileText, PiecesShareTheStepsOfARegex) {
  const auto t = Load(Json("null", R"({"type":"Sequence","pretokenizers":[
      {"type":"FixedLength","length":60},
      {"type":"Split","pattern":{"Regex":"(?:a{1,1000}){3}b"},"behavior":"Isolated","invert":false}]})"));
  const double seconds = SecondsOf([&] {
    const Status status = Encode(*t, std::string(100'000, 'a'));
    EXPECT_EQ(status.code(), StatusCode::kUnprocessable);
    EXPECT_THAT(status.message(), HasSubstr("too many steps"));
  });
  EXPECT_LT(seconds, kSoon);
}

struct StopCase {
  const char* name;
  std::string json;
  std::string text;
};

std::vector<StopCase> StopCases() {
  const std::string a(4 << 20, 'a');
  std::string unigram =
      R"({"model":{"type":"Unigram","unk_id":0,"vocab":[["<unk>",0],["a",-1],["aa",-1.5]]}})";
  std::string bpe = R"({"model":{"type":"BPE","vocab":{"a":0,"aa":1},"merges":["a a"]}})";
  std::string words =
      R"({"model":{"type":"WordPiece","unk_token":"a","max_input_chars_per_word":100,
      "continuing_subword_prefix":"##","vocab":{"a":0,"##a":1}},"pre_tokenizer":{"type":"BertPreTokenizer"}})";
  std::string one_word =
      R"({"model":{"type":"WordPiece","unk_token":"a","max_input_chars_per_word":1000000,
      "continuing_subword_prefix":"##","vocab":{"a":0,"##a":1}}})";
  return {
      {"unigram", unigram, a},
      {"bpe", bpe, a},
      {"words", words, Repeat("a a ", 1 << 20)},
      {"one_word", one_word, a.substr(0, 1'000'000)},
      {"normalizer", Json(Sequence(R"({"type":"Lowercase"})", 64)), a},
      {"pre_tokenizer",
       Json(
           "null",
           R"({"type":"Split","pattern":{"Regex":"(?:a|b){1,50}c"},"behavior":"Isolated","invert":false})"),
       a.substr(0, 1 << 20)}};
}

class StopsInside : public testing::TestWithParam<StopCase> {};

TEST_P(StopsInside, WhenCancelledOrLate) {
  const auto t = Load(GetParam().json);
  ASSERT_NE(t, nullptr);
  const std::string& text = GetParam().text;
  Ids ids;
  Encoding out;
  CancelToken cancel;
  EncodeOptions options;
  options.stop.cancel = &cancel;
  options.stop.deadline = Clock::now() + std::chrono::hours(1);
  const double whole = SecondsOf([&] { ASSERT_TRUE(t->Encode(text, options, &out).ok()); });
  // The flag is checked only inside.
  cancel.Cancel();
  const double cancelled = SecondsOf([&] {
    EXPECT_EQ(t->EncodeTextUntil(text, options.stop, &ids).code(), StatusCode::kCancelled);
  });
  EXPECT_LT(cancelled, whole / 2 + 0.05);
  options.stop.cancel = nullptr;
  options.stop.deadline = Clock::now() - std::chrono::seconds(1);
  EXPECT_EQ(t->Encode(text, options, &out).code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(t->EncodePair("a", text, options, &out).code(), StatusCode::kDeadlineExceeded);
  // Nothing of it stays.
  EXPECT_TRUE(t->EncodeText("a", &ids).ok());
  EXPECT_EQ(ids.size(), 1u);
}

INSTANTIATE_TEST_SUITE_P(Tokenizers, StopsInside, testing::ValuesIn(StopCases()),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace penstock::text

// Tokenizers from GGUF metadata: small ones by hand, and metadata made to break them.
#include "text/gguf_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <random>
#include <set>

#include "base/temp_folder_test_util.h"
#include "text/byte_level.h"
#include "text/gguf_models.h"
#include "text/gguf_pre_kinds.h"
#include "text/gguf_test_tokens.h"

namespace penstock::text {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Ids = std::vector<int32_t>;

constexpr int32_t kNormal = 1, kUnknown = 2, kControl = 3, kUser = 4, kUnused = 5, kByte = 6;

// <unk> <s> </s>, the 256 bytes, then these pieces with scores -1, -2, ...
GgufTokenizerKeys SentencePieceKeys(const std::vector<std::string>& pieces) {
  static constexpr char kHex[] = "0123456789ABCDEF";
  std::vector<std::string> texts = {"<unk>", "<s>", "</s>"};
  std::vector<int32_t> types = {kUnknown, kControl, kControl};
  for (int byte = 0; byte < 256; ++byte) {
    texts.push_back(std::string("<0x") + kHex[byte >> 4] + kHex[byte & 15] + ">");
    types.push_back(kByte);
  }
  std::vector<float> scores(texts.size(), 0);
  for (const std::string& piece : pieces) {
    scores.push_back(-1.0f - static_cast<float>(texts.size() - 259));
    texts.push_back(piece);
    types.push_back(kNormal);
  }
  GgufTokenizerKeys keys;
  return keys.Text("model", "llama").Texts("tokens", texts).Types(types).Scores(scores);
}
constexpr int32_t kFirst = 259;  // id of the first piece

// The 256 bytes in the byte-level alphabet, these tokens, and these merges.
GgufTokenizerKeys BpeKeys(const std::vector<std::string>& more,
                          const std::vector<std::string>& merges) {
  std::vector<std::string> texts;
  for (int byte = 0; byte < 256; ++byte) {
    texts.emplace_back(ByteLevelUtf8(static_cast<unsigned char>(byte)));
  }
  texts.insert(texts.end(), more.begin(), more.end());
  GgufTokenizerKeys keys;
  return keys.Text("model", "gpt2")
      .Text("pre", "gpt-2")
      .Texts("tokens", texts)
      .Texts("merges", merges);
}

GgufTokenizerKeys BertKeys() {
  GgufTokenizerKeys keys;
  return keys.Text("model", "bert")
      .Texts("tokens", {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "▁un", "able", "▁a", "▁é", "[unused0]"})
      .Types({kControl, kControl, kControl, kControl, kNormal, kNormal, kNormal, kNormal, kNormal})
      .Id("unknown", 1)
      .Id("cls", 2)
      .Id("seperator", 3);
}

std::unique_ptr<Tokenizer> Load(const GgufTokenizerKeys& keys) {
  auto tokenizer = keys.Load();
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
  return tokenizer.ok() ? std::move(*tokenizer) : nullptr;
}

std::string LoadError(const GgufTokenizerKeys& keys) {
  const auto tokenizer = keys.Load();
  return tokenizer.ok() ? "loads" : tokenizer.status().ToString();
}

Ids Encode(const Tokenizer& tokenizer, std::string_view text, bool special = true) {
  Encoding out;
  EncodeOptions options;
  options.add_special_tokens = special;
  const Status status = tokenizer.Encode(text, options, &out);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return out.ids;
}
Ids EncodePair(const Tokenizer& tokenizer) {
  Encoding out;
  EXPECT_TRUE(tokenizer.EncodePair("a", "a", {}, &out).ok());
  return out.ids;
}

std::string StreamAll(const Tokenizer& tokenizer, const Ids& ids) {
  const auto stream = tokenizer.NewStreamDecoder(true);
  std::string text;
  for (const int32_t id : ids) text += stream->Push(id);
  return text + stream->Finish();
}

// --- SentencePiece

TEST(GgufSentencePiece, MergesTheHighestScoreFirst) {
  // "ab" before "bc": a b c is ab c; ▁a would come last.
  const auto t = Load(SentencePieceKeys({"ab", "bc", "▁a", "a", "b", "c", "▁"}));
  EXPECT_THAT(Encode(*t, "abc", false), ElementsAre(kFirst + 6, kFirst, kFirst + 5));
  EXPECT_THAT(Encode(*t, "bc", false), ElementsAre(kFirst + 6, kFirst + 1));
  EXPECT_THAT(Encode(*t, "a", false), ElementsAre(kFirst + 2));
  EXPECT_THAT(Encode(*t, "", false), IsEmpty());
}

TEST(GgufSentencePiece, EqualScoresMergeFromTheLeft) {
  GgufTokenizerKeys keys = SentencePieceKeys({"ba", "ab", "a", "b"});
  std::vector<float> scores(kFirst + 4, -7.0f);
  keys.Scores(scores).Flag("add_space_prefix", false);
  EXPECT_THAT(Encode(*Load(keys), "aba", false), ElementsAre(kFirst + 1, kFirst + 2));
  EXPECT_THAT(Encode(*Load(keys), "bab", false), ElementsAre(kFirst, kFirst + 3));
}

TEST(GgufSentencePiece, WhatNoTokenHasBecomesBytes) {
  const auto t = Load(SentencePieceKeys({"▁", "a"}));
  EXPECT_THAT(Encode(*t, "é", false), ElementsAre(kFirst, 3 + 0xC3, 3 + 0xA9));
  const Ids ids = Encode(*t, "aé a", false);
  EXPECT_EQ(t->Decode(ids, true), "aé a");
  EXPECT_EQ(StreamAll(*t, ids), "aé a");
  // Tokens for bytes merge with nothing, whatever the vocabulary has.
  const auto odd = Load(SentencePieceKeys({"▁", "a", "<0x0A>a"}));
  EXPECT_THAT(Encode(*odd, "\na", false), ElementsAre(kFirst, 3 + 0x0A, kFirst + 1));
}

TEST(GgufSentencePiece, WithoutBytesIsUnknown) {
  GgufTokenizerKeys keys;
  keys.Text("model", "llama").Texts("tokens", {"<unk>", "<s>", "▁", "a"}).Types({2, 3, 1, 1});
  EXPECT_THAT(Encode(*Load(keys), "éöa"), ElementsAre(1, 2, 0, 3));
}

TEST(GgufSentencePiece, SpecialTokensAreCutOutAndStandAround) {
  GgufTokenizerKeys keys = SentencePieceKeys({"▁a", "a", "▁"});
  EXPECT_THAT(Encode(*Load(keys), "a"), ElementsAre(1, kFirst));
  EXPECT_THAT(Encode(*Load(keys), "a</s>a"), ElementsAre(1, kFirst, 2, kFirst));
  EXPECT_THAT(EncodePair(*Load(keys)), ElementsAre(1, kFirst, 1, kFirst));
  keys.Flag("add_bos_token", false).Flag("add_eos_token", true);
  EXPECT_THAT(Encode(*Load(keys), "a"), ElementsAre(kFirst, 2));
  keys.Id("eos", kFirst + 1).Flag("add_space_prefix", false);
  EXPECT_THAT(Encode(*Load(keys), "a"), ElementsAre(kFirst + 1, kFirst + 1));
  const auto t = Load(keys);
  EXPECT_TRUE(t->IsSpecial(1));
  EXPECT_FALSE(t->IsSpecial(kFirst));
  EXPECT_EQ(t->Decode(Ids{1, kFirst, kFirst}, true), " a a");
  EXPECT_EQ(t->special_tokens_single(), 1u);
}

TEST(GgufSentencePiece, WithoutTypesTheTokensThatKeysNameAreSpecial) {
  GgufTokenizerKeys keys = SentencePieceKeys({"▁a", "x"});
  keys.Drop("token_type").Id("bos", 1).Id("padding", kFirst + 1);
  const auto t = Load(keys);
  EXPECT_TRUE(t->IsSpecial(1) && t->IsSpecial(kFirst + 1));
  EXPECT_FALSE(t->IsSpecial(2));
  EXPECT_FALSE(t->IsSpecial(3));
  EXPECT_FALSE(Load(BpeKeys({}, {}))->IsSpecial(11));
}

TEST(GgufSentencePiece, Phi3TakesTheSpacesAfterItsSpecialTokens) {
  GgufTokenizerKeys keys = SentencePieceKeys({"▁a", "▁", "▁▁a", "a"});
  EXPECT_THAT(Encode(*Load(keys), "</s> a", false), ElementsAre(2, kFirst + 2));
  keys.Name("Phi-3 mini");
  EXPECT_THAT(Encode(*Load(keys), "</s> a", false), ElementsAre(2, kFirst));
  EXPECT_THAT(Encode(*Load(keys), "<s> a", false), ElementsAre(1, kFirst + 2));
}

// In a vocabulary of all that can be, each token is made of others in as many ways as it is long.
TEST(GgufSentencePiece, TokensAreMadeOfOthersInAllWays) {
  std::vector<std::string> pieces;
  for (size_t length = 1; length <= kSentencePieceBytesMax; ++length)
    pieces.emplace_back(length, 'a');
  const auto t = Load(SentencePieceKeys(pieces).Flag("add_space_prefix", false));
  const Ids ids = Encode(*t, std::string(1000, 'a'), false);
  EXPECT_LT(ids.size(), 10u);
  EXPECT_EQ(t->Decode(ids, true), std::string(1000, 'a'));
}

// --- byte-level BPE

TEST(GgufBpe, MergesInTheirOrder) {
  const auto t = Load(BpeKeys({"ab", "bc", "Ġa"}, {"a b", "b c", "Ġ a"}));
  EXPECT_THAT(Encode(*t, "abc"), ElementsAre(256, 'c'));
  EXPECT_THAT(Encode(*t, " abc bc"), ElementsAre(' ', 256, 'c', ' ', 257));
  const Ids ids = Encode(*t, "é abc");
  EXPECT_EQ(t->Decode(ids, true), "é abc");
  EXPECT_EQ(StreamAll(*t, ids), "é abc");
}

TEST(GgufBpe, UserDefinedTokensAreCutOutAndStayInTheText) {
  GgufTokenizerKeys keys = BpeKeys({"<tool>", "<|end|>"}, {});
  std::vector<int32_t> types(258, kNormal);
  types[256] = kUser;
  types[257] = kControl;
  const auto t = Load(keys.Types(types));
  const Ids ids = Encode(*t, "a<tool><|end|>");
  EXPECT_THAT(ids, ElementsAre('a', 256, 257));
  EXPECT_EQ(t->Decode(ids, true), "a<tool>");
  EXPECT_EQ(t->Decode(ids, false), "a<tool><|end|>");
}

TEST(GgufBpe, KindsSayWhichTokenBegins) {
  GgufTokenizerKeys keys = BpeKeys({"<b>"}, {});
  keys.Id("bos", 256);
  EXPECT_THAT(Encode(*Load(keys), "a"), ElementsAre('a'));
  EXPECT_THAT(Encode(*Load(keys.Text("pre", "llama-bpe")), "a"), ElementsAre(256, 'a'));
  EXPECT_THAT(Encode(*Load(keys.Flag("add_bos_token", false)), "a"), ElementsAre('a'));
  keys.Text("pre", "roberta-bpe").Id("eos", 256).Id("seperator", 256);
  EXPECT_THAT(EncodePair(*Load(keys.Flag("add_bos_token", true).Flag("add_eos_token", true))),
              ElementsAre(256, 'a', 256, 256, 'a', 256));
}

TEST(GgufBpe, EveryKindLoadsAndKeepsTheText) {
  std::set<std::string_view> names;
  for (const std::string_view name : GgufPreKindNames()) {
    SCOPED_TRACE(name);
    EXPECT_TRUE(names.insert(name).second);
    const auto t = Load(BpeKeys({}, {})
                            .Text("pre", name)
                            .Flag("add_bos_token", false)
                            .Flag("add_sep_token", false));
    ASSERT_NE(t, nullptr);
    const std::string text = "I'll pay $1234.56 — 中文 ½ don't\n\n  (x) Ünïcode!";
    EXPECT_EQ(t->Decode(Encode(*t, text), true), text);
  }
  EXPECT_GE(names.size(), 30u);
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
}

// The pieces of a text, by a vocabulary in which each piece becomes one token of its own bytes: a
// merge of all neighbours.
TEST(GgufBpe, KindsCutWhereTheirModelsDo) {
  const auto pieces = [](std::string_view kind, const std::string& text) {
    auto made = MakeGgufPreKind(kind);
    EXPECT_TRUE(made.ok()) << made.status().ToString();
    NormalizedText normalized;
    Work work({}, 1 << 20);
    normalized.Assign(text, 0, static_cast<uint32_t>(text.size()), false, 1 << 20, &work);
    std::vector<Piece> cut = {{0, static_cast<uint32_t>(text.size()), -1}};
    for (const auto& step : made->steps) EXPECT_TRUE(step->Apply(&normalized, &cut).ok());
    std::vector<std::string> out;
    for (const Piece& piece : cut) {
      out.push_back(normalized.text.substr(piece.begin, piece.end - piece.begin));
    }
    return out;
  };
  EXPECT_THAT(pieces("gpt-2", "we'll 1234 x"), ElementsAre("we", "'ll", " 1234", " x"));
  EXPECT_THAT(pieces("smollm", "a 12"), ElementsAre("a", " ", "1", "2"));
  EXPECT_THAT(pieces("llama-bpe", "WE'LL 1234"), ElementsAre("WE", "'LL", " ", "123", "4"));
  EXPECT_THAT(pieces("qwen2", "x 12"), ElementsAre("x", " ", "1", "2"));
  EXPECT_THAT(pieces("gpt-4o", "JSONData's 1234/"),
              ElementsAre("JSONData's", " ", "123", "4", "/"));
  EXPECT_THAT(pieces("tekken", "helloWorld's 12"),
              ElementsAre("hello", "World", "'s", " ", "1", "2"));
  EXPECT_THAT(pieces("falcon", "a+b 1234"), ElementsAre("a", "+", "b", "Ġ", "123", "4"));
  EXPECT_THAT(pieces("default", "a+b 1234"), ElementsAre("a", "+", "b", " ", "123", "4"));
  EXPECT_THAT(pieces("deepseek-llm", "a\nб 12 中"),
              ElementsAre("a", "\n", "б", " ", "1", "2", " ", "中"));
  EXPECT_THAT(pieces("deepseek-coder", "f(x) 1"), ElementsAre("f", "(", "x", ")", " ", "1"));
  EXPECT_THAT(pieces("deepseek-v3", "f(x) 1234中x"),
              ElementsAre("f", "(x", ")", " ", "123", "4", "中", "x"));
}

// The patterns that have a matcher by hand use it.
TEST(GgufBpe, FrequentPatternsAreTheFastOnes) {
  for (const char* kind : {"llama-bpe", "qwen2", "qwen35", "gpt-4o"}) {
    auto made = MakeGgufPreKind(kind);
    ASSERT_TRUE(made.ok());
    ASSERT_EQ(made->steps.size(), 1u);
    EXPECT_EQ(made->steps[0]->AtCut(" "), CutRule::kSplits) << kind;
  }
}

// --- WordPiece

TEST(GgufWordPiece, MarksBecomeBertsOwn) {
  const auto t = Load(BertKeys());
  EXPECT_THAT(Encode(*t, "Unable a"), ElementsAre(2, 4, 5, 6, 3));
  EXPECT_THAT(Encode(*t, "able"), ElementsAre(2, 1, 3));
  EXPECT_EQ(t->IdToToken(4), "un");
  EXPECT_EQ(t->IdToToken(5), "##able");
  EXPECT_EQ(t->IdToToken(8), "[unused0]");
  EXPECT_EQ(t->Decode(Ids{2, 4, 5, 6, 3}, true), "unable a");
  EXPECT_EQ(StreamAll(*t, Ids{2, 4, 5, 6, 3}), "unable a");
  EXPECT_THAT(EncodePair(*t), ElementsAre(2, 6, 3, 6, 3));
}

TEST(GgufWordPiece, CaseAndAccentsAreAsTheFileSays) {
  EXPECT_THAT(Encode(*Load(BertKeys()), "É A", false), ElementsAre(1, 6));  // "e" is unknown
  EXPECT_THAT(Encode(*Load(BertKeys().Flag("normalizer.strip_accents", false)), "É A", false),
              ElementsAre(7, 6));
  EXPECT_THAT(Encode(*Load(BertKeys().Flag("normalizer.lowercase", false)), "é A", false),
              ElementsAre(7, 1));
}

// --- Unigram

TEST(GgufUnigram, TakesTheBestSum) {
  GgufTokenizerKeys keys;
  keys.Text("model", "t5")
      .Texts("tokens", {"<pad>", "</s>", "<unk>", "▁", "▁a", "ab", "b", "[PAD7]"})
      .Types({kControl, kControl, kUnknown, kNormal, kNormal, kNormal, kNormal, kUnused})
      .Scores({0, 0, 0, -2, -1, -5, -1, -10000})
      .Flag("add_space_prefix", true);
  EXPECT_THAT(Encode(*Load(keys), "ab"), ElementsAre(4, 6, 1));
  EXPECT_THAT(Encode(*Load(keys), "xb"), ElementsAre(3, 2, 6, 1));
  EXPECT_EQ(Load(keys)->Decode(Ids{4, 6, 4, 1}, true), "ab a");
  keys.Flag("add_eos_token", false).Flag("add_space_prefix", false);
  EXPECT_THAT(Encode(*Load(keys), "ab"), ElementsAre(5));
}

// --- metadata made to break it

TEST(GgufHostile, NamesThatAreNotKnownAreRefusedByName) {
  EXPECT_THAT(
      LoadError(SentencePieceKeys({}).Text("model", "rwkv")),
      HasSubstr("tokenizer \"rwkv\" is not supported; supported are gpt2, llama, bert, t5"));
  EXPECT_THAT(LoadError(SentencePieceKeys({}).Drop("model")), HasSubstr("tokenizer.ggml.model"));
  EXPECT_THAT(LoadError(SentencePieceKeys({}).Flag("model", true)),
              HasSubstr("tokenizer.ggml.model"));
  const std::string error = LoadError(BpeKeys({}, {}).Text("pre", "new\nkind"));
  EXPECT_THAT(error, HasSubstr("pre-tokenizer \"new\\nkind\" is not supported; supported are "));
  EXPECT_THAT(error, HasSubstr("llama-bpe"));
  EXPECT_THAT(error, HasSubstr("tokenizer.ggml.pre"));
}

TEST(GgufHostile, ListsOfUnequalLengthsAreErrors) {
  EXPECT_THAT(LoadError(SentencePieceKeys({"a"}).Scores({1, 2})),
              HasSubstr("tokenizer.ggml.scores has 2 elements, but there are 260 tokens"));
  EXPECT_THAT(LoadError(SentencePieceKeys({"a"}).Types({1})),
              HasSubstr("tokenizer.ggml.token_type has 1 elements"));
  EXPECT_THAT(LoadError(SentencePieceKeys({"a"}).Scores(std::vector<float>(261))),
              HasSubstr("tokenizer.ggml.scores has 261 elements"));
  EXPECT_THAT(LoadError(SentencePieceKeys({"a"}).Texts("tokens", {})),
              HasSubstr("tokenizer.ggml.tokens: there are no tokens"));
  EXPECT_THAT(LoadError(SentencePieceKeys({"a"}).Drop("tokens")),
              HasSubstr("tokenizer.ggml.tokens"));
  EXPECT_THAT(LoadError(SentencePieceKeys({"a"}).Texts("scores", {"a"})),
              HasSubstr("tokenizer.ggml.scores"));
}

TEST(GgufHostile, NumbersOutOfRangeAreErrors) {
  EXPECT_THAT(LoadError(SentencePieceKeys({}).Id("bos", 259)),
              HasSubstr("tokenizer.ggml.bos_token_id must be an id below 259, is 259"));
  EXPECT_EQ(LoadError(SentencePieceKeys({}).Id("bos", 258)), "loads");
  EXPECT_EQ(LoadError(SentencePieceKeys({}).Id("seperator", 0xFFFFFFFF)), "loads");  // none
  EXPECT_THAT(LoadError(SentencePieceKeys({}).Text("eos_token_id", "x")),
              HasSubstr("tokenizer.ggml.eos_token_id"));
  std::vector<int32_t> types(259, kNormal);
  types[7] = 99;
  EXPECT_THAT(LoadError(SentencePieceKeys({}).Types(types)),
              HasSubstr("tokenizer.ggml.token_type[7] must be a type from 0 to 6, is 99"));
  std::vector<float> scores(259, 0);
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    scores[8] = bad;
    EXPECT_THAT(LoadError(SentencePieceKeys({}).Scores(scores)),
                HasSubstr("tokenizer.ggml.scores[8] must be a finite number"));
  }
}

TEST(GgufHostile, TemplatesNeedTheirTokens) {
  EXPECT_THAT(LoadError(BpeKeys({}, {}).Texts("tokens", {"a"}).Text("pre", "llama-bpe")),
              HasSubstr("tokenizer.ggml.bos_token_id names no token"));
  EXPECT_THAT(LoadError(BpeKeys({}, {}).Flag("add_sep_token", true)),
              HasSubstr("tokenizer.ggml.seperator_token_id names no token, but one stands beside "
                        "every text unless tokenizer.ggml.add_sep_token is false"));
  EXPECT_THAT(LoadError(BertKeys().Drop("unknown_token_id")),
              HasSubstr("tokenizer.ggml.unknown_token_id names no token"));
}

TEST(GgufHostile, MergesNeedTheirTokens) {
  EXPECT_THAT(LoadError(BpeKeys({}, {"a b"})),
              HasSubstr("tokenizer.ggml.merges[0] needs \"ab\", which is not among the tokens"));
  EXPECT_THAT(LoadError(BpeKeys({"ab"}, {"a b", "xyz a"})),
              HasSubstr("tokenizer.ggml.merges[1] needs \"xyz\""));
  for (const char* broken : {"ab", "", " ", "a", " b"}) {
    EXPECT_THAT(LoadError(BpeKeys({}, {broken})), HasSubstr("tokenizer.ggml.merges[0] ")) << broken;
  }
  EXPECT_THAT(LoadError(BpeKeys({}, {}).Drop("merges")), HasSubstr("tokenizer.ggml.merges"));
}

TEST(GgufHostile, TokensMustBeTextAndThereOnce) {
  EXPECT_THAT(LoadError(SentencePieceKeys({"a", "\xC3"})),
              HasSubstr("tokenizer.ggml.tokens[260] must be UTF-8, is \"\\xc3\""));
  EXPECT_THAT(LoadError(SentencePieceKeys({"a", "b", "a"})),
              HasSubstr("tokenizer.ggml.tokens[259] is \"a\", as is token 261"));
  EXPECT_THAT(LoadError(BertKeys().Texts(
                  "tokens", {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "▁##a", "a", "", "", ""})),
              HasSubstr("tokenizer.ggml.tokens[4] is \"##a\", as is token 5"));
  // Some published files have a few tokens without text.
  const auto t = Load(SentencePieceKeys({"▁a", "", ""}));
  EXPECT_EQ(t->Decode(Ids{kFirst, kFirst + 1, kFirst + 2}, true), "a");
  std::vector<std::string> million(1000000);
  GgufTokenizerKeys empty;
  EXPECT_THAT(LoadError(empty.Text("model", "llama").Texts("tokens", million)),
              HasSubstr("tokenizer.ggml.tokens: more than 65536 tokens without text"));
}

TEST(GgufHostile, SizesAreBounded) {
  EXPECT_THAT(LoadError(SentencePieceKeys({std::string(70000, 'a')})),
              HasSubstr("tokenizer.ggml.tokens: a token of more than 64 KiB"));
  EXPECT_THAT(LoadError(SentencePieceKeys({std::string(257, 'a')})),
              HasSubstr("tokenizer.ggml.tokens[259] has more than 256 bytes"));
  EXPECT_THAT(LoadError(BpeKeys({}, {std::string(70000, 'a') + " " + std::string(70000, 'b')})),
              HasSubstr("tokenizer.ggml.merges[0] must be two tokens"));
  std::vector<std::string> many;
  for (int i = 0; i < 1150; ++i) many.push_back(std::to_string(i) + std::string(60000, 'a'));
  EXPECT_THAT(LoadError(SentencePieceKeys(many)), HasSubstr("more than 64 MiB of them"));
}

TEST(GgufHostile, CharacterMapsAreChecked) {
  GgufTokenizerKeys keys;
  keys.Text("model", "t5").Texts("tokens", {"<pad>", "</s>", "<unk>"}).Types({3, 3, 2});
  EXPECT_EQ(LoadError(keys), "loads");
  const auto with = [&](const std::vector<uint8_t>& map) {
    return LoadError(keys.Set("precompiled_charsmap", files::GgufType::kArray,
                              RawNumbers(files::GgufType::kUint8, map)));
  };
  EXPECT_EQ(with({}), "loads");
  EXPECT_THAT(with({1, 2}), HasSubstr("tokenizer.ggml.precompiled_charsmap"));
  EXPECT_THAT(with({255, 255, 255, 255, 0}), HasSubstr("trie is cut off"));
  EXPECT_THAT(LoadError(keys.Text("precompiled_charsmap", "x")),
              HasSubstr("tokenizer.ggml.precompiled_charsmap"));
}

// Files with changed bytes load, or fail with an error that names a key; what loads encodes and
// decodes.
TEST(GgufHostile, MutationsDoNoHarm) {
  GgufTokenizerKeys unigram;
  unigram.Text("model", "t5")
      .Texts("tokens", {"<pad>", "</s>", "<unk>", "▁", "▁a", "ab", "b"})
      .Types({3, 3, 2, 1, 1, 1, 1})
      .Scores({0, 0, 0, -2, -1, -5, -1})
      .Set("precompiled_charsmap", files::GgufType::kArray,
           RawNumbers(files::GgufType::kUint8,
                      std::vector<uint8_t>{4, 0, 0, 0, 0, 4, 0, 0, 'x', 0}));
  GgufTokenizerKeys pieces;
  pieces.Text("model", "llama")
      .Texts("tokens", {"<unk>", "<s>", "</s>", "<0x41>", "▁", "a", "b", "ab", "▁ab"})
      .Types({2, 3, 3, 6, 1, 1, 1, 1, 4})
      .Scores({0, 0, 0, 0, -1, -2, -3, -4, -5})
      .Id("bos", 1);
  GgufTokenizerKeys bytes;
  bytes.Text("model", "gpt2").Text("pre", "smollm").Texts("tokens", {"a", "b", "Ġ", "ab", "<e>"});
  bytes.Texts("merges", {"a b"}).Types({1, 1, 1, 1, 3}).Id("bos", 4).Flag("add_bos_token", true);
  const std::string seeds[] = {unigram.File(), pieces.File(), bytes.File(), BertKeys().File()};
  std::mt19937_64 random(20);
  int loaded = 0;
  std::set<std::string> fields;
  for (int i = 0; i < 40000; ++i) {
    std::string file = seeds[random() % 4];
    for (uint64_t changes = 1 + random() % 3; changes > 0; --changes) {
      const size_t at = 24 + random() % (file.size() - 24);
      if (random() % 3 == 0) {
        file[at] = static_cast<char>(random());
      } else {
        file[at] = static_cast<char>(file[at] ^ (1 << random() % 8));
      }
    }
    const auto parsed = files::ParseGguf(files::BytesOf(file));
    if (!parsed.ok()) continue;
    const auto tokenizer = TokenizerFromGguf(parsed->metadata);
    if (!tokenizer.ok()) {
      ASSERT_THAT(tokenizer.status().field(),
                  testing::AnyOf(HasSubstr("tokenizer.ggml."), testing::Eq("added_tokens")))
          << tokenizer.status().ToString();
      fields.insert(tokenizer.status().field());
      continue;
    }
    ++loaded;
    Encoding out;
    if ((*tokenizer)
            ->Encode("ab <e> a\xC3\xA9"
                     "1b",
                     {}, &out)
            .ok()) {
      (*tokenizer)->Decode(out.ids, false);
    }
  }
  EXPECT_GT(loaded, 1000);
  EXPECT_GT(fields.size(), 8u);
}

// --- files

TEST(GgufFile, FromFileTakesEitherByItsFirstBytes) {
  const TempFolder folder;
  const std::string path = folder / "tokenizer.bin";
  std::ofstream(path, std::ios::binary) << BertKeys().File();
  const auto tokenizer = Tokenizer::FromFile(path);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
  EXPECT_EQ((*tokenizer)->model_type(), "WordPiece");
  std::ofstream(path, std::ios::binary) << BertKeys().Text("model", "x").File();
  EXPECT_THAT(Tokenizer::FromFile(path).status().message(), HasSubstr(path));
  std::ofstream(path, std::ios::binary) << "GGUF";
  EXPECT_FALSE(Tokenizer::FromFile(path).ok());
}

}  // namespace
}  // namespace penstock::text

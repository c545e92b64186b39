// The Tokenizer seam on small tokenizers written here. Expected values come from Hugging Face
// `tokenizers` 0.23.3.
#include "text/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "unicode/utf8.h"

namespace penstock::text {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Ids = std::vector<int32_t>;
using Offsets = std::vector<TokenOffset>;

constexpr const char* kTemplate = R"({"type":"TemplateProcessing",
  "single":[{"SpecialToken":{"id":"[CLS]","type_id":0}},{"Sequence":{"id":"A","type_id":0}},
            {"SpecialToken":{"id":"[SEP]","type_id":0}}],
  "pair":[{"SpecialToken":{"id":"[CLS]","type_id":0}},{"Sequence":{"id":"A","type_id":0}},
          {"SpecialToken":{"id":"[SEP]","type_id":0}},{"Sequence":{"id":"B","type_id":1}},
          {"SpecialToken":{"id":"[SEP]","type_id":1}}],
  "special_tokens":{"[CLS]":{"id":"[CLS]","ids":[2],"tokens":["[CLS]"]},
                    "[SEP]":{"id":"[SEP]","ids":[3],"tokens":["[SEP]"]}}})";

std::string WordPieceJson() {
  return std::string(R"({"version":"1.0","added_tokens":[
    {"id":0,"content":"[PAD]","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true},
    {"id":1,"content":"[UNK]","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true},
    {"id":2,"content":"[CLS]","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true},
    {"id":3,"content":"[SEP]","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true},
    {"id":4,"content":"[MASK]","single_word":false,"lstrip":true,"rstrip":false,"normalized":false,"special":true}],
  "normalizer":{"type":"BertNormalizer","clean_text":true,"handle_chinese_chars":true,"strip_accents":null,"lowercase":true},
  "pre_tokenizer":{"type":"BertPreTokenizer"},"post_processor":)") +
         kTemplate + R"(,"decoder":{"type":"WordPiece","prefix":"##","cleanup":true},
  "model":{"type":"WordPiece","unk_token":"[UNK]","continuing_subword_prefix":"##","max_input_chars_per_word":10,
    "vocab":{"[PAD]":0,"[UNK]":1,"[CLS]":2,"[SEP]":3,"[MASK]":4,"hello":5,"world":6,"##s":7,"un":8,
             "##aff":9,"##able":10,",":11,"!":12,"a":13,"e":14,"##e":15,"中":16,"cafe":17}}})";
}

// The 256 characters of the byte-level alphabet have ids in code point order.
std::string ByteLevelJson() {
  std::string vocab;
  int id = 0;
  for (int c = 0x21; c < 0x144; ++c) {
    const bool in = (c <= 0x7E) || (c >= 0xA1 && c != 0xAD);
    if (!in) continue;
    std::string text;
    if (c < 0x80) {
      if (c == '"' || c == '\\') text = "\\";
      text += char(c);
    } else {
      text = {char(0xC0 | c >> 6), char(0x80 | (c & 63))};
    }
    vocab += "\"" + text + "\":" + std::to_string(id++) + ",";
  }
  EXPECT_EQ(id, 256);
  return R"({"added_tokens":[],"normalizer":null,
    "pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true},
    "post_processor":{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true},
    "decoder":{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true},
    "model":{"type":"BPE","dropout":null,"vocab":{)" +
         vocab + R"("he":256,"hel":257,"lo":258,"hello":259,"Ġw":260,"Ġwo":261},
      "merges":["h e","he l","l o",["hel","lo"],"Ġ w","Ġw o"]}})";
}

std::string UnigramJson() {
  return R"({"normalizer":null,"pre_tokenizer":{"type":"Metaspace","replacement":"▁","prepend_scheme":"always","split":true},
    "decoder":{"type":"Metaspace","replacement":"▁","prepend_scheme":"always","split":true},
    "model":{"type":"Unigram","unk_id":0,"byte_fallback":false,"vocab":[["<unk>",0.0],["▁",-2.0],["▁ab",-3.0],
      ["a",-1.0],["b",-1.5],["abc",-5.0],["c",-2.5],["bc",-2.0]]}})";
}

// Llama-2's shape: <unk>, <0x00> to <0xFF> at 1 to 256, then a few pieces.
std::string ByteFallbackJson() {
  std::string vocab = "\"<unk>\":0";
  char name[8];
  for (int i = 0; i < 256; ++i) {
    std::snprintf(name, sizeof(name), "<0x%02X>", i);
    vocab += ",\"" + std::string(name) + "\":" + std::to_string(i + 1);
  }
  return R"({"normalizer":{"type":"Sequence","normalizers":[{"type":"Prepend","prepend":"▁"},
      {"type":"Replace","pattern":{"String":" "},"content":"▁"}]},
    "decoder":{"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"▁"},"content":" "},
      {"type":"ByteFallback"},{"type":"Fuse"},{"type":"Strip","content":" ","start":1,"stop":0}]},
    "model":{"type":"BPE","unk_token":"<unk>","fuse_unk":true,"byte_fallback":true,"vocab":{)" +
         vocab +
         R"(,"▁":257,"a":258,"b":259,"▁a":260,"ab":261,"\uFFFD":262},"merges":["▁ a","a b"]}})";
}

std::unique_ptr<Tokenizer> Load(const std::string& json) {
  auto tokenizer = Tokenizer::FromJson(json);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
  return tokenizer.ok() ? std::move(*tokenizer) : nullptr;
}

Encoding EncodeText(const Tokenizer& tokenizer, std::string_view text) {
  EncodeOptions options;
  options.with_offsets = true;
  Encoding out, bare;
  EXPECT_TRUE(tokenizer.Encode(text, options, &out).ok());
  options.with_offsets = false;
  EXPECT_TRUE(tokenizer.Encode(text, options, &bare).ok());
  EXPECT_EQ(out.ids, bare.ids);
  EXPECT_TRUE(bare.offsets.empty());
  EXPECT_EQ(out.offsets.size(), out.ids.size());
  return out;
}

TEST(TokenizerWordPiece, IdsAndOffsets) {
  const auto t = Load(WordPieceJson());
  Encoding e = EncodeText(*t, "Hello, WORLDS!");
  EXPECT_EQ(e.ids, (Ids{2, 5, 11, 6, 7, 12, 3}));
  EXPECT_EQ(e.offsets, (Offsets{{0, 0}, {0, 5}, {5, 6}, {7, 12}, {12, 13}, {13, 14}, {0, 0}}));
  EXPECT_THAT(e.special_mask, ElementsAre(1, 0, 0, 0, 0, 0, 1));
  EXPECT_THAT(e.sequence_ids, ElementsAre(-1, 0, 0, 0, 0, 0, -1));
  e = EncodeText(*t, "unaffable café");
  EXPECT_EQ(e.ids, (Ids{2, 8, 9, 10, 17, 3}));
  EXPECT_EQ(e.offsets[4], (TokenOffset{10, 14}));
  e = EncodeText(*t, "a中a [MASK] a");
  EXPECT_EQ(e.ids, (Ids{2, 13, 16, 13, 4, 13, 3}));
  EXPECT_EQ(e.offsets, (Offsets{{0, 0}, {0, 1}, {1, 2}, {2, 3}, {3, 10}, {11, 12}, {0, 0}}));
}

TEST(TokenizerWordPiece, EdgeTexts) {
  const auto t = Load(WordPieceJson());
  EXPECT_EQ(EncodeText(*t, "").ids, (Ids{2, 3}));
  const Encoding e = EncodeText(*t, std::string_view("a\0e hellohello", 14));
  EXPECT_EQ(e.ids, (Ids{2, 13, 15, 1, 3}));
  EXPECT_EQ(e.offsets, (Offsets{{0, 0}, {0, 1}, {2, 3}, {4, 14}, {0, 0}}));
  EXPECT_EQ(EncodeText(*t, "aaaaaaaaaaa a").ids, (Ids{2, 1, 13, 3}));  // 11 characters: too long
  EXPECT_EQ(EncodeText(*t, "Ω").ids, (Ids{2, 1, 3}));
}

TEST(TokenizerWordPiece, Pairs) {
  const auto t = Load(WordPieceJson());
  Encoding e;
  ASSERT_TRUE(t->EncodePair("hello world a", "e e e e", {}, &e).ok());
  EXPECT_EQ(e.ids, (Ids{2, 5, 6, 13, 3, 14, 14, 14, 14, 3}));
  EXPECT_EQ(e.type_ids, (Ids{0, 0, 0, 0, 0, 1, 1, 1, 1, 1}));
  EXPECT_EQ(t->special_tokens_single(), 2u);
  EXPECT_EQ(t->special_tokens_pair(), 3u);
}

TEST(TokenizerTruncation, PairsAsTheReference) {
  const auto t = Load(WordPieceJson());
  struct Case {
    TruncationSide side;
    TruncationStrategy strategy;
    size_t limit;
    Ids ids;  // empty: refused
  };
  using enum TruncationSide;
  using enum TruncationStrategy;
  const Case cases[] = {
      {kRight, kLongestFirst, 6, {2, 5, 6, 3, 14, 3}},
      {kRight, kLongestFirst, 7, {2, 5, 6, 3, 14, 14, 3}},
      {kRight, kOnlyFirst, 6, {}},
      {kRight, kOnlyFirst, 7, {2, 5, 3, 14, 14, 14, 3}},
      {kRight, kOnlySecond, 7, {}},
      {kLeft, kLongestFirst, 6, {2, 13, 13, 3, 14, 3}},
      {kLeft, kLongestFirst, 7, {2, 13, 13, 3, 14, 14, 3}},
      {kLeft, kOnlyFirst, 7, {2, 13, 3, 14, 14, 14, 3}},
  };
  for (const Case& c : cases) {
    EncodeOptions options;
    options.max_tokens = c.limit;
    options.side = c.side;
    options.strategy = c.strategy;
    Encoding e;
    const Status status = t->EncodePair("hello world a a", "e e e", options, &e);
    ASSERT_EQ(status.ok(), !c.ids.empty()) << status.ToString();
    if (!status.ok()) {
      EXPECT_EQ(status.field(), "max_tokens");
      continue;
    }
    EXPECT_EQ(e.ids, c.ids);
    EXPECT_EQ(e.truncated_tokens, 10 - c.limit);
  }
}

TEST(TokenizerTruncation, Limits) {
  const auto t = Load(WordPieceJson());
  EncodeOptions options;
  Encoding e;
  options.max_tokens = 1;
  EXPECT_EQ(t->Encode("a", options, &e).code(), StatusCode::kInvalidArgument);
  options.max_tokens = 2;
  ASSERT_TRUE(t->Encode("a a a", options, &e).ok());
  EXPECT_EQ(e.ids, (Ids{2, 3}));
  EXPECT_EQ(e.truncated_tokens, 3u);
  options.add_special_tokens = false;
  ASSERT_TRUE(t->Encode("a e a", options, &e).ok());
  EXPECT_EQ(e.ids, (Ids{13, 14}));
}

TEST(TokenizerByteLevel, IdsOffsetsAndTrimming) {
  const auto t = Load(ByteLevelJson());
  Encoding e = EncodeText(*t, "hello wo");
  EXPECT_EQ(e.ids, (Ids{259, 261}));
  EXPECT_EQ(e.offsets, (Offsets{{0, 5}, {6, 8}}));
  e = EncodeText(*t, "hello  woé é\n");
  EXPECT_EQ(e.ids, (Ids{259, 220, 261, 127, 102, 220, 127, 102, 198}));
  EXPECT_EQ(
      e.offsets,
      (Offsets{{0, 5}, {6, 6}, {7, 9}, {9, 10}, {9, 10}, {11, 11}, {11, 12}, {11, 12}, {12, 13}}));
}

TEST(TokenizerByteLevel, InvalidUtf8BecomesReplacementCharacters) {
  const auto t = Load(ByteLevelJson());
  // F0 9F 98 is one cut-off character, C3 another, FF is never one: three U+FFFD.
  const std::string bad =
      "a\xF0\x9F\x98"
      "b\xC3"
      "c\xFF";
  EXPECT_EQ(EncodeText(*t, bad).ids, EncodeText(*t, "a\uFFFDb\uFFFDc\uFFFD").ids);
  EXPECT_EQ(t->Decode(EncodeText(*t, bad).ids, false), "a\uFFFDb\uFFFDc\uFFFD");
}

TEST(TokenizerByteLevel, LongWordsStayLinear) {
  const auto t = Load(ByteLevelJson());
  std::string word;
  while (word.size() < (1u << 20)) word += "hello";
  EXPECT_EQ(EncodeText(*t, word).ids.size(), word.size() / 5);
  EXPECT_EQ(EncodeText(*t, std::string(1 << 20, ' ')).ids.size(), size_t(1 << 20));
}

TEST(TokenizerUnigram, ViterbiUnknownAndOffsets) {
  const auto t = Load(UnigramJson());
  Encoding e = EncodeText(*t, "abc ab");
  EXPECT_EQ(e.ids, (Ids{1, 3, 7, 2}));
  EXPECT_EQ(e.offsets, (Offsets{{0, 1}, {0, 1}, {1, 3}, {3, 6}}));
  e = EncodeText(*t, "xy aé");
  EXPECT_EQ(e.ids, (Ids{1, 0, 1, 3, 0}));  // x and y are one unknown token
  EXPECT_EQ(e.offsets, (Offsets{{0, 1}, {0, 2}, {2, 3}, {3, 4}, {4, 5}}));
  EXPECT_EQ(EncodeText(*t, "  a").ids, (Ids{1, 1, 3}));
  EXPECT_EQ(t->Decode(Ids{2, 1, 3}, false), "ab a");
}

TEST(TokenizerByteFallback, IdsAndDecode) {
  const auto t = Load(ByteFallbackJson());
  Encoding e = EncodeText(*t, "ab aé");
  EXPECT_EQ(e.ids, (Ids{260, 259, 260, 196, 170}));
  EXPECT_EQ(e.offsets, (Offsets{{0, 1}, {1, 2}, {2, 4}, {4, 5}, {4, 5}}));
  EXPECT_EQ(t->Decode(e.ids, false), "ab aé");
  EXPECT_EQ(EncodeText(*t, "😀b").ids, (Ids{257, 241, 160, 153, 129, 259}));
  EXPECT_EQ(t->Decode(Ids{1 + 0xC3, 1 + 0xA9, 258}, false), "éa");
  EXPECT_EQ(t->Decode(Ids{1 + 0xC3, 258, 1 + 0x41}, false), "\uFFFDaA");
}

TEST(TokenizerDecode, SkipsSpecialTokensAndUnknownIds) {
  const auto t = Load(WordPieceJson());
  const Ids ids = {2, 5, 11, 6, 7, 12, 3, -1, 99999};
  EXPECT_EQ(t->Decode(ids, true), "hello, worlds!");
  EXPECT_EQ(t->Decode(ids, false), "[CLS] hello, worlds! [SEP]");
  EXPECT_EQ(t->IdToToken(7), "##s");
  EXPECT_EQ(t->IdToToken(99999), "");
  EXPECT_EQ(t->TokenToId("[MASK]"), 4);
  EXPECT_EQ(t->TokenToId("nope"), -1);
  EXPECT_TRUE(t->IsSpecial(4));
  EXPECT_FALSE(t->IsSpecial(5));
  EXPECT_EQ(t->vocab_size(), 18);
  EXPECT_EQ(t->model_type(), "WordPiece");
}

TEST(TokenizerDecode, AStreamShowsTheSpecialTokensItIsToldTo) {
  const auto t = Load(WordPieceJson());
  const auto stream = t->NewStreamDecoder(true, {3});
  std::string text;
  for (const int32_t id : {2, 5, 3, 11, 4, 6}) text += stream->Push(id);
  text += stream->Finish();
  EXPECT_EQ(text, "hello [SEP], world") << "[CLS] and [MASK] are skipped";
}

// Of ByteFallbackJson: in each run of byte tokens that is not UTF-8, the token U+FFFD in place of
// each byte after the leading whole characters. Its text is the one that a stream must add up to.
Ids AsStreamed(const Ids& ids) {
  Ids out;
  for (size_t i = 0; i < ids.size();) {
    std::string run;
    size_t end = i;
    for (; end < ids.size(); ++end) {
      if (ids[end] < 0 || ids[end] > 262) continue;  // no such token: skipped
      if (ids[end] == 0 || ids[end] > 256) break;
      run += char(ids[end] - 1);
    }
    if (end == i) {
      out.push_back(ids[i++]);
      continue;
    }
    size_t whole = 0, bad = 0;
    unicode::ScanUtf8(run, &whole, &bad);
    for (size_t k = 0; k < run.size(); ++k) {
      out.push_back(k < whole ? 1 + static_cast<unsigned char>(run[k]) : 262);
    }
    i = end;
  }
  return out;
}

// The pieces of a stream always add up to the text of the whole.
TEST(TokenizerStream, AddsUpForAnyIds) {
  std::mt19937 random(1);
  for (const std::string& json :
       {WordPieceJson(), ByteLevelJson(), UnigramJson(), ByteFallbackJson()}) {
    const auto t = Load(json);
    for (int round = 0; round < 2000; ++round) {
      Ids ids(random() % 12);
      for (int32_t& id : ids) id = int32_t(random() % (t->vocab_size() + 2)) - 1;
      const bool skip = random() % 2;
      const auto stream = t->NewStreamDecoder(skip);
      std::string text;
      for (int32_t id : ids) text += stream->Push(id);
      text += stream->Finish();
      const bool bytes = t->TokenToId("<0x00>") >= 0;
      ASSERT_EQ(text, t->Decode(bytes ? AsStreamed(ids) : ids, skip))
          << ::testing::PrintToString(ids);
    }
  }
}

TEST(TokenizerStream, ByteTokensShowByCharacter) {
  const auto t = Load(ByteFallbackJson());
  const Ids bytes = {1 + 0xC3, 1 + 0xA9, 1 + 0xE4, 1 + 0xB8, 1 + 0xAD};  // é中
  const auto stream = t->NewStreamDecoder(false);
  std::vector<std::string> pieces;
  for (int32_t id : bytes) pieces.push_back(stream->Push(id));
  EXPECT_THAT(pieces, ElementsAre("", "é", "", "", "中"));
  EXPECT_EQ(stream->Push(bytes[0]), "");
  EXPECT_EQ(stream->Push(258), "\uFFFDa");  // the run was cut off inside a character
  EXPECT_EQ(stream->Push(bytes[2]), "");
  EXPECT_EQ(stream->Push(bytes[3]), "");
  EXPECT_EQ(stream->Finish(), "\uFFFD\uFFFD");
  // As a whole, one bad byte spoils its run.
  EXPECT_EQ(t->Decode(Ids{bytes[0], bytes[1], bytes[0], 258}, false), "\uFFFD\uFFFD\uFFFDa");
}

// A run of byte tokens is one token to the steps after it, in a stream too; a step that needs
// whole tokens keeps the run together.
TEST(TokenizerStream, ByteTokensBeforeOtherSteps) {
  const std::string json = ByteFallbackJson();
  const size_t begin = json.find("\"decoder\":"), end = json.find("\"model\":");
  const auto with = [&](const std::string& steps) {
    return Load(json.substr(0, begin) + R"("decoder":{"type":"Sequence","decoders":[)" + steps +
                "]}," + json.substr(end));
  };
  const std::string bytes = R"({"type":"ByteFallback"})";
  const auto pieces = [](const Tokenizer& t, const Ids& ids) {
    const auto stream = t.NewStreamDecoder(false);
    std::vector<std::string> out;
    for (int32_t id : ids) out.push_back(stream->Push(id));
    out.push_back(stream->Finish());
    return out;
  };
  const Ids low_lines = {1 + '_', 1 + '_', 258, 1 + '_'};
  auto t = with(bytes + R"(,{"type":"Metaspace","replacement":"_","prepend_scheme":"first"})");
  EXPECT_EQ(t->Decode(low_lines, false), "a ");
  EXPECT_THAT(pieces(*t, low_lines), ElementsAre("", "", "a", " ", ""));
  t = with(bytes + R"(,{"type":"Strip","content":"_","start":1,"stop":0})");
  EXPECT_EQ(t->Decode(low_lines, false), "_a");
  EXPECT_THAT(pieces(*t, low_lines), ElementsAre("", "_", "a", "", ""));
  t = with(bytes + R"(,{"type":"Replace","pattern":{"String":"__"},"content":"-"})");
  EXPECT_EQ(t->Decode(low_lines, false), "-a_");
  EXPECT_THAT(pieces(*t, low_lines), ElementsAre("", "", "-a", "", "_"));
}

TEST(TokenizerStream, HoldsBackHalfACharacter) {
  const auto t = Load(ByteLevelJson());
  const Ids ids = EncodeText(*t, "é").ids;
  ASSERT_EQ(ids.size(), 2u);
  const auto stream = t->NewStreamDecoder(false);
  EXPECT_EQ(stream->Push(ids[0]), "");
  EXPECT_EQ(stream->Push(ids[1]), "é");
  EXPECT_EQ(stream->Push(ids[0]), "");
  EXPECT_EQ(stream->Finish(), "\uFFFD");
}

TEST(TokenizerThreads, ManyAtOnceAgree) {
  const auto t = Load(ByteLevelJson());
  const Ids expected = EncodeText(*t, "hello wo hello").ids;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      Encoding e;
      for (int k = 0; k < 500; ++k) {
        ASSERT_TRUE(t->Encode("hello wo hello", {}, &e).ok());
        ASSERT_EQ(e.ids, expected);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Replaces the first `from` in a good file and expects an error that names `what`.
void ExpectRefused(std::string json, std::string_view from, std::string_view to, StatusCode code,
                   const std::string& what) {
  const size_t at = json.find(from);
  ASSERT_NE(at, std::string::npos) << from;
  json.replace(at, from.size(), to);
  const auto tokenizer = Tokenizer::FromJson(json);
  ASSERT_FALSE(tokenizer.ok()) << to;
  EXPECT_EQ(tokenizer.status().code(), code) << tokenizer.status().ToString();
  EXPECT_THAT(tokenizer.status().ToString(), HasSubstr(what));
}

TEST(TokenizerFile, RefusesByName) {
  const std::string wp = WordPieceJson(), bpe = ByteLevelJson();
  const auto unsupported = StatusCode::kUnsupported, bad = StatusCode::kInvalidArgument;
  ExpectRefused(wp, "\"BertNormalizer\"", "\"Uppercase\"", unsupported, "Uppercase");
  ExpectRefused(wp, "\"BertPreTokenizer\"", "\"UnicodeScripts\"", unsupported, "UnicodeScripts");
  ExpectRefused(wp, "\"TemplateProcessing\"", "\"Other\"", unsupported, "post_processor");
  ExpectRefused(wp, R"("id":"B")", R"("id":"A")", unsupported, "post_processor.pair[3]");
  ExpectRefused(wp, "\"type\":\"WordPiece\",\"prefix\"", "\"type\":\"Odd\",\"prefix\"", unsupported,
                "decoder");
  ExpectRefused(wp, "\"type\":\"WordPiece\",\"unk", "\"type\":\"Magic\",\"unk", unsupported,
                "Magic");
  ExpectRefused(bpe, "\"dropout\":null", "\"dropout\":0.1", unsupported, "dropout");
  ExpectRefused(bpe, "\"h e\"", "\"h x9\"", bad, "model.merges");
  ExpectRefused(wp, "\"hello\":5", "\"hello\":-5", bad, "model.vocab");
  ExpectRefused(wp, "\"hello\":5", "\"hello\":2000000000", bad, "model.vocab");
  ExpectRefused(wp, "\"clean_text\":true", "\"clean_text\":3", bad, "normalizer.clean_text");
  ExpectRefused(wp, "\"unk_token\":\"[UNK]\",", "", bad, "model.unk_token");
  ExpectRefused(wp, "{\"version\"", "{]\"version\"", bad, "JSON");
  EXPECT_FALSE(Tokenizer::FromJson("").ok());
  EXPECT_FALSE(Tokenizer::FromJson("[]").ok());
  EXPECT_FALSE(Tokenizer::FromJson("{}").ok());
  EXPECT_EQ(Tokenizer::FromFile("/nonexistent/tokenizer.json").status().code(),
            StatusCode::kNotFound);
}

}  // namespace
}  // namespace penstock::text

#include "corpus/row_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <cstring>

#include "base/temp_folder_test_util.h"

namespace penstock::corpus {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::StartsWith;

std::string Gzip(const std::string& text) {
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY);
  std::string packed(deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

std::string Zstd(const std::string& text) {
  std::string packed(ZSTD_compressBound(text.size()), '\0');
  ZSTD_CCtx* context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);  // as the program zstd does
  packed.resize(ZSTD_compress2(context, packed.data(), packed.size(), text.data(), text.size()));
  ZSTD_freeCCtx(context);
  return packed;
}

// A text in memory that comes `step` bytes at a time.
class MemorySource : public ByteSource {
 public:
  explicit MemorySource(std::string text, size_t step) : text_(std::move(text)), step_(step) {}
  Expected<size_t> Read(char* data, size_t size) override {
    const size_t n = std::min({size, step_, text_.size() - at_});
    std::memcpy(data, text_.data() + at_, n);
    at_ += n;
    return n;
  }
  int64_t disk_bytes() const override { return static_cast<int64_t>(at_); }

 private:
  std::string text_;
  size_t step_;
  size_t at_ = 0;
};

// A text that repeats a piece for ever.
class EndlessSource : public ByteSource {
 public:
  EndlessSource(std::string head, std::string piece)
      : head_(std::move(head)), piece_(std::move(piece)) {}
  Expected<size_t> Read(char* data, size_t size) override {
    const std::string& text = at_++ == 0 ? head_ : piece_;
    const size_t n = std::min(size, text.size());
    std::memcpy(data, text.data(), n);
    return n;
  }
  int64_t disk_bytes() const override { return 0; }

 private:
  std::string head_, piece_;
  size_t at_ = 0;
};

struct Got {
  std::vector<std::string> texts;
  std::vector<std::string> ids;
  std::vector<std::string> where;
  std::vector<std::string> bad;  // messages of rows
  std::string failure;           // of the file
};

template <typename Reader>
Got ReadAll(Reader* reader) {
  Got got;
  while (true) {
    const auto row = reader->Next();
    if (!row.ok()) got.failure = row.status().message();
    if (!row.ok() || !*row) return got;
    if ((*row)->status.ok()) {
      got.texts.push_back((*row)->text);
      got.where.push_back((*row)->where);
      if ((*row)->id) got.ids.push_back(*(*row)->id);
    } else {
      got.bad.push_back((*row)->status.message());
    }
  }
}

Got Read(const std::string& bytes, InputOptions options = {}, const std::string& name = "in",
         size_t step = 1 << 16) {
  auto rows = FileRows::Open(std::make_unique<MemorySource>(bytes, step), name, options);
  if (rows.ok()) return ReadAll(rows->get());
  Got got;
  got.failure = rows.status().message();
  return got;
}

InputFormat FormatOf(const std::string& bytes, const std::string& name = "in") {
  const auto rows = FileRows::Open(std::make_unique<MemorySource>(bytes, 1 << 16), name, {});
  EXPECT_TRUE(rows.ok()) << rows.status().ToString();
  return rows.ok() ? (*rows)->format() : InputFormat::kAuto;
}

TEST(RowReader, LinesOfText) {
  const Got got = Read("\xEF\xBB\xBFone\r\n\n{\"not\": json\nlast");
  EXPECT_THAT(got.texts, ElementsAre("one", "", "{\"not\": json", "last"));
  EXPECT_THAT(got.where, ElementsAre("in:1", "in:2", "in:3", "in:4"));
  for (const char* nothing : {"", "\xEF\xBB\xBF"}) {
    for (const char* name : {"in", "in.csv", "in.json", "in.jsonl"}) {
      const Got none = Read(nothing, {}, name);
      EXPECT_THAT(none.texts, IsEmpty());
      EXPECT_EQ(none.failure, "");
    }
  }
  EXPECT_THAT(Read("\n\n").texts, ElementsAre("", ""));
}

TEST(RowReader, JsonLines) {
  const Got got = Read(
      "\"a\\nb\"\n\n{\"input\": \"c\"}\r\n{\"text\": 5}\n{\"a\": 1, \"b\": 2}\n[\n7\n"
      "{\"text\": null, \"content\": \"d\"}\n");
  EXPECT_THAT(got.texts, ElementsAre("a\nb", "c", "d"));
  EXPECT_THAT(got.where, ElementsAre("in:1", "in:3", "in:8"));
  ASSERT_THAT(got.bad, SizeIs(4));
  EXPECT_EQ(got.bad[0], "in:4: 'text' must be a string, is number");
  EXPECT_EQ(got.bad[1],
            "in:5: the object has no field \"text\", \"input\" or \"content\"; it has \"a\" and "
            "\"b\"; --text-field names another");
  EXPECT_THAT(got.bad[2], StartsWith("in:6: "));
  EXPECT_EQ(got.bad[3], "in:7: a string or an object is wanted, here is: number");
}

TEST(RowReader, JsonArrays) {
  const std::string pretty =
      " [\n  {\n    \"text\": \"a, ] } \\\" b\",\n    \"k\": [1, {\"x\": \"]\"}]\n  },\n  \"c\" ,\n"
      "  5,\n  {\"input\": \"d\"}\n]\n";
  for (const size_t step : {1, 3, 1000}) {
    const Got got = Read(pretty, {}, "in", step);
    EXPECT_THAT(got.texts, ElementsAre("a, ] } \" b", "c", "d"));
    EXPECT_THAT(got.where, ElementsAre("in[0]", "in[1]", "in[3]"));
    EXPECT_THAT(got.bad, ElementsAre("in[2]: a string or an object is wanted, here is: number"));
  }
  EXPECT_THAT(Read("[]").texts, IsEmpty());
  EXPECT_EQ(Read("[]").failure, "");
  EXPECT_THAT(Read("[\"a\",\"b\"]").texts, ElementsAre("a", "b"));
  EXPECT_THAT(Read("[\"a\" \"b\"]", {.format = InputFormat::kJson}).bad, SizeIs(1));
  EXPECT_THAT(Read("[\"a\",]").failure, HasSubstr("in: byte 5: ','"));
  EXPECT_THAT(Read("[\"a\", {\"text\"").failure, HasSubstr("in: element 1: the file ends"));
  EXPECT_THAT(Read("[\"a\"]\n[\"b\"]").failure, HasSubstr("in: byte 6: the array is closed"));
  EXPECT_THAT(Read("{}", {.format = InputFormat::kJson}).failure, HasSubstr("begin with '['"));
  const Got deep = Read("[\"a\"," + std::string(100'000, '[') + std::string(100'000, ']') + "]");
  EXPECT_THAT(deep.texts, ElementsAre("a"));
  EXPECT_THAT(deep.bad, ElementsAre(HasSubstr("in[1]: ")));
}

TEST(RowReader, Tables) {
  const std::string csv =
      "id,text,note\r\n1,\"a \"\"b\"\",\r\nc\",x\r\n\r\n2,plain "
      "\"d\",\r\n3,two\n4,\"e\"f,g\n5,\"\",h";
  for (const size_t step : {1, 7, 1000}) {
    const Got got = Read(csv, {.id_field = "id"}, "in.csv", step);
    EXPECT_THAT(got.texts, ElementsAre("a \"b\",\r\nc", "plain \"d\"", ""));
    EXPECT_THAT(got.ids, ElementsAre("1", "2", "5"));
    EXPECT_THAT(got.where, ElementsAre("in.csv:2", "in.csv:5", "in.csv:8"));
    ASSERT_THAT(got.bad, SizeIs(2));
    EXPECT_EQ(got.bad[0], "in.csv:6: 2 cells, but the header has 3");
    EXPECT_THAT(got.bad[1], HasSubstr("in.csv:7: cell 2: its closing quote is followed by"));
  }
  EXPECT_THAT(Read("body\na, b\n", {.format = InputFormat::kTsv}).texts, ElementsAre("a, b"));
  EXPECT_THAT(Read("\nid;text\n1;a, b\n", {}, "x.csv").texts, ElementsAre("a, b"));
  EXPECT_EQ(Read("id,body\n1,a\n", {}, "x.csv").failure,
            "x.csv: has no column \"text\", \"input\" or \"content\"; its columns are \"id\" and "
            "\"body\"; --text-field names another");
  EXPECT_EQ(Read("id,body\n1,a\n", {.text_fields = {"bodi"}}, "x.csv").failure,
            "x.csv: has no column \"bodi\"; its columns are \"id\" and \"body\"");
  EXPECT_THAT(Read("a,text\n1,\"b\n2,c\n", {}, "x.csv").failure,
              HasSubstr("x.csv: line 2: a quote in the record that begins here is not closed"));
  EXPECT_EQ(Read("", {.format = InputFormat::kCsv}, "x").failure,
            "x: is empty; a table begins with a header");
  // The same cells as an object, for commands that look for more than a text.
  auto rows = FileRows::Open(std::make_unique<MemorySource>("text,text_pair\na,\"b\"\"\"\n", 9),
                             "x.csv", {.keeps_objects = true});
  ASSERT_TRUE(rows.ok());
  EXPECT_EQ((**(*rows)->Next()).object, R"({"text":"a","text_pair":"b\""})");
}

TEST(RowReader, FieldsAndIds) {
  const InputOptions options{.text_fields = {"title", "body"}, .join = " - ", .id_field = "key"};
  const Got got = Read(
      "{\"title\": \"t\", \"body\": \"b\", \"key\": 7}\n{\"body\": \"c\", \"title\": null, "
      "\"key\": "
      "\"k\"}\n{\"text\": \"x\", \"key\": 1}\n{\"title\": \"t\"}\n{\"title\": \"t\", \"key\": "
      "1.5}\n"
      "\"string\"\n",
      options);
  EXPECT_THAT(got.texts, ElementsAre("t - b", "c"));
  EXPECT_THAT(got.ids, ElementsAre("7", "k"));
  ASSERT_THAT(got.bad, SizeIs(4));
  EXPECT_EQ(got.bad[0],
            "in:3: the object has no field \"title\" or \"body\"; it has \"text\" and \"key\"");
  EXPECT_THAT(got.bad[1], HasSubstr("in:4: the object has no field \"key\""));
  EXPECT_THAT(got.bad[2], HasSubstr("in:5: 'key' must be a string or an integer, is number"));
  EXPECT_THAT(got.bad[3], HasSubstr("in:6: a JSON string has no field \"key\""));
  const Got table = Read("key,body,title\n1,b,t\n2,,t\n", options, "x.csv");
  EXPECT_THAT(table.texts, ElementsAre("t - b", "t"));
  EXPECT_THAT(Read("plain\n", options).failure, HasSubstr("in: looks like lines of text"));
  EXPECT_THAT(Read("plain\n", {.format = InputFormat::kText, .id_field = "id"}).failure,
              HasSubstr("in: is read as lines of text"));
}

TEST(RowReader, FormatsAreRecognised) {
  using enum InputFormat;
  EXPECT_EQ(FormatOf("[1] A footnote\n"), kText);
  EXPECT_EQ(FormatOf("[\"Hello\"] she said\n"), kText);
  EXPECT_EQ(FormatOf("[\"Hello\", she said]\n"), kText);
  EXPECT_EQ(FormatOf("[]\n"), kJson);
  EXPECT_EQ(FormatOf("\n [\n\n{ \"a\": 1}]\n"), kJson);
  EXPECT_EQ(FormatOf("[\"a\",\n\"b\"]\n", "x.txt"), kJson);
  EXPECT_EQ(FormatOf("[\"" + std::string(2 << 20, 'a') + "\"]"), kJson);
  EXPECT_EQ(FormatOf("{\"a\": 1"), kJsonl);
  EXPECT_EQ(FormatOf("{\"a\": \"" + std::string(2 << 20, 'a') + "\"}"), kJsonl);
  EXPECT_EQ(FormatOf("{ brace\n"), kText);
  EXPECT_EQ(FormatOf("\"he said\" and left\n"), kText);
  EXPECT_EQ(FormatOf("\"text\"\n\"a\"\n"), kJsonl);
  EXPECT_EQ(FormatOf("\"text\"\n\"a\"\n", "x.csv"), kCsv);
  EXPECT_EQ(FormatOf("{\"a\": 1}\n", "x.csv"), kJsonl);
  EXPECT_EQ(FormatOf("5\n", "x.jsonl"), kJsonl);
  EXPECT_EQ(FormatOf("id,text\n1,a\n"), kCsv);
  EXPECT_EQ(FormatOf("id\ttext\n1\ta\n"), kTsv);
  EXPECT_EQ(FormatOf("text\nHello, world\n"), kText);
  EXPECT_EQ(FormatOf("content, calm and kind\n"), kText);
  EXPECT_EQ(FormatOf("a;text;b\n1;a;b\n"), kCsv);
  EXPECT_EQ(FormatOf("a\ttext\n1\ta\n", "x.TSV.GZ"), kTsv);
  EXPECT_EQ(FormatOf("BZhang wrote this\n"), kText);
}

TEST(RowReader, WhatIsNoTextIsRefused) {
  const auto refused = [](std::string bytes, const std::string& name = "in") {
    const Got got = Read(bytes, {}, name);
    EXPECT_THAT(got.failure, StartsWith(name + ": looks like "));
    EXPECT_THAT(got.texts, IsEmpty());
    return got.failure;
  };
  EXPECT_THAT(refused("PAR1\x15"), HasSubstr("Parquet"));
  EXPECT_THAT(refused("PK\x03\x04..."), HasSubstr("zip"));
  EXPECT_THAT(refused("%PDF-1.7\n"), HasSubstr("PDF"));
  EXPECT_THAT(refused("BZh91AY"), HasSubstr("bzip2"));
  EXPECT_THAT(refused(std::string("abc\0def\n", 8)), HasSubstr("a NUL at byte 3"));
  EXPECT_THAT(refused("\xff\xfe"
                      "a"),
              HasSubstr("--encoding utf-16"));
  EXPECT_THAT(refused(std::string("a\0b\0c\0", 6)), HasSubstr("--encoding utf-16"));
  EXPECT_THAT(refused(std::string(257, 'a') + "ustar  "), HasSubstr("tar"));
  EXPECT_THAT(refused(Gzip(Gzip("a\n"))), HasSubstr("gzip inside"));
  EXPECT_THAT(refused("{\n  \"data\": [1]\n}\n"), HasSubstr("nor a line each"));
  EXPECT_THAT(refused("{\"data\": 1,\n  \"text\": 2}\n"), HasSubstr("nor a line each"));
  EXPECT_THAT(refused("hello\n", "x.json"), HasSubstr("no JSON"));
  EXPECT_THAT(refused("<?xml version=\"1.0\"?>\n"), HasSubstr("XML; --format text"));
  EXPECT_THAT(refused(Gzip("PAR1")), HasSubstr("Parquet"));
  // Behind the head it is a row's affair, and none at all where the format was asked for.
  const std::string late = "a\n" + std::string(1 << 17, 'b') + "\n" + std::string("c\0\nd\n", 5);
  EXPECT_THAT(Read(late).bad, ElementsAre(HasSubstr("in:3: a NUL at byte 1")));
  EXPECT_THAT(Read(late, {.format = InputFormat::kText}).texts, SizeIs(4));
}

TEST(RowReader, BytesThatAreNotUtf8AreNamed) {
  const Got got = Read("abc\ncaf\xe9 latin1\nd\n");
  EXPECT_THAT(got.texts, ElementsAre("abc", "d"));
  EXPECT_THAT(got.bad, ElementsAre("in:2: not UTF-8: byte 0xe9 at byte 3 of the row, 7 of the "
                                   "text; --encoding reads latin1, windows-1252 and utf-16"));
  EXPECT_THAT(Read("{\"text\": \"\xe9\"}\n{\"text\": \"a\"}\n").bad, SizeIs(1));
  EXPECT_THAT(Read("[\"\xe9\", \"a\"]").texts, ElementsAre("a"));
  EXPECT_THAT(Read("id,text\n1,\xe9\n2,a\n").texts, ElementsAre("a"));
  EXPECT_THAT(Read("id,t\xe9xt\n", {}, "x.csv").failure, HasSubstr("x.csv: line 1: not UTF-8"));
}

TEST(RowReader, Encodings) {
  const auto read = [](const std::string& bytes, TextEncoding encoding, size_t step = 1) {
    return Read(bytes, {.encoding = encoding}, "in", step);
  };
  EXPECT_THAT(read("caf\xe9\n\x80\n", TextEncoding::kLatin1).texts, ElementsAre("café", "\u0080"));
  const Got windows = read("\x80 \x93q\x94\na\x81\nb\n", TextEncoding::kWindows1252);
  EXPECT_THAT(windows.texts, ElementsAre("€ “q”", "b"));
  EXPECT_THAT(windows.bad, ElementsAre("in:2: not windows-1252: after 1 bytes of the row "
                                       "(as UTF-8)"));
  const std::string little("\xff\xfe\xe9\0\r\0\n\0\x3d\xd8\x00\xde\n\0", 14);
  std::string big = little;
  for (size_t i = 0; i + 1 < big.size(); i += 2) std::swap(big[i], big[i + 1]);
  for (const size_t step : {1, 3, 100}) {
    EXPECT_THAT(read(little, TextEncoding::kUtf16, step).texts, ElementsAre("é", "😀"));
    EXPECT_THAT(read(big, TextEncoding::kUtf16, step).texts, ElementsAre("é", "😀"));
    EXPECT_THAT(read(little.substr(2), TextEncoding::kUtf16, step).texts, ElementsAre("é", "😀"));
  }
  EXPECT_THAT(read(little.substr(0, 9), TextEncoding::kUtf16).bad, SizeIs(1));
  const Got lone = read(std::string("\x3d\xd8\n\0a\0\n\0\x00\xde", 10), TextEncoding::kUtf16);
  EXPECT_THAT(lone.texts, ElementsAre("a"));
  EXPECT_THAT(lone.bad, SizeIs(2));
}

TEST(RowReader, NotUtf8IsFoundWhereItBegins) {
  for (const char* good : {"", "a", "é", "€", "😀", "\xf4\x8f\xbf\xbf", "\xed\x9f\xbf"}) {
    EXPECT_EQ(FindNotUtf8(good), std::string_view::npos);
  }
  for (const char* bad : {"\x80", "\xc0\x80", "\xc3", "\xe0\x80\x80", "\xe2\x82", "\xed\xa0\x80",
                          "\xf0\x80\x80\x80", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff"}) {
    EXPECT_EQ(FindNotUtf8("aé" + std::string(bad) + "b"), 3u);
  }
}

TEST(RowReader, PackedFiles) {
  const std::string text = "one\ntwo\n" + std::string(300'000, 'x') + "\n";
  for (const auto pack : {Gzip, Zstd}) {
    const std::string packed = pack(text) + pack("") + pack("three\n");
    for (const size_t step : {1, 5, 1 << 16}) {
      const Got got = Read(packed, {}, "in", step);
      EXPECT_EQ(got.failure, "");
      ASSERT_THAT(got.texts, SizeIs(4));
      EXPECT_EQ(got.texts[3], "three");
    }
    EXPECT_THAT(Read(pack("[\"a\"]")).texts, ElementsAre("a"));
    EXPECT_THAT(Read(pack("id,text\n1,a\n")).texts, ElementsAre("a"));
    const std::string alone = pack(text);
    for (size_t size = 5; size < alone.size(); size += alone.size() / 40 + 1) {
      EXPECT_THAT(Read(alone.substr(0, size)).failure, HasSubstr("in: the ")) << size;
      EXPECT_THAT(Read(alone.substr(0, size)).failure, HasSubstr("data are cut off")) << size;
    }
    EXPECT_THAT(Read(alone + "garbage").failure, HasSubstr("bytes that are not "));
    std::string varied;
    for (int i = 0; i < 5000; ++i) varied += std::to_string(i * i) + "\n";
    std::string damaged = pack(varied);
    damaged[damaged.size() / 2] ^= 0x55;
    EXPECT_THAT(Read(damaged).failure, HasSubstr("data are damaged")) << damaged.size();
  }
  // Frames that hold no data may stand in front.
  EXPECT_THAT(Read(std::string("\x50\x2a\x4d\x18\x01\0\0\0x", 9) + Zstd("a\n")).texts,
              ElementsAre("a"));
}

TEST(RowReader, RowsAreBounded) {
  const std::string long_line(101, 'x');
  InputOptions options;
  options.row_bytes_max = 100;
  for (const size_t step : {1, 30, 1000}) {
    const Got got = Read("a\n" + long_line + "\nb\n" + long_line, options, "in", step);
    EXPECT_THAT(got.texts, ElementsAre("a", "b"));
    EXPECT_THAT(got.bad, ElementsAre("in:2: the line is over 100 bytes",
                                     "in:4: the line is over 100 bytes"));
  }
  EXPECT_THAT(Read("[\"a\", \"" + long_line + "\"]", options).failure,
              HasSubstr("in: element 1 is over 100 bytes"));
  const Got open = Read("text\na\n\"b\n" + long_line + "\n\"\n", options, "x.csv");
  EXPECT_THAT(open.texts, ElementsAre("a"));
  EXPECT_THAT(open.failure, HasSubstr("x.csv: line 3: a quote in the record that begins here"));
}

// Inputs without an end: memory stays, and the message comes.
TEST(RowReader, EndlessInputs) {
  const auto first_failure = [](const std::string& head, const std::string& piece) {
    auto rows = FileRows::Open(std::make_unique<EndlessSource>(head, piece), "in", {});
    if (!rows.ok()) return rows.status().message();
    while (true) {
      const auto row = (*rows)->Next();
      if (!row.ok()) return row.status().message();
      if (!*row) return std::string("the end");
      if (!(*row)->status.ok()) return (*row)->status.message();
    }
  };
  const std::string block(1 << 16, 'x');
  EXPECT_EQ(first_failure("text\n", block), "in:2: the line is over 67108864 bytes");
  EXPECT_EQ(first_failure("[\"", block), "in: element 0 is over 67108864 bytes");
  EXPECT_EQ(first_failure("[\"a\",", std::string(1 << 16, '[')),
            "in: element 1 is over 67108864 bytes");
  EXPECT_THAT(first_failure("id,text\n1,\"", "quoted\n" + block), HasSubstr("in: line 2: a quote"));
  EXPECT_THAT(first_failure("{", std::string(1 << 16, ' ')), HasSubstr("over 67108864 bytes"));
}

TEST(RowReader, APackedBombIsBounded) {
  const std::string bomb = Gzip(std::string(200 << 20, 'x'));
  ASSERT_LT(bomb.size(), size_t{1} << 20);
  EXPECT_THAT(Read(bomb).bad, ElementsAre("in:1: the line is over 67108864 bytes"));
  EXPECT_THAT(Read(Gzip(std::string(8 << 20, '\0'))).failure, HasSubstr("a NUL at byte 0"));
}

class RowReaderFiles : public testing::Test {
 protected:
  std::string File(const std::string& name, const std::string& bytes) const {
    return folder_.Write(name, bytes);
  }
  const TempFolder folder_;
};

TEST_F(RowReaderFiles, OneAfterTheOther) {
  const std::string a = File("a.txt", "one\ntwo");
  const std::string b = File("b.gz", Gzip("{\"text\": \"three\"}\n"));
  const std::string c = File("c.csv", "text\nfour\n");
  RowReader reader({a, b, c}, {});
  ASSERT_TRUE(reader.Check().ok());
  EXPECT_EQ(reader.disk_bytes(), 0);
  const Got got = ReadAll(&reader);
  EXPECT_THAT(got.texts, ElementsAre("one", "two", "three", "four"));
  EXPECT_THAT(got.where, ElementsAre(a + ":1", a + ":2", b + ":1", c + ":2"));
  const auto total = static_cast<int64_t>(7 + Gzip("{\"text\": \"three\"}\n").size() + 10);
  EXPECT_EQ(reader.disk_bytes(), total);
  EXPECT_EQ(reader.disk_bytes_total(), total);
  EXPECT_EQ(RowReader({a, "/dev/null"}, {}).disk_bytes_total(), std::nullopt);
}

TEST_F(RowReaderFiles, AFailureStays) {
  RowReader reader({File("a.txt", "one\n"), folder_ / "none", File("c.txt", "two\n")}, {});
  EXPECT_EQ(reader.Check().message(), folder_ / "none: No such file or directory");
  EXPECT_TRUE(reader.Next().ok());
  for (int i = 0; i < 2; ++i) EXPECT_EQ(reader.Next().status().code(), StatusCode::kNotFound);
  EXPECT_THAT(RowReader({folder_.text()}, {}).Check().message(), HasSubstr("Is a directory"));
  EXPECT_THAT(RowReader({File("m", "PAR1")}, {}).Check().message(), HasSubstr("Parquet"));
}

TEST_F(RowReaderFiles, AStopEndsAWait) {
  int stop[2];
  int input[2];
  ASSERT_EQ(pipe(stop), 0);
  ASSERT_EQ(pipe(input), 0);
  RowReader reader({"/dev/fd/" + std::to_string(input[0])}, {.stop_fd = stop[0]});
  ASSERT_EQ(write(input[1], "one\n", 4), 4);
  EXPECT_TRUE(reader.Next().ok());
  ASSERT_EQ(write(stop[1], "x", 1), 1);
  EXPECT_EQ(reader.Next().status().code(), StatusCode::kCancelled);  // the writer is still there
  for (const int fd : {stop[0], stop[1], input[0], input[1]}) close(fd);
}

TEST(RowPlace, IsTheFileAndTheLineOrElement) {
  const RowPlace line = PlaceOf("a:b[2].txt:12");
  EXPECT_EQ(line.file, "a:b[2].txt");
  EXPECT_EQ(line.number, 12);
  EXPECT_EQ(line.unit, "line");
  const RowPlace element = PlaceOf("a:b[2].json[0]");
  EXPECT_EQ(element.file, "a:b[2].json");
  EXPECT_EQ(element.number, 0);
  EXPECT_EQ(element.unit, "element");
  const RowPlace byte = PlaceOf("a@b:2.txt@120");
  EXPECT_EQ(byte.file, "a@b:2.txt");
  EXPECT_EQ(byte.number, 120);
  EXPECT_EQ(byte.unit, "byte");
}

TEST(Row, ABadOneKeepsItsIdAndItsReason) {
  const std::string bytes = "{\"id\": 7, \"text\": 1}\n{\"id\": true, \"text\": \"a\"}\n";
  InputOptions options;
  options.id_field = "id";
  auto rows = FileRows::Open(std::make_unique<MemorySource>(bytes, 1 << 16), "in", options);
  ASSERT_TRUE(rows.ok());
  const auto first = (*rows)->Next();
  ASSERT_FALSE((*first)->status.ok());
  EXPECT_EQ((*first)->id, "7");
  EXPECT_EQ((*first)->text, "");
  EXPECT_EQ((*first)->Reason(), "'text' must be a string, is number");
  EXPECT_EQ((*first)->status.message(), "in:1: " + (*first)->Reason());
  const auto second = (*rows)->Next();
  EXPECT_FALSE((*second)->id.has_value());
  EXPECT_EQ((*second)->where, "in:2");
}

}  // namespace
}  // namespace penstock::corpus

#include "corpus/input_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstring>

#include "corpus/cells.h"
#include "json/json.h"

namespace penstock::corpus {
namespace {

using std::string_view;

constexpr string_view kBlanks = " \t\r\n";

struct Signature {
  string_view bytes;
  const char* what;
};

// The first bytes of common files that are not text.
constexpr Signature kSignatures[] = {
    {string_view("PAR1", 4), "Parquet"},
    {string_view("PK\x03\x04", 4), "a zip archive (as .xlsx, .docx and .npz are)"},
    {string_view("%PDF-", 5), "PDF"},
    {string_view("\x93NUMPY", 6), "a NumPy matrix"},
    {string_view("\x1f\x8b", 2), "gzip inside of what was unpacked"},
    {string_view("\x28\xb5\x2f\xfd", 4), "zstd inside of what was unpacked"},
    {string_view("BZh", 3), "bzip2"},
    {string_view("\xfd"
                 "7zXZ\x00",
                 6),
     "xz"},
    {string_view("7z\xbc\xaf\x27\x1c", 6), "a 7z archive"},
    {string_view("\x04\x22\x4d\x18", 4), "lz4"},
    {string_view("Rar!\x1a\x07", 6), "a rar archive"},
    {string_view("ARROW1", 6), "Arrow"},
    {string_view("Obj\x01", 4), "Avro"},
    {string_view("ORC\x0a", 4), "ORC"},
    {string_view("\x89HDF", 4), "HDF5"},
    {string_view("SQLite format 3", 15), "an SQLite database"},
    {string_view("GGUF", 4), "GGUF"},
    {string_view("\x7f"
                 "ELF",
                 4),
     "a program"},
    {string_view("\x89PNG", 4), "an image"},
    {string_view("\xff\xd8\xff", 3), "an image"},
    {string_view("GIF8", 4), "an image"},
    {string_view("{\\rtf", 5), "RTF"},
    {string_view("<?xml", 5), "XML; --format text reads its lines"},
    {string_view("<!DOCTYPE", 9), "HTML; --format text reads its lines"},
    {string_view("<html", 5), "HTML; --format text reads its lines"},
    {string_view("\xd0\xcf\x11\xe0", 4), "an old Office document"},
    {string_view("\xff\xfe\x00\x00", 4), "UTF-32"},
    {string_view("\xff\xfe", 2), "UTF-16; --encoding utf-16 reads it"},
    {string_view("\xfe\xff", 2), "UTF-16; --encoding utf-16 reads it"},
};

Status Refused(string_view what) {
  return Status::Unsupported(
      fmt::format("looks like {}; read are lines of text, JSONL, a JSON array, CSV and TSV, each "
                  "plain or packed by gzip or zstd",
                  what));
}

// bzip2 has a digit behind its three letters; "BZh" alone may begin a text.
bool HasSignature(string_view head, const Signature& signature) {
  if (!head.starts_with(signature.bytes)) return false;
  return signature.bytes != "BZh" || (head.size() > 3 && std::isdigit(head[3]) != 0);
}

Status CheckIsText(string_view head) {
  for (const Signature& signature : kSignatures) {
    if (HasSignature(head, signature)) return Refused(signature.what);
  }
  constexpr size_t kTarMagicAt = 257;
  if (head.size() > kTarMagicAt + 5 && head.substr(kTarMagicAt, 5) == "ustar") {
    return Refused("a tar archive");
  }
  const size_t nul = head.find('\0');
  if (nul == string_view::npos) return Status::Ok();
  const bool utf16 = head.size() >= 4 && (head[0] == 0) == (head[2] == 0) &&
                     (head[1] == 0) == (head[3] == 0) && (head[0] == 0) != (head[1] == 0);
  if (utf16 && head[1] == 0) return Refused("UTF-16; --encoding utf-16 reads it");
  return Refused(fmt::format("binary data, a NUL at byte {}", nul));
}

string_view WithoutBlanks(string_view text) {
  const size_t begin = text.find_first_not_of(kBlanks);
  return begin == string_view::npos ? string_view() : text.substr(begin);
}

// The end of the JSON string at the front, behind its quote; npos: it goes on.
size_t EndOfString(string_view text) {
  for (size_t i = 1; i < text.size(); ++i) {
    if (text[i] == '\\') {
      ++i;
    } else if (text[i] == '"') {
      return i + 1;
    }
  }
  return string_view::npos;
}

// '{' and '}' or a key and ':' behind it.
bool BeginsObject(string_view text) {
  if (!text.starts_with('{')) return false;
  text = WithoutBlanks(text.substr(1));
  if (text.starts_with('}')) return true;
  if (!text.starts_with('"')) return false;
  const size_t end = EndOfString(text);
  return end == string_view::npos || WithoutBlanks(text.substr(end)).starts_with(':');
}

// `text` begins with '['. A text may do so, too: "[1] A footnote", "[Music]".
bool BeginsArray(string_view text) {
  text = WithoutBlanks(text.substr(1));
  const auto alone = [](string_view behind) {
    return FirstLine(behind).find_first_not_of(kBlanks) == string_view::npos;
  };
  if (text.starts_with(']')) return alone(text.substr(1));
  if (text.starts_with('{')) return BeginsObject(text);
  if (!text.starts_with('"')) return false;
  const size_t end = EndOfString(text);
  if (end == string_view::npos) return true;
  text = WithoutBlanks(text.substr(end));
  if (text.empty()) return true;
  if (text.starts_with(']')) return alone(text.substr(1));
  if (!text.starts_with(',')) return false;
  text = WithoutBlanks(text.substr(1));
  return text.empty() || string_view("\"{[]-0123456789").find(text[0]) != string_view::npos;
}

// Whether a line of JSON cannot end where it ends.
bool GoesOn(string_view line) {
  const size_t last = line.find_last_not_of(kBlanks);
  return last != string_view::npos && string_view("{[,:").find(line[last]) != string_view::npos;
}

// By the last part of the name; kAuto: it says nothing.
InputFormat FormatOfName(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (const char* packed : {".gz", ".zst"}) {
    if (name.ends_with(packed)) name.resize(name.size() - std::strlen(packed));
  }
  if (name.ends_with(".jsonl") || name.ends_with(".ndjson")) return InputFormat::kJsonl;
  if (name.ends_with(".json")) return InputFormat::kJson;
  if (name.ends_with(".csv")) return InputFormat::kCsv;
  if (name.ends_with(".tsv") || name.ends_with(".tab")) return InputFormat::kTsv;
  return InputFormat::kAuto;
}

// Prose has blanks behind its commas, names of columns have none around them.
bool IsName(const std::string& cell) {
  return !cell.empty() && kBlanks.find(cell.front()) == string_view::npos &&
         kBlanks.find(cell.back()) == string_view::npos;
}

bool IsHeader(string_view line, char delimiter, const std::vector<std::string>& columns) {
  std::vector<std::string> cells;
  if (!ParseCells(line, delimiter, &cells).ok() || cells.size() < 2) return false;
  if (!std::all_of(cells.begin(), cells.end(), IsName)) return false;
  return std::any_of(cells.begin(), cells.end(), [&](const std::string& cell) {
    return std::find(columns.begin(), columns.end(), cell) != columns.end();
  });
}

}  // namespace

Status FillHead(Utf8Stream* stream) {
  while (stream->view().size() < kHeadBytesMax) {
    const string_view head = WithoutBlanks(stream->view());
    if (!head.empty() && head[0] != '[' && head.find('\n') != string_view::npos) break;
    PENSTOCK_ASSIGN_OR_RETURN(const bool more, stream->Fill());
    if (!more) break;
  }
  return Status::Ok();
}

Expected<InputFormat> Recognise(const Utf8Stream& stream, const std::string& name,
                                const std::vector<std::string>& columns) {
  PENSTOCK_RETURN_IF_ERROR(CheckIsText(stream.view()));
  const string_view head = WithoutBlanks(stream.view());
  const string_view line = FirstLine(head);
  const InputFormat named = FormatOfName(name);
  const bool table = named == InputFormat::kCsv || named == InputFormat::kTsv;
  if (head.starts_with('[') && BeginsArray(head)) return InputFormat::kJson;
  if (BeginsObject(head) && GoesOn(line))
    return Refused("JSON objects that are neither in an array nor a line each");
  if (BeginsObject(line)) return InputFormat::kJsonl;
  // The header of a table may be a word in quotes.
  if (!table && line.starts_with('"') && JsonDocument::Parse(line).ok()) return InputFormat::kJsonl;
  if (named == InputFormat::kJson && !head.starts_with('[')) {
    // Not the array its name promises; JSON lines were recognised above.
    if (!head.empty()) return Refused("no JSON in spite of its name");
    return InputFormat::kText;
  }
  if (head.empty()) return InputFormat::kText;  // no rows
  if (named != InputFormat::kAuto) return named;
  if (IsHeader(line, '\t', columns)) return InputFormat::kTsv;
  if (IsHeader(line, ',', columns) || IsHeader(line, ';', columns)) return InputFormat::kCsv;
  return InputFormat::kText;
}

}  // namespace penstock::corpus

// The format of an input, recognised by its first bytes; its name decides only where these are
// ambiguous.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "corpus/text_encoding.h"
#include "corpus/utf8_stream.h"

namespace penstock::corpus {

enum class InputFormat {
  kAuto,   // see Recognise
  kText,   // a line is a text
  kJsonl,  // a line is a JSON string or object
  kJson,   // an array of JSON strings or objects
  kCsv,    // RFC 4180 with a header; cells apart by ',', or where the header has none by ';' or tab
  kTsv,    // the same, cells apart by tabs
};

// Reads on until the first line that is not blank stands in the view, at most kHeadBytesMax; of a
// JSON array kHeadBytesMax.
inline constexpr size_t kHeadBytesMax = 1 << 20;
Status FillHead(Utf8Stream* stream);

// The format of the stream, whose head was filled and not consumed. `columns`: names that make a
// first line of cells a header. Never kAuto.
//
//   JSON array   '[' and a string or an object behind it
//   JSONL        '{' and a key behind it, or a first line that is a JSON string
//   as named     .jsonl .ndjson .json .csv .tsv .tab, a .gz or .zst behind it not counted
//   CSV, TSV     a first line of two cells at least, one of them in `columns`, none with blanks
//                around it
//   text         all else
//
// kUnsupported, naming the form: archives, documents, images, matrices and other binary data;
// UTF-16; XML and HTML; JSON objects over several lines.
Expected<InputFormat> Recognise(const Utf8Stream& stream, const std::string& name,
                                const std::vector<std::string>& columns);

}  // namespace penstock::corpus

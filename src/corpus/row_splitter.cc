#include "corpus/row_splitter.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace penstock::corpus {
namespace {

using std::string_view;

Status TooLong(string_view what, size_t bytes_max) {
  return {StatusCode::kPayloadTooLarge, fmt::format("{} is over {} bytes", what, bytes_max)};
}

class LineSplitter : public RowSplitter {
 public:
  // `keep_cr`: a \r in front of the \n stays.
  LineSplitter(Utf8Stream* stream, size_t bytes_max, bool keep_cr)
      : stream_(*stream), bytes_max_(bytes_max), keep_cr_(keep_cr) {}

  Expected<bool> Next(RawRow* row) override {
    if (skipping_) PENSTOCK_RETURN_IF_ERROR(SkipLine());
    row->text.clear();
    row->status = Status::Ok();
    row->offset = stream_.offset();
    row->number = ++number_;
    bool any = false;
    while (true) {
      const string_view view = stream_.view();
      const size_t end = view.find('\n');
      const string_view part = view.substr(0, end);
      any = any || !view.empty();
      if (row->text.size() + part.size() > bytes_max_) return Refuse(row);
      row->text.append(part);
      stream_.Consume(part.size() + (end == string_view::npos ? 0 : 1));
      if (end != string_view::npos) break;
      PENSTOCK_ASSIGN_OR_RETURN(const bool more, stream_.Fill());
      if (!more && !any) return false;
      if (!more) break;
    }
    if (!keep_cr_ && row->text.ends_with('\r')) row->text.pop_back();
    return true;
  }

 private:
  // The rest of the line is skipped when the next row is asked for, not before: a caller that stops
  // here need not wait for a line of any length.
  bool Refuse(RawRow* row) {
    row->text = {};
    row->status = TooLong("the line", bytes_max_);
    skipping_ = true;
    return true;
  }
  Status SkipLine() {
    skipping_ = false;
    while (true) {
      const string_view view = stream_.view();
      const size_t end = view.find('\n');
      stream_.Consume(end == string_view::npos ? view.size() : end + 1);
      if (end != string_view::npos) return Status::Ok();
      PENSTOCK_ASSIGN_OR_RETURN(const bool more, stream_.Fill());
      if (!more) return Status::Ok();
    }
  }

  Utf8Stream& stream_;
  const size_t bytes_max_;
  const bool keep_cr_;
  uint64_t number_ = 0;
  bool skipping_ = false;
};

// Puts lines together while a quote is open.
class RecordSplitter : public RowSplitter {
 public:
  RecordSplitter(Utf8Stream* stream, size_t bytes_max, char delimiter)
      : lines_(stream, bytes_max, true), bytes_max_(bytes_max), delimiter_(delimiter) {}

  Expected<bool> Next(RawRow* row) override {
    do {
      PENSTOCK_ASSIGN_OR_RETURN(const bool more, lines_.Next(row));
      if (!more) return false;
      if (!row->status.ok()) return true;
    } while (row->text.empty() || row->text == "\r");
    State state = State::kCellBegin;
    Scan(row->text, &state);
    RawRow line;
    while (state == State::kQuoted) {
      PENSTOCK_ASSIGN_OR_RETURN(const bool more, lines_.Next(&line));
      if (!more) return NotClosed(row->number, "");
      if (!line.status.ok() || row->text.size() + 1 + line.text.size() > bytes_max_) {
        return NotClosed(row->number, fmt::format(" within {} bytes", bytes_max_));
      }
      row->text += '\n';
      Scan(line.text, &state);
      row->text += line.text;
    }
    if (row->text.ends_with('\r')) row->text.pop_back();
    return true;
  }

 private:
  enum class State { kCellBegin, kBare, kQuoted };

  static Status NotClosed(uint64_t number, const std::string& within) {
    return Status::InvalidArgument(fmt::format(
        "line {}: a quote in the record that begins here is not closed{}", number, within));
  }

  // As ParseCells reads: a quote opens at the begin of a cell only; one written twice inside of
  // quotes closes and opens.
  void Scan(string_view text, State* state) const {
    for (size_t i = 0; i < text.size(); ++i) {
      const char c = text[i];
      switch (*state) {
        case State::kCellBegin:
          *state = c == '"' ? State::kQuoted : c == delimiter_ ? State::kCellBegin : State::kBare;
          break;
        case State::kBare:
          if (c == delimiter_) *state = State::kCellBegin;
          break;
        case State::kQuoted: {
          const size_t quote = text.find('"', i);
          if (quote == string_view::npos) return;
          i = quote;
          if (quote + 1 < text.size() && text[quote + 1] == '"') {
            ++i;
          } else {
            *state = State::kBare;
          }
          break;
        }
      }
    }
  }

  LineSplitter lines_;
  const size_t bytes_max_;
  const char delimiter_;
};

class ArraySplitter : public RowSplitter {
 public:
  ArraySplitter(Utf8Stream* stream, size_t bytes_max) : stream_(*stream), bytes_max_(bytes_max) {}

  Expected<bool> Next(RawRow* row) override {
    row->text.clear();
    row->status = Status::Ok();
    PENSTOCK_ASSIGN_OR_RETURN(char c, Peek());
    if (!begun_) {
      if (c != '[') return Broken("a JSON array is to begin with '['", c);
      begun_ = true;
      stream_.Consume(1);
      PENSTOCK_ASSIGN_OR_RETURN(c, Peek());
    } else if (!closed_ && c == ',') {
      stream_.Consume(1);
      PENSTOCK_ASSIGN_OR_RETURN(c, Peek());
      if (c == ']') return Broken("',' is to be followed by an element", c);
    } else if (!closed_ && c != ']') {
      return Broken("',' or ']' is to follow an element", c);
    }
    if (closed_ || c == ']') return End();
    row->offset = stream_.offset();
    row->number = number_++;
    PENSTOCK_RETURN_IF_ERROR(ReadElement(&row->text));
    if (row->text.empty()) return Broken("an element is missing", c);
    return true;
  }

 private:
  // The next byte that is not a blank, without consuming it; NUL at the end.
  Expected<char> Peek() {
    while (true) {
      const string_view view = stream_.view();
      const size_t at = view.find_first_not_of(" \t\r\n");
      stream_.Consume(std::min(at, view.size()));
      if (at != string_view::npos) return view[at];
      PENSTOCK_ASSIGN_OR_RETURN(const bool more, stream_.Fill());
      if (!more) return '\0';
    }
  }
  Status Broken(string_view wanted, char c) const {
    return Status::InvalidArgument(
        fmt::format("byte {}: {}, {}", stream_.offset(), wanted,
                    c == '\0' ? "and the file ends" : "and something else stands there"));
  }
  Expected<bool> End() {
    if (!closed_) stream_.Consume(1);
    closed_ = true;
    PENSTOCK_ASSIGN_OR_RETURN(const char c, Peek());
    if (c != '\0' || !stream_.view().empty()) {
      return Broken("the array is closed", c == '\0' ? ' ' : c);
    }
    return false;
  }

  // Up to the ',' or ']' that is not inside of it.
  Status ReadElement(std::string* text) {
    size_t depth = 0;
    bool in_string = false;
    bool escaped = false;
    while (true) {
      const string_view view = stream_.view();
      size_t i = 0;
      bool done = false;
      for (; i < view.size() && !done; ++i) {
        const char c = view[i];
        if (in_string) {
          if (escaped) {
            escaped = false;
          } else if (c == '\\') {
            escaped = true;
          } else if (c == '"') {
            in_string = false;
          }
        } else if (c == '"') {
          in_string = true;
        } else if (c == '{' || c == '[') {
          ++depth;
        } else if (depth > 0 && (c == '}' || c == ']')) {
          --depth;
        } else if (depth == 0 && (c == ',' || c == ']' || c == '}')) {
          done = true;
        }
      }
      const size_t size = done ? i - 1 : i;
      if (text->size() + size > bytes_max_) {
        return TooLong(fmt::format("element {}", number_ - 1), bytes_max_);
      }
      text->append(view.substr(0, size));
      stream_.Consume(size);
      if (done) break;
      PENSTOCK_ASSIGN_OR_RETURN(const bool more, stream_.Fill());
      if (!more) {
        return Status::InvalidArgument(
            fmt::format("element {}: the file ends inside of the array", number_ - 1));
      }
    }
    text->erase(text->find_last_not_of(" \t\r\n") + 1);
    return Status::Ok();
  }

  Utf8Stream& stream_;
  const size_t bytes_max_;
  uint64_t number_ = 0;
  bool begun_ = false;
  bool closed_ = false;
};

}  // namespace

std::unique_ptr<RowSplitter> SplitLines(Utf8Stream* stream, size_t bytes_max) {
  return std::make_unique<LineSplitter>(stream, bytes_max, false);
}

std::unique_ptr<RowSplitter> SplitRecords(Utf8Stream* stream, size_t bytes_max, char delimiter) {
  return std::make_unique<RecordSplitter>(stream, bytes_max, delimiter);
}

std::unique_ptr<RowSplitter> SplitArray(Utf8Stream* stream, size_t bytes_max) {
  return std::make_unique<ArraySplitter>(stream, bytes_max);
}

}  // namespace penstock::corpus

// FileRows of row_reader.h: from raw rows to texts and ids.
#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "corpus/cells.h"
#include "corpus/row_reader.h"
#include "corpus/row_splitter.h"
#include "corpus/utf8_stream.h"
#include "json/json.h"

namespace penstock::corpus {
namespace {

using std::string_view;

constexpr size_t kNamesShownMax = 20;

bool IsTable(InputFormat format) {
  return format == InputFormat::kCsv || format == InputFormat::kTsv;
}

// "text", "input" or "content"
std::string Names(std::span<const std::string> names, const char* last) {
  std::string text;
  const size_t shown = std::min(names.size(), kNamesShownMax);
  for (size_t i = 0; i < shown; ++i) {
    if (i > 0) text += i + 1 == names.size() ? last : ", ";
    text += '"' + names[i] + '"';
  }
  if (shown < names.size()) text += fmt::format(" and {} more", names.size() - shown);
  return text;
}

std::vector<std::string> WantedNames(const InputOptions& options) {
  if (!options.text_fields.empty()) return options.text_fields;
  return {std::begin(kDefaultTextFields), std::end(kDefaultTextFields)};
}

// Texts of several fields in one, without those that are empty.
class Joined {
 public:
  explicit Joined(const std::string& join) : join_(join) {}
  void Add(string_view part) {
    if (part.empty()) return;
    if (!text_.empty()) text_ += join_;
    text_ += part;
  }
  std::string Take() { return std::move(text_); }

 private:
  const std::string& join_;
  std::string text_;
};

std::string FieldsOf(const JsonObject& object) {
  std::vector<std::string> names;
  object.ForEach([&](string_view key, const JsonElement&) { names.emplace_back(key); });
  return names.empty() ? "it has none" : "it has " + Names(names, " and ");
}

Expected<std::string> TextOf(const JsonObject& object, const InputOptions& options) {
  const std::vector<std::string> wanted = WantedNames(options);
  Joined joined(options.join);
  bool found = false;
  for (const std::string& name : wanted) {
    if (!object.Has(name)) continue;
    PENSTOCK_ASSIGN_OR_RETURN(const std::string part, object.GetString(name));
    if (options.text_fields.empty()) return part;
    joined.Add(part);
    found = true;
  }
  if (found) return joined.Take();
  return Status::InvalidArgument(
      fmt::format("the object has no field {}; {}{}", Names(wanted, " or "), FieldsOf(object),
                  options.text_fields.empty() ? "; --text-field names another" : ""));
}

Expected<std::string> IdOf(const JsonObject& object, const std::string& name) {
  const auto value = object.Find(name);
  if (!value) {
    return Status::InvalidArgument(
        fmt::format("the object has no field \"{}\"; {}", name, FieldsOf(object)));
  }
  if (int64_t number = 0; value->Get(&number)) return std::to_string(number);
  if (uint64_t number = 0; value->Get(&number)) return std::to_string(number);
  string_view text;
  if (value->Get(&text)) return std::string(text);
  return Status::InvalidArgument(
      fmt::format("'{}' must be a string or an integer, is {}", name, JsonTypeName(*value)));
}

}  // namespace

class FileRows::Impl {
 public:
  // `slice`: of it only where it begins and the format there.
  Impl(std::string name, const InputOptions& options, std::unique_ptr<ByteSource> source,
       const FileSlice& slice)
      : name_(std::move(name)),
        options_(options),
        begin_(static_cast<uint64_t>(slice.begin)),
        known_format_(slice.format),
        stream_(std::move(source), options.encoding, slice.begin == 0) {}

  // Messages of both name no file.
  Status Start();
  Expected<std::optional<Row>> Next();

  const std::string& name() const { return name_; }
  InputFormat format() const { return format_; }
  int64_t disk_bytes() const { return stream_.disk_bytes(); }

 private:
  Status Choose();
  string_view HeaderLine() const;
  Status ReadHeader();
  Status ColumnsFor(const std::vector<std::string>& names, std::vector<size_t>* columns) const;
  std::string Where(const RawRow& raw) const;
  Status CheckText(const RawRow& raw) const;
  Status Fill(RawRow raw, Row* row);
  Status FillFromJson(const std::string& json, Row* row) const;
  Status FillFromCells(Row* row) const;

  const std::string name_;
  const InputOptions options_;
  const uint64_t begin_;            // of the slice in the file
  const InputFormat known_format_;  // kAuto: it begins at the head, which tells
  Utf8Stream stream_;
  InputFormat format_ = InputFormat::kText;
  std::unique_ptr<RowSplitter> splitter_;
  // For tables:
  char delimiter_ = ',';
  std::vector<std::string> header_;
  std::vector<size_t> text_columns_;
  size_t id_column_ = 0;
  std::vector<std::string> cells_;
};

Status FileRows::Impl::Start() {
  PENSTOCK_RETURN_IF_ERROR(FillHead(&stream_));
  PENSTOCK_RETURN_IF_ERROR(Choose());
  const size_t bytes_max = options_.row_bytes_max;
  switch (format_) {
    case InputFormat::kJson:
      splitter_ = SplitArray(&stream_, bytes_max);
      return Status::Ok();
    case InputFormat::kCsv:
    case InputFormat::kTsv:
      delimiter_ = format_ == InputFormat::kTsv ? '\t' : DelimiterOf(HeaderLine());
      splitter_ = SplitRecords(&stream_, bytes_max, delimiter_);
      return ReadHeader();
    default:
      splitter_ = SplitLines(&stream_, bytes_max);
      return Status::Ok();
  }
}

Status FileRows::Impl::Choose() {
  format_ = known_format_ == InputFormat::kAuto ? options_.format : known_format_;
  if (format_ == InputFormat::kAuto) {
    std::vector<std::string> columns = WantedNames(options_);
    if (!options_.id_field.empty()) columns.push_back(options_.id_field);
    PENSTOCK_ASSIGN_OR_RETURN(format_, Recognise(stream_, name_, columns));
  }
  const bool asks = !options_.text_fields.empty() || !options_.id_field.empty();
  const bool empty = stream_.view().empty();
  if (format_ == InputFormat::kText && asks && !empty) {
    return Status::InvalidArgument(
        fmt::format("{} lines of text, which have no fields; --text-field and --id-field are for "
                    "JSON, CSV and TSV{}",
                    options_.format == InputFormat::kAuto ? "looks like" : "is read as",
                    options_.format == InputFormat::kAuto ? " (--format says what it is)" : ""));
  }
  return Status::Ok();
}

string_view FileRows::Impl::HeaderLine() const {
  const string_view view = stream_.view();
  return FirstLine(view.substr(std::min(view.find_first_not_of("\r\n"), view.size())));
}

Status FileRows::Impl::ReadHeader() {
  RawRow raw;
  PENSTOCK_ASSIGN_OR_RETURN(const bool more, splitter_->Next(&raw));
  if (!more) return Status::InvalidArgument("is empty; a table begins with a header");
  PENSTOCK_RETURN_IF_ERROR(raw.status);
  if (const Status status = CheckText(raw); !status.ok()) {
    return status.Annotate(fmt::format("line {}", raw.number));
  }
  PENSTOCK_RETURN_IF_ERROR(ParseCells(raw.text, delimiter_, &header_));
  if (!options_.id_field.empty()) {
    std::vector<size_t> column;
    PENSTOCK_RETURN_IF_ERROR(ColumnsFor({options_.id_field}, &column));
    id_column_ = column.front();
  }
  if (!options_.text_fields.empty()) return ColumnsFor(options_.text_fields, &text_columns_);
  if (!options_.needs_text) return Status::Ok();
  for (const string_view name : kDefaultTextFields) {
    const auto found = std::find(header_.begin(), header_.end(), name);
    if (found == header_.end()) continue;
    text_columns_ = {static_cast<size_t>(found - header_.begin())};
    return Status::Ok();
  }
  if (header_.size() == 1) {
    text_columns_ = {0};
    return Status::Ok();
  }
  return Status::InvalidArgument(
      fmt::format("has no column {}; its columns are {}; --text-field names another",
                  Names(WantedNames(options_), " or "), Names(header_, " and ")));
}

Status FileRows::Impl::ColumnsFor(const std::vector<std::string>& names,
                                  std::vector<size_t>* columns) const {
  for (const std::string& name : names) {
    const auto found = std::find(header_.begin(), header_.end(), name);
    if (found == header_.end()) {
      return Status::InvalidArgument(
          fmt::format("has no column \"{}\"; its columns are {}", name, Names(header_, " and ")));
    }
    columns->push_back(static_cast<size_t>(found - header_.begin()));
  }
  return Status::Ok();
}

std::string FileRows::Impl::Where(const RawRow& raw) const {
  if (begin_ > 0) return fmt::format("{}@{}", name_, begin_ + raw.offset);
  return format_ == InputFormat::kJson ? fmt::format("{}[{}]", name_, raw.number)
                                       : fmt::format("{}:{}", name_, raw.number);
}

Status FileRows::Impl::CheckText(const RawRow& raw) const {
  const size_t at = FindNotUtf8(raw.text);
  if (at != string_view::npos && options_.encoding != TextEncoding::kUtf8) {
    return Status::InvalidArgument(fmt::format("not {}: after {} bytes of the row (as UTF-8)",
                                               TextEncodingName(options_.encoding), at));
  }
  if (at != string_view::npos) {
    return Status::InvalidArgument(
        fmt::format("not UTF-8: byte 0x{:02x} at byte {} of the row, {} of the text; --encoding "
                    "reads latin1, windows-1252 and utf-16",
                    static_cast<unsigned char>(raw.text[at]), at, begin_ + raw.offset + at));
  }
  // A format that was asked for may have them.
  if (options_.format != InputFormat::kAuto) return Status::Ok();
  if (const size_t nul = raw.text.find('\0'); nul != string_view::npos) {
    return Status::InvalidArgument(fmt::format("a NUL at byte {} of the row", nul));
  }
  return Status::Ok();
}

Status FileRows::Impl::FillFromJson(const std::string& json, Row* row) const {
  PENSTOCK_ASSIGN_OR_RETURN(const auto document, JsonDocument::Parse(json));
  if (string_view text; document.root().Get(&text)) {
    if (!options_.id_field.empty()) {
      return Status::InvalidArgument(
          fmt::format("a JSON string has no field \"{}\"", options_.id_field));
    }
    row->text = text;
    return Status::Ok();
  }
  if (!document.root().is_object()) {
    return Status::InvalidArgument(
        fmt::format("a string or an object is wanted, here is: {}", JsonTypeName(document.root())));
  }
  PENSTOCK_ASSIGN_OR_RETURN(const JsonObject object, document.Object());
  // The id first: it names a row whose text cannot be used, too.
  Status id_status;
  if (!options_.id_field.empty()) {
    auto id = IdOf(object, options_.id_field);
    id_status = id.status();
    if (id.ok()) row->id = *std::move(id);
  }
  if (options_.needs_text) {
    PENSTOCK_ASSIGN_OR_RETURN(row->text, TextOf(object, options_));
  }
  return id_status;
}

Status FileRows::Impl::FillFromCells(Row* row) const {
  if (cells_.size() != header_.size()) {
    return Status::InvalidArgument(
        fmt::format("{} cells, but the header has {}", cells_.size(), header_.size()));
  }
  Joined joined(options_.join);
  for (const size_t column : text_columns_) joined.Add(cells_[column]);
  row->text = joined.Take();
  if (!options_.id_field.empty()) row->id = cells_[id_column_];
  if (!options_.keeps_objects) return Status::Ok();
  JsonWriter writer(&row->object);
  writer.BeginObject();
  for (size_t i = 0; i < cells_.size(); ++i) writer.Field(header_[i], cells_[i]);
  writer.EndObject();
  return Status::Ok();
}

Status FileRows::Impl::Fill(RawRow raw, Row* row) {
  PENSTOCK_RETURN_IF_ERROR(raw.status);
  PENSTOCK_RETURN_IF_ERROR(CheckText(raw));
  if (IsTable(format_)) {
    PENSTOCK_RETURN_IF_ERROR(ParseCells(raw.text, delimiter_, &cells_));
    return FillFromCells(row);
  }
  if (format_ == InputFormat::kText) {
    row->text = std::move(raw.text);
    return Status::Ok();
  }
  PENSTOCK_RETURN_IF_ERROR(FillFromJson(raw.text, row));
  if (options_.keeps_objects && raw.text[raw.text.find_first_not_of(" \t\r\n")] == '{') {
    row->object = std::move(raw.text);
  }
  return Status::Ok();
}

Expected<std::optional<Row>> FileRows::Impl::Next() {
  RawRow raw;
  while (true) {
    PENSTOCK_ASSIGN_OR_RETURN(const bool more, splitter_->Next(&raw));
    if (!more) return std::optional<Row>();
    const bool blank = raw.status.ok() && raw.text.find_first_not_of(" \t") == string_view::npos;
    if (!blank || format_ != InputFormat::kJsonl) break;
  }
  Row row;
  row.where = Where(raw);
  if (const Status status = Fill(std::move(raw), &row); !status.ok()) {
    Row bad;
    bad.id = std::move(row.id);
    bad.where = std::move(row.where);
    bad.status = status.Annotate(bad.where);
    return std::optional<Row>(std::move(bad));
  }
  return std::optional<Row>(std::move(row));
}

FileRows::FileRows(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
FileRows::~FileRows() = default;
InputFormat FileRows::format() const { return impl_->format(); }
int64_t FileRows::disk_bytes() const { return impl_->disk_bytes(); }

Expected<std::unique_ptr<FileRows>> FileRows::Open(std::unique_ptr<ByteSource> source,
                                                   std::string name, const InputOptions& options) {
  auto unpacked = Unpacked(std::move(source));
  if (!unpacked.ok()) return unpacked.status().Annotate(name);
  return Started(
      std::make_unique<Impl>(std::move(name), options, *std::move(unpacked), FileSlice()));
}

Expected<std::unique_ptr<FileRows>> FileRows::Open(const FileSlice& slice,
                                                   const InputOptions& options) {
  const bool whole = slice.begin == 0 && !slice.end;
  std::string name = slice.file == "-" ? "stdin" : slice.file;
  auto source = whole ? OpenFile(slice.file, options.stop_fd)
                      : OpenSlice(slice.file, slice.begin, slice.end, options.stop_fd);
  if (!source.ok()) return source.status().Annotate(name);
  // A file that is cut is not packed.
  if (slice.begin == 0) return Open(*std::move(source), std::move(name), options);
  return Started(std::make_unique<Impl>(std::move(name), options, *std::move(source), slice));
}

Expected<std::unique_ptr<FileRows>> FileRows::Started(std::unique_ptr<Impl> impl) {
  if (const Status status = impl->Start(); !status.ok()) return status.Annotate(impl->name());
  return std::unique_ptr<FileRows>(new FileRows(std::move(impl)));
}

Expected<std::optional<Row>> FileRows::Next() {
  auto row = impl_->Next();
  if (!row.ok()) return row.status().Annotate(impl_->name());
  return row;
}

}  // namespace penstock::corpus

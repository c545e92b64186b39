#include "bulk/merge_parts.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "bulk/embed_output.h"
#include "bulk/matrix_file.h"
#include "json/json.h"
#include "json/json_writer.h"
#include "os/disk_room.h"
#include "os/file_digest.h"
#include "os/output_file.h"

namespace penstock::bulk {
namespace {

constexpr size_t kNamedMax = 8;                 // of missing parts
constexpr int64_t kRowsMax = int64_t{1} << 40;  // of all parts

// A file, whose digest must be this.
Status ReadChecked(const std::string& path, const std::string& sha256, const TakeBlock& take) {
  PENSTOCK_ASSIGN_OR_RETURN(const FileDigest read, DigestOfFile(path, take));
  if (read.sha256 == sha256) return Status::Ok();
  return Status::Internal(fmt::format(
      "{} is not the file that was written: its SHA-256 is {}, and its record has {}; remove the "
      "record, and make the part again",
      path, read.sha256, sha256));
}

// Cuts what comes into lines, with their ends, and hands them on.
class Lines {
 public:
  explicit Lines(std::function<void(std::string_view)> take) : take_(std::move(take)) {}
  void Add(std::string_view bytes) {
    while (!bytes.empty()) {
      const size_t end = bytes.find('\n');
      const size_t size = end == std::string_view::npos ? bytes.size() : end + 1;
      if (rest_.empty() && end != std::string_view::npos) {
        take_(bytes.substr(0, size));
      } else {
        rest_ += bytes.substr(0, size);
        if (end != std::string_view::npos) take_(std::exchange(rest_, {}));
      }
      bytes.remove_prefix(size);
    }
  }

 private:
  std::function<void(std::string_view)> take_;
  std::string rest_;
};

// {"index": 3, ...} with `add` to the number. Lines without an index stay as they are.
std::string Renumbered(std::string_view line, int64_t add) {
  constexpr std::string_view kIndex = "{\"index\":";
  if (!line.starts_with(kIndex)) return std::string(line);
  int64_t index = 0;
  size_t at = kIndex.size();
  for (; at < line.size() && line[at] >= '0' && line[at] <= '9' && index < INT64_MAX / 20; ++at) {
    index = index * 10 + (line[at] - '0');
  }
  return fmt::format("{}{}{}", kIndex, index + add, line.substr(at));
}

Expected<OutputFile> OpenOutput(const std::string& path) {
  auto file = OutputFile::Open(path);
  if (!file.ok()) return file.status().Annotate("--output");
  return file;
}

Expected<std::string> PrecisionOf(const ShardPlan& plan) {
  PENSTOCK_ASSIGN_OR_RETURN(const auto settings, JsonDocument::Parse(plan.settings));
  PENSTOCK_ASSIGN_OR_RETURN(const JsonObject object, settings.Object());
  return object.GetStringOr("precision", "float32");
}

}  // namespace

Expected<MergedParts> MergedParts::Open(const std::string& folder, bool mixed) {
  MergedParts merged;
  merged.folder_ = folder;
  PENSTOCK_ASSIGN_OR_RETURN(auto plan, ShardPlan::Read(folder));
  if (!plan) {
    return Status::NotFound(
        fmt::format("{}: there is no plan of shards", ShardPlan::PathIn(folder)));
  }
  merged.plan_ = *std::move(plan);
  PENSTOCK_ASSIGN_OR_RETURN(merged.precision_, PrecisionOf(merged.plan_));
  const std::string id = merged.plan_.Id();
  std::string missing;
  size_t missing_count = 0;
  for (int64_t shard = 0; shard < merged.plan_.shards; ++shard) {
    PENSTOCK_ASSIGN_OR_RETURN(auto part, ShardPart::Read(merged.StemOf(shard)));
    if (!part) {
      if (++missing_count <= kNamedMax) {
        missing += fmt::format("{}{}", missing.empty() ? "" : ", ", shard);
      }
      continue;
    }
    const auto bad = [&](const std::string& why) {
      return Status::InvalidArgument(fmt::format("{}.json {}", merged.StemOf(shard), why));
    };
    if (part->plan != id) return bad("is of another plan");
    if (part->maker.fingerprint != merged.plan_.maker.fingerprint) {
      merged.mixed_ = true;
      if (!mixed) return bad("was made by what gives other results than the maker of plan.json");
    }
    if (merged.dimensions_ == 0) merged.dimensions_ = part->dimensions;
    if (part->dimensions != merged.dimensions_) {
      return bad(
          fmt::format("has {} dimensions, and others {}", part->dimensions, merged.dimensions_));
    }
    merged.rows_ += part->rows;
    if (merged.rows_ > kRowsMax) return bad("has more rows than there can be");
    merged.skipped_ += part->skipped;
    merged.parts_.push_back(*std::move(part));
  }
  if (missing_count == 0) return merged;
  return Status::NotFound(fmt::format("{}: {} of {} shards are missing: {}{}", folder,
                                      missing_count, merged.plan_.shards, missing,
                                      missing_count > kNamedMax ? ", ..." : ""));
}

Status MergedParts::CheckMatrixSize(int64_t shard, const ShardPart& part) const {
  if (!MatrixFormatOf(plan_.parts)) return Status::Ok();
  PENSTOCK_ASSIGN_OR_RETURN(const Precision precision, PrecisionNamed(precision_));
  const int64_t row_bytes = RowBytes(dimensions_, precision);
  // A record may say anything: the product is looked at where it cannot be over 64 bits.
  const int64_t bytes = part.bytes - static_cast<int64_t>(kMatrixHeaderBytes);
  const bool fits =
      row_bytes == 0 ? bytes == 0 : bytes / row_bytes == part.rows && bytes % row_bytes == 0;
  if (fits) return Status::Ok();
  return Status::Internal(fmt::format("{} has {} bytes, which are not {} rows of {} numbers",
                                      PathOf(shard), part.bytes, part.rows, dimensions_));
}

Status MergedParts::Check() const {
  const auto nothing = [](std::string_view) { return Status::Ok(); };
  for (int64_t shard = 0; shard < plan_.shards; ++shard) {
    const ShardPart& part = parts_[static_cast<size_t>(shard)];
    PENSTOCK_RETURN_IF_ERROR(CheckMatrixSize(shard, part));
    PENSTOCK_RETURN_IF_ERROR(ReadChecked(PathOf(shard), part.sha256, nothing));
    if (part.ids_sha256.empty()) continue;
    PENSTOCK_RETURN_IF_ERROR(ReadChecked(PathOf(shard) + ".ids", part.ids_sha256, nothing));
  }
  return Status::Ok();
}

Status MergedParts::WriteTo(const std::string& path) const {
  const bool matrices = MatrixFormatOf(plan_.parts).has_value();
  if (matrices != MatrixFormatOf(path).has_value()) {
    return Status::InvalidArgument(
        fmt::format("--output {}: the parts are {}", path,
                    matrices ? "matrices, which go to .npy or .safetensors"
                             : "JSON lines, which do not go to a matrix"),
        "output");
  }
  PENSTOCK_RETURN_IF_ERROR(matrices ? WriteMatrix(path) : WriteLines(path));
  return WriteErrors(path);
}

Status MergedParts::WriteMatrix(const std::string& path) const {
  PENSTOCK_ASSIGN_OR_RETURN(const Precision precision, PrecisionNamed(precision_));
  const int64_t bytes =
      static_cast<int64_t>(kMatrixHeaderBytes) + rows_ * RowBytes(dimensions_, precision);
  if (const auto room = RoomFor(path); room && bytes > *room) {
    return {StatusCode::kUnavailable,
            fmt::format("--output {}: it takes {}, and the disk has room for {}", path,
                        SizeText(bytes), SizeText(*room))};
  }
  PENSTOCK_ASSIGN_OR_RETURN(OutputFile file, OpenOutput(path));
  // The header comes last: until then the file is not a matrix.
  file.Write(std::string(kMatrixHeaderBytes, '\0'));
  for (int64_t shard = 0; shard < plan_.shards; ++shard) {
    const ShardPart& part = parts_[static_cast<size_t>(shard)];
    PENSTOCK_RETURN_IF_ERROR(CheckMatrixSize(shard, part));
    size_t header = kMatrixHeaderBytes;
    PENSTOCK_RETURN_IF_ERROR(ReadChecked(PathOf(shard), part.sha256, [&](std::string_view read) {
      const size_t skip = std::min(header, read.size());
      header -= skip;
      file.Write(read.substr(skip));
      return file.status();
    }));
  }
  PENSTOCK_RETURN_IF_ERROR(WriteIds(path));
  file.Seek(0);
  file.Write(MatrixHeader(*MatrixFormatOf(path), precision, rows_, dimensions_));
  return file.Close();
}

Status MergedParts::WriteLines(const std::string& path) const {
  PENSTOCK_ASSIGN_OR_RETURN(OutputFile file, OpenOutput(path));
  int64_t row = 0;
  for (int64_t shard = 0; shard < plan_.shards; ++shard) {
    const ShardPart& part = parts_[static_cast<size_t>(shard)];
    Lines lines([&file, row](std::string_view line) { file.Write(Renumbered(line, row)); });
    PENSTOCK_RETURN_IF_ERROR(ReadChecked(PathOf(shard), part.sha256, [&](std::string_view read) {
      lines.Add(read);
      return file.status();
    }));
    row += part.rows;
  }
  return file.Close();
}

Status MergedParts::WriteIds(const std::string& path) const {
  if (parts_.front().ids_sha256.empty()) return Status::Ok();
  PENSTOCK_ASSIGN_OR_RETURN(OutputFile file, OpenOutput(path + ".ids"));
  for (int64_t shard = 0; shard < plan_.shards; ++shard) {
    const ShardPart& part = parts_[static_cast<size_t>(shard)];
    PENSTOCK_RETURN_IF_ERROR(
        ReadChecked(PathOf(shard) + ".ids", part.ids_sha256, [&file](std::string_view read) {
          file.Write(read);
          return file.status();
        }));
  }
  return file.Close();
}

Status MergedParts::WriteErrors(const std::string& path) const {
  const std::string errors = path + ".errors.jsonl";
  if (skipped_ == 0) {
    unlink(errors.c_str());  // of an earlier output
    return Status::Ok();
  }
  PENSTOCK_ASSIGN_OR_RETURN(OutputFile file, OpenOutput(errors));
  int64_t row = 0;
  for (int64_t shard = 0; shard < plan_.shards; ++shard) {
    const ShardPart& part = parts_[static_cast<size_t>(shard)];
    Lines lines([&file, row](std::string_view line) { file.Write(Renumbered(line, row)); });
    row += part.rows;
    if (part.skipped == 0) continue;
    PENSTOCK_RETURN_IF_ERROR(
        DigestOfFile(PathOf(shard) + ".errors.jsonl", [&](std::string_view read) {
          lines.Add(read);
          return file.status();
        }).status());
  }
  return file.Close();
}

Status MergedParts::WriteManifest(const std::string& path) const {
  std::string text;
  JsonWriter json(&text);
  json.BeginObject().Field("penstock_manifest", 1).Field("rows", rows_);
  json.Field("dimensions", dimensions_).Field("precision", precision_);
  json.Field("model", plan_.maker.model).Field("fingerprint", plan_.maker.fingerprint);
  json.Field("mixed", mixed_).Field("settings", plan_.settings).Key("parts").BeginArray();
  int64_t row = 0;
  for (int64_t shard = 0; shard < plan_.shards; ++shard) {
    const ShardPart& part = parts_[static_cast<size_t>(shard)];
    json.BeginObject().Field("file", PathOf(shard)).Field("first_row", row);
    json.Field("rows", part.rows).Field("bytes", part.bytes).Field("sha256", part.sha256);
    json.EndObject();
    row += part.rows;
  }
  json.EndArray().EndObject();
  text += '\n';
  return ReplaceFile(path, text);
}

}  // namespace penstock::bulk

#include "bulk/embed_output.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "base/printable.h"
#include "json/json_writer.h"
#include "log/log.h"
#include "log/status_line.h"
#include "os/disk_room.h"

namespace penstock::bulk {
namespace {

Status NotTheSame(const std::string& what) {
  return Status::InvalidArgument(
      "--resume: " + what + "; --restart begins anew and drops what is there", "resume");
}

}  // namespace

std::optional<MatrixFormat> MatrixFormatOf(const std::string& path) {
  if (path.ends_with(".npy")) return MatrixFormat::kNpy;
  if (path.ends_with(".safetensors")) return MatrixFormat::kSafetensors;
  return std::nullopt;
}

EmbedOutput::EmbedOutput(Options options) : options_(std::move(options)) {}

Status EmbedOutput::Prepare() {
  if (options_.path.empty() || options_.path == "-") {
    if (!options_.resume) return Status::Ok();
    return Status::InvalidArgument("--resume needs --output FILE: what went to stdout is not kept",
                                   "resume");
  }
  if (options_.restart) return Status::Ok();
  const std::string part = options_.path + ".part";
  auto checkpoint = Checkpoint::Read(Checkpoint::PathFor(options_.path));
  if (!checkpoint.ok()) return NotTheSame(checkpoint.status().message());
  // Without its output a checkpoint is of a run that ended well.
  if (!*checkpoint || access(part.c_str(), F_OK) != 0) {
    if (options_.resume) {
      StatusLine::MakeRoom();
      std::fprintf(stderr,
                   "penstock embed: --resume: nothing to go on with, there is no %s of an earlier "
                   "run; beginning at the first text\n",
                   Printable(part).c_str());
    }
    return Status::Ok();
  }
  if (!options_.resume) {
    return Status::InvalidArgument(
        fmt::format("{} holds {} rows of a run that ended early: --resume goes on with it, "
                    "--restart begins anew",
                    part, (*checkpoint)->rows),
        "resume");
  }
  if ((*checkpoint)->options != options_.settings) {
    return NotTheSame(fmt::format("{} was made with {}, and now it is {}", part,
                                  (*checkpoint)->options, options_.settings));
  }
  before_ = std::move(*checkpoint);
  return Status::Ok();
}

Status EmbedOutput::SkipRowsBefore(RowSource* source, const EmbedOne& embed_one) {
  if (!before_) return Status::Ok();
  std::string first;
  for (int64_t i = 0; i < before_->rows; ++i) {
    PENSTOCK_ASSIGN_OR_RETURN(auto row, source->Next());
    if (!row) {
      return NotTheSame(
          fmt::format("the input has {} rows, of which {} were done", i, before_->rows));
    }
    if (i == before_->first_index) first = std::move(row->text);
  }
  if (source->mark().digest != before_->input) {
    return NotTheSame(
        fmt::format("the first {} rows of the input are not those that were done", before_->rows));
  }
  if (before_->first_row.empty()) return Status::Ok();
  PENSTOCK_ASSIGN_OR_RETURN(const std::vector<float> vector, embed_one(first));
  if (!SameVector(vector, before_->first_row)) {
    return NotTheSame(
        "the model gives another vector for the first row: it is not the one that "
        "was used, or not with the same --dtype");
  }
  return Status::Ok();
}

Status EmbedOutput::Open() {
  if (before_) {
    done_ = *before_;
    PENSTOCK_ASSIGN_OR_RETURN(OutputFile file, OutputFile::Resume(options_.path, before_->bytes));
    file_.emplace(std::move(file));
  } else {
    auto file = OutputFile::Open(options_.path);
    if (!file.ok()) return file.status().Annotate("--output");
    file_.emplace(*std::move(file));
    // Left by an older run; from now on it would be taken for one of this run.
    if (file_->HasPart()) unlink(Checkpoint::PathFor(options_.path).c_str());
    done_.options = options_.settings;
  }
  if (done_.error_bytes > 0) {
    PENSTOCK_RETURN_IF_ERROR(OpenBeside(ErrorsPath(), done_.error_bytes, &errors_));
  } else if (file_->HasPart()) {
    unlink((ErrorsPath() + ".part").c_str());
  }
  if (const auto format = MatrixFormatOf(options_.path)) {
    if (options_.ids) {
      PENSTOCK_RETURN_IF_ERROR(OpenBeside(IdsPath(), done_.id_bytes, &ids_));
    }
    matrix_.emplace(&*file_, *format, options_.precision, done_.rows, done_.dimensions);
  }
  return Status::Ok();
}

Status EmbedOutput::OpenBeside(const std::string& path, int64_t bytes,
                               std::optional<OutputFile>* file) const {
  const std::string part = path + ".part";
  // The earlier run may have ended when it had renamed this file and not yet the output.
  if (bytes > 0 && access(part.c_str(), F_OK) != 0) (void)rename(path.c_str(), part.c_str());
  PENSTOCK_ASSIGN_OR_RETURN(OutputFile opened,
                            bytes > 0 ? OutputFile::Resume(path, bytes) : OutputFile::Open(path));
  file->emplace(std::move(opened));
  return Status::Ok();
}

std::string EmbedOutput::ErrorsPath() const {
  return file_ && file_->HasPart() ? options_.path + ".errors.jsonl" : "";
}

Status EmbedOutput::CheckRoom(int64_t rows, int32_t dimensions) const {
  if (!MatrixFormatOf(options_.path)) return Status::Ok();
  const int64_t bytes =
      static_cast<int64_t>(kMatrixHeaderBytes) + rows * RowBytes(dimensions, options_.precision);
  const auto room = RoomFor(options_.path);
  if (!room || bytes <= *room) return Status::Ok();
  return {StatusCode::kUnavailable,
          fmt::format("--output {}: {} rows of {} numbers take {}, and the disk has room for {}; "
                      "make room, write to another disk, or take less by --precision or "
                      "--dimensions",
                      options_.path, rows, dimensions, SizeText(bytes), SizeText(*room))};
}

void EmbedOutput::WarnOfRoom() {
  const int64_t rows_left = rows_expected_ - done_.rows;
  if (warned_of_room_ || rows_left <= 0) return;
  const auto room = RoomFor(options_.path);
  // Bytes it has already are part of the room.
  const double bytes = static_cast<double>(done_.bytes) / static_cast<double>(done_.rows) *
                       static_cast<double>(rows_expected_);
  if (!room || bytes <= static_cast<double>(*room)) return;
  warned_of_room_ = true;
  LogWarn(
      "{} will take about {}, and the disk has room for {}: make room, or the run ends when it is "
      "full, and --resume goes on",
      options_.path, SizeText(static_cast<int64_t>(bytes)), SizeText(*room));
}

void EmbedOutput::WriteJsonLines(const BulkWindow& window) {
  std::string text;
  const auto width = static_cast<size_t>(window.dimensions());
  for (size_t row = 0; row < window.rows(); ++row) {
    JsonWriter writer(&text);
    writer.BeginObject().Field("index", done_.rows + static_cast<int64_t>(row));
    if (window.id(row)) writer.Field("id", *window.id(row));
    writer.Key("embedding");
    if (window.error(row)) {
      writer.Null().Field("error", *window.error(row)).EndObject();
    } else {
      writer.Floats(window.values().subspan(row * width, width)).EndObject();
    }
    text += '\n';
  }
  file_->Write(text);
}

Status EmbedOutput::WriteErrors(const BulkWindow& window) {
  if (window.skipped() == 0 || !file_->HasPart()) return Status::Ok();
  if (!errors_) PENSTOCK_RETURN_IF_ERROR(OpenBeside(ErrorsPath(), 0, &errors_));
  std::string text;
  for (size_t row = 0; row < window.rows(); ++row) {
    if (!window.error(row)) continue;
    const corpus::RowPlace place = corpus::PlaceOf(window.where(row));
    JsonWriter writer(&text);
    writer.BeginObject().Field("index", done_.rows + static_cast<int64_t>(row));
    writer.Field("file", place.file).Field(place.unit, place.number);
    if (window.id(row)) writer.Field("id", *window.id(row));
    writer.Field("error", *window.error(row)).EndObject();
    text += '\n';
  }
  errors_->Write(text);
  return errors_->status();
}

void EmbedOutput::WriteIds(const BulkWindow& window) {
  std::string text;
  for (size_t row = 0; row < window.rows(); ++row) {
    JsonWriter writer(&text);
    if (window.id(row)) {
      writer.String(*window.id(row));
    } else {
      writer.Null();
    }
    text += '\n';
  }
  ids_->Write(text);
}

Status EmbedOutput::Append(const BulkWindow& window) {
  const std::span<const float> values = window.values();
  const int32_t dimensions = window.dimensions();
  if (done_.dimensions != 0 && done_.dimensions != dimensions) {
    return Status::Internal(fmt::format("vectors of {} numbers came after vectors of {}",
                                        dimensions, done_.dimensions));
  }
  if (matrix_) {
    matrix_->Append(values, dimensions);
  } else {
    WriteJsonLines(window);
  }
  if (ids_) {
    WriteIds(window);
    PENSTOCK_RETURN_IF_ERROR(ids_->status());
  }
  PENSTOCK_RETURN_IF_ERROR(WriteErrors(window));
  // A full disk is reported at once, not after hours of work.
  PENSTOCK_RETURN_IF_ERROR(file_->status());
  done_.dimensions = dimensions;
  for (size_t row = 0; row < window.rows() && done_.first_row.empty(); ++row) {
    if (window.error(row)) continue;
    const auto vector =
        values.subspan(row * static_cast<size_t>(dimensions), static_cast<size_t>(dimensions));
    done_.first_row.assign(vector.begin(), vector.end());
    done_.first_index = done_.rows + static_cast<int64_t>(row);
  }
  done_.rows = window.mark().rows;
  done_.input = window.mark().digest;
  done_.tokens += window.tokens();
  done_.cut += window.cut();
  done_.skipped += static_cast<int64_t>(window.skipped());
  if (!file_->HasPart() || Clock::now() - last_checkpoint_ < kCheckpointEvery) return Status::Ok();
  return WriteCheckpoint();
}

Status EmbedOutput::WriteCheckpoint() {
  // The rows first: those that the checkpoint counts must be on the disk.
  PENSTOCK_RETURN_IF_ERROR(file_->Sync());
  if (ids_) {
    PENSTOCK_RETURN_IF_ERROR(ids_->Sync());
    done_.id_bytes = ids_->written();
    ids_->Keep();
  }
  if (errors_) {
    PENSTOCK_RETURN_IF_ERROR(errors_->Sync());
    done_.error_bytes = errors_->written();
    errors_->Keep();
  }
  done_.bytes = file_->written();
  PENSTOCK_RETURN_IF_ERROR(done_.Write(Checkpoint::PathFor(options_.path)));
  file_->Keep();
  last_checkpoint_ = Clock::now();
  WarnOfRoom();
  return Status::Ok();
}

Status EmbedOutput::Finish(int32_t dimensions) {
  // All rows count before the header is written: if a step below fails, they are not lost.
  if (file_->HasPart() && done_.rows > 0) PENSTOCK_RETURN_IF_ERROR(WriteCheckpoint());
  finishing_ = true;
  if (matrix_) matrix_->Finish(dimensions);
  if (ids_) PENSTOCK_RETURN_IF_ERROR(ids_->Close());
  if (errors_) {
    PENSTOCK_RETURN_IF_ERROR(errors_->Close());
  } else if (file_->HasPart()) {
    unlink(ErrorsPath().c_str());  // of an earlier output
  }
  PENSTOCK_RETURN_IF_ERROR(file_->Close());
  if (file_->HasPart()) unlink(Checkpoint::PathFor(options_.path).c_str());
  return Status::Ok();
}

Status EmbedOutput::Abandon(const Status& why) {
  if (!file_ || !file_->HasPart()) {
    if (file_) (void)file_->Sync();
    return why;
  }
  int64_t rows = rows_before();
  if (done_.rows > 0) {
    // On a full disk the last one that was written counts.
    if (!finishing_) (void)WriteCheckpoint();
    const auto kept = Checkpoint::Read(Checkpoint::PathFor(options_.path));
    rows = kept.ok() && *kept ? (*kept)->rows : 0;
  }
  if (rows == 0) return why;
  return {why.code(),
          fmt::format("{}; {}.part holds {} rows: the same command with --resume goes on",
                      why.message(), options_.path, rows),
          why.field()};
}

}  // namespace penstock::bulk

#include "embed_output.h"

#include <fmt/format.h>
#include <unistd.h>

#include "common/json_writer.h"

namespace penstock {
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
  if (!*checkpoint || access(part.c_str(), F_OK) != 0) return Status::Ok();
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
    if (i == 0) first = std::move(row->text);
  }
  if (source->mark().digest != before_->input) {
    return NotTheSame(
        fmt::format("the first {} rows of the input are not those that were done", before_->rows));
  }
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
    PENSTOCK_ASSIGN_OR_RETURN(OutputFile file, OutputFile::Open(options_.path));
    file_.emplace(std::move(file));
    // Of an older run; from now on it would be taken for one of this.
    if (file_->HasPart()) unlink(Checkpoint::PathFor(options_.path).c_str());
    done_.options = options_.settings;
  }
  if (const auto format = MatrixFormatOf(options_.path)) {
    if (options_.ids) {
      const std::string ids_part = IdsPath() + ".part";
      // The earlier run may have ended when it had renamed the ids and not yet the matrix.
      if (before_ && access(ids_part.c_str(), F_OK) != 0) {
        (void)rename(IdsPath().c_str(), ids_part.c_str());
      }
      PENSTOCK_ASSIGN_OR_RETURN(
          OutputFile ids,
          before_ ? OutputFile::Resume(IdsPath(), before_->id_bytes) : OutputFile::Open(IdsPath()));
      ids_.emplace(std::move(ids));
    }
    matrix_.emplace(&*file_, *format, options_.precision, done_.rows, done_.dimensions);
  }
  return Status::Ok();
}

void EmbedOutput::WriteJsonLines(const BulkWindow& window) {
  std::string text;
  const auto width = static_cast<size_t>(window.dimensions());
  for (size_t row = 0; row < window.rows(); ++row) {
    JsonWriter writer(&text);
    writer.BeginObject().Field("index", done_.rows + static_cast<int64_t>(row));
    if (window.id(row)) writer.Field("id", *window.id(row));
    writer.Key("embedding").Floats(window.values().subspan(row * width, width)).EndObject();
    text += '\n';
  }
  file_->Write(text);
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
  // Telling at once beats hours of work for a full disk.
  PENSTOCK_RETURN_IF_ERROR(file_->status());
  if (done_.rows == 0) {
    done_.first_row.assign(values.begin(), values.begin() + dimensions);
    done_.dimensions = dimensions;
  }
  done_.rows = window.mark().rows;
  done_.input = window.mark().digest;
  done_.tokens += window.tokens();
  done_.cut += window.cut();
  if (!file_->HasPart() || Clock::now() - last_checkpoint_ < kCheckpointEvery) return Status::Ok();
  return WriteCheckpoint();
}

Status EmbedOutput::WriteCheckpoint() {
  // The rows first: what the checkpoint counts must be there.
  PENSTOCK_RETURN_IF_ERROR(file_->Sync());
  if (ids_) {
    PENSTOCK_RETURN_IF_ERROR(ids_->Sync());
    done_.id_bytes = ids_->written();
    ids_->Keep();
  }
  done_.bytes = file_->written();
  PENSTOCK_RETURN_IF_ERROR(done_.Write(Checkpoint::PathFor(options_.path)));
  file_->Keep();
  last_checkpoint_ = Clock::now();
  return Status::Ok();
}

Status EmbedOutput::Finish(int32_t dimensions) {
  // All rows count before the header is written: if a step below fails, they are not lost.
  if (file_->HasPart() && done_.rows > 0) PENSTOCK_RETURN_IF_ERROR(WriteCheckpoint());
  finishing_ = true;
  if (matrix_) matrix_->Finish(dimensions);
  if (ids_) PENSTOCK_RETURN_IF_ERROR(ids_->Close());
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

}  // namespace penstock

// The output of `penstock embed`: vectors in the order of the input, and beside them a checkpoint
// that says how far they go.
//
//   X.part        the output so far; X once it is whole
//   X.ids         of a matrix whose rows have ids: a JSON string or null a line; X.ids.part first
//   X.errors.jsonl  the rows that were skipped, an object a line: index, file, line (of a JSON
//                   array: element), id, error; X.errors.jsonl.part first. Absent if no row was.
//   X.checkpoint  how many rows of it count, of which input, with which settings (checkpoint.h)
//
// After a run that ended early one of --resume and --restart must be given: starting anew silently
// would throw away hours of work.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bulk/bulk_embed.h"
#include "bulk/checkpoint.h"
#include "bulk/matrix_file.h"
#include "os/output_file.h"

namespace penstock::bulk {

// The format that the name of an output asks for; nothing: JSON lines.
std::optional<MatrixFormat> MatrixFormatOf(const std::string& path);

class EmbedOutput {
 public:
  // Between two checkpoints, at least.
  static constexpr std::chrono::milliseconds kCheckpointEvery{500};

  struct Options {
    std::string path;                           // "" or "-": stdout, which cannot be resumed
    Precision precision = Precision::kFloat32;  // of a matrix; JSON has float32
    std::string settings;  // settings that shape the vectors, besides model and input, as text
    bool resume = false;
    bool restart = false;
    bool ids = false;  // rows have ids: in JSON lines, or in X.ids beside a matrix
  };
  explicit EmbedOutput(Options options);

  // Looks for an earlier run. Writes nothing. kInvalidArgument, field "resume": there is one, and
  // neither resume nor restart is set, or it had other settings.
  Status Prepare();
  int64_t rows_before() const { return before_ ? before_->rows : 0; }

  // The vector of a text.
  using EmbedOne = std::function<Expected<std::vector<float>>(const std::string& text)>;
  // Skips the rows of the earlier run. kInvalidArgument: they are not the same rows, or the model
  // gives another vector for the first of them.
  Status SkipRowsBefore(RowSource* source, const EmbedOne& embed_one);

  // Whether the disk has room for `rows` rows of `dimensions` numbers; there may be more of them.
  // kUnavailable: it has not, with sizes. Before Open.
  Status CheckRoom(int64_t rows, int32_t dimensions) const;
  // How many rows are expected, 0 = unknown: a disk too small for them is reported early.
  void Expect(int64_t rows) { rows_expected_ = rows; }

  // Opens the output: X.part, anew or where the earlier run ended.
  Status Open();
  Status Append(const BulkWindow& window);
  // The output is whole. `dimensions`: of an output without rows.
  Status Finish(int32_t dimensions);
  // Ends an incomplete run. Returns `why`, with the files that are left. No more calls.
  Status Abandon(const Status& why);

  // What has been written: rows, their digest, how many were cut.
  const Checkpoint& done() const { return done_; }
  int64_t tokens() const { return done_.tokens; }
  int64_t cut() const { return done_.cut; }
  // Rows without a vector: of a matrix zeros, of JSON lines null with an "error".
  int64_t skipped() const { return done_.skipped; }
  // The path of the file that names skipped rows; "" where the output is not a regular file.
  std::string ErrorsPath() const;

 private:
  void WriteJsonLines(const BulkWindow& window);
  void WriteIds(const BulkWindow& window);
  Status WriteErrors(const BulkWindow& window);
  // Opens `ids_` or `errors_`: anew, or behind the first `bytes` of an earlier run.
  Status OpenBeside(const std::string& path, int64_t bytes, std::optional<OutputFile>* file) const;
  void WarnOfRoom();
  std::string IdsPath() const { return options_.path + ".ids"; }
  Status WriteCheckpoint();

  const Options options_;
  std::optional<Checkpoint> before_;
  Checkpoint done_;  // what has been written
  std::optional<OutputFile> file_;
  std::optional<OutputFile> ids_;       // nullopt: no ids, or JSON lines have them
  std::optional<OutputFile> errors_;    // nullopt: no row was skipped so far
  std::optional<MatrixWriter> matrix_;  // nullopt: JSON lines
  bool finishing_ = false;              // the header may be written, and files renamed
  Clock::time_point last_checkpoint_{};
  int64_t rows_expected_ = 0;
  bool warned_of_room_ = false;
};

}  // namespace penstock::bulk

// penstock embed: many texts as fast as the model goes, in bounded memory.
//
//   read --> window of rows --> sorted by length, cut into requests --> embedded, several at once
//                                 back in the order of the input <--'
//
// Texts of like length go together, which evens out what requests cost; the order is restored
// window by window, so that memory is bounded by two windows, the one being read and the one being
// worked on, and output can be a pipe. A window is as large as the model does in
// WindowPace::kWindowS: a program that is killed loses the work of two windows.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "api/types.h"
#include "base/status.h"
#include "bulk/checkpoint.h"
#include "corpus/row_reader.h"
#include "threads/request_context.h"

namespace penstock::bulk {

// The rows of the input, one after the other, and their digest.
class RowSource {
 public:
  // `keeps_bad`: rows that are bad are given, too; otherwise the first is a failure.
  explicit RowSource(corpus::RowReader* reader, bool keeps_bad = false)
      : reader_(reader), keeps_bad_(keeps_bad) {}
  // Nothing at the end.
  Expected<std::optional<corpus::Row>> Next();

  // A position: rows so far, and their digest.
  struct Mark {
    int64_t rows = 0;
    std::string digest;
  };
  Mark mark() const { return {rows_, digest_.Hex()}; }
  // Bytes of the texts so far.
  int64_t bytes() const { return bytes_; }

 private:
  corpus::RowReader* const reader_;
  const bool keeps_bad_;
  RowsDigest digest_;
  int64_t rows_ = 0;
  int64_t bytes_ = 0;
};

// Rows that are sorted, and put back in order, together.
class BulkWindow {
 public:
  static constexpr size_t kBytesMax = 64 << 20;  // of its texts
  static constexpr size_t kRequestBytesMax = 1 << 20;

  // `label_bytes`: of the text, kept as its label.
  explicit BulkWindow(size_t label_bytes = 0) : label_bytes_(label_bytes) {}

  // A bad row is skipped from the beginning.
  void Add(corpus::Row row);
  // The input's position after the window's last row.
  void SetMark(RowSource::Mark mark) { mark_ = std::move(mark); }
  const RowSource::Mark& mark() const { return mark_; }
  bool IsFull(size_t rows_max) const { return rows_.size() >= rows_max || bytes_ >= kBytesMax; }
  bool empty() const { return rows_.empty(); }

  // Its rows cut into requests, longest texts first. Called once all rows are added.
  using Rows = std::vector<size_t>;
  std::vector<Rows> Cut(size_t rows_max) const;
  // The texts of a request; unless `keep`, they are gone from the window then.
  std::vector<std::string> Texts(const Rows& rows, bool keep);
  size_t BytesOf(const Rows& rows) const;
  // Puts a request's vectors in their place; true when those of all rows are there. An error: the
  // vectors are not as many, or not as long, as they should be.
  Expected<bool> Place(const Rows& rows, std::span<const float> values, int32_t dimensions);
  // The row gets no vector, for this reason.
  void Skip(size_t row, std::string reason);
  // Every row has a vector or is skipped.
  bool IsWhole() const { return placed_ + skipped_ == rows_.size(); }
  // [rows, dimensions], in the order in which they were added; zeros where a row was skipped.
  std::span<const float> values() const { return values_; }
  int32_t dimensions() const { return dimensions_; }
  // For a window none of whose rows has a vector.
  void SetDimensions(int32_t dimensions);
  // Counts what the requests that were placed used.
  void Count(const encode::Usage& usage, const encode::Truncation& truncation);
  int64_t tokens() const { return tokens_; }
  int64_t cut() const { return cut_; }
  size_t rows() const { return rows_.size(); }
  size_t skipped() const { return skipped_; }
  // Why the row was skipped; nullopt: it was not.
  const std::optional<std::string>& error(size_t row) const { return rows_[row].error; }
  const std::string& where(size_t row) const { return rows_[row].where; }
  // The beginning of its text, whole characters and on one line; still there when Texts took it.
  const std::string& label(size_t row) const { return rows_[row].label; }
  // The id of a row, if the input has ids.
  const std::optional<std::string>& id(size_t row) const { return rows_[row].id; }
  // The same status, saying which line it is about: that of "inputs[3]" or "input[3]", or all.
  // Unchanged where it is about no line (IsOfRow).
  Status NameLine(const Status& status, const Rows& rows) const;

 private:
  struct Waiting {
    std::string text;
    std::optional<std::string> id;
    std::string where;
    std::optional<std::string> error;
    std::string label;
    size_t bytes = 0;
  };
  size_t label_bytes_;
  std::vector<Waiting> rows_;
  size_t bytes_ = 0;
  std::vector<float> values_;
  int32_t dimensions_ = 0;
  size_t placed_ = 0;
  size_t skipped_ = 0;
  int64_t tokens_ = 0;
  int64_t cut_ = 0;
  RowSource::Mark mark_;
};

// Rows of a window: as many as take kWindowS at the rate of earlier windows. The first ones are
// small, as a model may do one row a second.
class WindowPace {
 public:
  static constexpr double kWindowS = 1.5;
  static constexpr size_t kFirstRows = 8;
  static constexpr size_t kGrowth = 4;  // of a window over the one before, at most

  WindowPace(size_t rows_max, Clock::time_point now)
      : rows_max_(rows_max), rows_(std::min(kFirstRows, rows_max)), last_(now) {}
  size_t rows() const { return rows_; }
  // Records that a window of `rows` rows was finished at `now`.
  void Done(size_t rows, Clock::time_point now);

 private:
  const size_t rows_max_;
  size_t rows_;
  Clock::time_point last_;
};

// Whether a failure may be that of a row: the model or the server refused it, or its vector cannot
// be used. Others are those of the whole run: unknown model, not allowed, no server.
bool IsOfRow(const Status& failure);

struct BulkOptions {
  size_t window_rows = 8192;  // at most
  size_t request_rows = 256;  // at most
  size_t requests = 4;        // at once
  // Rows that are bad or refused are skipped instead of ending the run.
  bool skip = false;
  size_t label_bytes = 0;  // of a window's labels
  // The size of vectors, for windows whose rows are all skipped.
  int32_t dimensions = 0;
  // Once cancelled, no request is begun and the run ends (kCancelled).
  std::shared_ptr<CancelToken> stop = std::make_shared<CancelToken>();
};

// Embeds texts and calls back from any thread, now or later, exactly once.
using StartEmbed =
    std::function<void(std::vector<std::string> texts, api::Callback<api::EmbedResponse>)>;
// Gets the windows in the order of the input, each with all its vectors.
using TakeWindow = std::function<Status(const BulkWindow& window)>;
// Called for every finished request; `bytes` of the input.
using TakeProgress =
    std::function<void(size_t texts, const api::EmbedResponse& response, int64_t bytes)>;

// Embeds every row of `source`. Ends at the first failure, which names the line. With `skip` a
// request that is refused is halved and sent again until the rows at fault are alone; the reason is
// the error of the row alone.
Status EmbedInBulk(RowSource* source, const BulkOptions& options, const StartEmbed& start,
                   const TakeWindow& take, const TakeProgress& progress);

}  // namespace penstock::bulk

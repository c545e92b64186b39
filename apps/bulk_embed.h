// penstock embed --bulk: many texts as fast as the model goes, in bounded memory.
//
//   read --> window of rows --> sorted by length, cut into requests --> embedded, several at once
//                                 back in the order of the input <--'
//
// Texts of like length go together, which evens out what requests cost; the order is restored
// window by window, so that memory is bounded by two windows, the one being read and the one being
// worked on, and output can be a pipe.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "api/types.h"
#include "common/status.h"
#include "text_input.h"

namespace penstock {

// Rows that are sorted, and put back in order, together.
class BulkWindow {
 public:
  static constexpr size_t kBytesMax = 64 << 20;  // of its texts
  static constexpr size_t kRequestBytesMax = 1 << 20;

  // `where` says which line it is, for messages.
  void Add(std::string text, std::string where);
  bool IsFull(size_t rows_max) const { return rows_.size() >= rows_max || bytes_ >= kBytesMax; }
  bool empty() const { return rows_.empty(); }

  // Its rows cut into requests, longest texts first. All of it is added by now.
  using Rows = std::vector<size_t>;
  std::vector<Rows> Cut(size_t rows_max) const;
  // The texts of a request; they are gone from the window then.
  std::vector<std::string> TakeTexts(const Rows& rows);
  size_t BytesOf(const Rows& rows) const;
  // Puts a request's vectors in their place; true when those of all rows are there. An error: the
  // vectors are not as many, or not as long, as they should be.
  Expected<bool> Place(const Rows& rows, std::span<const float> values, int32_t dimensions);
  // [rows, dimensions], in the order in which they were added.
  std::span<const float> values() const { return values_; }
  // The same status, saying which line it is about: that of "inputs[3]" or "input[3]", or all.
  Status NameLine(const Status& status, const Rows& rows) const;

 private:
  struct Row {
    std::string text;
    std::string where;
    size_t bytes = 0;
  };
  std::vector<Row> rows_;
  size_t bytes_ = 0;
  std::vector<float> values_;
  int32_t dimensions_ = 0;
  size_t placed_ = 0;
};

struct BulkOptions {
  size_t window_rows = 8192;
  size_t request_rows = 256;
  size_t requests = 4;  // at once
};

// Embeds texts and calls back from any thread, now or later, exactly once.
using StartEmbed = std::function<void(std::vector<std::string> texts, Callback<EmbedResponse>)>;
// Gets the vectors in the order of the input.
using TakeVectors = std::function<Status(std::span<const float> values, int32_t dimensions)>;
// Hears of every request that is done; `bytes` of the input.
using TakeProgress =
    std::function<void(size_t texts, const EmbedResponse& response, int64_t bytes)>;

// Embeds every line of `reader`. Ends at the first failure, which names the line.
Status EmbedInBulk(LineReader* reader, const BulkOptions& options, const StartEmbed& start,
                   const TakeVectors& take, const TakeProgress& progress);

// Bytes of all files together; 0 where one is no regular file.
int64_t BytesOfFiles(const std::vector<std::string>& files);

}  // namespace penstock

// The lines of a batch: read and checked from its input, and printed into its output and error
// files.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "jobs/batch_store.h"
#include "threads/request_context.h"

namespace penstock::batch_api {

struct BatchLine {
  int64_t number = 0;  // from 1
  std::string custom_id;
  std::string body;  // of the request
};

// The longest line: its JSON takes sixteen times that while it is parsed.
inline constexpr size_t kBatchLineBytesMax = 4 << 20;

// {"custom_id", "method": "POST", "url", "body"}: url is the batch's endpoint, and the body does
// not ask for a stream. kInvalidArgument; field() is the field, and the message names the fault.
Expected<BatchLine> ParseBatchLine(std::string_view text, const std::string& endpoint);

// Everything that is wrong with the file at `path`, at most kBatchErrorsMax; *lines is how many
// requests it has. Blank lines are passed over. A file that is gone is an error of it;
// kUnavailable: it cannot be read now; kCancelled, looked at before each line (null: never).
inline constexpr size_t kBatchErrorsMax = 100;
Expected<std::vector<jobs::BatchError>> CheckBatchFile(const std::string& path,
                                                       const std::string& endpoint, int64_t* lines,
                                                       const CancelToken* cancel = nullptr);

// One line of a result file, with its end. `body` is JSON.
void AppendBatchAnswer(const BatchLine& line, int http_status, std::string_view request_id,
                       std::string_view body, std::string* out);
// The same of a line that was not run.
void AppendBatchError(const BatchLine& line, std::string_view code, std::string_view message,
                      std::string* out);

// The numbers of the lines that a result file has, and how many of its bytes are whole lines.
// kUnavailable: it cannot be read now.
Expected<std::vector<int64_t>> ReadAnswered(const std::string& path, uint64_t* whole_bytes);

}  // namespace penstock::batch_api

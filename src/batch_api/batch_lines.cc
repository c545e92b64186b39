#include "batch_api/batch_lines.h"

#include <cerrno>
#include <charconv>
#include <fstream>

#include "base/seeded_hash.h"
#include "batch_api/batch_runner.h"
#include "json/json.h"
#include "json/json_writer.h"

namespace penstock::batch_api {
namespace {

constexpr std::string_view kIdPrefix = "{\"id\":\"batch_req_";

bool IsBlank(std::string_view text) {
  return text.find_first_not_of(" \t\r") == std::string_view::npos;
}

Status CannotRead(const std::string& path) {
  return {StatusCode::kUnavailable, "cannot read " + path};
}

// Leaves the object open.
void BeginLine(const BatchLine& line, JsonWriter* json) {
  json->BeginObject().Field("id", "batch_req_" + std::to_string(line.number));
  json->Field("custom_id", line.custom_id);
}

}  // namespace

Expected<BatchLine> ParseBatchLine(std::string_view text, const std::string& endpoint) {
  if (text.size() > kBatchLineBytesMax) {
    return Status::InvalidArgument("the line has " + std::to_string(text.size()) +
                                   " bytes; the limit is " + std::to_string(kBatchLineBytesMax));
  }
  PENSTOCK_ASSIGN_OR_RETURN(const JsonDocument document, JsonDocument::Parse(text));
  PENSTOCK_ASSIGN_OR_RETURN(const JsonObject object, document.Object());
  BatchLine line;
  PENSTOCK_ASSIGN_OR_RETURN(line.custom_id,
                            object.GetString("custom_id", BatchRunner::kCustomIdBytesMax));
  PENSTOCK_ASSIGN_OR_RETURN(const std::string method, object.GetString("method"));
  if (method != "POST") return Status::InvalidArgument("'method' must be \"POST\"", "method");
  PENSTOCK_ASSIGN_OR_RETURN(const std::string url, object.GetString("url"));
  if (url != endpoint) {
    return Status::InvalidArgument("'url' must be the batch's endpoint, " + endpoint, "url");
  }
  PENSTOCK_ASSIGN_OR_RETURN(const JsonObject body, object.GetObject("body"));
  PENSTOCK_ASSIGN_OR_RETURN(const bool streams, body.GetBoolOr("stream", false));
  if (streams) {
    return Status::InvalidArgument("'body.stream' must be false: answers are whole", "body.stream");
  }
  line.body = object.Find("body")->Text();
  return line;
}

Expected<std::vector<jobs::BatchError>> CheckBatchFile(const std::string& path,
                                                       const std::string& endpoint, int64_t* lines,
                                                       const CancelToken* cancel) {
  std::vector<jobs::BatchError> errors;
  SeededSet<std::string> ids;
  std::ifstream file(path, std::ios::binary);
  std::string text;
  int64_t number = 0;
  *lines = 0;
  if (!file && errno == ENOENT) {
    return std::vector<jobs::BatchError>{
        {"missing_file", "the input file is gone", "input_file_id", 0}};
  }
  if (!file) return CannotRead(path);
  while (errors.size() < kBatchErrorsMax && std::getline(file, text)) {
    if (cancel != nullptr && cancel->cancelled()) {
      return Status(StatusCode::kCancelled, "the check of the input was ended");
    }
    ++number;
    if (IsBlank(text)) continue;
    if (++*lines > BatchRunner::kLinesMax) {
      errors.push_back({"too_many_requests",
                        "the file has more than " + std::to_string(BatchRunner::kLinesMax) +
                            " requests, the limit",
                        "", number});
      break;
    }
    auto line = ParseBatchLine(text, endpoint);
    if (!line.ok()) {
      errors.push_back({"invalid_request", line.status().message(), line.status().field(), number});
    } else if (!ids.insert(line->custom_id).second) {
      errors.push_back({"duplicate_custom_id",
                        "'" + line->custom_id + "' is the custom_id of two requests", "custom_id",
                        number});
    }
  }
  if (file.bad()) return CannotRead(path);
  if (*lines == 0 && errors.empty()) {
    errors.push_back({"empty_file", "the file has no request", "", 0});
  }
  return errors;
}

void AppendBatchAnswer(const BatchLine& line, int http_status, std::string_view request_id,
                       std::string_view body, std::string* out) {
  JsonWriter json(out);
  BeginLine(line, &json);
  json.Key("response").BeginObject().Field("status_code", http_status);
  json.Field("request_id", request_id).Key("body").Raw(body).EndObject();
  json.Key("error").Null().EndObject();
  *out += '\n';
}

void AppendBatchError(const BatchLine& line, std::string_view code, std::string_view message,
                      std::string* out) {
  JsonWriter json(out);
  BeginLine(line, &json);
  json.Key("response").Null().Key("error").BeginObject();
  json.Field("code", code).Field("message", message).EndObject().EndObject();
  *out += '\n';
}

Expected<std::vector<int64_t>> ReadAnswered(const std::string& path, uint64_t* whole_bytes) {
  std::vector<int64_t> numbers;
  *whole_bytes = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) return CannotRead(path);
  std::string text;
  while (std::getline(file, text) && !file.eof()) {  // at the end: the last line has no end
    int64_t number = 0;
    const std::string_view view = text;
    if (!view.starts_with(kIdPrefix)) break;
    const char* const begin = view.data() + kIdPrefix.size();
    const auto [end, error] = std::from_chars(begin, view.data() + view.size(), number);
    if (error != std::errc() || end == begin || *end != '"') break;
    numbers.push_back(number);
    *whole_bytes += text.size() + 1;
  }
  if (file.bad()) return CannotRead(path);
  return numbers;
}

}  // namespace penstock::batch_api

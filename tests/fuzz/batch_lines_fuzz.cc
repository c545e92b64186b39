// The input of a batch, line by line, and what is written of it: lines that are taken print to
// lines that are read again, and what is wrong is told with its line.
#include <fstream>
#include <set>
#include <string>

#include "batch_api/batch_lines.h"
#include "batch_api/batch_runner.h"
#include "fuzz_folder.h"
#include "fuzz_util.h"
#include "json/json.h"

namespace penstock {
namespace {

constexpr const char* kEndpoint = "/v1/embeddings";

void CheckLine(const batch_api::BatchLine& line, std::string_view text) {
  PENSTOCK_CHECK(line.custom_id.size() <= batch_api::BatchRunner::kCustomIdBytesMax);
  const auto body = JsonDocument::Parse(line.body);
  PENSTOCK_CHECK(body.ok() && body->Object().ok());
  PENSTOCK_CHECK(line.body.find('\n') == std::string::npos);
  // The same again.
  const auto again = batch_api::ParseBatchLine(text, kEndpoint);
  PENSTOCK_CHECK(again.ok() && again->body == line.body && again->custom_id == line.custom_id);
}

}  // namespace
}  // namespace penstock

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  if (size == 0) return 0;
  static const FuzzFolder folder;
  folder.Put("in.jsonl", {reinterpret_cast<const char*>(data), size});
  const std::string input = folder.path() + "/in.jsonl";
  int64_t lines = 0;
  const auto errors = batch_api::CheckBatchFile(input, kEndpoint, &lines);
  PENSTOCK_CHECK(errors.ok() && errors->size() <= batch_api::kBatchErrorsMax);
  for (const jobs::BatchError& error : *errors) {
    PENSTOCK_CHECK(!error.code.empty() && !error.message.empty());
    PENSTOCK_CHECK(error.line > 0 || error.code == "empty_file");
  }
  std::string printed;
  std::set<std::string> ids;
  std::ifstream file(input, std::ios::binary);
  int64_t good = 0;
  for (std::string one; std::getline(file, one);) {
    auto line = batch_api::ParseBatchLine(one, kEndpoint);
    if (!line.ok()) {
      PENSTOCK_CHECK(line.code() == StatusCode::kInvalidArgument);
      continue;
    }
    CheckLine(*line, one);
    ids.insert(line->custom_id);
    line->number = ++good;
    if (good % 2 == 0) {
      batch_api::AppendBatchError(*line, "code", "message", &printed);
    } else {
      batch_api::AppendBatchAnswer(*line, 200, "id", line->body, &printed);
    }
  }
  // Ids of lines that are taken differ where the file is.
  if (errors->empty()) PENSTOCK_CHECK(ids.size() == static_cast<size_t>(good) && good == lines);
  uint64_t whole = 0;
  folder.Put("out.jsonl", printed + "{\"id\":\"batch_req_");  // one is cut short
  const auto answered = batch_api::ReadAnswered(folder.path() + "/out.jsonl", &whole);
  PENSTOCK_CHECK(answered.ok() && answered->size() == static_cast<size_t>(good));
  PENSTOCK_CHECK(whole == printed.size());
  return 0;
}

PENSTOCK_FUZZ_MUTATE_WITH(penstock::fuzz::MutateJson)

// A form: the request's Content-Type up to the first NUL, then its body.
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz_util.h"
#include "jobs/multipart.h"

namespace penstock {
namespace {

// A boundary that no part of `parts` holds.
std::string BoundaryFor(const std::vector<jobs::FormPart>& parts) {
  for (size_t i = 0;; ++i) {
    std::string boundary = "b" + std::to_string(i);
    bool held = false;
    for (const jobs::FormPart& part : parts) {
      held = held || part.content.find("--" + boundary) != std::string_view::npos;
    }
    if (!held) return boundary;
  }
}

std::string Quoted(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + '"';
}

void CheckAgain(const std::vector<jobs::FormPart>& parts) {
  const std::string boundary = BoundaryFor(parts);
  std::string body;
  for (const jobs::FormPart& part : parts) {
    body += "--" + boundary + "\r\nContent-Disposition: form-data; name=" + Quoted(part.name);
    body += "; filename=" + Quoted(part.filename) + "\r\n\r\n";
    body += std::string(part.content) + "\r\n";
  }
  body += "--" + boundary + "--\r\n";
  const auto again = jobs::ParseForm("multipart/form-data; boundary=" + boundary, body);
  PENSTOCK_CHECK(again.ok() && again->size() == parts.size());
  for (size_t i = 0; i < parts.size(); ++i) {
    PENSTOCK_CHECK((*again)[i].name == parts[i].name);
    PENSTOCK_CHECK((*again)[i].filename == parts[i].filename);
    PENSTOCK_CHECK((*again)[i].content == parts[i].content);
  }
}

}  // namespace
}  // namespace penstock

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  fuzz::Input input(data, size);
  const std::string_view type = input.Part();
  const std::string_view body = input.Rest();
  const auto parts = jobs::ParseForm(type, body);
  if (!parts.ok()) {
    PENSTOCK_CHECK(parts.code() == StatusCode::kInvalidArgument);
    PENSTOCK_CHECK(parts.status().message().find("form") != std::string::npos);
    return 0;
  }
  PENSTOCK_CHECK(parts->size() <= jobs::kFormPartsMax);
  const char* last = body.data();
  size_t header_bytes = 0;
  for (const jobs::FormPart& part : *parts) {
    PENSTOCK_CHECK(part.content.data() >= last);
    last = part.content.data() + part.content.size();
    PENSTOCK_CHECK(last <= body.data() + body.size());
    PENSTOCK_CHECK(part.name.size() + part.filename.size() <= jobs::kFormHeaderBytesMax);
    header_bytes = std::max(header_bytes, 2 * (part.name.size() + part.filename.size()));
  }
  // Quotes take a byte more, and names as long as a header then do not fit.
  if (header_bytes + 100 <= jobs::kFormHeaderBytesMax) CheckAgain(*parts);
  return 0;
}

PENSTOCK_FUZZ_MUTATE_WITH(penstock::fuzz::MutateText)

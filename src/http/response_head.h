// Status line and headers of an answer, as they are sent.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "http/message.h"

namespace penstock {

struct HeadOptions {
  std::string_view date;  // of the Date header
  bool keep_alive = false;
  enum class Body { kLength, kChunked, kUntilClose } body = Body::kLength;
};

// Ends with the empty line. The body's length is that of response.body.
void AppendHead(const HttpRequest& request, const HttpResponse& response,
                const HeadOptions& options, std::string* out);

}  // namespace penstock

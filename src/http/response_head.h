// Status line and headers of an answer, as they are sent: a text for HTTP/1.1, a list for HTTP/2.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "http/message.h"
#include "http2/http2_handler.h"

namespace penstock::http {

struct HeadOptions {
  std::string_view date;  // of the Date header
  bool keep_alive = false;
  enum class Body { kLength, kChunked, kUntilClose } body = Body::kLength;
};

// Ends with the empty line. The body's length is that of response.body.
void AppendHead(const HttpRequest& request, const HttpResponse& response,
                const HeadOptions& options, std::string* out);

// The same for HTTP/2: ":status" first, names in lower case. `with_length`: the body's length is
// that of response.body; else it is not known yet.
http2::HeaderList AnswerFields(const HttpRequest& request, const HttpResponse& response,
                               std::string_view date, bool with_length);

}  // namespace penstock::http

#include "http/response_head.h"

namespace penstock {

void AppendHead(const HttpRequest& request, const HttpResponse& response,
                const HeadOptions& options, std::string* out) {
  std::string& head = *out;
  head += "HTTP/1.1 ";
  head += std::to_string(response.status);
  head += ' ';
  head += ReasonPhrase(response.status);
  head += "\r\nServer: penstock\r\nDate: ";
  head += options.date;
  head += "\r\nX-Request-Id: ";
  head += request.id;
  if (response.status != 204 && response.status != 304) {
    head += "\r\nContent-Type: ";
    head += response.content_type;
    if (options.body == HeadOptions::Body::kChunked) {
      head += "\r\nTransfer-Encoding: chunked";
    } else if (options.body == HeadOptions::Body::kLength) {
      head += "\r\nContent-Length: ";
      head += std::to_string(response.body.size());
    }
  }
  // Said also where it is the default: HTTP/1.0 clients need it.
  head += options.keep_alive ? "\r\nConnection: keep-alive" : "\r\nConnection: close";
  for (const auto* headers : {&response.headers, &request.response_headers}) {
    for (const auto& [name, value] : *headers) {
      head += "\r\n";
      head += name;
      head += ": ";
      head += value;
    }
  }
  head += "\r\n\r\n";
}

}  // namespace penstock

#include "http/response_head.h"

namespace penstock::http {
namespace {

bool HasBody(const HttpResponse& response) {
  return response.status != 204 && response.status != 304;
}

// The fields that do not depend on the version, in two halves: framing stands between them.
template <typename Use>
void ForEachOwnField(const HttpRequest& request, const HttpResponse& response,
                     std::string_view date, Use&& use) {
  use("Server", "penstock");
  use("Date", date);
  use("X-Content-Type-Options", "nosniff");
  use("X-Request-Id", request.id);
  if (HasBody(response)) use("Content-Type", response.content_type);
}

template <typename Use>
void ForEachGivenField(const HttpRequest& request, const HttpResponse& response, Use&& use) {
  for (const auto* headers : {&response.headers, &request.response_headers}) {
    for (const auto& [name, value] : *headers) use(name, value);
  }
}

}  // namespace

void AppendHead(const HttpRequest& request, const HttpResponse& response,
                const HeadOptions& options, std::string* out) {
  std::string& head = *out;
  head += "HTTP/1.1 ";
  head += std::to_string(response.status);
  head += ' ';
  head += ReasonPhrase(response.status);
  const auto add = [&](std::string_view name, std::string_view value) {
    head.append("\r\n").append(name).append(": ").append(value);
  };
  ForEachOwnField(request, response, options.date, add);
  if (HasBody(response)) {
    if (options.body == HeadOptions::Body::kChunked) {
      add("Transfer-Encoding", "chunked");
    } else if (options.body == HeadOptions::Body::kLength) {
      add("Content-Length", std::to_string(response.body.size()));
    }
  }
  // Said also where it is the default: HTTP/1.0 clients need it.
  add("Connection", options.keep_alive ? "keep-alive" : "close");
  ForEachGivenField(request, response, add);
  head += "\r\n\r\n";
}

http2::HeaderList AnswerFields(const HttpRequest& request, const HttpResponse& response,
                               std::string_view date, bool with_length) {
  http2::HeaderList fields = {{":status", std::to_string(response.status)}};
  const auto add = [&](std::string_view name, std::string_view value) {
    std::string lower(name);
    for (char& c : lower) {
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
    }
    fields.emplace_back(std::move(lower), value);
  };
  ForEachOwnField(request, response, date, add);
  if (with_length && HasBody(response)) add("Content-Length", std::to_string(response.body.size()));
  ForEachGivenField(request, response, add);
  return fields;
}

}  // namespace penstock::http

// What a client's Accept and Accept-Encoding headers ask for (RFC 9110, 12.5). Pure functions.
#pragma once

#include <string_view>

namespace penstock::http {

// Whether this Accept header asks for lines: it names application/x-ndjson with q > 0, and not with
// a lower q than application/json.
bool WantsNdjson(std::string_view accept);
// The same of text/html: browsers name it, programs that take anything (*/*) do not.
bool WantsHtml(std::string_view accept);
// Whether this Accept-Encoding header names gzip with q > 0.
bool AcceptsGzip(std::string_view accept_encoding);

}  // namespace penstock::http

// What the headers of a call hold (github.com/grpc/grpc, doc/PROTOCOL-HTTP2.md). Pure functions.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "http2/http2_handler.h"

namespace penstock::grpc {

// The first header of this name, in lower case, or "".
std::string_view HeaderOf(const http2::HeaderList& headers, std::string_view name);

// Makes bytes of the values of headers whose names end in "-bin": base64 with or without padding,
// or several of them with commas between, which become headers of their own. kInvalidArgument names
// the one that is none.
Status DecodeBinaryHeaders(http2::HeaderList* headers);

// A time that is longer means that there is none.
inline constexpr std::chrono::hours kGrpcTimeoutMax{24 * 366};

// "100m": at most 8 digits, and H, M, S, m(illi), u(micro) or n(ano) seconds. At most
// kGrpcTimeoutMax. nullopt: it is not of this form.
std::optional<std::chrono::nanoseconds> ParseGrpcTimeout(std::string_view text);

// Whether a list with commas between has this word.
bool ListHas(std::string_view list, std::string_view word);

// A text as grpc-message has it: what is not printable ASCII, and '%', as %XX.
std::string EncodeGrpcMessage(std::string_view text);

// An answer of HTTP to a request that is not a call of gRPC: another method or content type, or a
// proxy on the way that passes no trailers. nullopt: it is a call.
std::optional<http2::HeaderList> RefuseHead(const http2::Http2Request& request);

}  // namespace penstock::grpc

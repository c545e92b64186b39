#include "grpc/rpc_head.h"

#include <algorithm>
#include <charconv>

namespace penstock {
namespace {

std::string_view Find(const HeaderList& headers, std::string_view name) {
  for (const auto& [key, value] : headers) {
    if (key == name) return value;
  }
  return {};
}

// "application/grpc", of which the messages are protobuf's where nothing else is said.
bool IsGrpc(std::string_view type) {
  constexpr std::string_view kType = "application/grpc";
  if (!type.starts_with(kType)) return false;
  type.remove_prefix(kType.size());
  if (type.starts_with("+proto")) type.remove_prefix(6);
  return type.empty() || type.front() == ';' || type.front() == ' ';
}

}  // namespace

std::optional<std::chrono::nanoseconds> ParseGrpcTimeout(std::string_view text) {
  if (text.size() < 2 || text.size() > 9) return std::nullopt;
  int64_t value = 0;
  const char* const unit = text.data() + text.size() - 1;
  const auto [end, error] = std::from_chars(text.data(), unit, value);
  if (error != std::errc() || end != unit || value < 0 || text.front() == '-') return std::nullopt;
  const auto of = [value](auto one) -> std::chrono::nanoseconds {
    return value > kGrpcTimeoutMax / one ? std::chrono::nanoseconds(kGrpcTimeoutMax) : value * one;
  };
  switch (*unit) {
    case 'H':
      return of(std::chrono::hours(1));
    case 'M':
      return of(std::chrono::minutes(1));
    case 'S':
      return of(std::chrono::seconds(1));
    case 'm':
      return of(std::chrono::milliseconds(1));
    case 'u':
      return of(std::chrono::microseconds(1));
    case 'n':
      return of(std::chrono::nanoseconds(1));
  }
  return std::nullopt;
}

bool ListHas(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    std::string_view one = list.substr(0, list.find(','));
    list.remove_prefix(std::min(one.size() + 1, list.size()));
    while (one.starts_with(' ')) one.remove_prefix(1);
    while (one.ends_with(' ')) one.remove_suffix(1);
    if (one == word) return true;
  }
  return false;
}

std::string EncodeGrpcMessage(std::string_view text) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string encoded;
  encoded.reserve(text.size());
  for (const char c : text) {
    const auto byte = static_cast<uint8_t>(c);
    if (byte >= 0x20 && byte <= 0x7e && c != '%') {
      encoded += c;
    } else {
      encoded += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return encoded;
}

std::optional<HeaderList> RefuseHead(const Http2Request& request) {
  if (request.method != "POST") return HeaderList{{":status", "405"}, {"allow", "POST"}};
  if (!IsGrpc(Find(request.headers, "content-type"))) {
    return HeaderList{{":status", "415"}, {"accept-post", "application/grpc"}};
  }
  if (!ListHas(Find(request.headers, "te"), "trailers")) {
    return HeaderList{
        {":status", "400"},
        {"content-type", "application/grpc"},
        {"grpc-status", "13"},
        {"grpc-message", "te: trailers is missing; a proxy on the way drops trailers"}};
  }
  return std::nullopt;
}

}  // namespace penstock

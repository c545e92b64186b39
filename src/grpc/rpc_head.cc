#include "grpc/rpc_head.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/base64.h"

namespace penstock::grpc {
namespace {

// Cuts off the first of a list with commas between, without the spaces around it.
std::string_view TakeFirst(std::string_view* list) {
  std::string_view one = list->substr(0, list->find(','));
  list->remove_prefix(std::min(one.size() + 1, list->size()));
  while (one.starts_with(' ')) one.remove_prefix(1);
  while (one.ends_with(' ')) one.remove_suffix(1);
  return one;
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

std::string_view HeaderOf(const http2::HeaderList& headers, std::string_view name) {
  for (const auto& [key, value] : headers) {
    if (key == name) return value;
  }
  return {};
}

Status DecodeBinaryHeaders(http2::HeaderList* headers) {
  const size_t count = headers->size();
  for (size_t i = 0; i < count; ++i) {
    const std::string name = (*headers)[i].first;
    if (!name.ends_with("-bin")) continue;
    const std::string value = std::move((*headers)[i].second);
    std::string_view rest = value;
    for (bool first = true; first || !rest.empty(); first = false) {
      auto bytes = DecodeBase64(TakeFirst(&rest));
      if (!bytes) {
        return Status::InvalidArgument("the metadata '" + name.substr(0, 100) + "' is not base64",
                                       name.substr(0, 100));
      }
      if (first) {
        (*headers)[i].second = *std::move(bytes);
      } else {
        headers->emplace_back(name, *std::move(bytes));
      }
    }
  }
  return Status::Ok();
}

std::optional<std::chrono::nanoseconds> ParseGrpcTimeout(std::string_view text) {
  if (text.size() < 2 || text.size() > 9) return std::nullopt;
  int64_t value = 0;
  const char* const unit = text.data() + text.size() - 1;
  const auto [end, error] = std::from_chars(text.data(), unit, value);
  if (error != std::errc() || end != unit || value < 0 || text.front() == '-') return std::nullopt;
  constexpr std::pair<char, std::chrono::nanoseconds> kUnits[] = {
      {'H', std::chrono::hours(1)},        {'M', std::chrono::minutes(1)},
      {'S', std::chrono::seconds(1)},      {'m', std::chrono::milliseconds(1)},
      {'u', std::chrono::microseconds(1)}, {'n', std::chrono::nanoseconds(1)}};
  for (const auto& [name, one] : kUnits) {
    if (name != *unit) continue;
    return value > kGrpcTimeoutMax / one ? std::chrono::nanoseconds(kGrpcTimeoutMax) : value * one;
  }
  return std::nullopt;
}

bool ListHas(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    if (TakeFirst(&list) == word) return true;
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

std::optional<http2::HeaderList> RefuseHead(const http2::Http2Request& request) {
  if (request.method != "POST") return http2::HeaderList{{":status", "405"}, {"allow", "POST"}};
  if (!IsGrpc(HeaderOf(request.headers, "content-type"))) {
    return http2::HeaderList{{":status", "415"}, {"accept-post", "application/grpc"}};
  }
  if (!ListHas(HeaderOf(request.headers, "te"), "trailers")) {
    return http2::HeaderList{
        {":status", "400"},
        {"content-type", "application/grpc"},
        {"grpc-status", "13"},
        {"grpc-message", "te: trailers is missing; a proxy on the way drops trailers"}};
  }
  return std::nullopt;
}

}  // namespace penstock::grpc

#include "http/header_checks.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/ascii.h"
#include "base/split_list.h"

namespace penstock::http {
namespace {

bool IsDigit(unsigned char c) { return c >= '0' && c <= '9'; }

bool IsAlnum(unsigned char c) {
  return IsDigit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool IsHex(unsigned char c) {
  return IsDigit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

bool IsPort(std::string_view text) {
  if (text.size() > 5) return false;
  int32_t port = 0;
  for (const char c : text) {
    if (!IsDigit(static_cast<unsigned char>(c))) return false;
    port = port * 10 + (c - '0');
  }
  return port <= 65535;
}

bool IsNumber(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), IsDigit);
}

// reg-name of RFC 3986; an IPv4 address is one too.
bool IsName(std::string_view text) {
  if (text.empty() || text.size() > 255) return false;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c == '%') {
      if (i + 2 >= text.size() || !IsHex(static_cast<unsigned char>(text[i + 1])) ||
          !IsHex(static_cast<unsigned char>(text[i + 2]))) {
        return false;
      }
      i += 2;
    } else if (!IsAlnum(c) &&
               std::string_view("-._~!$&'()*+,;=").find(text[i]) == std::string_view::npos) {
      return false;
    }
  }
  return true;
}

// The authority of "http://authority/path", nothing if the target has another form.
std::optional<std::string_view> AuthorityOf(std::string_view target) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (LowerAscii(target.substr(0, scheme.size())) != scheme) continue;
    const std::string_view rest = target.substr(scheme.size());
    return rest.substr(0, rest.find_first_of("/?#"));
  }
  return std::nullopt;
}

// Calls `use` with each option of a comma-separated list, in lower case, without blanks around it.
template <typename Use>
void ForEachOption(std::string_view list, Use&& use) {
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    use(LowerAscii(Trimmed(std::string(list.substr(0, comma)))));
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
}

}  // namespace

bool IsTokenChar(unsigned char c) {
  return IsAlnum(c) || (c != 0 && std::string_view("!#$%&'*+-.^_`|~").find(static_cast<char>(c)) !=
                                      std::string_view::npos);
}

const char* HeaderLines::Feed(std::string_view bytes) {
  for (const char byte : bytes) {
    const auto c = static_cast<unsigned char>(byte);
    if (last_ == '\r' ? c != '\n' : c == '\n') return "lines must end with CRLF";
    if (last_ == '\n' && (c == ' ' || c == '\t')) return "folded header lines are not taken";
    const bool control = (c < 0x20 && c != '\t' && c != '\r' && c != '\n') || c == 0x7f;
    if (control) return "a control character in the header";
    last_ = c;
  }
  return nullptr;
}

bool AsksKeepAlive(int version, const HttpRequest& request) {
  bool close = false;
  bool keep = version >= 11;
  for (const auto& [name, value] : request.headers) {
    if (name != "connection") continue;
    ForEachOption(value, [&](const std::string& option) {
      close = close || option == "close";
      keep = keep || option == "keep-alive";
    });
  }
  return keep && !close;
}

std::optional<std::string> HostOf(std::string_view authority) {
  std::string_view host = authority;
  std::string_view after;
  if (host.starts_with('[')) {
    const size_t end = host.find(']');
    if (end == std::string_view::npos) return std::nullopt;
    after = host.substr(end + 1);
    host = host.substr(1, end - 1);
    std::array<unsigned char, sizeof(in6_addr)> bytes;
    const std::string address = LowerAscii(host);
    if (inet_pton(AF_INET6, address.c_str(), bytes.data()) != 1) return std::nullopt;
    if (address.find('\0') != std::string::npos) return std::nullopt;
    // One spelling for each address.
    std::array<char, INET6_ADDRSTRLEN> text;
    inet_ntop(AF_INET6, bytes.data(), text.data(), text.size());
    if (!after.empty() && (after[0] != ':' || !IsPort(after.substr(1)))) return std::nullopt;
    return std::string(text.data());
  }
  const size_t colon = host.find(':');
  if (colon != std::string_view::npos) {
    if (!IsPort(host.substr(colon + 1))) return std::nullopt;
    host = host.substr(0, colon);
  }
  if (!IsName(host)) return std::nullopt;
  std::string name = LowerAscii(host);
  if (name.size() > 1 && name.ends_with('.')) name.pop_back();
  return name;
}

std::optional<HeaderRefusal> CheckHeader(int version, std::string_view target,
                                         HttpRequest* request) {
  std::vector<std::string_view> hosts, codings;
  std::vector<std::string_view> lengths;
  for (const auto& [name, value] : request->headers) {
    if (name == "host") hosts.push_back(value);
    if (name == "transfer-encoding") codings.push_back(value);
    if (name == "content-length") lengths.push_back(value);
  }
  const auto malformed = [](const std::string& why) {
    return HeaderRefusal{400, "malformed HTTP request: " + why};
  };
  if (hosts.size() > 1 || (hosts.empty() && version >= 11)) {
    return malformed("exactly one Host header is needed");
  }
  if (!hosts.empty()) {
    const auto host = HostOf(hosts[0]);
    if (!host) return malformed("the Host header is not host[:port]");
    request->host = *host;
  }
  // RFC 9112 3.2.2: the host of an absolute target goes before the header's.
  if (const auto authority = AuthorityOf(target)) {
    const auto host = HostOf(*authority);
    if (!host) return malformed("the host of the request target is not host[:port]");
    request->host = *host;
  }
  // The parser takes equal ones, and "2,2", as one; a reader before this server may not.
  if (lengths.size() > 1) return malformed("more than one Content-Length");
  if (!lengths.empty() && !IsNumber(lengths[0])) return malformed("Content-Length is not a number");
  if (codings.empty()) return std::nullopt;
  // RFC 9112 6.1: such framing is to be taken as faulty.
  if (version < 11) return malformed("HTTP/1.0 has no Transfer-Encoding");
  if (codings.size() > 1 || LowerAscii(codings[0]) != "chunked") {
    return HeaderRefusal{501, "Transfer-Encoding must be chunked, and nothing else"};
  }
  return std::nullopt;
}

}  // namespace penstock::http

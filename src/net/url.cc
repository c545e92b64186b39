#include "net/url.h"

#include <algorithm>
#include <charconv>

namespace penstock::net {
namespace {

std::string Lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  }
  return out;
}

Status Bad(std::string_view url, std::string_view why) {
  return Status::InvalidArgument("the URL " + std::string(url.substr(0, 200)) + " " +
                                 std::string(why));
}

int HexOf(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = static_cast<char>(c | 32);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

std::string Decoded(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool escaped =
        text[i] == '%' && i + 2 < text.size() && HexOf(text[i + 1]) >= 0 && HexOf(text[i + 2]) >= 0;
    out.push_back(escaped ? static_cast<char>(HexOf(text[i + 1]) * 16 + HexOf(text[i + 2]))
                          : text[i]);
    if (escaped) i += 2;
  }
  return out;
}

// Spaces and bytes beyond ASCII are encoded, as other clients do; control characters, which could
// end the request's line, are not taken.
Expected<std::string> TargetOf(std::string_view url, std::string_view text) {
  constexpr char kHex[] = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7F) return Bad(url, "has a control character");
    if (byte == ' ' || byte >= 0x80) {
      out += {'%', kHex[byte >> 4], kHex[byte & 15]};
    } else {
      out.push_back(c);
    }
  }
  if (out.empty() || out[0] == '?') out.insert(0, 1, '/');
  return out;
}

// Segments "." and ".." are taken out (RFC 3986, 5.2.4).
std::string WithoutDots(std::string_view target) {
  const size_t query = std::min(target.find('?'), target.size());
  std::string_view path = target.substr(0, query);
  std::string out;
  while (!path.empty()) {
    const size_t end = std::min(path.find('/', 1), path.size());
    const std::string_view segment = path.substr(0, end);  // with its slash
    const bool last = end == path.size();
    path.remove_prefix(end);
    if (segment == "/..") {
      out.resize(out.rfind('/') == std::string::npos ? 0 : out.rfind('/'));
      if (last) out.push_back('/');
    } else if (segment == "/.") {
      if (last) out.push_back('/');
    } else {
      out += segment;
    }
  }
  if (out.empty()) out = "/";
  return out + std::string(target.substr(query));
}

}  // namespace

std::string Url::authority() const {
  const std::string name = host.find(':') == std::string::npos ? host : "[" + host + "]";
  return has_default_port() ? name : name + ":" + port;
}

std::string Url::ToString() const { return (tls ? "https://" : "http://") + authority() + target; }

Expected<Url> ParseUrl(std::string_view text) {
  const size_t scheme_end = text.find("://");
  if (scheme_end == std::string_view::npos)
    return Bad(text, "does not begin with http:// or https://");
  const std::string scheme = Lower(text.substr(0, scheme_end));
  if (scheme != "http" && scheme != "https") {
    return Bad(text, "is of a scheme that is not supported, other than http and https");
  }
  Url url;
  url.tls = scheme == "https";
  std::string_view rest = text.substr(scheme_end + 3);
  rest = rest.substr(0, rest.find('#'));
  const size_t path = std::min(rest.find_first_of("/?"), rest.size());
  std::string_view authority = rest.substr(0, path);
  PENSTOCK_ASSIGN_OR_RETURN(url.target, TargetOf(text, rest.substr(path)));
  if (const size_t at = authority.rfind('@'); at != std::string_view::npos) {
    url.user = Decoded(authority.substr(0, at));
    authority.remove_prefix(at + 1);
  }
  std::string_view port;
  if (authority.starts_with('[')) {
    const size_t close = authority.find(']');
    if (close == std::string_view::npos) return Bad(text, "has an address without its closing ]");
    url.host = Lower(authority.substr(1, close - 1));
    port = authority.substr(close + 1);
    if (!port.empty() && port[0] != ':') return Bad(text, "has characters behind an address");
    if (!port.empty()) port.remove_prefix(1);
  } else {
    const size_t colon = std::min(authority.find(':'), authority.size());
    url.host = Lower(authority.substr(0, colon));
    if (colon < authority.size()) port = authority.substr(colon + 1);
  }
  if (url.host.empty()) return Bad(text, "has no host");
  const bool is_name = std::ranges::all_of(url.host, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
           std::string_view("-._:%~").find(c) != std::string_view::npos;
  });
  if (!is_name) return Bad(text, "has a host with a character that no name has");
  url.port = url.tls ? "443" : "80";
  if (!port.empty()) {
    uint32_t number = 0;
    const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
    if (error != std::errc() || end != port.data() + port.size() || number == 0 || number > 65535) {
      return Bad(text, "has a port that is not 1 to 65535");
    }
    url.port = std::to_string(number);
  }
  return url;
}

Expected<Url> Resolve(const Url& base, std::string_view location) {
  const size_t colon = location.find(':');
  const size_t slash = location.find_first_of("/?#");
  if (colon != std::string_view::npos && colon < slash) return ParseUrl(location);
  if (location.starts_with("//")) {
    return ParseUrl((base.tls ? "https:" : "http:") + std::string(location));
  }
  location = location.substr(0, location.find('#'));
  Url url = base;
  const std::string_view path = std::string_view(base.target).substr(0, base.target.find('?'));
  std::string target;
  if (location.empty()) {
    target = base.target;
  } else if (location[0] == '/') {
    target = location;
  } else if (location[0] == '?') {
    target = std::string(path) + std::string(location);
  } else {
    target = std::string(path.substr(0, path.rfind('/') + 1)) + std::string(location);
  }
  PENSTOCK_ASSIGN_OR_RETURN(url.target, TargetOf(location, target));
  url.target = WithoutDots(url.target);
  return url;
}

}  // namespace penstock::net

#include "net/proxy.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

namespace penstock::net {
namespace {

std::string_view Variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string_view() : std::string_view(value);
}

// In lower case first. HTTP_PROXY in capitals is not read: a CGI program's client could set it by a
// header "Proxy" (CVE-2016-5385).
std::string_view ProxyNamed(bool tls) {
  const char* const https[] = {"https_proxy", "HTTPS_PROXY"};
  if (!tls) {
    if (const auto value = Variable("http_proxy"); !value.empty()) return value;
  } else {
    for (const char* const name : https) {
      if (const auto value = Variable(name); !value.empty()) return value;
    }
  }
  const auto all = Variable("all_proxy");
  return all.empty() ? Variable("ALL_PROXY") : all;
}

// Whether `host` is an address, and that of `one` or in its network ("10.0.0.0/8", "fd00::/8").
bool IsInNetwork(const std::string& host, std::string_view one) {
  const size_t slash = one.find('/');
  std::string_view base = one.substr(0, slash);
  if (base.starts_with('[') && base.ends_with(']')) base = base.substr(1, base.size() - 2);
  const int family = host.find(':') == std::string::npos ? AF_INET : AF_INET6;
  std::array<uint8_t, 16> address{}, network{};
  if (inet_pton(family, host.c_str(), address.data()) != 1 ||
      inet_pton(family, std::string(base).c_str(), network.data()) != 1) {
    return false;
  }
  size_t bits = family == AF_INET ? 32 : 128;
  if (slash != std::string_view::npos) {
    const std::string_view text = one.substr(slash + 1);
    size_t given = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), given);
    if (error != std::errc() || end != text.data() + text.size() || given > bits) return false;
    bits = given;
  }
  for (size_t i = 0; i < bits; ++i) {
    if (((address[i / 8] ^ network[i / 8]) >> (7 - i % 8) & 1) != 0) return false;
  }
  return true;
}

// Whether `host` is the name `one` or below it. A leading dot changes nothing.
bool IsBelow(std::string_view host, std::string_view one) {
  if (one.starts_with('.')) one.remove_prefix(1);
  if (one.empty() || one.size() > host.size()) return false;
  const std::string_view end = host.substr(host.size() - one.size());
  const bool same = std::ranges::equal(end, one, [](char a, char b) {
    return a == (b >= 'A' && b <= 'Z' ? static_cast<char>(b + 32) : b);
  });
  return same && (one.size() == host.size() || host[host.size() - one.size() - 1] == '.');
}

// Names, addresses and networks with commas or spaces between; "*" is any.
bool IsExcepted(const std::string& host) {
  std::string_view list = Variable("no_proxy");
  if (list.empty()) list = Variable("NO_PROXY");
  while (!list.empty()) {
    const size_t end = std::min(list.find_first_of(", "), list.size());
    const std::string_view one = list.substr(0, end);
    list.remove_prefix(std::min(end + 1, list.size()));
    if (one == "*" || IsBelow(host, one) || IsInNetwork(host, one)) return true;
  }
  return false;
}

}  // namespace

Expected<std::optional<Url>> ProxyFor(const Url& url) {
  const std::string_view named = ProxyNamed(url.tls);
  if (named.empty() || IsExcepted(url.host)) return std::optional<Url>();
  std::string text(named);
  if (text.find("://") == std::string::npos) text = "http://" + text;
  if (!text.starts_with("http://")) {
    return Status::Unsupported("the proxy " + text.substr(0, text.find("://")) +
                               "://... is not one by http, which alone is supported");
  }
  PENSTOCK_ASSIGN_OR_RETURN(Url proxy, ParseUrl(text));
  // curl's port of a proxy that names none.
  const std::string_view authority = std::string_view(text).substr(7, text.find('/', 7) - 7);
  if (proxy.port == "80" && authority.find(":80") == std::string_view::npos) proxy.port = "1080";
  return std::optional<Url>(std::move(proxy));
}

}  // namespace penstock::net

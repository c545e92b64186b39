#include "cache/redis_url.h"

#include <charconv>

namespace penstock::cache {
namespace {

constexpr int32_t kDbMax = 1'000'000;

Status Bad(const std::string& what) {
  return Status::InvalidArgument(what +
                                     "; expected redis://[[user]:password@]host[:port][/db] or "
                                     "unix://[[user]:password@]/path[?db=N]",
                                 "redis-url");
}

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool Decode(std::string_view text, std::string* out) {
  out->clear();
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out->push_back(text[i]);
      continue;
    }
    if (i + 2 >= text.size()) return false;
    const int high = HexDigit(text[i + 1]), low = HexDigit(text[i + 2]);
    if (high < 0 || low < 0 || high * 16 + low == 0) return false;
    out->push_back(static_cast<char>(high * 16 + low));
    i += 2;
  }
  return true;
}

template <typename T>
bool Number(std::string_view text, T most, T* out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  return error == std::errc() && end == text.data() + text.size() && *out >= 0 && *out <= most;
}

// "[user]:password@" off the front.
Status TakeLogin(std::string_view* rest, RedisUrl* url) {
  const size_t at = rest->rfind('@');
  if (at == std::string_view::npos) return Status::Ok();
  const std::string_view login = rest->substr(0, at);
  rest->remove_prefix(at + 1);
  const size_t colon = login.find(':');
  if (colon == std::string_view::npos) return Bad("a user without a password");
  if (!Decode(login.substr(0, colon), &url->user) ||
      !Decode(login.substr(colon + 1), &url->password) || url->password.empty()) {
    return Bad("the password cannot be read");
  }
  return Status::Ok();
}

Status ParseHost(std::string_view rest, RedisUrl* url) {
  const size_t slash = rest.find('/');
  std::string_view host = rest.substr(0, slash);
  if (slash != std::string_view::npos && slash + 1 < rest.size() &&
      !Number(rest.substr(slash + 1), kDbMax, &url->db)) {
    return Bad("the database is not a number");
  }
  std::string_view port;
  if (host.starts_with('[')) {
    const size_t end = host.find(']');
    if (end == std::string_view::npos) return Bad("'[' without ']'");
    const std::string_view after = host.substr(end + 1);
    if (!after.empty() && !after.starts_with(':')) return Bad("something after ']'");
    port = after.empty() ? after : after.substr(1);
    if (!after.empty() && port.empty()) return Bad("the port is not a number");
    host = host.substr(1, end - 1);
  } else if (const size_t colon = host.rfind(':'); colon != std::string_view::npos) {
    port = host.substr(colon + 1);
    if (port.empty()) return Bad("the port is not a number");
    host = host.substr(0, colon);
    if (host.find(':') != std::string_view::npos) return Bad("an IPv6 address wants brackets");
  }
  int32_t number = url->port;
  if (!port.empty() && (!Number(port, int32_t{65535}, &number) || number == 0)) {
    return Bad("the port is not a number from 1 to 65535");
  }
  url->port = static_cast<uint16_t>(number);
  if (!Decode(host, &url->host) || url->host.empty()) return Bad("no host");
  return Status::Ok();
}

Status ParseSocket(std::string_view rest, RedisUrl* url) {
  const size_t query = rest.find('?');
  if (query != std::string_view::npos) {
    const std::string_view option = rest.substr(query + 1);
    if (!option.starts_with("db=") || !Number(option.substr(3), kDbMax, &url->db)) {
      return Bad("after '?' only db=N is allowed");
    }
  }
  if (!Decode(rest.substr(0, query), &url->path) || !url->path.starts_with('/')) {
    return Bad("the path of a Unix socket begins with '/'");
  }
  // The limit of sockaddr_un.
  if (url->path.size() > 107) return Bad("the path of a Unix socket has 107 bytes at most");
  return Status::Ok();
}

}  // namespace

Expected<RedisUrl> RedisUrl::Parse(std::string_view text) {
  RedisUrl url;
  const size_t scheme = text.find("://");
  if (scheme == std::string_view::npos) return Bad("no scheme");
  const std::string_view name = text.substr(0, scheme);
  std::string_view rest = text.substr(scheme + 3);
  if (name == "rediss") {
    return Status::InvalidArgument(
        "rediss:// (TLS) is not supported: use redis:// through a tunnel such as stunnel",
        "redis-url");
  }
  if (name != "redis" && name != "unix") return Bad("unknown scheme");
  PENSTOCK_RETURN_IF_ERROR(TakeLogin(&rest, &url));
  PENSTOCK_RETURN_IF_ERROR(name == "redis" ? ParseHost(rest, &url) : ParseSocket(rest, &url));
  return url;
}

bool RedisUrl::IsLocal() const {
  if (!path.empty() || host == "localhost" || host == "::1") return true;
  return host.starts_with("127.") && host.find_first_not_of("0123456789.") == std::string::npos;
}

std::string RedisUrl::ToString() const {
  if (!path.empty()) return path + "?db=" + std::to_string(db);
  const bool v6 = host.find(':') != std::string::npos;
  return (v6 ? "[" + host + "]" : host) + ":" + std::to_string(port) + "/" + std::to_string(db);
}

}  // namespace penstock::cache

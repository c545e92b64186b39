#include "frontend/allowed_hosts.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "http/header_checks.h"

namespace penstock::frontend {
namespace {

bool IsLoopback(const in6_addr& address) {
  return IN6_IS_ADDR_LOOPBACK(&address) ||
         (IN6_IS_ADDR_V4MAPPED(&address) && address.s6_addr[12] == 127);
}

bool IsLoopback(const in_addr& address) { return ntohl(address.s_addr) >> 24 == 127; }

enum class HostKind { kName, kAddress, kLoopbackAddress };

HostKind KindOf(std::string_view host) {
  const std::string text(host);
  in_addr v4{};
  in6_addr v6{};
  if (inet_pton(AF_INET, text.c_str(), &v4) == 1) {
    return IsLoopback(v4) ? HostKind::kLoopbackAddress : HostKind::kAddress;
  }
  if (inet_pton(AF_INET6, text.c_str(), &v6) == 1) {
    return IsLoopback(v6) ? HostKind::kLoopbackAddress : HostKind::kAddress;
  }
  return HostKind::kName;
}

// An IPv6 address may stand without brackets, as in --host.
std::optional<std::string> HostOfFlag(const std::string& name) {
  in6_addr v6{};
  if (inet_pton(AF_INET6, name.c_str(), &v6) == 1) return http::HostOf("[" + name + "]");
  return http::HostOf(name);
}

}  // namespace

bool IsLoopback(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), "0", &hints, &found) != 0 || found == nullptr) return false;
  bool loopback = false;
  if (found->ai_family == AF_INET) {
    loopback = IsLoopback(reinterpret_cast<const sockaddr_in*>(found->ai_addr)->sin_addr);
  } else if (found->ai_family == AF_INET6) {
    loopback = IsLoopback(reinterpret_cast<const sockaddr_in6*>(found->ai_addr)->sin6_addr);
  }
  freeaddrinfo(found);
  return loopback;
}

Status AllowedHosts::Check(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (name == "*") continue;
    const std::string host = name.starts_with("*.") ? name.substr(2) : name;
    const auto read = HostOfFlag(host);
    const bool port = host.starts_with('[')
                          ? !host.ends_with(']')
                          : KindOf(host) == HostKind::kName && host.find(':') != std::string::npos;
    if (!read || port || host.find('*') != std::string::npos) {
      return Status::InvalidArgument(
          "an allowed host is a name or an address without a port, "
          "*.NAME for all names below it, or * for any; '" +
              name.substr(0, 200) + "' is not",
          "allowed_hosts");
    }
  }
  return Status::Ok();
}

AllowedHosts::AllowedHosts(const std::vector<std::string>& names, bool local,
                           const std::string& listen_host)
    : any_(names.empty() && !local), local_(names.empty() && local) {
  for (const std::string& name : names) {
    if (name == "*") {
      any_ = true;
    } else if (name.starts_with("*.")) {
      suffixes_.push_back("." + HostOfFlag(name.substr(2)).value_or(""));
    } else {
      names_.push_back(HostOfFlag(name).value_or(""));
    }
  }
  names_.emplace_back("localhost");
  if (!local_) return;
  suffixes_.emplace_back(".localhost");
  names_.push_back(HostOfFlag(listen_host).value_or(""));
  std::array<char, 256> own{};
  if (gethostname(own.data(), own.size() - 1) == 0) {
    names_.push_back(HostOfFlag(own.data()).value_or(""));
  }
}

bool AllowedHosts::Allows(std::string_view host) const {
  if (any_ || host.empty()) return true;
  const HostKind kind = KindOf(host);
  if (kind == HostKind::kLoopbackAddress) return true;
  if (local_ && kind == HostKind::kAddress) return true;
  return std::find(names_.begin(), names_.end(), host) != names_.end() ||
         std::any_of(suffixes_.begin(), suffixes_.end(), [&](const std::string& suffix) {
           return host.size() > suffix.size() && host.ends_with(suffix);
         });
}

}  // namespace penstock::frontend

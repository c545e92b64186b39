// The proxy of a request, as the environment names it: http_proxy, https_proxy or HTTPS_PROXY,
// all_proxy or ALL_PROXY, and no_proxy or NO_PROXY, with the meanings that curl gives them.
#pragma once

#include <optional>

#include "base/status.h"
#include "net/url.h"

namespace penstock::net {

// Empty: none. kUnsupported: a proxy that is not spoken to by HTTP (socks5://, https://).
Expected<std::optional<Url>> ProxyFor(const Url& url);

}  // namespace penstock::net

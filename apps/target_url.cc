#include "target_url.h"

#include "net/url.h"

namespace penstock::cli {

Status ParseTarget(const std::string& flag, const std::string& url, load::HttpTarget* target) {
  const auto address = net::ParseUrl(url.find("://") == std::string::npos ? "http://" + url : url);
  if (!address.ok() ||
      (address->target != "/" && address->target != "/v1" && address->target != "/v1/")) {
    return Status::InvalidArgument(flag + " is http://HOST:PORT or https://HOST:PORT, not '" + url +
                                   "'");
  }
  target->tls = address->tls;
  target->host = address->host;
  target->port = static_cast<uint16_t>(std::stoi(address->port));
  return Status::Ok();
}

}  // namespace penstock::cli

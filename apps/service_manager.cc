#include "service_manager.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "log/log.h"

namespace penstock::cli {

void TellServiceManager(std::string_view state) {
  const char* const variable = std::getenv("NOTIFY_SOCKET");
  if (variable == nullptr || *variable == '\0') return;
  const std::string_view path = variable;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if ((path[0] != '/' && path[0] != '@') || path.size() >= sizeof address.sun_path) {
    LogWarn("NOTIFY_SOCKET names no Unix socket: {}", path);
    return;
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  const bool abstract = path[0] == '@';
  if (abstract) address.sun_path[0] = '\0';
  // The length of an abstract name is that of the address; a path ends with NUL.
  const auto size =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size() + (abstract ? 0 : 1));
  const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const bool sent = fd >= 0 && sendto(fd, state.data(), state.size(), MSG_NOSIGNAL,
                                      reinterpret_cast<const sockaddr*>(&address),
                                      size) == static_cast<ssize_t>(state.size());
  if (!sent) LogWarn("cannot tell the service manager at {}: {}", path, std::strerror(errno));
  if (fd >= 0) close(fd);
}

}  // namespace penstock::cli

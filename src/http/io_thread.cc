#include "http/io_thread.h"

#include "http/connection.h"
#include "http2/http2_handler.h"

namespace penstock::http {

const std::string& IoThread::Date() {
  const std::time_t now = std::time(nullptr);
  if (now != date_unix_s_) {
    std::tm utc{};
    gmtime_r(&now, &utc);
    char text[40];
    const size_t size = std::strftime(text, sizeof(text), "%a, %d %b %Y %H:%M:%S GMT", &utc);
    date_.assign(text, size);
    date_unix_s_ = now;
  }
  return date_;
}

void IoThread::OnConnections(int change) {
  return handler != nullptr ? handler->OnConnections(change) : http2_handler->OnConnections(change);
}

void IoThread::OnBytes(size_t received, size_t sent) {
  return handler != nullptr ? handler->OnBytes(received, sent)
                            : http2_handler->OnBytes(received, sent);
}

}  // namespace penstock::http

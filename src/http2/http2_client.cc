#include "http2/http2_client.h"

#include <netdb.h>
#include <netinet/tcp.h>
#include <nghttp2/nghttp2.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <unordered_map>
#include <utility>
#include <vector>

#include "http2/bytes_view.h"

namespace penstock::http2 {
namespace {

// A connected socket, or -1.
int Dial(const std::string& host, uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) return -1;
  int descriptor = -1;
  for (const addrinfo* at = found; at != nullptr && descriptor < 0; at = at->ai_next) {
    descriptor = socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, at->ai_protocol);
    if (descriptor >= 0 && connect(descriptor, at->ai_addr, at->ai_addrlen) != 0) {
      close(descriptor);
      descriptor = -1;
    }
  }
  freeaddrinfo(found);
  if (descriptor < 0) return -1;
  const int on = 1;
  setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return descriptor;
}

}  // namespace

struct Http2Client::Impl {
  struct Body {
    std::string bytes;
    size_t at = 0;
    bool last = false;
  };

  Impl(int descriptor_in, Events* events_in) : descriptor(descriptor_in), events(events_in) {
    nghttp2_session_callbacks* callbacks = nullptr;
    PENSTOCK_CHECK(nghttp2_session_callbacks_new(&callbacks) == 0);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, OnHeader);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, OnFrame);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, OnData);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, OnClose);
    PENSTOCK_CHECK(nghttp2_session_client_new(&session, callbacks, this) == 0);
    nghttp2_session_callbacks_del(callbacks);
    nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, nullptr, 0);
  }
  ~Impl() {
    nghttp2_session_del(session);
    close(descriptor);
  }

  static Impl* Of(void* user) { return static_cast<Impl*>(user); }
  static int OnHeader(nghttp2_session*, const nghttp2_frame*, const uint8_t* name, size_t name_size,
                      const uint8_t* value, size_t value_size, uint8_t, void* user) {
    Of(user)->headers.emplace_back(BytesView(name, name_size), BytesView(value, value_size));
    return 0;
  }
  static int OnFrame(nghttp2_session*, const nghttp2_frame* frame, void* user) {
    if (frame->hd.type != NGHTTP2_HEADERS) return 0;
    Of(user)->events->OnHeaders(frame->hd.stream_id, std::exchange(Of(user)->headers, {}));
    return 0;
  }
  static int OnData(nghttp2_session*, uint8_t, int32_t stream, const uint8_t* bytes, size_t size,
                    void* user) {
    Of(user)->events->OnData(stream, BytesView(bytes, size));
    return 0;
  }
  static int OnClose(nghttp2_session*, int32_t stream, uint32_t error, void* user) {
    Of(user)->bodies.erase(stream);
    Of(user)->events->OnEnd(stream, error);
    return 0;
  }
  static ssize_t ReadBody(nghttp2_session*, int32_t stream, uint8_t* to, size_t size,
                          uint32_t* flags, nghttp2_data_source*, void* user) {
    Body& body = Of(user)->bodies[stream];
    const size_t part = std::min(size, body.bytes.size() - body.at);
    std::memcpy(to, body.bytes.data() + body.at, part);
    body.at += part;
    if (body.at < body.bytes.size()) return static_cast<ssize_t>(part);
    body.bytes.clear();
    body.at = 0;
    if (body.last) *flags |= NGHTTP2_DATA_FLAG_EOF;
    if (part == 0 && !body.last) return NGHTTP2_ERR_DEFERRED;
    return static_cast<ssize_t>(part);
  }

  const int descriptor;
  Events* const events;
  nghttp2_session* session = nullptr;
  HeaderList headers;  // of the frame that is read
  std::unordered_map<int32_t, Body> bodies;
};

Http2Client::Http2Client(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Http2Client::~Http2Client() = default;
int Http2Client::descriptor() const { return impl_->descriptor; }

Expected<std::unique_ptr<Http2Client>> Http2Client::Connect(const std::string& host, uint16_t port,
                                                            Events* events) {
  const int descriptor = Dial(host, port);
  if (descriptor < 0) {
    return Status(StatusCode::kUnavailable,
                  "cannot connect to " + host + ":" + std::to_string(port));
  }
  std::unique_ptr<Http2Client> client(new Http2Client(std::make_unique<Impl>(descriptor, events)));
  if (!client->Flush()) return Status(StatusCode::kUnavailable, "the connection was lost");
  return client;
}

int32_t Http2Client::Begin(const HeaderList& headers, bool last) {
  std::vector<nghttp2_nv> list;
  list.reserve(headers.size());
  for (const auto& [name, value] : headers) {
    const auto bytes = [](const std::string& text) {
      return reinterpret_cast<uint8_t*>(const_cast<char*>(text.data()));
    };
    list.push_back({bytes(name), bytes(value), name.size(), value.size(), NGHTTP2_NV_FLAG_NONE});
  }
  nghttp2_data_provider body{};
  body.read_callback = Impl::ReadBody;
  const int32_t stream = nghttp2_submit_request(impl_->session, nullptr, list.data(), list.size(),
                                                last ? nullptr : &body, nullptr);
  return std::max(stream, -1);
}

void Http2Client::SendData(int32_t stream, std::string bytes, bool last) {
  Impl::Body& body = impl_->bodies[stream];
  if (body.bytes.empty()) {
    body.bytes = std::move(bytes);
  } else {
    body.bytes += bytes;
  }
  body.last = last;
  nghttp2_session_resume_data(impl_->session, stream);
}

void Http2Client::Reset(int32_t stream, Http2Error error) {
  nghttp2_submit_rst_stream(impl_->session, NGHTTP2_FLAG_NONE, stream,
                            static_cast<uint32_t>(error));
}

bool Http2Client::Flush() {
  for (;;) {
    const uint8_t* bytes = nullptr;
    ssize_t size = nghttp2_session_mem_send(impl_->session, &bytes);
    if (size <= 0) return size == 0;
    while (size > 0) {
      const ssize_t sent = send(impl_->descriptor, bytes, static_cast<size_t>(size), MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent <= 0) return false;
      bytes += sent;
      size -= sent;
    }
  }
}

bool Http2Client::Receive() {
  std::array<uint8_t, 64 << 10> bytes;
  const ssize_t size = recv(impl_->descriptor, bytes.data(), bytes.size(), 0);
  if (size < 0 && errno == EINTR) return true;
  if (size <= 0) return false;
  if (nghttp2_session_mem_recv(impl_->session, bytes.data(), static_cast<size_t>(size)) < 0) {
    return false;
  }
  return Flush() && (nghttp2_session_want_read(impl_->session) != 0 ||
                     nghttp2_session_want_write(impl_->session) != 0);
}

}  // namespace penstock::http2

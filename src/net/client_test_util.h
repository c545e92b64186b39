// A server of its connections' bytes, and what a client gets of it.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "net/http_client.h"

namespace penstock::net {

// A connection of the server's side.
class Peer {
 public:
  // `tls`: after its handshake; null: plain.
  explicit Peer(int socket, SSL* tls = nullptr) : socket_(socket), tls_(tls) {}
  // A request with its body, "" at the end of the connection.
  std::string Read() {
    std::string text;
    size_t whole = std::string::npos;
    while (text.size() < whole) {
      char block[4096];
      const ssize_t got = tls_ != nullptr ? SSL_read(tls_, block, sizeof(block))
                                          : ::recv(socket_, block, sizeof(block), 0);
      if (got <= 0) return "";
      text.append(block, static_cast<size_t>(got));
      const size_t head = text.find("\r\n\r\n");
      if (head == std::string::npos) continue;
      const size_t length = text.find("Content-Length: ");
      whole = head + 4 + (length < head ? std::stoul(text.substr(length + 16)) : 0);
    }
    return text;
  }
  // False: the other side is gone.
  bool Write(const std::string& text) {
    for (size_t sent = 0; sent < text.size();) {
      const char* const rest = text.data() + sent;
      const ssize_t now = tls_ != nullptr
                              ? SSL_write(tls_, rest, static_cast<int>(text.size() - sent))
                              : ::send(socket_, rest, text.size() - sent, MSG_NOSIGNAL);
      if (now <= 0) return false;
      sent += static_cast<size_t>(now);
    }
    return true;
  }
  void Answer(const std::string& body, const std::string& headers = "", int status = 200) {
    Write("HTTP/1.1 " + std::to_string(status) + " x\r\n" + headers +
          "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
  }
  // The host that the client named in its handshake (SNI).
  std::string server_name() const {
    const char* const name = SSL_get_servername(tls_, TLSEXT_NAMETYPE_host_name);
    return name != nullptr ? name : "";
  }
  // The connection ends without a word, as if it were cut.
  void Cut() { is_cut_ = true; }
  bool is_cut() const { return is_cut_; }

 private:
  const int socket_;
  SSL* const tls_;
  bool is_cut_ = false;
};

// Calls `serve` for each connection, one at a time; by TLS, for each that has shaken hands.
class Server {
 public:
  explicit Server(std::function<void(Peer*)> serve, SSL_CTX* tls = nullptr)
      : serve_(std::move(serve)), tls_(tls) {
    // SSL_write has no MSG_NOSIGNAL.
    if (tls != nullptr) std::signal(SIGPIPE, SIG_IGN);
    listener_ = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(::listen(listener_, 16), 0);
    socklen_t bytes = sizeof(address);
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &bytes);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] {
      for (int one; (one = ::accept(listener_, nullptr, nullptr)) >= 0; ::close(one)) {
        ++connections_;
        open_ = one;
        Serve(one);
        open_ = -1;
      }
    });
  }
  ~Server() {
    ::shutdown(listener_, SHUT_RDWR);
    // A client may keep its connection for longer.
    if (const int one = open_; one >= 0) ::shutdown(one, SHUT_RDWR);
    thread_.join();
    ::close(listener_);
  }
  int connections() const { return connections_; }
  std::string at(const std::string& target = "/", const std::string& host = "127.0.0.1") const {
    return (tls_ != nullptr ? "https://" : "http://") + host + ":" + std::to_string(port_) + target;
  }

 private:
  void Serve(int socket) {
    if (tls_ == nullptr) {
      Peer peer(socket);
      serve_(&peer);
      return;
    }
    const std::unique_ptr<SSL, void (*)(SSL*)> tls(SSL_new(tls_), SSL_free);
    SSL_set_fd(tls.get(), socket);
    if (SSL_accept(tls.get()) != 1) return;
    Peer peer(socket, tls.get());
    serve_(&peer);
    if (!peer.is_cut()) SSL_shutdown(tls.get());
  }

  const std::function<void(Peer*)> serve_;
  SSL_CTX* const tls_;
  int listener_ = -1;
  uint16_t port_ = 0;
  std::atomic<int> connections_{0}, open_{-1};
  std::thread thread_;
};

struct Got {
  HttpResult result;
  HttpHead head;
  std::string body;
};

class HttpClientTest : public testing::Test {
 protected:
  static constexpr const char* kVariables[] = {"http_proxy", "https_proxy", "HTTPS_PROXY",
                                               "all_proxy", "ALL_PROXY"};
  void SetUp() override {
    for (const char* const name : kVariables) unsetenv(name);
  }
  void TearDown() override { SetUp(); }

  static HttpRequest To(const std::string& url) {
    HttpRequest request;
    request.url = *ParseUrl(url);
    return request;
  }
  Got Exchange(const HttpRequest& request) {
    Got got;
    got.result = client_.Exchange(request, SinkOf(&got));
    return got;
  }
  Got Follow(const HttpRequest& request, size_t redirects = 5) {
    Got got;
    got.result = client_.Follow(request, redirects, SinkOf(&got));
    return got;
  }
  static HttpSink SinkOf(Got* got) {
    return {[got](const HttpHead& head) {
              got->head = head;
              return Status::Ok();
            },
            [got](std::string_view data) {
              got->body += data;
              return Status::Ok();
            }};
  }

  std::atomic<bool> server_reads_again_{false};
  HttpClient client_{{2000, "", false}};
};

}  // namespace penstock::net

// A hub on loopback for the tests of this module.
#pragma once

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/sha256.h"
#include "base/temp_folder_test_util.h"
#include "hub/hub.h"

namespace penstock::hub {

struct Request {
  std::string method, path;
  std::map<std::string, std::string> headers;  // names as sent
};

struct Response {
  int status = 200;
  std::vector<std::string> headers;
  std::string body;
  std::optional<size_t> cut_after;  // bytes of the body to send before hanging up
  bool no_length = false;           // the body ends where the connection does
  int pause_ms = 0;                 // before the connection ends
};

// HTTP/1.1 on loopback, one connection at a time, one request a connection.
class TinyServer {
 public:
  using Handler = std::function<Response(const Request&)>;

  explicit TinyServer(Handler handler) : handler_(std::move(handler)) {
    listener_ = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(::listen(listener_, 16), 0);
    socklen_t bytes = sizeof(address);
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &bytes);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { Serve(); });
  }
  ~TinyServer() {
    ::shutdown(listener_, SHUT_RDWR);
    thread_.join();
    ::close(listener_);
  }

  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  // "GET /path" of every request so far.
  std::vector<std::string> log() const {
    const std::lock_guard lock(mutex_);
    return log_;
  }

 private:
  void Serve() {
    for (;;) {
      const int client = ::accept(listener_, nullptr, nullptr);
      if (client < 0) return;
      Answer(client);
      ::close(client);
    }
  }

  void Answer(int client) {
    std::string text;
    char block[4096];
    while (text.find("\r\n\r\n") == std::string::npos) {
      const ssize_t got = ::recv(client, block, sizeof(block), 0);
      if (got <= 0) return;
      text.append(block, static_cast<size_t>(got));
    }
    Request request;
    std::istringstream lines(text);
    std::string line;
    lines >> request.method >> request.path;
    std::getline(lines, line);
    while (std::getline(lines, line) && line != "\r") {
      const size_t colon = line.find(": ");
      request.headers[line.substr(0, colon)] = line.substr(colon + 2, line.size() - colon - 3);
    }
    {
      const std::lock_guard lock(mutex_);
      log_.push_back(request.method + " " + request.path);
    }
    const Response response = handler_(request);
    std::string out = "HTTP/1.1 " + std::to_string(response.status) + " x\r\nConnection: close\r\n";
    bool length = false;
    for (const std::string& header : response.headers) {
      out += header + "\r\n";
      length |= header.starts_with("Content-Length");
    }
    if (!length && !response.no_length)
      out += "Content-Length: " + std::to_string(response.body.size()) + "\r\n";
    out += "\r\n";
    if (request.method != "HEAD") {
      out += response.body.substr(0, response.cut_after.value_or(response.body.size()));
    }
    for (size_t sent = 0; sent < out.size();) {
      const ssize_t now = ::send(client, out.data() + sent, out.size() - sent, MSG_NOSIGNAL);
      if (now <= 0) return;
      sent += static_cast<size_t>(now);
    }
    // The pause that a test asks for, with the connection open.
    std::this_thread::sleep_for(std::chrono::milliseconds(response.pause_ms));
  }

  Handler handler_;
  int listener_ = -1;
  uint16_t port_ = 0;
  mutable std::mutex mutex_;
  std::vector<std::string> log_;
  std::thread thread_;
};

inline constexpr char kCommit[] = "0123456789abcdef0123456789abcdef01234567";

// A hub with one repository, acme/tiny. Weights are "large": HEAD and GET answer with a redirect
// to /cdn/..., and the facts about the file stand in the redirect.
struct FakeHub {
  std::map<std::string, std::string> files = {
      {"config.json", "{\"model_type\": \"bert\"}"},
      {"tokenizer.json", "{}"},
      {"modules.json", "[{\"type\": \"x.Pooling\", \"path\": \"1_Pooling\"}]"},
      {"1_Pooling/config.json", "{\"pooling_mode\": \"mean\"}"},
      {"model.safetensors", std::string(300'000, 'w')},
      {"pytorch_model.bin", "not wanted"},
      {"README.md", "not wanted"},
  };
  std::string token;                     // asked for if not empty
  bool says_sizes = true;                // of large files, before they come
  int failures = 0;                      // replies of 503 before the first other
  std::optional<size_t> cut_once_after;  // the first download of weights is cut
  int pause_once_ms = 0;                 // and stalls for so long first
  bool ignore_ranges = false;
  std::string wrong_weights;  // sent instead of the weights, as often as wrong_times
  int wrong_times = 0;
  int too_many = 0;  // replies of 429 to ranges before the first other
  std::vector<std::string> ranges;
  std::string cdn_authorization;

  Response operator()(const Request& request) {
    if (failures > 0) {
      --failures;
      return {503, {}, "busy", {}};
    }
    if (request.path.starts_with("/cdn/")) return Large(request);
    const auto authorization = request.headers.find("Authorization");
    if (!token.empty() &&
        (authorization == request.headers.end() || authorization->second != "Bearer " + token)) {
      return {401, {}, "", {}};
    }
    if (request.path.starts_with("/api/models/acme/tiny/revision/")) return List(request);
    const std::string resolve = std::string("/acme/tiny/resolve/") + kCommit + "/";
    if (!request.path.starts_with(resolve)) return {404, {}, "", {}};
    return File(request, request.path.substr(resolve.size()));
  }

  Response List(const Request& request) const {
    std::string revision = request.path.substr(request.path.rfind('/') + 1);
    revision = revision.substr(0, revision.find('?'));
    if (revision != "main" && revision != kCommit && revision != "refs%2Fpr%2F1") {
      return {404, {}, "", {}};
    }
    std::string json = std::string("{\"sha\":\"") + kCommit + "\",\"siblings\":[";
    for (const auto& [name, text] : files) json += "{\"rfilename\":\"" + name + "\"},";
    json.back() = ']';
    return {200, {}, json + "}", {}};
  }

  Response File(const Request& request, const std::string& name) {
    const auto file = files.find(name);
    if (file == files.end()) return {404, {}, "", {}};
    if (name.ends_with(".safetensors") || name.ends_with(".gguf")) {
      Response moved = {302,
                        {"X-Linked-Etag: \"" + Sha256Hex(file->second) + "\"",
                         "Location: http://" + request.headers.at("Host") + "/cdn/" + name},
                        "",
                        {}};
      if (says_sizes) {
        moved.headers.push_back("X-Linked-Size: " + std::to_string(file->second.size()));
      }
      return moved;
    }
    return {200,
            {"ETag: \"etag-" + std::to_string(std::hash<std::string>()(file->second)) + "\"",
             "Content-Length: " + std::to_string(file->second.size())},
            file->second,
            {}};
  }

  Response Large(const Request& request) {
    std::string body = files.at(request.path.substr(5));
    if (wrong_times > 0) {
      --wrong_times;
      body = wrong_weights;
    }
    if (request.headers.contains("Authorization")) {
      cdn_authorization = request.headers.at("Authorization");
    }
    Response response;
    if (too_many > 0 && request.headers.contains("Range")) {
      --too_many;
      return {429, {"Retry-After: 0"}, "", {}};
    }
    if (const auto range = request.headers.find("Range"); range != request.headers.end()) {
      ranges.push_back(range->second);
      if (!ignore_ranges) {
        const size_t from = std::stoul(range->second.substr(6));
        const size_t dash = range->second.find('-');
        const std::string end = range->second.substr(dash + 1);
        const size_t last = end.empty() ? body.size() - 1 : std::stoul(end);
        if (from >= body.size()) return {416, {}, "", {}};
        response.status = 206;
        response.headers.push_back("Content-Range: bytes " + std::to_string(from) + "-" +
                                   std::to_string(std::min(last, body.size() - 1)) + "/" +
                                   std::to_string(body.size()));
        body = body.substr(0, last + 1);
        body = body.substr(from);
      }
    }
    response.body = body;
    std::swap(response.cut_after, cut_once_after);
    std::swap(response.pause_ms, pause_once_ms);
    return response;
  }
};

class HubTest : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name :
         {"HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_TOKEN", "HF_ENDPOINT", "HF_HUB_CACHE",
          "HUGGINGFACE_HUB_CACHE", "HF_HOME", "HUGGING_FACE_HUB_TOKEN", "HF_TOKEN_PATH"}) {
      ::unsetenv(name);
    }
    ::unsetenv("XDG_CACHE_HOME");
    ::setenv("HOME", folder_.c_str(), 1);
    ::setenv("no_proxy", "127.0.0.1", 1);
    options_.cache_root = (folder_ / "hub").string();
    options_.http.backoff_ms = 1;
    server_.emplace([this](const Request& request) { return hub_(request); });
    options_.endpoint = server_->url();
  }
  void TearDown() override { server_.reset(); }

  std::filesystem::path Repository() const {
    return std::filesystem::path(options_.cache_root) / "models--acme--tiny";
  }
  std::filesystem::path Snapshot() const { return Repository() / "snapshots" / kCommit; }
  static std::string Text(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void Write(const std::filesystem::path& path, const std::string& text) const {
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
  }
  std::string Weights() const { return hub_.files.at("model.safetensors"); }
  std::filesystem::path WeightsBlob() const {
    return Repository() / "blobs" / Sha256Hex(Weights());
  }
  Status Failure(const std::string& reference) const {
    const auto folder = ResolveModel(reference, options_);
    EXPECT_FALSE(folder.ok()) << reference;
    return folder.status();
  }

  const TempFolder temp_;
  const std::filesystem::path folder_ = temp_.path();
  FakeHub hub_;
  std::optional<TinyServer> server_;
  ResolveOptions options_;
};

}  // namespace penstock::hub

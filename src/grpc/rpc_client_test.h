// A blocking client of gRPC, for tests: calls on one connection, from any threads.
#pragma once

#include <google/protobuf/message_lite.h>
#include <poll.h>
#include <sys/socket.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "grpc/grpc_status.h"
#include "grpc/rpc.h"
#include "grpc/rpc_fixture_test.h"
#include "http/message.h"
#include "http2/http2_client.h"

namespace penstock::grpc {

class ClientCall;

class ClientChannel final : private http2::Http2Client::Events {
 public:
  explicit ClientChannel(uint16_t port) {
    auto connected = http2::Http2Client::Connect("127.0.0.1", port, this);
    if (!connected.ok()) return;
    client_ = *std::move(connected);
    lost_ = false;
    reader_ = std::thread([this] { Run(); });
  }
  ~ClientChannel() {
    if (client_ == nullptr) return;
    shutdown(client_->descriptor(), SHUT_RDWR);
    reader_.join();
  }
  ClientChannel(const ClientChannel&) = delete;
  ClientChannel& operator=(const ClientChannel&) = delete;

  std::shared_ptr<ClientCall> Open(const std::string& path, const http2::HeaderList& metadata = {});
  // A call of this one message.
  std::shared_ptr<ClientCall> Send(const std::string& path,
                                   const google::protobuf::MessageLite& request,
                                   const http2::HeaderList& metadata = {});

 private:
  friend class ClientCall;
  void Run() {
    pollfd ready{client_->descriptor(), POLLIN, 0};
    for (;;) {
      poll(&ready, 1, -1);
      const std::lock_guard lock(mutex_);
      if (client_->Receive()) continue;
      lost_ = true;
      changed_.notify_all();
      return;
    }
  }
  // Within Receive, under mutex_.
  void OnHeaders(int32_t stream, http2::HeaderList headers) override;
  void OnData(int32_t stream, std::string_view bytes) override;
  void OnEnd(int32_t stream, uint32_t error) override;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::unique_ptr<http2::Http2Client> client_;
  std::thread reader_;
  bool lost_ = true;
  std::map<int32_t, std::shared_ptr<ClientCall>> calls_;  // under way
};

class ClientCall {
 public:
  explicit ClientCall(ClientChannel* channel) : channel_(channel) {}

  bool Write(const google::protobuf::MessageLite& message) {
    return WriteBytes(message.SerializeAsString());
  }
  bool WriteBytes(const std::string& message) { return Send(Frame(message), false); }
  void WritesDone() { Send({}, true); }
  // False: no message follows.
  bool Read(google::protobuf::MessageLite* message) {
    std::unique_lock lock(channel_->mutex_);
    channel_->changed_.wait(lock, [this] { return !messages_.empty() || Ended(); });
    if (messages_.empty()) return false;
    const std::string bytes = std::move(messages_.front());
    messages_.pop_front();
    return message->ParseFromString(bytes);
  }
  GrpcStatus Finish() {
    std::unique_lock lock(channel_->mutex_);
    channel_->changed_.wait(lock, [this] { return Ended(); });
    if (const std::string code = Of(headers_, "grpc-status"); !code.empty()) {
      std::string message;
      http::PercentDecode(Of(headers_, "grpc-message"), &message);
      return {static_cast<GrpcCode>(std::stoi(code)), message};
    }
    const bool reset = error_ == static_cast<uint32_t>(http2::Http2Error::kCancel);
    return {reset ? GrpcCode::kCancelled : GrpcCode::kUnavailable, "no status came"};
  }
  void Cancel() {
    const std::lock_guard lock(channel_->mutex_);
    if (Ended()) return;
    channel_->client_->Reset(number_, http2::Http2Error::kCancel);
    channel_->client_->Flush();
    error_ = static_cast<uint32_t>(http2::Http2Error::kCancel);
    channel_->changed_.notify_all();
  }
  // Headers and trailers together; after Finish.
  const http2::HeaderList& headers() const { return headers_; }

 private:
  friend class ClientChannel;
  bool Ended() const { return error_.has_value() || channel_->lost_; }
  bool Send(std::string bytes, bool last) {
    const std::lock_guard lock(channel_->mutex_);
    if (Ended()) return false;
    channel_->client_->SendData(number_, std::move(bytes), last);
    return channel_->client_->Flush();
  }

  ClientChannel* const channel_;
  // Guarded by the channel's mutex.
  int32_t number_ = -1;
  http2::HeaderList headers_;
  std::string bytes_;  // of a message that is not whole
  std::deque<std::string> messages_;
  std::optional<uint32_t> error_;  // with which it has ended; 0: whole
};

inline void ClientChannel::OnHeaders(int32_t stream, http2::HeaderList headers) {
  http2::HeaderList& all = calls_.at(stream)->headers_;
  for (auto& header : headers) all.push_back(std::move(header));
}

inline void ClientChannel::OnData(int32_t stream, std::string_view bytes) {
  ClientCall& call = *calls_.at(stream);
  std::string& all = call.bytes_;
  all += bytes;
  for (;;) {
    if (all.size() < RpcMessage::kHeadBytes) break;
    size_t size = 0;
    for (size_t i = 1; i < RpcMessage::kHeadBytes; ++i) {
      size = size << 8 | static_cast<uint8_t>(all[i]);
    }
    if (all.size() < RpcMessage::kHeadBytes + size) break;
    call.messages_.push_back(all.substr(RpcMessage::kHeadBytes, size));
    all.erase(0, RpcMessage::kHeadBytes + size);
  }
  changed_.notify_all();
}

inline void ClientChannel::OnEnd(int32_t stream, uint32_t error) {
  const auto call = calls_.extract(stream);
  if (!call.mapped()->error_) call.mapped()->error_ = error;
  changed_.notify_all();
}

inline std::shared_ptr<ClientCall> ClientChannel::Open(const std::string& path,
                                                       const http2::HeaderList& metadata) {
  http2::HeaderList headers = {
      {":method", "POST"}, {":scheme", "http"}, {":path", path}, {":authority", "127.0.0.1"}};
  headers.insert(headers.end(), metadata.begin(), metadata.end());
  headers.insert(headers.end(), {{"te", "trailers"}, {"content-type", "application/grpc"}});
  auto call = std::make_shared<ClientCall>(this);
  const std::lock_guard lock(mutex_);
  if (lost_) return call;
  call->number_ = client_->Begin(headers, false);
  if (call->number_ < 0) {
    call->error_ = static_cast<uint32_t>(http2::Http2Error::kRefusedStream);
  } else {
    calls_[call->number_] = call;
    lost_ = !client_->Flush();
  }
  return call;
}

inline std::shared_ptr<ClientCall> ClientChannel::Send(const std::string& path,
                                                       const google::protobuf::MessageLite& request,
                                                       const http2::HeaderList& metadata) {
  auto call = Open(path, metadata);
  call->Write(request);
  call->WritesDone();
  return call;
}

}  // namespace penstock::grpc

// A blocking client of gRPC, for tests: calls on one connection, from any threads.
#pragma once

#include <google/protobuf/message_lite.h>
#include <poll.h>
#include <sys/socket.h>

#include <chrono>
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
#include "http/message.h"
#include "http2/http2_client.h"

namespace penstock {

class ClientStream;

// What a call is made with, and what came back beside its messages. For one call.
class ClientContext {
 public:
  void AddMetadata(std::string name, std::string value) {
    metadata_.emplace_back(std::move(name), std::move(value));
  }
  void SetTimeout(std::chrono::milliseconds timeout) { timeout_ = timeout; }
  void TryCancel();
  const std::multimap<std::string, std::string>& trailing() const { return trailing_; }

 private:
  friend class ClientChannel;
  friend class ClientStream;
  HeaderList metadata_;
  std::optional<std::chrono::milliseconds> timeout_;
  std::multimap<std::string, std::string> trailing_;
  std::mutex mutex_;
  std::shared_ptr<ClientStream> stream_;  // guarded by mutex_
};

class ClientChannel final : private Http2Client::Events {
 public:
  explicit ClientChannel(uint16_t port) {
    auto connected = Http2Client::Connect("127.0.0.1", port, this);
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

  std::shared_ptr<ClientStream> Open(const std::string& path, ClientContext* context);
  // A call of one message and one answer.
  GrpcStatus Call(const std::string& path, ClientContext* context,
                  const google::protobuf::MessageLite& request,
                  google::protobuf::MessageLite* response);

 private:
  friend class ClientStream;
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
  void OnHeaders(int32_t stream, HeaderList headers) override;
  void OnData(int32_t stream, std::string_view bytes) override;
  void OnEnd(int32_t stream, uint32_t error) override;
  ClientStream* Find(int32_t stream);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::unique_ptr<Http2Client> client_;
  std::thread reader_;
  bool lost_ = true;
  std::map<int32_t, std::weak_ptr<ClientStream>> streams_;
};

class ClientStream {
 public:
  ClientStream(ClientChannel* channel, ClientContext* context)
      : channel_(channel), context_(context) {
    if (context->timeout_) deadline_ = Clock::now() + *context->timeout_;
  }

  bool Write(const google::protobuf::MessageLite& message) {
    return WriteBytes(message.SerializeAsString());
  }
  // `flag`: 1 where they are packed.
  bool WriteBytes(const std::string& message, char flag = 0) {
    std::string framed(1, flag);
    for (int shift = 24; shift >= 0; shift -= 8) {
      framed += static_cast<char>(message.size() >> shift);
    }
    return WriteRaw(framed + message, false);
  }
  bool WriteRaw(std::string bytes, bool last) {
    const std::lock_guard lock(channel_->mutex_);
    if (ended_ || channel_->lost_) return false;
    channel_->client_->SendData(number_, std::move(bytes), last);
    return channel_->client_->Flush();
  }
  void WritesDone() { WriteRaw({}, true); }
  // False: no message follows.
  bool ReadBytes(std::string* message) {
    std::unique_lock lock(channel_->mutex_);
    Wait(&lock, [this] { return !messages_.empty(); });
    if (messages_.empty()) return false;
    *message = std::move(messages_.front());
    messages_.pop_front();
    return true;
  }
  bool Read(google::protobuf::MessageLite* message) {
    std::string bytes;
    return ReadBytes(&bytes) && message->ParseFromString(bytes);
  }
  GrpcStatus Finish() {
    std::unique_lock lock(channel_->mutex_);
    Wait(&lock, [] { return false; });
    context_->trailing_ = headers_;
    if (local_) return *local_;
    if (const auto code = headers_.find("grpc-status"); code != headers_.end()) {
      const auto text = headers_.find("grpc-message");
      std::string message;
      if (text != headers_.end()) PercentDecode(text->second, &message);
      return {static_cast<GrpcCode>(std::stoi(code->second)), message};
    }
    if (ended_ && error_ == static_cast<uint32_t>(Http2Error::kCancel)) {
      return {GrpcCode::kCancelled, "reset"};
    }
    return {GrpcCode::kUnavailable, "the connection was lost"};
  }
  // Of headers and trailers alike.
  std::string Header(const std::string& name) {
    const std::lock_guard lock(channel_->mutex_);
    const auto found = headers_.find(name);
    return found == headers_.end() ? "" : found->second;
  }
  void Cancel(GrpcCode code = GrpcCode::kCancelled) {
    const std::lock_guard lock(channel_->mutex_);
    CancelLocked(code);
  }

 private:
  friend class ClientChannel;
  void CancelLocked(GrpcCode code) {
    if (ended_ || local_) return;
    local_ = GrpcStatus{code, "ended by the client"};
    if (channel_->lost_) return;
    channel_->client_->Reset(number_, Http2Error::kCancel);
    channel_->client_->Flush();
    channel_->changed_.notify_all();
  }
  // Until it is ready, or the call has ended.
  template <typename Ready>
  void Wait(std::unique_lock<std::mutex>* lock, Ready ready) {
    const auto done = [&] { return ready() || ended_ || local_ || channel_->lost_; };
    if (deadline_ == Clock::time_point::max()) return channel_->changed_.wait(*lock, done);
    if (channel_->changed_.wait_until(*lock, deadline_, done)) return;
    CancelLocked(GrpcCode::kDeadlineExceeded);
  }

  ClientChannel* const channel_;
  ClientContext* const context_;
  Clock::time_point deadline_ = Clock::time_point::max();
  // Guarded by the channel's mutex.
  int32_t number_ = -1;
  std::multimap<std::string, std::string> headers_;
  std::string bytes_;  // of a message that is not whole
  std::deque<std::string> messages_;
  std::optional<GrpcStatus> local_;  // that the client ended it with
  bool ended_ = false;
  uint32_t error_ = 0;
};

inline void ClientContext::TryCancel() {
  const std::lock_guard lock(mutex_);
  if (stream_ != nullptr) stream_->Cancel();
}

inline ClientStream* ClientChannel::Find(int32_t stream) {
  const auto found = streams_.find(stream);
  return found == streams_.end() ? nullptr : found->second.lock().get();
}

inline void ClientChannel::OnHeaders(int32_t stream, HeaderList headers) {
  if (ClientStream* const found = Find(stream)) {
    for (auto& header : headers) found->headers_.insert(std::move(header));
  }
  changed_.notify_all();
}

inline void ClientChannel::OnData(int32_t stream, std::string_view bytes) {
  ClientStream* const found = Find(stream);
  if (found == nullptr) return;
  std::string& all = found->bytes_;
  all += bytes;
  size_t at = 0;
  while (all.size() - at >= RpcMessage::kHeadBytes) {
    size_t size = 0;
    for (size_t i = 1; i < RpcMessage::kHeadBytes; ++i) {
      size = size << 8 | static_cast<uint8_t>(all[at + i]);
    }
    if (all.size() - at < RpcMessage::kHeadBytes + size) break;
    found->messages_.push_back(all.substr(at + RpcMessage::kHeadBytes, size));
    at += RpcMessage::kHeadBytes + size;
  }
  all.erase(0, at);
  changed_.notify_all();
}

inline void ClientChannel::OnEnd(int32_t stream, uint32_t error) {
  if (ClientStream* const found = Find(stream)) {
    found->ended_ = true;
    found->error_ = error;
  }
  streams_.erase(stream);
  changed_.notify_all();
}

inline std::shared_ptr<ClientStream> ClientChannel::Open(const std::string& path,
                                                         ClientContext* context) {
  HeaderList headers = {{":method", "POST"}, {":scheme", "http"},
                        {":path", path},     {":authority", "127.0.0.1"},
                        {"te", "trailers"},  {"content-type", "application/grpc"}};
  if (context->timeout_) {
    headers.emplace_back("grpc-timeout", std::to_string(context->timeout_->count()) + "m");
  }
  headers.insert(headers.end(), context->metadata_.begin(), context->metadata_.end());
  const auto stream = std::make_shared<ClientStream>(this, context);
  // Whoever cancels it meanwhile waits until it is there.
  const std::lock_guard opening(context->mutex_);
  context->stream_ = stream;
  {
    const std::lock_guard lock(mutex_);
    if (!lost_) {
      stream->number_ = client_->Begin(headers, false);
      streams_[stream->number_] = stream;
      if (!client_->Flush() || stream->number_ < 0) stream->ended_ = true;
    }
  }
  return stream;
}

inline GrpcStatus ClientChannel::Call(const std::string& path, ClientContext* context,
                                      const google::protobuf::MessageLite& request,
                                      google::protobuf::MessageLite* response) {
  const auto stream = Open(path, context);
  stream->Write(request);
  stream->WritesDone();
  const bool answered = stream->Read(response);
  GrpcStatus status = stream->Finish();
  if (status.ok() && !answered) status = {GrpcCode::kInternal, "there is no answer"};
  return status;
}

}  // namespace penstock

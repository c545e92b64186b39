#include "grpc/rpc.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "grpc/rpc_head.h"
#include "http/gzip.h"
#include "log/exception_status.h"

namespace penstock::grpc {
namespace {

// Answers of fewer bytes are not packed.
constexpr size_t kPackBytesMin = 1 << 10;
constexpr char kCancelledText[] = "the client has left";

}  // namespace

std::string RpcMessage::Framed(RpcMessage&& message, bool packed) {
  const size_t size = message.size();
  std::string framed = std::move(message.framed_);
  framed[0] = packed ? 1 : 0;
  for (size_t i = 0; i < 4; ++i) framed[4 - i] = static_cast<char>(size >> (8 * i));
  return framed;
}

Rpc::Rpc(const Options* options, http2::Http2Request request,
         std::shared_ptr<http2::Http2Answer> answer, bool streams)
    : options_(options),
      open_(options->open),
      request_(std::move(request)),
      answer_(std::move(answer)),
      streams_(streams),
      message_bytes_max_(options->message_bytes_max),
      ended_(request_.ended) {
  ReadHead();
  constexpr int32_t kAny = std::numeric_limits<int32_t>::max();
  PENSTOCK_CHECK(open_->TryAdd(kAny, kAny));
}

Rpc::~Rpc() { open_->Remove(); }

void Rpc::ReadHead() {
  head_status_ = DecodeBinaryHeaders(&request_.headers);
  if (const std::string_view timeout = Header("grpc-timeout"); !timeout.empty()) {
    const auto left = ParseGrpcTimeout(timeout);
    if (!left) {
      head_status_ = Status::InvalidArgument(
          "grpc-timeout must be 1 to 8 digits and a unit: H, M, S, m, u or n", "grpc-timeout");
    } else if (*left < kGrpcTimeoutMax) {
      deadline_ = request_.begin + *left;
      // A client cancels a single call itself, and the service keeps its deadline.
      if (streams_) ArmAt(deadline_);
    }
  }
  const std::string_view encoding = Header("grpc-encoding");
  if (encoding == "gzip") {
    packing_ = Packing::kGzip;
    packs_ = ListHas(Header("grpc-accept-encoding"), "gzip");
  } else if (!encoding.empty() && encoding != "identity") {
    packing_ = Packing::kUnknown;
  }
}

std::string_view Rpc::Header(std::string_view name) const {
  return HeaderOf(request_.headers, name);
}

void Rpc::AddInitialMetadata(std::string name, std::string value) {
  initial_.emplace_back(std::move(name), std::move(value));
}

void Rpc::AddTrailingMetadata(std::string name, std::string value) {
  trailing_.emplace_back(std::move(name), std::move(value));
}

void Rpc::SetMemory(std::shared_ptr<RequestMemory> memory, Priority priority) {
  memory_ = std::move(memory);
  priority_ = priority;
}

void Rpc::LimitMessages(int64_t bytes_max) {
  message_bytes_max_ = std::min(message_bytes_max_, bytes_max);
}

// ---- Messages that come

void Rpc::OnData(std::string_view bytes) {
  Lock lock(mutex_);
  if (finished_ || unreadable_) {
    lock.unlock();
    answer_->Consume(bytes.size());
    return;
  }
  // A single call is read up to its end, so what follows its message is seen.
  if (reading_ && pending_.empty() && !Whole()) return FillAndHand(std::move(lock), bytes);
  pending_.append(bytes);
  if (reading_ && Whole()) HandOver(std::move(lock));
}

void Rpc::OnEnd() {
  Lock lock(mutex_);
  ended_ = true;
  if (reading_) HandOver(std::move(lock));
}

void Rpc::Read() {
  const auto self = shared_from_this();
  Lock lock(mutex_);
  // The message before was taken over. That of a single call stands for what it was parsed to.
  if (held_ > 0) memory_->Give(std::exchange(held_, 0));
  reading_ = true;
  if (gone_ || unreadable_ || told_)
    return EndRead(std::move(lock), {StatusCode::kCancelled, kCancelledText});
  FillAndHand(std::move(lock), {});
}

// Takes from what waits, or else from `bytes`, of which the rest waits.
void Rpc::FillAndHand(Lock lock, std::string_view bytes) {
  size_t taken = 0;
  Status failure;
  try {
    if (pending_at_ < pending_.size()) {
      failure = Fill(std::string_view(pending_).substr(pending_at_), &taken);
      pending_at_ += taken;
      if (pending_at_ == pending_.size()) {
        pending_.clear();
        pending_at_ = 0;
      }
    } else {
      failure = Fill(bytes, &taken);
      pending_.append(bytes.substr(taken));
    }
  } catch (...) {
    failure = ExceptionStatus();
  }
  if (taken > 0) answer_->Consume(taken);
  if (!failure.ok()) return EndRead(std::move(lock), failure);
  HandOver(std::move(lock));
}

// Moves bytes to the message that is read, as many as belong to it.
Status Rpc::Fill(std::string_view bytes, size_t* taken) {
  size_t at = 0;
  while (head_size_ < head_.size() && at < bytes.size()) {
    head_[head_size_++] = static_cast<uint8_t>(bytes[at++]);
    *taken = at;
    if (head_size_ == head_.size()) PENSTOCK_RETURN_IF_ERROR(CheckHead());
  }
  const size_t part =
      head_size_ < head_.size() ? 0 : std::min(bytes.size() - at, length_ - message_.size());
  if (part == 0) return Status::Ok();
  PENSTOCK_RETURN_IF_ERROR(Reserve(message_.size() + part));
  message_.append(bytes.substr(at, part));
  *taken = at + part;
  return Status::Ok();
}

Status Rpc::CheckHead() {
  length_ = 0;
  for (size_t i = 1; i < head_.size(); ++i) length_ = length_ << 8 | head_[i];
  if (head_[0] > 1) {
    return FrameError(GrpcCode::kInvalidArgument, "a message begins with neither 0 nor 1");
  }
  if (head_[0] == 1 && packing_ == Packing::kNone) {
    return FrameError(GrpcCode::kInvalidArgument,
                      "a message is compressed, and grpc-encoding does not say how");
  }
  if (head_[0] == 1 && packing_ == Packing::kUnknown) {
    return FrameError(GrpcCode::kUnimplemented,
                      "messages may be compressed by gzip, and by nothing else");
  }
  if (static_cast<int64_t>(length_) > message_bytes_max_) return TooLarge(length_);
  return Status::Ok();
}

Status Rpc::TooLarge(size_t bytes) {
  return FrameError(
      GrpcCode::kResourceExhausted,
      fmt::format("the message has {} bytes, which is larger than max: {} {}", bytes,
                  message_bytes_max_ < options_->message_bytes_max ? "this method takes"
                                                                   : "--max-body-bytes allows",
                  message_bytes_max_));
}

// What is wrong with the message as such, whatever the service makes of a Status.
Status Rpc::FrameError(GrpcCode code, std::string message) {
  Status status = Status::InvalidArgument(message);
  if (!forced_) forced_ = GrpcStatus{code, std::move(message)};
  return status;
}

// Takes memory for `bytes` of the message. It grows as they come: the length is only a claim.
Status Rpc::Reserve(size_t bytes) {
  if (bytes <= message_.capacity() && (streams_ || counted_ > 0)) return Status::Ok();
  const size_t room =
      std::min(length_, std::max({bytes, 2 * message_.capacity(), kUncountedBytes}));
  if (memory_ != nullptr && (!streams_ || room > kUncountedBytes)) {
    const auto more = static_cast<int64_t>(room) - counted_;
    PENSTOCK_RETURN_IF_ERROR(memory_->Take(more));
    counted_ += more;
  }
  message_.reserve(room);
  return Status::Ok();
}

// What was read goes to the service, if it is all there.
void Rpc::HandOver(Lock lock) {
  const bool whole = Whole();
  if (whole && !streams_ && pending_at_ < pending_.size()) {
    return EndRead(std::move(lock), FrameError(GrpcCode::kInvalidArgument,
                                               "a second message came where one is allowed"));
  }
  if (!whole && ended_) {
    const char* const wrong = head_size_ > 0 ? "the call ends within a message"
                              : !streams_    ? "the call has no message"
                                             : nullptr;
    return EndRead(std::move(lock),
                   wrong == nullptr ? Status::Ok() : FrameError(GrpcCode::kInvalidArgument, wrong));
  }
  if (!whole || (!streams_ && !ended_)) return AwaitRest();
  read_by_ = Clock::time_point::max();
  Arrived message{std::move(message_), head_[0] == 1, std::exchange(counted_, 0)};
  message_.clear();
  head_size_ = 0;
  reading_ = false;
  ++reactions_;
  lock.unlock();
  if (!message.packed && message.bytes.size() <= kLongBytes) return Hand(std::move(message));
  const size_t bytes = message.bytes.size();
  const bool queued = RunGuarded("a message", [&] {
    const auto shared = std::make_shared<Arrived>(std::move(message));
    options_->on_worker(priority_, bytes,
                        [self = shared_from_this(), shared] { self->Hand(std::move(*shared)); });
  });
  if (queued) return;
  React([&] {
    reactor_->OnReadEnd(MakeStatus(StatusCode::kResourceExhausted, "the server is out of memory"));
  });
  Leave();
}

// A message that has begun, or that of a single call, must be there in time.
void Rpc::AwaitRest() {
  if (read_by_ != Clock::time_point::max() || (streams_ && head_size_ == 0)) return;
  read_by_ = Clock::now() + options_->read_timeout;
  ArmAt(read_by_);
}

void Rpc::Hand(Arrived message) {
  React([&] {
    const Status unpacked = message.packed ? Unpack(&message) : Status::Ok();
    {
      const Lock lock(mutex_);
      held_ = message.counted;
    }
    if (unpacked.ok()) {
      reactor_->OnMessage(std::move(message.bytes));
    } else {
      reactor_->OnReadEnd(unpacked);
    }
  });
  Leave();
}

Status Rpc::Unpack(Arrived* message) {
  std::string text;
  int64_t counted = 0;
  const auto limit = static_cast<size_t>(message_bytes_max_);
  Status status = http::Gunzip(message->bytes, limit, memory_.get(), &text, &counted);
  if (memory_ != nullptr) memory_->Give(std::exchange(message->counted, counted));
  message->bytes = std::move(text);
  const Lock lock(mutex_);
  if (status.code() == StatusCode::kPayloadTooLarge) return TooLarge(limit + 1);
  if (status.code() == StatusCode::kInvalidArgument) {
    return FrameError(GrpcCode::kInvalidArgument, "a message that is said to be gzip is not");
  }
  return status;
}

void Rpc::EndRead(Lock lock, const Status& status) {
  reading_ = false;
  read_by_ = Clock::time_point::max();
  if (!status.ok()) {
    unreadable_ = true;
    const size_t left = pending_.size() - pending_at_;
    std::string().swap(pending_);
    pending_at_ = 0;
    std::string().swap(message_);
    if (left > 0) answer_->Consume(left);
  }
  ++reactions_;
  lock.unlock();
  React([&] { reactor_->OnReadEnd(status); });
  Leave();
}

// ---- Messages that go

void Rpc::SendHead(bool last, http2::HeaderList* headers) {
  head_sent_ = true;
  http2::HeaderList all;
  all.reserve(3 + initial_.size() + (headers != nullptr ? headers->size() : 0));
  all.emplace_back(":status", "200");
  all.emplace_back("content-type", "application/grpc");
  if (packs_ && !last) all.emplace_back("grpc-encoding", "gzip");
  for (auto* const list : {&initial_, headers}) {
    if (list == nullptr) continue;
    std::move(list->begin(), list->end(), std::back_inserter(all));
  }
  answer_->SendHeaders(std::move(all), last);
}

void Rpc::SendMessage(RpcMessage message) {
  if (!head_sent_) SendHead(/*last=*/false, nullptr);
  bytes_out_ += message.size();
  if (packs_ && message.size() >= kPackBytesMin) {
    const std::string packed = http::Gzip(message.view());
    message = RpcMessage(packed.size());
    std::copy(packed.begin(), packed.end(), message.data());
    return answer_->SendData(RpcMessage::Framed(std::move(message), true), nullptr, false);
  }
  answer_->SendData(RpcMessage::Framed(std::move(message), false), nullptr, false);
}

// Packing is work for a worker.
void Rpc::Send(RpcMessage message, std::function<void()> then) {
  if (!packs_ || message.size() < kPackBytesMin) {
    SendMessage(std::move(message));
    return then();
  }
  const size_t bytes = message.size();
  const auto shared = std::make_shared<RpcMessage>(std::move(message));
  options_->on_worker(priority_, bytes, [self = shared_from_this(), shared, then] {
    self->React([&] {
      self->SendMessage(std::move(*shared));
      then();
    });
  });
}

void Rpc::Write(RpcMessage message) {
  const auto self = shared_from_this();
  {
    const Lock lock(mutex_);
    writing_ = true;
  }
  Send(std::move(message), [] {});
  // It may have been lost while it was sent.
  Lock lock(mutex_);
  if (gone_ && writing_) EndWrite(std::move(lock), false);
}

void Rpc::EndWrite(Lock lock, bool ok) {
  writing_ = false;
  ++reactions_;
  lock.unlock();
  React([&] { reactor_->OnWritten(ok); });
  Leave();
}

void Rpc::OnSent() {
  Lock lock(mutex_);
  if (writing_) EndWrite(std::move(lock), true);
}

void Rpc::Finish(GrpcStatus status, std::optional<RpcMessage> message) {
  const auto self = shared_from_this();
  bool send = true;
  {
    const Lock lock(mutex_);
    finished_ = true;
    send = !gone_;
    ++reactions_;
    if (!status.ok() && forced_) status = std::move(*forced_);
  }
  code_ = status.code;
  React([&] {
    if (!send) return;
    http2::HeaderList end;
    end.reserve(2 + trailing_.size());
    end.emplace_back("grpc-status", std::to_string(static_cast<int>(status.code)));
    if (!status.message.empty()) {
      end.emplace_back("grpc-message", EncodeGrpcMessage(status.message));
    }
    if (code_ == GrpcCode::kUnimplemented && packing_ == Packing::kUnknown) {
      end.emplace_back("grpc-accept-encoding", "identity, gzip");
    }
    std::move(trailing_.begin(), trailing_.end(), std::back_inserter(end));
    if (!message) return SendEnd(std::move(end));
    const auto shared = std::make_shared<http2::HeaderList>(std::move(end));
    Send(*std::move(message), [this, shared] { SendEnd(std::move(*shared)); });
  });
  Leave();
}

void Rpc::SendEnd(http2::HeaderList end) {
  if (!head_sent_) return SendHead(/*last=*/true, &end);
  answer_->SendTrailers(std::move(end));
}

// ---- Time and the end

void Rpc::WakeAt(Clock::time_point at) {
  const Lock lock(mutex_);
  wake_at_ = at;
  ArmAt(at);
}

void Rpc::ArmAt(Clock::time_point at) {
  if (at >= armed_at_) return;  // when that has come, this is seen
  armed_at_ = at;
  answer_->WakeAt(at);
}

void Rpc::OnTime() {
  Lock lock(mutex_);
  const auto now = Clock::now();
  armed_at_ = Clock::time_point::max();
  if (streams_ && !finished_ && !told_) {
    if (now < deadline_) {
      ArmAt(deadline_);
    } else {
      forced_ = GrpcStatus{GrpcCode::kDeadlineExceeded, "the call's deadline has passed"};
      return Tell(std::move(lock));
    }
  }
  if (reading_ && now >= read_by_) {
    return EndRead(std::move(lock),
                   FrameError(GrpcCode::kDeadlineExceeded,
                              fmt::format("the message did not arrive within {} ms "
                                          "(--read-timeout-ms)",
                                          options_->read_timeout.count())));
  }
  if (reading_) ArmAt(read_by_);
  if (now < wake_at_) return ArmAt(wake_at_);
  wake_at_ = Clock::time_point::max();
  if (finished_) return;
  ++reactions_;
  lock.unlock();
  React([&] { reactor_->OnWake(); });
  Leave();
}

void Rpc::OnInterrupt() {
  Lock lock(mutex_);
  if (finished_ || told_) return;
  forced_ = GrpcStatus{GrpcCode::kUnavailable, "the server stops"};
  Tell(std::move(lock));
}

void Rpc::OnGone(http2::Http2Gone how) {
  Lock lock(mutex_);
  gone_ = true;
  cancelled_ = how != http2::Http2Gone::kAnswered;
  Tell(std::move(lock));
}

// The answer is not wanted.
void Rpc::Tell(Lock lock) {
  const bool tell = !finished_ && !std::exchange(told_, true);
  const bool reading = std::exchange(reading_, false);
  const bool writing = gone_ && std::exchange(writing_, false);
  ++reactions_;
  lock.unlock();
  if (tell) React([&] { reactor_->OnCancel(); });
  if (reading) React([&] { reactor_->OnReadEnd({StatusCode::kCancelled, kCancelledText}); });
  if (writing) React([&] { reactor_->OnWritten(false); });
  Leave();
}

template <typename Reaction>
void Rpc::React(Reaction reaction) noexcept {
  if (RunGuarded("a call", reaction)) return;
  RunGuarded("a call", [this] { Cancel(); });  // it cannot go on
}

void Rpc::Leave() {
  {
    const Lock lock(mutex_);
    --reactions_;
    if (!finished_ || !gone_ || reactions_ > 0 || std::exchange(done_, true)) return;
  }
  RunGuarded("the end of a call", [this] { reactor_->OnDone(); });
}

}  // namespace penstock::grpc

// Frames of an HTTP/2 client into the calls of gRPC (grpc/rpc.h), the services that answer them,
// workers that run later, and time: steps, each an operation in one byte and what it needs.
//
// A call's path says what its service is: one that answers each message with the same (e: a single
// call, t: a stream), else one that reads, writes and finishes when a step says so (s: a stream).
// A service must be told what it asked for and nothing else, and OnDone once and last. Messages
// stay within the limit and are counted. What goes out are whole messages and a status. At the end
// nothing is counted any more.
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "fuzz_util.h"
#include "grpc/rpc.h"
#include "http/gzip.h"
#include "http2/http2_session.h"
#include "http2/http2_test_util.h"
#include "log/log.h"
#include "threads/byte_budget.h"

namespace penstock {
namespace {

constexpr size_t kInputBytesMax = 8192;
constexpr size_t kMessageBytesMax = 200'000;
constexpr int64_t kBudgetBytes = 500'000;

class Call final : public grpc::RpcReactor {
 public:
  Call(std::shared_ptr<grpc::Rpc> rpc, std::shared_ptr<RequestMemory> memory, char kind)
      : rpc_(std::move(rpc)),
        memory_(std::move(memory)),
        streams_(kind == 's' || kind == 't'),
        echoes_(kind == 'e' || kind == 't') {}
  ~Call() { PENSTOCK_CHECK(done_); }

  void Start() {
    rpc_->SetReactor(this);
    rpc_->SetMemory(memory_, Priority::kInteractive);
    if (!rpc_->head_status().ok()) return Finish(grpc::GrpcCode::kInvalidArgument, "a head");
    Read();
  }
  // A step of the service.
  void Act(uint8_t what, fuzz::Input* input, Clock::time_point now) {
    if (done_ || echoes_) return;
    switch (what % 8) {
      case 0:
      case 1:
        return Read();
      case 2:
      case 3:
        return Write(grpc::RpcMessage(input->Number(0, 5000)));
      case 4:
        if (!finished_) rpc_->WakeAt(now + std::chrono::seconds(what));
        return;
      case 5:
        if (!finished_) rpc_->Cancel();
        return;
      default:
        return Finish(static_cast<grpc::GrpcCode>(what / 8 % 17), std::string(input->Part()));
    }
  }
  void End() { Finish(grpc::GrpcCode::kInternal, "the end"); }
  bool done() const { return done_; }

  void OnMessage(std::string message) override {
    PENSTOCK_CHECK(std::exchange(reading_, false) && !finished_ && !read_ended_);
    PENSTOCK_CHECK(message.size() <= kMessageBytesMax);
    const bool counted = !streams_ || message.size() > grpc::Rpc::kUncountedBytes;
    PENSTOCK_CHECK(!counted || memory_->held() >= static_cast<int64_t>(message.size()));
    PENSTOCK_CHECK(streams_ || ++messages_ == 1);
    if (!echoes_) return;
    grpc::RpcMessage answer(message.size());
    std::copy(message.begin(), message.end(), answer.data());
    if (streams_) return Write(std::move(answer));
    finished_ = true;
    rpc_->Finish({grpc::GrpcCode::kOk, ""}, std::move(answer));
  }
  void OnReadEnd(const Status& status) override {
    PENSTOCK_CHECK(std::exchange(reading_, false) && !finished_);
    read_ended_ = true;
    if (echoes_)
      Finish(status.ok() ? grpc::GrpcCode::kOk : grpc::GrpcCode::kInvalidArgument,
             status.message());
  }
  void OnWritten(bool ok) override {
    PENSTOCK_CHECK(std::exchange(writing_, false) && !finished_);
    if (!echoes_) return;
    if (ok) return Read();
    Finish(grpc::GrpcCode::kCancelled, "not written");
  }
  void OnWake() override { PENSTOCK_CHECK(!finished_); }
  void OnCancel() override { PENSTOCK_CHECK(!std::exchange(cancelled_, true) && !finished_); }
  void OnDone() override { PENSTOCK_CHECK(finished_ && !std::exchange(done_, true)); }

 private:
  bool busy() const { return reading_ || writing_ || finished_; }
  void Read() {
    if (reading_ || finished_ || read_ended_ || (!streams_ && messages_ > 0)) return;
    reading_ = true;
    rpc_->Read();
  }
  void Write(grpc::RpcMessage message) {
    if (writing_ || finished_) return;
    writing_ = true;
    rpc_->Write(std::move(message));
  }
  void Finish(grpc::GrpcCode code, std::string message) {
    if (busy()) return;
    finished_ = true;
    rpc_->Finish({code, std::move(message)});
  }

  const std::shared_ptr<grpc::Rpc> rpc_;
  const std::shared_ptr<RequestMemory> memory_;
  const bool streams_, echoes_;
  bool reading_ = false, read_ended_ = false, writing_ = false, cancelled_ = false;
  bool finished_ = false, done_ = false;
  int messages_ = 0;
};

class Handler final : public http2::Http2Handler {
 public:
  Handler() {
    options_.message_bytes_max = kMessageBytesMax;
    options_.on_worker = [this](Priority, size_t, std::function<void()> work) {
      tasks_.push_back(std::move(work));
    };
  }
  std::shared_ptr<http2::Http2Receiver> OnStream(
      http2::Http2Request request, std::shared_ptr<http2::Http2Answer> answer) override {
    const char kind = request.path.size() > 1 ? request.path[1] : 'u';
    const auto memory = std::make_shared<RequestMemory>(budget_, Priority::kInteractive);
    const auto rpc = std::make_shared<grpc::Rpc>(&options_, std::move(request), std::move(answer),
                                                 kind == 's' || kind == 't');
    calls_.push_back(std::make_unique<Call>(rpc, memory, kind));
    calls_.back()->Start();
    return rpc;
  }
  void Act(fuzz::Input* input, Clock::time_point now) {
    if (calls_.empty()) return;
    Call& call = *calls_[input->Byte() % calls_.size()];
    call.Act(input->Byte(), input, now);
  }
  void RunTask() {
    if (tasks_.empty()) return;
    const auto task = std::move(tasks_.front());
    tasks_.pop_front();
    task();
  }
  // The connection is lost.
  void End() {
    while (!tasks_.empty()) RunTask();
    for (const auto& call : calls_) call->End();
    while (!tasks_.empty()) RunTask();
    for (const auto& call : calls_) PENSTOCK_CHECK(call->done());
    calls_.clear();
    PENSTOCK_CHECK(budget_->used() == 0);
  }

 private:
  const std::shared_ptr<ByteBudget> budget_ = std::make_shared<ByteBudget>(kBudgetBytes);
  grpc::Rpc::Options options_;
  std::deque<std::function<void()>> tasks_;
  std::vector<std::unique_ptr<Call>> calls_;
};

// What goes out on a stream.
class Answer {
 public:
  void Take(const http2::SeenFrame& frame) {
    if (frame.type == http2::kData) {
      PENSTOCK_CHECK(!ended_ && !frame.ended());
      data_ += frame.payload;
    }
    if (frame.type != http2::kHeaders) return;
    std::map<std::string, std::string> fields(frame.headers.begin(), frame.headers.end());
    PENSTOCK_CHECK(!ended_ && !fields.contains("broken"));
    if (std::exchange(begun_, true)) PENSTOCK_CHECK(frame.ended());
    if (fields.contains(":status")) grpc_ = fields[":status"] == "200";
    ended_ = frame.ended();
    if (!ended_ || !grpc_) return;
    PENSTOCK_CHECK(!fields["grpc-status"].empty());
    CheckMessages();
  }

 private:
  void CheckMessages() const {
    for (size_t at = 0; at < data_.size();) {
      PENSTOCK_CHECK(data_.size() - at >= grpc::RpcMessage::kHeadBytes && data_[at] <= 1);
      size_t size = 0;
      for (size_t i = 1; i < grpc::RpcMessage::kHeadBytes; ++i) {
        size = size << 8 | static_cast<uint8_t>(data_[at + i]);
      }
      PENSTOCK_CHECK(data_.size() - at - grpc::RpcMessage::kHeadBytes >= size);
      at += grpc::RpcMessage::kHeadBytes + size;
    }
  }

  std::string data_;
  bool begun_ = false, grpc_ = false, ended_ = false;
};

class NoWake final : public http2::Http2Wake {
  void Wake() noexcept override {}
};

class Conversation {
 public:
  Conversation() {
    http2::Http2Limits limits;
    limits.streams_max = 8;
    limits.header_bytes_max = 1000;
    session_ = std::make_unique<http2::Http2Session>(&handler_, limits, "fuzz",
                                                     std::make_shared<NoWake>(), now_);
  }

  void Step(fuzz::Input* input) {
    const uint8_t operation = input->Byte();
    switch (operation % 8) {
      case 0:
        return Send(input->Part());
      case 1:
      case 2:
        return SendFrame(input);
      case 3:
        takes_ = !takes_;
        return Take();
      case 4:
        now_ += std::chrono::milliseconds(input->Number(0, 20'000));
        session_->OnTime(now_);
        return Take();
      case 5:
        if (const uint8_t what = input->Byte(); what % 16 == 0) {
          session_->BeginShutdown(now_);
          if (what % 32 == 0) session_->Interrupt(now_);
        }
        return Take();
      case 6:
        handler_.RunTask();
        return Take();
      default:
        handler_.Act(input, now_);
        return Take();
    }
  }
  void Send(std::string_view bytes) {
    session_->Receive(bytes, now_);
    Take();
  }
  void End() {
    takes_ = true;
    Take();
    session_->Lose();
    handler_.End();
    session_ = nullptr;
  }
  bool done() const { return session_->done(); }

 private:
  // Its length is set, and its stream where that is 0. Of DATA some flags mean something else: 64,
  // that what follows is a message, whose head is made; 128, that it is said to be packed; 32, that
  // it is.
  void SendFrame(fuzz::Input* input) {
    const uint8_t type = input->Byte(), flags = input->Byte(), stream = input->Byte();
    if (type == http2::kHeaders && stream == 0) next_stream_ += 2;
    const uint32_t id = stream == 0 ? next_stream_ : stream;
    std::string payload;
    if (type == http2::kData && (flags & 64) != 0) {
      std::string message(input->Part());
      if ((flags & 32) != 0) message = http::Gzip(message);
      payload = http2::BigEndian(flags >> 7, 1) + http2::BigEndian(message.size(), 4) + message;
    } else {
      payload = input->Part();
    }
    Send(http2::Frame(type, type == http2::kData ? flags & 9 : flags,
                      type == http2::kSettings || type == http2::kPing ? 0 : id, payload));
  }

  void Take() {
    session_->TakePosted(now_);
    while (takes_) {
      std::string bytes;
      session_->Produce(64 << 10, &bytes, now_);
      if (bytes.empty()) return;
      for (const http2::SeenFrame& frame : reader_.Read(bytes)) {
        if (frame.stream != 0) answers_[frame.stream].Take(frame);
      }
      session_->Sent(bytes.size(), now_);
      session_->TakePosted(now_);
    }
  }

  Handler handler_;
  // Before all deadlines, which calls compare with the clock.
  Clock::time_point now_ = Clock::time_point() + std::chrono::seconds(1);
  std::unique_ptr<http2::Http2Session> session_;
  http2::FrameReader reader_;
  std::map<uint32_t, Answer> answers_;
  uint32_t next_stream_ = static_cast<uint32_t>(-1);
  bool takes_ = true;
};

}  // namespace
}  // namespace penstock

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  static const bool quiet = [] {
    InitLog({.level = LogLevel::kOff});
    return true;
  }();
  (void)quiet;
  if (size > kInputBytesMax) return 0;
  fuzz::Input input(data, size);
  Conversation conversation;
  if (!input.Bit()) conversation.Send(http2::Hello());
  while (!input.Rest().empty() && !conversation.done()) conversation.Step(&input);
  conversation.End();
  return 0;
}

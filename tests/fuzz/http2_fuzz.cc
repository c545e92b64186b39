// What a client does to an Http2Session: steps, each an operation in one byte and what it needs.
// Bytes are sent as they are (operation 0), or as frames whose length, and stream where it is 0,
// are set here (1), so that most inputs get past the framing; the others are time that passes, and
// what the handler does with a stream.
//
// The handler must see the events of every stream in order and exactly one OnGone, its last; no
// more streams than were allowed, no more bytes than the window; and what is sent must be frames
// whose header lists can be read.
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "fuzz_util.h"
#include "http2/http2_session.h"
#include "http2/http2_test_util.h"
#include "log/log.h"

namespace penstock {
namespace {

constexpr size_t kInputBytesMax = 4096;
constexpr uint32_t kStreamsMax = 8;

struct Held {
  std::shared_ptr<http2::Http2Answer> answer;
  size_t unconsumed = 0;
  bool ended = false, gone = false;
};

class Receiver final : public http2::Http2Receiver {
 public:
  Receiver(std::shared_ptr<Held> held, size_t* alive) : held_(std::move(held)), alive_(alive) {
    ++*alive_;
  }
  ~Receiver() override {
    PENSTOCK_CHECK(held_->gone);
    --*alive_;
  }
  void OnData(std::string_view bytes) override {
    PENSTOCK_CHECK(!held_->gone && !held_->ended && !bytes.empty());
    held_->unconsumed += bytes.size();
    PENSTOCK_CHECK(held_->unconsumed <= static_cast<size_t>(http2::kHttp2StreamWindow));
  }
  void OnTrailers(http2::HeaderList) override { PENSTOCK_CHECK(!held_->gone && !held_->ended); }
  void OnEnd() override { PENSTOCK_CHECK(!held_->gone && !std::exchange(held_->ended, true)); }
  void OnSent() override { PENSTOCK_CHECK(!held_->gone); }
  void OnTime() override { PENSTOCK_CHECK(!held_->gone); }
  void OnInterrupt() override { PENSTOCK_CHECK(!held_->gone); }
  void OnGone(http2::Http2Gone) override {
    PENSTOCK_CHECK(!std::exchange(held_->gone, true));
    PENSTOCK_CHECK(held_->answer == nullptr || held_->answer->unsent() == 0);
  }

 private:
  const std::shared_ptr<Held> held_;
  size_t* const alive_;
};

class Handler final : public http2::Http2Handler {
 public:
  std::shared_ptr<http2::Http2Receiver> OnStream(
      http2::Http2Request request, std::shared_ptr<http2::Http2Answer> answer) override {
    PENSTOCK_CHECK(!request.method.empty());
    auto held = std::make_shared<Held>();
    held->answer = std::move(answer);
    held->ended = request.ended;
    streams.push_back(held);
    return std::make_shared<Receiver>(held, &alive);
  }
  std::vector<std::shared_ptr<Held>> streams;
  size_t alive = 0;
};

class NoWake final : public http2::Http2Wake {
  void Wake() noexcept override {}
};

class Conversation {
 public:
  Conversation() {
    http2::Http2Limits limits;
    limits.streams_max = kStreamsMax;
    limits.header_bytes_max = 1000;
    limits.idle_timeout = std::chrono::seconds(75);
    session_ = std::make_unique<http2::Http2Session>(&handler_, limits, "fuzz",
                                                     std::make_shared<NoWake>(), now_);
  }

  void Step(fuzz::Input* input) {
    const uint8_t operation = input->Byte();
    switch (operation % 8) {
      case 0:
        return Send(input->Part());
      case 1:
        return SendFrame(input);
      case 2:
        takes_ = !takes_;
        return Take();
      case 3:
        now_ += std::chrono::milliseconds(input->Number(0, 40'000));
        session_->OnTime(now_);
        return Take();
      case 4:
        if (input->Byte() % 16 == 0) session_->BeginShutdown(now_);
        return Take();
      default:
        Answer(input);
        session_->TakePosted(now_);
        Take();
    }
  }

  void End() {
    takes_ = true;
    Take();
    session_->Lose();
    for (const auto& held : handler_.streams) PENSTOCK_CHECK(held->gone);
    PENSTOCK_CHECK(handler_.alive == 0);
    session_ = nullptr;
    for (const auto& held : handler_.streams) held->answer = nullptr;  // late, and lost
  }
  bool done() const { return session_->done(); }

  void Send(std::string_view bytes) {
    session_->Receive(bytes, now_);
    session_->TakePosted(now_);
    Take();
    PENSTOCK_CHECK(handler_.alive <= 2 * kStreamsMax);
  }

 private:
  void SendFrame(fuzz::Input* input) {
    const uint8_t type = input->Byte(), flags = input->Byte(), stream = input->Byte();
    if (type == http2::kHeaders && stream == 0) next_stream_ += 2;
    const uint32_t id = stream == 0 ? next_stream_ : stream;
    Send(http2::Frame(type, flags, type == http2::kSettings || type == http2::kPing ? 0 : id,
                      input->Part()));
  }

  void Answer(fuzz::Input* input) {
    if (handler_.streams.empty()) return;
    Held& held = *handler_.streams[input->Byte() % handler_.streams.size()];
    if (held.answer == nullptr) return;
    const uint8_t what = input->Byte();
    const bool last = (what & 8) != 0;
    switch (what % 8) {
      case 0:
      case 1:
        return held.answer->SendHeaders({{":status", "200"}, {"x", std::string(what, 'v')}}, last);
      case 2:
        return held.answer->SendData(std::string(input->Number(0, 65'535), 'd'), nullptr, last);
      case 3:
        return held.answer->SendTrailers({{"t", "1"}});
      case 4:
        return held.answer->Reset(http2::Http2Error::kCancel);
      case 5:
        held.answer->Consume(held.unconsumed);
        held.unconsumed = 0;
        return;
      case 6:
        return held.answer->WakeAt(now_ + std::chrono::seconds(what));
      default:
        held.answer = nullptr;
    }
  }

  void Take() {
    PENSTOCK_CHECK(session_->NextTime() > now_ - std::chrono::hours(24));
    while (takes_) {
      std::string bytes;
      session_->Produce(64 << 10, &bytes, now_);
      if (bytes.empty()) return;
      for (const http2::SeenFrame& frame : reader_.Read(bytes)) {
        if (frame.type == http2::kHeaders) PENSTOCK_CHECK(frame.headers.at(0).first != "broken");
      }
      session_->Sent(bytes.size(), now_);
    }
  }

  Handler handler_;
  Clock::time_point now_ = Clock::time_point() + std::chrono::hours(100);
  std::unique_ptr<http2::Http2Session> session_;
  http2::FrameReader reader_;
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

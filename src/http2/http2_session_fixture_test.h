// A session with a handler that records, and the client's side by hand. For tests of the session.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "http2/http2_session.h"
#include "http2/http2_test_util.h"

namespace penstock::http2 {

// A stream as its handler saw it.
struct SeenStream {
  Http2Request request;
  std::shared_ptr<Http2Answer> answer;
  std::string body;
  HeaderList trailers;
  int ended = 0, sent = 0, times = 0, interrupts = 0;
  std::vector<Http2Gone> gone;
  bool consumes = true;
};

class RecordingReceiver final : public Http2Receiver {
 public:
  explicit RecordingReceiver(std::shared_ptr<SeenStream> seen) : seen_(std::move(seen)) {}
  void OnData(std::string_view bytes) override {
    if (bytes == "throw") throw std::runtime_error("a bug");
    seen_->body += bytes;
    if (seen_->consumes && seen_->answer != nullptr) seen_->answer->Consume(bytes.size());
  }
  void OnTrailers(HeaderList trailers) override { seen_->trailers = std::move(trailers); }
  void OnEnd() override { ++seen_->ended; }
  void OnSent() override { ++seen_->sent; }
  void OnTime() override { ++seen_->times; }
  void OnInterrupt() override { ++seen_->interrupts; }
  void OnGone(Http2Gone how) override { seen_->gone.push_back(how); }

 private:
  const std::shared_ptr<SeenStream> seen_;
};

class RecordingHandler final : public Http2Handler {
 public:
  std::shared_ptr<Http2Receiver> OnStream(Http2Request request,
                                          std::shared_ptr<Http2Answer> answer) override {
    ++streams;
    if (request.path == "/now") {
      answer->SendHeaders({{":status", "200"}}, true);
      return nullptr;
    }
    auto stream = std::make_shared<SeenStream>();
    stream->consumes = request.path != "/full";
    stream->request = std::move(request);
    stream->answer = std::move(answer);
    seen.push_back(stream);
    return std::make_shared<RecordingReceiver>(std::move(stream));
  }

  int streams = 0;
  std::vector<std::shared_ptr<SeenStream>> seen;
};

class CountingWake final : public Http2Wake {
 public:
  void Wake() noexcept override { ++count; }
  int count = 0;
};

class Http2SessionTest : public testing::Test {
 protected:
  void Start(Http2Limits limits = {}) {
    reader_ = std::make_unique<FrameReader>();
    frames_.clear();
    session_ = std::make_unique<Http2Session>(&handler_, limits, "1.2.3.4:5", wake_, now_);
  }
  void SetUp() override { Start(); }

  // Sends bytes in blocks, as a socket gives them; takes what comes back unless told otherwise.
  void Send(std::string_view bytes) {
    while (!bytes.empty() && !session_->done()) {
      const std::string_view block = bytes.substr(0, 16 << 10);
      bytes.remove_prefix(block.size());
      session_->Receive(block, now_);
      session_->TakePosted(now_);
      if (takes_) Take();
    }
  }
  // The client takes all there is.
  void Take() {
    session_->TakePosted(now_);
    for (;;) {
      std::string bytes;
      session_->Produce(64 << 10, &bytes, now_);
      if (bytes.empty()) break;
      for (auto& frame : reader_->Read(bytes)) frames_.push_back(std::move(frame));
      session_->Sent(bytes.size(), now_);
    }
  }
  void Wait(std::chrono::milliseconds time) {
    now_ += time;
    session_->OnTime(now_);
    Take();
  }

  // The frames of a type, and of a stream unless it is -1.
  std::vector<SeenFrame> Frames(uint8_t type, int64_t stream = -1) const {
    std::vector<SeenFrame> found;
    for (const SeenFrame& frame : frames_) {
      if (frame.type == type && (stream < 0 || frame.stream == stream)) found.push_back(frame);
    }
    return found;
  }
  std::string Body(uint32_t stream) const {
    std::string body;
    for (const SeenFrame& frame : Frames(kData, stream)) body += frame.payload;
    return body;
  }
  // GOAWAY(ENHANCE_YOUR_CALM), and no stream is left.
  void ExpectFlood() {
    Take();
    EXPECT_TRUE(session_->done());
    EXPECT_EQ(session_->streams(), 0u);
    const auto found = Frames(kGoAway);
    ASSERT_FALSE(found.empty());
    EXPECT_EQ(found.back().error(), static_cast<uint32_t>(Http2Error::kEnhanceYourCalm));
    for (const auto& stream : handler_.seen) EXPECT_EQ(stream->gone.size(), 1u);
  }

  RecordingHandler handler_;
  std::shared_ptr<CountingWake> wake_ = std::make_shared<CountingWake>();
  Clock::time_point now_ = Clock::time_point() + std::chrono::hours(1);
  std::unique_ptr<Http2Session> session_;
  std::unique_ptr<FrameReader> reader_;
  std::vector<SeenFrame> frames_;
  bool takes_ = true;
};

}  // namespace penstock::http2

#include "http2/http2_channel.h"

namespace penstock::http2 {
namespace {

class ChannelAnswer final : public Http2Answer {
 public:
  explicit ChannelAnswer(std::shared_ptr<Http2Channel> channel) : channel_(std::move(channel)) {}
  ~ChannelAnswer() override { channel_->Release(); }

  void SendHeaders(HeaderList headers, bool last) override {
    channel_->SendHeaders(std::move(headers), last);
  }
  void SendData(std::string bytes, std::shared_ptr<const void> kept, bool last) override {
    channel_->SendData(std::move(bytes), std::move(kept), last);
  }
  void SendTrailers(HeaderList trailers) override { channel_->SendTrailers(std::move(trailers)); }
  void Reset(Http2Error error) override { channel_->Reset(error); }
  void Consume(size_t bytes) override { channel_->Consume(bytes); }
  void WakeAt(Clock::time_point at) override { channel_->WakeAt(at); }
  size_t unsent() const override { return channel_->unsent(); }
  bool gone() const override { return channel_->gone(); }

 private:
  const std::shared_ptr<Http2Channel> channel_;
};

}  // namespace

void Http2Mailbox::Push(std::shared_ptr<Http2Channel> channel) noexcept {
  std::shared_ptr<Http2Wake> wake;
  {
    const std::lock_guard lock(mutex_);
    if (wake_ == nullptr || std::exchange(channel->listed_, true)) return;
    if (first_ == nullptr) wake = wake_;
    Http2Channel* const added = channel.get();
    (first_ == nullptr ? first_ : last_->next_) = std::move(channel);
    last_ = added;
  }
  if (wake != nullptr) wake->Wake();
}

std::shared_ptr<Http2Channel> Http2Mailbox::Pop() noexcept {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<Http2Channel> channel = std::move(first_);
  if (channel == nullptr) return nullptr;
  first_ = std::move(channel->next_);
  channel->listed_ = false;
  return channel;
}

void Http2Mailbox::Close() noexcept {
  {
    const std::lock_guard lock(mutex_);
    wake_ = nullptr;
  }
  while (Pop() != nullptr) {
  }
}

void Http2Channel::SendHeaders(HeaderList headers, bool last) {
  {
    const std::lock_guard lock(mutex_);
    if (!Open() || headed_) return;
    const bool informational = !headers.empty() && headers[0].second.starts_with('1');
    if (informational) {
      posted_.informational.push_back(std::move(headers));
    } else {
      posted_.headers = std::move(headers);
      headed_ = true;
      posted_.last = ended_ = last;
    }
  }
  mailbox_->Push(shared_from_this());
}

void Http2Channel::SendData(std::string bytes, std::shared_ptr<const void> kept, bool last) {
  {
    const std::lock_guard lock(mutex_);
    if (!Open() || !headed_ || (bytes.empty() && !last)) return;
    if (!bytes.empty()) {
      const size_t size = bytes.size();
      posted_.pieces.push_back({std::move(bytes), std::move(kept)});
      unsent_.fetch_add(size, std::memory_order_acq_rel);
    }
    posted_.last = ended_ = last;
  }
  mailbox_->Push(shared_from_this());
}

void Http2Channel::SendTrailers(HeaderList trailers) {
  {
    const std::lock_guard lock(mutex_);
    if (!Open() || !headed_) return;
    posted_.trailers = std::move(trailers);
    posted_.last = ended_ = true;
  }
  mailbox_->Push(shared_from_this());
}

void Http2Channel::Reset(Http2Error error) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (gone() || posted_.reset) return;
    posted_.reset = error;
  }
  mailbox_->Push(shared_from_this());
}

void Http2Channel::Consume(size_t bytes) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (gone()) return;
    posted_.consumed += bytes;
  }
  mailbox_->Push(shared_from_this());
}

void Http2Channel::WakeAt(Clock::time_point at) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (gone()) return;
    posted_.wake_at = at;
  }
  mailbox_->Push(shared_from_this());
}

void Http2Channel::Release() noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (ended_) return;
  }
  Reset(Http2Error::kInternalError);
}

Http2Channel::Posted Http2Channel::TakePosted() {
  const std::lock_guard lock(mutex_);
  return std::exchange(posted_, Posted{});
}

bool Http2Channel::Sent(size_t bytes) {
  const size_t before = unsent_.fetch_sub(bytes, std::memory_order_acq_rel);
  const size_t after = before - bytes;
  return after == 0 || (before >= kHttp2UnsentLow && after < kHttp2UnsentLow);
}

void Http2Channel::Leave() noexcept {
  Posted dropped;  // ends after the lock
  const std::lock_guard lock(mutex_);
  gone_.store(true, std::memory_order_release);
  std::swap(dropped, posted_);
  unsent_.store(0, std::memory_order_release);
}

std::shared_ptr<Http2Answer> MakeHttp2Answer(std::shared_ptr<Http2Channel> channel) {
  return std::make_shared<ChannelAnswer>(std::move(channel));
}

}  // namespace penstock::http2

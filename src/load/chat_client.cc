#include "load/chat_client.h"

#include <utility>

namespace penstock::load {
namespace {

// The window of a client that reads slowly.
constexpr int kSlowReceiveBytes = 4096;

ChatTurn::Clock::duration Milliseconds(double ms) {
  return std::chrono::duration_cast<ChatTurn::Clock::duration>(
      std::chrono::duration<double, std::milli>(ms));
}

}  // namespace

void ChatClient::Start(ChatTurn turn) {
  turn_ = std::move(turn);
  busy_ = true;
  events_.Reset();
  if (link_ != nullptr && slow_link_ != turn_.slow) Close();
  if (link_ != nullptr) return Write();
  slow_link_ = turn_.slow;
  link_ = std::make_shared<HttpLink>(place_->context, place_->tls);
  link_->Connect(
      place_->endpoint, place_->host,
      [this, link = link_](const HttpLink::ErrorCode& ec) {
        if (link != link_) return;
        if (ec) return Finish(Outcome::kLost);
        Write();
      },
      slow_link_ ? kSlowReceiveBytes : 0);
}

void ChatClient::Write() {
  turn_.sent = Clock::now();
  link_->Write(std::move(turn_.bytes), [this, link = link_](const HttpLink::ErrorCode& ec) {
    if (link != link_) return;
    if (ec) return Finish(Outcome::kLost);
    turn_.written = true;
    owner_->OnWritten();
    if (turn_.leave_ms >= 0) ArmLeaving();
    link_->BeginAnswer();
    Read();
  });
}

void ChatClient::ArmLeaving() {
  leave_timer_.expires_after(Milliseconds(turn_.leave_ms));
  leave_timer_.async_wait([this, serial = serial_](const HttpLink::ErrorCode& ec) {
    if (!ec && serial == serial_ && busy_) Finish(Outcome::kLeft);
  });
}

void ChatClient::Read() {
  link_->ReadPart([this, link = link_](const HttpLink::ErrorCode& ec) {
    if (link != link_) return;
    if (link_->has_head() && turn_.status == 0) {
      turn_.status = static_cast<int>(link_->response().result_int());
      turn_.retry_after = link_->response().count(boost::beast::http::field::retry_after) > 0;
    }
    if (ec) return Finish(turn_.status == 0 ? Outcome::kLost : Outcome::kAnswered);
    OnPart();
  });
}

void ChatClient::OnPart() {
  const std::string part = link_->TakeBody();
  if (turn_.status == 200) {
    events_.Add(part);
    if (!TakeEvents()) return Finish(Outcome::kLeft);
  }
  if (link_->answer_done()) return Finish(Outcome::kAnswered);
  if (!turn_.slow || part.empty()) return Read();
  pause_timer_.expires_after(
      Milliseconds(1e3 * static_cast<double>(part.size()) / place_->slow_bytes_per_s));
  pause_timer_.async_wait([this, serial = serial_](const HttpLink::ErrorCode& ec) {
    if (!ec && serial == serial_ && busy_) Read();
  });
}

// False: the client leaves now.
bool ChatClient::TakeEvents() {
  while (const auto data = events_.Next()) {
    const ChatEvent event = ReadChatEvent(*data);
    const auto now = Clock::now();
    turn_.done |= event.done;
    turn_.error |= event.error;
    if (event.finish) turn_.finish = now;
    if (event.completion_tokens >= 0) {
      turn_.prompt_tokens = event.prompt_tokens;
      turn_.completion_tokens = event.completion_tokens;
      turn_.cached_tokens = event.cached_tokens;
    }
    if (!event.text) continue;
    const bool first = turn_.events++ == 0;
    if (first) turn_.first = now;
    const double gap_ms =
        first ? -1 : std::chrono::duration<double, std::milli>(now - turn_.last).count();
    turn_.last = now;
    owner_->OnToken(turn_, gap_ms);
    if (turn_.leave_token >= 0 && turn_.events > turn_.leave_token) return false;
  }
  return true;
}

void ChatClient::Finish(Outcome outcome) {
  busy_ = false;
  ++serial_;
  leave_timer_.cancel();
  // After an error the link may not be read again.
  if (outcome != Outcome::kAnswered || !link_->answer_done() || !link_->keep_alive()) Close();
  owner_->OnDone(this, outcome);
}

void ChatClient::Abandon() {
  busy_ = false;
  ++serial_;
  Close();
}

void ChatClient::Close() {
  if (link_ != nullptr) link_->Close();
  link_ = nullptr;
  leave_timer_.cancel();
  pause_timer_.cancel();
}

}  // namespace penstock::load

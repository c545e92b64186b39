#include "http/stream.h"

#include <charconv>

#include "http/message.h"
#include "log/exception_status.h"

namespace penstock::http {
namespace {

// Pieces are joined up to this size, so that many small ones are one write.
constexpr size_t kJoinBytes = 16 << 10;
constexpr std::string_view kLastChunk = "0\r\n\r\n";

// RFC 9112 7.1: size in hexadecimal, the bytes, each followed by CRLF.
std::string Chunk(std::string_view text) {
  char size[16];
  const auto end = std::to_chars(size, size + sizeof(size), text.size(), 16).ptr;
  std::string chunk;
  chunk.reserve(text.size() + static_cast<size_t>(end - size) + 4);
  chunk.append(size, end).append("\r\n").append(text).append("\r\n");
  return chunk;
}

}  // namespace

StreamBuffer::StreamBuffer(HttpResponse head, bool chunked, size_t unread_bytes_max, Ready ready)
    : chunked_(chunked),
      unread_bytes_max_(unread_bytes_max),
      head_(std::make_unique<HttpResponse>(std::move(head))),
      ready_(std::make_shared<const Ready>(std::move(ready))) {}

StreamBuffer::~StreamBuffer() = default;

void StreamBuffer::Add(std::string text, size_t body_bytes, int64_t items,
                       std::shared_ptr<const void> kept) {
  const size_t bytes = text.size();
  pieces_.push_back({std::move(text), body_bytes, items, std::move(kept)});
  unread_.store(unread() + bytes, std::memory_order_relaxed);
}

bool StreamBuffer::Push(std::string_view text, int64_t items, std::shared_ptr<const void> kept) {
  if (text.empty()) return !gone();  // an empty chunk would end the body
  std::string framed = chunked_ ? Chunk(text) : std::string(text);
  const std::lock_guard lock(mutex_);
  if (gone() || ended_ || aborted_ || overrun_) return false;
  // A piece alone is let through, whatever its size.
  if (unread() > 0 && unread() + framed.size() > unread_bytes_max_) {
    overrun_ = true;
    return false;
  }
  Add(std::move(framed), text.size(), items, std::move(kept));
  return true;
}

void StreamBuffer::End(std::string_view text, int status) {
  std::string framed;
  if (!text.empty()) framed = chunked_ ? Chunk(text) : std::string(text);
  if (chunked_) framed += kLastChunk;
  std::shared_ptr<const Ready> ready;  // released after the lock
  const std::lock_guard lock(mutex_);
  if (gone() || ended_ || aborted_) return;
  if (!framed.empty()) Add(std::move(framed), text.size(), 0, nullptr);
  ended_ = true;
  end_status_ = status;
  ready = std::move(ready_);
}

void StreamBuffer::Abort() {
  std::shared_ptr<const Ready> ready;
  const std::lock_guard lock(mutex_);
  if (!ended_) aborted_ = true;
  ready = std::move(ready_);
}

bool StreamBuffer::CallWhenBelow(size_t bytes) {
  const std::lock_guard lock(mutex_);
  if (gone() || unread() < bytes) return false;
  wanted_below_ = bytes;
  return true;
}

HttpResponse StreamBuffer::TakeHead() {
  const std::lock_guard lock(mutex_);
  return std::move(*head_);
}

StreamBuffer::Batch StreamBuffer::Take() {
  Batch batch;
  const std::lock_guard lock(mutex_);
  while (!pieces_.empty()) {
    Piece& piece = pieces_.front();
    if (!batch.text.empty() && batch.text.size() + piece.text.size() > kJoinBytes) break;
    if (piece.kept) batch.kept.push_back(std::move(piece.kept));
    if (batch.text.empty()) {
      batch.text = std::move(piece.text);
    } else {
      batch.text += piece.text;
    }
    batch.body_bytes += piece.body_bytes;
    batch.items += piece.items;
    pieces_.pop_front();
  }
  batch.bytes = batch.text.size();
  batch.last = ended_ && pieces_.empty();
  return batch;
}

StreamBuffer::Batch StreamBuffer::Idle(std::string_view text) const {
  Batch batch;
  batch.text = chunked_ ? Chunk(text) : std::string(text);
  batch.body_bytes = text.size();
  return batch;
}

void StreamBuffer::Sent(const Batch& batch) {
  std::shared_ptr<const Ready> ready;
  {
    const std::lock_guard lock(mutex_);
    if (gone()) return;
    unread_.store(unread() - batch.bytes, std::memory_order_relaxed);
    if (wanted_below_ == 0 || unread() >= wanted_below_) return;
    wanted_below_ = 0;
    ready = ready_;
  }
  if (ready && *ready) RunGuarded("stream", *ready);
}

bool StreamBuffer::aborted() const {
  const std::lock_guard lock(mutex_);
  return aborted_;
}

bool StreamBuffer::overrun() const {
  const std::lock_guard lock(mutex_);
  return overrun_;
}

int StreamBuffer::end_status() const {
  const std::lock_guard lock(mutex_);
  return end_status_;
}

void StreamBuffer::Leave() noexcept {
  std::shared_ptr<const Ready> ready;
  std::list<Piece> dropped;
  {
    const std::lock_guard lock(mutex_);
    if (gone()) return;
    gone_.store(true, std::memory_order_release);
    dropped.swap(pieces_);
    unread_.store(0, std::memory_order_relaxed);
    ready = std::move(ready_);
  }
  if (ready && *ready) RunGuarded("stream", *ready);
}

void StreamBuffer::CallReady() noexcept {
  std::shared_ptr<const Ready> ready;
  {
    const std::lock_guard lock(mutex_);
    ready = ready_;
  }
  if (ready && *ready) RunGuarded("stream", *ready);
}

Stream::~Stream() {
  if (ended_) return;
  buffer_->Abort();
  wake_->Wake();
}

bool Stream::Write(std::string_view text, int64_t items, std::shared_ptr<const void> kept) {
  const bool written = buffer_->Push(text, items, std::move(kept));
  wake_->Wake();
  return written;
}

void Stream::End(std::string_view text, int status) {
  buffer_->End(text, status);
  ended_ = true;
  wake_->Wake();
}

}  // namespace penstock::http

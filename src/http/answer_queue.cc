#include "http/answer_queue.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <new>
#include <utility>

#include "base/status.h"
#include "http/io_thread.h"

namespace penstock::http {

namespace {

// A wake-up of one stream for its target, posted again and again.
class StreamPost final : public StreamWake,
                         public IoPost,
                         public std::enable_shared_from_this<StreamPost> {
 public:
  StreamPost(std::weak_ptr<AnswerTarget> target, std::shared_ptr<IoThread> thread, uint64_t number,
             std::shared_ptr<StreamBuffer> buffer)
      : target_(std::move(target)),
        thread_(std::move(thread)),
        number_(number),
        buffer_(std::move(buffer)) {}

  void Wake() noexcept override {
    // acq_rel: the thread that takes the queued post sees all writes before this.
    if (queued_.exchange(true, std::memory_order_acq_rel)) return;
    thread_->answers.Push(shared_from_this());
  }

 private:
  void Arrive() noexcept override {
    queued_.exchange(false, std::memory_order_acq_rel);
    if (const auto target = target_.lock()) {
      target->OnStream(number_, buffer_);
    } else {
      buffer_->Leave();
    }
  }
  void Lose() noexcept override { buffer_->Leave(); }

  const std::weak_ptr<AnswerTarget> target_;
  const std::shared_ptr<IoThread> thread_;
  const uint64_t number_;
  const std::shared_ptr<StreamBuffer> buffer_;
  std::atomic<bool> queued_{false};
};

}  // namespace

void PendingAnswer::Post(Print print) noexcept {
  if (posted_.exchange(true)) return;
  print_ = std::move(print);
  thread_->answers.Push(shared_from_this());
}

std::unique_ptr<Stream> PendingAnswer::Begin(HttpResponse head, std::function<void()> ready) {
  const auto unread_max = static_cast<size_t>(thread_->options->stream_unread_bytes_max);
  auto buffer =
      std::make_shared<StreamBuffer>(std::move(head), chunked_, unread_max, std::move(ready));
  auto post = std::make_shared<StreamPost>(target_, thread_, number_, buffer);
  auto stream = std::make_unique<Stream>(buffer, post);
  if (posted_.exchange(true)) {
    buffer->Leave();
  } else {
    post->Wake();
  }
  return stream;
}

void PendingAnswer::Arrive() noexcept {
  if (const auto target = target_.lock()) target->OnAnswer(number_, print_);
  print_ = nullptr;
}

// Memory for the asynchronous wait, which Asio allocates anew for each: one block, used again.
template <typename T>
class AnswerQueue::WaitAllocator {
 public:
  using value_type = T;
  explicit WaitAllocator(WaitMemory* memory) : memory_(memory) {}
  template <typename U>
  WaitAllocator(const WaitAllocator<U>& other) : memory_(other.memory()) {}  // NOLINT

  T* allocate(size_t count) {
    if (memory_->taken || count * sizeof(T) > memory_->bytes.size()) {
      return static_cast<T*>(::operator new(count * sizeof(T)));
    }
    memory_->taken = true;
    return reinterpret_cast<T*>(memory_->bytes.data());
  }
  void deallocate(T* pointer, size_t) {
    if (static_cast<void*>(pointer) != memory_->bytes.data()) return ::operator delete(pointer);
    memory_->taken = false;
  }
  WaitMemory* memory() const { return memory_; }
  bool operator==(const WaitAllocator& other) const { return memory_ == other.memory_; }
  bool operator!=(const WaitAllocator& other) const { return !(*this == other); }

 private:
  WaitMemory* memory_;
};

struct AnswerQueue::OnReady {
  using allocator_type = WaitAllocator<void*>;
  AnswerQueue* queue;
  allocator_type get_allocator() const { return allocator_type(&queue->wait_memory_); }
  void operator()(boost::system::error_code ec) const {
    queue->listening_ = false;
    if (ec) return;  // the context ends
    queue->Listen();
    queue->Deliver();
  }
};

AnswerQueue::AnswerQueue(boost::asio::io_context* context)
    : event_(*context, eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

void AnswerQueue::Listen() {
  if (std::exchange(listening_, true)) return;
  event_.async_wait(boost::asio::posix::stream_descriptor::wait_read, OnReady{this});
}

void AnswerQueue::Push(std::shared_ptr<IoPost> post) noexcept {
  bool first = false;
  bool closed = false;
  {
    const std::lock_guard lock(mutex_);
    closed = closed_;
    if (!closed) {
      first = first_ == nullptr;
      IoPost* const added = post.get();
      (first ? first_ : last_->next_) = std::move(post);
      last_ = added;
    }
  }
  if (closed) return post->Lose();
  if (!first) return;  // the io thread has been told
  const uint64_t one = 1;
  (void)!write(event_.native_handle(), &one, sizeof one);
}

std::shared_ptr<IoPost> AnswerQueue::TakeAll() {
  uint64_t count = 0;
  (void)!read(event_.native_handle(), &count, sizeof count);
  const std::lock_guard lock(mutex_);
  last_ = nullptr;
  return std::move(first_);
}

void AnswerQueue::Deliver() noexcept {
  std::shared_ptr<IoPost> post = TakeAll();
  while (post != nullptr) {
    // Taken off first: the post may be pushed again from here on.
    const std::shared_ptr<IoPost> one = std::exchange(post, nullptr);
    post = std::move(one->next_);
    one->Arrive();
  }
}

void AnswerQueue::Close() {
  std::shared_ptr<IoPost> post;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    post = std::move(first_);
    last_ = nullptr;
  }
  while (post != nullptr) {
    const std::shared_ptr<IoPost> one = std::exchange(post, nullptr);
    post = std::move(one->next_);
    one->Lose();
  }
}

}  // namespace penstock::http

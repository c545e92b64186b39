#include "http/answer_queue.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <new>
#include <utility>

#include "common/status.h"
#include "http/connection.h"

namespace penstock {

void PendingAnswer::Post(Print print) noexcept {
  if (posted_.exchange(true)) return;
  print_ = std::move(print);
  thread_->answers.Push(shared_from_this());
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

void AnswerQueue::Push(std::shared_ptr<PendingAnswer> answer) noexcept {
  bool first = false;
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    first = first_ == nullptr;
    PendingAnswer* const added = answer.get();
    (first ? first_ : last_->next_) = std::move(answer);
    last_ = added;
  }
  if (!first) return;  // the io thread has been told
  const uint64_t one = 1;
  (void)!write(event_.native_handle(), &one, sizeof one);
}

std::shared_ptr<PendingAnswer> AnswerQueue::TakeAll() {
  uint64_t count = 0;
  (void)!read(event_.native_handle(), &count, sizeof count);
  const std::lock_guard lock(mutex_);
  last_ = nullptr;
  return std::move(first_);
}

void AnswerQueue::Deliver() noexcept {
  std::shared_ptr<PendingAnswer> answer = TakeAll();
  while (answer != nullptr) {
    if (const auto connection = answer->connection_.lock()) {
      connection->OnAnswer(answer->number_, answer->print_);
    }
    answer->print_ = nullptr;
    answer = std::move(answer->next_);
  }
}

void AnswerQueue::Close() {
  std::shared_ptr<PendingAnswer> answer;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    answer = std::move(first_);
    last_ = nullptr;
  }
  while (answer != nullptr) answer = std::move(answer->next_);
}

}  // namespace penstock

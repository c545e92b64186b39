// The peers of `penstock-lab batcher`, in a library of their own beside the program: a queue of
// rows, and a batcher thread that takes the waiting rows (up to a batch), copies the rows together,
// runs the model and hands the results back.
//
// Each gets its best case: moodycamel with a token for each producer and taking in bulk; a small
// row travels in the item itself; items are 16 bytes; results go back with one counter store a
// producer and batch; only the queue made of a mutex and a condition variable sleeps.
#include <algorithm>
#include <array>
#include <boost/lockfree/queue.hpp>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

#include "lab/batcher_cell.h"

#ifdef PENSTOCK_HAVE_CONCURRENTQUEUE
#include <concurrentqueue/concurrentqueue.h>
#endif
#ifdef PENSTOCK_HAVE_TBB
#include <tbb/concurrent_queue.h>
#endif

namespace penstock {
namespace {

struct Item {
  union {
    const uint8_t* row;
    uint32_t word;  // of a row of 4 bytes
  };
  uint32_t place;
  uint32_t producer;
};

// A producer's rows under way, by place; it hears of their results by number, in order.
struct alignas(128) Inbox {
  explicit Inbox(const lab::BatcherCell& cell)
      : rows(size_t{cell.window} * cell.row_bytes), results(cell.window), sealed_ns(cell.window) {}
  std::vector<uint8_t> rows;  // [window, row_bytes]
  std::vector<uint32_t> results;
  std::vector<int64_t> sealed_ns;
  alignas(128) std::atomic<uint64_t> delivered{0};
};

class MutexQueue {
 public:
  explicit MutexQueue(const lab::BatcherCell&) {}
  struct Producer {
    explicit Producer(MutexQueue* q) : queue(q) {}
    void Push(const Item* items, size_t count) {
      bool wake;
      {
        std::lock_guard lock(queue->mutex_);
        queue->items_.insert(queue->items_.end(), items, items + count);
        wake = queue->waiting_;
      }
      if (wake) queue->ready_.notify_one();
    }
    MutexQueue* queue;
  };
  struct Consumer {
    explicit Consumer(MutexQueue* q) : queue(q) {}
    size_t Pop(Item* items, size_t count) {
      // All waiting rows are taken with the lock held once; then given out in batches.
      if (next == taken.size()) {
        taken.clear();
        next = 0;
        std::unique_lock lock(queue->mutex_);
        queue->waiting_ = true;
        // With a limit, so that the end of the measurement is seen.
        queue->ready_.wait_for(lock, std::chrono::milliseconds(5),
                               [this] { return !queue->items_.empty(); });
        queue->waiting_ = false;
        taken.swap(queue->items_);
      }
      const size_t n = std::min(count, taken.size() - next);
      std::copy_n(taken.begin() + static_cast<ptrdiff_t>(next), n, items);
      next += n;
      return n;
    }
    MutexQueue* queue;
    std::vector<Item> taken;
    size_t next = 0;
  };

 private:
  std::mutex mutex_;
  std::condition_variable ready_;
  std::vector<Item> items_;
  bool waiting_ = false;
};

class BoostQueue {
 public:
  explicit BoostQueue(const lab::BatcherCell& cell)
      : queue_(std::min<size_t>(65'000, size_t{cell.producers} * cell.window)) {}
  struct Producer {
    explicit Producer(BoostQueue* q) : queue(q) {}
    void Push(const Item* items, size_t count) {
      for (size_t i = 0; i < count; ++i) {
        while (!queue->queue_.bounded_push(items[i])) sched_yield();
      }
    }
    BoostQueue* queue;
  };
  struct Consumer {
    explicit Consumer(BoostQueue* q) : queue(q) {}
    size_t Pop(Item* items, size_t count) {
      size_t n = 0;
      while (n < count && queue->queue_.pop(items[n])) ++n;
      return n;
    }
    BoostQueue* queue;
  };

 private:
  boost::lockfree::queue<Item, boost::lockfree::fixed_sized<true>> queue_;
};

#ifdef PENSTOCK_HAVE_CONCURRENTQUEUE
class MoodycamelQueue {
 public:
  explicit MoodycamelQueue(const lab::BatcherCell& cell)
      : queue_(size_t{cell.window} * cell.producers, cell.producers, 0) {}
  struct Producer {
    explicit Producer(MoodycamelQueue* q) : queue(q), token(q->queue_) {}
    void Push(const Item* items, size_t count) {
      if (count == 1) {
        queue->queue_.enqueue(token, *items);
      } else {
        queue->queue_.enqueue_bulk(token, items, count);
      }
    }
    MoodycamelQueue* queue;
    moodycamel::ProducerToken token;
  };
  struct Consumer {
    explicit Consumer(MoodycamelQueue* q) : queue(q), token(q->queue_) {}
    size_t Pop(Item* items, size_t count) {
      return queue->queue_.try_dequeue_bulk(token, items, count);
    }
    MoodycamelQueue* queue;
    moodycamel::ConsumerToken token;
  };

 private:
  moodycamel::ConcurrentQueue<Item> queue_;
};
#endif

#ifdef PENSTOCK_HAVE_TBB
class TbbQueue {
 public:
  explicit TbbQueue(const lab::BatcherCell& cell) {
    queue_.set_capacity(static_cast<ptrdiff_t>(cell.window) * cell.producers);
  }
  struct Producer {
    explicit Producer(TbbQueue* q) : queue(q) {}
    void Push(const Item* items, size_t count) {
      for (size_t i = 0; i < count; ++i) queue->queue_.push(items[i]);
    }
    TbbQueue* queue;
  };
  struct Consumer {
    explicit Consumer(TbbQueue* q) : queue(q) {}
    size_t Pop(Item* items, size_t count) {
      size_t n = 0;
      while (n < count && queue->queue_.try_pop(items[n])) ++n;
      return n;
    }
    TbbQueue* queue;
  };

 private:
  tbb::concurrent_bounded_queue<Item> queue_;
};
#endif

template <typename Queue>
class PeerRun {
 public:
  explicit PeerRun(const lab::BatcherCell& cell) : cell_(cell), queue_(cell) {
    for (uint32_t i = 0; i < cell.producers; ++i) {
      producers_.push_back(std::make_unique<lab::BatcherProducer>(cell));
      inboxes_.push_back(std::make_unique<Inbox>(cell));
    }
  }

  lab::BatcherMeasurement Run() {
    return lab::MeasureBatcher(
        cell_, &producers_, &stop_, [this](uint32_t i) { Produce(i); }, {[this] { Batch(); }},
        [this] { stop_batcher_.store(true); });
  }

 private:
  Item MakeItem(uint32_t producer, uint64_t n, lab::BatcherProducer* self, Inbox* inbox) {
    self->Begin(n);
    Item item;
    item.place = self->PlaceOf(n);
    item.producer = producer;
    if (cell_.row_bytes == sizeof item.word) {
      lab::MakeRow(n, reinterpret_cast<uint8_t*>(&item.word), sizeof item.word);
    } else {
      uint8_t* row = inbox->rows.data() + size_t{item.place} * cell_.row_bytes;
      lab::MakeRow(n, row, cell_.row_bytes);
      item.row = row;
    }
    return item;
  }

  void Produce(uint32_t index) {
    lab::BatcherProducer& self = *producers_[index];
    Inbox& inbox = *inboxes_[index];
    typename Queue::Producer queue(&queue_);
    uint64_t submitted = 0;
    uint64_t taken = 0;
    while (true) {
      const uint64_t delivered = inbox.delivered.load(std::memory_order_acquire);
      const bool some = delivered != taken;
      for (; taken < delivered; ++taken) {
        const uint32_t place = self.PlaceOf(taken);
        self.TakeResult(taken, inbox.results[place], inbox.sealed_ns[place]);
      }
      const auto room = self.RowsUntilLook(stop_.load(std::memory_order_relaxed), submitted, taken);
      if (!room) return;
      if (*room == 0 && !some) sched_yield();
      for (uint64_t left = *room; left > 0;) {
        const auto count = static_cast<uint32_t>(std::min<uint64_t>(left, cell_.burst));
        std::array<Item, lab::kRowsPerLook> items;
        for (uint32_t i = 0; i < count; ++i, ++submitted) {
          items[i] = MakeItem(index, submitted, &self, &inbox);
        }
        queue.Push(items.data(), count);
        left -= count;
      }
    }
  }

  void Batch() {
    typename Queue::Consumer queue(&queue_);
    std::vector<Item> items(cell_.batch_rows);
    std::vector<uint8_t> rows(size_t{cell_.batch_rows} * cell_.row_bytes);
    std::vector<uint32_t> results(cell_.batch_rows);
    std::vector<uint64_t> delivered(cell_.producers);
    while (!stop_batcher_.load(std::memory_order_relaxed)) {
      const size_t count = queue.Pop(items.data(), items.size());
      if (count == 0) {
        sched_yield();
        continue;
      }
      const int64_t sealed_ns = lab::BenchNowNs();
      if (cell_.row_bytes == sizeof(uint32_t)) {
        for (size_t i = 0; i < count; ++i) std::memcpy(&rows[i * 4], &items[i].word, 4);
      } else {
        for (size_t i = 0; i < count; ++i) {
          std::memcpy(&rows[i * cell_.row_bytes], items[i].row, cell_.row_bytes);
        }
      }
      lab::RunNoopModel(rows.data(), cell_.row_bytes, static_cast<uint32_t>(count), results.data());
      for (size_t i = 0; i < count; ++i) {
        Inbox& inbox = *inboxes_[items[i].producer];
        inbox.results[items[i].place] = results[i];
        if (lab::BatcherProducer::IsSampled(items[i].place))
          inbox.sealed_ns[items[i].place] = sealed_ns;
        ++delivered[items[i].producer];
      }
      for (uint32_t i = 0; i < cell_.producers; ++i) {
        if (inboxes_[i]->delivered.load(std::memory_order_relaxed) != delivered[i]) {
          inboxes_[i]->delivered.store(delivered[i], std::memory_order_release);
        }
      }
    }
  }

  const lab::BatcherCell cell_;
  Queue queue_;
  std::vector<std::unique_ptr<lab::BatcherProducer>> producers_;
  std::vector<std::unique_ptr<Inbox>> inboxes_;
  std::atomic<bool> stop_{false};
  std::atomic<bool> stop_batcher_{false};
};

template <typename Queue>
lab::BatcherMeasurement RunPeer(const lab::BatcherCell& cell) {
  return PeerRun<Queue>(cell).Run();
}

}  // namespace

// The contenders, and how many they are. The program that loads this was built of the same sources.
extern "C" const lab::BatcherContender* penstock_queue_peers(size_t* count) {
  static const std::vector<lab::BatcherContender> kPeers = {
#ifdef PENSTOCK_HAVE_CONCURRENTQUEUE
      {"moodycamel", true, RunPeer<MoodycamelQueue>},
#endif
#ifdef PENSTOCK_HAVE_TBB
      {"tbb bounded", true, RunPeer<TbbQueue>},
#endif
      {"mutex+condvar", true, RunPeer<MutexQueue>},
      {"boost lockfree", true, RunPeer<BoostQueue>},
  };
  *count = kPeers.size();
  return kPeers.data();
}

}  // namespace penstock

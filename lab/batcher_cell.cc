#include "lab/batcher_cell.h"

#include <memory>
#include <thread>

namespace penstock::lab {
namespace {

uint64_t TakenRows(const std::vector<std::unique_ptr<BatcherProducer>>& producers) {
  uint64_t taken = 0;
  for (const auto& producer : producers) taken += producer->taken.load(std::memory_order_relaxed);
  return taken;
}

void SleepSeconds(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

}  // namespace

BatcherMeasurement MeasureBatcher(const BatcherCell& cell,
                                  std::vector<std::unique_ptr<BatcherProducer>>* producers,
                                  std::atomic<bool>* stop,
                                  const std::function<void(uint32_t)>& produce,
                                  const std::vector<std::function<void()>>& consumers,
                                  const std::function<void()>& stop_consumers) {
  std::vector<std::thread> consumer_threads, producer_threads;
  for (const auto& consumer : consumers) consumer_threads.emplace_back(consumer);
  for (uint32_t i = 0; i < cell.producers; ++i) {
    producer_threads.emplace_back([&produce, i] { produce(i); });
  }
  SleepSeconds(cell.seconds / 5);
  const uint64_t rows_before = TakenRows(*producers);
  const int64_t ns_before = BenchNowNs();
  SleepSeconds(cell.seconds);
  BatcherMeasurement measured;
  measured.rows_per_s = static_cast<double>(TakenRows(*producers) - rows_before) /
                        (static_cast<double>(BenchNowNs() - ns_before) * 1e-9);
  stop->store(true);
  for (std::thread& thread : producer_threads) thread.join();
  stop_consumers();
  for (std::thread& thread : consumer_threads) thread.join();
  for (const auto& producer : *producers) {
    measured.wrong_results += producer->wrong_;
    measured.sealed.Merge(producer->sealed_);
    measured.result.Merge(producer->result_);
  }
  return measured;
}

}  // namespace penstock::lab

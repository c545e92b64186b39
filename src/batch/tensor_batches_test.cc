#include "batch/tensor_batches.h"

#include <gtest/gtest.h>

#include <thread>

namespace penstock {
namespace {

// Rows of [1, 32, 32] from several threads, worked on as [128, 32, 32]; outputs [128, 2] are read
// where the model wrote them.
TEST(TensorBatches, RowsOfThirtyTwoBySquare) {
  constexpr uint32_t kBatches = 4;
  constexpr uint32_t kRows = 128;
  constexpr uint32_t kProducers = 4;
  constexpr uint32_t kPieces = 300;
  EventCount ready;
  BatchRing ring(kBatches, {.rows = kRows}, &ready);
  const uint32_t in_shape[] = {1, 32, 32};
  const uint32_t out_shape[] = {2};
  TensorBatches<float> inputs(kBatches, kRows, in_shape);
  TensorBatches<float> outputs(kBatches, kRows, out_shape);
  ASSERT_EQ(inputs.row_elements(), 1024u);

  std::atomic<uint32_t> running{kProducers};
  std::atomic<uint32_t> wrong{0};
  const auto produce = [&](uint32_t producer) {
    for (uint32_t piece = 0; piece < kPieces; ++piece) {
      const uint32_t rows = 1 + piece % 7;
      Reservation place;
      while (ring.Reserve({.rows = rows}, &place) != ReserveResult::kOk) std::this_thread::yield();
      const std::span<float> in = inputs.RowsOf(place);
      wrong += in.size() != rows * inputs.row_elements();
      for (uint32_t row = 0; row < rows; ++row) {
        for (uint32_t i = 0; i < 1024; ++i) {
          in[row * 1024 + i] = static_cast<float>(producer * 100 + piece + row + i);
        }
      }
      ring.PublishAwaited(place);
      ring.Wait(place);
      const std::span<const float> out = outputs.RowsOf(place);
      for (uint32_t row = 0; row < rows; ++row) {
        const auto base = static_cast<float>(producer * 100 + piece + row);
        wrong += out[row * 2] != base;
        wrong += out[row * 2 + 1] != base * 1024 + 1023 * 512;
      }
      ring.Release(place);
    }
    --running;
  };
  std::vector<std::thread> producers;
  for (uint32_t i = 0; i < kProducers; ++i) producers.emplace_back(produce, i);

  BatchRing::Claimed claimed;
  while (running.load() > 0) {
    if (!ring.Claim(&claimed)) {
      std::this_thread::yield();
      continue;
    }
    // The model sees one contiguous [rows, 32, 32].
    const std::span<const float> in = inputs.BatchOf(claimed);
    const std::span<float> out = outputs.BatchOf(claimed);
    ASSERT_EQ(in.size(), claimed.rows * 1024);
    for (uint32_t row = 0; row < claimed.rows; ++row) {
      float sum = 0;
      for (uint32_t i = 0; i < 1024; ++i) sum += in[row * 1024 + i];
      out[row * 2] = in[row * 1024];
      out[row * 2 + 1] = sum;
    }
    ring.Complete(claimed);
  }
  for (std::thread& thread : producers) thread.join();
  EXPECT_EQ(wrong.load(), 0u);
}

}  // namespace
}  // namespace penstock

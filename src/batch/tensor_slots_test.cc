#include "batch/tensor_slots.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <thread>

#include "batch/run_writer.h"

namespace penstock::batch {
namespace {

TensorSlots::Options OptionsOf(size_t batches, uint32_t rows, std::vector<RowSpec> inputs,
                               std::vector<RowSpec> outputs = {}) {
  return {
      .batches = batches, .rows = rows, .inputs = std::move(inputs), .outputs = std::move(outputs)};
}

template <typename T>
T* As(std::span<std::byte> bytes) {
  return reinterpret_cast<T*>(bytes.data());
}

TEST(TensorSlots, OneReservationAddressesAllTensors) {
  const auto options = OptionsOf(
      2, 5,
      {{"ids", signature::ElementType::kInt32, {3}}, {"mask", signature::ElementType::kBool, {3}}},
      {{"score", signature::ElementType::kFp32, {}}});
  // 5 rows of 12, 3 and 4 bytes: 60, 15 and 20 come to 64 each.
  EXPECT_EQ(*TensorSlots::BytesOf(options), 2u * 3 * 64);
  auto slots = TensorSlots::Make(options);
  ASSERT_TRUE(slots.ok());
  ASSERT_EQ(slots->inputs().size(), 2u);
  EXPECT_EQ(slots->inputs()[1].spec().name, "mask");
  EXPECT_EQ(slots->outputs()[0].row_bytes(), 4u);
  const Reservation place = {.slot = 1, .row = 2, .rows = 2};
  for (const auto* arenas : {&slots->inputs(), &slots->outputs()}) {
    for (const TensorSlots::Arena& arena : *arenas) {
      EXPECT_EQ(reinterpret_cast<uintptr_t>(arena.SlotOf(1)) % TensorSlots::kAlignment, 0u);
      EXPECT_EQ(arena.RowsOf(place).data(), arena.SlotOf(1) + 2 * arena.row_bytes());
      EXPECT_EQ(arena.RowsOf(place).size(), 2 * arena.row_bytes());
      for (size_t i = 0; i < 5 * arena.row_bytes(); ++i) {
        EXPECT_EQ(arena.SlotOf(1)[i], std::byte{0});
      }
    }
  }
}

TEST(TensorSlots, RefusesByName) {
  const auto refuses = [](const RowSpec& spec, const char* why, uint32_t rows = 8) {
    const auto bytes = TensorSlots::BytesOf(OptionsOf(4, rows, {spec}));
    ASSERT_FALSE(bytes.ok());
    EXPECT_EQ(bytes.status().field(), spec.name);
    EXPECT_NE(bytes.status().message().find(why), std::string::npos) << bytes.status().message();
    EXPECT_FALSE(TensorSlots::Make(OptionsOf(4, rows, {spec})).ok());
  };
  refuses({"x", signature::ElementType::kFp32, {3, -1}}, "-1");
  refuses({"x", signature::ElementType::kFp32, {0}}, "0");
  refuses({"q", signature::ElementType::kBytes, {32}}, "BYTES");
  refuses({"x", signature::ElementType::kFp32, {1 << 20, 1 << 20}}, "64 GiB");
  refuses({"x", signature::ElementType::kFp64, {INT64_MAX, INT64_MAX, INT64_MAX}}, "64 GiB");
  refuses({"rows", signature::ElementType::kFp32, {1}}, "rows", 0);
  refuses({"rows", signature::ElementType::kFp32, {1}}, "8191", 8192);
  // Each by itself would do.
  const RowSpec half = {"half", signature::ElementType::kUint8, {int64_t{33} << 28}};
  EXPECT_TRUE(TensorSlots::BytesOf(OptionsOf(4, 1, {half})).ok());
  EXPECT_FALSE(TensorSlots::BytesOf(OptionsOf(4, 1, {half}, {half})).ok());
}

// Rows of [1, 32, 32] that count up from a number; their model gives [2]: the number, and the sum.
float NumberOf(uint32_t producer, uint32_t piece, uint32_t row) {
  return static_cast<float>(producer * 100 + piece + row);
}
void WriteSquare(float number, float* in) {
  for (uint32_t i = 0; i < 1024; ++i) in[i] = number + static_cast<float>(i);
}
void SumSquares(const float* in, uint32_t rows, float* out) {
  for (uint32_t row = 0; row < rows; ++row) {
    out[row * 2] = in[row * 1024];
    out[row * 2 + 1] = std::accumulate(in + row * 1024, in + (row + 1) * 1024, 0.0f);
  }
}
bool IsSum(float number, const float* out) {
  return out[0] == number && out[1] == number * 1024 + 1023 * 512;
}

// From several threads, worked on as [128, 32, 32]; outputs [128, 2] are read where the model wrote
// them. Some threads write runs, so there are voids.
TEST(TensorSlots, RowsOfThirtyTwoBySquare) {
  constexpr uint32_t kBatches = 4;
  constexpr uint32_t kRows = 128;
  constexpr uint32_t kProducers = 4;
  EventCount ready;
  BatchRing ring(kBatches, {.rows = kRows}, &ready);
  auto slots = TensorSlots::Make(OptionsOf(kBatches, kRows,
                                           {{"in", signature::ElementType::kFp32, {1, 32, 32}}},
                                           {{"out", signature::ElementType::kFp32, {2}}}));
  ASSERT_TRUE(slots.ok());
  const TensorSlots::Arena& inputs = slots->inputs()[0];
  const TensorSlots::Arena& outputs = slots->outputs()[0];
  ASSERT_EQ(inputs.row_bytes(), 4096u);

  std::atomic<uint32_t> running{kProducers};
  std::atomic<uint32_t> wrong{0};
  const auto produce = [&](uint32_t producer) {
    RunWriter writer(&ring, {.awaited = true, .first_rows = 8});
    const bool runs = producer % 2 == 0;
    for (uint32_t piece = 0; piece < 300; ++piece) {
      const uint32_t rows = 1 + piece % 7;
      Reservation place;
      while ((runs ? writer.Take(rows, &place) : ring.Reserve({.rows = rows}, &place)) !=
             ReserveResult::kOk) {
        std::this_thread::yield();
      }
      auto* const in = As<float>(inputs.RowsOf(place));
      for (uint32_t row = 0; row < rows; ++row) {
        WriteSquare(NumberOf(producer, piece, row), in + row * 1024);
      }
      if (runs) {
        writer.Publish();
      } else {
        ring.PublishAwaited(place);
      }
      ring.Wait(place);
      const auto* const out = As<const float>(outputs.RowsOf(place));
      for (uint32_t row = 0; row < rows; ++row) {
        wrong += !IsSum(NumberOf(producer, piece, row), out + row * 2);
      }
      ring.Release(place, runs ? rows : 1);
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
    SumSquares(reinterpret_cast<const float*>(inputs.SlotOf(claimed.slot)), claimed.rows,
               reinterpret_cast<float*>(outputs.SlotOf(claimed.slot)));
    ring.Complete(claimed);
  }
  for (std::thread& thread : producers) thread.join();
  EXPECT_EQ(wrong.load(), 0u);
}

TEST(TensorSlots, RowsMoveOverVoids) {
  auto slots = TensorSlots::Make(OptionsOf(
      2, 32,
      {{"a", signature::ElementType::kInt32, {}}, {"b", signature::ElementType::kUint8, {3}}},
      {{"y", signature::ElementType::kInt32, {}}}));
  ASSERT_TRUE(slots.ok());
  const TensorSlots::Arena& a = slots->inputs()[0];
  const TensorSlots::Arena& b = slots->inputs()[1];
  for (uint32_t row = 0; row < 9; ++row) {
    reinterpret_cast<uint32_t*>(a.SlotOf(1))[row] = 100 + row;
    std::memset(b.RowOf(1, row), static_cast<int>(row), 3);
  }
  slots->MoveInputs(1, 5, 3, 4);  // the pieces overlap
  for (const auto& [row, was] : {std::pair(2u, 2u), {3u, 5u}, {4u, 6u}, {5u, 7u}, {6u, 8u}}) {
    EXPECT_EQ(reinterpret_cast<uint32_t*>(a.SlotOf(1))[row], 100 + was);
    EXPECT_EQ(b.RowOf(1, row)[2], std::byte(was));
  }
  EXPECT_EQ(reinterpret_cast<uint32_t*>(a.SlotOf(0))[3], 0u);
}

}  // namespace
}  // namespace penstock::batch

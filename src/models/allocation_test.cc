// No allocation in the forward pass once its buffers fit: every operator new is counted.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <vector>

#include "cpu/cpu_backend.h"
#include "models/encoder.h"

namespace {
std::atomic<long> allocations{0};
}  // namespace

// The sanitizers bring operators of their own; counting is left to the other builds.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kCounts = false;
#else
constexpr bool kCounts = true;

void* operator new(size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* p = std::malloc(size)) return p;
  throw std::bad_alloc();
}
void* operator new(size_t size, std::align_val_t alignment) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  const size_t step = static_cast<size_t>(alignment);
  if (void* p = std::aligned_alloc(step, (size + step - 1) / step * step)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, size_t, std::align_val_t) noexcept { std::free(p); }
#endif

namespace penstock {
namespace {

TEST(Forward, AllocatesNothingOnceWarm) {
  if (!kCounts) GTEST_SKIP() << "allocations are not counted under sanitizers";
  for (const char* name :
       {"bert_mean_normalize", "modernbert_mean_normalize", "mpnet_mean_normalize"}) {
    auto folder = ModelFolder::Read(std::string(PENSTOCK_GOLDEN_DIR "/models/") + name);
    ASSERT_TRUE(folder.ok()) << folder.status().ToString();
    auto backend = NewCpuBackend({.threads = 3, .pin = false});
    ASSERT_TRUE(backend.ok());
    auto model = EncoderModel::Load(*folder, backend->get());
    ASSERT_TRUE(model.ok()) << model.status().ToString();
    EncoderSession session(model->get());

    const int32_t longest = (*model)->max_tokens();
    std::vector<int32_t> ids, offsets{0};
    for (int32_t length : {longest, 3, 11, longest / 2, 1, longest, 20, 17}) {
      for (int32_t t = 0; t < length; ++t) ids.push_back(5 + t % 50);
      offsets.push_back(static_cast<int32_t>(ids.size()));
    }
    const PackedBatch batch{ids, {}, offsets, {}};
    const std::vector<int32_t> one = {0, longest};
    const PackedBatch single{std::span(ids).first(static_cast<size_t>(longest)), {}, one, {}};
    std::vector<float> out(batch.sequences() * static_cast<size_t>((*model)->embedding_size()));
    const std::span<float> first =
        std::span(out).first(static_cast<size_t>((*model)->embedding_size()));
    ASSERT_TRUE(session.Run(batch, EncoderOutput::kPooled, out).ok());
    const long before = allocations.load();
    for (int i = 0; i < 50; ++i) {
      ASSERT_TRUE(session.Run(batch, EncoderOutput::kPooled, out).ok());
      ASSERT_TRUE(session.Run(single, EncoderOutput::kPooled, first).ok());
    }
    EXPECT_EQ(allocations.load(), before) << name;
  }
}

}  // namespace
}  // namespace penstock

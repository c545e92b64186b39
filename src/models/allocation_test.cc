// The forward pass allocates nothing once its buffers fit, and a failed allocation does no harm.
#include <gtest/gtest.h>

#include <memory>
#include <new>
#include <string>
#include <vector>

#include "base/failing_new.h"
#include "cpu/cpu_backend.h"
#include "models/encoder.h"

namespace penstock::models {
namespace {

TEST(Forward, AllocatesNothingOnceWarm) {
  for (const char* name :
       {"bert_mean_normalize", "modernbert_mean_normalize", "mpnet_mean_normalize"}) {
    auto folder = families::ModelFolder::Read(std::string(PENSTOCK_GOLDEN_DIR "/models/") + name);
    ASSERT_TRUE(folder.ok()) << folder.status().ToString();
    auto backend = cpu::NewCpuBackend({.threads = 3, .pin = false, .exact_threads = true});
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
    const program::PackedBatch batch{ids, {}, offsets, {}};
    const std::vector<int32_t> one = {0, longest};
    const program::PackedBatch single{
        std::span(ids).first(static_cast<size_t>(longest)), {}, one, {}};
    std::vector<float> out(batch.sequences() * static_cast<size_t>((*model)->embedding_size()));
    const std::span<float> first =
        std::span(out).first(static_cast<size_t>((*model)->embedding_size()));
    ASSERT_TRUE(session.Run(batch, program::EncoderOutput::kPooled, out).ok());
    const long before = FailingNew::Allocations();
    for (int i = 0; i < 50; ++i) {
      ASSERT_TRUE(session.Run(batch, program::EncoderOutput::kPooled, out).ok());
      ASSERT_TRUE(session.Run(single, program::EncoderOutput::kPooled, first).ok());
    }
    EXPECT_EQ(FailingNew::Allocations(), before) << name;
  }
}

TEST(Forward, AnAllocationThatFailsFailsThatRunOnly) {
  auto folder = families::ModelFolder::Read(PENSTOCK_GOLDEN_DIR "/models/bert_mean_normalize");
  ASSERT_TRUE(folder.ok()) << folder.status().ToString();
  for (const int threads : {1, 3}) {
    auto backend = *cpu::NewCpuBackend({.threads = threads, .pin = false, .exact_threads = true});
    auto model = EncoderModel::Load(*folder, backend.get());
    ASSERT_TRUE(model.ok()) << model.status().ToString();
    std::vector<int32_t> ids, offsets{0};
    for (int32_t s = 1; s <= 24; ++s) {
      for (int32_t t = 0; t < 16; ++t) ids.push_back(5 + (s + t) % 50);
      offsets.push_back(s * 16);
    }
    const program::PackedBatch batch{ids, {}, offsets, {}};
    std::vector<float> expected(24 * static_cast<size_t>((*model)->embedding_size()));
    ASSERT_TRUE(
        EncoderSession(model->get()).Run(batch, program::EncoderOutput::kPooled, expected).ok());

    // One session that fails at every allocation in turn, until it needs none.
    EncoderSession session(model->get());
    std::vector<float> out(expected.size());
    int failures = 0;
    for (long nth = 1;; ++nth) {
      ASSERT_LT(nth, 1000);
      if (nth % 3 == 0) session.Release();
      FailingNew fail(nth);
      const Status status = session.Run(batch, program::EncoderOutput::kPooled, out);
      if (status.ok()) {
        EXPECT_EQ(out, expected);
        if (!fail.failed() && nth % 3 == 0) break;
      } else {
        EXPECT_TRUE(fail.failed());
        EXPECT_EQ(status.code(), StatusCode::kResourceExhausted) << status.ToString();
        ++failures;
      }
    }
    EXPECT_GT(failures, 5);
    EXPECT_EQ(session.Release() > 0, true);
    EXPECT_EQ(session.HeldBytes(), 0u);
  }
}

}  // namespace
}  // namespace penstock::models

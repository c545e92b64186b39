// Activation memory grows by steps, goes back when asked, and comes again with the same bits.
#include <gtest/gtest.h>

#include <vector>

#include "cpu/cpu_backend.h"
#include "models/encoder.h"
#include "program/dry_backend.h"

namespace penstock::models {
namespace {

class Release : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    auto folder = families::ModelFolder::Read(PENSTOCK_GOLDEN_DIR "/models/bert_mean_normalize");
    ASSERT_TRUE(folder.ok()) << folder.status().ToString();
    backend_ = *cpu::NewCpuBackend({.threads = GetParam(), .pin = false, .exact_threads = true});
    auto model = EncoderModel::Load(*folder, backend_.get());
    ASSERT_TRUE(model.ok()) << model.status().ToString();
    model_ = *std::move(model);
  }
  // Pooled vectors of `sequences` texts of `length` tokens.
  std::vector<float> Run(EncoderSession* session, int32_t sequences, int32_t length) {
    std::vector<int32_t> ids, offsets{0};
    for (int32_t t = 0; t < sequences * length; ++t) ids.push_back(5 + t % 50);
    for (int32_t s = 1; s <= sequences; ++s) offsets.push_back(s * length);
    std::vector<float> out(static_cast<size_t>(sequences) *
                           static_cast<size_t>(model_->embedding_size()));
    const Status status =
        session->Run({ids, {}, offsets, {}}, program::EncoderOutput::kPooled, out);
    EXPECT_TRUE(status.ok()) << status.ToString();
    return out;
  }

  // Bytes of the scratch that sessions of the backend share: a new session has nothing of its own.
  uint64_t ScratchBytes() const { return EncoderSession(model_.get()).HeldBytes(); }

  std::unique_ptr<program::Backend> backend_;
  std::unique_ptr<EncoderModel> model_;
};

// Nothing runs on a dry backend.
TEST(EncoderSession, TellsThatItsProgramsCouldNotBePrepared) {
  const auto folder =
      families::ModelFolder::Read(PENSTOCK_GOLDEN_DIR "/models/bert_mean_normalize");
  ASSERT_TRUE(folder.ok()) << folder.status().ToString();
  program::DryBackend dry(numbers::DType::kF32);
  const auto model = EncoderModel::Load(*folder, &dry);
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  EncoderSession session(model->get());
  EXPECT_EQ(session.status().code(), StatusCode::kUnsupported);
  EXPECT_EQ(session.Reserve(1, 1).code(), StatusCode::kUnsupported);
  std::vector<float> out(static_cast<size_t>((*model)->embedding_size()));
  const std::vector<int32_t> ids = {5}, offsets = {0, 1};
  const auto status = session.Run({ids, {}, offsets, {}}, program::EncoderOutput::kPooled, out);
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_EQ(session.HeldBytes() + session.BytesFor(1, 1) + session.Release(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Threads, Release, testing::Values(1, 3));

TEST_P(Release, GivesAllBackAndComesAgain) {
  EncoderSession session(model_.get());
  EXPECT_EQ(session.HeldBytes(), 0u);
  const auto first = Run(&session, 40, 16);
  const uint64_t held = session.HeldBytes();
  EXPECT_GT(held, 640u * static_cast<size_t>(model_->hidden_size()) * sizeof(float));
  EXPECT_EQ(session.Release(), held);
  EXPECT_EQ(session.HeldBytes(), 0u);
  EXPECT_EQ(session.Release(), 0u);
  EXPECT_EQ(Run(&session, 40, 16), first);
  EXPECT_EQ(session.HeldBytes(), held);
}

TEST_P(Release, BuffersGrowAtStepsOf128Tokens) {
  EncoderSession session(model_.get());
  Run(&session, 16, 1);
  const uint64_t one = session.HeldBytes();
  Run(&session, 16, 8);  // 128
  EXPECT_EQ(session.HeldBytes(), one);
  Run(&session, 3, 43);  // 129
  const uint64_t two = session.HeldBytes();
  EXPECT_GT(two, one);
  Run(&session, 16, 16);  // 256
  EXPECT_EQ(session.HeldBytes(), two);
  Run(&session, 16, 1);
  EXPECT_EQ(session.HeldBytes(), two);
}

TEST_P(Release, AnotherModelOfTheBackendGoesOn) {
  EncoderSession busy(model_.get()), idle(model_.get());
  const auto expected = Run(&busy, 40, 16);
  EXPECT_EQ(Run(&idle, 40, 16), expected);
  const uint64_t scratch = ScratchBytes();
  const uint64_t held = busy.HeldBytes();
  EXPECT_GT(scratch, 0u);
  EXPECT_EQ(idle.Release(), held - scratch);  // its own
  EXPECT_EQ(ScratchBytes(), scratch);
  EXPECT_EQ(busy.HeldBytes(), held);
  EXPECT_EQ(idle.Release(), 0u);
  EXPECT_EQ(Run(&busy, 40, 16), expected);
  EXPECT_EQ(busy.Release(), held);
  EXPECT_EQ(ScratchBytes(), 0u);
}

TEST_P(Release, TheLastSessionTakesTheScratchWithIt) {
  {
    EncoderSession session(model_.get());
    Run(&session, 40, 16);
    EXPECT_GT(ScratchBytes(), 0u);
  }
  EXPECT_EQ(ScratchBytes(), 0u);
}

}  // namespace
}  // namespace penstock::models

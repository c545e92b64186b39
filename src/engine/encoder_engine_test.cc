// A model that loads while others work.
#include "engine/encoder_engine.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "cpu/cpu_backend.h"
#include "models/encoder.h"

namespace penstock::engine {
namespace {

// Runs batches of some milliseconds on a session of its own until it is told to stop.
void KeepBusy(const models::EncoderModel* model, const std::atomic<bool>* stop) {
  constexpr int32_t kTexts = 512, kLength = 32;
  std::vector<int32_t> ids(kTexts * kLength, 5), offsets;
  for (int32_t s = 0; s <= kTexts; ++s) offsets.push_back(s * kLength);
  std::vector<float> out(kTexts * static_cast<size_t>(model->embedding_size()));
  models::EncoderSession session(model);
  while (!*stop) {
    const Status status = session.Run({ids, {}, offsets, {}}, program::EncoderOutput::kPooled, out);
    ASSERT_TRUE(status.ok()) << status.ToString();
  }
}

TEST(EngineLoad, MeasuresItsOwnTimeUnderTraffic) {
  const auto backend = *cpu::NewCpuBackend({.threads = 2, .pin = false});
  metrics::Metrics metrics;
  const auto batch_s = [&](const char* name) {
    EncoderEngineOptions options;
    options.name = name;
    options.scheduler.max_batch_tokens = sched::EncoderSchedulerOptions::kAutoBatchTokens;
    auto engine = EncoderEngine::Load(PENSTOCK_GOLDEN_DIR "/models/bert_mean_normalize", options,
                                      backend.get(), &metrics);
    EXPECT_TRUE(engine.ok()) << engine.status().ToString();
    return engine.ok() ? (*engine)->scheduler().times().Seconds(512, 512 * 32) : 0;
  };
  const double alone_s = batch_s("alone");
  std::atomic<bool> stop{false};
  const auto folder =
      families::ModelFolder::Read(PENSTOCK_GOLDEN_DIR "/models/bert_mean_normalize");
  ASSERT_TRUE(folder.ok()) << folder.status().ToString();
  const auto other = models::EncoderModel::Load(*folder, backend.get());
  ASSERT_TRUE(other.ok()) << other.status().ToString();
  // Several, so that there is always one to wait for.
  std::vector<std::thread> others;
  for (int i = 0; i < 3; ++i) others.emplace_back(KeepBusy, other->get(), &stop);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));  // until all of them compute
  const double beside_s = batch_s("beside");
  stop = true;
  for (std::thread& busy : others) busy.join();
  EXPECT_GT(alone_s, 0);
  EXPECT_LE(beside_s, std::max(4 * alone_s, 2e-3));
}

}  // namespace
}  // namespace penstock::engine

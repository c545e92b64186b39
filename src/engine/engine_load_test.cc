// A model that loads while others work.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "cpu/cpu_backend.h"
#include "engine/engine.h"

namespace penstock {
namespace {

// Batches of another model, as far as the backend's threads are concerned.
class OtherBatch final : public LaneWork {
 public:
  void RunPiece(size_t, size_t, Backend*) override {
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
  }
};

TEST(EngineLoad, MeasuresItsOwnTimeUnderTraffic) {
  const auto backend = *NewCpuBackend({.threads = 2, .pin = false});
  Metrics metrics;
  const auto batch_s = [&](const char* name) {
    EngineOptions options;
    options.name = name;
    options.scheduler.max_batch_tokens = EncoderSchedulerOptions::kAutoBatchTokens;
    auto engine = Engine::Load(PENSTOCK_GOLDEN_DIR "/models/bert_mean_normalize", options,
                               backend.get(), &metrics);
    EXPECT_TRUE(engine.ok()) << engine.status().ToString();
    return engine.ok() ? (*engine)->scheduler().times().Seconds(512, 512 * 32) : 0;
  };
  const double alone_s = batch_s("alone");
  std::atomic<bool> stop{false};
  // Several, so that there is always one to wait for.
  std::vector<std::thread> others;
  for (int i = 0; i < 3; ++i) {
    others.emplace_back([&] {
      OtherBatch batch;
      while (!stop) backend->RunLanes(2, &batch);
    });
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  const double beside_s = batch_s("beside");
  stop = true;
  for (std::thread& other : others) other.join();
  EXPECT_GT(alone_s, 0);
  EXPECT_LE(beside_s, std::max(4 * alone_s, 2e-3));
}

}  // namespace
}  // namespace penstock

// Models that are unloaded and loaded again while requests come: with leaders, bulk work, a result
// cache and clients that leave. Every request is answered, with the right numbers or a refusal, and
// memory comes back. PENSTOCK_MODEL_CYCLES sets the number of cycles; 1,000 take less than a
// minute.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <future>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "api/service.h"
#include "cpu/cpu_backend.h"
#include "log/log.h"
#include "os/memory.h"
#include "registry/registry.h"

namespace penstock::api {
namespace {

constexpr std::array kModels = {"bert_mean_normalize", "distilbert_dense_tanh",
                                "mpnet_mean_normalize"};
constexpr size_t kClients = 4;

int Cycles() {
  const char* given = std::getenv("PENSTOCK_MODEL_CYCLES");
  return given == nullptr ? 90 : std::max(30, std::atoi(given));
}

class ModelCycles : public testing::Test {
 protected:
  void SetUp() override {
    LogOptions log;
    log.level = LogLevel::kWarn;
    InitLog(log);
    ReturnLargeBlocks();
    backend_ = *cpu::NewCpuBackend({.threads = 2, .pin = false});
    registry_ = std::make_unique<registry::Registry>(backend_.get(), &metrics_);
    for (const char* model : kModels) {
      registry::ModelSpec spec;
      spec.name = model;
      spec.reference = std::string(PENSTOCK_GOLDEN_DIR "/models/") + model;
      spec.options.encoder.scheduler.max_batch_tokens = 64;
      ASSERT_TRUE(registry_->Add(std::move(spec)).ok());
    }
    registry_->StartLoading();
    ASSERT_TRUE(registry_->WaitLoaded().ok());
    ServiceOptions limits;
    limits.result_cache_bytes = 64 << 10;  // some are found, some are pushed out
    limits.tokenization_workers = 3;
    service_ = std::make_unique<Service>(registry_.get(), limits, &metrics_);
    for (int i = 0; i < 24; ++i) {
      std::string text = "t" + std::to_string(i);
      for (int w = 0; w < i % 7; ++w) text += " some words";
      texts_.push_back(std::move(text));
    }
    for (const char* model : kModels) {
      for (const std::string& text : texts_) {
        const auto response = Embed(model, text, {});
        ASSERT_TRUE(response.ok()) << response.status().ToString();
        expected_[model].push_back(response->values);
      }
    }
  }

  void TearDown() override { InitLog({}); }

  Expected<EmbedResponse> Embed(const std::string& model, const std::string& text,
                                RequestContext context, bool leaves = false) {
    EmbedRequest request;
    request.model = model;
    request.inputs.push_back({text, {}, false});
    const auto cancel = context.cancel;
    std::promise<Expected<EmbedResponse>> promise;
    service_->Embed(std::move(request), std::move(context),
                    [&](Expected<EmbedResponse> result) { promise.set_value(std::move(result)); });
    if (leaves) cancel->Cancel();
    return promise.get_future().get();
  }

  // One request; a model that is absent is loaded, and asked again.
  void Ask(std::mt19937* random) {
    const std::string model = kModels[(*random)() % kModels.size()];
    const size_t text = (*random)() % texts_.size();
    for (;;) {
      RequestContext context;
      context.cancel = std::make_shared<CancelToken>();
      if ((*random)() % 8 == 0) context.priority = Priority::kBulk;
      const bool leaves = (*random)() % 8 == 0;
      const auto response = Embed(model, texts_[text], std::move(context), leaves);
      if (response.ok()) {
        EXPECT_EQ(response->values, expected_[model][text]) << model << " " << text;
        ++answered_;
        return;
      }
      if (leaves && response.status().code() == StatusCode::kCancelled) {
        ++left_;
        return;
      }
      ASSERT_EQ(response.status().code(), StatusCode::kUnavailable) << response.status().ToString();
      ++refused_;
      const Status loaded = registry_->Load(model).get();
      ASSERT_TRUE(loaded.ok()) << loaded.ToString();
    }
  }

  // Under traffic.
  void Cycle(int cycles) {
    std::atomic<bool> stop{false};
    std::vector<std::thread> clients;
    for (size_t c = 0; c < kClients; ++c) {
      clients.emplace_back([&, c] {
        std::mt19937 random(static_cast<unsigned>(c));
        while (!stop) {
          ++asked_;
          Ask(&random);
          // Now and then the clients pause, so that submitting threads lead.
          if (random() % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(300));
        }
      });
    }
    for (int i = 0; i < cycles; ++i) {
      const char* const model = kModels[static_cast<size_t>(i) % kModels.size()];
      // A client may be loading it.
      while (!registry_->Unload(model).get().ok()) std::this_thread::yield();
      const Status loaded = registry_->Load(model).get();
      EXPECT_TRUE(loaded.ok()) << loaded.ToString();
    }
    stop = true;
    for (std::thread& client : clients) client.join();
  }

  // Resident memory where all are unloaded.
  uint64_t BytesOfNoModel() {
    for (const char* model : kModels) EXPECT_TRUE(registry_->Unload(model).get().ok());
    TrimHeap();
    return ResidentBytes();
  }

  metrics::Metrics metrics_;
  std::unique_ptr<program::Backend> backend_;
  std::unique_ptr<registry::Registry> registry_;
  std::unique_ptr<Service> service_;
  std::vector<std::string> texts_;
  std::map<std::string, std::vector<std::vector<float>>> expected_;
  std::atomic<int> asked_{0}, answered_{0}, left_{0}, refused_{0};
};

TEST_F(ModelCycles, LoseNoRequestAndLeaveMemoryFlat) {
  const int cycles = Cycles();
  // The first part brings threads, caches and the heap to the size they keep.
  Cycle(cycles / 3);
  const uint64_t before = BytesOfNoModel();
  Cycle(cycles - cycles / 3);
  const uint64_t after = BytesOfNoModel();
  EXPECT_EQ(asked_, answered_ + left_);
  EXPECT_GT(answered_, cycles);
  const auto led = [&](const char* model) {
    return metrics_
        .AddCounter("penstock_batches_led_total", "", metrics::MetricLabel("model", model))
        .value();
  };
  EXPECT_GT(led(kModels[0]) + led(kModels[1]) + led(kModels[2]), 0u);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_LE(static_cast<double>(after), static_cast<double>(before) * 1.05);
#endif
  RecordProperty("answered", answered_);
  std::printf("%d cycles: %d answered, %d left, %d refused and asked again; %.1f MiB, then %.1f\n",
              cycles, answered_.load(), left_.load(), refused_.load(),
              static_cast<double>(before) / (1 << 20), static_cast<double>(after) / (1 << 20));
}

// One model of two is unloaded: its memory goes back to the system, not only to the heap.
TEST_F(ModelCycles, UnloadingGivesMemoryBack) {
  [[maybe_unused]] const uint64_t none = BytesOfNoModel();  // not under sanitizers
  EXPECT_EQ(registry_->HeldBytes(), 0u);
  // Scratch that all models share may come to lie on one huge page more than before. So many
  // rounds that a model's weights left in each would be far more.
  [[maybe_unused]] constexpr uint64_t kHugePage = 2 << 20;
  for (int i = 0; i < 12; ++i) {
    for (const char* model : kModels) ASSERT_TRUE(registry_->Load(model).get().ok());
    for (const char* model : kModels) ASSERT_TRUE(Embed(model, texts_[0], {}).ok());
    for (const char* model : kModels) ASSERT_TRUE(registry_->Unload(model).get().ok());
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    EXPECT_LE(ResidentBytes(), none + none / 20 + kHugePage);
#endif
  }
}

}  // namespace
}  // namespace penstock::api

// Models on several devices, each with memory of its own: the CPU under two names.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <stdexcept>

#include "base/eventually_test_util.h"
#include "cpu/cpu_backend.h"
#include "registry/registry.h"

namespace penstock::registry {
namespace {

using testing::HasSubstr;

// The CPU, until it is lost.
class LosableBackend final : public program::Backend {
 public:
  explicit LosableBackend(const program::BackendSizes& sizes = {}) : program::Backend(sizes) {}
  std::string name() const override { return cpu_->name(); }
  uint64_t AvailableBytes() const override { return cpu_->AvailableBytes(); }
  Status Health() const override {
    return lost_ ? Status(StatusCode::kUnavailable, "it is lost") : Status::Ok();
  }
  std::shared_ptr<const program::DeviceCounters> counters() const override { return counters_; }
  // As on the host: where that is not f32, models of both would not be alike.
  numbers::DType preferred_dtype() const override { return cpu_->preferred_dtype(); }
  std::unique_ptr<program::Table> Keep(int64_t rows, int32_t width, const FillRows& fill) override {
    auto kept = cpu_->Keep(rows, width, fill);
    CountPacked(kept->bytes());
    return kept;
  }
  Expected<std::unique_ptr<program::PackedLinear>> Pack(
      std::span<const program::LinearRows> parts, const program::PackOptions& options) override {
    if (dies_) {
      Lose();
      throw std::runtime_error("a call failed");
    }
    auto packed = cpu_->Pack(parts, options);
    if (packed.ok()) CountPacked((*packed)->bytes());
    return packed;
  }
  Expected<std::unique_ptr<program::ProgramRun>> Prepare(
      std::span<const program::Program* const> programs,
      const program::PrepareOptions& options) override {
    return cpu_->Prepare(programs, options);
  }
  void Lose() { lost_ = true; }
  void LoseAtPack() { dies_ = true; }
  program::DeviceCounters* count() { return counters_.get(); }

 private:
  const std::unique_ptr<program::Backend> cpu_ = *cpu::NewCpuBackend({.threads = 1, .pin = false});
  const std::shared_ptr<program::DeviceCounters> counters_ =
      std::make_shared<program::DeviceCounters>();
  std::atomic<bool> lost_{false}, dies_{false};
};

constexpr char kReference[] = PENSTOCK_GOLDEN_DIR "/models/bert_mean_normalize";

class RegistryDevicesTest : public testing::Test {
 protected:
  // The CPU as "cpu", and as "other" with that memory. Sizer and loader are the registry's own.
  void Make(uint64_t host_bytes, uint64_t other_bytes) {
    registry_.reset();
    RegistryOptions options;
    options.on_demand = true;
    registry_ = std::make_unique<Registry>(
        devices::Devices({{"cpu", host_.get(), host_bytes}, {"other", other_.get(), other_bytes}}),
        &metrics_, nullptr, options);
  }
  static ModelSpec Spec(const std::string& name, const std::string& device) {
    ModelSpec spec;
    spec.name = name;
    spec.reference = kReference;
    spec.device = device;
    spec.options.encoder.scheduler.max_batch_tokens = 64;
    return spec;
  }
  void Add(const std::string& name, const std::string& device) {
    const Status added = registry_->Add(Spec(name, device));
    ASSERT_TRUE(added.ok()) << added.ToString();
  }
  // What the model takes at least, and as the registry says it.
  engine::ModelBytes Least() {
    const auto needs =
        engine::ModelNeedsOf(kReference, Spec("", "").options.encoder, {}, host_.get());
    EXPECT_TRUE(needs.ok());
    return needs.ok() ? needs->least : engine::ModelBytes();
  }
  std::vector<float> Embedding(const std::string& name) {
    const auto engine = registry_->Find<engine::EncoderEngine>(name);
    EXPECT_TRUE(engine.ok()) << engine.status().ToString();
    if (!engine.ok()) return {};
    auto job = std::make_unique<sched::EncodeJob>();
    job->ids = {2, 5, 7, 3};
    job->lengths = {4};
    std::promise<std::vector<float>> result;
    job->done = [&](std::unique_ptr<sched::EncodeJob> done, Status status) {
      EXPECT_TRUE(status.ok()) << status.ToString();
      result.set_value(std::move(done->values));
    };
    EXPECT_TRUE((*engine)->scheduler().Submit(std::move(job)).ok());
    return result.get_future().get();
  }

  const std::unique_ptr<program::Backend> host_ = *cpu::NewCpuBackend({.threads = 1, .pin = false});
  const std::unique_ptr<LosableBackend> other_ = std::make_unique<LosableBackend>();
  metrics::Metrics metrics_;
  std::unique_ptr<Registry> registry_;
};

TEST_F(RegistryDevicesTest, AModelOfTheSecondServesBesideOneOfTheFirst) {
  const uint64_t most = 4 * Least().total();
  Make(most, most);
  Add("first", "");
  Add("second", "other");
  registry_->StartLoading();
  for (const char* name : {"first", "second"}) {
    const Status loaded = registry_->Load(name).get();
    ASSERT_TRUE(loaded.ok()) << loaded.ToString();
  }
  EXPECT_GT(host_->packed_bytes(), 0u);
  EXPECT_EQ(host_->packed_bytes(), other_->packed_bytes());  // each has one
  const std::vector<float> first = Embedding("first");
  EXPECT_FALSE(first.empty());
  EXPECT_EQ(first, Embedding("second"));
  const auto entries = registry_->List();
  EXPECT_EQ(entries[0].device, "cpu");
  EXPECT_EQ(entries[1].device, "other");
}

TEST_F(RegistryDevicesTest, WhatDoesNotFitADeviceIsRefusedWithBothNumbers) {
  const engine::ModelBytes least = Least();
  Make(1'000'000'000, 100'000);
  Add("first", "cpu");
  Add("large", "other");
  registry_->StartLoading();
  const Status refused = registry_->Load("large").get();
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(refused.message(),
            "model 'large' needs " + engine::ModelBytesText(least) +
                "; device 'other' has 0.1 MB for all its models (--device-memory)");
  EXPECT_TRUE(registry_->Load("first").get().ok());  // the host has room
}

// Budgets are apart: a full device takes nothing from models of another one.
TEST_F(RegistryDevicesTest, AModelMakesRoomForOthersOfItsDeviceOnly) {
  const uint64_t one = Least().total() * 3 / 2;
  Make(one, one);
  Add("host", "cpu");
  Add("a", "other");
  Add("b", "other");
  registry_->StartLoading();
  for (const char* name : {"host", "a", "b", "a"}) {
    const Status loaded = registry_->Load(name).get();
    ASSERT_TRUE(loaded.ok()) << loaded.ToString();
  }
  const auto entries = registry_->List();
  EXPECT_EQ(entries[0].state, ModelState::kReady);
  EXPECT_EQ(entries[0].evictions, 0u);
  EXPECT_EQ(entries[1].state, ModelState::kReady);
  EXPECT_NE(entries[2].state, ModelState::kReady);  // gave its memory to "a"
}

TEST_F(RegistryDevicesTest, MetricsTellEachDevice) {
  const uint64_t most = 4 * Least().total();
  Make(most, 2 * most);
  Add("a", "other");
  registry_->StartLoading();
  const Status loaded = registry_->Load("a").get();
  ASSERT_TRUE(loaded.ok()) << loaded.ToString();
  const auto memory = registry_->MemoryOfDevices();
  ASSERT_EQ(memory.size(), 2u);
  EXPECT_EQ(memory[0].device, "cpu");
  EXPECT_EQ(memory[0].budget_bytes, most);
  EXPECT_EQ(memory[0].used_bytes, 0u);
  EXPECT_EQ(memory[1].used_bytes, registry_->List()[0].bytes.total());
  const std::string text = metrics_.Render();
  const auto series = [](const std::string& name, const std::string& labels, uint64_t value) {
    return HasSubstr(name + "{" + labels + "} " + std::to_string(value) + "\n");
  };
  EXPECT_THAT(text, series("penstock_device_memory_budget_bytes", "device=\"cpu\"", most));
  EXPECT_THAT(text, series("penstock_device_memory_budget_bytes", "device=\"other\"", 2 * most));
  EXPECT_THAT(text, series("penstock_device_memory_used_bytes", "device=\"cpu\"", 0));
  EXPECT_THAT(
      text, series("penstock_device_memory_used_bytes", "device=\"other\"", memory[1].used_bytes));
  EXPECT_THAT(text, series("penstock_model_device", "model=\"a\",device=\"other\"", 1));
}

TEST_F(RegistryDevicesTest, ALostDeviceClosesItsModelsAndNoOthers) {
  Make(0, 0);
  Add("first", "cpu");
  Add("a", "other");
  Add("b", "other");
  registry_->StartLoading();
  for (const char* name : {"first", "a", "b"}) ASSERT_TRUE(registry_->Load(name).get().ok());
  EXPECT_TRUE(registry_->HealthOfDevices().ok());
  EXPECT_THAT(metrics_.Render(), HasSubstr("penstock_device_up{device=\"other\"} 1\n"));
  other_->Lose();
  const Status health = registry_->HealthOfDevices();
  EXPECT_EQ(health.code(), StatusCode::kUnavailable);
  EXPECT_EQ(health.message(), "device 'other': it is lost");
  EXPECT_THAT(metrics_.Render(), HasSubstr("penstock_device_up{device=\"other\"} 0\n"));
  EXPECT_EQ(registry_->Find<engine::EncoderEngine>("a").status().message(), health.message());
  // Both leave, the other one without a request, and neither is loaded again.
  const auto state = [&](size_t i) { return registry_->List()[i].state; };
  ASSERT_TRUE(Eventually(
      [&] { return state(1) == ModelState::kFailed && state(2) == ModelState::kFailed; }));
  for (const char* name : {"a", "b"}) {
    EXPECT_EQ(registry_->Load(name).get().message(), health.message());
  }
  EXPECT_FALSE(Embedding("first").empty());
  EXPECT_EQ(registry_->MemoryOfDevices()[1].used_bytes, 0u);
}

// The model is not to blame: its version is not refused.
TEST_F(RegistryDevicesTest, ADeviceThatIsLostDuringALoadIsTheReason) {
  Make(0, 0);
  Add("a", "other");
  registry_->StartLoading();
  other_->LoseAtPack();
  const Status failed = registry_->Load("a").get();
  EXPECT_EQ(failed.code(), StatusCode::kUnavailable);
  EXPECT_EQ(failed.message(), "cannot load model 'a': device 'other': it is lost");
}

TEST_F(RegistryDevicesTest, ALostDeviceWithoutModelsIsNoMatter) {
  Make(0, 0);
  Add("first", "cpu");
  other_->Lose();
  EXPECT_TRUE(registry_->HealthOfDevices().ok());
}

TEST_F(RegistryDevicesTest, WhatADeviceHasDoneIsInTheMetrics) {
  Make(0, 0);
  other_->count()->busy_s = 1.5;
  other_->count()->bytes_out = 4096;
  const std::string text = metrics_.Render();
  EXPECT_THAT(text, HasSubstr("penstock_device_busy_seconds_total{device=\"other\"} 1.5\n"));
  EXPECT_THAT(text, HasSubstr("penstock_device_copied_bytes_total{device=\"other\","
                              "direction=\"device_to_host\"} 4096\n"));
  EXPECT_THAT(text, testing::Not(HasSubstr("penstock_device_graphs{device=\"cpu\"")));
}

// A device with two turns and one set of activations for all runners.
TEST_F(RegistryDevicesTest, RunnersOfADeviceMayShareTheirActivations) {
  LosableBackend shared({.turns = 2, .runners = 3, .shared_activations = true, .batch_rows = 77});
  LosableBackend apart({.runners = 3, .batch_rows = 77});
  auto options = Spec("m", "").options.encoder;
  options.scheduler.max_batch_rows = sched::EncoderSchedulerOptions::kAutoBatchRows;
  const auto needs = engine::ModelNeedsOf(kReference, options, {}, &shared);
  const auto of_three = engine::ModelNeedsOf(kReference, options, {}, &apart);
  ASSERT_TRUE(needs.ok() && of_three.ok());
  EXPECT_EQ(3 * needs->wanted.activations, of_three->wanted.activations);
  EXPECT_EQ(needs->wanted.weights, of_three->wanted.weights);
  for (LosableBackend* const backend : {&shared, &apart}) {
    options.granted = backend == &shared ? needs->wanted : of_three->wanted;
    const auto engine = engine::EncoderEngine::Load(kReference, options, backend, &metrics_);
    ASSERT_TRUE(engine.ok()) << engine.status().ToString();
    EXPECT_EQ((*engine)->scheduler().replicas(), 3u);
    EXPECT_EQ((*engine)->scheduler().limits().rows, 77u);
    EXPECT_EQ((*engine)->scheduler().limits().tokens, 64u);
    EXPECT_EQ((*engine)->info().activation_bytes, options.granted.activations);
  }
}

TEST_F(RegistryDevicesTest, OtherDevicesAreRefusedByName) {
  Make(0, 0);
  const Status refused = registry_->Add(Spec("m", "cuda:7"));
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(refused.field(), "device");
  EXPECT_THAT(refused.message(), HasSubstr("there is no device 'cuda:7'; known: cpu, other"));
}

}  // namespace
}  // namespace penstock::registry

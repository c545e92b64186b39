// Versions of models that take each other's place, and models that are removed, in use.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

#include "engine/fake_engine.h"
#include "registry/registry.h"

namespace penstock::registry {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr uint64_t kMb = 1'000'000;

// A model's reference is its version; its engine has that as revision.
class RegistryVersionsTest : public testing::Test {
 protected:
  // "broken" fails, "throws" does so by an exception, "reranker" is one.
  Registry::Loader Loader() {
    return [this](const ModelSpec& spec) -> Expected<std::unique_ptr<engine::Model>> {
      ++loads_;
      PassGate();
      if (spec.reference == "broken") return Status::NotFound("no such folder");
      if (spec.reference == "throws") throw std::runtime_error("torn");
      engine::EncoderParts parts =
          engine::FakeParts(spec.reference == "reranker" ? families::ModelTask::kReranking
                                                         : families::ModelTask::kEmbedding);
      parts.weight_bytes = spec.granted.weights;
      engine::EncoderEngineOptions options = spec.options.encoder;
      options.revision = spec.reference;
      return std::unique_ptr<engine::Model>(
          std::make_unique<engine::EncoderEngine>(std::move(parts), options, &metrics_));
    };
  }
  static ModelSpec Spec(const std::string& name, int64_t version, std::string reference = "") {
    ModelSpec spec;
    spec.name = name;
    spec.version = version;
    spec.reference = reference.empty() ? std::to_string(version) : std::move(reference);
    return spec;
  }
  void Serve(std::vector<ModelSpec> specs, RegistryOptions options = {},
             Registry::Sizer sizer = nullptr, uint64_t memory_bytes = 0) {
    registry_ = std::make_unique<Registry>(devices::Devices(nullptr, memory_bytes), &metrics_,
                                           Loader(), options, std::move(sizer));
    for (ModelSpec& spec : specs) ASSERT_TRUE(registry_->Add(std::move(spec)).ok());
    registry_->StartLoading();
    ASSERT_TRUE(registry_->WaitLoaded().ok());
  }
  void ServeOnDemand(std::vector<ModelSpec> specs) {
    RegistryOptions options;
    options.on_demand = true;
    Serve(std::move(specs), options);
  }
  // The version that Find gives; "" = none.
  std::string Found(const std::string& name) const {
    const auto found = registry_->Find<engine::EncoderEngine>(name);
    return found.ok() ? (*found)->revision() : "";
  }
  Registry::Entry Entry(size_t i = 0) const { return registry_->List().at(i); }
  bool Becomes(ModelState state) const {
    for (int tries = 0; tries < 2000; ++tries) {
      if (Entry().state == state) return true;
      std::this_thread::sleep_for(milliseconds(1));  // polls
    }
    return false;
  }
  // Loads stop until gate_ has its value.
  void ShutGate() {
    at_gate_ = 0;
    gate_ = std::make_unique<std::promise<void>>();
    const std::lock_guard lock(gate_mutex_);
    open_ = gate_->get_future().share();
  }
  void PassGate() {
    std::shared_future<void> open;
    {
      const std::lock_guard lock(gate_mutex_);
      open = open_;
    }
    if (!open.valid()) return;
    ++at_gate_;
    open.wait();
  }
  void WaitAtGate() const {
    while (at_gate_ == 0) std::this_thread::yield();
  }
  // The version a request gets that waits for its model, or why it gets none.
  std::future<std::string> AwaitModel(const std::string& name) {
    auto got = std::make_shared<std::promise<std::string>>();
    registry_->Await(name, {}, {}, [this, name, got](const Status& status) {
      const auto found = registry_->Find<engine::EncoderEngine>(name);
      got->set_value(!status.ok() ? status.message()
                     : found.ok() ? (*found)->revision()
                                  : found.status().message());
    });
    return got->get_future();
  }

  metrics::Metrics metrics_;
  std::atomic<int> loads_{0}, at_gate_{0};
  std::unique_ptr<std::promise<void>> gate_;
  std::mutex gate_mutex_;
  std::shared_future<void> open_;  // guarded by gate_mutex_
  std::unique_ptr<Registry> registry_;
};

TEST_F(RegistryVersionsTest, NobodyWhoAsksAllTheTimeIsRefusedOrGoesBack) {
  ModelSpec first = Spec("org/a", 1);
  first.aliases = {"also"};
  Serve({first, Spec("b", 1)});
  std::atomic<bool> over{false};
  std::atomic<int> refused{0}, back{0};
  std::vector<std::thread> threads;
  for (const char* name : {"org/a", "a", "also", ""}) {
    threads.emplace_back([&, name] {
      int seen = 0;
      while (!over) {
        const auto found = registry_->Find<engine::EncoderEngine>(name);
        if (!found.ok()) {
          ++refused;
          continue;
        }
        const int version = std::stoi((*found)->revision());
        if (version < seen) ++back;
        seen = version;
      }
    });
  }
  for (int version = 2; version <= 40; ++version) {
    ModelSpec next = Spec("org/a", version);
    next.aliases = {"also"};
    EXPECT_TRUE(registry_->Replace(std::move(next)).get().ok());
    EXPECT_EQ(Found("a"), std::to_string(version));
  }
  over = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(refused, 0);
  EXPECT_EQ(back, 0);
  EXPECT_EQ(Found(""), "40");  // it keeps its place in the order
  ASSERT_EQ(registry_->List().size(), 2u);
  EXPECT_EQ(Entry().version, 40);
  EXPECT_EQ(Entry().loads, 40u);
  EXPECT_THAT(Entry().aliases, ElementsAre("also", "a"));
}

TEST_F(RegistryVersionsTest, LeasesOfTheOldVersionStayGoodAndItsSeriesGoesOn) {
  Serve({Spec("a", 1)}, {}, nullptr);
  auto lease = *registry_->Find<engine::EncoderEngine>("a");
  ASSERT_TRUE(registry_->Replace(Spec("a", 2)).get().ok());
  EXPECT_EQ(lease->revision(), "1");
  EXPECT_EQ(Found("a"), "2");
  lease = {};
  EXPECT_EQ(Entry().state, ModelState::kReady);
  EXPECT_THAT(metrics_.Render(), HasSubstr("penstock_model_loads_total{model=\"a\"} 2\n"));
}

TEST_F(RegistryVersionsTest, AVersionThatFailsLeavesTheOldOne) {
  Serve({Spec("a", 1)});
  const Status missing = registry_->Replace(Spec("a", 2, "broken")).get();
  EXPECT_EQ(missing.code(), StatusCode::kNotFound);
  EXPECT_EQ(missing.message(), "cannot load model 'a', version 2: no such folder");
  EXPECT_THAT(registry_->Replace(Spec("a", 3, "throws")).get().message(), HasSubstr("torn"));
  EXPECT_EQ(Found("a"), "1");
  EXPECT_EQ(Entry().version, 1);
  EXPECT_TRUE(registry_->AllReady());
  EXPECT_TRUE(registry_->WaitLoaded().ok());
  registry_->SetRefusedVersion("a", RefusedVersion{3, "torn"});
  EXPECT_EQ(Entry().refused->number, 3);
  EXPECT_TRUE(registry_->Replace(Spec("a", 4)).get().ok());
  EXPECT_EQ(Found("a"), "4");
  EXPECT_FALSE(Entry().refused.has_value());
}

TEST_F(RegistryVersionsTest, WhatCannotBeReplacedSaysSo) {
  Serve({Spec("a", 1), Spec("b", 1)});
  EXPECT_EQ(registry_->Replace(Spec("c", 1)).get().code(), StatusCode::kNotFound);
  ModelSpec taken = Spec("a", 2);
  taken.aliases = {"b"};
  EXPECT_THAT(registry_->Replace(std::move(taken)).get().message(),
              HasSubstr("two models are named 'b'"));
  ShutGate();
  const auto first = registry_->Replace(Spec("a", 2));
  EXPECT_THAT(registry_->Replace(Spec("a", 3)).get().message(),
              HasSubstr("another version of 'a' is being loaded"));
  // Names that were free when it began.
  ModelSpec late = Spec("c", 1);
  late.aliases = {"d"};
  ModelSpec same = Spec("b", 2);
  same.aliases = {"d"};
  const auto second = registry_->Replace(std::move(same));
  ASSERT_TRUE(registry_->Add(std::move(late)).ok());
  gate_->set_value();
  EXPECT_TRUE(first.get().ok());
  EXPECT_THAT(second.get().message(), HasSubstr("two models are named 'd'"));
  EXPECT_EQ(Found("b"), "1");
}

TEST_F(RegistryVersionsTest, NamesAndTaskChangeWithTheVersion) {
  Serve({Spec("a", 1)});
  ModelSpec next = Spec("a", 2, "reranker");
  next.aliases = {"new"};
  ASSERT_TRUE(registry_->Replace(std::move(next)).get().ok());
  EXPECT_EQ((*registry_->Find<engine::EncoderEngine>("new"))->task(),
            families::ModelTask::kReranking);
  ASSERT_TRUE(registry_->Replace(Spec("a", 3)).get().ok());
  EXPECT_EQ(registry_->Find<engine::EncoderEngine>("new").code(), StatusCode::kNotFound);
}

TEST_F(RegistryVersionsTest, PinsStay) {
  Serve({Spec("a", 1)});
  ASSERT_TRUE(registry_->Pin("a", true).ok());
  ASSERT_TRUE(registry_->Replace(Spec("a", 2)).get().ok());
  EXPECT_TRUE(Entry().pinned);
}

TEST_F(RegistryVersionsTest, OfAModelThatIsAbsentItIsCheckedAndUnloaded) {
  ServeOnDemand({Spec("a", 1)});
  EXPECT_TRUE(registry_->Replace(Spec("a", 2)).get().ok());
  EXPECT_EQ(loads_, 1);
  EXPECT_TRUE(Becomes(ModelState::kAbsent));
  EXPECT_EQ(Entry().version, 2);
  EXPECT_EQ(registry_->Replace(Spec("a", 3, "broken")).get().code(), StatusCode::kNotFound);
  EXPECT_EQ(AwaitModel("a").get(), "2");
  EXPECT_TRUE(registry_->Replace(Spec("a", 4)).get().ok());
  EXPECT_EQ(Entry().state, ModelState::kReady);
}

TEST_F(RegistryVersionsTest, RequestsThatWaitGetTheNewVersion) {
  ServeOnDemand({Spec("a", 1)});
  ShutGate();
  const auto replaced = registry_->Replace(Spec("a", 2));
  WaitAtGate();
  std::vector<std::future<std::string>> got;
  for (int i = 0; i < 4; ++i) got.push_back(AwaitModel("a"));
  const auto loaded = registry_->Load("a");
  EXPECT_EQ(Entry().requests_waiting, 4u);
  gate_->set_value();
  for (auto& one : got) EXPECT_EQ(one.get(), "2");
  EXPECT_TRUE(loaded.get().ok());
  EXPECT_TRUE(replaced.get().ok());
  EXPECT_EQ(loads_, 1);
  EXPECT_EQ(Entry().state, ModelState::kReady);
  EXPECT_EQ(Entry().requests_waiting, 0u);
}

TEST_F(RegistryVersionsTest, RequestsThatWaitGetTheOldVersionWhereTheNewOneFails) {
  ServeOnDemand({Spec("a", 1)});
  ShutGate();
  const auto replaced = registry_->Replace(Spec("a", 2, "broken"));
  WaitAtGate();
  auto got = AwaitModel("a");
  gate_->set_value();
  EXPECT_EQ(got.get(), "1");
  EXPECT_FALSE(replaced.get().ok());
}

TEST_F(RegistryVersionsTest, AModelThatIsUnloadedMeanwhileStaysUnloaded) {
  Serve({Spec("a", 1)});
  ShutGate();
  const auto replaced = registry_->Replace(Spec("a", 2));
  WaitAtGate();
  auto lease = *registry_->Find<engine::EncoderEngine>("a");
  const auto unloaded = registry_->Unload("a");
  gate_->set_value();
  EXPECT_TRUE(replaced.get().ok());
  lease = {};
  EXPECT_TRUE(unloaded.get().ok());
  EXPECT_TRUE(Becomes(ModelState::kAbsent));
  EXPECT_EQ(Found("a"), "");
  EXPECT_TRUE(registry_->Load("a").get().ok());
  EXPECT_EQ(Found("a"), "2");
}

TEST_F(RegistryVersionsTest, StopInTheMiddleEndsEveryWait) {
  ServeOnDemand({Spec("a", 1), Spec("b", 1)});
  EXPECT_EQ(AwaitModel("a").get(), "1");
  ShutGate();
  const auto under_way = registry_->Replace(Spec("a", 2));
  WaitAtGate();
  const auto queued = registry_->Replace(Spec("b", 2));
  std::thread stop([this] { registry_->Stop(); });
  while (registry_->AllReady()) std::this_thread::yield();
  EXPECT_EQ(registry_->Replace(Spec("b", 3)).get().code(), StatusCode::kUnavailable);
  gate_->set_value();
  stop.join();
  EXPECT_TRUE(under_way.get().ok());
  EXPECT_EQ(queued.get().code(), StatusCode::kUnavailable);
  registry_.reset();
}

TEST_F(RegistryVersionsTest, WhatIsRemovedIsUnloadedAfterItsRequests) {
  Serve({Spec("a", 1), Spec("b", 1)});
  auto lease = *registry_->Find<engine::EncoderEngine>("a");
  EXPECT_TRUE(registry_->Remove("a").ok());
  EXPECT_EQ(registry_->Remove("a").code(), StatusCode::kNotFound);
  EXPECT_EQ(registry_->Find<engine::EncoderEngine>("a").code(), StatusCode::kNotFound);
  EXPECT_EQ(Found(""), "1");  // that of b
  EXPECT_EQ(registry_->List().size(), 1u);
  EXPECT_EQ(lease->revision(), "1");
  // Its name is free again, and a model may come while others serve.
  ASSERT_TRUE(registry_->Add(Spec("a", 5)).ok());
  EXPECT_TRUE(registry_->Load("a").get().ok());
  EXPECT_EQ(Found("a"), "5");
  lease = {};
  EXPECT_TRUE(registry_->Remove("a").ok());
  EXPECT_TRUE(registry_->Remove("b").ok());
  EXPECT_EQ(registry_->Find<engine::EncoderEngine>("").code(), StatusCode::kNotFound);
  EXPECT_FALSE(registry_->AllReady());
}

TEST_F(RegistryVersionsTest, WhatIsRemovedWhileItIsLoadedNeverServes) {
  ServeOnDemand({Spec("a", 1), Spec("b", 1)});
  ShutGate();
  auto got = AwaitModel("a");
  WaitAtGate();
  EXPECT_TRUE(registry_->Remove("a").ok());
  EXPECT_THAT(got.get(), HasSubstr("no model is served as 'a'; served: b"));
  gate_->set_value();
  EXPECT_EQ(AwaitModel("b").get(), "1");
  ShutGate();
  const auto replaced = registry_->Replace(Spec("b", 2));
  WaitAtGate();
  EXPECT_TRUE(registry_->Remove("b").ok());
  gate_->set_value();
  EXPECT_EQ(replaced.get().code(), StatusCode::kNotFound);
  EXPECT_TRUE(registry_->List().empty());
}

TEST_F(RegistryVersionsTest, OnlyModelsThatAreServedCount) {
  Serve({Spec("a", 1)});
  for (int i = 0; i < 3; ++i) {
    const std::string number = std::to_string(i);
    for (size_t n = 1; n < Registry::kModelsMax; ++n) {
      ASSERT_TRUE(registry_->Add(Spec(number + "-" + std::to_string(n), 1)).ok());
    }
    EXPECT_EQ(registry_->Add(Spec("z", 1)).code(), StatusCode::kPayloadTooLarge);
    EXPECT_EQ(registry_->CanAdd(Spec("z", 1)).code(), StatusCode::kPayloadTooLarge);
    EXPECT_TRUE(registry_->Replace(Spec("a", i + 2)).get().ok());
    for (size_t n = 1; n < Registry::kModelsMax; ++n) {
      ASSERT_TRUE(registry_->Remove(number + "-" + std::to_string(n)).ok());
    }
  }
}

TEST_F(RegistryVersionsTest, AnOlderVersionServesWhereTheHighestFailsAtTheStart) {
  ModelSpec spec = Spec("a", 3, "broken");
  spec.older = {{2, "throws"}, {1, "1"}};
  ServeOnDemand({spec});
  EXPECT_EQ(AwaitModel("a").get(), "1");
  EXPECT_EQ(Entry().version, 1);
  ASSERT_TRUE(Entry().refused.has_value());
  EXPECT_EQ(Entry().refused->number, 3);
  EXPECT_THAT(Entry().refused->error, HasSubstr("no such folder"));
  EXPECT_EQ(loads_, 3);
}

TEST_F(RegistryVersionsTest, AModelWithoutAGoodVersionKeepsNoOtherFromServing) {
  ModelSpec spec = Spec("a", 2, "broken");
  spec.older = {{1, "broken"}};
  Serve({spec, Spec("b", 1)});
  EXPECT_EQ(Entry().state, ModelState::kFailed);
  EXPECT_TRUE(registry_->AllReady());
  EXPECT_EQ(Found("b"), "1");
  EXPECT_TRUE(registry_->Replace(Spec("a", 3)).get().ok());
  EXPECT_EQ(Found("a"), "3");
  EXPECT_EQ(Entry().state, ModelState::kReady);
}

TEST_F(RegistryVersionsTest, WithoutRoomForBothTheNewOneWaitsUntilTheOldOneIsIdle) {
  const auto sizer = [](const ModelSpec& spec) -> Expected<engine::ModelNeeds> {
    engine::ModelNeeds needs;
    needs.least.weights = needs.wanted.weights = (spec.reference == "3" ? 200 : 60) * kMb;
    return needs;
  };
  RegistryOptions options;
  options.on_demand = true;
  Serve({Spec("a", 1)}, options, sizer, 100 * kMb);
  EXPECT_EQ(AwaitModel("a").get(), "1");
  auto lease = *registry_->Find<engine::EncoderEngine>("a");
  const Status busy = registry_->Replace(Spec("a", 2)).get();
  EXPECT_EQ(busy.code(), StatusCode::kUnavailable);
  EXPECT_THAT(busy.message(), HasSubstr("(60.0 MB, in use)"));
  EXPECT_EQ(Found("a"), "1");
  EXPECT_EQ(registry_->Replace(Spec("a", 3)).get().code(), StatusCode::kResourceExhausted);
  lease = {};
  EXPECT_TRUE(registry_->Replace(Spec("a", 2)).get().ok());
  EXPECT_EQ(Found("a"), "2");
  EXPECT_EQ(Entry().bytes.weights, 60 * kMb);
  EXPECT_THAT(metrics_.Render(),
              HasSubstr("penstock_model_bytes{model=\"a\",class=\"weights\"} 60000000\n"));
}

}  // namespace
}  // namespace penstock::registry

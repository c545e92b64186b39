// Models that share a budget of memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <map>
#include <thread>

#include "engine/fake_engine.h"
#include "program/dry_backend.h"
#include "registry/registry.h"

namespace penstock::registry {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

constexpr uint64_t kMb = 1'000'000;

// Holds activations as a model does: from its first batch until they are released.
class HoldingRunner final : public engine::FakeEncoderRunner {
 public:
  explicit HoldingRunner(uint64_t bytes) : engine::FakeEncoderRunner(0), bytes_(bytes) {}
  uint64_t HeldBytes() const override { return held_; }
  uint64_t ReleaseMemory() override { return held_.exchange(0); }
  void Hold() { held_ = bytes_; }

 private:
  const uint64_t bytes_;
  std::atomic<uint64_t> held_{0};
};

class RegistryMemoryTest : public testing::Test {
 protected:
  struct Sizes {
    uint64_t weights, activations_least, activations, cache_least, cache;
  };
  static engine::ModelNeeds NeedsOf(const Sizes& sizes) {
    engine::ModelNeeds needs;
    needs.least = {sizes.weights * kMb, sizes.activations_least * kMb, sizes.cache_least * kMb};
    needs.wanted = {sizes.weights * kMb, sizes.activations * kMb, sizes.cache * kMb};
    return needs;
  }
  void Serve(uint64_t megabytes, std::map<std::string, Sizes> models,
             const std::string& pinned = "") {
    sizes_ = std::move(models);
    RegistryOptions options;
    options.on_demand = true;
    options.now = now_;
    registry_ = std::make_unique<Registry>(
        devices::Devices(&backend_, megabytes * kMb), &metrics_,
        [this](const ModelSpec& spec) -> Expected<std::unique_ptr<engine::Model>> {
          std::this_thread::sleep_for(load_time_);  // a load that takes time
          if (while_loading_) while_loading_();
          if (const auto hook = hooks_.find("load " + spec.name); hook != hooks_.end()) {
            hook->second();
          }
          engine::EncoderParts parts = engine::FakeParts(families::ModelTask::kEmbedding);
          parts.weight_bytes = spec.granted.weights;
          parts.activation_bytes = spec.granted.activations;
          parts.cache_bytes = spec.granted.cache;
          auto runner =
              std::make_unique<HoldingRunner>(spec.granted.activations + spec.granted.cache);
          runner->Hold();
          runners_[spec.name] = runner.get();
          parts.runners[0] = std::move(runner);
          return std::unique_ptr<engine::Model>(std::make_unique<engine::EncoderEngine>(
              std::move(parts), spec.options.encoder, &metrics_));
        },
        options,
        [this](const ModelSpec& spec) -> Expected<engine::ModelNeeds> {
          return NeedsOf(sizes_.at(spec.name));
        },
        Registry::Fetcher{[this](const ModelSpec& spec) { return spec.name != away_; },
                          [this](const ModelSpec& spec) { return fetch_(spec); }});
    for (const auto& [name, sizes] : sizes_) {
      ModelSpec spec;
      spec.name = name;
      spec.reference = "/models/" + name;
      spec.pinned = name == pinned;
      ASSERT_TRUE(registry_->Add(std::move(spec)).ok());
    }
    registry_->StartLoading();
  }
  // A clock on which a second passes within ten looks.
  void HurryClock() {
    now_ = [this] { return Clock::time_point(milliseconds(100) * ++ticks_); };
  }
  // The outcome of a use that begins now.
  std::shared_future<Status> BeginUse(const std::string& name) {
    auto outcome = std::make_shared<std::promise<Status>>();
    auto result = outcome->get_future().share();
    registry_->Await(name, {}, {}, [outcome](const Status& status) { outcome->set_value(status); });
    return result;
  }
  static bool Comes(const std::shared_future<Status>& outcome) {
    return outcome.wait_for(std::chrono::seconds(60)) == std::future_status::ready;
  }
  // Uses the model, and holds it in use with `lease`.
  Status Use(const std::string& name, Lease<engine::EncoderEngine>* lease = nullptr) {
    std::promise<Status> outcome;
    registry_->Await(name, {}, {}, [&](const Status& status) {
      auto found = registry_->Find<engine::EncoderEngine>(name);
      const Status told = status.ok() && !found.ok() ? found.status() : status;
      if (found.ok() && lease != nullptr) *lease = *found;
      found = Status::Internal("the use has ended");  // before the caller goes on
      outcome.set_value(told);
    });
    return outcome.get_future().get();
  }
  Registry::Entry Entry(const std::string& name) const {
    for (Registry::Entry& entry : registry_->List()) {
      if (entry.name == name) return entry;
    }
    return {};
  }
  uint64_t Taken() const {
    uint64_t bytes = 0;
    for (const Registry::Entry& entry : registry_->List()) bytes += entry.bytes.total();
    return bytes;
  }

  metrics::Metrics metrics_;
  std::map<std::string, Sizes> sizes_;
  std::map<std::string, HoldingRunner*> runners_;
  milliseconds load_time_{0};
  std::function<void()> while_loading_;
  std::map<std::string, std::function<void()>> hooks_;  // "load " and a model's name
  std::string away_;                                    // the model whose files must be fetched
  std::function<Status(const ModelSpec&)> fetch_ = [](const ModelSpec&) { return Status::Ok(); };
  std::atomic<int64_t> ticks_{0};
  std::function<Clock::time_point()> now_;
  program::DryBackend backend_{numbers::DType::kF32};
  std::unique_ptr<Registry> registry_;
};

TEST_F(RegistryMemoryTest, ALoadTellsHowFarItIs) {
  const auto pack = [&](int64_t megabytes) {
    backend_.Keep(megabytes * static_cast<int64_t>(kMb / sizeof(float)), 1, {});
  };
  std::vector<int> percents;
  while_loading_ = [&] {
    for (const int64_t megabytes : {0, 5, 14, 10}) {
      if (megabytes > 0) pack(megabytes);
      percents.push_back(Entry("a").load_percent);
    }
  };
  pack(7);  // by a model before
  Serve(100, {{"a", {20, 5, 10, 0, 0}}});
  ASSERT_TRUE(Use("a").ok());
  EXPECT_EQ(percents, (std::vector<int>{0, 25, 95, 99}));
  EXPECT_EQ(Entry("a").load_percent, -1);
}

TEST_F(RegistryMemoryTest, ModelsGetWhatTheyWantWhereThereIsRoom) {
  Serve(100, {{"a", {20, 5, 10, 0, 0}}, {"b", {20, 5, 10, 0, 0}}});
  ASSERT_TRUE(Use("a").ok());
  ASSERT_TRUE(Use("b").ok());
  EXPECT_EQ(Entry("a").bytes.total(), 30 * kMb);
  EXPECT_EQ(Entry("b").bytes.activations, 10 * kMb);
}

TEST_F(RegistryMemoryTest, ACacheTakesHalfOfWhatIsLeft) {
  Serve(100, {{"a", {20, 10, 10, 5, 500}}});
  ASSERT_TRUE(Use("a").ok());
  EXPECT_EQ(Entry("a").bytes.cache, 35 * kMb);
}

TEST_F(RegistryMemoryTest, IdleModelsGiveActivationsFirstAndTakeThemAgain) {
  Serve(100, {{"a", {30, 30, 30, 0, 0}}, {"b", {30, 30, 30, 0, 0}}});
  ASSERT_TRUE(Use("a").ok());
  ASSERT_TRUE(Use("b").ok());
  EXPECT_EQ(Entry("a").state, ModelState::kParked);
  EXPECT_EQ(Entry("a").bytes.total(), 30 * kMb);
  EXPECT_EQ(runners_["a"]->HeldBytes(), 0u);
  EXPECT_LE(Taken(), 100 * kMb);
  ASSERT_TRUE(Use("a").ok());
  EXPECT_EQ(Entry("a").state, ModelState::kReady);
  EXPECT_EQ(Entry("a").loads, 1u);  // its weights stayed
  EXPECT_EQ(Entry("b").state, ModelState::kParked);
}

TEST_F(RegistryMemoryTest, IdleModelsLeaveLeastRecentlyUsedFirst) {
  now_ = [] { return Clock::time_point(); };  // loads take no time, so models need not stay
  Serve(100, {{"a", {40, 0, 0, 0, 0}}, {"b", {40, 0, 0, 0, 0}}, {"c", {40, 0, 0, 0, 0}}});
  for (const char* name : {"a", "b", "a"}) ASSERT_TRUE(Use(name).ok()) << name;
  ASSERT_TRUE(Use("c").ok());
  EXPECT_EQ(Entry("b").state, ModelState::kAbsent);
  EXPECT_EQ(Entry("b").evictions, 1u);
  EXPECT_EQ(Entry("a").state, ModelState::kReady);
  EXPECT_EQ(Entry("c").state, ModelState::kReady);
}

TEST_F(RegistryMemoryTest, PinnedModelsStay) {
  Serve(100, {{"a", {60, 0, 0, 0, 0}}, {"b", {60, 0, 0, 0, 0}}}, "a");
  ASSERT_TRUE(Use("a").ok());
  const Status refused = Use("b");
  EXPECT_EQ(refused.code(), StatusCode::kUnavailable);
  EXPECT_THAT(refused.message(), HasSubstr("a (60.0 MB, pinned)"));
  EXPECT_EQ(Entry("a").state, ModelState::kReady);
}

TEST_F(RegistryMemoryTest, AModelBesideOneInUseIsRefusedWithTheNumbers) {
  Serve(100, {{"a", {60, 0, 0, 0, 0}}, {"b", {60, 0, 0, 0, 0}}});
  Lease<engine::EncoderEngine> in_use;
  ASSERT_TRUE(Use("a", &in_use).ok());
  const Status refused = Use("b");
  EXPECT_EQ(refused.code(), StatusCode::kUnavailable);
  EXPECT_GT(refused.retry_after_s(), 0);
  EXPECT_THAT(refused.message(), HasSubstr("'b' needs 60.0 MB (weights 60.0)"));
  EXPECT_THAT(refused.message(), HasSubstr("100.0 MB (--memory)"));
  EXPECT_THAT(refused.message(), HasSubstr("a (60.0 MB, in use)"));
  in_use = Lease<engine::EncoderEngine>();
  EXPECT_TRUE(Use("b").ok());  // at once: a refusal is no failure
  EXPECT_EQ(Entry("a").state, ModelState::kAbsent);
}

TEST_F(RegistryMemoryTest, AModelWaitsForOneThatIsBrieflyInUse) {
  Serve(100, {{"a", {60, 0, 0, 0, 0}}, {"b", {60, 0, 0, 0, 0}}});
  Lease<engine::EncoderEngine> in_use;
  ASSERT_TRUE(Use("a", &in_use).ok());
  std::thread ends([&] {
    std::this_thread::sleep_for(milliseconds(50));  // the other request waits meanwhile
    in_use = Lease<engine::EncoderEngine>();
  });
  EXPECT_TRUE(Use("b").ok());
  ends.join();
}

TEST_F(RegistryMemoryTest, WhatNeverFitsIsRefusedBeforeAnythingLeaves) {
  Serve(100, {{"a", {60, 0, 0, 0, 0}}, {"b", {160, 0, 0, 0, 0}}});
  ASSERT_TRUE(Use("a").ok());
  EXPECT_THAT(Use("b").message(), HasSubstr("'b' needs 160.0 MB"));
  EXPECT_EQ(Entry("a").state, ModelState::kReady);
}

// Two models that do not fit beside one in use, whose clients try again at once, come before the
// third in the table. It fits, and has its turn after those that were asked for before it.
TEST_F(RegistryMemoryTest, RefusedModelsGoBehindThoseThatWaited) {
  HurryClock();
  std::promise<void> open;
  hooks_["load small"] = [opened = open.get_future().share()] { opened.wait(); };
  Serve(100, {{"a-big", {50, 0, 0, 0, 0}},
              {"b-big", {50, 0, 0, 0, 0}},
              {"mini", {10, 0, 0, 0, 0}},
              {"small", {60, 0, 0, 0, 0}}});
  constexpr int kEnough = 40;
  std::atomic<int> refused{0}, refused_before{-1};
  std::promise<void> asked, ended;
  Lease<engine::EncoderEngine> in_use;
  registry_->Await("small", {}, {}, [&](const Status&) {
    in_use = *registry_->Find<engine::EncoderEngine>("small");
  });
  std::function<void(const std::string&)> insist = [&](const std::string& name) {
    registry_->Await(name, {}, {}, [&, name](const Status& status) {
      EXPECT_FALSE(status.ok());
      if (++refused < kEnough) return insist(name);
      if (refused == kEnough + 1) ended.set_value();  // the last of two
    });
  };
  insist("a-big");
  insist("b-big");
  std::promise<Status> mini;
  registry_->Await("mini", {}, {}, [&](const Status& status) {
    refused_before = refused.load();
    mini.set_value(status);
  });
  open.set_value();
  EXPECT_TRUE(mini.get_future().get().ok());
  EXPECT_EQ(refused_before, 2);
  ended.get_future().wait();
  in_use = Lease<engine::EncoderEngine>();
}

TEST_F(RegistryMemoryTest, ALoadThatCannotFitTouchesNoOtherModel) {
  HurryClock();
  Serve(100, {{"big", {50, 0, 0, 0, 0}},
              {"chat", {60, 0, 0, 0, 0}},
              {"x", {5, 5, 5, 0, 0}},
              {"y", {5, 5, 5, 0, 0}},
              {"z", {5, 5, 5, 0, 0}}});
  Lease<engine::EncoderEngine> in_use;
  ASSERT_TRUE(Use("chat", &in_use).ok());
  for (const char* name : {"x", "y", "z"}) ASSERT_TRUE(Use(name).ok());
  for (int tries = 0; tries < 2; ++tries) {
    EXPECT_EQ(Use("big").code(), StatusCode::kUnavailable);
    for (const char* name : {"x", "y", "z"}) {
      EXPECT_EQ(Entry(name).state, ModelState::kReady) << name;
      EXPECT_GT(runners_[name]->HeldBytes(), 0u) << name;
    }
  }
  in_use = Lease<engine::EncoderEngine>();
  EXPECT_TRUE(Use("big").ok());
}

TEST_F(RegistryMemoryTest, ADownloadHoldsUpNoLoad) {
  std::promise<void> arrived;
  std::atomic<int> fetches{0};
  away_ = "huge";
  fetch_ = [&fetches, there = arrived.get_future().share()](const ModelSpec& spec) {
    EXPECT_EQ(spec.name, "huge");
    ++fetches;
    there.wait();
    return Status::Ok();
  };
  Serve(100, {{"huge", {20, 0, 0, 0, 0}}, {"small", {20, 0, 0, 0, 0}}});
  const auto huge = BeginUse("huge");
  const auto small = BeginUse("small");
  EXPECT_TRUE(Comes(small));
  EXPECT_NE(huge.wait_for(milliseconds(0)), std::future_status::ready);
  arrived.set_value();
  EXPECT_TRUE(huge.get().ok());
  EXPECT_TRUE(small.get().ok());
  EXPECT_EQ(fetches, 1);
}

TEST_F(RegistryMemoryTest, WhatCannotBeFetchedFails) {
  away_ = "a";
  fetch_ = [](const ModelSpec&) { return Status::NotFound("no such repository"); };
  Serve(100, {{"a", {20, 0, 0, 0, 0}}});
  EXPECT_THAT(Use("a").message(), HasSubstr("cannot load model 'a': no such repository"));
  EXPECT_EQ(Entry("a").state, ModelState::kFailed);
}

// Once where its memory is free, once where another one must give it first.
TEST_F(RegistryMemoryTest, AParkedModelWaitsForNoLoad) {
  for (const bool at_once : {true, false}) {
    std::promise<void> open, loading;
    hooks_["load slow"] = [&loading, opened = open.get_future().share()] {
      loading.set_value();
      opened.wait();
    };
    Serve(100, {{"a", {20, 30, 30, 0, 0}}, {"b", {20, 50, 50, 0, 0}}, {"slow", {5, 0, 0, 0, 0}}});
    ASSERT_TRUE(Use("a").ok());
    ASSERT_TRUE(Use("b").ok());
    ASSERT_EQ(Entry("a").state, ModelState::kParked);
    const auto slow = BeginUse("slow");
    loading.get_future().wait();
    if (at_once) ASSERT_TRUE(registry_->Unload("b").get().ok());
    const auto again = BeginUse("a");
    EXPECT_TRUE(Comes(again));
    EXPECT_NE(slow.wait_for(milliseconds(0)), std::future_status::ready);
    open.set_value();
    EXPECT_TRUE(slow.get().ok());
    EXPECT_TRUE(again.get().ok());
    EXPECT_EQ(Entry("a").loads, 1u);
    registry_.reset();
  }
}

// Its weights stay, and so does what they are charged with.
TEST_F(RegistryMemoryTest, AParkedModelThatFindsNoMemoryKeepsItsCharge) {
  HurryClock();
  Serve(100, {{"a", {30, 30, 30, 0, 0}}, {"b", {30, 30, 30, 0, 0}}});
  ASSERT_TRUE(Use("a").ok());
  Lease<engine::EncoderEngine> in_use;
  ASSERT_TRUE(Use("b", &in_use).ok());
  ASSERT_EQ(Entry("a").state, ModelState::kParked);
  EXPECT_EQ(Use("a").code(), StatusCode::kUnavailable);
  EXPECT_EQ(Entry("a").state, ModelState::kParked);
  EXPECT_EQ(Entry("a").bytes.weights, 30 * kMb);
  in_use = Lease<engine::EncoderEngine>();
  EXPECT_TRUE(Use("a").ok());
  EXPECT_TRUE(Entry("a").error.ok());
}

TEST_F(RegistryMemoryTest, AModelStaysAtLeastAsLongAsItsLoadTook) {
  load_time_ = milliseconds(60);
  Serve(100, {{"a", {60, 0, 0, 0, 0}}, {"b", {60, 0, 0, 0, 0}}});
  const auto begin = Clock::now();
  ASSERT_TRUE(Use("a").ok());
  ASSERT_TRUE(Use("b").ok());
  EXPECT_GE(Clock::now() - begin, milliseconds(180));  // a's load and stay, and b's load
}

TEST_F(RegistryMemoryTest, BatchesAndCachesAreCutToFit) {
  Serve(100, {{"a", {50, 10, 80, 10, 80}}});
  ASSERT_TRUE(Use("a").ok());
  const engine::ModelBytes bytes = Entry("a").bytes;
  EXPECT_EQ(bytes.weights, 50 * kMb);
  EXPECT_EQ(bytes.activations, 25 * kMb);
  EXPECT_EQ(bytes.cache, 25 * kMb);
}

TEST_F(RegistryMemoryTest, ManyThreadsAndModelsUnderATightBudget) {
  Serve(100, {{"a", {40, 5, 10, 0, 0}}, {"b", {40, 5, 10, 0, 0}}, {"c", {40, 5, 10, 0, 0}}});
  std::vector<std::thread> threads;
  std::atomic<int> served{0}, refused{0}, other{0};
  std::atomic<uint64_t> most{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        Lease<engine::EncoderEngine> lease;
        const Status status = Use(std::string(1, static_cast<char>('a' + (t + i) % 3)), &lease);
        ++(status.ok() ? served : status.code() == StatusCode::kUnavailable ? refused : other);
        const uint64_t taken = Taken();
        uint64_t seen = most;
        while (taken > seen && !most.compare_exchange_weak(seen, taken)) {
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(other, 0);
  EXPECT_GT(served, 100);
  EXPECT_LE(most, 100 * kMb);
}

}  // namespace
}  // namespace penstock::registry

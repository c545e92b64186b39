// Models that come and go while others use them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <future>
#include <thread>
#include <vector>

#include "engine/fake_engine.h"
#include "registry/registry.h"

namespace penstock::registry {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

// Says on which thread it is destroyed.
class MortalRunner final : public engine::FakeEncoderRunner {
 public:
  MortalRunner(std::function<void()> before_run, std::function<void()> destroyed)
      : engine::FakeEncoderRunner(0, std::move(before_run)), destroyed_(std::move(destroyed)) {}
  ~MortalRunner() override {
    if (destroyed_) destroyed_();
  }

 private:
  const std::function<void()> destroyed_;
};

class RegistryLoadingTest : public testing::Test {
 protected:
  // Counts its calls; "broken" fails while broken_ is set.
  Registry::Loader Loader() {
    return [this](const ModelSpec& spec) -> Expected<std::unique_ptr<engine::Model>> {
      ++loads_;
      if (while_loading_) while_loading_();
      if (spec.reference == "broken" && broken_) return Status::NotFound("no such folder");
      engine::EncoderParts parts =
          engine::FakeParts(spec.reference == "reranker" ? families::ModelTask::kReranking
                                                         : families::ModelTask::kEmbedding);
      parts.runners[0] = std::make_unique<MortalRunner>(before_run_, [this] {
        destroyed_on_ = std::this_thread::get_id();
        ++destroyed_;
      });
      return std::unique_ptr<engine::Model>(std::make_unique<engine::EncoderEngine>(
          std::move(parts), spec.options.encoder, &metrics_));
    };
  }
  // With these models, all of them loaded.
  std::unique_ptr<Registry> With(const std::vector<std::pair<std::string, std::string>>& models,
                                 LoadBackOff back_off = {},
                                 std::function<Clock::time_point()> now = nullptr) {
    RegistryOptions options;
    options.back_off = back_off;
    options.now = std::move(now);
    auto registry = std::make_unique<Registry>(nullptr, &metrics_, Loader(), options);
    for (const auto& [name, reference] : models) {
      ModelSpec spec;
      spec.name = name;
      spec.reference = reference;
      EXPECT_TRUE(registry->Add(std::move(spec)).ok());
    }
    registry->StartLoading();
    (void)registry->WaitLoaded();
    return registry;
  }
  static bool IsReady(const std::shared_future<Status>& outcome) {
    return outcome.wait_for(milliseconds(0)) == std::future_status::ready;
  }
  static std::unique_ptr<sched::EncodeJob> Job() {
    auto job = std::make_unique<sched::EncodeJob>();
    job->ids = {5, 6};
    job->lengths = {2};
    return job;
  }

  metrics::Metrics metrics_;
  std::atomic<int> loads_{0};
  std::atomic<bool> broken_{true};
  std::function<void()> while_loading_;
  std::function<void()> before_run_;
  std::atomic<int> destroyed_{0};
  std::atomic<std::thread::id> destroyed_on_;
};

TEST_F(RegistryLoadingTest, ManyThreadsThatAskForOneAbsentModelCauseOneLoad) {
  const auto registry = With({{"a", "embedder"}});
  ASSERT_EQ(loads_, 1);
  ASSERT_TRUE(registry->Unload("a").get().ok());
  // So long that all threads ask while it loads.
  while_loading_ = [] { std::this_thread::sleep_for(milliseconds(20)); };
  for (int round = 2; round <= 3; ++round) {
    std::vector<std::thread> threads;
    std::atomic<int> found{0};
    for (int i = 0; i < 32; ++i) {
      threads.emplace_back([&] {
        EXPECT_TRUE(registry->Load("a").get().ok());
        found += registry->Find<engine::EncoderEngine>("a").ok();
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(found, 32);
    EXPECT_EQ(loads_, round);
    EXPECT_TRUE(registry->Load("a").get().ok());  // it is there
    EXPECT_EQ(loads_, round);
    ASSERT_TRUE(registry->Unload("a").get().ok());
  }
}

TEST_F(RegistryLoadingTest, AFailureGoesToAllWhoWaitAndIsForgottenAfterTheBackOff) {
  std::atomic<int> now_ms{0};
  const auto registry = With({{"a", "broken"}}, {milliseconds(40), milliseconds(60)},
                             [&] { return Clock::time_point(milliseconds(now_ms)); });
  ASSERT_EQ(loads_, 1);
  now_ms = 39;
  const auto at_once = registry->Load("a").get();
  EXPECT_EQ(at_once.code(), StatusCode::kUnavailable);
  EXPECT_EQ(at_once.retry_after_s(), 1);
  EXPECT_THAT(at_once.message(), HasSubstr("no such folder"));
  EXPECT_EQ(loads_, 1);
  now_ms = 40;

  std::promise<void> gate;
  while_loading_ = [open = gate.get_future().share()] { open.wait(); };
  std::vector<std::shared_future<Status>> asked;
  for (int i = 0; i < 8; ++i) asked.push_back(registry->Load("a"));
  while (loads_ == 1) std::this_thread::yield();
  asked.push_back(registry->Load("a"));
  gate.set_value();
  for (const auto& outcome : asked) EXPECT_EQ(outcome.get().code(), StatusCode::kNotFound);
  EXPECT_EQ(loads_, 2);
  EXPECT_EQ(registry->List()[0].state, ModelState::kFailed);

  broken_ = false;
  while_loading_ = nullptr;
  now_ms = 99;  // twice as long now, 60 ms at most
  EXPECT_EQ(registry->Load("a").get().code(), StatusCode::kUnavailable);
  now_ms = 100;
  EXPECT_TRUE(registry->Load("a").get().ok());
  EXPECT_EQ(loads_, 3);
  EXPECT_TRUE(registry->Find<engine::EncoderEngine>("a").ok());
  EXPECT_TRUE(registry->List()[0].error.ok());
}

TEST_F(RegistryLoadingTest, UnloadWaitsForTheLastLeaseAndFreesOnTheReaper) {
  const auto registry = With({{"a", "embedder"}, {"b", "embedder"}});
  auto lease = *registry->Find<engine::EncoderEngine>("a");
  Lease<engine::EncoderEngine> copy = lease;
  const auto outcome = registry->Unload("a");
  const Status refused = registry->Find<engine::EncoderEngine>("a").status();
  EXPECT_EQ(refused.code(), StatusCode::kUnavailable);
  EXPECT_EQ(refused.message(), "model 'a' is not loaded");
  EXPECT_EQ(registry->List()[0].state, ModelState::kDraining);
  EXPECT_FALSE(registry->List()[0].As<engine::EncoderEngine>());
  EXPECT_TRUE(registry->Find<engine::EncoderEngine>("b").ok());
  lease = {};
  std::this_thread::sleep_for(milliseconds(10));  // the unload could end too early meanwhile
  EXPECT_FALSE(IsReady(outcome));
  EXPECT_EQ(copy->name(), "a");
  EXPECT_EQ(destroyed_, 0);
  copy = {};
  EXPECT_TRUE(outcome.get().ok());
  EXPECT_EQ(destroyed_, 1);
  EXPECT_NE(destroyed_on_.load(), std::this_thread::get_id());
  EXPECT_EQ(registry->List()[0].state, ModelState::kAbsent);
  const std::thread::id reaper = destroyed_on_;
  ASSERT_TRUE(registry->Unload("b").get().ok());
  EXPECT_EQ(destroyed_on_.load(), reaper);
}

// `done` has the last lease, on the executor or on a thread that leads, while the model is
// unloaded.
TEST_F(RegistryLoadingTest, TheLastLeaseMayGoOnTheModelsOwnThread) {
  for (const bool lead : {false, true}) {
    std::promise<void> running, gate;
    before_run_ = [&running, open = gate.get_future().share()] {
      running.set_value();
      open.wait();
    };
    const auto registry = With({{"a", "embedder"}});
    std::atomic<std::thread::id> done_on;
    const int destroyed_before = destroyed_;
    std::promise<Status> answered;
    auto lease =
        std::make_unique<Lease<engine::EncoderEngine>>(*registry->Find<engine::EncoderEngine>("a"));
    engine::EncoderEngine* const engine = lease->get();
    auto job = Job();
    job->may_lead = lead;
    job->done = [&, kept = *lease](std::unique_ptr<sched::EncodeJob>, Status status) mutable {
      done_on = std::this_thread::get_id();
      kept = {};
      // The reaper has time to make a mistake.
      std::this_thread::sleep_for(milliseconds(5));
      answered.set_value(std::move(status));
    };
    // A leader has a lease of its own until Submit returns, as Submit requires.
    std::thread submitter([&, own = lead ? *lease : Lease<engine::EncoderEngine>()] {
      EXPECT_TRUE(engine->scheduler().Submit(std::move(job)).ok());
      std::this_thread::sleep_for(milliseconds(5));  // the reaper could be too early here, too
      if (lead) EXPECT_EQ(destroyed_, destroyed_before);
    });
    running.get_future().wait();
    lease.reset();
    const auto outcome = registry->Unload("a");
    EXPECT_FALSE(IsReady(outcome));
    gate.set_value();
    EXPECT_TRUE(answered.get_future().get().ok());
    EXPECT_TRUE(outcome.get().ok());
    EXPECT_EQ(destroyed_, destroyed_before + 1);
    EXPECT_NE(destroyed_on_.load(), done_on.load());
    submitter.join();
  }
}

TEST_F(RegistryLoadingTest, LoadOfAModelThatDrainsComesAfterIt) {
  const auto registry = With({{"a", "embedder"}});
  auto lease = *registry->Find<engine::EncoderEngine>("a");
  const engine::EncoderEngine* const old = lease.get();
  const uint64_t old_id = old->cache_id();
  const auto unloaded = registry->Unload("a");
  const auto loaded = registry->Load("a");
  EXPECT_FALSE(IsReady(loaded));
  EXPECT_FALSE(registry->Find<engine::EncoderEngine>("a").ok());
  lease = {};
  EXPECT_TRUE(loaded.get().ok());
  EXPECT_TRUE(IsReady(unloaded));
  EXPECT_EQ(destroyed_, 1);
  EXPECT_EQ(loads_, 2);
  EXPECT_NE((*registry->Find<engine::EncoderEngine>("a"))->cache_id(), old_id);
}

TEST_F(RegistryLoadingTest, WhatCannotBeUnloadedSaysSo) {
  std::promise<void> gate;
  while_loading_ = [open = gate.get_future().share()] { open.wait(); };
  Registry registry(nullptr, &metrics_, Loader(), {milliseconds(60000), milliseconds(60000)});
  for (const char* name : {"good", "broken"}) {
    ModelSpec spec;
    spec.name = spec.reference = name;
    ASSERT_TRUE(registry.Add(std::move(spec)).ok());
  }
  EXPECT_EQ(registry.Unload("x").get().code(), StatusCode::kNotFound);
  EXPECT_EQ(registry.Load("x").get().code(), StatusCode::kNotFound);
  EXPECT_EQ(registry.Unload("good").get().code(), StatusCode::kUnavailable);
  registry.StartLoading();
  EXPECT_EQ(registry.Unload("good").get().code(), StatusCode::kUnavailable);
  gate.set_value();
  EXPECT_FALSE(registry.WaitLoaded().ok());
  EXPECT_FALSE(registry.AllReady());
  // A failure is forgotten at once by unloading.
  EXPECT_TRUE(registry.Unload("broken").get().ok());
  EXPECT_TRUE(registry.AllReady());
  broken_ = false;
  EXPECT_TRUE(registry.Load("broken").get().ok());
  EXPECT_TRUE(registry.Unload("good").get().ok());
  EXPECT_TRUE(registry.Unload("good").get().ok());
  EXPECT_EQ(destroyed_, 1);
}

TEST_F(RegistryLoadingTest, LoadBeginsWithoutStartLoading) {
  Registry registry(nullptr, &metrics_, Loader());
  for (const char* name : {"a", "b"}) {
    ModelSpec spec;
    spec.name = spec.reference = name;
    ASSERT_TRUE(registry.Add(std::move(spec)).ok());
  }
  EXPECT_TRUE(registry.Load("b").get().ok());
  EXPECT_EQ(registry.List()[0].state, ModelState::kWaiting);
  EXPECT_EQ(loads_, 1);
  registry.StartLoading();
  EXPECT_TRUE(registry.WaitLoaded().ok());
  EXPECT_EQ(loads_, 2);
}

TEST_F(RegistryLoadingTest, AnAbsentModelKeepsItsPlace) {
  const auto registry = With({{"r", "reranker"}, {"a", "embedder"}, {"b", "embedder"}});
  registry->AcceptAnyName();
  ASSERT_TRUE(registry->Unload("a").get().ok());
  EXPECT_TRUE(registry->AllReady());
  EXPECT_TRUE(registry->Has("a"));
  EXPECT_EQ((*registry->Find<engine::EncoderEngine>(""))->name(), "r");
  // The default for embedding is still `a`.
  EXPECT_EQ(
      registry->Find<engine::EncoderEngine>("", families::ModelTask::kEmbedding).status().message(),
      "model 'a' is not loaded");
  EXPECT_EQ((*registry->Find<engine::EncoderEngine>("x", families::ModelTask::kReranking))->name(),
            "r");
  EXPECT_EQ(
      registry->Find<engine::EncoderEngine>("x", families::ModelTask::kEmbedding).status().code(),
      StatusCode::kNotFound);
  ASSERT_TRUE(registry->Load("a").get().ok());
  EXPECT_EQ((*registry->Find<engine::EncoderEngine>("", families::ModelTask::kEmbedding))->name(),
            "a");
}

TEST_F(RegistryLoadingTest, AfterStopNothingIsLoadedAndLeasesStayGood) {
  auto registry = With({{"a", "embedder"}, {"b", "embedder"}});
  auto lease = *registry->Find<engine::EncoderEngine>("a");
  ASSERT_TRUE(registry->Unload("b").get().ok());
  const auto draining = registry->Unload("a");
  const auto wanted = registry->Load("a");
  registry->Stop();
  EXPECT_EQ(wanted.get().code(), StatusCode::kUnavailable);
  EXPECT_EQ(registry->Load("b").get().code(), StatusCode::kUnavailable);
  EXPECT_EQ(lease->name(), "a");
  EXPECT_EQ(destroyed_, 1);
  // The registry's destructor waits for leases.
  std::thread holder([&, kept = std::move(lease)]() mutable {
    std::this_thread::sleep_for(milliseconds(30));  // the destructor could end meanwhile
    EXPECT_EQ(destroyed_, 1);
    kept = {};
  });
  registry.reset();
  EXPECT_EQ(destroyed_, 2);
  EXPECT_TRUE(draining.get().ok());
  holder.join();
}

TEST_F(RegistryLoadingTest, WithoutALoaderAnAddedEngineIsGoneForGood) {
  Registry registry(nullptr, &metrics_);
  engine::EncoderEngineOptions options;
  options.name = "a";
  ASSERT_TRUE(registry
                  .AddLoaded(std::make_unique<engine::EncoderEngine>(
                      engine::FakeParts(families::ModelTask::kEmbedding), options, &metrics_))
                  .ok());
  EXPECT_TRUE(registry.Find<engine::EncoderEngine>("a").ok());
  ASSERT_TRUE(registry.Unload("a").get().ok());
  EXPECT_EQ(registry.Load("a").get().code(), StatusCode::kUnsupported);
}

// A lease works whatever is unloaded meanwhile.
TEST_F(RegistryLoadingTest, LookingUpWhileModelsComeAndGo) {
  const auto registry = With({{"a", "embedder"}, {"b", "reranker"}});
  std::atomic<bool> stop{false};
  std::atomic<int> found{0}, refused{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      const std::string name = i % 2 == 0 ? "a" : "b";
      while (!stop) {
        const auto lease =
            i < 2 ? registry->Find<engine::EncoderEngine>(name)
                  : registry->Find<engine::EncoderEngine>("", families::ModelTask::kReranking);
        if (!lease.ok()) {
          EXPECT_EQ(lease.status().code(), StatusCode::kUnavailable);
          ++refused;
          std::this_thread::yield();
          continue;
        }
        ++found;
        EXPECT_EQ((*lease)->name(), i < 2 ? name : "b");
        std::promise<Status> answered;
        auto job = Job();
        job->done = [&](std::unique_ptr<sched::EncodeJob>, Status status) {
          answered.set_value(std::move(status));
        };
        EXPECT_TRUE((*lease)->scheduler().Submit(std::move(job)).ok());
        EXPECT_TRUE(answered.get_future().get().ok());
      }
    });
  }
  for (int i = 0; i < 100; ++i) {
    for (const char* name : {"a", "b"}) {
      EXPECT_TRUE(registry->Unload(name).get().ok());
      EXPECT_TRUE(registry->Load(name).get().ok());
      EXPECT_EQ(registry->HeldBytes(), 0u);
    }
  }
  while (found < 100) std::this_thread::yield();
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(loads_, 202);
  EXPECT_EQ(destroyed_, 200);
}

struct DrainCount final : LeaseCount {
  void Drained() override { ++drained; }
  int drained = 0;
};

TEST(Lease, StampsTheEndOfAUseAndNotOfALook) {
  DrainCount count;
  count.Open();
  for (const bool is_use : {false, true}) {
    ASSERT_TRUE(count.TryAdd());
    Lease<engine::Model> lease(&count, nullptr, is_use);
    auto cast = std::move(lease).Cast<engine::EncoderEngine>();
    const auto copy = cast;
    EXPECT_EQ(count.last_use(), Clock::time_point());
    cast = {};
    EXPECT_EQ(count.last_use() > Clock::time_point(), is_use);
  }
}

TEST(Lease, CountsCopiesAndNotMoves) {
  DrainCount count;
  EXPECT_FALSE(count.TryAdd());
  count.Open();
  ASSERT_TRUE(count.TryAdd());
  {
    Lease<engine::EncoderEngine> first(&count, nullptr);
    Lease<engine::EncoderEngine> second = first;
    EXPECT_EQ(count.leases(), 2u);
    Lease<engine::EncoderEngine> third = std::move(second);
    EXPECT_EQ(count.leases(), 2u);
    second = third;
    first = second;
    EXPECT_EQ(count.leases(), 3u);
    second = std::move(third);
    EXPECT_EQ(count.leases(), 2u);
    EXPECT_FALSE(count.Close());
    EXPECT_FALSE(count.TryAdd());
    second = {};
    EXPECT_EQ(count.drained, 0);
  }
  EXPECT_EQ(count.drained, 1);
  count.Open();
  EXPECT_TRUE(count.Close());
  EXPECT_EQ(count.drained, 1);
}

TEST(Lease, OfAnEngineThatNobodyUnloadsCountsNothing) {
  metrics::Metrics metrics;
  engine::EncoderEngine engine(engine::FakeParts(families::ModelTask::kEmbedding), {}, &metrics);
  const Lease<engine::EncoderEngine> lease(&engine);
  const Lease<engine::EncoderEngine> copy = lease;
  EXPECT_EQ(copy.get(), &engine);
  EXPECT_TRUE(copy);
  EXPECT_FALSE(Lease<engine::EncoderEngine>());
}

// So a reload finds its entries in the caches, and never those of another model.
TEST(CacheId, BelongsToTheFingerprintOrToOneEngine) {
  metrics::Metrics metrics;
  const auto id = [&](const std::string& fingerprint) {
    engine::EncoderParts parts = engine::FakeParts(families::ModelTask::kEmbedding);
    parts.fingerprint = fingerprint;
    return engine::EncoderEngine(std::move(parts), {}, &metrics).cache_id();
  };
  const uint64_t one = id("one");
  EXPECT_NE(id("two"), one);
  EXPECT_EQ(id("one"), one);
  const uint64_t first = id("");
  EXPECT_NE(first, one);
  EXPECT_NE(id(""), first);
}

}  // namespace
}  // namespace penstock::registry

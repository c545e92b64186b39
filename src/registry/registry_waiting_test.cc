// Models that requests load, and that leave when they are idle.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>
#include <vector>

#include "engine/fake_engine.h"
#include "registry/registry.h"

namespace penstock::registry {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

class RegistryWaitingTest : public testing::Test {
 protected:
  // "broken" cannot be loaded; "reranker" is one, all others embed.
  Registry::Loader Loader() {
    return [this](const ModelSpec& spec) -> Expected<std::unique_ptr<engine::Model>> {
      ++loads_;
      if (while_loading_) while_loading_();
      if (spec.reference == "broken") return Status::NotFound("no such folder");
      engine::EncoderParts parts =
          engine::FakeParts(spec.reference == "reranker" ? families::ModelTask::kReranking
                                                         : families::ModelTask::kEmbedding);
      return std::unique_ptr<engine::Model>(std::make_unique<engine::EncoderEngine>(
          std::move(parts), spec.options.encoder, &metrics_));
    };
  }
  static ModelSpec Spec(const std::string& name, const std::string& reference = "embedder") {
    ModelSpec spec;
    spec.name = name;
    spec.reference = reference;
    return spec;
  }
  void Serve(std::vector<ModelSpec> specs, KeepAlive keep_alive = KeepAlive(-1),
             milliseconds check_interval = milliseconds(5)) {
    RegistryOptions options;
    options.on_demand = true;
    options.keep_alive = keep_alive;
    options.check_interval = check_interval;
    registry_ = std::make_unique<Registry>(nullptr, &metrics_, Loader(), options);
    for (ModelSpec& spec : specs) ASSERT_TRUE(registry_->Add(std::move(spec)).ok());
    registry_->StartLoading();
  }
  ModelState StateOf(size_t i) const { return registry_->List()[i].state; }
  bool Becomes(size_t i, ModelState state) const {
    for (int tries = 0; tries < 2000; ++tries) {
      if (StateOf(i) == state) return true;
      std::this_thread::sleep_for(milliseconds(1));  // polls
    }
    return false;
  }
  // The outcome of waiting, and whether the model was there then. `lease`, if any, holds it.
  Status AwaitNow(const std::string& name, const ModelUse& use = {},
                  const RequestContext& context = {},
                  Lease<engine::EncoderEngine>* lease = nullptr) {
    std::promise<Status> outcome;
    registry_->Await(name, use, context, [&](const Status& status) {
      const auto found = registry_->Find<engine::EncoderEngine>(name, use.task);
      if (found.ok() && lease != nullptr) *lease = *found;
      outcome.set_value(status.ok() && !found.ok() ? found.status() : status);
    });
    return outcome.get_future().get();
  }

  metrics::Metrics metrics_;
  std::atomic<int> loads_{0};
  std::function<void()> while_loading_;
  std::unique_ptr<Registry> registry_;
};

TEST_F(RegistryWaitingTest, TheFirstRequestLoadsAndOthersWaitForThatLoad) {
  // So long that all threads ask while it loads.
  while_loading_ = [] { std::this_thread::sleep_for(milliseconds(20)); };
  Serve({Spec("a")});
  EXPECT_TRUE(registry_->AllReady());
  EXPECT_EQ(StateOf(0), ModelState::kAbsent);
  EXPECT_TRUE(registry_->MustAwait("a", {}));
  std::vector<std::thread> threads;
  std::atomic<int> served{0};
  for (int i = 0; i < 32; ++i) {
    threads.emplace_back([&] { served += AwaitNow("a").ok(); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(served, 32);
  EXPECT_EQ(loads_, 1);
  EXPECT_FALSE(registry_->MustAwait("a", {}));
  EXPECT_TRUE(AwaitNow("a").ok());
  EXPECT_EQ(loads_, 1);
}

TEST_F(RegistryWaitingTest, ModelsToPreloadAreLoadedAtOnce) {
  std::vector<ModelSpec> specs = {Spec("a"), Spec("b")};
  specs[1].preload = true;
  Serve(std::move(specs));
  EXPECT_TRUE(registry_->WaitLoaded().ok());
  EXPECT_EQ(StateOf(0), ModelState::kAbsent);
  EXPECT_EQ(StateOf(1), ModelState::kReady);
}

// A server that was ready stays so while a model that left is loaded again.
TEST_F(RegistryWaitingTest, ReadyStaysReadyWhileAModelIsLoadedAgain) {
  std::vector<ModelSpec> specs = {Spec("a")};
  specs[0].preload = true;
  std::promise<void> first;
  while_loading_ = [opened = first.get_future().share()] { opened.wait(); };
  Serve(std::move(specs));
  EXPECT_FALSE(registry_->AllReady());
  first.set_value();
  EXPECT_TRUE(registry_->WaitLoaded().ok());
  ASSERT_TRUE(registry_->Unload("a").get().ok());
  std::promise<void> second, loading;
  while_loading_ = [&loading, opened = second.get_future().share()] {
    loading.set_value();
    opened.wait();
  };
  std::thread user([&] { EXPECT_TRUE(AwaitNow("a").ok()); });
  loading.get_future().wait();
  EXPECT_EQ(StateOf(0), ModelState::kLoading);
  EXPECT_TRUE(registry_->AllReady());
  second.set_value();
  user.join();
  registry_->Stop();
  EXPECT_FALSE(registry_->AllReady());
}

TEST_F(RegistryWaitingTest, AFailureGoesToThoseWhoWait) {
  Serve({Spec("a", "broken")});
  const Status first = AwaitNow("a");
  EXPECT_EQ(first.code(), StatusCode::kUnavailable) << first.ToString();
  EXPECT_THAT(first.message(), HasSubstr("no such folder"));
  const Status again = AwaitNow("a");  // within the back-off
  EXPECT_GT(again.retry_after_s(), 0);
  EXPECT_EQ(loads_, 1);
}

TEST_F(RegistryWaitingTest, ARequestWithoutANameWaitsForTheModelThatDoesItsTask) {
  Serve({Spec("a"), Spec("b", "reranker"), Spec("c")});
  EXPECT_TRUE(AwaitNow("", {.task = families::ModelTask::kReranking}).ok());
  // What a model does is known once it was loaded, so the one before was loaded too.
  EXPECT_EQ(StateOf(0), ModelState::kReady);
  EXPECT_EQ(StateOf(1), ModelState::kReady);
  EXPECT_EQ(StateOf(2), ModelState::kAbsent);
  ASSERT_TRUE(registry_->Unload("b").get().ok());
  ASSERT_TRUE(registry_->Unload("a").get().ok());
  EXPECT_TRUE(AwaitNow("", {.task = families::ModelTask::kReranking}).ok());
  EXPECT_EQ(StateOf(0), ModelState::kAbsent);  // known to do something else
  // A reranker does where nothing classifies; c may.
  const ModelUse classify = {.task = families::ModelTask::kClassification,
                             .instead = families::ModelTask::kReranking};
  EXPECT_TRUE(registry_->MustAwait("", classify));
  ASSERT_TRUE(AwaitNow("c").ok());
  EXPECT_FALSE(registry_->MustAwait("", classify));
}

TEST_F(RegistryWaitingTest, WaitsEndWithTheRequest) {
  std::promise<void> gate;
  while_loading_ = [open = gate.get_future().share()] { open.wait(); };
  Serve({Spec("a")});
  RequestContext late;
  late.deadline = Clock::now() + milliseconds(30);
  EXPECT_EQ(AwaitNow("a", {}, late).code(), StatusCode::kDeadlineExceeded);
  RequestContext left;
  left.cancel = std::make_shared<CancelToken>();
  left.cancel->Cancel();
  EXPECT_EQ(AwaitNow("a", {}, left).code(), StatusCode::kCancelled);
  EXPECT_EQ(registry_->List()[0].requests_waiting, 0u);
  gate.set_value();
  EXPECT_TRUE(AwaitNow("a").ok());
}

TEST_F(RegistryWaitingTest, WaitsEndWhenTheRegistryStops) {
  std::promise<void> gate;
  while_loading_ = [open = gate.get_future().share()] { open.wait(); };
  Serve({Spec("a"), Spec("b")});
  ASSERT_TRUE(registry_->AllReady());  // and stays so until it stops
  std::promise<Status> a, b;
  registry_->Await("a", {}, {}, [&](const Status& status) { a.set_value(status); });
  registry_->Await("b", {}, {}, [&](const Status& status) { b.set_value(status); });
  ASSERT_TRUE(Becomes(0, ModelState::kLoading));
  std::thread stopping([&] { registry_->Stop(); });
  while (registry_->AllReady()) std::this_thread::yield();
  gate.set_value();
  stopping.join();
  EXPECT_TRUE(a.get_future().get().ok());
  EXPECT_EQ(b.get_future().get().code(), StatusCode::kUnavailable);
}

TEST_F(RegistryWaitingTest, IdleModelsLeaveAndPinnedOnesStay) {
  std::vector<ModelSpec> specs = {Spec("a"), Spec("b"), Spec("c")};
  specs[1].pinned = true;
  specs[2].keep_alive = KeepAlive(-1);
  Serve(std::move(specs), milliseconds(40));
  for (const char* name : {"b", "c"}) ASSERT_TRUE(AwaitNow(name).ok());
  const auto before = Clock::now();
  ASSERT_TRUE(AwaitNow("a").ok());
  EXPECT_TRUE(Becomes(0, ModelState::kAbsent));
  EXPECT_GE(Clock::now() - before, milliseconds(40));
  EXPECT_EQ(StateOf(1), ModelState::kReady);
  EXPECT_EQ(StateOf(2), ModelState::kReady);
  ASSERT_TRUE(registry_->Pin("b", false).ok());
  EXPECT_TRUE(Becomes(1, ModelState::kAbsent));
  EXPECT_TRUE(AwaitNow("a").ok());  // and come again
  EXPECT_EQ(registry_->List()[0].loads, 2u);
  EXPECT_EQ(registry_->Pin("d", true).code(), StatusCode::kNotFound);
}

// Between the look at a model and the lease of it there may be an unload.
TEST_F(RegistryWaitingTest, AHeldModelIsThereForFind) {
  Serve({Spec("a")}, milliseconds(10));
  Lease<engine::Model> hold;
  EXPECT_TRUE(registry_->MustAwait("a", {}, &hold));
  EXPECT_FALSE(hold);
  Lease<engine::EncoderEngine> lease;
  ASSERT_TRUE(AwaitNow("a", {}, {}, &lease).ok());
  ASSERT_FALSE(registry_->MustAwait("a", {}, &hold));
  lease = Lease<engine::EncoderEngine>();
  std::this_thread::sleep_for(milliseconds(60));  // longer than a model stays that is not held
  EXPECT_TRUE(registry_->Find<engine::EncoderEngine>("a").ok());
  hold = Lease<engine::Model>();
  EXPECT_TRUE(Becomes(0, ModelState::kAbsent));
}

TEST_F(RegistryWaitingTest, ATaskThatIsSaidIsKnownBeforeTheLoad) {
  std::vector<ModelSpec> specs = {Spec("a"), Spec("b", "reranker")};
  specs[0].purpose = engine::ParseModelPurpose("embed").value();
  specs[1].purpose = engine::ParseModelPurpose("reranking").value();
  Serve(std::move(specs));
  EXPECT_TRUE(AwaitNow("", {.task = families::ModelTask::kReranking}).ok());
  EXPECT_EQ(StateOf(0), ModelState::kAbsent);
  EXPECT_EQ(StateOf(1), ModelState::kReady);
  EXPECT_EQ(engine::ParseModelPurpose("chat").status().field(), "task");
  EXPECT_THAT(engine::ParseModelPurpose("chat").status().message(), HasSubstr("known: embedding"));
  EXPECT_TRUE(engine::ParseModelPurpose("generate")->capability == engine::Capability::kGenerate);
}

TEST_F(RegistryWaitingTest, AModelInUseStays) {
  Serve({Spec("a")}, milliseconds(10));
  Lease<engine::EncoderEngine> lease;
  ASSERT_TRUE(AwaitNow("a", {}, {}, &lease).ok());
  std::this_thread::sleep_for(milliseconds(60));  // longer than a model stays without use
  EXPECT_EQ(StateOf(0), ModelState::kReady);
  lease = Lease<engine::EncoderEngine>();
  EXPECT_TRUE(Becomes(0, ModelState::kAbsent));
}

// Within seconds, though the next regular look is an hour away, and not before: its time begins
// where its last use ends.
TEST_F(RegistryWaitingTest, AnIdleModelLeavesWhenItsTimeIsOver) {
  constexpr milliseconds kKept{100};
  std::vector<ModelSpec> specs = {Spec("a"), Spec("b")};
  specs[1].keep_alive = std::chrono::seconds(60);
  Serve(std::move(specs), kKept, std::chrono::hours(1));
  for (int use = 0; use < 2; ++use) {
    Lease<engine::EncoderEngine> lease;
    ASSERT_TRUE(AwaitNow("b").ok());
    ASSERT_TRUE(AwaitNow("a", {}, {}, &lease).ok());
    // Once over its time, so that the keeper looks, and once nearly.
    std::this_thread::sleep_for(use == 0 ? kKept * 5 / 4 : kKept * 3 / 4);
    EXPECT_EQ(StateOf(0), ModelState::kReady);
    const Clock::time_point ended = Clock::now();
    lease = Lease<engine::EncoderEngine>();
    EXPECT_TRUE(Becomes(0, ModelState::kAbsent));
    EXPECT_GE(Clock::now() - ended, kKept);
    EXPECT_EQ(StateOf(1), ModelState::kReady);
  }
}

TEST_F(RegistryWaitingTest, AModelThatIsUnpinnedLeaves) {
  Serve({Spec("a")}, milliseconds(10), std::chrono::hours(1));
  ASSERT_TRUE(registry_->Pin("a", true).ok());
  ASSERT_TRUE(AwaitNow("a").ok());
  std::this_thread::sleep_for(milliseconds(60));  // longer than a model stays without use
  EXPECT_EQ(StateOf(0), ModelState::kReady);
  ASSERT_TRUE(registry_->Pin("a", false).ok());
  EXPECT_TRUE(Becomes(0, ModelState::kAbsent));
}

TEST_F(RegistryWaitingTest, ARequestSaysHowLongItsModelStays) {
  Serve({Spec("a")}, KeepAlive(-1));
  RequestContext at_once;
  at_once.keep_alive = KeepAlive(0);
  ASSERT_TRUE(AwaitNow("a", {}, at_once).ok());
  EXPECT_TRUE(Becomes(0, ModelState::kAbsent));
  ASSERT_TRUE(AwaitNow("a").ok());                // what was asked is forgotten
  std::this_thread::sleep_for(milliseconds(60));  // a keeper that remembers would unload it
  EXPECT_EQ(StateOf(0), ModelState::kReady);
  EXPECT_EQ(registry_->List()[0].keep_alive, KeepAlive(-1));
}

// As where administrators have keys, and the request has none of these.
TEST_F(RegistryWaitingTest, OthersKeepAModelWithinBoundsOnly) {
  using std::chrono::minutes;
  using std::chrono::seconds;
  std::vector<ModelSpec> specs = {Spec("a"), Spec("always"), Spec("short")};
  specs[1].keep_alive = KeepAlive(-1);
  specs[2].keep_alive = seconds(20);
  Serve(std::move(specs), minutes(5));
  const auto kept = [this](size_t i, KeepAlive asked, bool rules) {
    RequestContext context;
    context.keep_alive = asked;
    context.rules_models = rules;
    const std::string name = registry_->List()[i].name;
    EXPECT_TRUE(AwaitNow(name, {}, context).ok());
    return registry_->List()[i].keep_alive;
  };
  EXPECT_EQ(kept(0, KeepAlive(0), false), minutes(1));
  EXPECT_EQ(kept(0, minutes(2), false), minutes(2));
  EXPECT_EQ(kept(0, minutes(9), false), minutes(5));
  EXPECT_EQ(kept(0, KeepAlive(-1), false), minutes(5));
  EXPECT_EQ(kept(1, KeepAlive(-1), false), KeepAlive(-1));
  EXPECT_EQ(kept(1, minutes(9), false), minutes(9));
  EXPECT_EQ(kept(1, KeepAlive(0), false), minutes(1));
  EXPECT_EQ(kept(2, KeepAlive(0), false), seconds(20));
  EXPECT_EQ(kept(2, minutes(9), false), seconds(20));
  EXPECT_EQ(kept(0, KeepAlive(-1), true), KeepAlive(-1));
  EXPECT_EQ(kept(0, minutes(9), true), minutes(9));
}

// Requests, the keeper and unloads at once: each request finds its model.
TEST_F(RegistryWaitingTest, RequestsFindTheirModelsWhileTheseComeAndGo) {
  Serve({Spec("a"), Spec("b")}, milliseconds(1));
  std::vector<std::thread> threads;
  std::atomic<int> served{0};
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      for (int n = 0; n < 60; ++n) {
        served += AwaitNow(i % 2 == 0 ? "a" : "b").ok();
        if (n % 20 == i) registry_->Unload("a");
        std::this_thread::sleep_for(milliseconds(n % 5));  // as long as a model stays, or longer
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(served, 240);
}

}  // namespace
}  // namespace penstock::registry

#include "registry/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <new>
#include <stdexcept>

#include "base/failing_new.h"
#include "cpu/cpu_backend.h"
#include "engine/fake_engine.h"

namespace penstock::registry {
namespace {

using testing::HasSubstr;

class RegistryTest : public testing::Test {
 protected:
  std::unique_ptr<engine::EncoderEngine> Make(const std::string& name, families::ModelTask task) {
    engine::EncoderEngineOptions options;
    options.name = name;
    return std::make_unique<engine::EncoderEngine>(engine::FakeParts(task), options, &metrics_);
  }
  Registry::Loader LoaderThat(std::function<void(const ModelSpec&)> waits) {
    return [this, waits](const ModelSpec& spec) -> Expected<std::unique_ptr<engine::Model>> {
      waits(spec);
      if (spec.reference == "broken") return Status::NotFound("no such folder");
      return std::unique_ptr<engine::Model>(
          Make(spec.options.encoder.name, spec.reference == "reranker"
                                              ? families::ModelTask::kReranking
                                              : families::ModelTask::kEmbedding));
    };
  }
  static ModelSpec Spec(std::string name, std::string reference,
                        std::vector<std::string> aliases = {}) {
    ModelSpec spec;
    spec.name = std::move(name);
    spec.reference = std::move(reference);
    spec.aliases = std::move(aliases);
    return spec;
  }

  metrics::Metrics metrics_;
};

TEST_F(RegistryTest, FindsByNameAliasAndTask) {
  Registry registry(nullptr, &metrics_, LoaderThat([](const ModelSpec&) {}));
  ASSERT_TRUE(registry.Add(Spec("a", "embedder", {"first", "default"})).ok());
  ASSERT_TRUE(registry.Add(Spec("b", "reranker")).ok());
  EXPECT_FALSE(registry.AllReady());
  registry.StartLoading();
  ASSERT_TRUE(registry.WaitLoaded().ok());
  EXPECT_TRUE(registry.AllReady());
  EXPECT_EQ((*registry.Find<engine::EncoderEngine>("b"))->name(), "b");
  EXPECT_EQ((*registry.Find<engine::EncoderEngine>("default"))->name(), "a");
  EXPECT_EQ((*registry.Find<engine::EncoderEngine>(""))->name(), "a");
  EXPECT_EQ((*registry.Find<engine::EncoderEngine>("", families::ModelTask::kReranking))->name(),
            "b");
  EXPECT_EQ(
      (*registry.Find<engine::EncoderEngine>("", families::ModelTask::kClassification))->name(),
      "a");
  const Status unknown = registry.Find<engine::EncoderEngine>("c").status();
  EXPECT_EQ(unknown.code(), StatusCode::kNotFound);
  EXPECT_EQ(unknown.field(), "model");
  EXPECT_THAT(unknown.message(), HasSubstr("served: a, first, default, b"));
}

TEST_F(RegistryTest, TheLastPartOfANameIsAnAlias) {
  Registry registry(nullptr, &metrics_, LoaderThat([](const ModelSpec&) {}));
  ASSERT_TRUE(registry.Add(Spec("owner/embed", "embedder")).ok());
  ASSERT_TRUE(registry.Add(Spec("cached--owner--rank", "reranker", {"x/alias"})).ok());
  ASSERT_TRUE(registry.Add(Spec("--", "embedder")).ok());
  registry.StartLoading();
  ASSERT_TRUE(registry.WaitLoaded().ok());
  for (const char* name : {"owner/embed", "embed"}) {
    ASSERT_TRUE(registry.Has(name)) << name;
    EXPECT_EQ((*registry.Find<engine::EncoderEngine>(name))->name(), "owner/embed");
  }
  for (const char* name : {"cached/owner--rank", "owner--rank", "x/alias", "alias"}) {
    EXPECT_EQ((*registry.Find<engine::EncoderEngine>(name))->name(), "cached--owner--rank") << name;
  }
  EXPECT_FALSE(registry.Has("owner"));
  const auto entries = registry.List();
  EXPECT_EQ(entries[0].aliases, std::vector<std::string>({"embed"}));
  EXPECT_EQ(entries[1].aliases,
            std::vector<std::string>({"x/alias", "cached/owner--rank", "owner--rank", "alias"}));
  EXPECT_EQ(entries[2].aliases, std::vector<std::string>());
  EXPECT_THAT(registry.Find<engine::EncoderEngine>("z").status().message(),
              HasSubstr("served: owner/embed, embed, "));
}

TEST_F(RegistryTest, ALastPartThatTwoModelsShareIsNeithers) {
  Registry registry(nullptr, &metrics_);
  ASSERT_TRUE(registry.Add(Spec("a/same", "embedder")).ok());
  ASSERT_TRUE(registry.Add(Spec("b/same", "embedder")).ok());
  ASSERT_TRUE(registry.Add(Spec("c/given", "embedder")).ok());
  ASSERT_TRUE(registry.Add(Spec("given", "embedder")).ok());  // a name comes before a last part
  ASSERT_TRUE(registry.Add(Spec("d--x", "embedder")).ok());
  ASSERT_TRUE(registry.Add(Spec("d/x", "embedder")).ok());
  for (const Registry::Entry& entry : registry.List()) {
    EXPECT_EQ(entry.aliases, std::vector<std::string>()) << entry.name;
  }
  EXPECT_FALSE(registry.Has("same"));
  EXPECT_FALSE(registry.Has("x"));
  EXPECT_TRUE(registry.Has("given"));
}

TEST_F(RegistryTest, AnyNameMeansTheOneModelOfATask) {
  Registry registry(nullptr, &metrics_, LoaderThat([](const ModelSpec&) {}));
  ASSERT_TRUE(registry.Add(Spec("a", "embedder")).ok());
  ASSERT_TRUE(registry.Add(Spec("b", "reranker")).ok());
  EXPECT_EQ(
      registry.Find<engine::EncoderEngine>("x", families::ModelTask::kEmbedding).status().code(),
      StatusCode::kNotFound);
  registry.AcceptAnyName();
  // Before loading no task is known.
  EXPECT_EQ(
      registry.Find<engine::EncoderEngine>("x", families::ModelTask::kReranking).status().code(),
      StatusCode::kUnavailable);
  registry.StartLoading();
  ASSERT_TRUE(registry.WaitLoaded().ok());
  EXPECT_EQ((*registry.Find<engine::EncoderEngine>("x", families::ModelTask::kEmbedding))->name(),
            "a");
  EXPECT_EQ((*registry.Find<engine::EncoderEngine>("x", families::ModelTask::kReranking))->name(),
            "b");
  EXPECT_EQ((*registry.Find<engine::EncoderEngine>("a", families::ModelTask::kReranking))->name(),
            "a");  // it has that name
  EXPECT_EQ(
      (*registry.Find<engine::EncoderEngine>("x", families::ModelTask::kClassification))->name(),
      "a");
  EXPECT_EQ(registry.Find<engine::EncoderEngine>("x").status().code(), StatusCode::kNotFound);
  EXPECT_FALSE(registry.Has("x"));

  Registry two(nullptr, &metrics_, LoaderThat([](const ModelSpec&) {}));
  ASSERT_TRUE(two.Add(Spec("a", "embedder")).ok());
  ASSERT_TRUE(two.Add(Spec("b", "embedder")).ok());
  two.AcceptAnyName();
  two.StartLoading();
  ASSERT_TRUE(two.WaitLoaded().ok());
  const Status shared =
      two.Find<engine::EncoderEngine>("x", families::ModelTask::kEmbedding).status();
  EXPECT_EQ(shared.code(), StatusCode::kNotFound);
  EXPECT_THAT(shared.message(), HasSubstr("served: a, b"));

  Registry one(nullptr, &metrics_);
  ASSERT_TRUE(one.AddLoaded(Make("a", families::ModelTask::kEmbedding)).ok());
  one.AcceptAnyName();
  EXPECT_EQ((*one.Find<engine::EncoderEngine>("x"))->name(), "a");
}

TEST_F(RegistryTest, NamesAreUnique) {
  Registry registry(nullptr, &metrics_);
  ASSERT_TRUE(registry.Add(Spec("a", "x", {"b"})).ok());
  EXPECT_EQ(registry.Add(Spec("b", "y")).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(registry.Add(Spec("c", "y", {"a"})).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(registry.Add(Spec("c", "y", {"c"})).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(registry.Add(Spec("c", "y", {"b"})).message(), "two models are named 'b': x and y");
  EXPECT_EQ(registry.Add(Spec("c", "y", {"c"})).message(), "the name 'c' is given twice to y");
  EXPECT_EQ(registry.Add(Spec("", "y")).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(registry.AddLoaded(Make("a", families::ModelTask::kEmbedding)).code(),
            StatusCode::kInvalidArgument);
  for (size_t i = 1; i < Registry::kModelsMax; ++i) {
    ASSERT_TRUE(registry.Add(Spec("m" + std::to_string(i), "x")).ok());
  }
  EXPECT_EQ(registry.Add(Spec("z", "x")).code(), StatusCode::kPayloadTooLarge);
}

TEST_F(RegistryTest, AModelBeingLoadedIsUnavailableAndTheOthersWork) {
  std::promise<void> gate;
  auto open = gate.get_future().share();
  Registry registry(nullptr, &metrics_, LoaderThat([open](const ModelSpec& spec) {
                      if (spec.name == "slow") open.wait();
                    }));
  ASSERT_TRUE(registry.Add(Spec("bad", "broken")).ok());
  ASSERT_TRUE(registry.Add(Spec("slow", "embedder")).ok());
  registry.StartLoading();
  while (registry.List()[1].state != ModelState::kLoading) std::this_thread::yield();
  // What became of the first is told a moment after the second has begun.
  while (registry.List()[0].state != ModelState::kFailed) std::this_thread::yield();
  const Status loading = registry.Find<engine::EncoderEngine>("slow").status();
  EXPECT_EQ(loading.code(), StatusCode::kUnavailable);
  EXPECT_EQ(loading.retry_after_s(), 1);
  const Status failed = registry.Find<engine::EncoderEngine>("bad").status();
  EXPECT_EQ(failed.code(), StatusCode::kUnavailable);
  EXPECT_THAT(failed.message(), HasSubstr("no such folder"));
  gate.set_value();
  const Status first_failure = registry.WaitLoaded();
  EXPECT_EQ(first_failure.code(), StatusCode::kNotFound);
  EXPECT_THAT(first_failure.message(), HasSubstr("cannot load model 'bad'"));
  EXPECT_TRUE(registry.Find<engine::EncoderEngine>("slow").ok());
  EXPECT_FALSE(registry.AllReady());
}

TEST_F(RegistryTest, StopEndsLoadingAfterTheModelAtHand) {
  std::promise<void> gate;
  auto open = gate.get_future().share();
  Registry registry(nullptr, &metrics_, LoaderThat([open](const ModelSpec&) { open.wait(); }));
  ASSERT_TRUE(registry.Add(Spec("a", "embedder")).ok());
  ASSERT_TRUE(registry.Add(Spec("b", "embedder")).ok());
  registry.StartLoading();
  while (registry.List()[0].state != ModelState::kLoading) std::this_thread::yield();
  std::thread stopper([&] { registry.Stop(); });
  EXPECT_EQ(registry.WaitLoaded().code(), StatusCode::kUnavailable);
  gate.set_value();
  stopper.join();
  EXPECT_EQ(registry.List()[1].state, ModelState::kWaiting);
}

TEST_F(RegistryTest, AnExceptionFailsItsModelAndNoOther) {
  Registry registry(nullptr, &metrics_, LoaderThat([](const ModelSpec& spec) {
                      if (spec.name == "bad_alloc") throw std::bad_alloc();
                      if (spec.name == "length") throw std::length_error("vector::reserve");
                      if (spec.name == "other") throw std::runtime_error("no such thing");
                      if (spec.name == "foreign") throw 7;
                    }));
  for (const char* name : {"bad_alloc", "length", "other", "foreign", "good"}) {
    ASSERT_TRUE(registry.Add(Spec(name, "embedder")).ok());
  }
  registry.StartLoading();
  EXPECT_EQ(registry.WaitLoaded().code(), StatusCode::kResourceExhausted);
  const auto entries = registry.List();
  EXPECT_EQ(entries[0].state, ModelState::kFailed);
  EXPECT_THAT(entries[0].error.message(), HasSubstr("'bad_alloc': out of memory"));
  EXPECT_EQ(entries[1].error.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(entries[2].error.code(), StatusCode::kInternal);
  EXPECT_THAT(entries[2].error.message(), HasSubstr("no such thing"));
  EXPECT_EQ(entries[3].error.code(), StatusCode::kInternal);
  EXPECT_TRUE(registry.Find<engine::EncoderEngine>("good").ok());
}

// Real loading, with an allocation of the loader's thread that fails: the first, the second, ...
TEST_F(RegistryTest, OutOfMemoryAtAnyPointOfLoadingFailsTheModel) {
  auto backend = cpu::NewCpuBackend({.threads = 1, .pin = false});
  ASSERT_TRUE(backend.ok());
  engine::EncoderEngineOptions options;
  options.scheduler.max_batch_tokens = 64;
  // Makes objects that are made once in a process.
  const std::string folder = PENSTOCK_GOLDEN_DIR "/models/bert_mean_normalize";
  ASSERT_TRUE(engine::EncoderEngine::Load(folder, options, backend->get(), &metrics_).ok());
  int failed = 0;
  for (const int64_t count : {int64_t{1}, int64_t{1} << 40}) {
    bool loaded = false;
    for (int64_t nth = 1; !loaded; nth += 1 + nth / 12) {
      std::optional<FailingNew> failing;
      Registry registry(
          nullptr, &metrics_,
          [&](const ModelSpec& spec) -> Expected<std::unique_ptr<engine::Model>> {
            failing.emplace(nth, count);
            PENSTOCK_ASSIGN_OR_RETURN(
                std::unique_ptr<engine::Model> model,
                engine::EncoderEngine::Load(spec.reference, options, backend->get(), &metrics_));
            return model;
          });
      ASSERT_TRUE(registry.Add(Spec("a", folder)).ok());
      registry.StartLoading();
      const Status status = registry.WaitLoaded();
      loaded = status.ok();
      failed += !loaded;
      if (!loaded) {
        EXPECT_EQ(status.code(), StatusCode::kResourceExhausted) << status.ToString();
      }
    }
  }
  EXPECT_GT(failed, 50);
}

// Whichever allocation of the thread that loads fails, the requests that wait are answered, and no
// exception ends the process.
TEST_F(RegistryTest, OutOfMemoryAtAnyPointOfALoadAnswersThoseWhoWait) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "an exception in std::promise leaves the sanitizer's pthread_once locked";
#endif
  int failed = 0, served = 0;
  for (const int64_t count : {int64_t{1}, int64_t{1} << 40}) {
    for (int64_t nth = 1; nth < 1000; nth += 1 + nth / 12) {
      RegistryOptions options;
      options.on_demand = true;
      Registry registry(
          nullptr, &metrics_,
          [&](const ModelSpec& spec) -> Expected<std::unique_ptr<engine::Model>> {
            thread_local std::optional<FailingNew> failing;  // to the end of the loader's thread
            failing.emplace(nth, count);
            if (spec.name == "bad") return Status::NotFound("there is no such folder anywhere");
            return std::unique_ptr<engine::Model>(std::make_unique<engine::EncoderEngine>(
                engine::FakeParts(families::ModelTask::kEmbedding), spec.options.encoder,
                &metrics_));
          },
          options);
      ASSERT_TRUE(registry.Add(Spec("a", "embedder")).ok());
      ASSERT_TRUE(registry.Add(Spec("bad", "embedder")).ok());
      registry.StartLoading();
      for (const char* name : {"a", "bad"}) {
        std::promise<bool> answered;
        registry.Await(name, {}, {},
                       [&](const Status& status) { answered.set_value(status.ok()); });
        ++(answered.get_future().get() ? served : failed);
      }
    }
  }
  EXPECT_GT(failed, 50);
  EXPECT_GT(served, 0);
}

TEST_F(RegistryTest, MetricsOfAModelAreThereBeforeItIsLoaded) {
  Registry registry(nullptr, &metrics_);
  ASSERT_TRUE(registry.Add(Spec("later", "x")).ok());
  EXPECT_THAT(metrics_.Render(),
              HasSubstr("penstock_queue_tokens{model=\"later\",lane=\"bulk\"} 0\n"));
}

TEST(Pooling, ParsesTheNamesOfTheLibraries) {
  EXPECT_EQ(*engine::ParsePoolingMode("mean"), families::PoolingMode::kMean);
  EXPECT_EQ(*engine::ParsePoolingMode("lasttoken"), families::PoolingMode::kLastToken);
  const Status bad = engine::ParsePoolingMode("median").status();
  EXPECT_EQ(bad.field(), "pooling");
  EXPECT_THAT(bad.message(), HasSubstr("known: cls, mean"));
}

}  // namespace
}  // namespace penstock::registry

// Tensor models in the registry, beside others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <future>

#include "base/temp_folder_test_util.h"
#include "cpu/cpu_backend.h"
#include "engine/builtin_models.h"
#include "engine/fake_engine.h"
#include "program/dry_backend.h"
#include "registry/registry.h"

namespace penstock::registry {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class RegistryTensorsTest : public testing::Test {
 protected:
  ~RegistryTensorsTest() override { registry_.reset(); }

  // The registry's own loader, but for "embedder".
  void Serve(std::vector<std::pair<std::string, std::string>> references,
             RegistryOptions options = {}, uint64_t memory_bytes = 0) {
    registry_.reset();
    const bool own = std::none_of(references.begin(), references.end(),
                                  [](const auto& one) { return one.second == "embedder"; });
    registry_ = std::make_unique<Registry>(devices::Devices(&backend_, memory_bytes), &metrics_,
                                           own ? Registry::Loader() : FakeLoader(), options);
    for (const auto& [name, reference] : references) {
      const Status added = registry_->Add(Spec(name, reference));
      ASSERT_TRUE(added.ok()) << added.ToString();
    }
    registry_->StartLoading();
    const Status loaded = registry_->WaitLoaded();
    ASSERT_TRUE(loaded.ok()) << loaded.ToString();
  }
  Registry::Loader FakeLoader() {
    return [this](const ModelSpec& spec) -> Expected<std::unique_ptr<engine::Model>> {
      std::unique_ptr<engine::Model> model;
      if (engine::IsBuiltinModel(spec.reference)) {
        engine::TensorEngineOptions options = spec.options.tensors;
        options.name = spec.name;
        options.version = spec.version;
        PENSTOCK_ASSIGN_OR_RETURN(
            model, engine::TensorEngine::Load(spec.reference, options, &backend_, &metrics_));
      } else {
        engine::EncoderEngineOptions options;
        options.name = spec.name;
        model = std::make_unique<engine::EncoderEngine>(
            engine::FakeParts(families::ModelTask::kEmbedding), options, &metrics_);
      }
      return model;
    };
  }
  static ModelSpec Spec(const std::string& name, const std::string& reference) {
    ModelSpec spec;
    spec.name = name;
    spec.reference = reference;
    return spec;
  }
  std::string File(const std::string& name) { return folder_.Write(name, "nothing of use"); }

  const TempFolder folder_;
  metrics::Metrics metrics_;
  program::DryBackend backend_{numbers::DType::kF32};
  std::unique_ptr<Registry> registry_;
};

TEST_F(RegistryTensorsTest, EachFindGivesItsOwnModels) {
  Serve({{"text", "embedder"}, {"same", "builtin:identity"}});
  EXPECT_EQ((*registry_->Find<engine::TensorEngine>("same"))->name(), "same");
  EXPECT_EQ((*registry_->Find<engine::TensorEngine>(""))->name(), "same");  // the only one
  EXPECT_EQ((*registry_->Find<engine::EncoderEngine>(""))->name(), "text");
  const Status text = registry_->Find<engine::TensorEngine>("text").status();
  EXPECT_EQ(text.code(), StatusCode::kUnsupported);
  EXPECT_EQ(text.message(), "model 'text' takes texts, not tensors");
  const Status tensors = registry_->Find<engine::EncoderEngine>("same").status();
  EXPECT_EQ(tensors.code(), StatusCode::kUnsupported);
  EXPECT_EQ(tensors.message(),
            "model 'same' takes and gives tensors; it gives no vectors and no scores of texts");
  EXPECT_EQ(registry_->Find<engine::DecoderEngine>("same").status().message(),
            "model 'same' generates no text");
  EXPECT_EQ(registry_->Find<engine::TensorEngine>("other").status().code(), StatusCode::kNotFound);
}

TEST_F(RegistryTensorsTest, WithoutANameThereMustBeOne) {
  Serve({{"text", "embedder"}});
  EXPECT_EQ(registry_->Find<engine::TensorEngine>("").status().message(),
            "no tensor model is served");
  Serve({{"a", "builtin:identity"}, {"b", "builtin:add"}});
  const Status several = registry_->Find<engine::TensorEngine>("").status();
  EXPECT_EQ(several.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(several.message(), HasSubstr("'a', 'b'"));
  registry_->AcceptAnyName();
  EXPECT_EQ(registry_->Find<engine::TensorEngine>("c").status().code(),
            StatusCode::kInvalidArgument);
  Serve({{"a", "builtin:identity"}});
  registry_->AcceptAnyName();
  EXPECT_EQ((*registry_->Find<engine::TensorEngine>("c"))->name(), "a");
  EXPECT_EQ(registry_->Find<engine::EncoderEngine>("c").status().code(), StatusCode::kUnsupported);
}

TEST_F(RegistryTensorsTest, ListTellsWhatTheyDo) {
  ModelSpec spec = Spec("same", "builtin:identity");
  Serve({{"text", "embedder"}});
  spec.replicas = 3;
  spec.version = 7;
  ASSERT_TRUE(registry_->Add(spec).ok());
  ASSERT_TRUE(registry_->WaitLoaded().ok());
  const auto entries = registry_->List();
  EXPECT_EQ(*entries[0].purpose, engine::ModelPurpose{.task = families::ModelTask::kEmbedding});
  EXPECT_EQ(*entries[1].purpose, engine::ModelPurpose{.capability = engine::Capability::kTensors});
  EXPECT_FALSE(entries[0].As<engine::TensorEngine>());
  EXPECT_FALSE(entries[1].As<engine::EncoderEngine>());
  ASSERT_TRUE(entries[1].As<engine::TensorEngine>());
  EXPECT_EQ(entries[1].As<engine::TensorEngine>()->version(), 7);
  EXPECT_EQ(entries[1].replicas, 3);
  EXPECT_EQ(entries[1].As<engine::TensorEngine>()->scheduler().replicas(), 3u);
  EXPECT_GT(entries[1].bytes.weights, 0u);
  EXPECT_EQ(registry_->Look("", {.capability = engine::Capability::kTensors})->name, "same");
  EXPECT_TRUE(registry_->Look("same", {})->purpose.capability == engine::Capability::kTensors);
  EXPECT_FALSE(registry_->Look("same", {.capability = engine::Capability::kGenerate}).has_value());
}

TEST_F(RegistryTensorsTest, PurposesHaveNames) {
  EXPECT_STREQ(engine::ModelPurposeName({.capability = engine::Capability::kTensors}), "tensors");
  EXPECT_EQ(*engine::ParseModelPurpose("tensors"),
            engine::ModelPurpose{.capability = engine::Capability::kTensors});
  EXPECT_FALSE(engine::ModelPurpose{.capability = engine::Capability::kTensors} ==
               engine::ModelPurpose{});
  ModelSpec spec = Spec("same", "builtin:identity");
  spec.purpose = engine::ModelPurpose{.task = families::ModelTask::kReranking};
  Registry registry(&backend_, &metrics_, nullptr, {.on_demand = true});
  EXPECT_THAT(registry.Add(spec).message(), HasSubstr("its task is tensors, not reranking"));
}

TEST_F(RegistryTensorsTest, RequestsLoadThem) {
  Serve({{"same", "builtin:identity"}, {"other", "builtin:add"}}, {.on_demand = true});
  // What they do is known before.
  EXPECT_TRUE(registry_->Look("same", {})->purpose.capability == engine::Capability::kTensors);
  EXPECT_TRUE(registry_->MustAwait("same", {.capability = engine::Capability::kTensors}));
  EXPECT_FALSE(registry_->MustAwait("same", {.capability = engine::Capability::kGenerate}));
  EXPECT_FALSE(registry_->MustAwait("same", {.task = families::ModelTask::kEmbedding}));
  EXPECT_EQ(registry_->Find<engine::TensorEngine>("same").status().code(),
            StatusCode::kUnavailable);
  std::promise<Status> found;
  registry_->Await(
      "same", {.capability = engine::Capability::kTensors}, {}, [&](const Status& status) {
        found.set_value(status.ok() ? registry_->Find<engine::TensorEngine>("same").status()
                                    : status);
      });
  EXPECT_TRUE(found.get_future().get().ok());
  EXPECT_EQ(registry_->List()[1].state, ModelState::kAbsent);
  EXPECT_FALSE(registry_->MustAwait("same", {.capability = engine::Capability::kTensors}));
  ASSERT_TRUE(registry_->Unload("same").get().ok());
  EXPECT_TRUE(registry_->MustAwait("same", {.capability = engine::Capability::kTensors}));
}

TEST_F(RegistryTensorsTest, UnloadWaitsForLeases) {
  Serve({{"same", "builtin:identity"}});
  auto lease = registry_->Find<engine::TensorEngine>("same");
  ASSERT_TRUE(lease.ok());
  const auto unloaded = registry_->Unload("same");
  EXPECT_EQ(unloaded.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
  EXPECT_EQ((*lease)->signature().max_batch_size, 256);  // still there
  lease = Status::NotFound("given back");
  EXPECT_TRUE(unloaded.get().ok());
}

TEST_F(RegistryTensorsTest, ANewVersionTakesItsPlace) {
  Serve({});
  ModelSpec spec = Spec("same", "builtin:identity?batch=4");
  spec.version = 1;
  ASSERT_TRUE(registry_->Add(spec).ok());
  ASSERT_TRUE(registry_->WaitLoaded().ok());
  spec.reference = "builtin:identity?batch=nothing";
  spec.version = 2;
  EXPECT_EQ(registry_->Replace(spec).get().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ((*registry_->Find<engine::TensorEngine>("same"))->version(), 1);
  spec.reference = "builtin:identity?batch=8";
  spec.version = 3;
  ASSERT_TRUE(registry_->Replace(spec).get().ok());
  EXPECT_EQ((*registry_->Find<engine::TensorEngine>("same"))->version(), 3);
  EXPECT_EQ((*registry_->Find<engine::TensorEngine>("same"))->signature().max_batch_size, 8);
}

TEST_F(RegistryTensorsTest, OneBudgetOfMemory) {
  engine::TensorEngineOptions options;
  const std::string reference = "builtin:identity?shape=1024&batch=64";
  const auto needs = engine::TensorNeedsOf(reference, options);
  ASSERT_TRUE(needs.ok());
  const uint64_t one = needs->wanted.total();
  EXPECT_GT(one, uint64_t{64} * 1024 * 4);
  // There is room for one of them and a half.
  Serve({{"a", reference}, {"b", reference}}, {.on_demand = true}, one + one / 2);
  for (const char* name : {"a", "b", "a"}) {
    const Status loaded = registry_->Load(name).get();
    ASSERT_TRUE(loaded.ok()) << loaded.ToString();
    const auto entries = registry_->List();
    EXPECT_NE(bool{entries[0].model}, bool{entries[1].model});
  }
  EXPECT_EQ(registry_->List()[0].bytes.total(), one);
  // And none for more than there is.
  Serve({{"a", reference}}, {.on_demand = true}, one - 1);
  EXPECT_EQ(registry_->Load("a").get().code(), StatusCode::kResourceExhausted);
}

TEST_F(RegistryTensorsTest, ReferencesAreToldByNamesOfFiles) {
  EXPECT_EQ(engine::TensorModelPath("builtin:x"), "builtin:x");
  EXPECT_EQ(engine::TensorModelPath("owner/name"), std::nullopt);
  EXPECT_EQ(engine::TensorModelPath(folder_.text()), std::nullopt);
  EXPECT_EQ(engine::TensorModelPath(folder_ / "missing.onnx"), std::nullopt);
  for (const char* name : {"a.onnx", "b.xml", "c.tflite", "d.pb"}) {
    const std::string path = File(name);
    EXPECT_EQ(engine::TensorModelPath(path), path);
  }
  EXPECT_EQ(engine::TensorModelPath(File("e.gguf")), std::nullopt);
  EXPECT_EQ(engine::TensorModelPath(folder_.text()), std::nullopt);  // none is called model
  File("m/model.onnx");
  EXPECT_EQ(engine::TensorModelPath(folder_ / "m"), folder_ / "m");
  File("m/config.json");
  EXPECT_EQ(engine::TensorModelPath(folder_ / "m"), folder_ / "m");
  File("m/tokenizer.json");  // a text model that was exported
  EXPECT_EQ(engine::TensorModelPath(folder_ / "m"), std::nullopt);
  File("s/saved_model.pb");
  EXPECT_EQ(engine::TensorModelPath(folder_ / "s"), folder_ / "s");
}

TEST_F(RegistryTensorsTest, BrokenFilesFailByName) {
  Registry registry(&backend_, &metrics_, nullptr, {.on_demand = true});
  const Status broken = registry.Add(Spec("broken", File("broken.onnx")));
  EXPECT_EQ(broken.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(broken.message(), HasSubstr("broken.onnx"));
  EXPECT_EQ(registry.Add(Spec("unknown", "builtin:unknown")).code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace penstock::registry

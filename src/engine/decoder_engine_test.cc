#include "engine/decoder_engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <future>

#include "base/temp_folder_test_util.h"
#include "cpu/cpu_backend.h"
#include "generate/tiny_model_test_util.h"
#include "registry/registry.h"

namespace penstock::engine {
namespace {

using testing::HasSubstr;

const std::string kGoldens = PENSTOCK_GOLDEN_DIR;

class TextOf final : public generate::DecodeSink {
 public:
  void OnToken(int32_t, const generate::GeneratedToken& token, std::string_view) noexcept override {
    ids.push_back(token.id);
  }
  void OnSampleEnd(int32_t, generate::FinishReason, std::string_view, int) noexcept override {}
  void OnEnd(const Status& status, const generate::DecodeUsage&) noexcept override {
    end.set_value(status);
  }
  std::vector<int32_t> ids;
  std::promise<Status> end;
};

class DecoderEngineTest : public testing::Test {
 protected:
  DecoderEngineTest()
      : backend_(*cpu::NewCpuBackend({2, false, ""})), registry_(backend_.get(), &metrics_) {
    Add("text", "/decoders/llama");
    Add("vectors", "/models/bert_mean_normalize");
  }
  void Add(const char* name, const std::string& folder) {
    registry::ModelSpec spec;
    spec.name = name;
    spec.reference = kGoldens + folder;
    EXPECT_TRUE(registry_.Add(spec).ok());
  }
  void Load() {
    registry_.StartLoading();
    const Status status = registry_.WaitLoaded();
    ASSERT_TRUE(status.ok()) << status.ToString();
  }

  metrics::Metrics metrics_;
  std::unique_ptr<program::Backend> backend_;
  registry::Registry registry_;
};

TEST_F(DecoderEngineTest, StandsInTheRegistryBesideAnEncoder) {
  EXPECT_EQ(registry_.Find<DecoderEngine>("text").status().code(), StatusCode::kUnavailable);
  Load();
  ASSERT_TRUE(registry_.Find<DecoderEngine>("text").ok());
  EXPECT_EQ((*registry_.Find<DecoderEngine>(""))->name(), "text");
  EXPECT_EQ((*registry_.Find<EncoderEngine>(""))->name(), "vectors");
  const Status vectors = registry_.Find<EncoderEngine>("text").status();
  EXPECT_EQ(vectors.code(), StatusCode::kUnsupported);
  EXPECT_THAT(vectors.message(), HasSubstr("generates text"));
  EXPECT_EQ(registry_.Find<DecoderEngine>("vectors").status().code(), StatusCode::kUnsupported);
  EXPECT_EQ(registry_.Find<DecoderEngine>("none").status().code(), StatusCode::kNotFound);
  const auto entries = registry_.List();
  EXPECT_TRUE(entries[0].As<DecoderEngine>() && !entries[0].As<EncoderEngine>());
  EXPECT_TRUE(!entries[1].As<DecoderEngine>() && entries[1].As<EncoderEngine>());
}

// A copy of the model whose tokenizer_config.json is `config`.
std::string WithConfig(const TempFolder& folder, const std::string& config) {
  std::filesystem::copy(kGoldens + "/decoders/llama", folder.path());
  folder.Write("tokenizer_config.json", config);
  return folder.text();
}

TEST_F(DecoderEngineTest, TemplatesAndSpecialTokensComeFromTheFiles) {
  registry::ModelSpec spec;
  spec.name = "chat";
  const TempFolder folder;
  spec.reference = WithConfig(
      folder, R"({"chat_template":[{"name":"default","template":"d"},)"
              R"({"name":"tool_use","template":"t"}],"eos_token":"E","bos_token":null})");
  ASSERT_TRUE(registry_.Add(spec).ok());
  spec.name = "other";
  spec.options.decoder.chat_template = "tool_use";
  ASSERT_TRUE(registry_.Add(spec).ok());
  Load();
  const registry::Lease<DecoderEngine> chat = *registry_.Find<DecoderEngine>("chat");
  EXPECT_EQ(chat->chat_template(false)->source(), "d");
  EXPECT_EQ(chat->chat_template(true)->source(), "t");
  using Text = std::pair<std::string, std::string>;
  EXPECT_THAT(chat->model().special_tokens, testing::Contains(Text("eos_token", "E")));
  EXPECT_THAT(chat->model().special_tokens,
              testing::Not(testing::Contains(testing::Field(&Text::first, "bos_token"))));
  EXPECT_EQ((*registry_.Find<DecoderEngine>("other"))->chat_template(false)->source(), "t");
  EXPECT_THAT((*registry_.Find<DecoderEngine>("text"))->chat_template(true).status().message(),
              HasSubstr("--chat-template"));
}

TEST_F(DecoderEngineTest, ATemplateThatIsNotThereFailsTheModel) {
  registry::ModelSpec spec;
  spec.name = "chat";
  spec.reference = kGoldens + "/decoders/llama";
  spec.options.decoder.chat_template = "rag";
  ASSERT_TRUE(registry_.Add(spec).ok());
  registry_.StartLoading();
  EXPECT_THAT(registry_.WaitLoaded().message(), HasSubstr("--chat-template rag"));
}

TEST_F(DecoderEngineTest, GeneratesAndIsUnloaded) {
  Load();
  auto sink = std::make_shared<TextOf>();
  {
    const registry::Lease<DecoderEngine> lease = *registry_.Find<DecoderEngine>("text");
    EXPECT_GT(lease->context(), 16);
    EXPECT_EQ(lease->info().max_tokens, lease->context());
    EXPECT_EQ(lease->info().dtype, backend_->preferred_dtype());
    auto job = std::make_unique<generate::DecodeJob>();
    job->prompt = {1, 2, 3};
    job->sampling.max_tokens = 8;
    job->sampling.ignore_eos = true;
    job->sink = sink;
    ASSERT_TRUE(lease->scheduler().Submit(std::move(job)).ok());
    EXPECT_TRUE(sink->end.get_future().get().ok());
    EXPECT_EQ(sink->ids.size(), 8u);
    EXPECT_GT(lease->HeldBytes(), 0u);
  }
  EXPECT_TRUE(registry_.Unload("text").get().ok());
  EXPECT_EQ(registry_.Find<DecoderEngine>("text").status().code(), StatusCode::kUnavailable);
  EXPECT_TRUE(registry_.Load("text").get().ok());
  EXPECT_TRUE(registry_.Find<DecoderEngine>("text").ok());
}

TEST(FitCacheBlocks, WindowsNeedFewBlocks) {
  const generate::TinyModel plain(8192, *cpu::NewCpuBackend({2, false, ""}));
  EXPECT_THAT(FitCacheBlocks(plain.model(), 64), testing::ElementsAre(8 * 256));
  const generate::TinyModel windowed(8192, *cpu::NewCpuBackend({2, false, ""}), 64);
  // One that runs a prompt, 63 that decode, and an eighth of the others.
  EXPECT_THAT(
      generate::LeastCacheBlocks(program::CacheGroups(windowed.model().decoder->program()), 8192),
      testing::ElementsAre(256, 20));
  EXPECT_THAT(FitCacheBlocks(windowed.model(), 64),
              testing::ElementsAre(8 * 256, 20 + 63 * 5 + 256));
  const std::vector<uint64_t> layers = windowed.model().cache_block_bytes();
  EXPECT_THAT(layers, testing::ElementsAre(layers[0], layers[0]));
  EXPECT_THAT(plain.model().cache_block_bytes(), testing::ElementsAre(2 * layers[0]));
}

}  // namespace
}  // namespace penstock::engine

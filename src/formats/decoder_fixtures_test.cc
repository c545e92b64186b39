// Decoders of the test data, from both formats.
#include <gtest/gtest.h>

#include <cmath>
#include <list>

#include "formats/decoder_test_util.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

class DecoderFixtures : public ::testing::Test {
 protected:
  void SetUp() override {
    data_ = TestData();
    if (data_.empty()) GTEST_SKIP() << "NO TEST DATA: set PENSTOCK_TESTDATA";
  }
  fs::path Fixture(const std::string& name) const {
    return fs::path(data_) / "joaopauloschuler__neural-api/fixtures" / name;
  }
  // A model folder with the config.json and the weights of a fixture.
  std::string Folder(const std::string& name) {
    TestFolder& folder = folders_.emplace_back();
    folder.Link(Fixture(name + "_config.json"), "config.json");
    folder.Link(Fixture(name + ".safetensors"), "model.safetensors");
    return folder.path();
  }
  DecoderFiles Open(const std::string& path) {
    auto files = DecoderFiles::Open(path);
    EXPECT_TRUE(files.ok()) << files.status().ToString();
    return files.ok() ? *std::move(files) : DecoderFiles();
  }

  std::string data_;
  std::list<TestFolder> folders_;
};

std::vector<float> Values(const TensorRecord& tensor) {
  std::vector<float> values(static_cast<size_t>(tensor.elements()));
  EXPECT_TRUE(tensor.CopyToF32(values).ok());
  return values;
}

TEST_F(DecoderFixtures, LlamaIsTheSameFromBothFormats) {
  const DecoderFiles folder = Open(Folder("tiny_llama"));
  for (const char* name : {"tiny_llama_f32.gguf", "tiny_llama_f16.gguf"}) {
    const DecoderFiles gguf = Open(Fixture(name).string());
    ASSERT_EQ(gguf.tensors.layers.size(), 2u);
    EXPECT_EQ(gguf.config.architecture, "llama");
    for (const DecoderConfig* c : {&folder.config, &gguf.config}) {
      EXPECT_EQ(c->vocab_size, 11);
      EXPECT_EQ(c->hidden_size, 8);
      EXPECT_EQ(c->heads, 2);
      EXPECT_EQ(c->kv_heads, 1);
      EXPECT_EQ(c->head_size, 4);
      EXPECT_EQ(c->rope_size, 4);
      EXPECT_EQ(c->intermediate_size, 12);
      EXPECT_EQ(c->context, 16);
      EXPECT_FLOAT_EQ(c->rms_epsilon, 1e-5f);
      EXPECT_FLOAT_EQ(c->attention_scale, 0.5f);
      EXPECT_FLOAT_EQ(c->layers.at(1).rope_theta, 1e4f);
      EXPECT_EQ(c->rope_scaling.kind, RopeScalingKind::kNone);
      EXPECT_EQ(KvBytesPerToken(*c, 2), 2 * 2 * 1 * 4 * 2);
    }
    EXPECT_FALSE(folder.config.rope_interleaved);
    EXPECT_TRUE(gguf.config.rope_interleaved);
    EXPECT_EQ(folder.store->gguf(), nullptr);
    EXPECT_EQ(gguf.store->gguf()->version, 3u);
    EXPECT_EQ(gguf.store->gguf()->parts, 1);
    EXPECT_EQ(gguf.tokenizer->path, Fixture(name));
    EXPECT_NE(gguf.tokenizer->gguf, nullptr);
    const float close = std::string(name).find("f16") != std::string::npos ? 1e-3f : 0;
    const auto same = [&](const TensorRecord& a, const TensorRecord& b) {
      ASSERT_EQ(a.shape, b.shape) << a.name << ' ' << b.name;
      const std::vector<float> x = Values(a), y = Values(b);
      for (size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(x[i], y[i], close) << b.name;
    };
    same(folder.tensors.embedding, gguf.tensors.embedding);
    same(folder.tensors.output.weight, gguf.tensors.output.weight);
    same(folder.tensors.layers[1].v.weight, gguf.tensors.layers[1].v.weight);
    same(folder.tensors.layers[1].down.weight, gguf.tensors.layers[1].down.weight);
    same(folder.tensors.layers[0].ff_norm, gguf.tensors.layers[0].ff_norm);
    EXPECT_EQ(gguf.unused_tensors, 0);
  }
}

}  // namespace
}  // namespace penstock

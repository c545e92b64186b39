// Decoders of the test data against the logits and texts that others computed for them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <list>
#include <sstream>

#include "cpu/cpu_backend.h"
#include "families/decoder_test_util.h"
#include "generate/generator.h"
#include "generate/golden_test_util.h"
#include "json/json.h"

namespace penstock::generate {
namespace {

namespace fs = std::filesystem;

std::string ReadText(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

class DecoderGolden : public ::testing::Test {
 protected:
  void SetUp() override {
    data_ = families::TestData();
    if (data_.empty()) GTEST_SKIP() << "NO TEST DATA: set PENSTOCK_TESTDATA";
    backend_ = *cpu::NewCpuBackend({2, false, ""});
  }
  fs::path Fixture(const std::string& name) const {
    return fs::path(data_) / "joaopauloschuler__neural-api/fixtures" / name;
  }
  std::string Folder(const fs::path& config, const fs::path& weights) {
    TempFolder& folder = folders_.emplace_back();
    folder.Link(config, "config.json");
    folder.Link(weights, "model.safetensors");
    return folder.text();
  }
  std::unique_ptr<models::DecoderModel> Load(const std::string& path,
                                             std::optional<numbers::DType> dtype) {
    return LoadDecoder(path, backend_.get(), dtype);
  }

  std::string data_;
  std::list<TempFolder> folders_;
  std::unique_ptr<program::Backend> backend_;
};

TEST_F(DecoderGolden, LogitsOfEveryArchitecture) {
  for (const std::string name : {"llama", "mistral", "qwen2", "qwen3", "gemma2", "gemma3", "phi3",
                                 "phi3_longrope", "smollm2", "granite"}) {
    const auto model = Load(
        Folder(Fixture("tiny_" + name + "_config.json"), Fixture("tiny_" + name + ".safetensors")),
        numbers::DType::kF32);
    ASSERT_NE(model, nullptr) << name;
    simdjson::dom::parser parser;
    const simdjson::dom::element golden =
        parser.parse(ReadText(Fixture("tiny_" + name + "_logits.json")));
    size_t text = 0;
    for (const auto ids : golden["sequences"].get_array()) {
      const LogitRows want = ReadRows(golden["logits"].at(text++));
      EXPECT_LE(WorstError(LogitsOf(*model, ReadIds(ids), numbers::DType::kF32), want), 1e-4)
          << name << ", " << text;
    }
    EXPECT_GT(text, 0u);
  }
}

TEST_F(DecoderGolden, LlamaFromGguf) {
  simdjson::dom::parser parser;
  const simdjson::dom::element golden = parser.parse(ReadText(Fixture("tiny_llama_logits.json")));
  const std::vector<int32_t> ids = ReadIds(golden["sequences"].at(0));
  const LogitRows want = ReadRows(golden["logits"].at(0));
  // The golden logits are of unrounded weights: f16 is off by 2^-11 of each.
  for (const auto& [file, bound] :
       {std::pair("tiny_llama_f32.gguf", 1e-4), std::pair("tiny_llama_f16.gguf", 5e-3)}) {
    const auto model = Load(Fixture(file).string(), numbers::DType::kF32);
    ASSERT_NE(model, nullptr);
    EXPECT_LE(WorstError(LogitsOf(*model, ids, numbers::DType::kF32), want), bound) << file;
  }
}

// A trained model, so that a mistake in the rotation or in grouped heads shows as another story.
TEST_F(DecoderGolden, TheLogitsAndTextOfATrainedModel) {
  const fs::path folder = fs::path(data_) / "derived/stories260K_hf";
  simdjson::dom::parser parser;
  const simdjson::dom::element golden = parser.parse(ReadText(folder / "golden.json"));
  const std::vector<int32_t> ids = ReadIds(golden["ids"]);
  const LogitRows want = ReadRows(golden["logits"]);
  const auto safetensors = Load(folder.string(), numbers::DType::kF32);
  ASSERT_NE(safetensors, nullptr);
  EXPECT_LE(WorstError(LogitsOf(*safetensors, ids, numbers::DType::kF32), want), 1e-4);
  // bf16 of weights, activations and cache: off, but with the same choices.
  const auto coarse = Load(folder.string(), numbers::DType::kBf16);
  const LogitRows rough = LogitsOf(*coarse, ids, numbers::DType::kBf16);
  EXPECT_LE(WorstError(rough, want), 5e-2);
  const auto best = [](const std::vector<double>& row) {
    return std::max_element(row.begin(), row.end()) - row.begin();
  };
  for (size_t t = 0; t + 1 < ids.size(); ++t) EXPECT_EQ(best(rough[t]), ids[t + 1]) << t;
}

TEST_F(DecoderGolden, TheStoryFromGguf) {
  simdjson::dom::parser parser;
  const simdjson::dom::element golden =
      parser.parse(ReadText(fs::path(data_) / "derived/stories260K_hf/golden.json"));
  const std::string path = (fs::path(data_) / "vespa-engine__vespa/tinyllm.gguf").string();
  const auto model =
      TextModel::Load(path, backend_.get(), {numbers::DType::kF32, 0, numbers::DType::kF32});
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  const auto generator = Generator::Make(model->get());
  ASSERT_TRUE(generator.ok()) << generator.status().ToString();
  GenerateRequest request;
  request.prompt = {1};  // the begin token
  request.sampling.temperature = 0;
  request.sampling.max_tokens = 60;
  std::string streamed;
  request.on_text = [&streamed](std::string_view text) {
    streamed += text;
    return true;
  };
  Generated made;
  const Status status = (*generator)->Generate(request, &made);
  ASSERT_TRUE(status.ok()) << status.ToString();
  const std::vector<int32_t> ids = ReadIds(golden["ids"]);
  ASSERT_EQ(made.tokens.size(), 60u);
  for (size_t i = 0; i < 60; ++i) EXPECT_EQ(made.tokens[i].id, ids[i + 1]) << i;
  const std::string_view text = golden["text"];
  EXPECT_EQ(made.text.substr(made.text.find("Once")), std::string(text.substr(text.find("Once"))));
  EXPECT_EQ(streamed, made.text);
  EXPECT_EQ(made.finish, FinishReason::kLength);
  EXPECT_EQ(made.token_s.size(), 59u);
}

// Tells the two orders of rotated pairs apart: bf16 weights, 40 tokens, the last rows of logits.
TEST_F(DecoderGolden, BfloatWeightsOfAnotherImplementation) {
  const fs::path folder = fs::path(data_) / "Rohanr14__Paged-Infer";
  const std::string config = ReadText(folder / "config.json");
  TempFolder fixed;
  fixed.Write("config.json",
              config.substr(0, config.rfind('}')) + R"(, "max_position_embeddings": 64})");
  fixed.Link(folder / "tiny_llama.safetensors", "model.safetensors");
  const auto model = Load(fixed.text(), numbers::DType::kF32);
  ASSERT_NE(model, nullptr);
  const std::string meta = ReadText(folder / "tiny_llama_meta.txt");
  std::vector<int32_t> ids;
  std::stringstream list(meta.substr(meta.find("tokens=") + 7));
  for (std::string one; std::getline(list, one, ',');) ids.push_back(std::stoi(one));
  const std::string bytes = ReadText(folder / "tiny_llama_golden.bin");
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  const LogitRows got = LogitsOf(*model, ids, numbers::DType::kF32);
  ASSERT_EQ(values.size(), ids.size() * got[0].size());
  LogitRows want;
  for (size_t t = 0; t < ids.size(); ++t) {
    const auto begin = values.begin() + static_cast<ptrdiff_t>(t * got[0].size());
    want.emplace_back(begin, begin + static_cast<ptrdiff_t>(got[0].size()));
  }
  EXPECT_LE(WorstError(got, want), 1e-3);
}

}  // namespace
}  // namespace penstock::generate

// Every decoder of tests/golden/decoders against what the reference implementation computed in
// float64 (tests/golden/README.md), with every instruction set this processor has.
#include <gtest/gtest.h>

#include <filesystem>

#include "cpu/cpu_backend.h"
#include "cpu/dispatch.h"
#include "generate/golden_test_util.h"
#include "sample/sampler.h"

namespace penstock::generate {
namespace {

namespace fs = std::filesystem;

// Of float32, over the largest logit.
constexpr double kErrorMax = 5e-5;

std::string GoldenPath(const std::string& name) { return PENSTOCK_GOLDEN_DIR "/decoders/" + name; }

std::vector<std::string> GoldenDecoders() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(GoldenPath(""))) {
    if (fs::exists(entry.path() / "expected.json")) {
      names.push_back(entry.path().filename().string());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

struct Text {
  std::vector<int32_t> ids;
  std::vector<int32_t> rows;  // of `ids`, whose logits are known
  LogitRows logits;
};

struct Reference {
  int32_t context = 0;
  std::vector<int32_t> prompt, greedy;
  std::vector<Text> texts;
};

Reference ReadReference(const std::string& name) {
  simdjson::dom::parser parser;
  const simdjson::dom::element file = parser.load(GoldenPath(name) + "/expected.json");
  Reference out;
  out.context = static_cast<int32_t>(file["context"].get_int64());
  out.prompt = ReadIds(file["prompt"]);
  out.greedy = ReadIds(file["greedy"]);
  for (const auto text : file["texts"].get_array()) {
    out.texts.push_back({ReadIds(text["ids"]), ReadIds(text["rows"]), ReadRows(text["logits"])});
  }
  return out;
}

LogitRows Picked(const LogitRows& all, const std::vector<int32_t>& rows) {
  LogitRows out;
  for (const int32_t row : rows) out.push_back(all.at(static_cast<size_t>(row)));
  return out;
}

// The tokens of the largest logits: the prompt in one step, then token by token.
std::vector<int32_t> Greedy(const models::DecoderModel& model, const std::vector<int32_t>& prompt,
                            size_t count) {
  const size_t vocabulary = static_cast<size_t>(model.config().vocab_size);
  const std::vector<int32_t> blocks = BlocksFor(prompt.size() + count);
  auto run = model.NewRun({numbers::DType::kF32,
                           {static_cast<int32_t>(blocks.size())},
                           static_cast<int32_t>(prompt.size()),
                           1});
  sample::SamplingOptions options;
  options.temperature = 0;
  auto sampler =
      sample::Sampler::Make(options, static_cast<int32_t>(vocabulary), prompt.size() + count);
  EXPECT_TRUE(run.ok() && sampler.ok());
  if (!run.ok() || !sampler.ok()) return {};
  sampler->AddPrompt(prompt);
  constexpr program::PickWant kWant = program::PickWant::kBest;
  std::vector<int32_t> tokens, next = prompt;
  size_t past = 0;
  while (tokens.size() < count) {
    const program::SingleSequence sequence(next.size(), past, blocks,
                                           (*run)->LongRope(past + next.size()));
    const int32_t row = static_cast<int32_t>(next.size()) - 1;
    const Status status = (*run)->Run(sequence.Batch(next, {&row, 1}, {&kWant, 1}));
    past += next.size();
    sample::SampledToken token;
    const Status sampled = sampler->Sample({{}, (*run)->Found(0).parts, {}}, past, &token);
    EXPECT_TRUE(status.ok() && sampled.ok()) << status.ToString() << sampled.ToString();
    if (!status.ok() || !sampled.ok()) return tokens;
    sampler->Accept(token.id);
    tokens.push_back(token.id);
    next = {token.id};
  }
  return tokens;
}

class GoldenDecoder : public testing::TestWithParam<std::string> {};

TEST_P(GoldenDecoder, AgreesWithReference) {
  const Reference expected = ReadReference(GetParam());
  ASSERT_EQ(expected.greedy.size(), 128u);
  ASSERT_EQ(expected.texts.size(), 2u);
  for (const cpu::Kernels* kernels : cpu::SupportedKernels()) {
    SCOPED_TRACE(kernels->name);
    auto backend = cpu::NewCpuBackend({.threads = 2, .pin = false, .isa = kernels->name});
    ASSERT_TRUE(backend.ok());
    const auto model =
        LoadDecoder(GoldenPath(GetParam()), backend->get(), numbers::DType::kF32, expected.context);
    ASSERT_NE(model, nullptr);
    double worst = 0;
    for (const Text& text : expected.texts) {
      const LogitRows all = LogitsOf(*model, text.ids, numbers::DType::kF32);
      ASSERT_EQ(all.size(), text.ids.size());
      const double error = WorstError(Picked(all, text.rows), text.logits);
      EXPECT_LE(error, kErrorMax) << text.ids.size() << " tokens";
      worst = std::max(worst, error);
      EXPECT_EQ(all, LogitsOf(*model, text.ids, numbers::DType::kF32, 7)) << "in chunks";
    }
    EXPECT_EQ(Greedy(*model, expected.prompt, expected.greedy.size()), expected.greedy);
    RecordProperty(std::string("error_max_") + kernels->name, std::to_string(worst));
  }
}

// Rounding moves random weights of 32 columns far: these bounds tell a mistake from rounding, no
// more.
TEST_P(GoldenDecoder, Bf16StaysClose) {
  const Reference expected = ReadReference(GetParam());
  for (const cpu::Kernels* kernels : cpu::SupportedKernels()) {
    SCOPED_TRACE(kernels->name);
    auto backend = cpu::NewCpuBackend({.threads = 2, .pin = false, .isa = kernels->name});
    ASSERT_TRUE(backend.ok());
    const auto model = LoadDecoder(GoldenPath(GetParam()), backend->get(), numbers::DType::kBf16,
                                   expected.context);
    ASSERT_NE(model, nullptr);
    for (const Text& text : expected.texts) {
      const LogitRows all = LogitsOf(*model, text.ids, numbers::DType::kBf16);
      EXPECT_LE(WorstError(Picked(all, text.rows), text.logits), 0.1) << text.ids.size();
      EXPECT_EQ(all, LogitsOf(*model, text.ids, numbers::DType::kBf16, 7)) << "in chunks";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, GoldenDecoder, testing::ValuesIn(GoldenDecoders()),
                         [](const auto& info) { return info.param; });

// The same weights in a folder and in GGUF files, whose rows of q and k have another order and
// whose blocks of 8 bits hold them exactly.
class GoldenGguf : public testing::Test {
 protected:
  void SetUp() override { backend_ = *cpu::NewCpuBackend({.threads = 2, .pin = false}); }
  std::unique_ptr<models::DecoderModel> Load(const std::string& name, numbers::DType dtype) {
    return LoadDecoder(GoldenPath(name), backend_.get(), dtype);
  }
  const Reference expected_ = ReadReference("llama");
  std::unique_ptr<program::Backend> backend_;
};

class GoldenGgufFile : public GoldenGguf, public testing::WithParamInterface<const char*> {};

TEST_P(GoldenGgufFile, GivesTheLogitsAndTextOfTheFolder) {
  const auto gguf =
      Load(std::string("llama_gguf/llama-") + GetParam() + ".gguf", numbers::DType::kF32);
  const auto folder = Load("llama", numbers::DType::kF32);
  ASSERT_TRUE(gguf != nullptr && folder != nullptr);
  for (const Text& text : expected_.texts) {
    const LogitRows got = LogitsOf(*gguf, text.ids, numbers::DType::kF32);
    EXPECT_LE(WorstError(Picked(got, text.rows), text.logits), kErrorMax);
    // Not the same bits: the order of rows is the order in which products are added.
    EXPECT_LE(WorstError(got, LogitsOf(*folder, text.ids, numbers::DType::kF32)), 1e-5);
    EXPECT_EQ(got, LogitsOf(*gguf, text.ids, numbers::DType::kF32, 7));
  }
  EXPECT_EQ(Greedy(*gguf, expected_.prompt, expected_.greedy.size()), expected_.greedy);
}

INSTANTIATE_TEST_SUITE_P(All, GoldenGgufFile, testing::Values("f16", "q8_0"),
                         [](const auto& info) { return std::string(info.param); });

TEST_F(GoldenGguf, TypesThatHoldTheSameValuesGiveTheSameBits) {
  const auto half = Load("llama_gguf/llama-f16.gguf", numbers::DType::kF32);
  const auto blocks = Load("llama_gguf/llama-q8_0.gguf", numbers::DType::kF32);
  ASSERT_TRUE(half != nullptr && blocks != nullptr);
  for (const Text& text : expected_.texts) {
    EXPECT_EQ(LogitsOf(*half, text.ids, numbers::DType::kF32),
              LogitsOf(*blocks, text.ids, numbers::DType::kF32));
  }
}

TEST_F(GoldenGguf, RowsOfEightBitsStayClose) {
  const auto model = Load("llama_gguf/llama-q8_0.gguf", numbers::DType::kI8);
  ASSERT_NE(model, nullptr);
  for (const Text& text : expected_.texts) {
    const LogitRows got = LogitsOf(*model, text.ids, numbers::DType::kF32);
    EXPECT_LE(WorstError(Picked(got, text.rows), text.logits), 0.1);
    EXPECT_EQ(got, LogitsOf(*model, text.ids, numbers::DType::kF32, 7));
  }
}

}  // namespace
}  // namespace penstock::generate

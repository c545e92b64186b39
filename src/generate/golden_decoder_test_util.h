// The decoders of tests/golden/decoders, what the reference implementation computed of them, and
// what a model computes.
#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "generate/golden_test_util.h"
#include "sample/sampler.h"

namespace penstock::generate {

// The largest error of float32 logits, divided by the largest logit.
inline constexpr double kGoldenErrorMax = 5e-5;

inline std::string GoldenPath(const std::string& name) {
  return PENSTOCK_GOLDEN_DIR "/decoders/" + name;
}

inline std::vector<std::string> GoldenDecoders() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(GoldenPath(""))) {
    if (std::filesystem::exists(entry.path() / "expected.json")) {
      names.push_back(entry.path().filename().string());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

struct GoldenText {
  std::vector<int32_t> ids;
  std::vector<int32_t> rows;  // of `ids`, whose logits are known
  LogitRows logits;
};

struct GoldenReference {
  int32_t context = 0;
  std::vector<int32_t> prompt, greedy;
  std::vector<GoldenText> texts;
};

inline GoldenReference ReadReference(const std::string& name) {
  simdjson::dom::parser parser;
  const simdjson::dom::element file = parser.load(GoldenPath(name) + "/expected.json");
  GoldenReference out;
  out.context = static_cast<int32_t>(file["context"].get_int64());
  out.prompt = ReadIds(file["prompt"]);
  out.greedy = ReadIds(file["greedy"]);
  for (const auto text : file["texts"].get_array()) {
    out.texts.push_back({ReadIds(text["ids"]), ReadIds(text["rows"]), ReadRows(text["logits"])});
  }
  return out;
}

inline LogitRows PickedRows(const LogitRows& all, const std::vector<int32_t>& rows) {
  LogitRows out;
  for (const int32_t row : rows) out.push_back(all.at(static_cast<size_t>(row)));
  return out;
}

// The tokens of the largest logits: the prompt in one step, then token by token.
inline std::vector<int32_t> GreedyTokens(const models::DecoderModel& model,
                                         const std::vector<int32_t>& prompt, size_t count) {
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

}  // namespace penstock::generate

// A runner over the decoders of tests/golden/embedders: bits do not depend on batches, steps or the
// prefix cache, and memory goes back.
#include "engine/decoder_runner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>

#include "cpu/cpu_backend.h"
#include "families/decoder_files.h"
#include "families/model_folder.h"

namespace penstock::engine {
namespace {

using Texts = std::vector<std::vector<int32_t>>;
using Rows = std::vector<std::vector<float>>;

class DecoderRunnerTest : public testing::Test {
 protected:
  std::unique_ptr<DecoderRunner> Load(const std::string& name,
                                      numbers::DType dtype = numbers::DType::kF32) {
    auto folder = families::ModelFolder::Read(PENSTOCK_GOLDEN_DIR "/embedders/" + name);
    EXPECT_TRUE(folder.ok()) << folder.status().ToString();
    auto files = families::DecoderFiles::Open(folder->path, families::DecoderUse::kEmbed);
    EXPECT_TRUE(files.ok()) << files.status().ToString();
    if (folder->logit_score) folder->logit_score->true_id = 257;
    auto model = models::EmbeddingDecoder::Load(*folder, *files, backend_.get(), {dtype, 1000});
    EXPECT_TRUE(model.ok()) << model.status().ToString();
    return std::make_unique<DecoderRunner>(
        *std::move(model), backend_.get(),
        dtype == numbers::DType::kF32 ? numbers::DType::kF32 : numbers::DType::kBf16);
  }

  static Rows Run(DecoderRunner* runner, const Texts& texts,
                  program::EncoderOutput output = program::EncoderOutput::kPooled) {
    std::vector<int32_t> ids, offsets{0};
    Rows rows;
    std::vector<float*> sinks;
    const auto width = static_cast<size_t>(runner->OutputWidth(output));
    for (const auto& text : texts) {
      ids.insert(ids.end(), text.begin(), text.end());
      offsets.push_back(static_cast<int32_t>(ids.size()));
      rows.emplace_back(output == program::EncoderOutput::kTokens ? width * text.size() : width);
    }
    for (auto& row : rows) sinks.push_back(row.data());
    const Status status = runner->Run({ids, {}, offsets, {}}, output, sinks);
    EXPECT_TRUE(status.ok()) << status.ToString();
    return rows;
  }

  static std::vector<int32_t> Text(size_t length, uint32_t seed) {
    std::mt19937 random(seed);
    std::vector<int32_t> ids(length);
    for (int32_t& id : ids) id = static_cast<int32_t>(random() % 250);
    return ids;
  }
  static std::vector<int32_t> After(std::vector<int32_t> head, const std::vector<int32_t>& tail) {
    head.insert(head.end(), tail.begin(), tail.end());
    return head;
  }

  std::unique_ptr<program::Backend> backend_ = *cpu::NewCpuBackend({.threads = 2, .pin = false});
};

bool SameBits(const Rows& a, const Rows& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].size() != b[i].size() ||
        std::memcmp(a[i].data(), b[i].data(), a[i].size() * sizeof(float)) != 0) {
      return false;
    }
  }
  return true;
}

TEST_F(DecoderRunnerTest, BitsDoNotDependOnCompany) {
  const Texts texts = {Text(5, 1),   Text(700, 2), Text(1, 3), Text(300, 4),
                       Text(301, 5), Text(999, 6), Text(33, 7)};
  for (const char* name : {"qwen3_lasttoken", "mistral_window", "llama_mean_causal",
                           "qwen2_both_directions", "gemma3_mean_dense"}) {
    for (const numbers::DType dtype : {numbers::DType::kF32, numbers::DType::kBf16}) {
      Rows alone;
      for (const auto& text : texts) alone.push_back(Run(Load(name, dtype).get(), {text})[0]);
      const auto runner = Load(name, dtype);
      EXPECT_TRUE(SameBits(Run(runner.get(), texts), alone)) << name;
      EXPECT_TRUE(SameBits(Run(runner.get(), texts), alone)) << name << ", a second time";
      runner->ReleaseMemory();
      EXPECT_TRUE(SameBits(Run(runner.get(), texts), alone)) << name << ", released";
    }
  }
}

TEST_F(DecoderRunnerTest, StatesOfAllTokens) {
  const Texts texts = {Text(5, 1), Text(700, 2), Text(40, 3)};
  const auto runner = Load("qwen3_lasttoken");
  const Rows together = Run(runner.get(), texts, program::EncoderOutput::kTokens);
  for (size_t i = 0; i < texts.size(); ++i) {
    EXPECT_EQ(together[i].size(), texts[i].size() * 32);
    EXPECT_TRUE(SameBits({together[i]}, Run(Load("qwen3_lasttoken").get(), {texts[i]},
                                            program::EncoderOutput::kTokens)));
  }
  // The pooled row is the last state.
  const Rows pooled = Run(runner.get(), texts);
  for (size_t i = 0; i < texts.size(); ++i) {
    EXPECT_EQ(std::vector<float>(together[i].end() - 32, together[i].end()), pooled[i]);
  }
}

// Counts the pauses; after so many of them some sequences are wanted no more.
class Leaving final : public program::BatchPause {
 public:
  Leaving(std::vector<size_t> who, int after) : who_(std::move(who)), after_(after) {}
  bool Pause() override {
    ++pauses;
    return false;
  }
  bool Wanted(size_t sequence) override {
    return pauses < after_ || std::find(who_.begin(), who_.end(), sequence) == who_.end();
  }
  int pauses = 0;

 private:
  const std::vector<size_t> who_;
  const int after_;
};

TEST_F(DecoderRunnerTest, TextsThatNobodyWaitsForEndWithTheStep) {
  const Texts texts = {Text(999, 1), Text(998, 2), Text(40, 3)};
  for (const char* name : {"qwen3_lasttoken", "llama_mean_causal"}) {
    const auto runner = Load(name);
    Rows alone;
    for (const auto& text : texts) alone.push_back(Run(Load(name).get(), {text})[0]);
    const auto pauses_of = [&](std::vector<size_t> who, int after, Rows* rows) {
      Leaving pause(std::move(who), after);
      runner->SetPause(&pause);
      *rows = Run(runner.get(), texts);
      runner->SetPause(nullptr);
      runner->ReleaseMemory();  // nothing is found in the cache
      return pause.pauses;
    };
    // Steps of 512 tokens: two, two and one.
    Rows rows;
    EXPECT_EQ(pauses_of({}, 0, &rows), 4) << name;
    EXPECT_TRUE(SameBits(rows, alone)) << name;
    // The first text leaves in the middle: its second step is left out.
    EXPECT_EQ(pauses_of({0}, 1, &rows), 3) << name;
    EXPECT_TRUE(SameBits({rows[1], rows[2]}, {alone[1], alone[2]})) << name;
    EXPECT_EQ(rows[0], std::vector<float>(rows[0].size(), 0.0f)) << name;
    // Those that were not begun, too.
    EXPECT_EQ(pauses_of({1}, 1, &rows), 2) << name;
    EXPECT_TRUE(SameBits({rows[0], rows[2]}, {alone[0], alone[2]})) << name;
    EXPECT_EQ(pauses_of({0, 1, 2}, 1, &rows), 1) << name;
    EXPECT_EQ(pauses_of({0, 1, 2}, 0, &rows), 0) << name;
    // What comes next is not touched by what was left.
    EXPECT_TRUE(SameBits(Run(runner.get(), texts), alone)) << name;
  }
}

TEST_F(DecoderRunnerTest, WhatTextsBeginWithIsComputedOnce) {
  const std::vector<int32_t> prompt = Text(200, 1);
  Texts texts;
  for (uint32_t i = 0; i < 40; ++i) texts.push_back(After(prompt, Text(20 + i, 100 + i)));
  const auto runner = Load("qwen3_reranker");
  Rows alone;
  for (const auto& text : texts) {
    alone.push_back(Run(Load("qwen3_reranker").get(), {text}, program::EncoderOutput::kLogits)[0]);
  }
  EXPECT_TRUE(SameBits(Run(runner.get(), texts, program::EncoderOutput::kLogits), alone));
  // Two texts fit the first step; the others find the prompt's six whole blocks.
  EXPECT_EQ(runner->cached_tokens(), 38u * 192);
  EXPECT_TRUE(SameBits(Run(runner.get(), {texts[7]}, program::EncoderOutput::kLogits), {alone[7]}));
  EXPECT_GE(runner->cached_tokens(), 39u * 192);
}

TEST_F(DecoderRunnerTest, TextsOfAnotherSaltShareNothing) {
  const std::vector<int32_t> text = Text(200, 1);
  std::vector<int32_t> ids = text;
  const auto runner = Load("qwen3_reranker");
  std::vector<float> row(static_cast<size_t>(runner->OutputWidth(program::EncoderOutput::kLogits)));
  float* const sinks[] = {row.data()};
  const int32_t offsets[] = {0, static_cast<int32_t>(ids.size())};
  const auto cached_with = [&](uint64_t salt) {
    const uint64_t before = runner->cached_tokens();
    program::PackedBatch batch{ids, {}, offsets};
    batch.cache_salts = {&salt, 1};
    EXPECT_TRUE(runner->Run(batch, program::EncoderOutput::kLogits, sinks).ok());
    return runner->cached_tokens() - before;
  };
  EXPECT_EQ(cached_with(0), 0u);
  EXPECT_EQ(cached_with(2), 0u);
  EXPECT_EQ(cached_with(4), 0u);
  EXPECT_EQ(cached_with(2), 192u);
  EXPECT_EQ(cached_with(0), 192u);
}

TEST_F(DecoderRunnerTest, NothingIsKeptWhereAllStatesAreNeeded) {
  for (const char* name : {"llama_mean_causal", "qwen2_both_directions"}) {
    const auto runner = Load(name);
    const Texts texts = {Text(300, 1), Text(300, 1)};
    Run(runner.get(), texts);
    Run(runner.get(), texts);
    EXPECT_EQ(runner->cached_tokens(), 0u) << name;
  }
}

TEST_F(DecoderRunnerTest, MemoryIsBoundedAndGoesBack) {
  const auto runner = Load("qwen3_lasttoken");
  EXPECT_EQ(runner->HeldBytes(), 0u);
  EXPECT_EQ(runner->ReleaseMemory(), 0u);
  // More than all blocks of the cache hold, so that the oldest are dropped.
  uint64_t held = 0;
  for (uint32_t i = 0; i < 400; ++i) {
    Run(runner.get(), {Text(900, i)});
    if (i == 199) held = runner->HeldBytes();
  }
  EXPECT_GT(held, 0u);
  EXPECT_EQ(runner->HeldBytes(), held);
  EXPECT_EQ(runner->ReleaseMemory(), held);
  EXPECT_EQ(runner->HeldBytes(), 0u);
}

TEST_F(DecoderRunnerTest, RefusesWhatDoesNotFit) {
  const auto runner = Load("qwen3_lasttoken");
  std::vector<float> row(32);
  float* const sink = row.data();
  const auto run = [&](std::vector<int32_t> ids, program::EncoderOutput output) {
    const std::vector<int32_t> offsets = {0, static_cast<int32_t>(ids.size())};
    return runner->Run({ids, {}, offsets, {}}, output, {&sink, 1});
  };
  EXPECT_EQ(run(Text(1001, 1), program::EncoderOutput::kPooled).field(), "inputs");
  EXPECT_EQ(run({5, 272}, program::EncoderOutput::kPooled).field(), "inputs");
  EXPECT_EQ(run({5}, program::EncoderOutput::kLogits).field(), "model");
  EXPECT_TRUE(run({5}, program::EncoderOutput::kPooled).ok());
}

}  // namespace
}  // namespace penstock::engine

// Logits of a small decoder over blocks that were reused, shared, taken over, given back and
// computed again are those of a text that is computed alone, to the bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "cpu/cpu_backend.h"
#include "kv/sequence.h"
#include "models/decoder.h"
#include "tensor/step.h"

namespace penstock {
namespace {

using Ids = std::vector<int32_t>;
using Logits = std::vector<std::vector<float>>;  // a row for each token

constexpr int32_t kBlocks = 32, kRows = 160;

Ids TextOf(int32_t seed, size_t length) {
  Ids ids(length);
  for (size_t i = 0; i < length; ++i) ids[i] = (static_cast<int32_t>(i * i) + seed * 7) % 50;
  return ids;
}

class ModelBits : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    backend_ = *NewCpuBackend({.threads = 2, .pin = false});
    auto files = DecoderFiles::Open(std::string(PENSTOCK_GOLDEN_DIR "/decoders/") + GetParam());
    ASSERT_TRUE(files.ok()) << files.status().ToString();
    auto model = DecoderModel::Load(*files, backend_.get(), {DType::kF32, 0});
    ASSERT_TRUE(model.ok()) << model.status().ToString();
    model_ = *std::move(model);
    run_ = NewRun();
    pool_ = std::make_unique<BlockPool>(kBlocks, run_->group_blocks());
    cache_ = std::make_unique<PrefixCache>(pool_.get());
  }
  std::unique_ptr<StepRun> NewRun() {
    StepOptions options;
    options.blocks = kBlocks;
    options.rows = options.logit_rows = kRows;
    auto run = model_->NewRun(options);
    EXPECT_TRUE(run.ok()) << run.status().ToString();
    return *std::move(run);
  }
  std::unique_ptr<Sequence> NewSequence() {
    return std::make_unique<Sequence>(pool_.get(), cache_.get(), model_->context());
  }

  // One after the other, alone, in a cache of its own.
  Logits Plain(const Ids& ids) {
    auto run = NewRun();
    Ids blocks(kBlocks), rows(ids.size());
    std::iota(blocks.begin(), blocks.end(), 0);
    std::iota(rows.begin(), rows.end(), 0);
    const StepSequence sequence = {static_cast<int32_t>(ids.size()), 0, blocks};
    const Status status = run->Run({ids, {&sequence, 1}, rows}, nullptr);
    EXPECT_TRUE(status.ok()) << status.ToString();
    Logits logits;
    for (size_t row = 0; row < ids.size(); ++row) {
      logits.emplace_back(run->logits(row).begin(), run->logits(row).end());
    }
    return logits;
  }

  struct Part {
    Sequence* sequence;
    const Ids* ids;  // the whole text
    int32_t rows;
    const Logits* want;
  };
  // One step of all; their logits are compared.
  void Step(const std::vector<Part>& parts) {
    Ids ids;
    std::vector<StepSequence> sequences;
    for (const Part& part : parts) {
      const Status status = part.sequence->Reserve(part.rows);
      ASSERT_TRUE(status.ok()) << status.ToString();
      const auto from = part.ids->begin() + part.sequence->length();
      ids.insert(ids.end(), from, from + part.rows);
      sequences.push_back({part.rows, part.sequence->length(), part.sequence->blocks()});
    }
    Ids rows(ids.size());
    std::iota(rows.begin(), rows.end(), 0);
    const Status status = run_->Run({ids, sequences, rows}, nullptr);
    ASSERT_TRUE(status.ok()) << status.ToString();
    size_t row = 0;
    for (const Part& part : parts) {
      for (int32_t i = 0; i < part.rows; ++i, ++row) {
        const auto at = static_cast<size_t>(part.sequence->length());
        ASSERT_TRUE(std::ranges::equal(run_->logits(row), (*part.want)[at])) << "token " << at;
        part.sequence->Append(std::span(*part.ids).subspan(at, 1));
      }
    }
  }
  void RunRest(Sequence* sequence, const Ids& ids, int32_t chunk) {
    const Logits want = Plain(ids);
    while (sequence->length() < static_cast<int32_t>(ids.size()) && !HasFatalFailure()) {
      const int32_t left = static_cast<int32_t>(ids.size()) - sequence->length();
      Step({{sequence, &ids, std::min(chunk, left), &want}});
    }
  }

  std::unique_ptr<Backend> backend_;
  std::unique_ptr<DecoderModel> model_;
  std::unique_ptr<StepRun> run_;
  std::unique_ptr<BlockPool> pool_;
  std::unique_ptr<PrefixCache> cache_;
};

INSTANTIATE_TEST_SUITE_P(Decoders, ModelBits, testing::Values("llama", "gemma3", "qwen2_windows"));

TEST_P(ModelBits, ASecondTurnAfterTheFirst) {
  const Ids text = TextOf(1, 140);
  const Ids first(text.begin(), text.begin() + 100);
  auto sequence = NewSequence();
  RunRest(sequence.get(), first, 17);
  sequence->Release();
  EXPECT_EQ(sequence->TakeCached(first), 96);
  RunRest(sequence.get(), first, 3);
  sequence->Release();
  EXPECT_EQ(sequence->TakeCached(text), 100);
  RunRest(sequence.get(), text, 1);
}

TEST_P(ModelBits, TextsThatAreComputedTogetherAndShare) {
  Ids one = TextOf(1, 120), two = one;
  two[70] = two[70] + 1;
  const Logits want_one = Plain(one), want_two = Plain(two);
  auto a = NewSequence(), b = NewSequence();
  Step({{a.get(), &one, 40, &want_one}, {b.get(), &two, 33, &want_two}});
  EXPECT_EQ(a->blocks()[0], b->blocks()[0]);
  Step({{a.get(), &one, 1, &want_one}, {b.get(), &two, 39, &want_two}});
  Step({{a.get(), &one, 60, &want_one}, {b.get(), &two, 40, &want_two}});
  EXPECT_EQ(a->blocks()[1], b->blocks()[1]);
  EXPECT_NE(a->blocks()[2], b->blocks()[2]);
  for (int i = 0; i < 8; ++i) {
    Step({{b.get(), &two, 1, &want_two}, {a.get(), &one, 1, &want_one}});
  }
}

TEST_P(ModelBits, Forks) {
  Ids texts[3] = {TextOf(2, 110), TextOf(2, 110), TextOf(2, 110)};
  texts[1][85] += 1;
  texts[2][81] += 1;
  auto first = NewSequence(), second = NewSequence(), third = NewSequence();
  const Logits want[3] = {Plain(texts[0]), Plain(texts[1]), Plain(texts[2])};
  Step({{first.get(), &texts[0], 80, &want[0]}});
  second->Fork(*first);
  third->Fork(*first);
  Step({{first.get(), &texts[0], 1, &want[0]},
        {second.get(), &texts[1], 17, &want[1]},
        {third.get(), &texts[2], 17, &want[2]}});
  for (int i = 0; i < 29; ++i) {
    Step({{first.get(), &texts[0], 1, &want[0]},
          {second.get(), &texts[1], 1, &want[1]},
          {third.get(), &texts[2], 1, &want[2]}});
  }
}

TEST_P(ModelBits, PreemptedAndItsPagesGivenBack) {
  const Ids text = TextOf(3, 150), other = TextOf(4, 150);
  auto sequence = NewSequence(), running = NewSequence();
  RunRest(running.get(), Ids(other.begin(), other.begin() + 90), 64);
  auto waiting = NewSequence();
  ASSERT_TRUE(waiting->Reserve(96).ok());  // so that the next one's last blocks are a group's first
  RunRest(sequence.get(), Ids(text.begin(), text.begin() + 130), 64);
  sequence->Release();
  // What it needs again is evicted in part, and goes back to the system.
  EXPECT_EQ(pool_->EvictIdleSince(INT64_MAX, 3), 3);
  std::vector<int32_t> given(kBlocks);
  given.resize(pool_->Uncommit(0, given));
  EXPECT_EQ(given.size(), 8u);
  const uint64_t committed = run_->CommittedBytes();
  EXPECT_EQ(committed,
            static_cast<uint64_t>(pool_->counts().committed + static_cast<int32_t>(given.size())) *
                run_->block_bytes());
  EXPECT_EQ(run_->ReleaseBlocks(given), given.size() * run_->block_bytes());
  EXPECT_EQ(sequence->TakeCached(text), 64);
  RunRest(sequence.get(), text, 64);
  RunRest(running.get(), other, 64);
  // All of it.
  sequence->Release();
  running->Release();
  waiting->Release();
  pool_->EvictIdleSince(INT64_MAX, kBlocks);
  given.resize(kBlocks);
  given.resize(pool_->Uncommit(0, given));
  run_->ReleaseBlocks(given);
  EXPECT_EQ(run_->CommittedBytes(), 0u);
  EXPECT_EQ(sequence->TakeCached(text), 0);
  RunRest(sequence.get(), text, 64);
}

}  // namespace
}  // namespace penstock

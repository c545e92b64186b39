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
#include "program/program_run.h"

namespace penstock::kv {
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
    backend_ = *cpu::NewCpuBackend({.threads = 2, .pin = false});
    auto files =
        families::DecoderFiles::Open(std::string(PENSTOCK_GOLDEN_DIR "/decoders/") + GetParam());
    ASSERT_TRUE(files.ok()) << files.status().ToString();
    auto model = models::DecoderModel::Load(*files, backend_.get(), {numbers::DType::kF32, 0});
    ASSERT_TRUE(model.ok()) << model.status().ToString();
    model_ = *std::move(model);
    const std::vector<int32_t> blocks(program::CacheGroups(model_->program()).size(), kBlocks);
    run_ = NewRun(blocks);
    pools_ = std::make_unique<CachePools>(run_->groups(), blocks, run_->page_blocks());
    cache_ = std::make_unique<PrefixCache>(pools_.get());
  }
  std::unique_ptr<program::ProgramRun> NewRun(const std::vector<int32_t>& blocks) {
    program::PrepareOptions options;
    options.blocks = blocks;
    options.rows = options.picks = kRows;
    auto run = model_->NewRun(options);
    EXPECT_TRUE(run.ok()) << run.status().ToString();
    return *std::move(run);
  }
  std::unique_ptr<Sequence> NewSequence() {
    return std::make_unique<Sequence>(pools_.get(), cache_.get(), model_->context());
  }

  // All at once, alone, in a cache of its own where all layers are in one group.
  Logits Plain(const Ids& ids) {
    auto run = NewRun({kBlocks});
    Ids blocks(kBlocks), rows(ids.size());
    std::iota(blocks.begin(), blocks.end(), 0);
    std::iota(rows.begin(), rows.end(), 0);
    const program::SingleSequence sequence(ids.size(), 0, blocks);
    const Status status = run->Run(sequence.Batch(ids, rows));
    EXPECT_TRUE(status.ok()) << status.ToString();
    Logits logits;
    for (size_t row = 0; row < ids.size(); ++row) {
      logits.emplace_back(run->Row(row)->begin(), run->Row(row)->end());
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
    Ids ids, offsets = {0};
    std::vector<program::CachedSequence> sequences;
    for (const Part& part : parts) {
      const Status status = part.sequence->Reserve(part.rows);
      ASSERT_TRUE(status.ok()) << status.ToString();
      const auto from = part.ids->begin() + part.sequence->length();
      ids.insert(ids.end(), from, from + part.rows);
      offsets.push_back(static_cast<int32_t>(ids.size()));
      sequences.push_back({part.sequence->length(), part.sequence->tables()});
    }
    Ids rows(ids.size());
    std::iota(rows.begin(), rows.end(), 0);
    const Status status =
        run_->Run({.ids = ids, .offsets = offsets, .cached = sequences, .picks = rows});
    ASSERT_TRUE(status.ok()) << status.ToString();
    size_t row = 0;
    for (const Part& part : parts) {
      for (int32_t i = 0; i < part.rows; ++i, ++row) {
        const auto at = static_cast<size_t>(part.sequence->length());
        ASSERT_TRUE(std::ranges::equal(*run_->Row(row), (*part.want)[at])) << "token " << at;
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

  // Gives free blocks back, of the full group so many pages.
  void GiveBack(size_t pages) {
    const uint64_t before = run_->CommittedBytes();
    uint64_t left = 0, freed = 0;
    for (size_t g = 0; g < pools_->size(); ++g) {
      BlockPool& pool = (*pools_)[g];
      std::vector<int32_t> given(kBlocks);
      given.resize(pool.Uncommit(0, given));
      if (g == 0) {
        EXPECT_GE(given.size(), pages * 8);
      }
      left += run_->block_bytes(g) * static_cast<uint64_t>(pool.counts().committed);
      freed += run_->ReleaseBlocks(g, given);
    }
    EXPECT_EQ(run_->CommittedBytes(), left);
    EXPECT_EQ(before - left, freed);
  }

  std::unique_ptr<program::Backend> backend_;
  std::unique_ptr<models::DecoderModel> model_;
  std::unique_ptr<program::ProgramRun> run_;
  std::unique_ptr<CachePools> pools_;
  std::unique_ptr<PrefixCache> cache_;
};

INSTANTIATE_TEST_SUITE_P(Decoders, ModelBits,
                         testing::Values("llama", "gemma3", "qwen2_windows", "mistral"));

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
  second->Fork(*first, first->length());
  third->Fork(*first, first->length());
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
  EXPECT_EQ((*pools_)[0].EvictIdleSince(INT64_MAX, 3), 3);
  GiveBack(1);
  EXPECT_EQ(sequence->TakeCached(text), 64);
  RunRest(sequence.get(), text, 64);
  RunRest(running.get(), other, 64);
  // All of it.
  sequence->Release();
  running->Release();
  waiting->Release();
  (*pools_)[0].EvictIdleSince(INT64_MAX, kBlocks);
  GiveBack(0);
  EXPECT_EQ(run_->CommittedBytes(), 0u);
  EXPECT_EQ(sequence->TakeCached(text), 0);
  RunRest(sequence.get(), text, 64);
}

// Texts in the blocks that others have left behind their windows.
TEST_P(ModelBits, BlocksBehindTheWindowHoldOtherTexts) {
  if (pools_->size() == 1) return;
  const Ids texts[] = {TextOf(1, 150), TextOf(2, 150), TextOf(3, 150)};
  std::vector<Logits> want;
  std::vector<std::unique_ptr<Sequence>> sequences;
  for (const Ids& text : texts) {
    want.push_back(Plain(text));
    sequences.push_back(std::make_unique<Sequence>(pools_.get(), nullptr, model_->context()));
  }
  int32_t most = 0;
  for (int32_t done = 0; done < 150; done += 5) {
    std::vector<Part> parts;
    for (size_t i = 0; i < 3; ++i) parts.push_back({sequences[i].get(), &texts[i], 5, &want[i]});
    Step(parts);
    most = std::max(most, (*pools_)[1].counts().in_use);
  }
  EXPECT_EQ((*pools_)[0].counts().in_use, 15);
  EXPECT_LE(most, 9);  // of 15
  EXPECT_LE((*pools_)[1].counts().in_use, 6);
  EXPECT_EQ((*pools_)[1].counts().committed, 16);
}

// What a text saw in the middle is evicted, what it sees at its end is not.
TEST_P(ModelBits, WindowBlocksThatWereEvicted) {
  if (pools_->size() == 1) return;
  const Ids first = TextOf(1, 150);
  Ids second = first, other = TextOf(1, 150);
  second.resize(160, 7);
  other[100] += 1;
  auto sequence = NewSequence();
  RunRest(sequence.get(), first, 50);
  sequence->Release();
  EXPECT_EQ(cache_->CachedTokens(0, other), 96u);
  EXPECT_EQ((*pools_)[1].EvictIdleSince(INT64_MAX, 3), 3);  // before token 96
  // All is known, and none of the window there.
  EXPECT_EQ(cache_->CachedTokens(0, other), 0u);
  EXPECT_EQ(sequence->TakeCached(second), 150);
  RunRest(sequence.get(), second, 9);
  // The other computes it again, and all have it.
  auto branch = NewSequence();
  EXPECT_EQ(branch->TakeCached(other), 0);
  RunRest(branch.get(), other, 64);
  EXPECT_EQ(branch->blocks()[2], sequence->blocks()[2]);
  EXPECT_EQ(cache_->CachedTokens(0, first), 128u);
  branch->Release();
  EXPECT_EQ(branch->TakeCached(first), 128);
  RunRest(branch.get(), first, 1);
}

TEST_P(ModelBits, Truncated) {
  const Ids first = TextOf(1, 150);
  Ids second = first;
  second[110] += 1;
  auto sequence = NewSequence();
  RunRest(sequence.get(), first, 50);
  EXPECT_EQ(sequence->Truncate(110), 96);
  RunRest(sequence.get(), second, 11);
  EXPECT_EQ(sequence->Truncate(147), 147);
  RunRest(sequence.get(), second, 11);
  if (pools_->size() == 1) return;
  (*pools_)[1].EvictIdleSince(INT64_MAX, kBlocks);
  EXPECT_EQ(sequence->Truncate(110), 0);
  EXPECT_EQ((*pools_)[1].counts().in_use, 0);
  RunRest(sequence.get(), first, 64);
}

}  // namespace
}  // namespace penstock::kv

// A made-up model of recurrent layers behind the real scheduler: a text's state is a hash of all
// its tokens, and says which token is next. Neither chunks nor company, shared prompts, second
// turns or preemption change a state.
#include <algorithm>

#include "cpu/cpu_backend.h"
#include "generate/decode_scheduler_test_util.h"

namespace penstock::generate {
namespace {

constexpr CacheGroup kGroups[] = {kFullGroup, {CacheKind::kState}};

uint64_t Next(uint64_t state, int32_t id) {
  return (state ^ static_cast<uint64_t>(id)) * 0x9e3779b97f4a7c15 + 1;
}
int32_t TokenAfter(uint64_t state) { return 3 + static_cast<int32_t>((state >> 32) % 20); }

class RecurrentSteps final : public program::ProgramRun {
 public:
  explicit RecurrentSteps(size_t blocks) : ids_(blocks * size_t{kKvBlockTokens}), states_(blocks) {}
  std::span<const CacheGroup> groups() const override { return kGroups; }
  uint64_t block_bytes(size_t group) const override { return group == 0 ? 1 : 100; }
  uint64_t HeldBytes() const override { return 0; }
  Status Run(size_t /*index*/, const program::PackedBatch& batch,
             std::span<float* const> /*sinks*/) override {
    logits_.assign(batch.picks.size() * kTinyVocabulary, 0.0f);
    int32_t row = 0;
    size_t pick = 0;
    for (size_t s = 0; s < batch.sequences(); ++s) {
      const program::CachedSequence& one = batch.cached[s];
      const BlockTable& keys = one.blocks[0];
      const BlockTable& table = one.blocks[1];
      const auto at = [](const BlockTable& of, int32_t token) {
        return static_cast<size_t>(of[static_cast<size_t>(token / kKvBlockTokens)]);
      };
      const auto id_at = [&](int32_t token) -> int32_t& {
        return ids_[at(keys, token) * kKvBlockTokens + static_cast<size_t>(token % kKvBlockTokens)];
      };
      // The state that is there is that of the tokens that are there.
      uint64_t state = one.past == 0 ? 0 : states_[at(table, one.past - 1)];
      uint64_t want = 0;
      for (int32_t token = 0; token < one.past; ++token) want = Next(want, id_at(token));
      EXPECT_EQ(state, want) << one.past;
      for (int32_t token = one.past; token < one.past + batch.length(s); ++token, ++row) {
        id_at(token) = batch.ids[static_cast<size_t>(row)];
        state = Next(state, id_at(token));
        states_[at(table, token)] = state;
        if (pick == batch.picks.size() || batch.picks[pick] != row) continue;
        logits_[pick++ * kTinyVocabulary + static_cast<size_t>(TokenAfter(state))] = 100;
      }
    }
    return Status::Ok();
  }
  Expected<std::span<const float>> Rows(size_t first, size_t count) override {
    return std::span<const float>(logits_).subspan(first * kTinyVocabulary,
                                                   count * kTinyVocabulary);
  }

 private:
  std::vector<int32_t> ids_;      // by block of the first group and place in it
  std::vector<uint64_t> states_;  // by block
  std::vector<float> logits_;     // of the picks of the last step, end to end
};

class DecodeStatesTest : public DecodeFixture {
 protected:
  DecodeStatesTest() : DecodeFixture(*cpu::NewCpuBackend({1, false, ""})) {
    options_.manual = true;
  }

  void StartFake() {
    auto made = DecodeScheduler::Make(&tiny_.model(), options_, &metrics_,
                                      std::make_unique<RecurrentSteps>(size_t{200}));
    ASSERT_TRUE(made.ok()) << made.status().ToString();
    scheduler_ = *std::move(made);
  }
  static std::unique_ptr<DecodeJob> Greedy(std::vector<int32_t> prompt, int32_t tokens) {
    auto job = Job(std::move(prompt), tokens);
    job->sampling.temperature = 0;
    return job;
  }
  static std::vector<int32_t> Reply(const std::vector<int32_t>& prompt, size_t tokens) {
    uint64_t state = 0;
    for (const int32_t id : prompt) state = Next(state, id);
    std::vector<int32_t> reply;
    while (reply.size() < tokens) {
      reply.push_back(TokenAfter(state));
      state = Next(state, reply.back());
    }
    return reply;
  }
  bool Shows(const std::string& line) { return metrics_.Render().find(line) != std::string::npos; }
};

TEST_F(DecodeStatesTest, CompanyAndPreemptionChangeNoState) {
  for (const StepCost& cost : {StepCost{1e-3, 1e-3, 1e-3, 1e-5, 0}, {1e-3, 3e-2, 1e-3, 5e-3, 0}}) {
    for (const bool prefixes : {true, false}) {
      for (const auto& [blocks, states] : {std::pair(14, 128), {128, 18}, {128, 40}, {128, 128}}) {
        options_.cost = cost;
        options_.prefix_cache = prefixes;
        options_.cache_blocks = {blocks, states};
        StartFake();
        std::vector<std::shared_ptr<Recorder>> got;
        std::vector<std::vector<int32_t>> prompts;
        for (uint32_t i = 0; i < 12; ++i) {
          prompts.push_back(Prompt(5 + 23 * i, i / 2));
          got.push_back(Submit(Greedy(prompts[i], 40)));
        }
        RunAll();
        for (size_t i = 0; i < got.size(); ++i) {
          ASSERT_TRUE(got[i]->Wait().ok());
          EXPECT_EQ(got[i]->got().ids, Reply(prompts[i], 40)) << i;
        }
        const DecodeStats stats = scheduler_->stats();
        EXPECT_EQ(stats.groups[1].kind, CacheKind::kState);
        EXPECT_EQ(stats.groups[1].blocks, states);
        EXPECT_EQ(stats.groups[1].used, 0);
        EXPECT_EQ(stats.groups[1].cached > 0, prefixes);
      }
    }
  }
  EXPECT_FALSE(Shows("penstock_generate_preemptions_total{model=\"\"} 0\n"));
  EXPECT_TRUE(Shows("penstock_kv_state_blocks{model=\"\"} 128\n"));
  EXPECT_TRUE(Shows("penstock_kv_window_blocks{model=\"\"} 0\n"));
}

TEST_F(DecodeStatesTest, ASecondTurnAndSamplesGoOnFromStates) {
  StartFake();
  std::vector<int32_t> text = Prompt(150, 3);
  const auto first = Submit(Greedy(text, 30));
  RunAll();
  text.insert(text.end(), first->got().ids.begin(), first->got().ids.end());
  text.push_back(5);
  auto job = Greedy(text, 20);
  job->samples = 3;
  const auto second = Submit(std::move(job));
  RunAll();
  EXPECT_EQ(second->usage().cached_tokens, 179);  // the last one of the reply was not run
  for (int32_t i = 0; i < 3; ++i) EXPECT_EQ(second->got(i).ids, Reply(text, 20));
  const auto branch = Submit(Greedy(Prompt(140, 3), 10));
  RunAll();
  EXPECT_EQ(branch->usage().cached_tokens, 128);
  EXPECT_EQ(branch->got().ids, Reply(Prompt(140, 3), 10));
}

}  // namespace
}  // namespace penstock::generate

// Texts of several clients at one model, on a fake clock: the real scheduler, with a model whose
// steps take the time they are said to. Nothing sleeps.
#include <algorithm>
#include <cmath>

#include "cpu/cpu_backend.h"
#include "generate/decode_scheduler_test_util.h"

namespace penstock::generate {
namespace {

// A step of one row 12 ms; 0.6 ms for a row of a prompt, or of a text among many.
constexpr StepCost kCost = {0.012, 0.016, 0.012, 0.0006, 0};

// Steps take as long as kCost says; the next token is always the same.
class TimedSteps final : public program::ProgramRun {
 public:
  explicit TimedSteps(std::function<void(double s, size_t rows)> passes)
      : passes_(std::move(passes)), logits_(kTinyVocabulary) {
    logits_[5] = 1;
  }
  uint64_t block_bytes(size_t) const override { return 1; }
  uint64_t HeldBytes() const override { return 0; }
  Status Run(size_t /*index*/, const program::PackedBatch& batch,
             std::span<float* const> /*sinks*/) override {
    passes_(kCost.Seconds(static_cast<int32_t>(batch.ids.size()), 0), batch.ids.size());
    return Status::Ok();
  }
  Expected<std::span<const float>> Rows(size_t, size_t) override {
    return std::span<const float>(logits_);
  }

 private:
  const std::function<void(double, size_t)> passes_;
  std::vector<float> logits_;
};

class DecodeClientsTest : public DecodeFixture {
 protected:
  DecodeClientsTest() : DecodeFixture(*cpu::NewCpuBackend({1, false, ""})) {
    options_.manual = true;
    options_.cost = kCost;
    options_.sequences_max = 64;
    options_.cache_blocks = {64 * 13};
    options_.max_queued_rows = 1 << 20;
    options_.now = [this] {
      return Clock::time_point(
          std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(1 + now_s_)));
    };
  }

  void StartTimed() {
    scheduler_.reset();
    auto made = DecodeScheduler::Make(&tiny_.model(), options_, &metrics_,
                                      std::make_unique<TimedSteps>([this](double s, size_t rows) {
                                        if (in_step_) std::exchange(in_step_, nullptr)();
                                        now_s_ += s;
                                        step_rows_ = rows;
                                        longest_s_ = std::max(longest_s_, s);
                                      }));
    ASSERT_TRUE(made.ok()) << made.status().ToString();
    scheduler_ = *std::move(made);
  }
  std::unique_ptr<DecodeJob> JobOf(uint64_t client, size_t prompt, int32_t tokens) {
    auto job = Job(Prompt(prompt, ++seed_), tokens);
    job->context.client = client;
    return job;
  }
  // Client 1 has so many chats open at any time.
  void KeepOpen(size_t chats) {
    std::erase_if(open_, [](const auto& one) { return one->ended(); });
    while (open_.size() < chats) open_.push_back(Submit(JobOf(1, 60 + seed_ % 80, 200)));
  }
  double FirstTokenS(const Recorder* got, double since_s, size_t chats) {
    while (const_cast<Recorder*>(got)->got().ids.empty()) {
      if (chats > 0) KeepOpen(chats);
      if (!scheduler_->Step()) break;
    }
    return now_s_ - since_s;
  }

  double now_s_ = 0, longest_s_ = 0;
  size_t step_rows_ = 0;
  uint32_t seed_ = 0;
  std::function<void()> in_step_;
  std::vector<std::shared_ptr<Recorder>> open_;
};

// However many chats of one client wait, run and begin, another one's first token comes as soon as
// streams that keep their pace allow: a step has as much time for prompts as for them, and the last
// one with a part of the prompt is a whole step.
TEST_F(DecodeClientsTest, AClientWithManyChatsDelaysNoOtherOnesFirstToken) {
  for (const size_t prompt : {20, 100, 250}) {
    SCOPED_TRACE(prompt);
    StartTimed();
    double since_s = now_s_;
    const double alone_s = FirstTokenS(Submit(JobOf(2, prompt, 5)).get(), since_s, 0);
    for (const int after : {1, 30, 400, 1000}) {
      SCOPED_TRACE(after);
      StartTimed();
      open_.clear();
      longest_s_ = 0;
      for (int step = 0; step < after; ++step) {
        KeepOpen(512);
        EXPECT_TRUE(scheduler_->Step());
      }
      EXPECT_GE(scheduler_->stats().running, after == 1 ? 1 : 60);
      // It comes between two steps; or as one begins, and waits for all of it first.
      std::shared_ptr<Recorder> other = Submit(JobOf(2, prompt, 5));
      since_s = now_s_;
      EXPECT_LE(FirstTokenS(other.get(), since_s, 512), 2 * alone_s + longest_s_);
      in_step_ = [&] {
        since_s = now_s_;
        other = Submit(JobOf(2, prompt, 5));
      };
      EXPECT_TRUE(scheduler_->Step());
      EXPECT_LE(FirstTokenS(other.get(), since_s, 512), 2 * alone_s + 2 * longest_s_);
    }
  }
}

// Two clients, one with eight times as many chats open.
TEST_F(DecodeClientsTest, ClientsGetEvenShares) {
  StartTimed();
  std::vector<std::shared_ptr<Recorder>> open[2];
  int64_t tokens[2] = {0, 0};
  const auto keep = [&](size_t client, size_t chats) {
    std::erase_if(open[client], [&](const auto& one) {
      if (one->ended()) tokens[client] += one->usage().completion_tokens;
      return one->ended();
    });
    while (open[client].size() < chats) {
      open[client].push_back(Submit(JobOf(1 + client, 40, 60 + static_cast<int32_t>(seed_ % 50))));
    }
  };
  for (int step = 0; step < 3000; ++step) {
    keep(0, 512);
    keep(1, 64);
    ASSERT_TRUE(scheduler_->Step());
  }
  EXPECT_GT(tokens[0] + tokens[1], 50'000);
  EXPECT_NEAR(static_cast<double>(tokens[1]) / static_cast<double>(tokens[0] + tokens[1]), 0.5,
              0.05);
}

// Two clients that always have as many texts waiting, one of three times the weight.
TEST_F(DecodeClientsTest, ClientsGetSharesByTheirWeights) {
  StartTimed();
  std::vector<std::shared_ptr<Recorder>> open[2];
  int64_t tokens[2] = {0, 0};
  const uint32_t weights[2] = {1, 3};
  const auto keep = [&](size_t client) {
    std::erase_if(open[client], [&](const auto& one) {
      if (one->ended()) tokens[client] += one->usage().completion_tokens;
      return one->ended();
    });
    while (open[client].size() < 256) {
      auto job = JobOf(1 + client, 40, 60 + static_cast<int32_t>(seed_ % 50));
      job->context.client_weight = weights[client];
      open[client].push_back(Submit(std::move(job)));
    }
  };
  for (int step = 0; step < 3000; ++step) {
    keep(0);
    keep(1);
    ASSERT_TRUE(scheduler_->Step());
  }
  EXPECT_GT(tokens[0] + tokens[1], 50'000);
  EXPECT_NEAR(static_cast<double>(tokens[1]) / static_cast<double>(tokens[0] + tokens[1]), 0.75,
              0.05);
}

// Texts that gave their places to another client's go on, and are the same.
// With drafts, the client that gives a place up is next at once: it does not take the place back.
TEST_F(DecodeClientsTest, TextsThatGaveTheirPlacesAreTheSame) {
  options_.sequences_max = 4;
  options_.cache_blocks = {40};
  options_.now = [this] {
    now_s_ += 1e-4;  // so each step takes some time
    return Clock::time_point(
        std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(1 + now_s_)));
  };
  Start();
  std::vector<std::shared_ptr<Recorder>> got;
  const auto job = [](uint64_t client, uint32_t i) {
    auto made = Job(Prompt(30 + 11 * i, i), 30, i);
    made->context.client = client;
    return made;
  };
  for (uint32_t i = 0; i < 8; ++i) got.push_back(Submit(job(1, i)));
  for (int step = 0; step < 5; ++step) EXPECT_TRUE(scheduler_->Step());
  EXPECT_EQ(scheduler_->stats().running, 4);
  for (uint32_t i = 8; i < 11; ++i) got.push_back(Submit(job(2, i)));
  EXPECT_TRUE(scheduler_->Step());
  EXPECT_EQ(scheduler_->stats().running, 4);
  EXPECT_EQ(scheduler_->stats().waiting, 7);
  for (int step = 0; step < 10; ++step) EXPECT_TRUE(scheduler_->Step());
  EXPECT_FALSE(got[8]->got().ids.empty());
  RunAll();
  for (uint32_t i = 0; i < 11; ++i) ExpectAlone(got[i].get(), *job(1, i));
  EXPECT_EQ(scheduler_->stats().groups[0].used, 0);
}

// Another engine that had the processor a moment ago is expected to come again: a prompt that is
// alone goes in chunks that leave it room.
class Other final : public gate::GateClient {
 public:
  gate::GateDemand Demand() const override { return {}; }
};

TEST_F(DecodeClientsTest, APromptLeavesRoomForASecondAfterAnotherEngineWasSeen) {
  gate::ComputeGate gate;
  options_.gate = &gate;
  StartTimed();
  Submit(JobOf(1, 390, 1));
  EXPECT_TRUE(scheduler_->Step());
  const size_t alone = step_rows_;
  RunAll();
  Other other;
  gate::ComputeGate::Turn turn(&gate, &other);
  ASSERT_TRUE(turn.TryTake(Priority::kInteractive));
  Submit(JobOf(1, 390, 1));
  EXPECT_FALSE(scheduler_->Step());  // waits
  turn.End(1000, {});
  for (int step = 0; step < 4; ++step) {
    EXPECT_TRUE(scheduler_->Step());
    EXPECT_LT(3 * step_rows_, alone) << step;
  }
  RunAll();
  now_s_ += 1.1;
  Submit(JobOf(1, 390, 1));
  EXPECT_TRUE(scheduler_->Step());
  EXPECT_EQ(step_rows_, alone);
  RunAll();
}

}  // namespace
}  // namespace penstock::generate

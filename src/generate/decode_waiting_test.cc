// Texts that wait: what they hold, what they cost the others, and who is next.
#include <malloc.h>

#include <algorithm>
#include <ctime>

#include "cpu/cpu_backend.h"
#include "generate/decode_scheduler_test_util.h"
#include "generate/waiting_texts.h"
#include "threads/byte_budget.h"

namespace penstock::generate {
namespace {

int64_t HeapBytes() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<int64_t>(info.uordblks + info.hblkhd);
}

// Takes no time but that of the scheduler; the next token is always the same.
class NoSteps final : public program::ProgramRun {
 public:
  NoSteps() : logits_(kTinyVocabulary) { logits_[5] = 1; }
  uint64_t block_bytes(size_t) const override { return 1; }
  uint64_t HeldBytes() const override { return 0; }
  Status Run(size_t /*index*/, const program::PackedBatch& batch,
             std::span<float* const> /*sinks*/) override {
    return Status::Ok();
  }
  Expected<std::span<const float>> Rows(size_t, size_t) override {
    return std::span<const float>(logits_);
  }

 private:
  std::vector<float> logits_;
};

class NoSink final : public DecodeSink {
 public:
  void OnToken(int32_t, const GeneratedToken&, std::string_view) noexcept override {}
  void OnSampleEnd(int32_t, FinishReason, std::string_view, int) noexcept override {}
  void OnEnd(const Status& status, const DecodeUsage&) noexcept override {
    ended += static_cast<int>(status.ok());
  }
  int ended = 0;
};

class DecodeWaitingTest : public DecodeFixture {
 protected:
  DecodeWaitingTest() : DecodeFixture(*cpu::NewCpuBackend({2, false, ""})) {
    options_.manual = true;
  }

  void StartFake() {
    auto made =
        DecodeScheduler::Make(&tiny_.model(), options_, &metrics_, std::make_unique<NoSteps>());
    ASSERT_TRUE(made.ok()) << made.status().ToString();
    scheduler_ = *std::move(made);
  }
  // Steps until the text has ended.
  int StepsTo(const Recorder& got, int most = 1000) {
    int steps = 0;
    for (; !got.ended() && steps < most; ++steps) scheduler_->Step();
    return steps;
  }
};

// Prompts with many samples and penalties: what is allocated is what was counted.
TEST_F(DecodeWaitingTest, MemoryIsCountedBeforeItIsTaken) {
  constexpr int kJobs = 400;
  constexpr int64_t kSlack = 256 << 10;  // of the scheduler itself
  options_.max_queued_rows = 1 << 20;
  options_.max_queued_tokens = 1 << 26;
  StartFake();
  Submit(Job(Prompt(50, 1), 2));
  RunAll();
  const auto sink = std::make_shared<NoSink>();
  const auto budget = std::make_shared<ByteBudget>(64 << 20);
  const auto memory = std::make_shared<RequestMemory>(budget, Priority::kInteractive);
  const int64_t before = HeapBytes();
  for (int i = 0; i < kJobs; ++i) {
    const size_t tokens = 20 + static_cast<size_t>(i % 50);
    sample::SamplingOptions sampling;
    sampling.max_tokens = 20;
    sampling.frequency_penalty = 0.5F;
    sampling.repetition_penalty = 1.1F;
    sampling.logit_bias = {{3, 1}, {4, -1}};
    sampling.stop = {"never", "again and again"};
    // As the front end does.
    ASSERT_TRUE(memory->Take(WaitingBytes(sampling) + 4 * static_cast<int64_t>(tokens)).ok());
    auto job = std::make_unique<DecodeJob>();
    job->prompt = Prompt(tokens, static_cast<uint32_t>(i));
    job->prompt.shrink_to_fit();
    job->sampling = std::move(sampling);
    job->samples = 16;
    job->context.memory = memory;
    job->sink = sink;
    ASSERT_TRUE(scheduler_->Submit(std::move(job)).ok());
  }
  EXPECT_LE(HeapBytes() - before, budget->used() + kSlack);
  for (int step = 0; step < 200; ++step) {
    ASSERT_TRUE(scheduler_->Step());
    ASSERT_LE(HeapBytes() - before, budget->used() + kSlack) << step;
  }
  EXPECT_GE(scheduler_->stats().running, 12);
  RunAll();
  EXPECT_EQ(sink->ended, kJobs);
}

TEST_F(DecodeWaitingTest, TextsWaitForMemoryThatOthersHold) {
  StartFake();
  const auto measured = std::make_shared<ByteBudget>(1 << 30);
  const auto job = [](const std::shared_ptr<ByteBudget>& budget) {
    auto made = Job(Prompt(20, 1), 30);
    made->context.memory = std::make_shared<RequestMemory>(budget, Priority::kInteractive);
    return made;
  };
  const auto alone = Submit(job(measured));
  EXPECT_TRUE(scheduler_->Step());
  const int64_t one = measured->used();
  EXPECT_GT(one, 0);
  RunAll();
  EXPECT_TRUE(alone->Wait().ok());
  EXPECT_EQ(measured->used(), 0);
  // Room for two and a half.
  const auto budget = std::make_shared<ByteBudget>(5 * one / 2);
  std::vector<std::shared_ptr<Recorder>> got;
  for (int i = 0; i < 6; ++i) got.push_back(Submit(job(budget)));
  int32_t most = 0;
  while (scheduler_->Step()) most = std::max(most, scheduler_->stats().running);
  EXPECT_EQ(most, 2);
  for (const auto& text : got) EXPECT_TRUE(text->Wait().ok());
  // One that can never have its memory is refused.
  auto refused = job(std::make_shared<ByteBudget>(one - 1));
  refused->sink = std::make_shared<Recorder>();
  EXPECT_EQ(scheduler_->Submit(std::move(refused)).code(), StatusCode::kPayloadTooLarge);
}

// Half of the steps take no longer than this: of this thread's time alone.
double MedianStepS(DecodeScheduler* scheduler, int steps) {
  const auto cpu_s = [] {
    timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  std::vector<double> took;
  for (int i = 0; i < steps; ++i) {
    const double begin = cpu_s();
    EXPECT_TRUE(scheduler->Step());
    took.push_back(cpu_s() - begin);
  }
  std::nth_element(took.begin(), took.begin() + steps / 2, took.end());
  return took[static_cast<size_t>(steps / 2)];
}

TEST_F(DecodeWaitingTest, AStepTakesAsLongHoweverManyWait) {
  options_.max_queued_rows = 1 << 20;
  options_.max_queued_tokens = int64_t{1} << 40;
  double few_s = 0;
  for (const int jobs : {100, 100'000}) {
    StartFake();
    const auto sink = std::make_shared<NoSink>();
    for (int i = 0; i < jobs; ++i) {
      auto job = Job({kTinyBegin, 5}, 390);
      job->context.client = static_cast<uint64_t>(i % 7);
      job->context.cancel = std::make_shared<CancelToken>();
      job->sink = sink;
      ASSERT_TRUE(scheduler_->Submit(std::move(job)).ok());
    }
    for (int i = 0; i < 10; ++i) EXPECT_TRUE(scheduler_->Step());
    const double step_s = MedianStepS(scheduler_.get(), 300);
    GTEST_LOG_(INFO) << jobs << " jobs: a step in " << 1e6 * step_s << " us";
    if (jobs == 100) {
      few_s = step_s;
    } else {
      EXPECT_LE(step_s, 3 * few_s);
    }
  }
}

TEST_F(DecodeWaitingTest, LooksAtSoManyJobsAndAtAllInTheEnd) {
  WaitingTexts texts;
  std::vector<std::shared_ptr<TakenJob>> jobs;
  const auto cancel = std::make_shared<CancelToken>();
  for (uint64_t i = 0; i < 1000; ++i) {
    auto job = std::make_shared<TakenJob>();
    job->job = std::make_unique<DecodeJob>();
    job->job->context.cancel = cancel;
    job->job->context.client = i % 600;  // more than there are lines
    job->number = i + 1;
    texts.Add(job);
    jobs.push_back(std::move(job));
  }
  EXPECT_TRUE(texts.FindDead(1000, {}).empty());
  cancel->Cancel();
  size_t found = 0;
  for (int round = 0; round < 10; ++round) {
    const auto dead = texts.FindDead(100, {});
    EXPECT_LE(dead.size(), 100u);
    for (const auto& job : dead) {
      if (!std::exchange(job->ended, true)) ++found;
    }
  }
  EXPECT_EQ(found, 1000u);
  for (const auto& job : jobs) texts.Remove(job.get());
  EXPECT_TRUE(texts.empty());
  EXPECT_EQ(texts.next().job, nullptr);
}

TEST_F(DecodeWaitingTest, OneThatNobodyWantsEndsWhileItWaits) {
  auto now = Clock::time_point() + std::chrono::hours(1);
  options_.now = [&] { return now; };
  options_.sequences_max = 1;
  StartFake();
  const auto runs = Submit(Job(Prompt(5, 1), 300));
  EXPECT_TRUE(scheduler_->Step());
  auto cancelled = Job(Prompt(5, 2), 5);
  cancelled->context.cancel = std::make_shared<CancelToken>();
  const auto cancel = cancelled->context.cancel;
  auto late = Job(Prompt(5, 3), 5);
  late->samples = 4;
  late->context.deadline = now + std::chrono::milliseconds(30);
  const auto left = Submit(std::move(cancelled)), expired = Submit(std::move(late));
  EXPECT_TRUE(scheduler_->Step());
  EXPECT_EQ(scheduler_->stats().waiting, 5);
  cancel->Cancel();
  now += std::chrono::milliseconds(20);
  EXPECT_TRUE(scheduler_->Step());
  EXPECT_TRUE(left->ended());
  EXPECT_FALSE(expired->ended());
  now += std::chrono::milliseconds(20);
  EXPECT_TRUE(scheduler_->Step());
  EXPECT_EQ(expired->Wait().code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(scheduler_->stats().waiting, 0);
  RunAll();
  EXPECT_TRUE(runs->Wait().ok());
}

TEST_F(DecodeWaitingTest, SamplesTakeNoPlaceBeforeTheirPromptIsRun) {
  options_.cost = {1e-3, 3e-2, 1e-3, 5e-3, 0};  // a few rows a step
  for (const bool prefixes : {true, false}) {
    options_.prefix_cache = prefixes;
    Start();
    auto many = Job(Prompt(380, 1), 4, 7);
    many->samples = 16;
    const auto got = Submit(std::move(many));
    EXPECT_TRUE(scheduler_->Step());
    EXPECT_EQ(scheduler_->stats().running, 1);
    EXPECT_EQ(scheduler_->stats().waiting, 15);
    const auto chat = Submit(Job(Prompt(5, 2), 2));
    EXPECT_LE(StepsTo(*chat), 4);
    RunAll();
    ASSERT_TRUE(got->Wait().ok());
    for (int32_t i = 0; i < 16; ++i) {
      const Generated alone = Alone(*Job(Prompt(380, 1), 4, 7 + static_cast<uint64_t>(i)));
      EXPECT_EQ(got->got(i).text, alone.text) << i;
    }
    EXPECT_EQ(got->usage().completion_tokens, 64);
    EXPECT_EQ(scheduler_->stats().groups[0].used, 0);
  }
}

// More samples than places: those that end make room for others of the same prompt.
TEST_F(DecodeWaitingTest, SamplesBeginAfterOthersOfTheirPromptHaveEnded) {
  options_.sequences_max = 3;
  for (const bool prefixes : {true, false}) {
    options_.prefix_cache = prefixes;
    Start();
    auto job = Job(Prompt(70, 4), 6, 11);
    job->samples = 9;
    const auto got = Submit(std::move(job));
    RunAll();
    ASSERT_TRUE(got->Wait().ok());
    for (int32_t i = 0; i < 9; ++i) {
      const Generated alone = Alone(*Job(Prompt(70, 4), 6, 11 + static_cast<uint64_t>(i)));
      EXPECT_EQ(got->got(i).text, alone.text) << i;
    }
  }
}

// A bulk text whose turn it is does not fit beside a long stream. Short texts begin all the same,
// and it begins when the stream has ended, also where a text beside it has grown by then.
TEST_F(DecodeWaitingTest, AnAgedBulkTextHoldsUpNoneThatFitBesideIt) {
  int64_t now_ms = 1000;
  options_.now = [&] { return Clock::time_point(std::chrono::milliseconds(now_ms)); };
  options_.cache_blocks = {14};
  options_.sequences_max = 4;
  for (const bool grows : {false, true}) {
    SCOPED_TRACE(grows);
    StartFake();
    const auto stream = Submit(Job(Prompt(100, 1), 290));
    EXPECT_TRUE(scheduler_->Step());
    auto job = Job(Prompt(320, 2), 3);
    job->context.priority = Priority::kBulk;
    const auto bulk = Submit(std::move(job));
    int served = 0;
    std::shared_ptr<Recorder> small, large;
    while (!stream->ended()) {
      if (small == nullptr || small->ended()) {
        served += static_cast<int>(small != nullptr);
        small = Submit(Job(Prompt(5, 3), 2));
      }
      if (grows && served == 40 && large == nullptr) large = Submit(Job(Prompt(5, 4), 350));
      ++now_ms;
      EXPECT_TRUE(scheduler_->Step());
    }
    EXPECT_FALSE(bulk->ended());
    EXPECT_GE(served, grows ? 35 : 120);
    // Others come all the time.
    int steps = 0;
    for (; !bulk->ended() && steps < 100; ++steps) {
      if (small->ended()) small = Submit(Job(Prompt(5, 3), 2));
      ++now_ms;
      EXPECT_TRUE(scheduler_->Step());
    }
    EXPECT_LE(steps, 10);
    RunAll();
    EXPECT_TRUE(bulk->Wait().ok());
    if (grows) EXPECT_TRUE(large->Wait().ok());
    EXPECT_EQ(scheduler_->stats().groups[0].used, 0);
  }
}

}  // namespace
}  // namespace penstock::generate

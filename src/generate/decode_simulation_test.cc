// A text model and an encoder that share a processor, on a fake clock: the real schedulers, step
// former and gate, with models that take the time they are said to. Nothing sleeps.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "cpu/cpu_backend.h"
#include "generate/decode_scheduler.h"
#include "generate/tiny_model_test_util.h"
#include "sched/encoder_scheduler.h"

namespace penstock::generate {
namespace {

constexpr int32_t kContext = 1024;
// A step of one row 12 ms, of eight 16 ms; 1.2 ms for a row of a prompt.
constexpr StepCost kStepCost = {0.012, 0.016, 0.010, 0.0012, 0};
constexpr double kStepS = 0.016;  // with all streams
constexpr sched::BatchTimes kBatchTimes = {.fixed_s = 165e-6, .token_s = 194e-6, .work_s = 0};
constexpr double kEmbedS = 165e-6 + 16 * 194e-6;
constexpr double kBulkBatchS = sched::EncoderScheduler::kBulkBatchS;

double At(std::vector<double> values, double quantile) {
  if (values.empty()) return NAN;
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(quantile * static_cast<double>(values.size() - 1))];
}

// The time that steps take: of a run that is waited for from start to end, or of one that goes on by
// itself, a step behind the other.
struct StepTime {
  std::function<double()> now;
  std::function<void(double)> uses;    // the processor, or device, for so long
  std::function<void(double)> passes;  // until a step has finished
  bool ahead = false;
};

// The next token is always the same.
class FakeSteps final : public program::ProgramRun {
 public:
  explicit FakeSteps(StepTime time) : time_(std::move(time)), logits_(kTinyVocabulary) {
    logits_[5] = 1;
  }
  uint64_t block_bytes(size_t) const override { return 1; }
  uint64_t HeldBytes() const override { return 0; }
  bool draws() const override { return time_.ahead; }
  Status Start(const program::PackedBatch& batch) override {
    const double seconds = kStepCost.Seconds(static_cast<int32_t>(batch.ids.size()), 0);
    time_.uses(seconds);
    free_s_ = std::max(free_s_, time_.now()) + seconds;
    ends_s_.push_back(free_s_);
    EXPECT_LE(ends_s_.size(), time_.ahead ? 2u : 1u);
    return Status::Ok();
  }
  Status Finish() override {
    const double end_s = ends_s_.front();
    ends_s_.pop_front();
    if (end_s > time_.now()) time_.passes(end_s - time_.now());
    return Status::Ok();
  }
  Status Run(size_t /*index*/, const program::PackedBatch& batch,
             std::span<float* const> /*sinks*/) override {
    PENSTOCK_RETURN_IF_ERROR(Start(batch));
    return Finish();
  }
  program::FoundLogits Found(size_t) const override { return {{}, {}, time_.ahead ? 5 : -1}; }
  Expected<std::span<const float>> Rows(size_t, size_t) override {
    return std::span<const float>(logits_);
  }

 private:
  const StepTime time_;
  std::vector<float> logits_;
  double free_s_ = 0;          // from then on
  std::deque<double> ends_s_;  // of the steps that are under way
};

class FakeEncoder final : public program::EncoderRunner {
 public:
  explicit FakeEncoder(std::function<void(const program::PackedBatch&, double)> passes)
      : passes_(std::move(passes)) {}
  int32_t OutputWidth(program::EncoderOutput) const override { return 1; }
  Status Run(const program::PackedBatch& batch, program::EncoderOutput,
             std::span<float* const> sinks) override {
    for (float* const to : sinks) *to = 0;
    passes_(batch, kBatchTimes.Seconds(static_cast<double>(batch.tokens()), 0));
    return Status::Ok();
  }

 private:
  const std::function<void(const program::PackedBatch&, double)> passes_;
};

struct Load {
  int streams = 0;                // texts at any time, each followed by another
  double embeds_s = 0;            // single interactive embeddings a second
  std::optional<Priority> large;  // the encoder always has large requests of this class
  double large_from_s = 0;        // from then on
  int32_t prompt = 100;           // tokens
  double seconds = 60;
  bool ahead = false;    // the run draws tokens itself
  bool guesses = false;  // of tokens, which come before steps ahead
  double token_s = 0;    // of the host, for each token
};

struct Outcome {
  std::vector<double> gaps;                     // between two tokens of a text
  std::vector<double> waits;                    // of single embeddings, from arrival to result
  double large_s = 0, embed_s = 0, text_s = 0;  // of the processor
};

class Simulation {
 public:
  Simulation(const Simulation&) = delete;
  Simulation& operator=(const Simulation&) = delete;
  explicit Simulation(const Load& load)
      : load_(load), tiny_(kContext, *cpu::NewCpuBackend({1, false, ""})) {
    DecodeSchedulerOptions text;
    text.cache_blocks = {32 * load.streams + 32};
    text.cost = kStepCost;
    text.gate = &gate_;
    text.now = [this] { return Now(); };
    text.manual = true;
    text.speculation = load.guesses;
    text.model = "text";
    auto made =
        DecodeScheduler::Make(&tiny_.model(), text, &metrics_,
                              std::make_unique<FakeSteps>(StepTime{
                                  .now = [this] { return now_s_; },
                                  .uses = [this](double s) { out_.text_s += over_ ? 0 : s; },
                                  .passes = [this](double s) { Pass(s, /*texts=*/true); },
                                  .ahead = load.ahead}));
    EXPECT_TRUE(made.ok()) << made.status().ToString();
    texts_ = *std::move(made);
    sched::EncoderSchedulerOptions encode;
    encode.times = kBatchTimes;
    encode.gate = &gate_;
    encode.now = text.now;
    encode.manual = true;
    encode.model = "encoder";
    std::vector<std::unique_ptr<program::EncoderRunner>> runners;
    runners.push_back(
        std::make_unique<FakeEncoder>([this](const program::PackedBatch& batch, double s) {
          if (!over_) (batch.ids[0] == kLargeId ? out_.large_s : out_.embed_s) += s;
          Pass(s, /*texts=*/false);
        }));
    encoder_ = std::make_unique<sched::EncoderScheduler>(std::move(runners), encode, &metrics_);
  }

  Outcome Run() {
    next_embed_s_ = load_.embeds_s > 0 ? Gap() : INFINITY;
    while (now_s_ < load_.seconds) {
      KeepLoaded();
      // Twice: a model that gives the processor up may hand it to one that was asked before.
      bool ran = false;
      for (int round = 0; round < 2 && !ran; ++round) {
        ran = texts_->Step();
        ran = encoder_->Step() || ran;
      }
      if (!ran) Arrive(next_embed_s_);
    }
    over_ = true;
    while (texts_->Step() || encoder_->Step()) {
    }
    return out_;
  }

 private:
  static constexpr int32_t kLargeId = 1, kEmbedId = 2;

  class Stream final : public DecodeSink {
   public:
    explicit Stream(Simulation* of) : of_(of) {}
    void OnToken(int32_t, const GeneratedToken&, std::string_view) noexcept override {
      if (!first_) of_->out_.gaps.push_back(of_->now_s_ - last_s_);
      first_ = false;
      last_s_ = of_->now_s_;
      if (of_->load_.token_s > 0) of_->Pass(of_->load_.token_s, /*texts=*/true);
    }
    void OnSampleEnd(int32_t, FinishReason, std::string_view, int) noexcept override {}
    void OnEnd(const Status& status, const DecodeUsage&) noexcept override {
      EXPECT_TRUE(status.ok()) << status.ToString();
      --of_->open_streams_;
    }

   private:
    Simulation* const of_;
    bool first_ = true;
    double last_s_ = 0;
  };

  Clock::time_point Now() const {
    return Clock::time_point(
        std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(1 + now_s_)));
  }
  double Gap() { return std::exponential_distribution<double>(load_.embeds_s)(random_); }

  // A model has the processor for so long.
  void Pass(double seconds, bool texts) {
    const double until_s = now_s_ + seconds;
    // The other model's thread gets into line, now or when work arrives.
    const auto ask = [&] { texts ? encoder_->Step() : texts_->Step(); };
    ask();
    while (next_embed_s_ <= until_s && !over_) {
      Arrive(next_embed_s_);
      ask();
    }
    now_s_ = until_s;
  }

  void Arrive(double at_s) {
    now_s_ = std::max(now_s_, at_s);
    next_embed_s_ = at_s + Gap();
    Embed(Priority::kInteractive, kEmbedId, {16});
  }

  void KeepLoaded() {
    for (; open_streams_ < load_.streams; ++open_streams_) {
      auto job = std::make_unique<DecodeJob>();
      // No two prompts begin alike.
      job->prompt.assign(static_cast<size_t>(load_.prompt), 3);
      for (int32_t i = 0, n = ++streams_; i < 6; ++i, n /= 5)
        job->prompt[static_cast<size_t>(i)] = 4 + n % 5;
      job->sampling.max_tokens = 100 + static_cast<int32_t>(random_() % 100);
      job->sampling.ignore_eos = true;
      job->sampling.temperature = 0;
      job->sink = std::make_shared<Stream>(this);
      EXPECT_TRUE(texts_->Submit(std::move(job)).ok());
    }
    for (; load_.large && now_s_ >= load_.large_from_s && open_large_ < 2; ++open_large_) {
      Embed(*load_.large, kLargeId, std::vector<int32_t>(64, 100));
    }
  }

  void Embed(Priority priority, int32_t id, std::vector<int32_t> lengths) {
    auto job = std::make_unique<sched::EncodeJob>();
    size_t tokens = 0;
    for (const int32_t length : lengths) tokens += static_cast<size_t>(length);
    job->ids.assign(tokens, id);
    job->lengths = std::move(lengths);
    job->context.priority = priority;
    job->done = [this, id, began_s = now_s_](std::unique_ptr<sched::EncodeJob>,
                                             const Status& status) {
      EXPECT_TRUE(status.ok()) << status.ToString();
      if (id == kLargeId) {
        --open_large_;
      } else if (began_s > 1) {  // before, prompts are alone, in long steps
        out_.waits.push_back(now_s_ - began_s);
      }
    };
    EXPECT_TRUE(encoder_->Submit(std::move(job)).ok());
  }

  const Load load_;
  Outcome out_;
  std::mt19937 random_{11};
  double now_s_ = 0, next_embed_s_ = INFINITY;
  int open_streams_ = 0, open_large_ = 0;
  int32_t streams_ = 0;
  bool over_ = false;
  metrics::Metrics metrics_;
  gate::ComputeGate gate_;
  TinyModel tiny_;
  std::unique_ptr<DecodeScheduler> texts_;
  std::unique_ptr<sched::EncoderScheduler> encoder_;
};

Outcome Simulated(const Load& load) {
  const Outcome run = Simulation(load).Run();
  const double seconds = load.seconds;
  GTEST_LOG_(INFO) << "between tokens p50 " << 1e3 * At(run.gaps, 0.5) << ", p99 "
                   << 1e3 * At(run.gaps, 0.99) << ", most " << 1e3 * At(run.gaps, 1)
                   << " ms; embeddings p99 " << 1e3 * At(run.waits, 0.99) << ", most "
                   << 1e3 * At(run.waits, 1) << " ms; share of large requests "
                   << run.large_s / seconds << ", of embeddings " << run.embed_s / seconds
                   << ", of texts " << run.text_s / seconds;
  return run;
}

// The rule of the gate: one part in nine.
void ExpectBulkKeepsItsShare(const Outcome& run, const Load& load) {
  EXPECT_NEAR(run.large_s / load.seconds, 1.0 / 9, 0.005);
  EXPECT_GT((run.large_s + run.embed_s + run.text_s) / load.seconds, 0.999) << "it stood idle";
}

// With and without steps that are started ahead.
class DecodeSimulation : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Ahead, DecodeSimulation, testing::Bool());

TEST_P(DecodeSimulation, TextsAlone) {
  const Outcome run = Simulated({.streams = 8, .ahead = GetParam(), .guesses = !GetParam()});
  EXPECT_LE(At(run.gaps, 1), 2 * kStepS);
}

// What the host does with tokens, a third of a step here, is hidden where steps are started ahead.
TEST_P(DecodeSimulation, TheHostsTimeBesideAStep) {
  constexpr double kTokenS = kStepS / 3 / 8;
  const Outcome run = Simulated({.streams = 8, .ahead = GetParam(), .token_s = kTokenS});
  EXPECT_NEAR(At(run.gaps, 0.5), GetParam() ? kStepS : kStepS + 8 * kTokenS, 0.02 * kStepS);
}

// One that comes after a while waits for the step under way, and for the one that was started ahead;
// those that come often for the former alone.
TEST_P(DecodeSimulation, SingleEmbeddingsBesideTexts) {
  for (const double embeds_s : {0.3, 20.0}) {
    SCOPED_TRACE(embeds_s);
    const Outcome run = Simulated({.streams = 8, .embeds_s = embeds_s, .ahead = GetParam()});
    EXPECT_GT(run.waits.size(), 10u);
    // A prompt's chunk may be in a step.
    EXPECT_LE(At(run.waits, 0.99), 2 * kStepS + 2 * kEmbedS);
    EXPECT_LE(At(run.gaps, 0.99), 3 * kStepS);
  }
}

TEST_P(DecodeSimulation, TextsBesideBulkAndSingleEmbeddings) {
  for (const int32_t prompt : {100, 700}) {
    SCOPED_TRACE(prompt);
    const Load load = {.streams = 8,
                       .embeds_s = 10,
                       .large = Priority::kBulk,
                       .prompt = prompt,
                       .ahead = GetParam(),
                       .guesses = !GetParam()};
    const Outcome run = Simulated(load);
    EXPECT_GT(run.gaps.size(), 5000u);
    EXPECT_LE(At(run.gaps, 0.99), 2 * kStepS + kBulkBatchS);
    EXPECT_LE(At(run.gaps, 1), 3 * kStepS + kBulkBatchS);
    // The step under way, with a chunk of a prompt, and bulk's turn.
    EXPECT_GT(run.waits.size(), 500u);
    EXPECT_LE(At(run.waits, 0.99), 2 * kStepS + kBulkBatchS + kEmbedS);
    EXPECT_LE(At(run.waits, 1), 3 * kStepS + kBulkBatchS + kEmbedS);
    ExpectBulkKeepsItsShare(run, load);
  }
}

TEST_P(DecodeSimulation, OneTextBesideBulk) {
  const Load load = {
      .streams = 1, .large = Priority::kBulk, .ahead = GetParam(), .guesses = !GetParam()};
  const Outcome run = Simulated(load);
  EXPECT_LE(At(run.gaps, 1), 2 * kStepCost.one_s + kBulkBatchS);
  ExpectBulkKeepsItsShare(run, load);
}

// Requests of many texts that do not say that they are bulk take turns with texts as equals.
TEST_P(DecodeSimulation, TextsBesideLargeInteractiveRequests) {
  for (const int streams : {1, 8}) {
    SCOPED_TRACE(streams);
    const Load load = {.streams = streams,
                       .embeds_s = 5,
                       .large = Priority::kInteractive,
                       .ahead = GetParam(),
                       .guesses = !GetParam()};
    const Outcome run = Simulated(load);
    // Eight may wait for two batches in a row, where a step took longer than one.
    EXPECT_LE(At(run.gaps, 0.99),
              streams == 1 ? 2 * kStepCost.one_s + kBulkBatchS : 2 * kStepS + 2 * kBulkBatchS);
    EXPECT_GE(run.large_s / load.seconds, 0.45);
    EXPECT_GE(run.text_s / load.seconds, 0.45);
    // Rows of the large requests go first in turn.
    EXPECT_LE(At(run.waits, 0.99), 4 * (kStepS + kBulkBatchS));
  }
}

// The time that a text had alone is not held against it later.
TEST_P(DecodeSimulation, LargeRequestsAfterALongText) {
  const Load load = {
      .streams = 1, .large = Priority::kInteractive, .large_from_s = 30, .ahead = GetParam()};
  const Outcome run = Simulated(load);
  EXPECT_LE(At(run.gaps, 1), 2 * kStepCost.one_s + 2 * kBulkBatchS);
  EXPECT_NEAR(run.large_s / load.seconds, 0.25, 0.02);
}

TEST_P(DecodeSimulation, TextsBesideManyEmbeddings) {
  // A third of the processor's time.
  const Load load = {.streams = 8,
                     .embeds_s = 100,
                     .large = Priority::kBulk,
                     .ahead = GetParam(),
                     .guesses = !GetParam()};
  const Outcome run = Simulated(load);
  EXPECT_LE(At(run.gaps, 0.99), 3 * kStepS + 2 * kBulkBatchS);
  EXPECT_LE(At(run.waits, 0.99), 3 * kStepS + 2 * kBulkBatchS);
  EXPECT_NEAR(run.embed_s / load.seconds, 100 * kEmbedS, 0.03);
  ExpectBulkKeepsItsShare(run, load);
}

}  // namespace
}  // namespace penstock::generate

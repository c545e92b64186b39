// The inside of DecodeScheduler: decode_scheduler.cc has what callers see, decode_loop.cc the step
// thread, decode_ahead.cc steps that are started ahead, decode_running.cc which sequences run. Order
// and ownership: decode_scheduler.h.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/int_math.h"
#include "generate/decode_metrics.h"
#include "generate/decode_scheduler.h"
#include "generate/decode_sequence.h"
#include "generate/step_former.h"
#include "generate/waiting_texts.h"
#include "kv/cache_pools.h"
#include "kv/prefix_cache.h"
#include "sched/admission.h"
#include "sched/scheduler_metrics.h"
#include "threads/event_count.h"

namespace penstock::generate {

struct DecodeScheduler::Impl final : gate::GateClient {
  // Interactive texts that begin while a bulk one waits, before that is next.
  static constexpr int kBulkEvery = 8;
  // Bulk texts leave 1 / kInteractivePart of the places and of the blocks free.
  static constexpr int32_t kInteractivePart = 4;
  // Others that had the processor are expected to ask for it again for so long.
  static constexpr std::chrono::seconds kSharedFor{1};
  // A step is not started ahead in a turn that has lasted longer: what is accounted at once stays
  // below ComputeGate::kAheadNs, within which a text keeps its pace.
  static constexpr std::chrono::milliseconds kChainFor{150};

  class Counted;
  using Sequences = std::vector<std::unique_ptr<DecodeSequence>>;
  using AmountFn = sched::Admission::Amount (*)(const DecodeJob&);

  Impl(const TextModel* model_in, const DecodeSchedulerOptions& options_in,
       metrics::Metrics* metrics, std::unique_ptr<program::ProgramRun> run_in);
  ~Impl() override = default;

  // --- Any thread
  void Start();
  Status Take(std::unique_ptr<DecodeJob> job, AmountFn amount);
  double SecondsOf(const DecodeJob& job, const sched::Admission::Amount& amount) const;
  Status CheckBytes(const DecodeJob& job) const;
  void Stop();
  void ReleaseSoon();
  gate::GateDemand Demand() const override;
  int64_t PatienceNs() const override { return patience_ns.load(std::memory_order_relaxed); }
  bool HasWork() const {
    return jobs[0].load(std::memory_order_seq_cst) + jobs[1].load(std::memory_order_seq_cst) > 0;
  }
  Clock::time_point Now() const { return options.now ? options.now() : Clock::now(); }

  // --- The step thread: which texts run (decode_running.cc)
  void TakeInbox();
  void EndDead(Clock::time_point now);
  WaitingTexts& Waiting(Priority priority) { return waiting[static_cast<size_t>(priority)]; }
  void Activate(Clock::time_point now);
  bool BeginNext(Clock::time_point now);
  bool TryBegin(Priority priority, bool aged, Clock::time_point now);
  Expected<std::unique_ptr<DecodeSequence>> NewSequence(const WaitingTexts::Next& next);
  // Memory of one text of the job, while it runs.
  int64_t TextBytes(const DecodeJob& job) const;
  const DecodeSequence* SiblingOf(const WaitingTexts::Next& next) const;
  bool BulkMayBegin() const;
  kv::Sequence* CacheOf(const WaitingTexts::Next& next, int32_t* remaining);
  bool Fits(const WaitingTexts::Next& next, bool aged);
  GroupCounts BlocksFor(int32_t tokens) const;
  void KeepFor(const WaitingTexts::Next& next);
  void EndKept();
  bool FitsBeside(const WaitingTexts::Next& next) const;
  bool PreemptBeside();
  bool PreemptBulk();
  bool PreemptForClient(const TakenJob& job);
  bool ParkOne();
  void GiveGrammars(Clock::time_point now);
  bool OnlyGrammarsAreAwaited() const;
  void Preempt(DecodeSequence* sequence);

  // --- The step thread: its steps (decode_loop.cc)
  void Main();
  bool AwaitWork();
  bool StepOnce();
  bool TakeTurn();
  bool Streams() const;
  bool HandleStep(bool is_formed);
  void EndFailed(const Status& status);
  void ClearBatch();
  Status StartStep(const std::vector<DecodeSequence*>& formed, Clock::time_point began);
  void AddPick(int32_t row, program::PickWant want, const std::optional<sample::DrawRule>& rule);
  Status StartRun();
  Status FinishStep();
  void AddScores(DecodeSequence* sequence);
  void Deliver(const std::vector<DecodeSequence*>& formed, Clock::time_point now);
  // Shares the time of a step out among its texts, and charges their clients.
  void Charge(const std::vector<DecodeSequence*>& formed, double seconds);
  bool GiveScores(DecodeSequence* sequence);
  void EndPrompt(const std::shared_ptr<TakenJob>& owner, Clock::time_point now);
  void TakeTokens(DecodeSequence* sequence, Clock::time_point now);
  void TakeToken(DecodeSequence* sequence, size_t row, Clock::time_point now);
  Expected<bool> TakeForced(DecodeSequence* sequence);
  void EndText(DecodeSequence* sequence);
  void LetSamplesBegin(const std::shared_ptr<TakenJob>& owner);
  // Ends a job, and its texts, which leave the lists.
  void EndJob(TakenJob* owner, const Status& status);
  void Drop(const std::function<bool(const DecodeSequence&)>& dead);
  void ReleaseIdle(bool all);
  void ShowCounts();

  // --- The step thread: steps that are started ahead (decode_ahead.cc)
  bool OthersWait();
  bool GoesOn(DecodeSequence* sequence, bool* takes_part) const;
  void StartAhead();
  void ForgetAhead();
  bool StepAhead();
  void Drain();

  const TextModel* const model;
  const DecodeSchedulerOptions options;
  sched::SchedulerMetrics metrics;
  DecodeMetrics series;
  const std::unique_ptr<program::ProgramRun> run;
  kv::CachePools pools;
  std::optional<kv::PrefixCache> prefixes;
  gate::ComputeGate own_gate;
  gate::ComputeGate* const gate;
  EventCount work_ready;
  sched::Admission admission;
  std::array<std::atomic<int64_t>, kPriorities> jobs{};  // taken and not ended, by class
  std::atomic<bool> release_wanted{false};

  std::mutex inbox_mutex;
  std::vector<std::shared_ptr<TakenJob>> inbox;  // under inbox_mutex
  uint64_t last_number = 0;                      // under inbox_mutex
  std::atomic<bool> inbox_full{false};

  // --- The step thread's own
  std::atomic<int64_t> patience_ns{INT64_MAX};  // the last step's time, if it had a text's token
  gate::ComputeGate::Turn turn;
  // Another engine had the processor when this one asked for its turn: it is expected to come
  // again.
  Clock::time_point shared_until;
  bool awaits_grammars = false;  // the last step had nothing to do but wait for them
  StepFormer former;
  std::vector<std::shared_ptr<TakenJob>> arrived;  // out of the inbox
  size_t arrived_next = 0;                         // those before it wait
  std::array<WaitingTexts, kPriorities> waiting;
  int64_t texts_waiting = 0;  // of all jobs
  Clock::time_point swept;    // those that wait
  Sequences running;          // in the order of arrival
  Sequences parked;           // without blocks, until their grammars are there
  int passed_bulk = 0;        // interactive ones that began while the next bulk one waited
  std::shared_ptr<sample::SamplerScratch> scratch = std::make_shared<sample::SamplerScratch>();
  std::optional<kv::Sequence> trial;    // whether a text fits; empty between two looks
  std::vector<int32_t> joined;          // ids of a prompt and its text
  std::vector<DecodeSequence*> formed;  // the running ones, while a step is formed
  std::vector<int32_t> ids;
  std::vector<int32_t> offsets;
  std::vector<program::CachedSequence> sequences;
  std::vector<int32_t> picks;
  std::vector<program::PickWant> wants;  // of each pick
  std::vector<sample::DrawRule> draws;   // of each pick
  std::vector<int32_t> sources;          // of each row of a step that is started ahead
  // A step that was started.
  struct Flight {
    Clock::time_point began;  // or when the one before it had finished
    int32_t rows = 0, drafts = 0, picks = 0, scores = 0;
  };
  Flight current;
  std::optional<Flight> ahead;  // started while `current` is under way
  int under_way = 0;            // steps that were started and not waited for
  Clock::time_point turn_began;
  std::vector<int32_t> drafted;        // guesses of one text, while its tokens are taken
  std::vector<GeneratedToken> scores;  // of one prompt, while they are given out
  std::vector<int32_t> released;       // blocks
  // The text that did not fit at the last look, and the blocks there were for it.
  struct Tried {
    uint64_t number = 0;  // of its job; 0: none
    int32_t sample = 0;
    GroupCounts room{};
    bool operator==(const Tried&) const = default;
  };
  Tried tried;
  // The bulk text for which blocks are kept, and how many.
  struct Kept {
    uint64_t number = 0;  // of its job; 0: none
    int32_t sample = 0;
    GroupCounts blocks{};
  };
  Kept kept;
  uint64_t evictions = 0;  // shown in the series, of all groups
  std::thread thread;
};

}  // namespace penstock::generate

// The step thread of DecodeScheduler. Steps ahead are in decode_ahead.cc.
#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "generate/decode_scheduler_impl.h"
#include "log/exception_status.h"
#include "log/log.h"
#include "metrics/stages.h"
#include "sample/token_score.h"
#include "sched/clock_math.h"

namespace penstock::generate {
namespace {

// Texts that can do nothing but wait for their grammars look for them this often.
constexpr std::chrono::nanoseconds kGrammarEvery = std::chrono::milliseconds(1);

StepLimits LimitsOf(const DecodeSchedulerOptions& options, const TextModel& model,
                    const program::ProgramRun& run) {
  StepLimits limits;
  if (options.speculation) limits.draft_rows_max = DecodeScheduler::kDraftRows;
  limits.rope_switch = run.rope_switch();
  limits.rows_max = std::min(DecodeScheduler::kPromptRows, model.context()) + options.sequences_max;
  limits.scored_rows_max = DecodeScheduler::kScoredRows;
  limits.cost = options.cost;
  // A chunk of a prompt that is alone makes another one wait: little beside what a small model's
  // prompts take, and enough that a large model's weights are read for many rows.
  if (limits.cost.known()) limits.alone_s = std::clamp(8 * limits.cost.one_s, 0.080, 0.250);
  return limits;
}

}  // namespace

DecodeScheduler::Impl::Impl(const TextModel* model_in, const DecodeSchedulerOptions& options_in,
                            metrics::Metrics* metrics_in,
                            std::unique_ptr<program::ProgramRun> run_in)
    : model(model_in),
      options(options_in),
      metrics(sched::SchedulerMetrics::Of(metrics_in, options.model)),
      series(DecodeMetrics::Of(metrics_in, options.model, run_in->groups())),
      run(std::move(run_in)),
      pools(run->groups(), options.cache_blocks, run->page_blocks()),
      own_gate(1),
      gate(options.gate != nullptr ? options.gate : &own_gate),
      admission({options.max_queued_tokens, options.max_queued_rows}, &metrics, &work_ready),
      turn(gate, this),
      former(LimitsOf(options, *model, *run)),
      released(static_cast<size_t>(std::ranges::max(options.cache_blocks))) {
  if (options.prefix_cache) prefixes.emplace(&pools);
  trial.emplace(&pools, prefixes ? &*prefixes : nullptr, model->context());
  const auto most = static_cast<size_t>(options.sequences_max);
  formed.reserve(most);
  running.reserve(most);
  offsets.reserve(most + 1);
  sequences.reserve(most);
  const size_t picks_max = most + size_t{kScoredRows} + size_t{kDraftRows};
  picks.reserve(picks_max);
  wants.reserve(picks_max);
  draws.reserve(picks_max);
  sources.reserve(most);
  ids.reserve(static_cast<size_t>(LimitsOf(options, *model, *run).rows_max));
}

// --- Any thread -------------------------------------------------------------------------------

void DecodeScheduler::Impl::Start() {
  ShowCounts();
  if (!options.manual) thread = std::thread([this] { Main(); });
}

// Counts a job in; counts it out again unless it is kept.
class DecodeScheduler::Impl::Counted {
 public:
  Counted(sched::Admission* admission, const TakenJob& job)
      : admission_(admission), priority_(job.priority()), amount_(job.counted) {}
  ~Counted() {
    if (counted_) admission_->CountOut(priority_, amount_, false);
  }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

  Status CountIn() {
    Status status = admission_->CountIn(priority_, amount_);
    counted_ = status.ok();
    if (counted_ || status.code() == StatusCode::kResourceExhausted) {
      admission_->Ask(priority_, amount_);
    }
    return status;
  }
  void Keep() { counted_ = false; }

 private:
  sched::Admission* const admission_;
  const Priority priority_;
  const sched::Admission::Amount amount_;
  bool counted_ = false;
};

// What a job will take, without what the cache may save: its prompt in chunks, and its texts, as
// long as `amount` takes them for, beside others in steps of a few rows. 0: not known.
double DecodeScheduler::Impl::SecondsOf(const DecodeJob& job,
                                        const sched::Admission::Amount& amount) const {
  const StepCost& cost = options.cost;
  if (!cost.known()) return 0;
  const auto prompt = static_cast<int32_t>(job.prompt.size());
  const auto chunks = static_cast<double>(CeilDiv(job.prompt.size(), size_t{kPromptRows}));
  const auto text = static_cast<double>(std::max<int64_t>(0, amount.units - prompt));
  return chunks * cost.fixed_s + cost.row_s * prompt + cost.work_s * StepCost::Work(prompt, 0) +
         text * (cost.few_s / StepCost::kFewRows + cost.work_s * prompt);
}

Status DecodeScheduler::Impl::Take(std::unique_ptr<DecodeJob> job, AmountFn amount) {
  PENSTOCK_RETURN_IF_ERROR(CheckBytes(*job));
  auto owner = std::make_shared<TakenJob>();
  owner->counted = amount(*job);
  owner->counted.seconds = SecondsOf(*job, owner->counted);
  owner->submitted = Now();
  owner->usage.prompt_tokens = static_cast<int32_t>(job->prompt.size());
  owner->texts = job->prompt_only ? 1 : job->samples;
  owner->open_samples = job->samples;
  owner->job = std::move(job);
  Counted counted(&admission, *owner);
  PENSTOCK_RETURN_IF_ERROR(counted.CountIn());
  const Priority priority = owner->priority();
  const Clock::time_point submitted = owner->submitted;
  std::unique_lock lock(inbox_mutex);
  owner->number = last_number + 1;
  inbox.push_back(std::move(owner));
  ++last_number;
  counted.Keep();
  jobs[static_cast<size_t>(priority)].fetch_add(1, std::memory_order_seq_cst);
  inbox_full.store(true, std::memory_order_seq_cst);
  lock.unlock();
  if (priority == Priority::kInteractive) gate->SeeInteractive(sched::Nanoseconds(submitted));
  work_ready.NotifyOne();
  return Status::Ok();
}

// Whether the memory of one of its texts can ever be had. It is taken when the text begins.
Status DecodeScheduler::Impl::CheckBytes(const DecodeJob& job) const {
  ScopedMemory memory(job.context.memory.get());
  Status taken = memory.Take(TextBytes(job));
  return taken.code() == StatusCode::kPayloadTooLarge ? taken : Status::Ok();
}

void DecodeScheduler::Impl::Stop() {
  admission.Stop();
  work_ready.NotifyAll();
  if (thread.joinable()) thread.join();
}

void DecodeScheduler::Impl::ReleaseSoon() {
  release_wanted.store(true, std::memory_order_seq_cst);
  work_ready.NotifyOne();
}

gate::GateDemand DecodeScheduler::Impl::Demand() const {
  gate::GateDemand demand;
  demand.interactive = jobs[0].load(std::memory_order_seq_cst) > 0;
  demand.bulk = demand.bulk_pending = jobs[1].load(std::memory_order_seq_cst) > 0;
  return demand;
}

// --- The step thread --------------------------------------------------------------------------

void DecodeScheduler::Impl::Main() {
  pthread_setname_np(pthread_self(), "decode-steps");
  run->PlaceCaller();
  while (AwaitWork()) {
    // Exceptions are caught nearer to their job; here all jobs that run are at fault.
    if (RunGuarded("the step thread", [&] {
          while (StepOnce()) {
          }
        })) {
      continue;
    }
    Drain();
    turn.Drop();
    while (!running.empty()) {
      EndJob(running.front()->owner.get(),
             MakeStatus(StatusCode::kResourceExhausted, "out of memory"));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

bool DecodeScheduler::Impl::AwaitWork() {
  while (true) {
    const EventCount::Key key = work_ready.PrepareWait();
    if (std::exchange(awaits_grammars, false)) {
      if (inbox_full.load(std::memory_order_seq_cst)) {
        work_ready.CancelWait();
      } else {
        work_ready.Wait(key, kGrammarEvery.count());
      }
      return true;
    }
    const bool release = release_wanted.exchange(false, std::memory_order_seq_cst);
    const bool over = admission.stopping() && admission.empty();
    if (over || release || HasWork()) {
      work_ready.CancelWait();
      if (release) ReleaseIdle(true);
      if (over) return false;
      if (HasWork()) return true;
      continue;
    }
    const bool releases = options.idle_release_s > 0 && run->CommittedBytes() > 0;
    const bool woken = !releases;
    work_ready.Wait(key, releases ? static_cast<int64_t>(options.idle_release_s * 1e9) : -1);
    if (!woken && !HasWork()) ReleaseIdle(false);
  }
}

bool DecodeScheduler::Impl::TakeTurn() {
  const auto asked = Now();
  gate::ComputeGate::Answer answer = turn.Ask();
  if (answer == gate::ComputeGate::Answer::kWaits) shared_until = asked + kSharedFor;
  if (answer == gate::ComputeGate::Answer::kWaits && options.manual) return false;
  if (answer == gate::ComputeGate::Answer::kWaits) answer = turn.Wait();
  if (answer != gate::ComputeGate::Answer::kGranted) return false;
  metrics.classes[static_cast<size_t>(turn.priority())].gate_wait->Observe(
      sched::Seconds(Now() - asked));
  return true;
}

bool DecodeScheduler::Impl::StepOnce() {
  if (ahead) return StepAhead();
  TakeInbox();
  const Clock::time_point now = Now();
  EndDead(now);
  GiveGrammars(now);
  if (OnlyGrammarsAreAwaited()) {
    awaits_grammars = true;
    turn.Drop();
    return false;
  }
  if (running.empty() && waiting[0].empty() && waiting[1].empty()) {
    turn.Drop();
    ShowCounts();
    return false;
  }
  if (!TakeTurn()) return false;
  const Clock::time_point began = Now();
  TakeInbox();
  EndDead(began);
  Activate(began);
  formed.clear();
  for (const auto& sequence : running) {
    formed.push_back(sequence.get());
    // Prompts of clients that had little of the processor go first.
    if (!sequence->decodes()) {
      sequence->turn_s = Waiting(sequence->owner->priority()).ShareOf(*sequence->owner);
    }
  }
  const bool others_wait = began < shared_until || gate->waiting() > 0;
  const StepDemand demand = {turn.priority(), others_wait, began};
  const int32_t rows =
      former.Form(&formed, demand, [&](DecodeSequence* sequence) { Preempt(sequence); });
  if (rows == 0) {
    turn.End(0, Demand());
    const auto awaits = [](const auto& sequence) { return sequence->awaits_grammar; };
    awaits_grammars = !parked.empty() || std::ranges::any_of(running, awaits);
    return !awaits_grammars;
  }
  turn_began = began;
  const Status status = StartStep(formed, began);
  if (status.ok()) return HandleStep(/*is_formed=*/true);
  turn.End(std::max<int64_t>(1, std::chrono::nanoseconds(Now() - began).count()), Demand());
  EndFailed(status);
  return true;
}

// The step `current` is under way, of the sequences in `formed`: starts the next one where that may
// be, waits for this one, and gives out its tokens.
bool DecodeScheduler::Impl::HandleStep(bool is_formed) {
  if (turn.priority() == Priority::kInteractive) {
    gate->SeeInteractive(sched::Nanoseconds(current.began));
  }
  if (Streams()) gate->SeeStream(sched::Nanoseconds(current.began));
  StartAhead();
  const Status status = FinishStep();
  const Clock::time_point done = Now();
  const auto took = done - current.began;
  const int64_t took_ns = std::max<int64_t>(1, std::chrono::nanoseconds(took).count());
  patience_ns.store(Streams() ? took_ns : INT64_MAX, std::memory_order_relaxed);
  if (!status.ok() && ahead) Drain();
  if (ahead) {
    ahead->began = done;
  } else {
    const auto turn_took = done - turn_began;
    metrics.classes[static_cast<size_t>(turn.priority())].gate_turn->Observe(
        sched::Seconds(turn_took));
    turn.End(std::max<int64_t>(1, std::chrono::nanoseconds(turn_took).count()), Demand());
  }
  if (!status.ok()) {
    EndFailed(status);
    return true;
  }
  series.step_duration.Observe(sched::Seconds(took));
  series.step_rows.Observe(current.rows);
  if (is_formed) former.Observe(sched::Seconds(took));
  admission.Drained({current.rows - current.drafts, current.picks - current.scores},
                    sched::Seconds(took), 1);
  Charge(formed, sched::Seconds(took));
  Deliver(formed, done);
  series.sample_duration.Observe(sched::Seconds(Now() - done));
  ShowCounts();
  return true;
}

// One job less; the others are tried again.
void DecodeScheduler::Impl::EndFailed(const Status& status) {
  const auto failed = std::find_if(formed.begin(), formed.end(),
                                   [](const auto* sequence) { return sequence->rows > 0; });
  if (failed == formed.end()) return;
  EndJob((*failed)->owner.get(), Status(StatusCode::kInternal, status.message()));
}

// Whether an interactive text has its next token of the step that is formed.
bool DecodeScheduler::Impl::Streams() const {
  return std::any_of(formed.begin(), formed.end(), [](const DecodeSequence* sequence) {
    return sequence->rows > 0 && sequence->decodes() &&
           sequence->owner->priority() == Priority::kInteractive;
  });
}

Status DecodeScheduler::Impl::StartStep(const std::vector<DecodeSequence*>& with,
                                        Clock::time_point began) {
  ClearBatch();
  current = {began, 0, 0, 0, 0};
  const bool run_draws = run->draws();
  for (DecodeSequence* sequence : with) {
    sequence->logit_row = sequence->score_row = -1;
    if (sequence->rows == 0) continue;
    TakenJob* const owner = sequence->owner.get();
    if (owner->started == Clock::time_point()) {
      owner->started = began;
      owner->usage.queue_s = sched::Seconds(began - owner->submitted);
      metrics.queue_duration.Observe(owner->usage.queue_s);
      metrics::RequestTrace* const trace = owner->job->context.trace.get();
      if (trace != nullptr) trace->Enter(metrics::Stage::kPrefill, began);
    }
    const auto step_ids = sequence->StepIds(&joined);
    sequence->CountCached();
    AddScores(sequence);
    ids.insert(ids.end(), step_ids.begin(), step_ids.end());
    const kv::Sequence& cache = sequence->cache;
    offsets.push_back(static_cast<int32_t>(ids.size()));
    sequences.push_back({cache.length(), cache.tables(), sequence->long_rope});
    if (sequence->rows < sequence->remaining()) continue;
    sequence->logit_row = static_cast<int32_t>(picks.size());
    // The row of the last token, and those of the guessed ones.
    const auto drafts = static_cast<int32_t>(sequence->drafts.size());
    for (int32_t row = drafts; row >= 0; --row) {
      AddPick(static_cast<int32_t>(ids.size()) - 1 - row, sequence->stream.want(),
              run_draws && drafts == 0 ? sequence->stream.RuleAfter(0) : std::nullopt);
    }
    current.drafts += drafts;
  }
  current.rows = static_cast<int32_t>(ids.size());
  current.picks = static_cast<int32_t>(picks.size());
  return StartRun();
}

void DecodeScheduler::Impl::ClearBatch() {
  ids.clear();
  offsets.assign(1, 0);
  sequences.clear();
  picks.clear();
  wants.clear();
  draws.clear();
  sources.clear();
}

void DecodeScheduler::Impl::AddPick(int32_t row, program::PickWant want,
                                    const std::optional<sample::DrawRule>& rule) {
  picks.push_back(row);
  wants.push_back(want);
  draws.push_back(rule.value_or(sample::DrawRule{}));
}

Status DecodeScheduler::Impl::StartRun() {
  PENSTOCK_RETURN_IF_ERROR(run->Start({.ids = ids,
                                       .offsets = offsets,
                                       .cached = sequences,
                                       .picks = picks,
                                       .wants = wants,
                                       .draws = draws,
                                       .sources = sources}));
  ++under_way;
  return Status::Ok();
}

Status DecodeScheduler::Impl::FinishStep() {
  --under_way;
  return run->Finish();
}

// Wants the logits that score tokens of its prompt.
void DecodeScheduler::Impl::AddScores(DecodeSequence* sequence) {
  if (!sequence->scores()) return;
  sequence->score_row = static_cast<int32_t>(picks.size());
  const int32_t first = sequence->score_from() - sequence->cache.length();
  for (int32_t i = 0; i < sequence->ScoredRows(sequence->rows); ++i) {
    AddPick(static_cast<int32_t>(ids.size()) + first + i, program::PickWant::kBestAndSums,
            std::nullopt);
    ++current.scores;
  }
}

void DecodeScheduler::Impl::Deliver(const std::vector<DecodeSequence*>& with,
                                    Clock::time_point now) {
  // All caches first: what ends below leaves the lists.
  for (DecodeSequence* sequence : with) {
    if (sequence->rows == 0) continue;
    auto step_ids = sequence->StepIds(&joined);
    // What was guessed is a part of the text once it has come true.
    step_ids = step_ids.first(step_ids.size() - sequence->drafts.size());
    if (step_ids.size() > 1) series.prompt_tokens.Add(step_ids.size());
    sequence->cache.Append(step_ids);
  }
  for (size_t i = 0; i < running.size();) {
    DecodeSequence* const sequence = running[i].get();
    const size_t before = running.size();
    const bool wanted = sequence->score_row < 0 || GiveScores(sequence);
    if (wanted && sequence->rows > 0 && sequence->logit_row >= 0) TakeTokens(sequence, now);
    // One that ended is gone, perhaps with others of its job.
    i = running.size() == before ? i + 1 : 0;
  }
}

// False: the job has ended.
bool DecodeScheduler::Impl::GiveScores(DecodeSequence* sequence) {
  const std::shared_ptr<TakenJob> owner = sequence->owner;
  const int32_t end = std::min(sequence->cache.length(), sequence->prompt_tokens() - 1);
  auto row = static_cast<size_t>(std::exchange(sequence->score_row, -1));
  Status status = Status::Ok();
  try {
    scores.clear();
    if (sequence->scored == 0) scores.push_back({sequence->id(0), 0, {}});
    for (int32_t at = sequence->score_from(); at < end && status.ok(); ++at) {
      GeneratedToken& token = scores.emplace_back();
      token.id = sequence->id(at + 1);
      const program::FoundLogits found = run->Found(row);
      const auto logits = run->Row(row++);
      status = logits.status();
      if (!status.ok()) break;
      status = sample::ScoreToken({*logits, found.parts, found.blocks}, token.id,
                                  static_cast<size_t>(owner->job->sampling.top_logprobs),
                                  &token.logprob, &token.top);
    }
  } catch (...) {
    status = ExceptionStatus();
  }
  if (!status.ok()) {
    EndJob(owner.get(), status);
    return false;
  }
  sequence->scored += static_cast<int32_t>(scores.size());
  if (!scores.empty()) owner->job->sink->OnPrompt(scores);
  return true;
}

void DecodeScheduler::Impl::EndPrompt(const std::shared_ptr<TakenJob>& owner,
                                      Clock::time_point now) {
  owner->usage.prompt_s = sched::Seconds(now - owner->started);
  series.cached_tokens.Add(static_cast<uint64_t>(owner->usage.cached_tokens));
  for (int32_t i = 0; i < owner->job->samples; ++i) {
    owner->job->sink->OnSampleEnd(i, FinishReason::kLength, {}, -1);
  }
  EndJob(owner.get(), Status::Ok());
}

// The token of the sequence's row, and as long as guesses come true those of the rows after it.
void DecodeScheduler::Impl::TakeTokens(DecodeSequence* sequence, Clock::time_point now) {
  auto row = static_cast<size_t>(std::exchange(sequence->logit_row, -1));
  sequence->rows = 0;
  drafted.assign(sequence->drafts.begin(), sequence->drafts.end());
  sequence->drafts.clear();
  series.drafted_tokens.Add(drafted.size());
  const size_t before = running.size();
  for (const int32_t guess : drafted) {
    const int32_t tokens = sequence->tokens();
    TakeToken(sequence, row++, now);
    // A text that ended is gone. Forced tokens were not guessed.
    if (running.size() != before || sequence->tokens() != tokens + 1) return;
    if (sequence->text.back() != guess) return;
    sequence->cache.Append({&guess, 1});
    series.accepted_tokens.Add();
  }
  TakeToken(sequence, row, now);
}

void DecodeScheduler::Impl::TakeToken(DecodeSequence* sequence, size_t row, Clock::time_point now) {
  // Ending the last sample frees the sequence, not the job.
  const std::shared_ptr<TakenJob> owner = sequence->owner;
  if (owner->job->prompt_only) return EndPrompt(owner, now);
  Status status = Status::Ok();
  try {
    status = sequence->stream.Take(run.get(), row);
    if (status.ok()) {
      const int32_t id = sequence->stream.token().id;
      sequence->text.push_back(id);
      // What goes on with another token is void.
      if (sequence->ahead_row >= 0 && run->Found(row).drawn != id) sequence->ahead_row = -1;
    }
  } catch (...) {
    status = ExceptionStatus();
  }
  if (!status.ok()) return EndJob(owner.get(), status);
  if (owner->first_token == Clock::time_point()) {
    owner->first_token = now;
    owner->usage.prompt_s = sched::Seconds(now - owner->started);
    series.first_token.Observe(sched::Seconds(now - owner->submitted));
    series.cached_tokens.Add(static_cast<uint64_t>(owner->usage.cached_tokens));
    LetSamplesBegin(owner);
  }
  if (sequence->last_token != Clock::time_point()) {
    series.inter_token.Observe(sched::Seconds(now - sequence->last_token));
  }
  sequence->last_token = now;
  owner->usage.decode_s = sched::Seconds(now - owner->first_token);
  while (true) {
    ++owner->usage.completion_tokens;
    series.generated_tokens.Add();
    const TextStream& stream = sequence->stream;
    owner->job->sink->OnToken(sequence->sample, stream.token(), stream.text());
    if (stream.end()) return EndText(sequence);
    const Expected<bool> forced = TakeForced(sequence);
    if (!forced.ok()) return EndJob(owner.get(), forced.status());
    if (!*forced) return sequence->FollowRope(*run);
  }
}

// A token that needs no step of its own: the next one computes its keys and values.
Expected<bool> DecodeScheduler::Impl::TakeForced(DecodeSequence* sequence) {
  try {
    PENSTOCK_ASSIGN_OR_RETURN(const bool taken, sequence->stream.TakeForced());
    if (taken) sequence->text.push_back(sequence->stream.token().id);
    return taken;
  } catch (...) {
    return ExceptionStatus();
  }
}

void DecodeScheduler::Impl::EndText(DecodeSequence* sequence) {
  const std::shared_ptr<TakenJob> owner = sequence->owner;
  const TextStream& stream = sequence->stream;
  owner->job->sink->OnSampleEnd(sequence->sample, *stream.end(), {}, stream.stop_string());
  if (--owner->open_samples == 0) return EndJob(owner.get(), Status::Ok());
  Drop([&](const DecodeSequence& one) { return &one == sequence; });
}

// The prompt is run, and its blocks can be shared.
void DecodeScheduler::Impl::LetSamplesBegin(const std::shared_ptr<TakenJob>& owner) {
  if (std::exchange(owner->prompt_run, true) || owner->texts_begun == owner->texts) return;
  Waiting(owner->priority()).Add(owner);
}

void DecodeScheduler::Impl::Charge(const std::vector<DecodeSequence*>& with, double seconds) {
  const double row_s = seconds / current.rows;
  for (const DecodeSequence* sequence : with) {
    Waiting(sequence->owner->priority()).Charge(*sequence->owner, row_s * sequence->rows);
  }
}

void DecodeScheduler::Impl::Drop(const std::function<bool(const DecodeSequence&)>& dead) {
  std::erase_if(running, [&](const auto& sequence) { return dead(*sequence); });
  tried = {};
}

void DecodeScheduler::Impl::EndJob(TakenJob* owner, const Status& status) {
  if (std::exchange(owner->ended, true)) return;
  // Its texts own it.
  const std::shared_ptr<TakenJob> held = owner->shared_from_this();
  size_t waited = Waiting(owner->priority()).Remove(owner);
  waited += std::erase_if(parked, [&](const auto& one) { return one->owner.get() == owner; });
  texts_waiting -= owner->texts - owner->texts_begun + static_cast<int64_t>(waited);
  Drop([&](const DecodeSequence& sequence) { return sequence.owner.get() == owner; });
  if (kept.number == owner->number) EndKept();
  if (status.code() != StatusCode::kOk) metrics.CountDropped(status.code(), 1);
  const Priority priority = owner->priority();
  jobs[static_cast<size_t>(priority)].fetch_sub(1, std::memory_order_seq_cst);
  admission.CountOut(priority, owner->counted, false);
  owner->job->sink->OnEnd(status, owner->usage);
}

void DecodeScheduler::Impl::ReleaseIdle(bool all) {
  for (size_t g = 0; g < pools.size(); ++g) {
    kv::BlockPool& from = pools[g];
    if (all) from.EvictIdleSince(INT64_MAX, from.blocks());
    const size_t count = from.Uncommit(0, released);
    run->ReleaseBlocks(g, std::span(released).first(count));
  }
  ShowCounts();
}

void DecodeScheduler::Impl::ShowCounts() {
  series.running.Set(static_cast<int64_t>(running.size()));
  series.waiting.Set(texts_waiting);
  uint64_t evicted = 0;
  for (size_t g = 0; g < pools.size(); ++g) {
    const kv::BlockCounts counts = pools[g].counts();
    series.groups[g].Set(counts.blocks, counts.in_use, counts.idle);
    evicted += counts.evictions;
  }
  series.evictions.Add(evicted - std::exchange(evictions, evicted));
}

}  // namespace penstock::generate

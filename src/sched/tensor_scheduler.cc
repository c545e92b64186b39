#include "sched/tensor_scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <mutex>
#include <optional>

#include "batch/batch_ring.h"
#include "batch/run_writer.h"
#include "batch/tensor_slots.h"
#include "log/exception_status.h"
#include "metrics/thread_slot.h"
#include "sched/call_count.h"
#include "sched/clock_math.h"
#include "sched/tensor_forward.h"

namespace penstock::sched {
namespace {

// A job of more rows than this part of a batch goes through the backlog.
constexpr uint32_t kSmallParts = 8;
// Batches of a ring: those that run, one that is open, and some for when the processor is busy.
constexpr size_t kRingBatches = 8;
constexpr size_t kRingBatchesMin = 4;
// Longest bulk batch while interactive work was seen in the last second.
constexpr double kBulkBatchS = 0.025;
// A long backlog is searched for dead jobs as a whole this often; its oldest before each batch.
constexpr int64_t kSweepNs = 20'000'000;
// Clients that were seen are expected to come again for so long.
constexpr int64_t kSeveralNs = 1'000'000'000;

constexpr AdmissionWords kWords = {"bytes", "rows",
                                   "--max-queued-tensor-bytes, --max-queued-tensor-rows"};

batch::TensorSlots::Options SlotsOf(const signature::TensorSignature& signature, size_t batches) {
  batch::TensorSlots::Options options;
  options.batches = batches;
  options.rows =
      std::min(static_cast<uint32_t>(signature.max_batch_size), batch::BatchRing::kLimitMax.rows);
  const auto rows_of = [](const std::vector<signature::TensorSpec>& specs,
                          std::vector<batch::RowSpec>* rows) {
    for (const signature::TensorSpec& spec : specs) {
      rows->push_back({spec.name, spec.type, signature::TensorSignature::RowShape(spec)});
    }
  };
  rows_of(signature.inputs, &options.inputs);
  rows_of(signature.outputs, &options.outputs);
  return options;
}

// How many batches of fixed rows there are: those of the ring, and one a runner.
struct Slots {
  size_t ring = 0;  // 0: no ring
  size_t runners = 0;
  uint64_t bytes = 0;
};

Slots SlotsFor(const signature::TensorSignature& signature, size_t runners,
               const TensorSchedulerOptions& options) {
  Slots slots;
  if (!signature.has_fixed_rows()) return slots;
  const auto one = batch::TensorSlots::BytesOf(SlotsOf(signature, 1));
  if (!one.ok()) return slots;
  slots.runners = runners;
  // Small batches are not worth a ring: no job is small beside them.
  if (static_cast<uint32_t>(signature.max_batch_size) >= kSmallParts) {
    for (size_t batches = std::bit_ceil(std::max(kRingBatches, runners + 2));
         batches >= std::max(kRingBatchesMin, runners + 2) && slots.ring == 0; batches /= 2) {
      if (batches * *one <= options.ring_bytes_max) slots.ring = batches;
    }
  }
  slots.bytes = (slots.ring + slots.runners) * *one;
  return slots;
}

ExecutorsOptions ExecutorsFrom(const TensorSchedulerOptions& options, size_t runners) {
  ExecutorsOptions result;
  result.runners = runners;
  result.gate = options.gate;
  result.bulk_rule.bulk_every = options.bulk_every;
  result.bulk_rule.bulk_ns_max = static_cast<int64_t>(kBulkBatchS * 1e9);
  result.linger_us = options.linger_us;
  result.idle_release_s = options.idle_release_s;
  result.manual = options.manual;
  result.now = options.now;
  return result;
}

bool HasBytes(const signature::TensorSignature& signature) {
  for (const auto* specs : {&signature.inputs, &signature.outputs}) {
    for (const signature::TensorSpec& spec : *specs) {
      if (spec.type == signature::ElementType::kBytes) return true;
    }
  }
  return false;
}

}  // namespace

struct TensorScheduler::Impl final : BatchSource {
  Impl(signature::TensorSignature signature_in,
       std::vector<std::unique_ptr<signature::TensorRunner>> runners, const Slots& wanted,
       const TensorSchedulerOptions& options_in, metrics::Metrics* metrics_in);

  Status Accept(TensorJob* job);
  Status Submit(TensorJob* job);
  // Takes memory for the results of a job that may be cut.
  Status Reserve(TensorJob* job);
  bool TryRing(TensorJob* job);
  // Whether jobs of several clients come, and more than about two batches wait or run. Then all go
  // through the backlog, for in the ring clients have no turns.
  bool ClientsContend(const TensorJob& job);
  bool TryLead(TensorJob* job);
  void Lead(TensorJob* job, size_t runner, BatchTurn* turn);
  void Stop();
  void Sweep(Priority priority, Clock::time_point now, size_t live_max);
  void SweepSometimes(Clock::time_point now);
  // The rows of a batch of the ring as pieces; dead jobs are answered. Returns the rows.
  uint32_t TakeClaimed(const batch::BatchRing::Claimed& claimed, Clock::time_point now,
                       std::vector<TensorPiece>* pieces);
  void NoteDeadline(const TensorJob& job);
  batch::RunWriter* WriterOfThread();
  uint32_t RowsNow(Priority priority, Clock::time_point now) const;
  TensorBacklog& BacklogOf(Priority priority) { return backlogs[static_cast<size_t>(priority)]; }

  // For the executors.
  bool HasWork(Priority priority) const override {
    return !backlogs[static_cast<size_t>(priority)].empty() ||
           (priority == Priority::kInteractive && ring && ring->HasWork());
  }
  int64_t EarliestDeadlineNs(Priority priority) const override {
    return deadlines_ns[static_cast<size_t>(priority)].load(std::memory_order_relaxed);
  }
  bool AllAnswered() const override { return admission.empty(); }
  bool stopping() const override { return admission.stopping(); }
  bool EnoughWaits() const override { return admission.rows() >= rows_max; }
  void RunBatch(Priority priority, size_t runner, BatchTurn* turn) override;
  void PlaceExecutor(size_t) override {}
  void ReleaseMemory() override { forward.ReleaseMemory(); }

  const signature::TensorSignature signature;
  const TensorSchedulerOptions options;
  const uint32_t rows_max;   // of a run
  const uint32_t small_max;  // rows of a job that goes through the ring
  const bool has_bytes;      // rows are of unlike lengths: no job is split
  TensorMetrics metrics;
  TensorTotals totals;
  EventCount work_ready;
  Admission admission;
  TensorAnswers answers;
  std::optional<batch::TensorSlots> slots;  // fixed rows
  const uint32_t ring_batches;              // slots from here on are the runners'
  std::optional<batch::BatchRing> ring;     // interactive jobs
  std::vector<TensorJob*> owners;           // [batch of the ring][row]: whose rows begin here
  // Each of one thread (metrics/thread_slot.h), made by it.
  std::array<std::atomic<batch::RunWriter*>, metrics::kThreadSlots> writers{};
  std::array<TensorBacklog, kPriorities> backlogs;
  std::array<std::atomic<int64_t>, kPriorities> deadlines_ns;
  std::atomic<int64_t> swept_ns{0};
  std::atomic<uint64_t> last_client{0};          // of an interactive job
  std::atomic<int64_t> several_ns{-kSeveralNs};  // when one came that was not the last one's
  TensorForward forward;
  CallCount submitters;
  std::mutex join_mutex;  // Stop() from several threads
  Executors executors;

  ~Impl() override {
    for (auto& writer : writers) delete writer.load();
  }
};

TensorScheduler::Impl::Impl(signature::TensorSignature signature_in,
                            std::vector<std::unique_ptr<signature::TensorRunner>> runners,
                            const Slots& wanted, const TensorSchedulerOptions& options_in,
                            metrics::Metrics* metrics_in)
    : signature(std::move(signature_in)),
      options(options_in),
      rows_max(wanted.runners > 0 ? SlotsOf(signature, 1).rows
                                  : static_cast<uint32_t>(std::max(signature.max_batch_size, 1))),
      small_max(std::max(rows_max / kSmallParts, 1u)),
      has_bytes(HasBytes(signature)),
      metrics(TensorMetrics::Of(metrics_in, options_in.model)),
      admission({options_in.max_queued_bytes, options_in.max_queued_rows}, &metrics, &work_ready,
                kWords),
      answers(&admission, &metrics, &totals),
      ring_batches(static_cast<uint32_t>(wanted.ring)),
      deadlines_ns{INT64_MAX, INT64_MAX},
      forward(&signature, rows_max,
              wanted.runners == 0 ? nullptr
                                  : &slots.emplace(*batch::TensorSlots::Make(
                                        SlotsOf(signature, wanted.ring + wanted.runners))),
              std::move(runners), options_in.check_finite, &answers, &admission, &metrics, &totals),
      executors(ExecutorsFrom(options_in, forward.runners()), this, &metrics, &work_ready) {
  if (wanted.ring > 0) {
    ring.emplace(wanted.ring, batch::BatchCost{.rows = rows_max}, &work_ready);
    owners.resize(wanted.ring * rows_max);
  }
  try {
    executors.Start();
  } catch (...) {
    Stop();
    throw;
  }
}

// --- Submitting ---------------------------------------------------------------------------------

Status TensorScheduler::Impl::Accept(TensorJob* job) {
  TensorJob::Progress& progress = job->progress;
  const Clock::time_point now = progress.submitted = executors.Now();
  progress.bytes = 0;
  for (const signature::TensorData& input : job->inputs) {
    progress.bytes += static_cast<int64_t>(input.bytes.size());
  }
  progress.rows_open.store(job->rows, std::memory_order_relaxed);
  progress.failed.store(false, std::memory_order_relaxed);
  progress.next_row = progress.take_rows = 0;
  if (has_bytes && job->rows > rows_max) {
    return {StatusCode::kPayloadTooLarge,
            fmt::format("the request has {} rows; the model takes {} at once, and rows with BYTES "
                        "are not split",
                        job->rows, rows_max),
            "inputs"};
  }
  PENSTOCK_RETURN_IF_ERROR(forward.CheckValues(*job));
  const Admission::Amount amount = TensorAnswers::AmountOf(*job);
  Status counted = admission.CountIn(job->context.priority, amount);
  if (counted.code() == StatusCode::kResourceExhausted) {
    SweepSometimes(now);  // dead jobs must not keep others out
    const bool below_share = BacklogOf(job->context.priority)
                                 .IsBelowShare(job->context.client, job->context.client_weight);
    counted = admission.CountIn(job->context.priority, amount, below_share);
  }
  return counted;
}

Status TensorScheduler::Impl::Submit(TensorJob* job) {
  const CallCount::Call call(&submitters);
  Status status;
  try {
    status = Accept(job);
  } catch (...) {
    status = ExceptionStatus();
  }
  if (!status.ok()) {
    const bool full = status.code() == StatusCode::kResourceExhausted ||
                      status.code() == StatusCode::kPayloadTooLarge;
    if (full) metrics.queue_full.Add(job->rows);
    if (status.code() == StatusCode::kResourceExhausted) {
      admission.Ask(job->context.priority, TensorAnswers::AmountOf(*job));
    }
    return status;
  }
  // Nothing throws from here on.
  const Priority priority = job->context.priority;
  if (priority == Priority::kInteractive) {
    executors.gate().SeeInteractive(Nanoseconds(job->progress.submitted));
  }
  if (job->may_lead && TryLead(job)) return Status::Ok();
  NoteDeadline(*job);
  if (priority == Priority::kInteractive && TryRing(job)) return Status::Ok();
  if (slots && job->rows > small_max) {
    if (Status reserved = Reserve(job); !reserved.ok()) return reserved;
  }
  SweepSometimes(job->progress.submitted);
  BacklogOf(priority).Push(job);
  work_ready.NotifyOne();
  return Status::Ok();
}

// On the caller's thread, as an executor's time is the model's.
Status TensorScheduler::Impl::Reserve(TensorJob* job) {
  std::vector<int64_t> shape;
  for (size_t i = 0; i < job->results.size(); ++i) {
    if (!job->results[i].wanted) continue;
    const batch::TensorSlots::Arena& arena = slots->outputs()[i];
    bool placed = false;
    const bool allocated = RunGuarded("the results of a request", [&] {
      shape.assign(arena.spec().shape.begin(), arena.spec().shape.end());
      shape.insert(shape.begin(), job->rows);
      placed = answers.Place(job, i, shape, job->rows * arena.row_bytes()) != nullptr;
    });
    if (placed) continue;
    Status why = allocated ? std::move(job->progress.status)
                           : MakeStatus(StatusCode::kResourceExhausted, "out of memory");
    answers.Drop(job);
    return why;
  }
  return Status::Ok();
}

batch::RunWriter* TensorScheduler::Impl::WriterOfThread() {
  const size_t slot = metrics::ThreadSlot();
  if (slot == metrics::kThreadSlots) return nullptr;
  std::atomic<batch::RunWriter*>& place = writers[slot];
  batch::RunWriter* writer = place.load(std::memory_order_acquire);
  if (writer == nullptr) {
    writer = new (std::nothrow) batch::RunWriter(&*ring);
    place.store(writer, std::memory_order_release);
  }
  return writer;
}

bool TensorScheduler::Impl::ClientsContend(const TensorJob& job) {
  const int64_t now_ns = Nanoseconds(job.progress.submitted);
  // One client alone writes nothing here.
  if (last_client.load(std::memory_order_relaxed) != job.context.client) {
    last_client.store(job.context.client, std::memory_order_relaxed);
    several_ns.store(now_ns, std::memory_order_relaxed);
  }
  return now_ns < several_ns.load(std::memory_order_relaxed) + kSeveralNs &&
         admission.rows() > int64_t{2} * rows_max;
}

bool TensorScheduler::Impl::TryRing(TensorJob* job) {
  if (!ring || job->rows > small_max || !backlogs[0].empty() || ClientsContend(*job)) return false;
  batch::RunWriter* const writer = WriterOfThread();
  batch::Reservation place;
  const batch::ReserveResult taken = writer != nullptr ? writer->Take(job->rows, &place)
                                                       : ring->Reserve({.rows = job->rows}, &place);
  if (taken != batch::ReserveResult::kOk) return false;
  for (size_t i = 0; i < job->inputs.size(); ++i) {
    const std::span<const std::byte> bytes = job->inputs[i].bytes;
    std::memcpy(slots->inputs()[i].RowOf(place.slot, place.row), bytes.data(), bytes.size());
  }
  owners[place.slot * rows_max + place.row] = job;
  if (writer != nullptr) {
    writer->Publish();
  } else {
    ring->Publish(place, nullptr);
  }
  return true;
}

bool TensorScheduler::Impl::TryLead(TensorJob* job) {
  if (options.manual || options.linger_us > 0 || options.lead_s_max <= 0 || job->rows > rows_max ||
      admission.rows() != static_cast<int64_t>(job->rows)) {
    return false;
  }
  const double expected_s = forward.times().Seconds(job->rows);
  if (expected_s <= 0 || expected_s > options.lead_s_max) return false;
  return executors.TryLead(job->context.priority,
                           [&](size_t runner, BatchTurn* turn) { Lead(job, runner, turn); });
}

void TensorScheduler::Impl::Lead(TensorJob* job, size_t runner, BatchTurn* turn) {
  const Clock::time_point now = executors.Now();
  const Priority priority = job->context.priority;
  if (TensorAnswers::IsDead(*job, now)) {
    answers.MarkDead(job, now, job->rows);
    return answers.FinishRows(job, job->rows, now);
  }
  std::vector<TensorPiece>& pieces = forward.pieces(runner);
  pieces.assign({{.job = job, .rows = job->rows}});
  metrics.led.Add();
  totals.Queued(1, now - job->progress.submitted);
  forward.Run(runner, priority, ring_batches + static_cast<uint32_t>(runner), job->rows, 0, now,
              &executors, turn);
}

void TensorScheduler::Impl::NoteDeadline(const TensorJob& job) {
  if (job.context.deadline == Clock::time_point::max()) return;
  const int64_t deadline_ns = Nanoseconds(job.context.deadline);
  std::atomic<int64_t>& earliest_ns = deadlines_ns[static_cast<size_t>(job.context.priority)];
  int64_t earliest = earliest_ns.load(std::memory_order_relaxed);
  while (deadline_ns < earliest &&
         !earliest_ns.compare_exchange_weak(earliest, deadline_ns, std::memory_order_relaxed)) {
  }
}

// --- Running ------------------------------------------------------------------------------------

void TensorScheduler::Impl::Sweep(Priority priority, Clock::time_point now, size_t live_max) {
  TensorJob* dead = BacklogOf(priority).Sweep(
      [&](const TensorJob& job) { return TensorAnswers::IsDead(job, now); }, live_max);
  while (dead != nullptr) {
    TensorJob* const job = dead;
    dead = job->progress.next;
    const uint32_t rows = job->rows - job->progress.next_row;
    answers.MarkDead(job, now, rows);
    answers.FinishRows(job, rows, now);
  }
}

void TensorScheduler::Impl::SweepSometimes(Clock::time_point now) {
  const int64_t now_ns = Nanoseconds(now);
  int64_t last = swept_ns.load(std::memory_order_relaxed);
  if (now_ns < last + kSweepNs || !swept_ns.compare_exchange_strong(last, now_ns)) return;
  Sweep(Priority::kInteractive, now, SIZE_MAX);
  Sweep(Priority::kBulk, now, SIZE_MAX);
}

uint32_t TensorScheduler::Impl::TakeClaimed(const batch::BatchRing::Claimed& claimed,
                                            Clock::time_point now,
                                            std::vector<TensorPiece>* pieces) {
  uint32_t live = 0;
  ring->ForEachTicket(claimed, [&](uint32_t row, uint32_t rows, batch::RowTicket*) {
    for (const uint32_t end = row + rows; row < end;) {
      TensorJob* const job = owners[claimed.slot * rows_max + row];
      const uint32_t job_rows = job->rows;
      if (TensorAnswers::IsDead(*job, now)) {
        answers.MarkDead(job, now, job_rows);
        answers.FinishRows(job, job_rows, now);
      } else {
        pieces->push_back({.job = job, .rows = job_rows, .at = row});
        live += job_rows;
      }
      row += job_rows;
    }
  });
  if (pieces->empty()) return 0;
  const uint32_t rows = pieces->back().at + pieces->back().rows;
  // The model may compute a few rows in vain; more are closed up.
  if ((rows - live) * 8 <= rows) return rows;
  uint32_t to = 0;
  for (TensorPiece& piece : *pieces) {
    if (piece.at != to) slots->MoveInputs(claimed.slot, piece.at, to, piece.rows);
    piece.at = to;
    to += piece.rows;
  }
  return live;
}

// Rows that a batch of the class may have now.
uint32_t TensorScheduler::Impl::RowsNow(Priority priority, Clock::time_point now) const {
  if (priority != Priority::kBulk || !executors.gate().ShortBulk(Nanoseconds(now))) {
    return rows_max;
  }
  return forward.times().RowsWithin(kBulkBatchS, rows_max);
}

void TensorScheduler::Impl::RunBatch(Priority priority, size_t runner, BatchTurn* turn) {
  std::vector<TensorPiece>& pieces = forward.pieces(runner);
  pieces.clear();
  batch::BatchRing::Claimed claimed;
  const bool from_ring =
      priority == Priority::kInteractive && ring.has_value() && ring->Claim(&claimed);
  const Clock::time_point now = executors.Now();
  uint32_t rows = from_ring ? TakeClaimed(claimed, now, &pieces) : 0;
  const size_t not_in_slot = pieces.size();
  const uint32_t slot = from_ring ? claimed.slot : ring_batches + static_cast<uint32_t>(runner);
  SweepSometimes(now);
  Sweep(priority, now, rows_max);
  const uint32_t rows_now = RowsNow(priority, now);
  const uint32_t whole_max = has_bytes ? rows_max : std::min(small_max, rows_now);
  rows = BacklogOf(priority).Take(rows, rows_now, whole_max, now, &pieces);
  executors.PassOn();
  if (!pieces.empty()) {
    uint64_t begun = 0;
    Clock::duration waited{};
    for (const TensorPiece& piece : pieces) {
      if (piece.first > 0) continue;
      const Clock::duration wait = now - piece.job->progress.submitted;
      metrics.queue_duration.Observe(Seconds(wait));
      waited += wait;
      ++begun;
    }
    totals.Queued(begun, waited);
    forward.Run(runner, priority, slot, rows, not_in_slot, now, &executors, turn);
  }
  if (from_ring) ring->Complete(claimed);
  if (!HasWork(priority)) {
    deadlines_ns[static_cast<size_t>(priority)].store(INT64_MAX, std::memory_order_relaxed);
  }
}

void TensorScheduler::Impl::Stop() {
  const std::lock_guard join_lock(join_mutex);
  admission.Stop();
  executors.Join();
  // Leaders, and others on their way out of Submit.
  submitters.AwaitNone();
}

// --- TensorScheduler
// ------------------------------------------------------------------------------

Expected<std::unique_ptr<TensorScheduler>> TensorScheduler::Make(
    signature::TensorSignature signature,
    std::vector<std::unique_ptr<signature::TensorRunner>> runners,
    const TensorSchedulerOptions& options, metrics::Metrics* metrics) {
  PENSTOCK_CHECK(!runners.empty());
  try {
    const Slots slots = SlotsFor(signature, runners.size(), options);
    return std::unique_ptr<TensorScheduler>(new TensorScheduler(
        std::make_unique<Impl>(std::move(signature), std::move(runners), slots, options, metrics)));
  } catch (...) {
    return ExceptionStatus();
  }
}

TensorScheduler::TensorScheduler(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

TensorScheduler::~TensorScheduler() { Stop(); }

uint64_t TensorScheduler::BatchBytes(const signature::TensorSignature& signature, size_t runners,
                                     const TensorSchedulerOptions& options) {
  return SlotsFor(signature, runners, options).bytes;
}

const signature::TensorSignature& TensorScheduler::signature() const { return impl_->signature; }

Status TensorScheduler::Submit(TensorJob* job) { return impl_->Submit(job); }

bool TensorScheduler::Step() { return impl_->executors.Step(); }

void TensorScheduler::Stop() {
  impl_->Stop();
  while (impl_->options.manual && !impl_->admission.empty()) PENSTOCK_CHECK(Step());
}

TensorStatistics TensorScheduler::Statistics() const { return impl_->totals.Read(); }
int64_t TensorScheduler::queued_rows() const { return impl_->admission.rows(); }
int64_t TensorScheduler::queued_bytes() const { return impl_->admission.units(); }
size_t TensorScheduler::replicas() const { return impl_->forward.runners(); }
uint64_t TensorScheduler::HeldBytes() const { return impl_->forward.HeldBytes(); }
uint64_t TensorScheduler::ReleaseMemory() { return impl_->forward.ReleaseMemory(); }

}  // namespace penstock::sched

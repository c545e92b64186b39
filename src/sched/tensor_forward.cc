#include "sched/tensor_forward.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "base/int_math.h"
#include "log/exception_status.h"
#include "metrics/stages.h"
#include "sched/clock_math.h"

namespace penstock::sched {
namespace {

template <typename T>
bool AllFinite(std::span<const std::byte> bytes) {
  for (size_t i = 0; i + sizeof(T) <= bytes.size(); i += sizeof(T)) {
    T value;
    std::memcpy(&value, bytes.data() + i, sizeof(T));
    if (!std::isfinite(value)) return false;
  }
  return true;
}

bool IsFinite(signature::ElementType type, std::span<const std::byte> bytes) {
  if (type == signature::ElementType::kFp32) return AllFinite<float>(bytes);
  if (type == signature::ElementType::kFp64) return AllFinite<double>(bytes);
  return true;
}

// Bytes of the next `elements` of BYTES; nullopt: there are fewer.
std::optional<size_t> BytesOfElements(std::span<const std::byte> bytes, uint64_t elements) {
  size_t at = 0;
  for (; elements > 0; --elements) {
    if (bytes.size() - at < 4) return std::nullopt;
    uint32_t size = 0;
    std::memcpy(&size, bytes.data() + at, 4);
    if (bytes.size() - at - 4 < size) return std::nullopt;
    at += 4 + size_t{size};
  }
  return at;
}

// Results of the job that a thread leads and answers; another that it leads within `done` stays.
constexpr size_t kAsideBytes = 16384;
alignas(64) thread_local std::byte aside_bytes[kAsideBytes];
thread_local bool aside_in_use = false;

// Keeps the thread's memory for one answer.
class AsideInUse {
 public:
  explicit AsideInUse(bool in_use) : in_use_(in_use) {
    if (in_use_) aside_in_use = true;
  }
  ~AsideInUse() {
    if (in_use_) aside_in_use = false;
  }
  AsideInUse(const AsideInUse&) = delete;
  AsideInUse& operator=(const AsideInUse&) = delete;
  bool in_use() const { return in_use_; }

 private:
  const bool in_use_;
};

bool Failed(const TensorJob& job) { return job.progress.failed.load(std::memory_order_relaxed); }

}  // namespace

TensorForward::TensorForward(const signature::TensorSignature* signature, uint32_t rows_max,
                             batch::TensorSlots* slots,
                             std::vector<std::unique_ptr<signature::TensorRunner>> runners,
                             bool check_finite, TensorAnswers* answers, Admission* admission,
                             TensorMetrics* metrics, TensorTotals* totals)
    : signature_(signature),
      slots_(slots),
      rows_max_(rows_max),
      check_finite_(check_finite),
      answers_(answers),
      admission_(admission),
      metrics_(metrics),
      totals_(totals) {
  std::vector<std::vector<int64_t>> shapes;
  if (slots_ != nullptr) {
    for (const batch::TensorSlots::Arena& arena : slots_->outputs()) {
      shapes.push_back(arena.spec().shape);
      shapes.back().insert(shapes.back().begin(), 1);
    }
  }
  for (auto& runner : runners) {
    auto& worker = workers_.emplace_back(std::make_unique<Worker>());
    worker->runner = std::move(runner);
    worker->pieces.reserve(rows_max_);
    worker->in.resize(signature->inputs.size());
    worker->out.resize(signature->outputs.size());
    worker->buffers.resize(signature->inputs.size());
    worker->views.resize(signature->inputs.size());
    worker->shapes = shapes;
    worker->cursors.resize(signature->outputs.size());
  }
}

uint64_t TensorForward::HeldBytes() const {
  uint64_t bytes = 0;
  for (const auto& worker : workers_) {
    bytes += worker->runner->HeldBytes() + worker->buffer_bytes.load(std::memory_order_relaxed);
  }
  return bytes;
}

uint64_t TensorForward::ReleaseMemory() {
  uint64_t bytes = 0;
  for (const auto& worker : workers_) {
    const std::unique_lock lock(worker->running, std::try_to_lock);
    if (!lock.owns_lock()) continue;
    bytes += worker->runner->ReleaseMemory() + worker->buffer_bytes.exchange(0);
    for (Buffer& buffer : worker->buffers) buffer = {};
  }
  return bytes;
}

void TensorForward::CopyIn(const TensorPiece& piece, uint32_t slot) {
  for (size_t i = 0; i < slots_->inputs().size(); ++i) {
    const batch::TensorSlots::Arena& arena = slots_->inputs()[i];
    const std::byte* const from =
        piece.job->inputs[i].bytes.data() + piece.first * arena.row_bytes();
    std::memcpy(arena.RowOf(slot, piece.at), from, piece.rows * arena.row_bytes());
  }
}

Status TensorForward::RunFixed(Worker* worker, uint32_t slot, uint32_t at, uint32_t rows) {
  for (size_t i = 0; i < worker->in.size(); ++i) {
    worker->in[i] = slots_->inputs()[i].RowOf(slot, at);
  }
  for (size_t i = 0; i < worker->out.size(); ++i) {
    worker->out[i] = slots_->outputs()[i].RowOf(slot, at);
  }
  metrics_->rows_computed.Add(rows);
  try {
    return worker->runner->RunRows(rows, rows_max_ - at, worker->in, worker->out);
  } catch (...) {
    return ExceptionStatus();
  }
}

Status TensorForward::Gather(Worker* worker, std::span<const TensorPiece> pieces, uint32_t rows) {
  for (size_t i = 0; i < worker->views.size(); ++i) {
    signature::TensorData& view = worker->views[i];
    const signature::TensorData& first = pieces[0].job->inputs[i];
    view.shape.assign(first.shape.begin(), first.shape.end());
    if (signature_->max_batch_size > 0) view.shape[0] = rows;
    const auto part = [i](const TensorPiece& piece) {
      const std::span<const std::byte> bytes = piece.job->inputs[i].bytes;
      const size_t row_bytes = bytes.size() / piece.job->rows;
      // A job with BYTES is never split (TensorScheduler).
      return piece.rows == piece.job->rows
                 ? bytes
                 : bytes.subspan(piece.first * row_bytes, piece.rows * row_bytes);
    };
    view.bytes = part(pieces[0]);
    if (pieces.size() == 1 && reinterpret_cast<uintptr_t>(view.bytes.data()) % kAlignment == 0) {
      continue;
    }
    size_t size = 0;
    for (const TensorPiece& piece : pieces) size += part(piece).size();
    Buffer& buffer = worker->buffers[i];
    if (buffer.capacity < size) {
      worker->buffer_bytes.fetch_sub(buffer.capacity, std::memory_order_relaxed);
      buffer = {};
      buffer.bytes.reset(new (std::align_val_t{kAlignment}) std::byte[size]);
      buffer.capacity = size;
      worker->buffer_bytes.fetch_add(size, std::memory_order_relaxed);
    }
    size_t at = 0;
    for (const TensorPiece& piece : pieces) {
      const std::span<const std::byte> bytes = part(piece);
      if (!bytes.empty()) std::memcpy(buffer.bytes.get() + at, bytes.data(), bytes.size());
      at += bytes.size();
    }
    view.bytes = {buffer.bytes.get(), size};
  }
  return Status::Ok();
}

Status TensorForward::CheckGiven(const Worker& worker, uint32_t rows) const {
  if (worker.given.size() != signature_->outputs.size()) {
    return Status::Internal(fmt::format("the model gave {} outputs instead of {}",
                                        worker.given.size(), signature_->outputs.size()));
  }
  if (signature_->max_batch_size == 0) return Status::Ok();
  for (size_t i = 0; i < worker.given.size(); ++i) {
    const std::vector<int64_t>& shape = worker.given[i].shape;
    if (shape.empty() || shape[0] != int64_t{rows}) {
      return Status::Internal(
          fmt::format("output {} of a batch of {} rows has the shape {}; a model that has batches "
                      "gives a row for each",
                      signature_->outputs[i].name, rows, signature::ShapeText(shape)));
    }
  }
  return Status::Ok();
}

Status TensorForward::RunShapes(Worker* worker, std::span<const TensorPiece> pieces,
                                uint32_t rows) {
  metrics_->rows_computed.Add(rows);
  std::ranges::fill(worker->cursors, 0);
  try {
    PENSTOCK_RETURN_IF_ERROR(Gather(worker, pieces, rows));
    PENSTOCK_RETURN_IF_ERROR(worker->runner->Run(worker->views, &worker->given));
    return CheckGiven(*worker, rows);
  } catch (...) {
    return ExceptionStatus();
  }
}

void TensorForward::Put(const TensorPiece& piece, size_t index, std::span<const int64_t> shape,
                        std::span<const std::byte> bytes, bool keep) {
  TensorJob* const job = piece.job;
  if (check_finite_ && !IsFinite(signature_->outputs[index].type, bytes)) {
    return answers_->Fail(job, MakeStatus(StatusCode::kInternal,
                                          "the model gives values that are not finite (NaN or "
                                          "infinity) for this input"));
  }
  TensorResult& result = job->results[index];
  const bool whole = piece.rows == job->rows;
  if (whole && !keep && result.sink.empty()) {
    try {
      result.shape.assign(shape.begin(), shape.end());
      result.bytes = bytes;
    } catch (...) {
      answers_->Fail(job, ExceptionStatus());
    }
    return;
  }
  std::byte* const place = answers_->Place(
      job, index, shape, whole ? bytes.size() : bytes.size() / piece.rows * job->rows);
  if (place == nullptr || bytes.empty()) return;
  std::memcpy(place + bytes.size() / piece.rows * piece.first, bytes.data(), bytes.size());
}

void TensorForward::TakeFixed(Worker* worker, const TensorPiece& piece, uint32_t slot) {
  if (Failed(*piece.job)) return;
  for (size_t i = 0; i < slots_->outputs().size(); ++i) {
    if (!piece.job->results[i].wanted) continue;
    const batch::TensorSlots::Arena& arena = slots_->outputs()[i];
    worker->shapes[i][0] = piece.job->rows;
    Put(piece, i, worker->shapes[i], {arena.RowOf(slot, piece.at), piece.rows * arena.row_bytes()},
        false);
  }
}

void TensorForward::TakeGiven(Worker* worker, const TensorPiece& piece, uint32_t rows, bool keep) {
  const bool batched = signature_->max_batch_size > 0;
  for (size_t i = 0; i < worker->given.size(); ++i) {
    signature::TensorData& given = worker->given[i];
    std::span<const std::byte> bytes = given.bytes;
    if (batched) {
      size_t size = bytes.size() / rows * piece.rows;
      if (signature_->outputs[i].type == signature::ElementType::kBytes) {
        const auto elements = signature::ElementCount(std::span(given.shape).subspan(1));
        const auto walked =
            elements ? BytesOfElements(bytes.subspan(worker->cursors[i]), *elements * piece.rows)
                     : std::nullopt;
        if (!walked) {
          worker->cursors[i] = bytes.size();  // nor is there anything for those that follow
          return answers_->Fail(piece.job, MakeStatus(StatusCode::kInternal,
                                                      "the model gives BYTES that are cut short"));
        }
        size = *walked;
      }
      bytes = bytes.subspan(worker->cursors[i], size);
      worker->cursors[i] += size;
    }
    if (Failed(*piece.job) || !piece.job->results[i].wanted) continue;
    const int64_t first = batched ? given.shape[0] : 0;
    if (batched) given.shape[0] = piece.job->rows;
    Put(piece, i, given.shape, bytes, keep);
    if (batched) given.shape[0] = first;
  }
}

void TensorForward::RunHalves(Worker* worker, uint32_t slot, std::span<const TensorPiece> pieces,
                              const Executors& executors, BatchTurn* turn) {
  const size_t middle = pieces.size() / 2;
  for (const auto half : {pieces.first(middle), pieces.subspan(middle)}) {
    (void)turn->Pause();
    RunAlive(worker, slot, half, executors, turn);
  }
}

void TensorForward::RunAlive(Worker* worker, uint32_t slot, std::span<const TensorPiece> pieces,
                             const Executors& executors, BatchTurn* turn) {
  while (!pieces.empty()) {
    const Clock::time_point now = executors.Now();
    size_t alive = 0;
    while (alive < pieces.size() && !TensorAnswers::IsDead(*pieces[alive].job, now)) ++alive;
    if (alive > 0) {
      RunAgain(worker, slot, pieces.first(alive), executors, turn);  // others may die meanwhile
    } else {
      answers_->MarkDead(pieces.front().job, now, pieces.front().rows);
    }
    pieces = pieces.subspan(std::max<size_t>(alive, 1));
  }
}

void TensorForward::RunAgain(Worker* worker, uint32_t slot, std::span<const TensorPiece> pieces,
                             const Executors& executors, BatchTurn* turn) {
  const uint32_t at = pieces.front().at;
  const uint32_t rows = pieces.back().at + pieces.back().rows - at;
  Status status =
      slots_ != nullptr ? RunFixed(worker, slot, at, rows) : RunShapes(worker, pieces, rows);
  if (!status.ok()) {
    if (pieces.size() > 1) return RunHalves(worker, slot, pieces, executors, turn);
    return answers_->Fail(pieces.front().job, std::move(status));
  }
  if (slots_ != nullptr) return;
  for (const TensorPiece& piece : pieces) TakeGiven(worker, piece, rows, true);
}

void TensorForward::Run(size_t runner, Priority priority, uint32_t slot, uint32_t rows,
                        size_t not_in_slot, Clock::time_point sealed, Executors* executors,
                        BatchTurn* turn) {
  Worker* const worker = workers_[runner].get();
  const std::span<const TensorPiece> pieces = worker->pieces;
  std::unique_lock lock(worker->running);
  if (slots_ != nullptr) {
    for (const TensorPiece& piece : pieces.subspan(not_in_slot)) CopyIn(piece, slot);
  }
  const Clock::time_point forward = executors->Now();
  Status status =
      slots_ != nullptr ? RunFixed(worker, slot, 0, rows) : RunShapes(worker, pieces, rows);
  const bool failed = !status.ok();
  if (failed) {
    metrics_->batch_failures.Add();
    const TensorJob* const first = pieces.front().job;
    if (std::ranges::all_of(pieces, [&](const TensorPiece& p) { return p.job == first; })) {
      answers_->Fail(pieces.front().job, std::move(status));
    } else {
      RunHalves(worker, slot, pieces, *executors, turn);
    }
  }
  const Clock::time_point done = turn->ForwardDone();
  executors->RanAt(done);
  Observe(*worker, priority, rows, Seconds(done - forward));
  CountOut(*worker, priority);
  uint32_t written = 0;  // of `rows`, voids left out
  for (const TensorPiece& piece : pieces) written += piece.rows;
  CountRun(written, forward - sealed, done - forward);
  if (turn->leads() && slots_ != nullptr) {
    TensorJob* const job = pieces.front().job;
    TakeFixed(worker, pieces.front(), slot);
    const AsideInUse aside(MoveAside(job));
    if (aside.in_use()) {
      lock.unlock();
      turn->ReleaseRunner();
    }
    Answer({.job = job, .rows = rows}, sealed, forward, done);
    return CountHandedOut(rows, executors->Now() - done);
  }
  for (const TensorPiece& piece : pieces) {
    if (slots_ != nullptr) {
      TakeFixed(worker, piece, slot);
    } else if (!failed) {
      TakeGiven(worker, piece, rows, false);
    }
    Answer(piece, sealed, forward, done);
  }
  CountHandedOut(written, executors->Now() - done);
}

void TensorForward::CountRun(uint32_t rows, Clock::duration input, Clock::duration infer) {
  // Its table of batch sizes grows.
  RunGuarded("statistics of a model", [&] { totals_->Ran(rows, input, infer); });
}

void TensorForward::CountHandedOut(uint32_t rows, Clock::duration output) {
  RunGuarded("statistics of a model", [&] { totals_->HandedOut(rows, output); });
}

void TensorForward::Answer(const TensorPiece& piece, Clock::time_point sealed,
                           Clock::time_point forward, Clock::time_point done) {
  const bool whole = piece.rows == piece.job->rows;
  if (metrics::RequestTrace* const trace = piece.job->context.trace.get()) {
    trace->Batched(sealed, forward, done, whole);
  }
  answers_->FinishRows(piece.job, piece.rows, done, whole);
}

bool TensorForward::MoveAside(TensorJob* job) {
  if (aside_in_use || Failed(*job)) return false;
  size_t bytes = 0;
  for (const TensorResult& result : job->results) {
    if (result.wanted && result.sink.empty()) bytes += RoundUp(result.bytes.size(), kAlignment);
  }
  if (bytes > kAsideBytes) return false;
  size_t at = 0;
  for (TensorResult& result : job->results) {
    if (!result.wanted || !result.sink.empty()) continue;
    std::memcpy(aside_bytes + at, result.bytes.data(), result.bytes.size());
    result.bytes = {aside_bytes + at, result.bytes.size()};
    at += RoundUp(result.bytes.size(), kAlignment);
  }
  return true;
}

void TensorForward::CountOut(const Worker& worker, Priority priority) {
  Admission::Amount answered;
  for (const TensorPiece& piece : worker.pieces) {
    if (piece.rows != piece.job->rows) continue;
    const Admission::Amount amount = TensorAnswers::AmountOf(*piece.job);
    answered.units += amount.units;
    answered.rows += amount.rows;
  }
  admission_->CountOut(priority, answered, false);
  metrics_->queued_bytes.Set(admission_->units());
  metrics_->queued_rows.Set(admission_->rows());
}

void TensorForward::Observe(const Worker& worker, Priority priority, uint32_t rows, double took_s) {
  times_.Observe(rows, took_s);
  const QueueMetrics::Class& series = metrics_->classes[static_cast<size_t>(priority)];
  series.batches->Add();
  // A batch at a time: jobs may come too fast to count each where others count, too.
  series.demand.asked->Add(took_s / static_cast<double>(workers_.size()));
  series.demand.jobs->Add(worker.pieces.size());
  metrics_->batch_rows.Observe(rows);
  metrics_->batch_fill.Observe(static_cast<double>(rows) / rows_max_);
  metrics_->batch_duration.Observe(took_s);
  Admission::Amount drained;
  for (const TensorPiece& piece : worker.pieces) {
    drained.units += piece.job->progress.bytes / piece.job->rows * piece.rows;
    drained.rows += piece.rows;
  }
  admission_->Drained(drained, took_s, workers_.size());
}

}  // namespace penstock::sched

#include "sched/admission.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace penstock::sched {
namespace {

// Weight of the newest batch in the moving averages of the drain rate.
constexpr double kRateWeight = 0.2;

Admission::Amount BulkLimit(const Admission::Amount& max) {
  return {std::max<int64_t>(1, max.units - max.units / Admission::kInteractivePart),
          std::max<int64_t>(1, max.rows - max.rows / Admission::kInteractivePart)};
}

// "the limit of bulk requests is 3 tokens in 4 sequences (3/4 of --max-queued-tokens, ...)".
std::string LimitText(const Admission::Amount& limit, Priority priority,
                      const AdmissionWords& words) {
  const bool bulk = priority == Priority::kBulk;
  return fmt::format("the limit of {} requests is {} {} in {} {} ({}{})",
                     bulk ? "bulk" : "interactive", limit.units, words.units, limit.rows,
                     words.rows, bulk ? "3/4 of " : "", words.flags);
}

// Adds `more` unless the sum were over the limit.
bool AddUpTo(int64_t limit, int64_t more, std::memory_order order, std::atomic<int64_t>* sum) {
  int64_t before = sum->load(std::memory_order_relaxed);
  do {
    if (before + more > limit) return false;
  } while (!sum->compare_exchange_weak(before, before + more, order));
  return true;
}

void Average(double newest, std::atomic<double>* average) {
  // Two at once may lose one of their batches; it is an estimate.
  const double old = average->load(std::memory_order_relaxed);
  average->store(old == 0 ? newest : old + kRateWeight * (newest - old), std::memory_order_relaxed);
}

}  // namespace

Admission::Admission(const Amount& queue_max, const QueueMetrics* metrics, EventCount* drained,
                     const AdmissionWords& words)
    : limits_{queue_max, BulkLimit(queue_max)},
      words_(words),
      metrics_(metrics),
      drained_(drained) {
  static_assert(static_cast<int>(Priority::kBulk) == 1);
}

Status Admission::TooLarge(const Amount& wanted, Priority priority) const {
  return {StatusCode::kPayloadTooLarge,
          fmt::format("the request has {} {} in {} {}; {}", wanted.units, words_.units, wanted.rows,
                      words_.rows, LimitText(limit(priority), priority, words_))};
}

Status Admission::Full(const Amount& wanted, Priority priority) const {
  const auto wait_s = [](int64_t over, const std::atomic<double>& per_s) {
    const double rate = per_s.load(std::memory_order_relaxed);
    return over > 0 && rate > 0 ? static_cast<double>(over) / rate : 0;
  };
  const Amount waiting{units(), rows()};
  const double wait =
      std::max(wait_s(waiting.units + wanted.units - limit(priority).units, units_per_s_),
               wait_s(waiting.rows + wanted.rows - limit(priority).rows, rows_per_s_));
  return Status(
             StatusCode::kResourceExhausted,
             fmt::format(
                 "the queue is full: {} {} in {} {} wait, the request has {} {} in {} {}, {}",
                 waiting.units, words_.units, waiting.rows, words_.rows, wanted.units, words_.units,
                 wanted.rows, words_.rows, LimitText(limit(priority), priority, words_)))
      .WithRetryAfter(static_cast<int>(std::ceil(std::clamp(wait, 1.0, kRetryAfterMaxS))));
}

Status Admission::Add(Priority priority, const Amount& wanted, bool below_share) {
  Amount most = limit(priority);
  if (wanted.units > most.units || wanted.rows > most.rows) return TooLarge(wanted, priority);
  if (below_share) {
    most.units += most.units / 8;
    most.rows += most.rows / 8;
  }
  if (!AddUpTo(most.rows, wanted.rows, std::memory_order_seq_cst, &rows_)) {
    return Full(wanted, priority);
  }
  if (!AddUpTo(most.units, wanted.units, std::memory_order_relaxed, &units_)) {
    rows_.fetch_sub(wanted.rows, std::memory_order_seq_cst);
    return Full(wanted, priority);
  }
  Show(priority, wanted, 1);
  return Status::Ok();
}

void Admission::Remove(Priority priority, const Amount& counted) {
  Show(priority, counted, -1);
  units_.fetch_sub(counted.units, std::memory_order_relaxed);
  rows_.fetch_sub(counted.rows, std::memory_order_seq_cst);
}

Status Admission::CountIn(Priority priority, const Amount& wanted, bool below_share) {
  Status status = Add(priority, wanted, below_share);
  const bool stops = stopping();
  if (status.ok() && stops) {
    Remove(priority, wanted);
    status = {StatusCode::kUnavailable, "the model is stopping"};
  }
  // A refused job is counted for a moment, and an executor that is to stop may have seen it.
  if (stops) drained_->NotifyAll();
  return status;
}

void Admission::CountOut(Priority priority, const Amount& counted, bool discounted) {
  if (discounted) {
    dead_rows_.fetch_sub(counted.rows, std::memory_order_seq_cst);
  } else {
    Remove(priority, counted);
  }
  if (stopping()) drained_->NotifyAll();
}

void Admission::Discount(Priority priority, const Amount& counted) {
  // Added here before it is taken off: empty(), which reads rows and then this, misses none.
  dead_rows_.fetch_add(counted.rows, std::memory_order_seq_cst);
  Remove(priority, counted);
}

void Admission::Stop() {
  stopping_.store(true, std::memory_order_seq_cst);
  drained_->NotifyAll();
}

void Admission::Show(Priority priority, const Amount& wanted, int64_t sign) {
  const QueueMetrics::Class& series = metrics_->classes[static_cast<size_t>(priority)];
  if (series.queue_rows == nullptr) return;
  series.queue_units->Add(sign * wanted.units);
  series.queue_rows->Add(sign * wanted.rows);
  series.queue_requests->Add(sign);
  series.demand.queue->Add(static_cast<double>(sign) * SecondsOf(wanted));
}

void Admission::SetCosts(double unit_s, double square_s) {
  unit_s_ = unit_s;
  square_s_ = square_s;
}

double Admission::SecondsOf(const Amount& amount) const {
  if (amount.seconds > 0) return amount.seconds;
  const auto units = static_cast<double>(amount.units);
  const auto rows = static_cast<double>(std::max<int64_t>(1, amount.rows));
  // As if all rows were equally long: the squares of others sum to more.
  return units * (unit_s_ + square_s_ * units / rows);
}

void Admission::Ask(Priority priority, const Amount& wanted) {
  double seconds = SecondsOf(wanted);
  if (seconds == 0) {
    const double rate = units_per_s_.load(std::memory_order_relaxed);
    seconds = rate > 0 ? static_cast<double>(wanted.units) / rate : 0;
  }
  metrics_->classes[static_cast<size_t>(priority)].demand.Ask(seconds);
}

void Admission::Drained(const Amount& batch, double seconds, size_t replicas) {
  const double batches_per_s = static_cast<double>(replicas) / std::max(seconds, 1e-9);
  Average(static_cast<double>(batch.units) * batches_per_s, &units_per_s_);
  Average(static_cast<double>(batch.rows) * batches_per_s, &rows_per_s_);
}

}  // namespace penstock::sched

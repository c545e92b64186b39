// Service: bulk runs, and the release of memory at their end.
#include "api/bulk_runs.h"
#include "api/service.h"
#include "api/service_impl.h"
#include "os/memory.h"

namespace penstock::api {

Expected<BulkRunBegun> Service::BeginBulkRun(uint64_t client) {
  if (!impl_->accepting) {
    return Status(StatusCode::kUnavailable, "the server is shutting down");
  }
  BulkRunBegun begun;
  PENSTOCK_ASSIGN_OR_RETURN(begun.id, impl_->bulk_runs.Begin(impl_->served, client));
  begun.idle_s_max = BulkRuns::kIdleMax.count();
  return begun;
}

void Service::EndBulkRun(const std::string& id, Callback<BulkRunEnded> done) {
  const auto ended = impl_->bulk_runs.End(id, impl_->served);
  if (!ended.ok()) return done(ended.status());
  // Giving memory back takes some milliseconds, and the clients of bulk runs have time.
  const auto release = [impl = impl_.get(), id, ended = *ended, done] {
    BulkRunEnded report;
    report.id = id;
    report.requests = ended.requests;
    ReleaseFacts facts;
    facts.served_since = ended.served_since;
    facts.other_runs = ended.others;
    facts.in_flight = impl->in_flight.taken();
    facts.held_bytes = impl->HeldBytes();
    const ReleaseDecision decision = DecideRelease(facts);
    report.released = decision.release;
    report.reason = decision.reason;
    if (decision.release) report.released_bytes = impl->ReleaseMemory();
    done(std::move(report));
    return WorkerPool::Turn::kDone;
  };
  const Status taken = impl_->pool.Submit(release, Priority::kBulk, WorkerPool::Length::kLong);
  // The run has ended in any case; memory that stays is released when the server is idle.
  if (!taken.ok()) {
    BulkRunEnded report;
    report.id = id;
    report.requests = ended->requests;
    report.reason = "the tokenizers are busy";
    done(std::move(report));
  }
}

uint64_t Service::Impl::HeldBytes() const {
  return FreeHeapBytes() + tokens.bytes() + results.bytes() + registry->HeldBytes();
}

uint64_t Service::Impl::ReleaseMemory() {
  const uint64_t before = ResidentBytes();
  registry->ReleaseMemory();
  tokens.Clear();
  results.Clear();
  TrimHeap();
  const uint64_t after = ResidentBytes();
  return before > after ? before - after : 0;
}

}  // namespace penstock::api

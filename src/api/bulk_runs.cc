#include "api/bulk_runs.h"

#include <fmt/format.h>

#include <random>

namespace penstock {
namespace {

// Nobody should end the run of another by chance; an id is no secret.
std::string NewId() {
  std::random_device device;
  std::string id = "bulk-";
  for (int i = 0; i < 4; ++i) id += fmt::format("{:08x}", device());
  return id;
}

}  // namespace

Status BulkRuns::Unknown(const std::string& id, std::string field) {
  return Status::NotFound(
      fmt::format("no bulk run '{}' is open: it was ended, or had no request for {} s",
                  id.substr(0, kIdBytesMax), kIdleMax.count()),
      std::move(field));
}

void BulkRuns::ForgetIdle() {
  const Clock::time_point now = now_();
  std::erase_if(runs_, [&](const auto& entry) {
    const Run& run = *entry.second;
    return run.in_flight == 0 && now - run.used_at > kIdleMax;
  });
}

Expected<std::string> BulkRuns::Begin(uint64_t served) {
  const std::lock_guard lock(mutex_);
  ForgetIdle();
  if (runs_.size() >= kRunsMax) {
    return Status(StatusCode::kResourceExhausted,
                  fmt::format("{} bulk runs are open, the limit; end one of them", kRunsMax));
  }
  std::string id = NewId();
  auto run = std::make_shared<Run>();
  run->served_at_begin = served;
  run->used_at = now_();
  runs_.emplace(id, std::move(run));
  return id;
}

Expected<std::shared_ptr<const void>> BulkRuns::Enter(const std::string& id) {
  const std::lock_guard lock(mutex_);
  ForgetIdle();
  const auto found = runs_.find(id);
  if (found == runs_.end()) return Unknown(id, "bulk_run");
  std::shared_ptr<Run> run = found->second;
  ++run->requests;
  ++run->in_flight;
  return std::shared_ptr<const void>(run.get(), [this, run](const void*) {
    const std::lock_guard leave(mutex_);
    --run->in_flight;
    run->used_at = now_();
  });
}

Expected<BulkRuns::Ended> BulkRuns::End(const std::string& id, uint64_t served) {
  const std::lock_guard lock(mutex_);
  ForgetIdle();
  const auto found = runs_.find(id);
  if (found == runs_.end()) return Unknown(id, "id");
  Ended ended;
  ended.requests = found->second->requests;
  ended.served_since = served - found->second->served_at_begin;
  runs_.erase(found);
  ended.others = runs_.size();
  return ended;
}

size_t BulkRuns::open() {
  const std::lock_guard lock(mutex_);
  ForgetIdle();
  return runs_.size();
}

ReleaseDecision DecideRelease(const ReleaseFacts& facts) {
  const auto count = [](uint64_t n, const char* one, const char* many) {
    return n == 1 ? fmt::format("1 {}", one) : fmt::format("{} {}", n, many);
  };
  if (facts.served_since == 0) return {false, "nothing ran since the run began"};
  if (facts.other_runs > 0) {
    return {false, count(facts.other_runs, "other bulk run is open", "other bulk runs are open")};
  }
  if (facts.in_flight > 0) {
    return {false, count(static_cast<uint64_t>(facts.in_flight), "request is in flight",
                         "requests are in flight")};
  }
  if (facts.held_bytes < kReleaseBytesMin) {
    return {false, fmt::format("{} bytes are held, too little to matter", facts.held_bytes)};
  }
  return {true, fmt::format("{} bytes were held and nobody else is busy", facts.held_bytes)};
}

}  // namespace penstock

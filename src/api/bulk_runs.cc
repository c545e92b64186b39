#include "api/bulk_runs.h"

#include <fmt/format.h>

#include <random>

namespace penstock::api {
namespace {

// Random, so that no client ends another's run by chance; an id is not secret.
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

void BulkRuns::State::ForgetIdle() {
  const Clock::time_point at = now();
  std::erase_if(runs, [&](const auto& entry) {
    const Run& run = *entry.second;
    return run.in_flight == 0 && at - run.used_at > kIdleMax;
  });
}

// Removes the run that was idle longest, if it was idle for kIdleWhenFull.
void BulkRuns::State::EvictIdle() {
  if (runs.size() < kRunsMax) return;
  auto oldest = runs.end();
  for (auto at = runs.begin(); at != runs.end(); ++at) {
    if (at->second->in_flight > 0) continue;
    if (oldest == runs.end() || at->second->used_at < oldest->second->used_at) oldest = at;
  }
  if (oldest != runs.end() && now() - oldest->second->used_at > kIdleWhenFull) runs.erase(oldest);
}

Expected<std::string> BulkRuns::Begin(uint64_t served, uint64_t client) {
  const std::lock_guard lock(state_->mutex);
  state_->ForgetIdle();
  size_t of_client = 0;
  for (const auto& [id, run] : state_->runs) of_client += run->client == client;
  if (of_client >= kRunsOfClientMax) {
    return Status(StatusCode::kResourceExhausted,
                  fmt::format("this client has {} bulk runs open, the limit; end one of them",
                              kRunsOfClientMax));
  }
  state_->EvictIdle();
  if (state_->runs.size() >= kRunsMax) {
    return Status(StatusCode::kResourceExhausted,
                  fmt::format("{} bulk runs are open, the limit; one that is idle for {} s makes "
                              "room",
                              kRunsMax, kIdleWhenFull.count()));
  }
  std::string id = NewId();
  auto run = std::make_shared<Run>();
  run->client = client;
  run->served_at_begin = served;
  run->used_at = state_->now();
  state_->runs.emplace(id, std::move(run));
  return id;
}

// A request of a run, until it is answered.
struct BulkRuns::Place {
  Place(std::shared_ptr<State> state_in, std::shared_ptr<Run> run_in)
      : state(std::move(state_in)), run(std::move(run_in)) {}
  ~Place() {
    if (!entered) return;
    const std::lock_guard lock(state->mutex);
    --run->in_flight;
    run->used_at = state->now();
  }
  const std::shared_ptr<State> state;
  const std::shared_ptr<Run> run;
  bool entered = false;
};

Expected<std::shared_ptr<const void>> BulkRuns::Enter(const std::string& id) {
  const std::lock_guard lock(state_->mutex);
  state_->ForgetIdle();
  const auto found = state_->runs.find(id);
  if (found == state_->runs.end()) return Unknown(id, "bulk_run");
  auto place = std::make_shared<Place>(state_, found->second);
  ++found->second->requests;
  ++found->second->in_flight;
  place->entered = true;
  return std::shared_ptr<const void>(std::move(place));
}

Expected<BulkRuns::Ended> BulkRuns::End(const std::string& id, uint64_t served) {
  const std::lock_guard lock(state_->mutex);
  state_->ForgetIdle();
  const auto found = state_->runs.find(id);
  if (found == state_->runs.end()) return Unknown(id, "id");
  Ended ended;
  ended.requests = found->second->requests;
  ended.served_since = served - found->second->served_at_begin;
  state_->runs.erase(found);
  ended.others = state_->runs.size();
  return ended;
}

size_t BulkRuns::open() {
  const std::lock_guard lock(state_->mutex);
  state_->ForgetIdle();
  return state_->runs.size();
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
  return {true, fmt::format("{} bytes were held and no other work is in flight", facts.held_bytes)};
}

}  // namespace penstock::api

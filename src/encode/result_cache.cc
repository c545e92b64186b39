#include "encode/result_cache.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include "log/exception_status.h"
#include "metrics/stages.h"

namespace penstock::encode {
namespace {

// Floats of one row of this output; 0: rows of this output are not kept.
size_t RowWidth(const engine::EncoderEngine& engine, program::EncoderOutput output) {
  if (output == program::EncoderOutput::kPooled)
    return static_cast<size_t>(engine.info().embedding_size);
  if (output == program::EncoderOutput::kLogits)
    return static_cast<size_t>(engine.info().num_labels);
  return 0;
}

template <typename T>
void AppendBytes(const T* from, size_t count, std::string* to) {
  to->append(reinterpret_cast<const char*>(from), count * sizeof(T));
}

// Key of a row: all its result depends on besides the model, and the salt, so that clients share no
// more than they may. The numbers in front have fixed sizes, and type ids are as many as ids, so no
// two rows have one key.
std::string KeyOf(const sched::EncodeJob& job, size_t row, size_t begin) {
  const auto length = static_cast<size_t>(job.lengths[row]);
  const int32_t head[3] = {static_cast<int32_t>(job.output),
                           job.pool_skip.empty() ? 0 : job.pool_skip[row], job.lengths[row]};
  std::string key;
  key.reserve(sizeof job.context.cache_salt + sizeof head + 2 * length * sizeof(int32_t));
  AppendBytes(&job.context.cache_salt, 1, &key);
  AppendBytes(head, 3, &key);
  AppendBytes(job.ids.data() + begin, length, &key);
  if (!job.type_ids.empty()) AppendBytes(job.type_ids.data() + begin, length, &key);
  return key;
}

}  // namespace

// One job on its way.
struct ResultCache::Lookup {
  registry::Lease<engine::EncoderEngine> engine;
  std::unique_ptr<sched::EncodeJob> job;  // the request's
  size_t width;
  std::vector<std::string> keys;  // of each row
  // The same in the remote store, of rows that were asked for there; empty: of none.
  std::vector<std::string> remote_keys;
  std::vector<float> values;    // [rows, width]; each row is written by one thread
  std::vector<size_t> missing;  // rows that the caches do not know

  // Parts and followed rows that are not through; the last one answers. One is held while it is
  // being set up.
  std::atomic<size_t> open{1};
  std::mutex mutex;
  Status failure;  // the first; guarded by mutex

  std::span<float> Row(size_t row) { return std::span(values).subspan(row * width, width); }
  std::span<const float> Row(size_t row) const {
    return std::span(values).subspan(row * width, width);
  }
  void Fail(Status status) {
    const std::lock_guard lock(mutex);
    if (failure.ok()) failure = std::move(status);
  }
  void Through() {
    if (open.fetch_sub(1, std::memory_order_acq_rel) == 1) Complete();
  }
  void Complete() {
    if (job->context.trace != nullptr) job->context.trace->Enter(metrics::Stage::kComplete);
    const auto done = std::move(job->done);
    if (failure.ok()) {
      job->values = std::move(values);
      job->width = static_cast<int32_t>(width);
    }
    done(std::move(job), std::move(failure));
  }
};

// Rows that are being computed, by model and key. The keys are views into the leader's lookup.
struct ResultCache::Flights {
  struct Follower {
    std::shared_ptr<Lookup> lookup;
    size_t row;
  };
  struct Flight {
    const Part* leader;
    Priority priority;
    size_t rows;  // of the leader's part
    std::vector<Follower> followers;
  };
  using Key = std::pair<uint64_t, std::string_view>;

  // Not worth waiting for: work of a lower class, or a far larger request.
  static bool MayFollow(const Flight& flight, const Lookup& lookup) {
    constexpr size_t kFollowRowsMin = 32;
    const Priority own = lookup.job->context.priority;
    return (flight.priority == Priority::kInteractive || own == Priority::kBulk) &&
           flight.rows <= std::max(kFollowRowsMin, lookup.keys.size());
  }

  std::mutex mutex;
  std::map<Key, Flight> of_key;  // guarded by mutex
};

// Rows of a lookup that the model works on as one job. Its flights end with it, whatever happens.
struct ResultCache::Part {
  Part(ResultCache* cache_in, std::shared_ptr<Lookup> lookup_in)
      : cache(cache_in), lookup(std::move(lookup_in)) {}
  ~Part() {
    RunGuarded("result cache", [this] { Land(false); });
  }

  void Finish(std::unique_ptr<sched::EncodeJob> back, Status status) {
    const bool ok = status.ok();
    if (ok) {
      PENSTOCK_CHECK(static_cast<size_t>(back->width) == lookup->width);
      for (size_t i = 0; i < rows.size(); ++i) {
        const auto from = std::span(back->values).subspan(i * lookup->width, lookup->width);
        std::copy(from.begin(), from.end(), lookup->Row(rows[i]).begin());
        RunGuarded("result cache", [&] { cache->Keep(*lookup, rows[i]); });
      }
    } else {
      lookup->Fail(std::move(status));
    }
    Land(ok);
    lookup->Through();
  }

  // Gives followers the values, or, where there are none, computes them by themselves.
  void Land(bool ok) {
    for (const size_t row : rows) {
      for (const Flights::Follower& follower : TakeFollowers(row)) {
        if (ok) {
          const auto from = lookup->Row(row);
          std::copy(from.begin(), from.end(), follower.lookup->Row(follower.row).begin());
        } else if (follower.lookup != lookup) {
          try {
            cache->Compute(follower.lookup, {follower.row}, false);
          } catch (...) {
            follower.lookup->Fail(ExceptionStatus());
          }
        }
        follower.lookup->Through();
      }
    }
    rows.clear();
  }

  std::vector<Flights::Follower> TakeFollowers(size_t row) const {
    const std::lock_guard lock(cache->flights_->mutex);
    auto& flights = cache->flights_->of_key;
    const auto flight = flights.find({lookup->engine->cache_id(), lookup->keys[row]});
    if (flight == flights.end() || flight->second.leader != this) return {};
    auto followers = std::move(flight->second.followers);
    flights.erase(flight);
    return followers;
  }

  ResultCache* const cache;
  const std::shared_ptr<Lookup> lookup;
  std::vector<size_t> rows;
};

ResultCache::ResultCache(size_t bytes, std::chrono::seconds ttl, cache::RemoteStore* remote,
                         metrics::Metrics* metrics)
    : remote_(remote),
      metrics_(cache::MakeCacheMetrics("result", metrics)),
      lru_(cache::LruOptions{.bytes_max = bytes, .ttl = ttl}, &metrics_),
      flights_(std::make_unique<Flights>()) {}

ResultCache::~ResultCache() = default;

bool ResultCache::Takes(const engine::EncoderEngine& engine, const sched::EncodeJob& job) const {
  return lru_.enabled() && RowWidth(engine, job.output) > 0;
}

bool ResultCache::AsksRemote(const engine::EncoderEngine& engine) const {
  return remote_ != nullptr && remote_->up() && !engine.fingerprint().empty();
}

Status ResultCache::Submit(const registry::Lease<engine::EncoderEngine>& engine,
                           std::unique_ptr<sched::EncodeJob> job) {
  if (!Takes(*engine, *job)) return engine->scheduler().Submit(std::move(job));
  const bool may_lead = job->may_lead;
  const auto lookup = LookUp(engine, std::move(job));
  if (!lookup->missing.empty() && AsksRemote(*engine)) {
    AskRemote(lookup);
  } else {
    Continue(lookup, may_lead);
  }
  return Status::Ok();
}

void ResultCache::AskRemote(const std::shared_ptr<Lookup>& lookup) {
  std::vector<std::string> keys;
  lookup->remote_keys.resize(lookup->keys.size());
  for (const size_t row : lookup->missing) {
    keys.push_back(cache::RemoteKey('r', {lookup->engine->fingerprint(), lookup->keys[row]}));
    lookup->remote_keys[row] = keys.back();  // hashed once: Keep has a turn at the processor
  }
  remote_->GetMany(std::move(keys), [this, lookup](cache::RemoteStore::Values values) {
    std::vector<size_t> still_missing;
    for (size_t i = 0; i < values.size(); ++i) {
      const size_t row = lookup->missing[i];
      const std::span<float> to = lookup->Row(row);
      if (!values[i] || values[i]->size() != to.size_bytes() ||
          !cache::AreFiniteFloats(*values[i])) {
        still_missing.push_back(row);
        continue;
      }
      std::memcpy(to.data(), values[i]->data(), to.size_bytes());
      lru_.Put(lookup->engine->cache_id(), lookup->keys[row], {std::as_bytes(to)});
    }
    lookup->missing = std::move(still_missing);
    // The store's thread has others to serve: it never runs the model.
    Continue(lookup, false);
  });
}

std::shared_ptr<ResultCache::Lookup> ResultCache::LookUp(
    const registry::Lease<engine::EncoderEngine>& engine, std::unique_ptr<sched::EncodeJob> job) {
  auto lookup = std::make_shared<Lookup>();
  lookup->engine = engine;
  lookup->width = RowWidth(*engine, job->output);
  const size_t rows = job->lengths.size();
  lookup->values.resize(rows * lookup->width);
  lookup->keys.reserve(rows);
  size_t begin = 0;
  for (size_t row = 0; row < rows; ++row) {
    lookup->keys.push_back(KeyOf(*job, row, begin));
    begin += static_cast<size_t>(job->lengths[row]);
    const std::span<float> to = lookup->Row(row);
    bool whole = false;
    lru_.Get(engine->cache_id(), lookup->keys.back(), [&](std::span<const std::byte> value) {
      whole = value.size() == to.size_bytes();
      if (whole) std::memcpy(to.data(), value.data(), value.size());
    });
    if (!whole) lookup->missing.push_back(row);
  }
  lookup->job = std::move(job);
  return lookup;
}

void ResultCache::Keep(const Lookup& lookup, size_t row) {
  const auto bytes = std::as_bytes(lookup.Row(row));
  lru_.Put(lookup.engine->cache_id(), lookup.keys[row], {bytes});
  if (!AsksRemote(*lookup.engine)) return;
  const bool hashed = !lookup.remote_keys.empty() && !lookup.remote_keys[row].empty();
  remote_->Put(hashed ? lookup.remote_keys[row]
                      : cache::RemoteKey('r', {lookup.engine->fingerprint(), lookup.keys[row]}),
               {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

void ResultCache::Continue(const std::shared_ptr<Lookup>& lookup, bool may_lead) {
  try {
    if (!lookup->missing.empty()) Compute(lookup, lookup->missing, may_lead);
  } catch (...) {
    lookup->Fail(ExceptionStatus());
  }
  lookup->Through();
}

// Rows that others compute are followed; the rest goes to the scheduler as a job of its own.
void ResultCache::Compute(const std::shared_ptr<Lookup>& lookup, const std::vector<size_t>& rows,
                          bool may_lead) {
  const auto part = std::make_shared<Part>(this, lookup);
  part->rows.reserve(rows.size());
  {
    const std::lock_guard lock(flights_->mutex);
    for (const size_t row : rows) {
      const Flights::Key key{lookup->engine->cache_id(), lookup->keys[row]};
      const auto [flight, first] = flights_->of_key.try_emplace(
          key, Flights::Flight{part.get(), lookup->job->context.priority, rows.size(), {}});
      if (first || !Flights::MayFollow(flight->second, *lookup)) {
        part->rows.push_back(row);
      } else {
        flight->second.followers.push_back({lookup, row});
        lookup->open.fetch_add(1, std::memory_order_relaxed);
      }
    }
  }
  if (part->rows.empty()) return;
  auto job = std::make_unique<sched::EncodeJob>();
  const sched::EncodeJob& whole = *lookup->job;
  job->output = whole.output;
  job->context = whole.context;
  job->may_lead = may_lead;
  size_t begin = 0, next = 0;
  for (size_t row = 0; next < part->rows.size(); ++row) {
    const auto length = static_cast<size_t>(whole.lengths[row]);
    if (part->rows[next] == row) {
      const auto take = [&](const std::vector<int32_t>& from, std::vector<int32_t>* to) {
        if (from.empty()) return;
        to->insert(to->end(), from.begin() + static_cast<ptrdiff_t>(begin),
                   from.begin() + static_cast<ptrdiff_t>(begin + length));
      };
      take(whole.ids, &job->ids);
      take(whole.type_ids, &job->type_ids);
      job->lengths.push_back(whole.lengths[row]);
      if (!whole.pool_skip.empty()) job->pool_skip.push_back(whole.pool_skip[row]);
      ++next;
    }
    begin += length;
  }
  job->done = [part](std::unique_ptr<sched::EncodeJob> back, Status status) {
    part->Finish(std::move(back), std::move(status));
  };
  lookup->open.fetch_add(1, std::memory_order_relaxed);
  bool taken = false;
  try {
    const Status submitted = lookup->engine->scheduler().Submit(std::move(job));
    taken = true;
    if (!submitted.ok()) part->Finish(nullptr, submitted);
  } catch (...) {
    if (!taken) lookup->open.fetch_sub(1, std::memory_order_relaxed);
    throw;
  }
}

}  // namespace penstock::encode

#include "api/result_cache.h"

#include <algorithm>
#include <cstring>

#include "metrics/stages.h"

namespace penstock {
namespace {

LruOptions Options(size_t bytes, std::chrono::seconds ttl) {
  LruOptions options;
  options.bytes_max = bytes;
  options.ttl = ttl;
  return options;
}

// Floats of one row of this output; 0: rows of this output are not kept.
size_t RowWidth(const Engine& engine, EncoderOutput output) {
  if (output == EncoderOutput::kPooled) return static_cast<size_t>(engine.facts().embedding_size);
  if (output == EncoderOutput::kLogits) return static_cast<size_t>(engine.facts().num_labels);
  return 0;
}

template <typename T>
void AppendBytes(const T* from, size_t count, std::string* to) {
  to->append(reinterpret_cast<const char*>(from), count * sizeof(T));
}

// All that a row's result depends on besides the model. The numbers in front have fixed sizes, and
// type ids are as many as ids, so no two rows have one key.
std::string KeyOf(const EncodeJob& job, size_t row, size_t begin) {
  const auto length = static_cast<size_t>(job.lengths[row]);
  const int32_t head[3] = {static_cast<int32_t>(job.output),
                           job.pool_skip.empty() ? 0 : job.pool_skip[row], job.lengths[row]};
  std::string key;
  key.reserve(sizeof head + 2 * length * sizeof(int32_t));
  AppendBytes(head, 3, &key);
  AppendBytes(job.ids.data() + begin, length, &key);
  if (!job.type_ids.empty()) AppendBytes(job.type_ids.data() + begin, length, &key);
  return key;
}

}  // namespace

// One job on its way. Touched by one thread at a time.
struct ResultCache::Lookup {
  Engine* engine;
  std::unique_ptr<EncodeJob> job;  // the request's, until the scheduler has it
  size_t width;
  std::vector<std::string> keys;  // of each row
  std::vector<float> values;      // [rows, width]
  std::vector<size_t> missing;    // rows

  std::span<float> Row(size_t row) { return std::span(values).subspan(row * width, width); }
};

ResultCache::ResultCache(size_t bytes, std::chrono::seconds ttl, RemoteStore* remote,
                         Metrics* metrics)
    : remote_(remote),
      metrics_(MakeCacheMetrics("result", metrics)),
      lru_(Options(bytes, ttl), &metrics_) {}

bool ResultCache::Takes(const Engine& engine, const EncodeJob& job) const {
  return lru_.enabled() && RowWidth(engine, job.output) > 0;
}

Status ResultCache::Submit(Engine* engine, std::unique_ptr<EncodeJob> job) {
  if (!Takes(*engine, *job)) return engine->scheduler().Submit(std::move(job));
  const auto lookup = LookUp(engine, std::move(job));
  if (lookup->missing.empty() || remote_ == nullptr || !remote_->up() ||
      engine->fingerprint().empty()) {
    return Continue(lookup);
  }
  std::vector<std::string> keys;
  for (const size_t row : lookup->missing) {
    keys.push_back(RemoteKey('r', {engine->fingerprint(), lookup->keys[row]}));
  }
  remote_->GetMany(std::move(keys), [this, lookup](RemoteStore::Values values) {
    std::vector<size_t> still_missing;
    for (size_t i = 0; i < values.size(); ++i) {
      const size_t row = lookup->missing[i];
      const std::span<float> to = lookup->Row(row);
      if (!values[i] || values[i]->size() != to.size_bytes() || !AreFiniteFloats(*values[i])) {
        still_missing.push_back(row);
        continue;
      }
      std::memcpy(to.data(), values[i]->data(), to.size_bytes());
      lru_.Put(lookup->engine->cache_id(), lookup->keys[row], {std::as_bytes(to)});
    }
    lookup->missing = std::move(still_missing);
    // A refusal has to go through `done`, which went with the job.
    const auto done = lookup->job->done;
    const Status submitted = Continue(lookup);
    if (!submitted.ok()) done(nullptr, submitted);
  });
  return Status::Ok();
}

std::shared_ptr<ResultCache::Lookup> ResultCache::LookUp(Engine* engine,
                                                         std::unique_ptr<EncodeJob> job) {
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

void ResultCache::Keep(const Lookup& lookup, size_t row, std::span<const float> values) {
  const auto bytes = std::as_bytes(values);
  lru_.Put(lookup.engine->cache_id(), lookup.keys[row], {bytes});
  if (remote_ == nullptr || !remote_->up() || lookup.engine->fingerprint().empty()) return;
  remote_->Put(RemoteKey('r', {lookup.engine->fingerprint(), lookup.keys[row]}),
               {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

// Hands what is missing to the scheduler, as a job of its own, and answers the request's job.
Status ResultCache::Continue(const std::shared_ptr<Lookup>& lookup) {
  EncodeJob& whole = *lookup->job;
  if (lookup->missing.empty()) {
    if (whole.context.trace != nullptr) whole.context.trace->Enter(Stage::kComplete);
    whole.values = std::move(lookup->values);
    whole.width = static_cast<int32_t>(lookup->width);
    const auto done = whole.done;
    done(std::move(lookup->job), Status::Ok());
    return Status::Ok();
  }
  auto part = std::make_unique<EncodeJob>();
  part->output = whole.output;
  part->context = whole.context;
  size_t begin = 0, next = 0;
  for (size_t row = 0; next < lookup->missing.size(); ++row) {
    const auto length = static_cast<size_t>(whole.lengths[row]);
    if (lookup->missing[next] == row) {
      const auto take = [&](const std::vector<int32_t>& from, std::vector<int32_t>* to) {
        if (from.empty()) return;
        to->insert(to->end(), from.begin() + static_cast<ptrdiff_t>(begin),
                   from.begin() + static_cast<ptrdiff_t>(begin + length));
      };
      take(whole.ids, &part->ids);
      take(whole.type_ids, &part->type_ids);
      part->lengths.push_back(whole.lengths[row]);
      if (!whole.pool_skip.empty()) part->pool_skip.push_back(whole.pool_skip[row]);
      ++next;
    }
    begin += length;
  }
  part->done = [this, lookup](std::unique_ptr<EncodeJob> back, Status status) {
    EncodeJob& asked = *lookup->job;
    if (status.ok()) {
      PENSTOCK_CHECK(static_cast<size_t>(back->width) == lookup->width);
      for (size_t i = 0; i < lookup->missing.size(); ++i) {
        const auto row =
            std::span<const float>(back->values).subspan(i * lookup->width, lookup->width);
        std::copy(row.begin(), row.end(), lookup->Row(lookup->missing[i]).begin());
        Keep(*lookup, lookup->missing[i], row);
      }
      asked.values = std::move(lookup->values);
      asked.width = back->width;
    }
    const auto done = asked.done;
    done(std::move(lookup->job), std::move(status));
  };
  return lookup->engine->scheduler().Submit(std::move(part));
}

}  // namespace penstock

#include "api/encode_pipeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <mutex>

#include "engine/lower_case.h"

namespace penstock {
namespace {

// A chunk is some milliseconds of tokenization: short enough to take turns, long enough that the
// turns cost nothing.
constexpr size_t kChunkItemsMax = 32;
constexpr size_t kChunkBytes = 64 << 10;

struct Chunk {
  size_t begin = 0;  // items
  size_t end = 0;
  std::vector<int32_t> ids;
  std::vector<int32_t> type_ids;
  std::vector<int32_t> lengths;
  std::vector<int32_t> pool_skip;
  size_t prompt_tokens = 0;  // of the prompt alone, where pooling leaves it out
  Truncation truncation;
};

size_t ItemBytes(const EncodeItem& item) {
  return item.first.size() + item.ids.size_bytes() + (item.second ? item.second->size() : 0);
}

std::vector<Chunk> SplitIntoChunks(const std::vector<EncodeItem>& items) {
  std::vector<Chunk> chunks;
  size_t bytes = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    if (chunks.empty() || bytes >= kChunkBytes || i - chunks.back().begin >= kChunkItemsMax) {
      chunks.push_back({i, i});
      bytes = 0;
    }
    chunks.back().end = i + 1;
    bytes += ItemBytes(items[i]);
  }
  return chunks;
}

Status TooLong(const EncodeItem& item, size_t tokens, int32_t max_tokens) {
  return {StatusCode::kPayloadTooLarge,
          fmt::format("{} has {} tokens; the model takes {}, and truncation is off", item.field,
                      tokens, max_tokens),
          item.field};
}

// One request between Start and its job. Shared by the pool tasks that work on it.
class Tokenization : public std::enable_shared_from_this<Tokenization> {
 public:
  Tokenization(EncodePlan plan, WorkerPool* pool, Histogram* duration, EncodeDone done)
      : plan_(std::move(plan)),
        chunks_(SplitIntoChunks(plan_.items)),
        error_item_(plan_.items.size()),
        pool_(pool),
        duration_(duration),
        done_(std::move(done)),
        start_(Clock::now()) {}

  void Start() {
    const size_t tasks = std::min(chunks_.size(), pool_->threads());
    for (size_t i = 0; i < tasks; ++i) {
      const Status submitted = pool_->Submit([self = shared_from_this()] { return self->Step(); });
      // One task gets through all chunks alone, if it must.
      if (!submitted.ok() && i > 0) return;
      if (!submitted.ok()) {
        plan_.engine->scheduler().CountDropped(submitted.code(), plan_.items.size());
        return done_(submitted);
      }
    }
  }

 private:
  // Works on one chunk. True if there is another to come back for.
  bool Step() {
    const size_t index = next_chunk_.fetch_add(1);
    if (index >= chunks_.size()) return false;
    if (!failed_.load(std::memory_order_relaxed)) RunChunk(&chunks_[index]);
    // acq_rel: the last one sees what the others wrote.
    if (finished_chunks_.fetch_add(1, std::memory_order_acq_rel) + 1 == chunks_.size()) {
      Finish();
      return false;
    }
    return index + 1 < chunks_.size();
  }

  void RunChunk(Chunk* chunk) {
    Encoding encoding;
    if (const Status status = CountPromptTokens(chunk, &encoding); !status.ok()) {
      return Fail(chunk->begin, status);
    }
    for (size_t i = chunk->begin; i < chunk->end; ++i) {
      Status status = CheckContext();
      if (status.ok()) status = RunItem(plan_.items[i], chunk, &encoding);
      if (!status.ok()) return Fail(i, std::move(status));
    }
  }

  Status CheckContext() const {
    if (plan_.context.cancelled()) return {StatusCode::kCancelled, "the client left"};
    if (plan_.context.deadline != Clock::time_point::max() &&
        plan_.context.deadline <= Clock::now()) {
      return {StatusCode::kDeadlineExceeded, "the request's time ran out before its turn came"};
    }
    return Status::Ok();
  }

  // As sentence-transformers counts: the prompt tokenized alone, less the special token at its end.
  Status CountPromptTokens(Chunk* chunk, Encoding* encoding) const {
    const Engine& engine = *plan_.engine;
    if (plan_.prompt.empty() || engine.folder().include_prompt) return Status::Ok();
    EncodeOptions options;
    options.add_special_tokens = plan_.add_special_tokens;
    PENSTOCK_RETURN_IF_ERROR(
        engine.tokenizer().Encode(PreparedText(engine, plan_.prompt, ""), options, encoding));
    chunk->prompt_tokens = encoding->ids.size();
    if (!encoding->ids.empty() && encoding->special_mask.back() != 0) --chunk->prompt_tokens;
    return Status::Ok();
  }

  Status RunItem(const EncodeItem& item, Chunk* chunk, Encoding* encoding) const {
    size_t cut = 0;
    const size_t before = chunk->ids.size();
    PENSTOCK_RETURN_IF_ERROR(item.is_ids ? AddIds(item, chunk, &cut)
                                         : AddText(item, chunk, encoding, &cut));
    const size_t length = chunk->ids.size() - before;
    if (length == 0) {
      return Status::InvalidArgument(
          item.field + " has no tokens; an empty text needs a model that adds special tokens",
          item.field);
    }
    if (length > static_cast<size_t>(plan_.engine->facts().max_tokens)) {
      return TooLong(item, length, plan_.engine->facts().max_tokens);
    }
    chunk->lengths.push_back(static_cast<int32_t>(length));
    if (chunk->prompt_tokens > 0) {
      // What was cut off on the left was prompt first; one token is always left to pool.
      size_t skip = item.is_ids ? 0 : chunk->prompt_tokens;
      if (plan_.side == TruncationSide::kLeft) skip -= std::min(skip, cut);
      chunk->pool_skip.push_back(static_cast<int32_t>(std::min(skip, length - 1)));
    }
    chunk->truncation.inputs += cut > 0;
    chunk->truncation.tokens += static_cast<int64_t>(cut);
    return Status::Ok();
  }

  Status AddIds(const EncodeItem& item, Chunk* chunk, size_t* cut) const {
    const int32_t vocab_size = plan_.engine->folder().encoder.vocab_size;
    for (size_t i = 0; i < item.ids.size(); ++i) {
      if (item.ids[i] >= 0 && item.ids[i] < vocab_size) continue;
      return Status::InvalidArgument(fmt::format("{}[{}]: {} is not a token id; they are 0 to {}",
                                                 item.field, i, item.ids[i], vocab_size - 1),
                                     item.field);
    }
    auto ids = item.ids;
    const size_t max_tokens = plan_.engine->facts().max_tokens;
    if (ids.size() > max_tokens && plan_.truncate) {
      *cut = ids.size() - max_tokens;
      ids = plan_.side == TruncationSide::kRight ? ids.first(max_tokens) : ids.last(max_tokens);
    }
    chunk->ids.insert(chunk->ids.end(), ids.begin(), ids.end());
    chunk->type_ids.resize(chunk->ids.size(), 0);
    return Status::Ok();
  }

  Status AddText(const EncodeItem& item, Chunk* chunk, Encoding* encoding, size_t* cut) const {
    const Engine& engine = *plan_.engine;
    EncodeOptions options;
    options.add_special_tokens = plan_.add_special_tokens;
    options.max_tokens = plan_.truncate ? engine.facts().max_tokens : 0;
    options.side = plan_.side;
    std::string prepared;
    std::string_view text = item.first;
    if (!plan_.prompt.empty() || engine.folder().do_lower_case) {
      prepared = PreparedText(engine, plan_.prompt, text);
      text = prepared;
    }
    Status status;
    if (item.second && engine.folder().do_lower_case) {
      status = engine.tokenizer().EncodePair(text, PreparedText(engine, "", *item.second), options,
                                             encoding);
    } else if (item.second) {
      status = engine.tokenizer().EncodePair(text, *item.second, options, encoding);
    } else {
      status = engine.tokenizer().Encode(text, options, encoding);
    }
    if (!status.ok())
      return Status(status.code(), item.field + ": " + status.message(), item.field);
    chunk->ids.insert(chunk->ids.end(), encoding->ids.begin(), encoding->ids.end());
    chunk->type_ids.insert(chunk->type_ids.end(), encoding->type_ids.begin(),
                           encoding->type_ids.end());
    *cut = encoding->truncated_tokens;
    return Status::Ok();
  }

  // Of several failures that of the first item counts, whichever thread comes first.
  void Fail(size_t item, Status status) {
    const std::lock_guard lock(error_mutex_);
    failed_.store(true, std::memory_order_relaxed);
    if (item >= error_item_) return;
    error_item_ = item;
    error_ = std::move(status);
  }

  void Finish() {
    duration_->Observe(std::chrono::duration<double>(Clock::now() - start_).count());
    if (failed_) {
      plan_.engine->scheduler().CountDropped(error_.code(), plan_.items.size());
      return done_(std::move(error_));
    }
    auto job = std::make_unique<EncodeJob>();
    Truncation truncation;
    size_t tokens = 0;
    for (const Chunk& chunk : chunks_) tokens += chunk.ids.size();
    job->ids.reserve(tokens);
    job->lengths.reserve(plan_.items.size());
    const bool with_types = plan_.engine->facts().uses_type_ids;
    for (Chunk& chunk : chunks_) {
      job->ids.insert(job->ids.end(), chunk.ids.begin(), chunk.ids.end());
      job->lengths.insert(job->lengths.end(), chunk.lengths.begin(), chunk.lengths.end());
      job->pool_skip.insert(job->pool_skip.end(), chunk.pool_skip.begin(), chunk.pool_skip.end());
      if (with_types) {
        job->type_ids.insert(job->type_ids.end(), chunk.type_ids.begin(), chunk.type_ids.end());
      }
      truncation.inputs += chunk.truncation.inputs;
      truncation.tokens += chunk.truncation.tokens;
    }
    job->output = plan_.output;
    job->context = plan_.context;
    // Copied: if the job is refused, `done_` is still needed.
    job->done = [done = done_, truncation](std::unique_ptr<EncodeJob> back, Status status) {
      if (!status.ok()) return done(std::move(status));
      EncodeOutcome outcome;
      outcome.usage.prompt_tokens = static_cast<int64_t>(back->ids.size());
      outcome.values = std::move(back->values);
      outcome.width = back->width;
      outcome.lengths = std::move(back->lengths);
      outcome.truncation = truncation;
      done(std::move(outcome));
    };
    const Status submitted = plan_.engine->scheduler().Submit(std::move(job));
    if (!submitted.ok()) done_(submitted);
  }

  const EncodePlan plan_;
  std::vector<Chunk> chunks_;
  std::atomic<size_t> next_chunk_{0};
  std::atomic<size_t> finished_chunks_{0};
  std::atomic<bool> failed_{false};
  std::mutex error_mutex_;
  size_t error_item_;  // guarded by error_mutex_
  Status error_;       // guarded by error_mutex_ until Finish
  WorkerPool* const pool_;
  Histogram* const duration_;
  const EncodeDone done_;
  const Clock::time_point start_;
};

}  // namespace

std::string PreparedText(const Engine& engine, std::string_view prompt, std::string_view text) {
  std::string prepared(prompt);
  prepared += text;
  return engine.folder().do_lower_case ? LowerCase(prepared) : prepared;
}

void StartEncode(EncodePlan plan, WorkerPool* pool, Histogram* tokenize_duration, EncodeDone done) {
  PENSTOCK_CHECK(!plan.items.empty());
  std::make_shared<Tokenization>(std::move(plan), pool, tokenize_duration, std::move(done))
      ->Start();
}

}  // namespace penstock

#include "encode/encode_pipeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <mutex>

#include "encode/request_tokenizer.h"
#include "log/exception_status.h"
#include "metrics/stages.h"
#include "threads/byte_budget.h"
#include "unicode/lower_case.h"

namespace penstock::encode {
namespace {

// A chunk is some milliseconds of tokenization: short enough to take turns, long enough that the
// turns cost nothing.
constexpr size_t kChunkItemsMax = 32;
constexpr size_t kChunkBytes = 64 << 10;
// A chunk of this many bytes is a single text; it is tokenized as a long turn of the pool.
constexpr size_t kLongChunkBytes = 256 << 10;
// Bytes of a token: id, type id, length and skip, in a chunk and in the job.
constexpr int64_t kTokenBytes = 24;
// Bytes of a value: in the job and in the copy of the result cache.
constexpr int64_t kValueBytes = 2 * sizeof(float);

struct Chunk {
  size_t begin = 0;  // items
  size_t end = 0;
  size_t bytes = 0;
  TokenizedItems made = {};
};

size_t ItemBytes(const EncodeItem& item) {
  return item.first.size() + item.ids.size_bytes() + (item.second ? item.second->size() : 0);
}

std::vector<Chunk> SplitIntoChunks(const std::vector<EncodeItem>& items) {
  std::vector<Chunk> chunks;
  for (size_t i = 0; i < items.size(); ++i) {
    if (chunks.empty() || chunks.back().bytes >= kChunkBytes ||
        i - chunks.back().begin >= kChunkItemsMax) {
      chunks.push_back({i, i});
    }
    chunks.back().end = i + 1;
    chunks.back().bytes += ItemBytes(items[i]);
  }
  return chunks;
}

// RunStages::kInfer.
void MakeUpIds(const engine::EncoderEngine& engine, const EncodeItem& item, TokenizedItems* out) {
  constexpr size_t kBytesPerToken = 6;  // of English text, the space included
  const auto length =
      std::min(static_cast<size_t>(engine.info().max_tokens), 2 + ItemBytes(item) / kBytesPerToken);
  const auto vocab_size = static_cast<size_t>(engine.folder().encoder.vocab_size);
  for (size_t i = 0; i < length; ++i) {
    out->ids.push_back(static_cast<int32_t>((out->ids.size() * 7919) % vocab_size));
  }
  out->type_ids.resize(out->ids.size(), 0);
  out->lengths.push_back(static_cast<int32_t>(length));
}

size_t OutputWidth(const engine::EncoderEngine& engine, program::EncoderOutput output) {
  const engine::EngineInfo& info = engine.info();
  const int32_t width = output == program::EncoderOutput::kPooled   ? info.embedding_size
                        : output == program::EncoderOutput::kTokens ? info.hidden_size
                                                                    : info.num_labels;
  return static_cast<size_t>(width);
}

// RunStages::kTokenize.
void AnswerZeros(const engine::EncoderEngine& engine, std::unique_ptr<sched::EncodeJob> job) {
  const size_t width = OutputWidth(engine, job->output);
  job->width = static_cast<int32_t>(width);
  const size_t rows =
      job->output == program::EncoderOutput::kTokens ? job->ids.size() : job->lengths.size();
  job->values.assign(rows * width, 0);
  const auto done = std::move(job->done);
  done(std::move(job), Status::Ok());
}

// One request from Start to its last callback. Shared by the pool tasks that work on it, and then
// the job's; it keeps the engine leased.
class Tokenization : public std::enable_shared_from_this<Tokenization> {
 public:
  Tokenization(EncodePlan plan, const EncodeStages& stages, EncodeDone done)
      : plan_(std::move(plan)),
        tokenizer_(&plan_, stages.tokens),
        chunks_(SplitIntoChunks(plan_.items)),
        error_item_(plan_.items.size()),
        pool_(stages.pool),
        results_(stages.results),
        duration_(stages.tokenize_duration),
        run_(stages.run),
        response_bytes_max_(stages.response_bytes_max),
        width_(OutputWidth(*plan_.engine, plan_.output)),
        done_(std::move(done)),
        start_(Clock::now()) {}

  void Start() {
    if (metrics::RequestTrace* const trace = plan_.context.trace.get()) {
      // If the request is a part, its cutter has set these before: other threads may read it by
      // now.
      if (plan_.request_items == 0) {
        trace->SetModel(plan_.engine->name());
        trace->SetRows(static_cast<int64_t>(plan_.items.size()));
      }
      trace->Enter(metrics::Stage::kTokenize);
    }
    if (const Status status = CheckKnownOutput(); !status.ok()) return done_(status);
    const size_t tasks = std::min(chunks_.size(), pool_->threads());
    for (size_t i = 0; i < tasks; ++i) {
      const auto length = IsLong(i) ? WorkerPool::Length::kLong : WorkerPool::Length::kShort;
      const Status submitted = pool_->Submit([self = shared_from_this()] { return self->Step(); },
                                             plan_.context.priority, length);
      // One task gets through all chunks alone, if it must.
      if (!submitted.ok() && i > 0) return;
      if (!submitted.ok()) {
        plan_.engine->scheduler().CountDropped(submitted.code(), plan_.items.size());
        return done_(submitted);
      }
    }
  }

 private:
  bool IsLong(size_t chunk) const {
    return chunk < chunks_.size() && chunks_[chunk].bytes >= kLongChunkBytes;
  }

  // Works on one chunk.
  WorkerPool::Turn Step() {
    const size_t index = next_chunk_.fetch_add(1);
    if (index >= chunks_.size()) return WorkerPool::Turn::kDone;
    if (!failed_.load(std::memory_order_relaxed)) {
      try {
        RunChunk(&chunks_[index]);
      } catch (...) {
        Fail(chunks_[index].begin, ExceptionStatus());
      }
    }
    // acq_rel: the last one sees what the others wrote.
    if (finished_chunks_.fetch_add(1, std::memory_order_acq_rel) + 1 == chunks_.size()) {
      try {
        Finish();
      } catch (...) {
        done_(ExceptionStatus());
      }
      return WorkerPool::Turn::kDone;
    }
    const size_t next = next_chunk_.load(std::memory_order_relaxed);
    if (next >= chunks_.size()) return WorkerPool::Turn::kDone;
    return IsLong(next) ? WorkerPool::Turn::kAgainLong : WorkerPool::Turn::kAgain;
  }

  void RunChunk(Chunk* chunk) {
    RequestTokenizer::Scratch scratch;
    for (size_t i = chunk->begin; i < chunk->end; ++i) {
      Status status = plan_.context.CheckWanted(Clock::now());
      if (status.ok() && run_ == RunStages::kInfer) {
        MakeUpIds(*plan_.engine, plan_.items[i], &chunk->made);
      } else if (status.ok()) {
        status = tokenizer_.Add(i, &scratch, &chunk->made);
      }
      if (!status.ok()) return Fail(i, std::move(status));
    }
    if (Status status = TakeTokens(chunk->made.ids.size()); !status.ok()) {
      Fail(chunk->begin, std::move(status));
    }
  }

  // Number of output values for `tokens` tokens in `sequences` sequences.
  size_t OutputValues(size_t tokens, size_t sequences) const {
    return (plan_.output == program::EncoderOutput::kTokens ? tokens : sequences) * width_;
  }
  Status CheckOutput(size_t values) const {
    if (plan_.context.memory == nullptr) return Status::Ok();
    return CheckResponseBytes(static_cast<int64_t>(values) * plan_.printed_value_bytes,
                              response_bytes_max_);
  }
  // Checked before anything is tokenized or copied. A text has at least one token.
  Status CheckKnownOutput() const {
    const auto max_tokens = static_cast<size_t>(plan_.engine->info().max_tokens);
    size_t tokens = 0;
    for (const EncodeItem& item : plan_.items) {
      tokens += item.is_ids ? std::min(item.ids.size(), max_tokens) : 1;
    }
    return CheckOutput(OutputValues(tokens, plan_.items.size()));
  }
  Status TakeTokens(size_t tokens) {
    if (plan_.context.memory == nullptr) return Status::Ok();
    const size_t all = tokens_made_.fetch_add(tokens, std::memory_order_relaxed) + tokens;
    PENSTOCK_RETURN_IF_ERROR(CheckOutput(OutputValues(all, plan_.items.size())));
    return plan_.context.memory->Take(static_cast<int64_t>(tokens) * kTokenBytes);
  }
  Status TakeOutput(size_t values) const {
    PENSTOCK_RETURN_IF_ERROR(CheckOutput(values));
    if (plan_.context.memory == nullptr) return Status::Ok();
    return plan_.context.memory->Take(
        static_cast<int64_t>(values) *
        (kValueBytes + plan_.printed_value_bytes + plan_.response_value_bytes));
  }

  // The failure of the first item counts, in whatever order threads find failures.
  void Fail(size_t item, Status status) noexcept {
    const std::lock_guard lock(error_mutex_);
    failed_.store(true, std::memory_order_relaxed);
    if (item >= error_item_) return;
    error_item_ = item;
    error_ = std::move(status);
  }

  // The job has copied these, or they are no longer needed. Late tasks do not read them.
  void FreeInputs() {
    for (Chunk& chunk : chunks_) chunk.made = {};
    plan_.items = std::vector<EncodeItem>();
  }

  void Finish() {
    duration_->Observe(std::chrono::duration<double>(Clock::now() - start_).count());
    metrics::RequestTrace* const trace = plan_.context.trace.get();
    size_t tokens = 0;
    for (const Chunk& chunk : chunks_) tokens += chunk.made.ids.size();
    if (!failed_) {
      Status taken = TakeOutput(OutputValues(tokens, plan_.items.size()));
      if (!taken.ok()) Fail(0, std::move(taken));
    }
    if (failed_) {
      if (trace != nullptr) trace->Enter(metrics::Stage::kComplete);
      plan_.engine->scheduler().CountDropped(error_.code(), plan_.items.size());
      return done_(std::move(error_));
    }
    auto job = std::make_unique<sched::EncodeJob>();
    Truncation truncation;
    job->ids.reserve(tokens);
    job->lengths.reserve(plan_.items.size());
    const bool with_types = plan_.engine->info().uses_type_ids;
    const auto append = [](const std::vector<int32_t>& from, std::vector<int32_t>* to) {
      to->insert(to->end(), from.begin(), from.end());
    };
    for (const Chunk& chunk : chunks_) {
      append(chunk.made.ids, &job->ids);
      append(chunk.made.lengths, &job->lengths);
      append(chunk.made.pool_skip, &job->pool_skip);
      if (with_types) append(chunk.made.type_ids, &job->type_ids);
      truncation.inputs += chunk.made.truncation.inputs;
      truncation.tokens += chunk.made.truncation.tokens;
      truncation.unread_bytes += chunk.made.truncation.unread_bytes;
    }
    job->output = plan_.output;
    job->context = plan_.context;
    job->may_lead = pool_->HasIdleThread();  // it tokenizes meanwhile
    FreeInputs();
    // Keeps this object, and so its lease of the engine.
    job->done = [self = shared_from_this(), truncation](std::unique_ptr<sched::EncodeJob> back,
                                                        Status status) {
      if (!status.ok()) return self->done_(std::move(status));
      EncodeOutcome outcome;
      outcome.engine = self->plan_.engine.get();
      outcome.usage.prompt_tokens = static_cast<int64_t>(back->ids.size());
      outcome.values = std::move(back->values);
      outcome.width = back->width;
      outcome.lengths = std::move(back->lengths);
      outcome.truncation = truncation;
      self->done_(std::move(outcome));
    };
    if (trace != nullptr) {
      trace->AddTokens(static_cast<int64_t>(tokens));
      trace->Enter(metrics::Stage::kQueue);
    }
    if (run_ == RunStages::kTokenize) return AnswerZeros(*plan_.engine, std::move(job));
    const Status submitted = results_->Submit(plan_.engine, std::move(job));
    if (!submitted.ok()) done_(submitted);
  }

  EncodePlan plan_;
  RequestTokenizer tokenizer_;
  std::vector<Chunk> chunks_;
  std::atomic<size_t> next_chunk_{0};
  std::atomic<size_t> finished_chunks_{0};
  std::atomic<bool> failed_{false};
  std::mutex error_mutex_;
  size_t error_item_;  // guarded by error_mutex_
  Status error_;       // guarded by error_mutex_ until Finish
  WorkerPool* const pool_;
  ResultCache* const results_;
  metrics::Histogram* const duration_;
  const RunStages run_;
  const int64_t response_bytes_max_;
  const size_t width_;  // of a row of the output
  std::atomic<size_t> tokens_made_{0};
  const EncodeDone done_;
  const Clock::time_point start_;
};

}  // namespace

Status CheckResponseBytes(int64_t bytes, int64_t limit) {
  if (bytes <= limit) return Status::Ok();
  return {StatusCode::kPayloadTooLarge,
          fmt::format("the response would have up to {} bytes; the limit is {} "
                      "(--max-response-bytes)",
                      bytes, limit)};
}

std::string PreparedText(const engine::EncoderEngine& engine, std::string_view prompt,
                         std::string_view text) {
  std::string prepared(prompt);
  prepared += text;
  return engine.folder().do_lower_case ? unicode::LowerCase(prepared) : prepared;
}

void StartEncode(EncodePlan plan, const EncodeStages& stages, EncodeDone done) {
  PENSTOCK_CHECK(!plan.items.empty());
  // `done` runs on other modules' threads, which could not report its exceptions to the request.
  EncodeDone guarded = [done = std::move(done)](Expected<EncodeOutcome> outcome) {
    try {
      done(std::move(outcome));
    } catch (...) {
      done(ExceptionStatus());
    }
  };
  std::make_shared<Tokenization>(std::move(plan), stages, std::move(guarded))->Start();
}

}  // namespace penstock::encode

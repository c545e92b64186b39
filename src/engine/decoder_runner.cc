#include "engine/decoder_runner.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include "log/exception_status.h"
#include "os/memory.h"

namespace penstock::engine {

namespace {

// Others that were seen at the gate are expected to come again for so long.
constexpr std::chrono::seconds kSharedFor{1};

}  // namespace

struct DecoderRunner::Memory {
  Memory(std::unique_ptr<program::ProgramRun> step_run,
         std::unique_ptr<program::ProgramRun> head_run, int32_t row_count, int32_t sequences,
         int32_t blocks, int32_t cached, int32_t context)
      : run(std::move(step_run)),
        head(std::move(head_run)),
        rows(row_count),
        sequences_max(static_cast<size_t>(sequences)),
        cached_max(cached),
        pools(blocks, run->page_blocks()),
        cache(&pools),
        spare_blocks(static_cast<size_t>(blocks)),
        context_tokens(context),
        ids_of_rows(static_cast<size_t>(std::max(row_count, context))) {}

  // The sequence at a place of the step under way.
  kv::Sequence& At(size_t place, bool caches) {
    auto& list = caches ? caching : plain;
    while (list.size() <= place) {
      list.push_back(
          std::make_unique<kv::Sequence>(&pools, caches ? &cache : nullptr, context_tokens));
    }
    return *list[place];
  }
  uint64_t bytes() const { return run->HeldBytes() + run->CommittedBytes() + head->HeldBytes(); }
  // Drops what was cached longest ago, and gives pages back.
  void Trim() {
    kv::BlockPool& pool = pools[0];
    const int32_t over = pool.counts().idle - cached_max;
    if (over > 0) pool.EvictIdleSince(INT64_MAX, over);
    const size_t count = pool.Uncommit(2 * rows / kKvBlockTokens, spare_blocks);
    if (count > 0) run->ReleaseBlocks(0, std::span(spare_blocks).first(count));
  }

  std::unique_ptr<program::ProgramRun> run;
  std::unique_ptr<program::ProgramRun> head;
  const int32_t rows;  // of a step
  const size_t sequences_max;
  const int32_t cached_max;
  kv::CachePools pools;
  kv::PrefixCache cache;
  std::vector<std::unique_ptr<kv::Sequence>> caching, plain;
  std::vector<int32_t> spare_blocks;
  const int32_t context_tokens;
  std::vector<int32_t> ids_of_rows;  // the head's batches want ids, which nothing reads
  std::vector<float> states;         // of a sequence in pieces, where the output needs all
};

// One batch on its way through the steps.
class DecoderRunner::BatchRun {
 public:
  BatchRun(const models::EmbeddingDecoder& model, Memory* memory, const program::PackedBatch& batch,
           program::EncoderOutput output, std::span<float* const> sinks)
      : model_(model),
        memory_(*memory),
        batch_(batch),
        output_(output),
        sinks_(sinks),
        width_(static_cast<size_t>(model.hidden_size())),
        all_states_(model.NeedsAllStates(output)),
        caches_(!all_states_ && model.causal()) {}
  ~BatchRun() {
    for (Piece& piece : pieces_) piece.sequence->Release();
  }

  // Others are let in between steps, and sequences that nobody waits for any more are left out.
  Status Run(program::BatchPause* pause, Clock::time_point* shared_until) {
    while (true) {
      const bool shared = model_.causal() && Clock::now() < *shared_until;
      DropUnwanted(pause);
      PENSTOCK_RETURN_IF_ERROR(FillStep(shared ? kSharedRows : memory_.rows, pause));
      if (pieces_.empty()) return Status::Ok();  // nobody waits for what was left
      PENSTOCK_RETURN_IF_ERROR(RunStep());
      PENSTOCK_RETURN_IF_ERROR(Deliver());
      if (next_ == batch_.sequences() && pieces_.empty()) return Status::Ok();
      if (pause != nullptr && pause->Pause()) *shared_until = Clock::now() + kSharedFor;
    }
  }
  uint64_t cached_tokens() const { return cached_tokens_; }

 private:
  // A sequence in the step under way.
  struct Piece {
    size_t index = 0;
    kv::Sequence* sequence = nullptr;
    int32_t rows = 0;
    bool last = false;       // the sequence ends with this step
    bool long_rope = false;  // CachedSequence's
  };

  std::span<const int32_t> IdsOf(size_t index) const {
    return batch_.ids.subspan(static_cast<size_t>(batch_.offsets[index]),
                              static_cast<size_t>(batch_.length(index)));
  }

  static bool Wanted(program::BatchPause* pause, size_t index) {
    return pause == nullptr || pause->Wanted(index);
  }

  void DropUnwanted(program::BatchPause* pause) {
    if (pieces_.empty() || Wanted(pause, pieces_[0].index)) return;
    pieces_[0].sequence->Release();
    pieces_.clear();
    free_place_ = 0;
  }

  // The sequence that goes on, if there is one, then whole ones as they fit; or, alone, the
  // beginning of one that fits no step.
  Status FillStep(int32_t room, program::BatchPause* pause) {
    room = std::min(room, memory_.rows);
    if (!pieces_.empty()) {
      PENSTOCK_RETURN_IF_ERROR(Plan(&pieces_[0], room));
      room -= pieces_[0].rows;
    }
    while (next_ < batch_.sequences() && room > 0 && (pieces_.empty() || pieces_[0].last)) {
      if (!Wanted(pause, next_)) {
        ++next_;
        continue;
      }
      if (pieces_.size() == memory_.sequences_max) break;
      pieces_.reserve(pieces_.size() + 1);  // before the sequence holds anything
      Piece piece;
      piece.index = next_;
      piece.sequence = &memory_.At(free_place_++, caches_);
      // Texts of clients that share nothing, or that are rotated unlike, share no keys.
      piece.long_rope = memory_.run->LongRope(IdsOf(next_).size());
      const uint64_t salt = batch_.cache_salts.empty() ? 0 : batch_.cache_salts[next_];
      piece.sequence->SetSalt(salt + (piece.long_rope ? 1 : 0));
      const int32_t cached = caches_ ? piece.sequence->TakeCached(IdsOf(next_)) : int32_t{0};
      const int32_t left = batch_.length(next_) - cached;
      if (left > room && !pieces_.empty()) {
        piece.sequence->Release();
        --free_place_;
        break;
      }
      pieces_.push_back(piece);
      ++next_;
      cached_tokens_ += static_cast<uint64_t>(cached);
      PENSTOCK_RETURN_IF_ERROR(Plan(&pieces_.back(), room));
      room -= pieces_.back().rows;
    }
    return Status::Ok();
  }

  Status Plan(Piece* piece, int32_t room) const {
    const int32_t left = batch_.length(piece->index) - piece->sequence->length();
    piece->rows = std::min(left, room);
    piece->last = piece->rows == left;
    return piece->sequence->Reserve(piece->rows);
  }

  Status RunStep() {
    ids_.clear();
    offsets_.assign(1, 0);
    sequences_.clear();
    picked_.clear();
    for (const Piece& piece : pieces_) {
      const auto past = static_cast<size_t>(piece.sequence->length());
      const auto ids = IdsOf(piece.index).subspan(past, static_cast<size_t>(piece.rows));
      ids_.insert(ids_.end(), ids.begin(), ids.end());
      offsets_.push_back(static_cast<int32_t>(ids_.size()));
      sequences_.push_back({piece.sequence->length(), piece.sequence->tables(), piece.long_rope});
      if (!all_states_ && piece.last) picked_.push_back(static_cast<int32_t>(ids_.size()) - 1);
    }
    if (all_states_) {
      picked_.resize(ids_.size());
      std::iota(picked_.begin(), picked_.end(), 0);
    }
    return memory_.run->Run(
        {.ids = ids_, .offsets = offsets_, .cached = sequences_, .picks = picked_});
  }

  // The step's states, a row each, end to end.
  Expected<std::span<const float>> States() const { return memory_.run->Rows(0, picked_.size()); }

  Status Deliver() {
    PENSTOCK_RETURN_IF_ERROR(all_states_ ? DeliverAll() : DeliverLast());
    size_t first = 0;
    for (Piece& piece : pieces_) {
      piece.sequence->Append(std::span(ids_).subspan(first, static_cast<size_t>(piece.rows)));
      first += static_cast<size_t>(piece.rows);
      if (piece.last) piece.sequence->Release();
    }
    if (pieces_.back().last) {
      pieces_.clear();
      free_place_ = 0;
      return Status::Ok();
    }
    // The one in pieces goes on as the first.
    pieces_ = {pieces_.back()};
    return Status::Ok();
  }

  // The head over rows of states; `offsets` cut them into sequences.
  Status RunHead(std::span<const float> states, std::span<const int32_t> offsets,
                 std::span<const int32_t> skip, std::span<float* const> sinks) {
    program::PackedBatch batch;
    batch.ids = std::span(memory_.ids_of_rows).first(states.size() / width_);
    batch.offsets = offsets;
    batch.pool_skip = skip;
    batch.input = states;
    return memory_.head->Run(0, batch, sinks);
  }

  Status DeliverLast() {
    sinks_now_.clear();
    offsets_.assign(1, 0);
    for (const Piece& piece : pieces_) {
      if (!piece.last) continue;
      sinks_now_.push_back(sinks_[piece.index]);
      offsets_.push_back(static_cast<int32_t>(sinks_now_.size()));
    }
    if (sinks_now_.empty()) return Status::Ok();
    PENSTOCK_ASSIGN_OR_RETURN(const std::span<const float> states, States());
    return RunHead(states, offsets_, {}, sinks_now_);
  }

  Status DeliverAll() {
    PENSTOCK_ASSIGN_OR_RETURN(std::span<const float> states, States());
    for (const Piece& piece : pieces_) {
      const size_t floats = static_cast<size_t>(piece.rows) * width_;
      PENSTOCK_RETURN_IF_ERROR(DeliverAll(piece, states.first(floats)));
      states = states.subspan(floats);
    }
    return Status::Ok();
  }

  Status DeliverAll(const Piece& piece, std::span<const float> states) {
    const auto past = static_cast<size_t>(piece.sequence->length());
    if (output_ == program::EncoderOutput::kTokens) {
      std::copy(states.begin(), states.end(), sinks_[piece.index] + past * width_);
      return Status::Ok();
    }
    const bool whole = past == 0 && piece.last;
    if (!whole) {
      if (past == 0) memory_.states.clear();
      memory_.states.insert(memory_.states.end(), states.begin(), states.end());
    }
    if (!piece.last) return Status::Ok();
    const int32_t offsets[] = {0, batch_.length(piece.index)};
    const auto skip = batch_.pool_skip.empty() ? std::span<const int32_t>()
                                               : batch_.pool_skip.subspan(piece.index, 1);
    return RunHead(whole ? states : memory_.states, offsets, skip, sinks_.subspan(piece.index, 1));
  }

  const models::EmbeddingDecoder& model_;
  Memory& memory_;
  const program::PackedBatch& batch_;
  const program::EncoderOutput output_;
  const std::span<float* const> sinks_;
  const size_t width_;
  const bool all_states_;
  const bool caches_;
  size_t next_ = 0;  // sequence that no step has begun
  size_t free_place_ = 0;
  uint64_t cached_tokens_ = 0;
  std::vector<Piece> pieces_;
  std::vector<int32_t> ids_, picked_, offsets_;
  std::vector<program::CachedSequence> sequences_;
  std::vector<float*> sinks_now_;
};

DecoderRunner::DecoderRunner(std::shared_ptr<const models::EmbeddingDecoder> model,
                             const program::Backend* backend, numbers::DType cache_type)
    : model_(std::move(model)), backend_(backend), cache_type_(cache_type) {}

DecoderRunner::~DecoderRunner() = default;

// Room for a step of `rows` tokens.
Status DecoderRunner::Prepare(int32_t rows) {
  if (memory_ != nullptr && memory_->rows >= rows) return Status::Ok();
  memory_.reset();
  const int32_t context = model_->max_tokens();
  program::PrepareOptions options;
  options.cache_type = cache_type_;
  options.rows = options.picks = rows;
  const int64_t token_bytes = families::KvBytesPerToken(
      model_->decoder().config(), cache_type_ == numbers::DType::kF32 ? 4 : 2);
  const int32_t context_blocks = BlocksOfTokens(context);
  const auto cached = static_cast<int32_t>(
      std::min<int64_t>(kCachedBytesMax / (token_bytes * kKvBlockTokens), 4 * context_blocks + 64));
  // All layers in one group: what texts hold is gone with their batch, windows or not.
  // A sequence of the whole context, those of a step, and what stays.
  const int32_t sequences = SequencesOfStep(*backend_, rows);
  const int32_t blocks = context_blocks + BlocksOfStep(*backend_, rows) + cached;
  options.blocks = {blocks};
  PENSTOCK_ASSIGN_OR_RETURN(auto run, model_->decoder().NewRun(options));
  PENSTOCK_ASSIGN_OR_RETURN(auto head, model_->NewHead());
  memory_ = std::make_unique<Memory>(std::move(run), std::move(head), rows, sequences, blocks,
                                     cached, context);
  return Status::Ok();
}

Status DecoderRunner::Run(const program::PackedBatch& batch, program::EncoderOutput output,
                          std::span<float* const> sinks) {
  if (model_->OutputWidth(output) == 0) {
    return Status::InvalidArgument("this model does not give that output", "model");
  }
  const std::lock_guard lock(mutex_);
  int32_t rows = std::min(kRows, model_->max_tokens());
  for (size_t s = 0; s < batch.sequences(); ++s) {
    if (batch.length(s) < 1 || batch.length(s) > model_->max_tokens()) {
      return Status::InvalidArgument("a sequence of " + std::to_string(batch.length(s)) +
                                         " tokens; the model takes 1 to " +
                                         std::to_string(model_->max_tokens()),
                                     "inputs");
    }
    if (!model_->causal()) rows = std::max(rows, batch.length(s));
  }
  // In steps, so that a batch that is a little longer does not make all memory anew.
  if (rows > kRows) {
    rows = std::min(model_->max_tokens(),
                    static_cast<int32_t>(std::bit_ceil(static_cast<uint32_t>(rows))));
  }
  try {
    PENSTOCK_RETURN_IF_ERROR(Prepare(rows));
    Status status;
    {
      BatchRun run(*model_, memory_.get(), batch, output, sinks);
      status = run.Run(pause(), &shared_until_);
      cached_tokens_.fetch_add(run.cached_tokens(), std::memory_order_relaxed);
    }
    memory_->Trim();
    held_bytes_.store(memory_->bytes(), std::memory_order_relaxed);
    return status;
  } catch (...) {
    return ExceptionStatus();
  }
}

uint64_t DecoderRunner::HeldBytes() const { return held_bytes_.load(std::memory_order_relaxed); }

uint64_t DecoderRunner::ReleaseMemory() {
  uint64_t released = 0;
  {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock || memory_ == nullptr) return 0;
    memory_.reset();
    released = held_bytes_.exchange(0, std::memory_order_relaxed);
  }
  TrimHeap();  // takes milliseconds, in which a batch may run
  return released;
}

}  // namespace penstock::engine

#include "cpu/step_worker.h"

#include <algorithm>
#include <variant>

#include "base/int_math.h"
#include "base/status.h"

namespace penstock::cpu {
StepWorker::StepWorker(StepShared* shared, size_t worker, HugePageArena* arena)
    : shared_(*shared),
      kernels_(*shared->kernels),
      worker_(worker),
      normed_(kOwnRows * shared->sizes.in, arena),
      gemm_scratch_(kBlockScratchBytes / sizeof(float), arena),
      attention_scratch_(AttentionScratchFloats(*shared), arena) {
  for (size_t i = 0; i < kOperandTypes; ++i) {
    const size_t in = shared->sizes.packed_in[i];
    if (in == 0) continue;
    packed_[i] =
        std::make_unique<AlignedBuffer>(BlockRowsWords(kOperandDTypes[i], in, kOwnRows), arena);
  }
  scan_.Reset(sample::kCandidatesMax, true);  // allocates
  ListLinears();
  FindNext();
}

void StepWorker::ListLinears() {
  for (const program::Op& op : shared_.program.ops) {
    for (const program::PackedLinear* weight : program::WeightsOf(op)) {
      const auto* attention = std::get_if<program::AttentionOp>(&op);
      if (attention != nullptr && weight != attention->q) attention = nullptr;
      const BlockLinear& linear = shared_.Linear(weight);
      linears_.push_back({&linear, attention});
      next_.try_emplace(&linear, nullptr);
    }
  }
}

void StepWorker::FindNext() {
  bounds_version_ = shared_.bounds_version;
  const BlockLinear* last = nullptr;
  for (const Read& read : linears_) {
    size_t first = ShareOf(read.linear->panels()).begin;
    if (read.heads != nullptr) {
      const program::AttentionShape& shape = read.heads->shape;
      const size_t head = std::min(HeadsOf(*read.heads).begin, static_cast<size_t>(shape.heads));
      first = head * static_cast<size_t>(shape.head_size) / static_cast<size_t>(kernels_.panel);
    }
    if (last != nullptr && first < read.linear->panels()) {
      next_.find(last)->second = read.linear->panel(first);
    }
    last = read.linear;
  }
}

double StepWorker::LinearSeconds() const {
  double seconds = 0;
  for (const StepStage stage :
       {StepStage::kOut, StepStage::kGateUp, StepStage::kDown, StepStage::kLogits}) {
    seconds += profile_[static_cast<size_t>(stage)];
  }
  return seconds;
}

uint64_t StepWorker::bytes() const {
  uint64_t floats = normed_.size() + gemm_scratch_.size() + attention_scratch_.size();
  for (const auto& packed : packed_) floats += packed == nullptr ? 0 : packed->size();
  return floats * sizeof(float);
}

void StepWorker::Run() noexcept {
  rows_ = shared_.batch->ids.size();
  phase_ = 0;  // of all workers, also of one that had no part in the last step
  if (shared_.bounds_version != bounds_version_) FindNext();
  if (shared_.timed) marked_ = Clock::now();
  for (const program::Op& op : shared_.program.ops) {
    std::visit([this](const auto& one) { RunOp(one); }, op);
  }
}

void StepWorker::Meet() {
  // No worker reads this counter now: the next phase begins after the barrier, and the phase that
  // used it before has ended.
  if (worker_ == 0) shared_.taken[(phase_ + 1) % 3].store(0, std::memory_order_relaxed);
  ++phase_;
  if (!shared_.timed) return shared_.barrier.Wait(worker_);
  Mark(stage_);
  shared_.barrier.Wait(worker_);
  Mark(StepStage::kWait);
}

void StepWorker::Mark(StepStage stage) {
  const auto now = Clock::now();
  profile_[static_cast<size_t>(stage)] += std::chrono::duration<double>(now - marked_).count();
  marked_ = now;
}

StepWorker::Part StepWorker::ShareOf(size_t count) const {
  const auto place = [&](size_t worker) {
    return (count * shared_.bounds[worker] + StepShares::kWhole / 2) / StepShares::kWhole;
  };
  return {place(worker_), place(worker_ + 1)};
}

const float* StepWorker::NormRows(const Input& input, size_t begin, size_t end, float* to) const {
  for (size_t row = begin; row < end; ++row) {
    const size_t from = input.pick == nullptr ? row : static_cast<size_t>(input.pick[row]);
    const float* x = input.x + from * input.width;
    float* y = to + row * input.width;
    if (input.norm.gamma == nullptr) {
      std::copy_n(x, input.width, y);
    } else {
      kernels_.rms_norm(x, 1, input.width, DataOf(input.norm.gamma), input.norm.epsilon, y);
    }
  }
  return to;
}

StepWorker::Packed StepWorker::Pack(const Input& input,
                                    std::span<const BlockLinear* const> readers) {
  const bool own = input.rows <= kOwnRows && shared_.tuning.own_rows;
  const bool as_is = input.norm.gamma == nullptr && input.pick == nullptr;
  float* const normed = own ? normed_.data() : shared_.normed.data();
  Packed packed;
  const auto pack = [&](size_t first_tile, size_t tiles) {
    std::array<bool, kOperandTypes> done{};
    for (const BlockLinear* reader : readers) {
      const size_t index = OperandIndex(reader->dtype());
      if (std::exchange(done[index], true)) continue;
      Word* const to = reinterpret_cast<Word*>((own ? packed_ : shared_.packed)[index]->data());
      packed.words[index] = to;
      reader->PackRows(as_is ? input.x : normed, input.width, input.rows, to, first_tile, tiles);
    }
  };
  if (own) {
    if (!as_is) NormRows(input, 0, input.rows, normed);
    pack(0, readers[0]->RowTiles(input.rows));
    return packed;
  }
  const Part tiles = ShareOf(readers[0]->RowTiles(input.rows));
  if (!as_is) {
    const auto first_row = [&](size_t tile) {
      const auto tile_rows = static_cast<size_t>(kernels_.tile_rows);
      return std::min(BlockTileBegin(input.rows, tile_rows, tile), input.rows);
    };
    NormRows(input, first_row(tiles.begin), first_row(tiles.end), normed);
  }
  pack(tiles.begin, tiles.end - tiles.begin);
  Meet();
  return packed;
}

void StepWorker::RunPanels(const BlockLinear& linear, const Packed& packed, Part panels,
                           BlockRun run) {
  run.x = packed.words[OperandIndex(linear.dtype())];
  run.scratch = gemm_scratch_.data();
  run.next = next_.find(&linear)->second;
  linear.Run(run, panels.begin, panels.end - panels.begin);
}

}  // namespace penstock::cpu

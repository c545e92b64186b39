#include "cpu/step_shared.h"

#include <algorithm>
#include <variant>

#include "base/int_math.h"
#include "cpu/kv_layout.h"

namespace penstock::cpu {
namespace {

size_t Size(int32_t n) { return static_cast<size_t>(n); }

// Of the logits that a program ends in; 0: it ends in states.
size_t VocabularyOf(const program::Program& program) {
  const auto* picks = program::FirstOp<program::PicksOp>(program);
  return picks == nullptr || picks->weight == nullptr ? 0 : Size(picks->weight->out());
}

// An empty buffer is one float.
size_t AtLeastOne(size_t floats) { return std::max<size_t>(floats, 1); }

}  // namespace

StepSizes::StepSizes(const program::Program& program) : context(Size(program.max_length)) {
  for (const program::Op& op : program.ops) {
    std::visit([this](const auto& one) { Add(one); }, op);
  }
}

void StepSizes::Input(const program::PackedLinear* weight) {
  in = std::max(in, Size(weight->in()));
  size_t& most = packed_in[OperandIndex(weight->dtype())];
  most = std::max(most, Size(weight->in()));
}

void StepSizes::Result(const program::PackedLinear* weight, const program::Residual& residual) {
  if (residual.norm.gamma == nullptr && residual.scale == 1) return;
  product = std::max(product, Size(weight->out()));
}

StepShared::StepShared(const Kernels* kernel_table, const ThreadPlan& plan,
                       const program::Program& step_program,
                       const program::PrepareOptions& step_options, HugePageArena* arena)
    : kernels(kernel_table),
      workers_max(plan.threads),
      workers(plan.threads),
      program(step_program),
      options(step_options),
      sizes(step_program),
      rows_max(Size(step_options.rows)),
      normed(AtLeastOne(std::max(rows_max, Size(step_options.picks)) * sizes.in), arena),
      qkv(AtLeastOne(rows_max * sizes.qkv), arena),
      inner(AtLeastOne(rows_max * sizes.inner), arena),
      product(AtLeastOne(rows_max * sizes.product), arena),
      split_sequences(std::min(rows_max, kSplitSequences * workers_max)),
      partial_chunks(CeilDiv(sizes.context, kKvChunk)),
      partials(AtLeastOne(split_sequences * sizes.kv_heads * partial_chunks *
                          AttentionLines::Floats(sizes.group, sizes.head_size)),
               arena),
      chunks_done(split_sequences * sizes.kv_heads),
      head_bytes(sizes.head_size == 0 ? 0 : KvBlockBytes(step_options.cache_type, sizes.head_size)),
      found(Size(step_options.picks), workers_max, VocabularyOf(step_program)),
      barrier(workers_max, plan.spin, plan.l3, plan.at_once) {
  const size_t most = std::max(rows_max, Size(step_options.picks));
  for (const program::Value& value : program.values) {
    const size_t rows = value.rows == program::Rows::kTokens ? rows_max : Size(options.picks);
    values.push_back(std::make_unique<AlignedBuffer>(rows * Size(value.width), arena));
  }
  for (size_t i = 0; i < kOperandTypes; ++i) {
    if (sizes.packed_in[i] == 0) continue;
    packed[i] = std::make_unique<AlignedBuffer>(
        BlockRowsWords(kOperandDTypes[i], sizes.packed_in[i], most), arena);
  }
  PlaceLayers();
}

void StepShared::PlaceLayers() {
  groups = program::CacheGroups(program);
  groups.resize(std::min(groups.size(), options.blocks.size()));
  caches.resize(groups.size());
  for (size_t group = 0; group < groups.size(); ++group) {
    caches[group].blocks = options.blocks[group];
  }
  layers.resize(sizes.layers);
  for (const program::Op& op : program.ops) {
    const auto* attention = std::get_if<program::AttentionOp>(&op);
    if (attention == nullptr || !attention->shape.cached()) continue;
    const size_t group = program::CacheGroupOf(attention->shape, groups);
    layers[Size(attention->shape.layer)] = {group, caches[group].heads};
    caches[group].heads += sizes.kv_heads;
  }
  for (GroupCache& cache : caches) {
    cache.first_places.reserve(rows_max);
    // A table of any group has as many entries.
    cache.places.reserve(Size(options.blocks.front()));
  }
}

void GroupCache::Begin(const program::PackedBatch& step, size_t group) {
  first_places.clear();
  places.clear();
  for (size_t s = 0; s < step.cached.size(); ++s) {
    const program::CachedSequence& one = step.cached[s];
    first_places.push_back(places.size());
    const size_t count = CeilDiv(Size(one.past + step.length(s)), size_t{kKvBlockTokens});
    const auto ids = std::span(one.blocks[group]).first(count);
    // A block without an id is before the window.
    for (const int32_t id : ids) places.push_back(pages.PlaceOf(std::max(id, 0)));
    for (const int32_t id : ids.subspan(Size(one.past) / kKvBlockTokens)) pages.WillWrite(id);
  }
}

FoundPicks::FoundPicks(size_t picks, size_t workers, size_t vocabulary)
    : workers_(workers), blocks_of_row_(sample::LogitBlocks(vocabulary)) {
  wants_.reserve(picks);
  if (vocabulary == 0) return;
  parts_.resize(picks * workers);
  best_.resize(picks * workers * sample::kCandidatesMax);
  blocks_.resize(picks * blocks_of_row_);
}

void FoundPicks::Begin(const program::PackedBatch& step, size_t active) {
  active_ = active;
  wants_.assign(step.wants.begin(), step.wants.end());
  wants_.resize(step.picks.size(), program::PickWant::kRow);
}

sample::LogitBlock* FoundPicks::Blocks(size_t pick) {
  if (wants_[pick] != program::PickWant::kBestAndSums) return nullptr;
  return blocks_.data() + pick * blocks_of_row_;
}

void FoundPicks::Set(size_t pick, size_t worker, const sample::LogitPart& part) {
  const size_t place = pick * workers_ + worker;
  sample::Candidate* const best = best_.data() + place * sample::kCandidatesMax;
  std::copy(part.best.begin(), part.best.end(), best);
  parts_[place] = {{best, part.best.size()}, part.dropped, part.bad_id};
}

program::FoundLogits FoundPicks::Of(size_t pick) const {
  if (parts_.empty() || wants_[pick] == program::PickWant::kRow) return {};
  program::FoundLogits found = {std::span(parts_).subspan(pick * workers_, active_), {}};
  if (wants_[pick] == program::PickWant::kBestAndSums) {
    found.blocks = std::span(blocks_).subspan(pick * blocks_of_row_, blocks_of_row_);
  }
  return found;
}

uint64_t FoundPicks::bytes() const {
  return parts_.size() * sizeof(sample::LogitPart) + best_.size() * sizeof(sample::Candidate) +
         blocks_.size() * sizeof(sample::LogitBlock);
}

void StepShared::Begin(const program::PackedBatch& step, size_t active, bool time) {
  timed = time || options.profile;
  batch = &step;
  workers = active;
  barrier.SetThreads(active);
  for (std::atomic<size_t>& one : taken) one.store(0, std::memory_order_relaxed);
  found.Begin(step, active);
  for (size_t group = 0; group < caches.size(); ++group) {
    if (caches[group].heads > 0) caches[group].Begin(step, group);
  }
}

uint64_t StepShared::CommittedBytes() const {
  uint64_t bytes = 0;
  for (const GroupCache& cache : caches) bytes += cache.pages.CommittedBytes();
  return bytes;
}

uint64_t StepShared::bytes() const {
  uint64_t floats = normed.size() + qkv.size() + inner.size() + product.size() + partials.size();
  for (const auto& value : values) floats += value->size();
  for (const auto& one : packed) floats += one == nullptr ? 0 : one->size();
  return floats * sizeof(float) + found.bytes();
}

}  // namespace penstock::cpu

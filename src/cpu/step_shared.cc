#include "cpu/step_shared.h"

#include <algorithm>
#include <variant>

#include "common/int_math.h"
#include "cpu/kv_layout.h"

namespace penstock::cpu {
namespace {

size_t Size(int32_t n) { return static_cast<size_t>(n); }

struct SizeVisitor {
  StepSizes* sizes;

  void Input(const PackedLinear* weight) const {
    const size_t in = Size(weight->in());
    sizes->in = std::max(sizes->in, in);
    size_t& packed = sizes->packed_in[OperandIndex(weight->dtype())];
    packed = std::max(packed, in);
  }
  void Result(const PackedLinear* weight, const Norm& norm, float scale) const {
    if (norm.gamma == nullptr && scale == 1) return;
    sizes->product = std::max(sizes->product, Size(weight->out()));
  }
  void operator()(const LookupOp&) const {}
  void operator()(const CachedAttentionOp& op) const {
    for (const PackedLinear* weight : {op.q, op.k, op.v}) Input(weight);
    const CachedAttentionShape& shape = op.shape;
    const size_t group = Size(shape.heads / shape.kv_heads);
    sizes->qkv =
        std::max(sizes->qkv, Size(shape.heads + 2 * shape.kv_heads) * Size(shape.head_size));
    sizes->head_size = std::max(sizes->head_size, Size(shape.head_size));
    sizes->kv_heads = std::max(sizes->kv_heads, Size(shape.kv_heads));
    sizes->group = std::max(sizes->group, group);
    sizes->lines = std::max({sizes->lines, group, kAttendLines});
    sizes->layers = std::max(sizes->layers, Size(shape.layer) + 1);
  }
  void operator()(const ResidualLinearOp& op) const {
    Input(op.weight);
    Result(op.weight, op.norm, op.scale);
  }
  void operator()(const GatedResidualOp& op) const {
    for (const PackedLinear* weight : {op.gate, op.up, op.down}) Input(weight);
    sizes->inner = std::max(sizes->inner, Size(op.gate->out()));
    Result(op.down, op.out_norm, op.scale);
  }
  void operator()(const LogitsOp& op) const { Input(op.weight); }
  template <typename T>
  void operator()(const T&) const {}
};

// An empty buffer is one float.
size_t AtLeastOne(size_t floats) { return std::max<size_t>(floats, 1); }

}  // namespace

StepSizes::StepSizes(const Program& program) : context(Size(program.max_length)) {
  for (const Op& op : program.ops) std::visit(SizeVisitor{this}, op);
}

StepShared::StepShared(const Kernels* kernel_table, size_t worker_count, bool spin,
                       const Program& step_program, const StepOptions& step_options,
                       HugePageArena* arena)
    : kernels(kernel_table),
      workers(worker_count),
      program(step_program),
      options(step_options),
      sizes(step_program),
      rows_max(Size(step_options.rows)),
      normed(AtLeastOne(std::max(rows_max, Size(step_options.logit_rows)) * sizes.in), arena),
      qkv(AtLeastOne(rows_max * sizes.qkv), arena),
      inner(AtLeastOne(rows_max * sizes.inner), arena),
      product(AtLeastOne(rows_max * sizes.product), arena),
      split_sequences(std::min(rows_max, kSplitSequences * worker_count)),
      partial_chunks(CeilDiv(sizes.context, kKvChunk)),
      partials(AtLeastOne(split_sequences * sizes.kv_heads * partial_chunks *
                          AttentionLines::Floats(sizes.group, sizes.head_size)),
               arena),
      chunks_done(split_sequences * sizes.kv_heads),
      head_bytes(sizes.head_size == 0 ? 0 : KvBlockBytes(step_options.cache_type, sizes.head_size)),
      barrier(static_cast<uint32_t>(worker_count), spin) {
  const size_t most = std::max(rows_max, Size(step_options.logit_rows));
  for (const Value& value : program.values) {
    const size_t rows = value.rows == Rows::kTokens ? rows_max : Size(options.logit_rows);
    values.push_back(std::make_unique<AlignedBuffer>(rows * Size(value.width), arena));
  }
  for (size_t i = 0; i < kOperandTypes; ++i) {
    if (sizes.packed_in[i] == 0) continue;
    packed[i] = std::make_unique<AlignedBuffer>(
        BlockRowsWords(kOperandDTypes[i], sizes.packed_in[i], most), arena);
  }
  first_rows.reserve(rows_max);
  PlaceLayers();
}

void StepShared::PlaceLayers() {
  groups = CacheGroups(program);
  groups.resize(std::min(groups.size(), options.blocks.size()));
  caches.resize(groups.size());
  for (size_t group = 0; group < groups.size(); ++group) {
    caches[group].blocks = options.blocks[group];
  }
  layers.resize(sizes.layers);
  for (const Op& op : program.ops) {
    const auto* attention = std::get_if<CachedAttentionOp>(&op);
    if (attention == nullptr) continue;
    const size_t group = CacheGroupOf(attention->shape, groups);
    layers[Size(attention->shape.layer)] = {group, caches[group].heads};
    caches[group].heads += sizes.kv_heads;
  }
  for (GroupCache& cache : caches) {
    cache.first_places.reserve(rows_max);
    // A table of any group has as many entries.
    cache.places.reserve(Size(options.blocks.front()));
  }
}

void GroupCache::Begin(const StepBatch& step, size_t group) {
  first_places.clear();
  places.clear();
  for (const StepSequence& one : step.sequences) {
    first_places.push_back(places.size());
    const size_t count = CeilDiv(Size(one.past + one.rows), size_t{kKvBlockTokens});
    const auto ids = std::span(one.blocks[group]).first(count);
    // A block without an id is before the window.
    for (const int32_t id : ids) places.push_back(pages.PlaceOf(std::max(id, 0)));
    for (const int32_t id : ids.subspan(Size(one.past) / kKvBlockTokens)) pages.WillWrite(id);
  }
}

void StepShared::Begin(const StepBatch& step) {
  batch = &step;
  first_rows.clear();
  size_t first = 0;
  for (const StepSequence& one : step.sequences) {
    first_rows.push_back(first);
    first += Size(one.rows);
  }
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
  return floats * sizeof(float);
}

}  // namespace penstock::cpu

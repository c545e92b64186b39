// AttentionOp. Without a cache: a head of a sequence at a time (CpuOps::Attention). With one: heads
// projected, rotated and appended to the cache, then every head's chunks of keys.
#include <algorithm>

#include "base/int_math.h"
#include "cpu/interpreter.h"
#include "cpu/op_support.h"
#include "cpu/step_worker.h"

namespace penstock::cpu {
namespace {

// To append a value of a key and one of a value to the cache takes about as long as to read this
// many bytes of weights: they go to lines that nothing is near (measured on a Zen 4).
constexpr size_t kAppendColumnBytes = 330;

// The key chunks that rows [first_position, first_position + rows) of a sequence see, of which
// `length` tokens are there.
struct Chunks {
  size_t first = 0;
  size_t end = 0;
};
Chunks ChunksOf(const program::AttentionShape& shape, size_t first_position, size_t rows,
                size_t length) {
  const auto reach = static_cast<size_t>(shape.window);
  const size_t first_key =
      reach == 0 || first_position + 1 <= reach ? 0 : first_position + 1 - reach;
  size_t end_key = first_position + rows;
  if (!shape.causal) end_key = reach == 0 ? length : std::min(length, end_key + reach - 1);
  return {first_key / kKvChunk, CeilDiv(end_key, kKvChunk)};
}

}  // namespace

const char* RefusalOf(const program::AttentionOp& op, bool cached) {
  const program::AttentionShape& shape = op.shape;
  if (shape.cached() != cached) return "attention without a cache";
  if (cached) {
    if (!op.projects()) return "q, k and v without a matrix";
    if (op.queries != program::Pick::kAll) return "one token's result";
    if (shape.relative_bias != nullptr) return "a relative bias";
    for (const program::Norm& norm : {op.norm, shape.q_norm, shape.k_norm}) {
      if (!IsOf(norm, program::NormKind::kRms)) return "a layer norm";
    }
    return nullptr;
  }
  if (op.projects()) return "q, k and v with a matrix each";
  if (shape.kv_heads != shape.heads) return "fewer kv heads than heads";
  if (shape.causal) return "one direction";
  if (shape.soft_cap != 0) return "a soft cap";
  if (shape.window == 1) return "a window of one token";
  if (shape.long_rope_cos != nullptr) return "rotary tables for long sequences";
  if (shape.q_norm.gamma != nullptr || shape.k_norm.gamma != nullptr) return "norms of heads";
  return nullptr;
}

void Interpreter::RunOp(const program::AttentionOp& op) {
  ops_->Attention({Data(op.x), part_.offsets, op.shape, op.queries, part_.pool_skip, Data(op.y)});
}

void StepSizes::Add(const program::AttentionOp& op) {
  const auto size = [](int32_t n) { return static_cast<size_t>(n); };
  for (const program::PackedLinear* weight : {op.q, op.k, op.v}) Input(weight);
  const program::AttentionShape& shape = op.shape;
  qkv = std::max(qkv, size(shape.heads + 2 * shape.kv_heads) * size(shape.head_size));
  head_size = std::max(head_size, size(shape.head_size));
  kv_heads = std::max(kv_heads, size(shape.kv_heads));
  group = std::max(group, size(shape.heads / shape.kv_heads));
  lines = std::max({lines, group, kAttendLines});
  layers = std::max(layers, size(shape.layer) + 1);
}

size_t StepWorker::AttentionScratchFloats(const StepShared& shared) {
  const StepSizes& sizes = shared.sizes;
  if (sizes.head_size == 0) return 1;
  return 2 * AttentionLines::Floats(sizes.lines, sizes.head_size) +
         shared.kernels->attend_scratch_floats(shared.options.cache_type, sizes.head_size);
}

KvView StepWorker::CacheOf(const program::AttentionShape& shape, size_t sequence,
                           size_t kv_head) const {
  const StepShared::LayerPlace& place = shared_.layers[static_cast<size_t>(shape.layer)];
  const GroupCache& cache = shared_.caches[place.group];
  return {shared_.options.cache_type, shape.head_size,
          cache.pages.HeadData(place.first_head + kv_head), shared_.head_bytes,
          cache.places.data() + cache.first_places[sequence]};
}

StepWorker::Part StepWorker::HeadsOf(const program::AttentionOp& op) const {
  constexpr size_t kQuery = 8;  // units of work of a query head
  const BlockLinear& k = shared_.Linear(op.k);
  const size_t column_bytes = std::max<size_t>(1, k.bytes() / static_cast<size_t>(k.out()));
  // A kv head is twice the work of a query head, its key and its value, and they are appended.
  const size_t kv = 2 * kQuery + kQuery * kAppendColumnBytes / column_bytes;
  const auto heads = static_cast<size_t>(op.shape.heads);
  const Part units = ShareOf(heads * kQuery + static_cast<size_t>(op.shape.kv_heads) * kv);
  const auto head_at = [&](size_t unit) {
    if (unit <= heads * kQuery) return (unit + kQuery / 2) / kQuery;
    return heads + (unit - heads * kQuery + kv / 2) / kv;
  };
  return {head_at(units.begin), head_at(units.end)};
}

void StepWorker::ProjectHeads(const program::AttentionOp& op, const Packed& packed) {
  const program::AttentionShape& shape = op.shape;
  const auto heads = static_cast<size_t>(shape.heads);
  const auto kv_heads = static_cast<size_t>(shape.kv_heads);
  const auto panel = static_cast<size_t>(kernels_.panel);
  const BlockLinear& q = shared_.Linear(op.q);
  const BlockLinear& k = shared_.Linear(op.k);
  const BlockLinear& v = shared_.Linear(op.v);
  const HeadRows at = HeadRowsOf(shape);
  const BlockRun to_q = {.rows = rows_, .y = at.q, .y_stride = heads * at.head_size};
  const BlockRun to_k = {.rows = rows_, .y = at.k, .y_stride = kv_heads * at.head_size};
  const BlockRun to_v = {.rows = rows_, .y = at.v, .y_stride = kv_heads * at.head_size};
  if (at.head_size % panel != 0 || !shared_.tuning.fuse_heads) {
    RunPanels(q, packed, ShareOf(q.panels()), to_q);
    RunPanels(k, packed, ShareOf(k.panels()), to_k);
    RunPanels(v, packed, ShareOf(v.panels()), to_v);
    Meet();
    const Part part = ShareOf(heads + kv_heads);
    for (size_t head = part.begin; head < part.end; ++head) FinishHead(shape, head);
    Meet();
    return;
  }
  const Part part = HeadsOf(op);
  const size_t panels = at.head_size / panel;
  const Part queries = {std::min(part.begin, heads) * panels, std::min(part.end, heads) * panels};
  RunPanels(q, packed, queries, to_q);
  const Part keys = {(std::max(part.begin, heads) - heads) * panels,
                     (std::max(part.end, heads) - heads) * panels};
  RunPanels(k, packed, keys, to_k);
  RunPanels(v, packed, keys, to_v);
  for (size_t head = part.begin; head < part.end; ++head) FinishHead(shape, head);
  Meet();
}

StepWorker::HeadRows StepWorker::HeadRowsOf(const program::AttentionShape& shape) const {
  const auto head_size = static_cast<size_t>(shape.head_size);
  float* const q = shared_.qkv.data();
  float* const k = q + rows_ * static_cast<size_t>(shape.heads) * head_size;
  float* const v = k + rows_ * static_cast<size_t>(shape.kv_heads) * head_size;
  return {q, k, v, head_size};
}

void StepWorker::FinishHead(const program::AttentionShape& shape, size_t head) {
  const HeadRows at = HeadRowsOf(shape);
  const auto heads = static_cast<size_t>(shape.heads);
  const bool query = head < heads;
  const size_t kv_head = query ? 0 : head - heads;
  const size_t stride = (query ? heads : static_cast<size_t>(shape.kv_heads)) * at.head_size;
  const size_t column = (query ? head : kv_head) * at.head_size;
  const program::Norm& norm = query ? shape.q_norm : shape.k_norm;
  HeadTask task;
  task.stride = stride;
  task.heads = 1;
  task.head_size = shape.head_size;
  task.gamma = DataOf(norm.gamma);
  task.epsilon = norm.epsilon;
  task.rope_size = shape.rope_size;
  task.rope_interleaved = shape.rope_interleaved;
  for (size_t s = 0; s < shared_.batch->sequences(); ++s) {
    const program::CachedSequence& sequence = shared_.batch->cached[s];
    const size_t begin = shared_.FirstRow(s) * stride + column;
    const bool long_rope = sequence.long_rope && shape.long_rope_cos != nullptr;
    task.rope_cos = DataOf(long_rope ? shape.long_rope_cos : shape.rope_cos);
    task.rope_sin = DataOf(long_rope ? shape.long_rope_sin : shape.rope_sin);
    task.x = (query ? at.q : at.k) + begin;
    task.rows = shared_.RowsOf(s);
    task.first_position = sequence.past;
    kernels_.prepare_heads(task);
    if (query) continue;
    kernels_.append_kv(
        {CacheOf(shape, s, kv_head), at.k + begin, at.v + begin, stride, sequence.past, task.rows});
  }
}

StepWorker::SequenceWork StepWorker::WorkOf(const program::AttentionShape& shape,
                                            size_t sequence) const {
  SequenceWork work;
  work.sequence = sequence;
  const auto rows = shared_.RowsOf(sequence);
  const auto past = static_cast<size_t>(shared_.batch->cached[sequence].past);
  const Chunks chunks = ChunksOf(shape, past, rows, past + rows);
  work.first_chunk = chunks.first;
  work.split = shared_.tuning.split_keys && rows == 1 && chunks.end - chunks.first > 1 &&
               shared_.batch->sequences() <= shared_.split_sequences;
  const auto group = static_cast<size_t>(shape.heads / shape.kv_heads);
  work.tile_rows = std::max<size_t>(1, kAttendLines / group);
  work.pieces = work.split ? chunks.end - chunks.first : CeilDiv(rows, work.tile_rows);
  return work;
}

void StepWorker::Attend(const program::AttentionOp& op) {
  const auto kv_heads = static_cast<size_t>(op.shape.kv_heads);
  size_t first = 0;  // piece of the sequence
  size_t sequence = 0;
  SequenceWork work = WorkOf(op.shape, 0);
  size_t all = 0;
  for (size_t s = 0; s < shared_.batch->sequences(); ++s) {
    all += WorkOf(op.shape, s).pieces * kv_heads;
  }
  ShareSingly(all, [&](size_t index) {
    while (index >= first + work.pieces * kv_heads) {
      first += work.pieces * kv_heads;
      work = WorkOf(op.shape, ++sequence);
    }
    const size_t kv_head = (index - first) / work.pieces;
    const size_t piece = (index - first) % work.pieces;
    if (work.split) {
      AttendChunk(op, work, kv_head, piece);
    } else {
      AttendRows(op, work, kv_head, piece);
    }
  });
}

AttendTask StepWorker::TaskOf(const program::AttentionOp& op, const SequenceWork& work,
                              size_t kv_head, size_t first_row, size_t rows) const {
  const program::AttentionShape& shape = op.shape;
  const auto group = static_cast<size_t>(shape.heads / shape.kv_heads);
  const auto head_size = static_cast<size_t>(shape.head_size);
  AttendTask task;
  task.kv = CacheOf(shape, work.sequence, kv_head);
  task.q_stride = static_cast<size_t>(shape.heads) * head_size;
  task.q = shared_.qkv.data() + (shared_.FirstRow(work.sequence) + first_row) * task.q_stride +
           kv_head * group * head_size;
  task.rows = rows;
  task.heads = group;
  task.first_position = shared_.batch->cached[work.sequence].past + static_cast<int32_t>(first_row);
  task.scale = shape.scale;
  task.soft_cap = shape.soft_cap;
  task.window = shape.window;
  if (!shape.causal) task.length = shared_.batch->length(work.sequence);
  return task;
}

void StepWorker::FinishLines(const program::AttentionOp& op, const SequenceWork& work,
                             size_t kv_head, size_t first_row, const AttendTask& task,
                             const AttentionLines& lines) const {
  const size_t stride = shared_.Width(op.y);
  const auto head_size = static_cast<size_t>(op.shape.head_size);
  float* const out = shared_.Data(op.y) + (shared_.FirstRow(work.sequence) + first_row) * stride +
                     kv_head * task.heads * head_size;
  kernels_.finish_lines(
      {task.rows, task.heads, op.shape.head_size, lines.scores, lines.sums, out, stride});
}

void StepWorker::AttendRows(const program::AttentionOp& op, const SequenceWork& work,
                            size_t kv_head, size_t tile) {
  const auto all = shared_.RowsOf(work.sequence);
  const size_t first_row = tile * work.tile_rows;
  const size_t rows = std::min(work.tile_rows, all - first_row);
  AttendTask task = TaskOf(op, work, kv_head, first_row, rows);
  const size_t count = rows * task.heads;
  const auto head_size = static_cast<size_t>(op.shape.head_size);
  const size_t floats = AttentionLines::Floats(count, head_size);
  const AttentionLines lines(attention_scratch_.data(), count);
  const AttentionLines part(attention_scratch_.data() + floats, count);
  task.scores = part.scores;
  task.parts = part.sums;
  task.scratch = attention_scratch_.data() + 2 * floats;
  std::fill_n(lines.scores, count, ScorePart());
  const Chunks chunks = ChunksOf(op.shape, static_cast<size_t>(task.first_position), rows, all);
  for (task.chunk = chunks.first; task.chunk < chunks.end; ++task.chunk) {
    AttendTask next = task;
    ++next.chunk;
    task.next = next.chunk < chunks.end ? &next : nullptr;
    kernels_.attend_chunk(task);
    kernels_.join_parts(
        {count, op.shape.head_size, lines.scores, lines.sums, part.scores, part.sums});
  }
  FinishLines(op, work, kv_head, first_row, task, lines);
}

void StepWorker::AttendChunk(const program::AttentionOp& op, const SequenceWork& work,
                             size_t kv_head, size_t piece) {
  const auto head_size = static_cast<size_t>(op.shape.head_size);
  AttendTask task = TaskOf(op, work, kv_head, 0, 1);
  const size_t place = work.sequence * shared_.sizes.kv_heads + kv_head;
  const size_t floats = AttentionLines::Floats(task.heads, head_size);
  float* const parts = shared_.partials.data() + place * shared_.partial_chunks * floats;
  const AttentionLines part(parts + piece * floats, task.heads);
  task.chunk = work.first_chunk + piece;
  // This worker's next piece is about as many further as there are workers.
  const size_t ahead = piece + shared_.workers;
  AttendTask next = task;
  if (ahead < work.pieces) {
    next.chunk = work.first_chunk + ahead;
    task.next = &next;
  } else if (kv_head + 1 < static_cast<size_t>(op.shape.kv_heads)) {
    next.kv = CacheOf(op.shape, work.sequence, kv_head + 1);
    next.chunk = work.first_chunk + std::min(ahead - work.pieces, work.pieces - 1);
    task.next = &next;
  }
  task.scores = part.scores;
  task.parts = part.sums;
  task.scratch = attention_scratch_.data();
  kernels_.attend_chunk(task);
  // The one who finishes the last chunk joins all of them, in order.
  std::atomic<uint32_t>& done = shared_.chunks_done[place];
  if (done.fetch_add(1, std::memory_order_acq_rel) + 1 != work.pieces) return;
  done.store(0, std::memory_order_relaxed);
  const AttentionLines lines(attention_scratch_.data(), task.heads);
  std::fill_n(lines.scores, task.heads, ScorePart());
  for (size_t chunk = 0; chunk < work.pieces; ++chunk) {
    const AttentionLines one(parts + chunk * floats, task.heads);
    kernels_.join_parts(
        {task.heads, op.shape.head_size, lines.scores, lines.sums, one.scores, one.sums});
  }
  FinishLines(op, work, kv_head, 0, task, lines);
}

void StepWorker::RunOp(const program::AttentionOp& op) {
  stage_ = StepStage::kProject;
  const BlockLinear* const readers[] = {&shared_.Linear(op.q), &shared_.Linear(op.k),
                                        &shared_.Linear(op.v)};
  const Packed packed =
      Pack({shared_.Data(op.x), shared_.Width(op.x), rows_, nullptr, op.norm}, readers);
  ProjectHeads(op, packed);
  stage_ = StepStage::kAttend;
  Attend(op);
  Meet();
}

}  // namespace penstock::cpu

// Attention over cached keys and values. Decode: one row of 8 KV heads with 2 query heads each at
// depth 4096, over more layers than the caches hold; `share` is its speed in bytes of keys and
// values per second over that of the best plain read loop over the same memory, in one run.
// "scattered": blocks are not in the order of their ids; "in cache": 256 tokens.
// Prefill: 128 rows at depth 2048; `share` is of the processor's arithmetic peak in that type.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cpu/dispatch.h"
#include "cpu/huge_page_arena.h"
#include "cpu/kernels.h"

namespace penstock::cpu {
namespace {

constexpr size_t kHeads = 8;
constexpr size_t kGroup = 2;

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Caches of several layers, [layer][head][block], filled with small values. Ids of a
// sequence's blocks are `id_step` apart.
class Pool {
 public:
  Pool(const Kernels& kernels, numbers::DType type, size_t head_size, size_t layers, size_t tokens,
       size_t id_step)
      : type_(type), head_size_(head_size), layers_(layers), tokens_(tokens) {
    block_bytes_ = KvBlockBytes(type, head_size);
    bytes_ = layers * (tokens / kKvBlock) * kHeads * block_bytes_;
    block_ = arena_.Alloc(bytes_);
    ids_.resize(tokens / kKvBlock);
    for (size_t i = 0; i < ids_.size(); ++i)
      ids_[i] = static_cast<int32_t>(i * id_step % ids_.size());
    std::vector<float> rows(tokens * head_size);
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<float>(i * 37 % 101) * 0.01f;
    for (size_t layer = 0; layer < layers; ++layer) {
      for (size_t head = 0; head < kHeads; ++head) {
        kernels.append_kv({View(layer, head), rows.data(), rows.data(), head_size, 0, tokens});
      }
    }
  }

  KvView View(size_t layer, size_t head) const {
    uint8_t* base = static_cast<uint8_t*>(block_.data) +
                    (layer * kHeads + head) * (tokens_ / kKvBlock) * block_bytes_;
    return {type_, static_cast<int32_t>(head_size_), base, block_bytes_, ids_.data()};
  }
  size_t bytes() const { return bytes_; }
  size_t head_size() const { return head_size_; }
  size_t layers() const { return layers_; }
  size_t tokens() const { return tokens_; }
  numbers::DType type() const { return type_; }
  const uint8_t* data() const { return static_cast<const uint8_t*>(block_.data); }

 private:
  numbers::DType type_;
  size_t head_size_, layers_, tokens_;
  size_t block_bytes_, bytes_;
  HugePageArena arena_;
  HugePageArena::Block block_;
  std::vector<int32_t> ids_;
};

// Memory read, with prefetch `ahead` bytes ahead.
uint64_t Read(const uint8_t* from, size_t bytes, size_t ahead) {
  uint64_t sums[8] = {};
  for (size_t i = 0; i < bytes; i += 64) {
    if (ahead > 0) __builtin_prefetch(from + i + ahead);
    uint64_t line[8];
    std::memcpy(line, from + i, 64);
    for (size_t j = 0; j < 8; ++j) sums[j] ^= line[j];
  }
  return sums[0] ^ sums[1] ^ sums[2] ^ sums[3] ^ sums[4] ^ sums[5] ^ sums[6] ^ sums[7];
}

// Memory of one thread's calls.
struct Work {
  Work(const Kernels& kernels, const Pool& pool, size_t lines)
      : scratch_block(arena.Alloc(kernels.attend_scratch_floats(pool.type(), pool.head_size()) *
                                  sizeof(float))),
        scores(lines),
        chunk_scores(lines),
        sums(lines * pool.head_size()),
        parts(lines * pool.head_size()),
        q(lines * pool.head_size(), 0.25f) {}
  HugePageArena arena;
  HugePageArena::Block scratch_block;
  std::vector<ScorePart> scores, chunk_scores;
  std::vector<float> sums, parts, q;
};

// `rows` rows of one head over chunks [begin, end).
void Attend(const Kernels& kernels, const Pool& pool, size_t layer, size_t head, size_t rows,
            size_t begin, size_t end, Work* work) {
  AttendTask task;
  task.kv = pool.View(layer, head);
  task.q = work->q.data();
  task.q_stride = kGroup * pool.head_size();
  task.rows = rows;
  task.heads = kGroup;
  task.first_position = static_cast<int32_t>(pool.tokens() - rows);
  task.scale = 0.1f;
  task.scores = work->chunk_scores.data();
  task.parts = work->parts.data();
  task.scratch = static_cast<float*>(work->scratch_block.data);
  for (ScorePart& part : work->scores) part = {};
  const JoinTask join = {rows * kGroup,       static_cast<int32_t>(pool.head_size()),
                         work->scores.data(), work->sums.data(),
                         task.scores,         task.parts};
  for (size_t chunk = begin; chunk < end; ++chunk) {
    task.chunk = chunk;
    AttendTask next = task;
    next.chunk = chunk + 1;
    if (chunk + 1 == end) {
      next.chunk = begin;
      next.kv = pool.View((layer + (head + 1) / kHeads) % pool.layers(), (head + 1) % kHeads);
    }
    task.next = &next;
    kernels.attend_chunk(task);
    kernels.join_parts(join);
  }
}

// Seconds of a fifth of the pieces are less: the others may have lost the processor.
double Low(std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 5];
}

constexpr size_t kAheads[] = {0, 1024, 2048, 4096, 8192};

// Seconds of a thread for its part of each layer: reading, with each kAheads, and attention.
struct Times {
  std::vector<double> read[std::size(kAheads)];
  std::vector<double> attend;
};

// A thread's half of every layer, once by each way.
void DecodePart(const Kernels& kernels, const Pool& pool, size_t t, size_t threads, Work* work,
                Times* times) {
  const size_t chunks = pool.tokens() / kKvChunk;
  const size_t layer_bytes = pool.bytes() / pool.layers();
  for (size_t ahead = 0; ahead < std::size(kAheads); ++ahead) {
    for (size_t layer = 0; layer < pool.layers(); ++layer) {
      const uint8_t* from = pool.data() + layer * layer_bytes + layer_bytes * t / threads;
      const double begin = Now();
      benchmark::DoNotOptimize(Read(from, layer_bytes / threads, kAheads[ahead]));
      times->read[ahead].push_back(Now() - begin);
    }
  }
  for (size_t layer = 0; layer < pool.layers(); ++layer) {
    const double begin = Now();
    for (size_t head = 0; head < kHeads; ++head) {
      Attend(kernels, pool, layer, head, 1, chunks * t / threads, chunks * (t + 1) / threads, work);
    }
    times->attend.push_back(Now() - begin);
  }
}

void Decode(benchmark::State& state, const Kernels* kernels, numbers::DType type, size_t head_size,
            size_t threads, size_t pool_bytes, size_t id_step) {
  const size_t tokens = pool_bytes > 0 ? 4096 : kKvChunk;
  const size_t layer_bytes = tokens / kKvBlock * kHeads * KvBlockBytes(type, head_size);
  const size_t layers = pool_bytes > 0 ? pool_bytes / layer_bytes : 1;
  const Pool pool(*kernels, type, head_size, layers, tokens, id_step);
  std::vector<std::unique_ptr<Work>> work;
  for (size_t t = 0; t < threads; ++t) {
    work.push_back(std::make_unique<Work>(*kernels, pool, kGroup));
  }
  std::vector<Times> times(threads);
  for (auto _ : state) {
    std::vector<std::thread> running;
    for (size_t t = 0; t < threads; ++t) {
      running.emplace_back(
          [&, t] { DecodePart(*kernels, pool, t, threads, work[t].get(), &times[t]); });
    }
    for (std::thread& thread : running) thread.join();
  }
  const double part = static_cast<double>(pool.bytes() / pool.layers() / threads);
  double read = 0, attend = 0;
  for (const Times& thread : times) {
    double best = 1e9;
    for (const auto& seconds : thread.read) best = std::min(best, Low(seconds));
    read += part / best * 1e-9;
    attend += part / Low(thread.attend) * 1e-9;
  }
  state.counters["GB/s"] = attend;
  state.counters["read_GB/s"] = read;
  state.counters["share"] = attend / read;
}

void Prefill(benchmark::State& state, const Kernels* kernels, numbers::DType type,
             size_t head_size) {
  const size_t rows = 128;
  const Pool pool(*kernels, type, head_size, 1, 2048, 1);
  Work work(*kernels, pool, rows * kGroup);
  const numbers::DType peak_type = type == numbers::DType::kBf16 ? type : numbers::DType::kF32;
  double best = 1e9, best_peak = 0;
  for (auto _ : state) {
    double begin = Now();
    const double operations = kernels->peak(peak_type, 100000);
    best_peak = std::max(best_peak, operations / (Now() - begin));
    begin = Now();
    Attend(*kernels, pool, 0, 0, rows, 0, pool.tokens() / kKvChunk, &work);
    best = std::min(best, Now() - begin);
    state.SetIterationTime(Now() - begin);
  }
  const double keys = static_cast<double>(pool.tokens()) - static_cast<double>(rows) / 2;
  const double operations =
      4 * keys * static_cast<double>(rows * kGroup) * static_cast<double>(head_size);
  state.counters["GFLOP/s"] = operations / best * 1e-9;
  state.counters["share"] = operations / best / best_peak;
}

}  // namespace
}  // namespace penstock::cpu

int main(int argc, char** argv) {
  using penstock::numbers::DType;
  const auto kernels = penstock::cpu::DefaultKernels();
  if (!kernels.ok()) return 1;
  for (const DType type : {DType::kBf16, DType::kF32, DType::kF16, DType::kI8}) {
    for (const size_t size : {64, 128}) {
      const std::string name =
          std::string(penstock::numbers::DTypeName(type)) + "/size:" + std::to_string(size);
      const auto decode = [&](const std::string& how, size_t threads, size_t bytes, size_t id_step,
                              int64_t iterations) {
        benchmark::RegisterBenchmark((how + "/" + name).c_str(), penstock::cpu::Decode, *kernels,
                                     type, size, threads, bytes, id_step)
            ->Iterations(iterations)
            ->Unit(benchmark::kMillisecond);
      };
      decode("decode_1_thread", 1, size_t{900} << 20, 1, 2);
      decode("decode_2_threads", 2, size_t{900} << 20, 1, 2);
      decode("decode_2_threads_scattered", 2, size_t{900} << 20, 7, 2);
      decode("decode_in_cache", 1, 0, 1, 200);
      benchmark::RegisterBenchmark(("prefill/" + name).c_str(), penstock::cpu::Prefill, *kernels,
                                   type, size)
          ->UseManualTime()
          ->Iterations(20)
          ->Unit(benchmark::kMillisecond);
    }
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}

// Linear layers over GGUF blocks: weights read a second with one row, as a share of the best of
// several loops that only read, and multiply-adds a second with many rows, as a share of the
// processor's peak. Everything is measured in turns in one run, by the threads' own processor time,
// so that what else runs counts little; the wall clock stands beside it. The best of all rounds
// counts.
//
//   block_linear_bench [--threads N] [--rounds N] [--mb N] [--rows N] [--types Q8_0,Q4_K] [--isa S]
#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/int_math.h"
#include "cpu/block_linear.h"
#include "cpu/dispatch.h"
#include "cpu/read_loops.h"
#include "numbers/random_blocks.h"
#include "threads/thread_pool.h"

namespace penstock::cpu {
namespace {

struct Options {
  size_t threads = 2;
  int rounds = 10;
  size_t megabytes = 700;  // of weights, over any cache
  size_t rows = 512;
  std::string types;  // empty: all
  std::string isa;
};

constexpr size_t kIn = 2048;
constexpr size_t kOut = 5632;
constexpr size_t kPeakSteps = 400000;

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double ThreadNow() {
  timespec time = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

struct Seconds {
  double thread = 1e30;  // of the slowest thread
  double wall = 1e30;

  void Best(const Seconds& other) {
    thread = std::min(thread, other.thread);
    wall = std::min(wall, other.wall);
  }
};

// Runs fn(thread) on every thread at once.
template <typename Fn>
Seconds TimeAll(ThreadPool* pool, Fn&& fn) {
  std::atomic<size_t> arrived{0};
  std::vector<double> seconds(pool->threads());
  double start = 0;
  pool->ParallelFor(pool->threads(), [&](size_t, size_t) {
    const size_t me = arrived.fetch_add(1);
    while (arrived.load() < pool->threads()) {
    }
    if (me == 0) start = Now();
    const double begin = ThreadNow();
    fn(me);
    seconds[me] = ThreadNow() - begin;
  });
  return {*std::max_element(seconds.begin(), seconds.end()), Now() - start};
}

// Copies of one matrix, and what was measured.
struct Case {
  numbers::DType stored;
  std::vector<std::unique_ptr<BlockLinear>> layers;
  double pack_seconds = 0;
  Seconds one_row;    // for all layers
  Seconds many_rows;  // for one layer
};

class Bench {
 public:
  explicit Bench(const Options& options, const Kernels* kernels)
      : options_(options), kernels_(kernels), pool_(options.threads), readers_(ReadLoops()) {
    pool_.PlaceCaller();
    y_ = std::vector<float>(options.rows * kOut);
    x_ = std::vector<float>(options.rows * kIn);
    for (size_t i = 0; i < x_.size(); ++i) x_[i] = static_cast<float>(i * 37 % 201) / 100 - 1;
    for (size_t t = 0; t < options.threads; ++t)
      scratch_.push_back(arena_.Alloc(kBlockScratchBytes));
    read_ = arena_.Alloc(options.megabytes << 20);
    std::fill_n(static_cast<uint8_t*>(read_.data), options.megabytes << 20, uint8_t{1});
    reader_seconds_.resize(readers_.size());
  }

  void Run() {
    fmt::print("{} | {} threads | rows of {} to {}\n", kernels_->name, options_.threads, kIn, kOut);
    for (const numbers::DType stored : numbers::kStoredTypes) {
      const std::string name = numbers::DTypeName(stored);
      if (!numbers::IsBlockType(stored)) continue;
      if (!options_.types.empty() &&
          ("," + options_.types + ",").find("," + name + ",") == std::string::npos) {
        continue;
      }
      Measure(stored);
    }
    for (size_t i = 0; i < readers_.size(); ++i) {
      fmt::print("read {:32} {:6.1f} GB/s, by the wall clock {:6.1f}\n", readers_[i].name,
                 ReadBytes() / reader_seconds_[i].thread * 1e-9,
                 ReadBytes() / reader_seconds_[i].wall * 1e-9);
    }
    fmt::print("int8 peak {:.0f} GOP/s, by the wall clock {:.0f}\n",
               PeakOperations() / peak_.thread * 1e-9, PeakOperations() / peak_.wall * 1e-9);
  }

 private:
  double ReadBytes() const { return static_cast<double>(options_.megabytes << 20); }

  // Returns the best of this round.
  Seconds Read() {
    const size_t bytes = options_.megabytes << 20;
    Seconds best;
    for (size_t i = 0; i < readers_.size(); ++i) {
      const Seconds seconds = TimeAll(&pool_, [&](size_t t) {
        const size_t part = bytes / options_.threads / 4096 * 4096;
        sink_ += readers_[i].read(static_cast<const uint8_t*>(read_.data) + t * part, part);
      });
      reader_seconds_[i].Best(seconds);
      best.Best(seconds);
    }
    return best;
  }

  void Step(const BlockLinear& linear, const Word* rows, size_t count, size_t t,
            const BlockLinear* next) {
    BlockRun run;
    run.x = rows;
    run.rows = count;
    run.y = y_.data();
    run.y_stride = kOut;
    run.scratch = scratch_[t].data;
    const size_t begin = linear.panels() * t / options_.threads;
    const size_t end = linear.panels() * (t + 1) / options_.threads;
    if (next != nullptr) run.next = next->panel(begin);
    linear.Run(run, begin, end - begin);
  }

  void Measure(numbers::DType stored) {
    Case c = {stored, {}};
    const size_t elements = numbers::BlockOf(stored).elements;
    const std::vector<std::byte> blocks = numbers::RandomBlocks(stored, kOut * kIn / elements, 3);
    const size_t count = CeilDiv(options_.megabytes << 20, blocks.size());
    const program::LinearRows weight = {{stored, kOut, kIn, blocks.data()}, {}};
    for (size_t i = 0; i < count; ++i) {
      const double start = Now();
      c.layers.push_back(std::move(
          *BlockLinear::Pack({&weight, 1}, {numbers::DType::kI8, {}}, kernels_, &pool_, &arena_)));
      c.pack_seconds += Now() - start;
    }
    const BlockLinear& first = *c.layers[0];
    const auto one_memory = arena_.Alloc(first.PackedWords(1) * sizeof(Word));
    const auto many_memory = arena_.Alloc(first.PackedWords(options_.rows) * sizeof(Word));
    auto* one_row = static_cast<Word*>(one_memory.data);
    auto* many_rows = static_cast<Word*>(many_memory.data);
    first.PackRows(x_.data(), kIn, 1, one_row);
    first.PackRows(x_.data(), kIn, options_.rows, many_rows);
    const double bytes = static_cast<double>(count * first.bytes());
    std::vector<double> shares;  // of the reads of the same round
    for (int round = 0; round < options_.rounds; ++round) {
      const Seconds read = Read();
      const Seconds one = TimeAll(&pool_, [&](size_t t) {
        for (size_t i = 0; i < count; ++i) {
          Step(*c.layers[i], one_row, 1, t, c.layers[(i + 1) % count].get());
        }
      });
      c.one_row.Best(one);
      shares.push_back(bytes / one.thread / (ReadBytes() / read.thread));
      peak_.Best(TimeAll(&pool_, [&](size_t) { kernels_->peak(numbers::DType::kI8, kPeakSteps); }));
      c.many_rows.Best(
          TimeAll(&pool_, [&](size_t t) { Step(first, many_rows, options_.rows, t, nullptr); }));
    }
    std::sort(shares.begin(), shares.end());
    Seconds read;
    for (const Seconds& seconds : reader_seconds_) read.Best(seconds);
    const double operations = 2.0 * static_cast<double>(options_.rows * kIn * kOut);
    fmt::print(
        "{:5} repack {:4.2f} GB/s | 1 row {:5.1f} GB/s (wall {:5.1f}), of the best read {:.3f} "
        "(wall {:.3f}), median of the rounds {:.3f} | {} rows {:5.0f} GOP/s (wall {:5.0f}), of the "
        "peak {:.3f} (wall {:.3f})\n",
        numbers::DTypeName(stored), bytes / c.pack_seconds * 1e-9, bytes / c.one_row.thread * 1e-9,
        bytes / c.one_row.wall * 1e-9, bytes / c.one_row.thread / ReadBytes() * read.thread,
        bytes / c.one_row.wall / ReadBytes() * read.wall, shares[shares.size() / 2], options_.rows,
        operations / c.many_rows.thread * 1e-9, operations / c.many_rows.wall * 1e-9,
        operations / c.many_rows.thread / PeakOperations() * peak_.thread,
        operations / c.many_rows.wall / PeakOperations() * peak_.wall);
    std::fflush(stdout);
  }

  double PeakOperations() {
    if (peak_operations_ == 0) {
      peak_operations_ =
          kernels_->peak(numbers::DType::kI8, kPeakSteps) * static_cast<double>(options_.threads);
    }
    return peak_operations_;
  }

  Options options_;
  const Kernels* kernels_;
  ThreadPool pool_;
  HugePageArena arena_;
  std::vector<ReadLoop> readers_;
  std::vector<Seconds> reader_seconds_;
  std::vector<float> x_;
  std::vector<float> y_;
  std::vector<HugePageArena::Block> scratch_;
  HugePageArena::Block read_;
  std::atomic<uint64_t> sink_{0};
  Seconds peak_;
  double peak_operations_ = 0;
};

int Main(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string flag = argv[i];
    const std::string value = argv[i + 1];
    if (flag == "--threads") options.threads = std::stoul(value);
    if (flag == "--rounds") options.rounds = std::stoi(value);
    if (flag == "--mb") options.megabytes = std::stoul(value);
    if (flag == "--rows") options.rows = std::stoul(value);
    if (flag == "--types") options.types = value;
    if (flag == "--isa") options.isa = value;
  }
  const auto kernels = ChooseKernels(options.isa);
  if (!kernels.ok()) {
    fmt::print(stderr, "{}\n", kernels.status().message());
    return 1;
  }
  Bench(options, *kernels).Run();
  return 0;
}

}  // namespace
}  // namespace penstock::cpu

int main(int argc, char** argv) { return penstock::cpu::Main(argc, argv); }

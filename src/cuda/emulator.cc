#include "cuda/emulator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "common/exception_status.h"
#include "cuda/fiber.h"
#include "cuda/thread_copies.h"
#include "cuda/warp_products.h"

namespace penstock::cuda::emulator {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr size_t kStackBytes = 256 << 10;
#else
constexpr size_t kStackBytes = 64 << 10;
#endif
constexpr size_t kSharedAlignment = 1024;
constexpr size_t kYieldsMax = 1 << 20;
constexpr int kPoison = 0xFF;  // NaN in every type of float

// A tile of a matrix, whose rows are 128 bytes and whose 16-byte columns change places.
struct TileSource {
  TileMap map;
  int column, row;

  void ReadTo(std::byte* to) const {
    for (int r = 0; r < map.tile_rows; ++r) {
      for (int c = 0; c < 8; ++c) {
        std::byte* const at = to + r * 128 + 16 * (c ^ r % 8);
        const int first = column + 8 * c;
        if (row + r < map.rows && first < map.width) {
          std::memcpy(at, map.data + static_cast<int64_t>(row + r) * map.stride + first, 16);
        } else {
          std::memset(at, 0, 16);
        }
      }
    }
  }
};

// A copy that lands by itself.
struct Copy {
  void* to = nullptr;
  const void* from = nullptr;
  std::optional<TileSource> tile;  // instead of it
  std::vector<std::byte> data;     // what it read already; empty: it reads when it lands
  size_t bytes = 0;

  void Read() {
    data.resize(bytes);
    ReadTo(data.data());
  }
  void Land() const {
    if (data.empty()) return ReadTo(static_cast<std::byte*>(to));
    std::memcpy(to, data.data(), bytes);
  }

 private:
  void ReadTo(std::byte* at) const {
    if (tile) return tile->ReadTo(at);
    std::memcpy(at, from, bytes);
  }
};

struct Block;

struct Thread {
  explicit Thread(size_t stagger) : fiber(kStackBytes, stagger) {}
  Fiber fiber;
  Place place;
  Block* block = nullptr;
  int warp = 0;                    // of the block
  const char* waits_at = nullptr;  // null: it can go on, or has ended
  bool done = false;
  bool waited = false;  // for its prerequisites
  ThreadCopies copies;
  size_t shared_accesses = 0, global_accesses = 0;
};

struct Warp {
  const char* op = nullptr;
  int arrived = 0;
  std::array<void*, kWarpThreads> lanes{};
  std::array<Thread*, kWarpThreads> threads{};
  WarpProducts products;
};

struct Rendezvous {
  int expected = 0;
  std::vector<Thread*> arrived;
};

struct SharedBarrier {
  int arrivals = 0;   // of a phase
  int left = 0;       // of this one
  int64_t bytes = 0;  // expected and not there yet
  int phase = 0;
  bool fenced = false;
  std::vector<Thread*> waiting;
};

// Accesses of a warp that have the same number in each lane: they are one instruction's.
struct AccessLog {
  std::array<const void*, kWarpThreads> at{};
  int lanes = 0;
};

struct Landing {
  Copy copy;
  uint64_t* barrier = nullptr;
};

struct FreeDeleter {
  void operator()(std::byte* at) const { std::free(at); }
};

struct Block {
  std::vector<Thread*> threads;
  std::vector<Warp> warps;
  std::unique_ptr<std::byte, FreeDeleter> shared;
  std::map<int, Rendezvous> meetings;
  std::map<uint64_t*, SharedBarrier> barriers;
  std::vector<Landing> landings;
  std::vector<std::map<size_t, AccessLog>> shared_log, global_log;  // by warp
};

// A launch, on the thread that called it.
class Run {
 public:
  Run(const LaunchShape& shape, const LaunchOptions& options, const std::function<void()>& kernel,
      Counters* counters)
      : shape_(shape),
        options_(options),
        kernel_(kernel),
        counters_(counters),
        random_(options.seed) {}

  Status Go();

  Thread* current() const { return current_; }
  const LaunchOptions& options() const { return options_; }
  Counters* counters() const { return counters_; }
  std::mt19937_64& random() { return random_; }

  [[noreturn]] void Fail(std::string what) {
    if (fault_.empty()) fault_ = std::move(what);
    Thread* const from = std::exchange(current_, nullptr);
    Fiber::Switch(&from->fiber, &main_);
    std::abort();  // no fiber switches back
  }
  void Wake(Thread* thread) {
    yields_ = 0;
    thread->waits_at = nullptr;
    ready_.push_back(thread);
  }
  // Leaves the current thread until it is woken.
  void Park(const char* at) {
    current_->waits_at = at;
    SwitchAway();
  }
  void Yield() {
    if (++yields_ > kYieldsMax) Fail("threads look at memory for ever");
    yielded_.push_back(current_);
    SwitchAway();
  }
  void Land(Block* block);
  void CompleteBytes(uint64_t* barrier, Block* block, int64_t bytes);
  void EndPhase(SharedBarrier* barrier);
  void AwaitBefore();

 private:
  static void Main();
  void SwitchAway() {
    Thread* const from = current_;
    Thread* const to = Next();
    if (to == from) {
      current_ = from;
      return;
    }
    current_ = to;
    Fiber::Switch(&from->fiber, to != nullptr ? &to->fiber : &main_);
  }
  Thread* Next();
  bool WakeSome();
  void Begin(int first, int count);
  std::string Stuck() const;
  void CheckEnd();

  const LaunchShape& shape_;
  const LaunchOptions& options_;
  const std::function<void()>& kernel_;
  Counters* const counters_;
  std::mt19937_64 random_;
  Fiber main_;
  std::vector<std::unique_ptr<Thread>> pool_;
  std::vector<std::unique_ptr<Block>> blocks_;  // that run
  std::vector<int> order_;                      // of all blocks
  std::vector<int> ranks_;                      // of warps, for WakeOrder::kWarps
  std::deque<Thread*> ready_;
  std::deque<Thread*> yielded_;  // to those that are ready
  std::vector<Thread*> await_before_;
  bool before_done_ = false;
  Thread* current_ = nullptr;
  size_t yields_ = 0;  // since a thread was woken
  std::string fault_;
};

thread_local Run* run = nullptr;

Thread& Self() { return *run->current(); }

void Run::Main() {
  Fiber::Arrive(nullptr);
  Thread* const self = run->current();
  try {
    run->kernel_();
  } catch (...) {
    run->Fail("an exception left the kernel: " + ExceptionStatus().message());
  }
  if (self->copies.pending()) {
    run->Fail("a thread ends with copies that it does not wait for");
  }
  if (self->block->warps[static_cast<size_t>(self->warp)].products.pending()) {
    run->Fail("a warp ends with products that it does not wait for");
  }
  if (!self->waited) run->Fail("a thread ends and has not waited for its prerequisites");
  self->done = true;
  run->SwitchAway();
  std::abort();
}

// Where all wait: what waits for the kernel before, then late copies.
bool Run::WakeSome() {
  if (!before_done_ && !await_before_.empty()) {
    before_done_ = true;
    if (options_.before) options_.before();
    for (Thread* const thread : await_before_) Wake(thread);
    await_before_.clear();
    return true;
  }
  for (const auto& block : blocks_) {
    if (block->landings.empty()) continue;
    Land(block.get());
    return true;
  }
  return false;
}

Thread* Run::Next() {
  while (ready_.empty()) {
    if (WakeSome()) continue;
    if (yielded_.empty()) return nullptr;
    ready_.swap(yielded_);
  }
  size_t at = 0;
  switch (options_.order) {
    case WakeOrder::kFirst:
      break;
    case WakeOrder::kLast:
      at = ready_.size() - 1;
      break;
    case WakeOrder::kRandom:
      at = random_() % ready_.size();
      break;
    case WakeOrder::kWarps: {
      const auto rank = [&](const Thread* thread) {
        return ranks_[static_cast<size_t>(thread->warp) % ranks_.size()];
      };
      for (size_t i = 1; i < ready_.size(); ++i) {
        if (rank(ready_[i]) < rank(ready_[at])) at = i;
      }
      break;
    }
  }
  Thread* const next = ready_[at];
  if (at == 0) {
    ready_.pop_front();
  } else {
    ready_.erase(ready_.begin() + static_cast<ptrdiff_t>(at));
  }
  return next;
}

void Run::Begin(int first, int count) {
  const auto threads = static_cast<size_t>(shape_.block);
  blocks_.clear();
  while (pool_.size() < threads * static_cast<size_t>(count)) {
    pool_.push_back(std::make_unique<Thread>(pool_.size() % 61 * 256));
  }
  ranks_.resize(threads / kWarpThreads);
  std::iota(ranks_.begin(), ranks_.end(), 0);
  std::shuffle(ranks_.begin(), ranks_.end(), random_);
  size_t used = 0;
  for (int i = first; i < first + count; ++i) {
    auto block = std::make_unique<Block>();
    block->warps.resize(threads / kWarpThreads);
    block->shared_log.resize(block->warps.size());
    block->global_log.resize(block->warps.size());
    void* shared = nullptr;
    const size_t bytes = std::max<size_t>(shape_.shared_bytes, 1);
    if (posix_memalign(&shared, kSharedAlignment, bytes) != 0) throw std::bad_alloc();
    std::memset(shared, kPoison, bytes);
    block->shared.reset(static_cast<std::byte*>(shared));
    const int number = order_[static_cast<size_t>(i)];
    for (size_t t = 0; t < threads; ++t) {
      Thread& thread = *pool_[used++];
      thread.place = {static_cast<int>(t), number % shape_.grid_x, number / shape_.grid_x,
                      shape_.grid_x, shape_.grid_y};
      thread.block = block.get();
      thread.warp = static_cast<int>(t) / kWarpThreads;
      thread.done = thread.waited = false;
      thread.waits_at = nullptr;
      thread.copies.Clear();
      thread.shared_accesses = thread.global_accesses = 0;
      thread.fiber.Start(&Run::Main);
      block->warps[static_cast<size_t>(thread.warp)].threads[t % kWarpThreads] = &thread;
      block->threads.push_back(&thread);
      ready_.push_back(&thread);
    }
    blocks_.push_back(std::move(block));
  }
}

// The primitives that threads wait at, and how many do.
std::string Run::Stuck() const {
  std::map<std::string, int> waiting;
  for (const auto& block : blocks_) {
    for (const Thread* const thread : block->threads) {
      if (!thread->done) ++waiting[thread->waits_at != nullptr ? thread->waits_at : "nothing"];
    }
  }
  std::string out;
  for (const auto& [at, count] : waiting) {
    out += fmt::format("{}{} at {}", out.empty() ? "" : ", ", count, at);
  }
  return out;
}

void Run::CheckEnd() {
  const std::string stuck = Stuck();
  if (!stuck.empty()) fault_ = "threads wait for ever: " + stuck;
}

Status Run::Go() {
  const int blocks = shape_.grid_x * shape_.grid_y;
  if (shape_.block < kWarpThreads || shape_.block > kBlockThreadsMax ||
      shape_.block % kWarpThreads != 0 || blocks < 1) {
    return Status::Internal(
        fmt::format("a launch of {} blocks of {} threads", blocks, shape_.block));
  }
  order_.resize(static_cast<size_t>(blocks));
  std::iota(order_.begin(), order_.end(), 0);
  if (options_.order != WakeOrder::kFirst) std::shuffle(order_.begin(), order_.end(), random_);
  before_done_ = !options_.before;
  const int at_once = options_.together ? blocks : 1;
  for (int first = 0; first < blocks && fault_.empty(); first += at_once) {
    Begin(first, at_once);
    current_ = Next();
    Fiber::Switch(&main_, &current_->fiber);
    current_ = nullptr;
    if (fault_.empty()) CheckEnd();
    ready_.clear();
    yielded_.clear();
  }
  return fault_.empty() ? Status::Ok() : Status::Internal(fault_);
}

// A copy that is under way for a barrier, any of them.
void Run::Land(Block* block) {
  const size_t at = random_() % block->landings.size();
  Landing landing = std::move(block->landings[at]);
  block->landings.erase(block->landings.begin() + static_cast<ptrdiff_t>(at));
  landing.copy.Land();
  CompleteBytes(landing.barrier, block, static_cast<int64_t>(landing.copy.bytes));
}

void Run::CompleteBytes(uint64_t* at, Block* block, int64_t bytes) {
  SharedBarrier& barrier = block->barriers.at(at);
  barrier.bytes -= bytes;
  EndPhase(&barrier);
}

void Run::EndPhase(SharedBarrier* barrier) {
  if (barrier->left > 0 || barrier->bytes != 0) return;
  barrier->left = barrier->arrivals;
  ++barrier->phase;
  for (Thread* const thread : std::exchange(barrier->waiting, {})) Wake(thread);
}

void Run::AwaitBefore() {
  if (before_done_) return;
  await_before_.push_back(current_);
  Park("the kernel before");
}

SharedBarrier& BarrierAt(uint64_t* at) {
  std::map<uint64_t*, SharedBarrier>& all = Self().block->barriers;
  const auto found = all.find(at);
  if (found == all.end()) run->Fail("a barrier is used before its init");
  return found->second;
}

void CheckAligned(const void* to, const void* from, size_t bytes) {
  const auto bits = reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from) | bytes;
  if (bits % 16 != 0) run->Fail("a copy is not of aligned 16 bytes");
}

// Once all lanes have logged their n-th access: the lines of 16 bytes, or sectors, it touches.
AccessLog* Logged(std::vector<std::map<size_t, AccessLog>>* logs, size_t number, const void* at) {
  Thread& self = Self();
  AccessLog& log = (*logs)[static_cast<size_t>(self.warp)][number];
  log.at[static_cast<size_t>(self.place.thread % kWarpThreads)] = at;
  return ++log.lanes == kWarpThreads ? &log : nullptr;
}

// Waves of a request: banks are 4 bytes wide, 32 of them; two lines of 16 bytes of one group of
// banks take turns.
void CountRequest(std::span<const void* const> lanes) {
  std::array<std::vector<uintptr_t>, 8> lines;
  for (const void* const at : lanes) {
    const uintptr_t line = reinterpret_cast<uintptr_t>(at) / 16;
    std::vector<uintptr_t>& group = lines[line % 8];
    if (std::find(group.begin(), group.end(), line) == group.end()) group.push_back(line);
  }
  size_t waves = 1;
  for (const auto& group : lines) waves = std::max(waves, group.size());
  ++run->counters()->shared_requests;
  run->counters()->shared_waves += waves;
}

}  // namespace

Status Launch(const LaunchShape& shape, const LaunchOptions& options,
              const std::function<void()>& kernel, Counters* counters) {
  Run* const outer = run;
  try {
    Run one(shape, options, kernel, counters);
    run = &one;
    Status status = one.Go();
    run = outer;
    return status;
  } catch (...) {
    run = outer;
    return ExceptionStatus();
  }
}

const Place& Here() { return Self().place; }
std::byte* SharedMemory() { return Self().block->shared.get(); }
const TensorCore& Core() { return run->options().tensor_core; }
void Fail(const char* what) { run->Fail(what); }
void Yield() { run->Yield(); }

void MeetWarp(const char* primitive, void* lane, void (*compute)(void** lanes)) {
  Thread& self = Self();
  Warp& warp = self.block->warps[static_cast<size_t>(self.warp)];
  const bool differs = warp.arrived > 0 && warp.op != primitive;
  if (differs && std::strcmp(warp.op, primitive) != 0) {
    run->Fail(fmt::format("a warp diverges: {} beside {}", primitive, warp.op));
  }
  warp.op = primitive;
  warp.lanes[static_cast<size_t>(self.place.thread % kWarpThreads)] = lane;
  if (++warp.arrived < kWarpThreads) return run->Park(primitive);
  warp.arrived = 0;
  if (compute != nullptr) compute(warp.lanes.data());
  for (Thread* const thread : warp.threads) {
    if (thread != &self) run->Wake(thread);
  }
}

void MeetBlock(int id, int threads) {
  Thread& self = Self();
  Rendezvous& meeting = self.block->meetings[id];
  const int expected = threads == 0 ? static_cast<int>(self.block->threads.size()) : threads;
  if (!meeting.arrived.empty() && meeting.expected != expected) {
    run->Fail("threads meet at a barrier with different counts");
  }
  meeting.expected = expected;
  meeting.arrived.push_back(&self);
  if (static_cast<int>(meeting.arrived.size()) < expected) return run->Park("Sync");
  for (Thread* const thread : std::exchange(meeting.arrived, {})) {
    if (thread != &self) run->Wake(thread);
  }
}

void CountShared(const void* at) {
  if (run->counters() == nullptr) return;
  Thread& self = Self();
  auto* const logs = &self.block->shared_log;
  const size_t number = self.shared_accesses++;
  AccessLog* const log = Logged(logs, number, at);
  if (log == nullptr) return;
  for (size_t i = 0; i < kWarpThreads; i += 8) CountRequest(std::span(log->at).subspan(i, 8));
  (*logs)[static_cast<size_t>(self.warp)].erase(number);
}

void CountSharedRows(const std::array<const void*, 8>& rows) {
  if (run->counters() != nullptr) CountRequest(rows);
}

void CountGlobal(const void* at) {
  if (run->counters() == nullptr) return;
  Thread& self = Self();
  auto* const logs = &self.block->global_log;
  const size_t number = self.global_accesses++;
  AccessLog* const log = Logged(logs, number, at);
  if (log == nullptr) return;
  std::vector<uintptr_t> sectors;
  for (const void* const lane : log->at) sectors.push_back(reinterpret_cast<uintptr_t>(lane) / 32);
  std::sort(sectors.begin(), sectors.end());
  sectors.erase(std::unique(sectors.begin(), sectors.end()), sectors.end());
  ++run->counters()->global_requests;
  run->counters()->global_sectors += sectors.size();
  (*logs)[static_cast<size_t>(self.warp)].erase(number);
}

void CountMma() {
  if (run->counters() != nullptr) ++run->counters()->mma;
}

void CopyAsync16(void* to, const void* from, bool valid) {
  CheckAligned(to, valid ? from : to, ThreadCopies::kBytes);
  Self().copies.Start(to, valid ? from : nullptr, run->options().late_copies, kPoison);
}
void CommitCopies() { Self().copies.Commit(); }
void WaitCopies(int groups) { Self().copies.Wait(static_cast<size_t>(groups)); }

void BarrierInit(uint64_t* barrier, int arrivals) {
  SharedBarrier made;
  made.arrivals = made.left = arrivals;
  Self().block->barriers[barrier] = made;
}

void BarrierArrive(uint64_t* at, uint32_t expected_bytes) {
  SharedBarrier& barrier = BarrierAt(at);
  if (barrier.left == 0) run->Fail("more threads arrive at a barrier than it counts");
  barrier.bytes += expected_bytes;
  --barrier.left;
  run->EndPhase(&barrier);
}

void BarrierWait(uint64_t* at, int parity) {
  SharedBarrier& barrier = BarrierAt(at);
  // The phase of that parity has ended if another one is open.
  if (barrier.phase % 2 != parity) return;
  barrier.waiting.push_back(&Self());
  run->Park("BarrierWait");
}

void FenceBarriers() {
  for (auto& [at, barrier] : Self().block->barriers) barrier.fenced = true;
}

// A copy that lands by itself and completes bytes of a barrier.
static void StartCopy(Copy copy, uint64_t* barrier) {
  if (!BarrierAt(barrier).fenced)
    run->Fail("a copy is counted by a barrier whose init was not fenced");
  if (!run->options().late_copies) copy.Read();
  std::memset(copy.to, kPoison, copy.bytes);
  Block* const block = Self().block;
  block->landings.push_back({std::move(copy), barrier});
  if (!run->options().late_copies && run->random()() % 2 == 0) run->Land(block);
}

void CopyBulk(void* to, const void* from, uint32_t bytes, uint64_t* barrier) {
  CheckAligned(to, from, bytes);
  StartCopy({to, from, {}, {}, bytes}, barrier);
}

void CopyTile(void* to, const TileMap& map, int column, int row, uint64_t* barrier) {
  const auto bytes = static_cast<size_t>(map.tile_rows) * 128;
  if (reinterpret_cast<uintptr_t>(to) % 1024 != 0) run->Fail("a tile is not at a multiple of 1024");
  StartCopy({to, nullptr, TileSource{map, column, row}, {}, bytes}, barrier);
}

static WarpProducts& Products() {
  Thread& self = Self();
  return self.block->warps[static_cast<size_t>(self.warp)].products;
}
void FenceProducts() { Products().Fence(); }
void StartProduct(const Product& product) {
  if (!Products().fenced()) run->Fail("a product is not behind a fence");
  Products().Start(product, Core(), run->options().late_copies);
}
void CommitProducts() { Products().Commit(); }
void FinishProducts(int groups) { Products().Finish(groups, Core()); }

void WaitForPrerequisites() {
  Thread& self = Self();
  if (std::exchange(self.waited, true)) run->Fail("a thread waits for its prerequisites twice");
  run->AwaitBefore();
}

}  // namespace penstock::cuda::emulator

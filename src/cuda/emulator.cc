#include "cuda/emulator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "cuda/bulk_copy.h"
#include "cuda/fiber.h"
#include "cuda/race_hooks.h"
#include "cuda/thread_copies.h"
#include "cuda/warp_products.h"
#include "log/exception_status.h"

namespace penstock::cuda::emulator {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(PENSTOCK_RACES)
constexpr size_t kStackBytes = 256 << 10;
#else
constexpr size_t kStackBytes = 64 << 10;
#endif
constexpr size_t kSharedAlignment = 1024;
constexpr size_t kYieldsMax = 1 << 20;
constexpr int kPoison = 0xFF;  // NaN in every type of float

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

// An engine of a warp: for race_hooks.h a thread, which runs nothing.
using Engine = std::unique_ptr<Fiber>;
constexpr const char* kCopies = "the copies of a warp";
constexpr const char* kProducts = "the products of a warp";

struct Warp {
  const char* op = nullptr;
  void* line = nullptr;  // that calls it, of the last lane
  int arrived = 0;
  race::Phases phases;
  std::array<void*, kWarpThreads> lanes{};
  std::array<Thread*, kWarpThreads> threads{};
  WarpProducts products;
  // A thread that starts a copy or a product releases `issued`; `copies` or `products_read` acquires
  // it. Operands are read twice: as the warp sees shared memory, and as tensor cores do
  // (`Block::async`).
  Engine copies, products_read, tensor_cores;
  race::Mark issued;
  // By the number of a group of products: released once they are issued, acquired once waited for.
  std::array<race::Mark, 8> groups;
  size_t committed = 0, finished = 0;
};

struct Rendezvous {
  int expected = 0;
  race::Phases phases;
  std::vector<Thread*> arrived;
};

struct SharedBarrier {
  int arrivals = 0;   // of a phase
  int left = 0;       // of this one
  int64_t bytes = 0;  // expected and not there yet
  int phase = 0;
  bool fenced = false;
  std::vector<Thread*> waiting;
  race::Mark ends[2];  // of phases, by their parity
};

// Accesses of a warp that have the same number in each lane: they are one instruction's.
struct AccessLog {
  std::array<const void*, kWarpThreads> at{};
  int lanes = 0;
};

struct Landing {
  BulkCopy copy;
  uint64_t* barrier = nullptr;
  Engine* engine = nullptr;
  void* line = nullptr;  // that started it
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
  race::Mark begin;
  // What tensor cores see of shared memory: copies that landed, and stores before a fence.
  race::Mark async;
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
    SwitchTo(nullptr);
    std::abort();  // no fiber switches back
  }
  // A race that ThreadSanitizer has reported ends the launch.
  void FailIfRaced() {
    if (race::Reports() != reports_) Fail(kRaced);
  }
  void Wake(Thread* thread) {
    yields_ = 0;
    thread->waits_at = nullptr;
    ready_.push_back(thread);
  }
  // Leaves the current thread until it is woken.
  void Park(const char* at) {
    FailIfRaced();
    current_->waits_at = at;
    SwitchTo(Next());
  }
  void Yield() {
    FailIfRaced();
    if (++yields_ > kYieldsMax) Fail("threads look at memory for ever");
    yielded_.push_back(current_);
    SwitchTo(Next());
  }
  void Land(Block* block);
  void CompleteBytes(uint64_t* barrier, Block* block, int64_t bytes);
  void EndPhase(SharedBarrier* barrier);
  void AwaitBefore();
  // Under the thread sanitizer: calls `tell` as the engine, made with this name if need be.
  template <typename Tell>
  void As(Engine* engine, const char* name, const Tell& tell) {
    if constexpr (!race::kOn) return;
    if (*engine == nullptr) {
      // A context knows what the one that makes it does.
      const race::As as(main_.context());
      *engine = std::make_unique<Fiber>(kStackBytes, 0);
      race::Name((*engine)->context(), name);
    }
    const race::As as((*engine)->context());
    tell();
  }

 private:
  static constexpr const char* kRaced = "a data race, which the thread sanitizer reports";

  static void Main();
  void SwitchTo(Thread* to) {
    Thread* const from = std::exchange(current_, to);
    if (to != from) Fiber::Switch(&from->fiber, to != nullptr ? &to->fiber : &main_);
  }
  Thread* Next();
  bool WakeSome();
  void Begin(int first, int count);
  void RunBlocks();
  void Release(const Fiber& fiber);
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
  const int reports_ = race::Reports();
  race::Mark before_ends_, ends_;
};

thread_local Run* run = nullptr;

Thread& Self() { return *run->current(); }
Warp& SelfWarp() {
  const Thread& self = Self();
  return self.block->warps[static_cast<size_t>(self.warp)];
}

void Run::Main() {
  Fiber::Arrive(nullptr);
  Thread* const self = run->current();
  race::Acquire(&self->block->begin);
  try {
    run->kernel_();
  } catch (...) {
    run->Fail("an exception left the kernel: " + ExceptionStatus().message());
  }
  run->FailIfRaced();
  if (self->copies.pending()) {
    run->Fail("a thread ends with copies that it does not wait for");
  }
  if (self->block->warps[static_cast<size_t>(self->warp)].products.pending()) {
    run->Fail("a warp ends with products that it does not wait for");
  }
  if (!self->waited) run->Fail("a thread ends and has not waited for its prerequisites");
  self->done = true;
  Thread* next = nullptr;
  {
    const race::Inside inside;
    self->fiber.End();
    next = run->Next();
  }
  run->SwitchTo(next);
  std::abort();
}

// Where all wait, but for the kernel before: late copies.
bool Run::WakeSome() {
  for (const auto& block : blocks_) {
    if (block->landings.empty()) continue;
    Land(block.get());
    return true;
  }
  return false;
}

Thread* Run::Next() {
  while (ready_.empty()) {
    if (!await_before_.empty()) return nullptr;
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
  // A fiber runs threads of other numbers in other blocks, since what one fiber does is in order.
  const size_t turn = race::kOn ? static_cast<size_t>(first) * 37 : 0;
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
      Thread& thread = *pool_[(turn + used++) % pool_.size()];
      thread.place = {static_cast<int>(t), number % shape_.grid_x, number / shape_.grid_x,
                      shape_.grid_x, shape_.grid_y};
      thread.block = block.get();
      thread.warp = static_cast<int>(t) / kWarpThreads;
      thread.done = thread.waited = false;
      thread.waits_at = nullptr;
      thread.copies.Clear();
      thread.shared_accesses = thread.global_accesses = 0;
      thread.fiber.Start(&Run::Main);
      if constexpr (race::kOn) {
        const Place& at = thread.place;
        race::Name(thread.fiber.context(),
                   fmt::format("thread {} of block {}, {}", at.thread, at.block_x, at.block_y));
      }
      block->warps[static_cast<size_t>(thread.warp)].threads[t % kWarpThreads] = &thread;
      block->threads.push_back(&thread);
      ready_.push_back(&thread);
    }
    race::Release(&block->begin);
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
  const race::Inside inside;
  const int at_once = options_.together ? blocks : 1;
  for (int first = 0; first < blocks && fault_.empty(); first += at_once) {
    Begin(first, at_once);
    RunBlocks();
    for (const auto& block : blocks_) {
      for (const Warp& warp : block->warps) {
        for (const Engine* const one : {&warp.copies, &warp.products_read, &warp.tensor_cores}) {
          if (*one != nullptr) Release(**one);
        }
      }
    }
    if (fault_.empty()) CheckEnd();
    ready_.clear();
    yielded_.clear();
  }
  for (const auto& thread : pool_) Release(thread->fiber);
  race::Acquire(&ends_);
  if (fault_.empty() && race::Reports() != reports_) fault_ = kRaced;
  return fault_.empty() ? Status::Ok() : Status::Internal(fault_);
}

// Until no thread can go on. The kernel before runs here, on the stack of the thread that launches.
void Run::RunBlocks() {
  for (;;) {
    current_ = Next();
    if (current_ != nullptr) Fiber::Switch(&main_, &current_->fiber);
    current_ = nullptr;
    if (!fault_.empty() || await_before_.empty()) return;
    before_done_ = true;
    {
      const race::Outside outside;
      options_.before();
    }
    race::Release(&before_ends_);
    for (Thread* const thread : std::exchange(await_before_, {})) Wake(thread);
  }
}

// What the fiber did comes before what follows the launch, also where it was abandoned.
void Run::Release(const Fiber& fiber) {
  const race::As as(fiber.context());
  race::Release(&ends_);
}

// A copy that is under way for a barrier, any of them.
void Run::Land(Block* block) {
  const size_t at = random_() % block->landings.size();
  Landing landing = std::move(block->landings[at]);
  block->landings.erase(block->landings.begin() + static_cast<ptrdiff_t>(at));
  landing.copy.Land();
  As(landing.engine, kCopies, [&] {
    landing.copy.Tell(landing.line);
    SharedBarrier& barrier = block->barriers.at(landing.barrier);
    race::Release(&barrier.ends[barrier.phase % 2]);
    race::Release(&block->async);
  });
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
  if (!before_done_) {
    await_before_.push_back(current_);
    Park("the kernel before");
  }
  race::Acquire(&before_ends_);
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
void Fail(const char* what) {
  const race::Inside inside;
  run->Fail(what);
}
void Yield() {
  const race::Inside inside;
  run->Yield();
}

void MeetWarp(const char* primitive, void* lane, void (*compute)(void** lanes)) {
  const race::Inside inside;
  Thread& self = Self();
  Warp& warp = self.block->warps[static_cast<size_t>(self.warp)];
  const bool differs = warp.arrived > 0 && warp.op != primitive;
  if (differs && std::strcmp(warp.op, primitive) != 0) {
    run->Fail(fmt::format("a warp diverges: {} beside {}", primitive, warp.op));
  }
  warp.op = primitive;
  warp.line = __builtin_return_address(0);
  // Where nothing is computed, the warp meets to order memory.
  race::Mark* const mark = compute == nullptr ? warp.phases.Arrive() : nullptr;
  warp.lanes[static_cast<size_t>(self.place.thread % kWarpThreads)] = lane;
  if (++warp.arrived < kWarpThreads) {
    run->Park(primitive);
  } else {
    warp.arrived = 0;
    if (compute == nullptr) warp.phases.Next();
    if (compute != nullptr) compute(warp.lanes.data());
    for (Thread* const thread : warp.threads) {
      if (thread != &self) run->Wake(thread);
    }
  }
  if (mark != nullptr) race::Acquire(mark);
}

void MeetBlock(int id, int threads) {
  const race::Inside inside;
  Thread& self = Self();
  Rendezvous& meeting = self.block->meetings[id];
  const int expected = threads == 0 ? static_cast<int>(self.block->threads.size()) : threads;
  if (!meeting.arrived.empty() && meeting.expected != expected) {
    run->Fail("threads meet at a barrier with different counts");
  }
  meeting.expected = expected;
  meeting.arrived.push_back(&self);
  race::Mark* const mark = meeting.phases.Arrive();
  if (static_cast<int>(meeting.arrived.size()) < expected) {
    run->Park("Sync");
  } else {
    meeting.phases.Next();
    for (Thread* const thread : std::exchange(meeting.arrived, {})) {
      if (thread != &self) run->Wake(thread);
    }
  }
  race::Acquire(mark);
}

void CountShared(const void* at) {
  if (run->counters() == nullptr) return;
  const race::Inside inside;
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
  const race::Inside inside;
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
  const race::Inside inside;
  CheckAligned(to, valid ? from : to, ThreadCopies::kBytes);
  Self().copies.Start(to, valid ? from : nullptr, run->options().late_copies, kPoison);
}
void CommitCopies() {
  const race::Inside inside;
  Self().copies.Commit();
}
void WaitCopies(int groups) {
  const auto left = static_cast<size_t>(groups);
  if constexpr (race::kOn) Self().copies.TellDue(left, __builtin_return_address(0));
  const race::Inside inside;
  Self().copies.Wait(left);
}

void BarrierInit(uint64_t* barrier, int arrivals) {
  const race::Inside inside;
  SharedBarrier made;
  made.arrivals = made.left = arrivals;
  Self().block->barriers[barrier] = made;
}

void BarrierArrive(uint64_t* at, uint32_t expected_bytes) {
  const race::Inside inside;
  SharedBarrier& barrier = BarrierAt(at);
  if (barrier.left == 0) run->Fail("more threads arrive at a barrier than it counts");
  race::Release(&barrier.ends[barrier.phase % 2]);
  barrier.bytes += expected_bytes;
  --barrier.left;
  run->EndPhase(&barrier);
}

void BarrierWait(uint64_t* at, int parity) {
  const race::Inside inside;
  SharedBarrier& barrier = BarrierAt(at);
  // The phase of that parity has ended if another one is open.
  if (barrier.phase % 2 == parity) {
    barrier.waiting.push_back(&Self());
    run->Park("BarrierWait");
  }
  race::Acquire(&barrier.ends[parity]);
}

void FenceBarriers() {
  for (auto& [at, barrier] : Self().block->barriers) barrier.fenced = true;
}

// A copy that lands by itself and completes bytes of a barrier.
static void StartCopy(BulkCopy copy, uint64_t* barrier, void* line) {
  if (!BarrierAt(barrier).fenced)
    run->Fail("a copy is counted by a barrier whose init was not fenced");
  if (!run->options().late_copies) copy.Read();
  std::memset(copy.to, kPoison, copy.bytes);
  Block* const block = Self().block;
  Warp& warp = SelfWarp();
  race::Release(&warp.issued);
  run->As(&warp.copies, kCopies, [&] {
    race::Acquire(&warp.issued);
    copy.Tell(line);
  });
  block->landings.push_back({std::move(copy), barrier, &warp.copies, line});
  if (!run->options().late_copies && run->random()() % 2 == 0) run->Land(block);
}

void CopyBulk(void* to, const void* from, uint32_t bytes, uint64_t* barrier) {
  const race::Inside inside;
  CheckAligned(to, from, bytes);
  StartCopy({to, from, {}, {}, bytes}, barrier, __builtin_return_address(0));
}

void CopyTile(void* to, const TileMap& map, int column, int row, uint64_t* barrier) {
  const race::Inside inside;
  const auto bytes = static_cast<size_t>(map.tile_rows) * 128;
  if (reinterpret_cast<uintptr_t>(to) % 1024 != 0) run->Fail("a tile is not at a multiple of 1024");
  StartCopy({to, nullptr, TileSource{map, column, row}, {}, bytes}, barrier,
            __builtin_return_address(0));
}
void FenceAsync() { race::Release(&Self().block->async); }

// A report of one row is enough.
static void TellOperands(const Product& product, void* line) {
  const auto tell = [line](uint64_t tile, int row) {
    for (int k = 0; k < kProductDepth; k += 8) {
      race::Read(reinterpret_cast<const void*>(OperandAddress(tile, row, k)), 16, line);
    }
  };
  const int reports = race::Reports();
  for (int row = 0; row < kProductColumns && race::Reports() == reports; ++row) {
    if (row < kProductRows) tell(product.x, row);
    tell(product.w, row);
  }
}

void FenceProducts() { SelfWarp().products.Fence(); }
void StartProduct(const Product& product) {
  Warp& warp = SelfWarp();
  if (!warp.products.fenced()) run->Fail("a product is not behind a fence");
  race::Release(&warp.issued);
  const auto read = [&](race::Mark* seen) {
    race::Acquire(seen);
    TellOperands(product, warp.line);
  };
  run->As(&warp.products_read, kProducts, [&] { read(&warp.issued); });
  run->As(&warp.tensor_cores, kProducts, [&] { read(&Self().block->async); });
  warp.products.Start(product, Core(), run->options().late_copies);
}
void CommitProducts() {
  Warp& warp = SelfWarp();
  race::Mark* const group = &warp.groups[warp.committed++ % warp.groups.size()];
  for (Engine* const engine : {&warp.products_read, &warp.tensor_cores}) {
    run->As(engine, kProducts, [&] { race::Release(group); });
  }
  warp.products.Commit();
}
void FinishProducts(int groups) {
  Warp& warp = SelfWarp();
  const auto left = static_cast<size_t>(groups);
  if (warp.committed > left) warp.finished = warp.committed - left;
  warp.products.Finish(groups, Core());
}
void SeeProducts() {
  Warp& warp = SelfWarp();
  if (warp.finished > 0) race::Acquire(&warp.groups[(warp.finished - 1) % warp.groups.size()]);
}

void WaitForPrerequisites() {
  const race::Inside inside;
  Thread& self = Self();
  if (std::exchange(self.waited, true)) run->Fail("a thread waits for its prerequisites twice");
  run->AwaitBefore();
}

}  // namespace penstock::cuda::emulator

// Linear layers of GGUF blocks as they are made: what is refused, parts, biases, rows read back,
// mapped files; and what is packed for them, by parts and without allocating.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <atomic>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "base/failing_new.h"
#include "base/int_math.h"
#include "cpu/block_linear.h"
#include "cpu/dispatch.h"
#include "cpu/test_util.h"
#include "numbers/random_blocks.h"

namespace penstock::cpu {
namespace {

constexpr numbers::DType kDTypes[] = {numbers::DType::kI8, numbers::DType::kBf16,
                                      numbers::DType::kF32};

std::vector<std::byte> RandomRows(numbers::DType stored, size_t rows, size_t columns,
                                  uint32_t seed) {
  return numbers::RandomBlocks(stored, rows * columns / numbers::BlockOf(stored).elements, seed);
}

class BlockLinearPackTest : public testing::TestWithParam<const Kernels*> {
 protected:
  Expected<std::unique_ptr<BlockLinear>> Pack(std::span<const program::LinearRows> parts,
                                              const program::PackOptions& options) {
    return BlockLinear::Pack(parts, options, GetParam(), &pool_, &arena_);
  }
  std::unique_ptr<BlockLinear> PackOne(const program::TensorView& weight, numbers::DType dtype,
                                       const program::TensorView& bias = {}) {
    const program::LinearRows rows = {weight, bias};
    auto linear = Pack({&rows, 1}, {dtype, {}});
    PENSTOCK_CHECK(linear.ok());
    return std::move(*linear);
  }

  ThreadPool pool_{3, false};
  HugePageArena arena_;
};

TEST_P(BlockLinearPackTest, PartsOfOneType) {
  const int64_t in = 256;
  for (const numbers::DType type : {numbers::DType::kQ6K, numbers::DType::kF16}) {
    const std::vector<std::byte> blocks = RandomRows(type, 45, 256, 16);
    const numbers::DType dtype =
        numbers::IsBlockType(type) ? numbers::DType::kI8 : numbers::DType::kF32;
    const program::TensorView view = {type, 45, in, blocks.data()};
    const auto whole = PackOne(view, dtype);
    const program::LinearRows parts[] = {{view.Rows(0, 13), {}}, {view.Rows(13, 32), {}}};
    const auto linear = Pack(parts, {dtype, {}});
    ASSERT_TRUE(linear.ok());
    EXPECT_EQ((*linear)->in(), in);
    EXPECT_EQ((*linear)->out(), 45);
    EXPECT_EQ((*linear)->dtype(), dtype);
    EXPECT_EQ((*linear)->stored(), type);
    ASSERT_EQ((*linear)->bytes(), whole->bytes());
    EXPECT_EQ(std::memcmp((*linear)->panel(0), whole->panel(0), whole->bytes()), 0);
  }
}

TEST_P(BlockLinearPackTest, BiasesOfAnyType) {
  const size_t in = 64, out = 2 * 32;
  const std::vector<std::byte> blocks = RandomRows(numbers::DType::kQ8_0, out, in, 2);
  const program::TensorView weight = {numbers::DType::kQ8_0, out, in, blocks.data()};
  const std::vector<float> x(in, 0.0f);
  for (const numbers::DType type :
       {numbers::DType::kF32, numbers::DType::kF16, numbers::DType::kBf16, numbers::DType::kF64,
        numbers::DType::kQ8_0}) {
    const std::vector<std::byte> stored =
        type == numbers::DType::kF64
            ? std::vector<std::byte>(out * sizeof(double))
            : numbers::RandomBlocks(type, out / numbers::BlockOf(type).elements, 3);
    const program::TensorView first = {type, 1, 32, stored.data()};
    const program::TensorView second = {type, 1, 32, stored.data() + first.row_bytes()};
    std::vector<float> want(out);
    first.CopyToF32(0, 1, want.data());
    second.CopyToF32(0, 1, want.data() + 32);
    const program::LinearRows parts[] = {{weight.Rows(0, 32), first},
                                         {weight.Rows(32, 32), second}};
    const auto linear = Pack(parts, {numbers::DType::kI8, {}});
    ASSERT_TRUE(linear.ok()) << linear.status().message();
    EXPECT_GE((*linear)->bytes(), blocks.size() + out * sizeof(float));
    AlignedBuffer packed((*linear)->PackedWords(1), &arena_);
    AlignedBuffer scratch(kBlockScratchBytes / sizeof(float), &arena_);
    (*linear)->PackRows(x.data(), in, 1, reinterpret_cast<Word*>(packed.data()));
    std::vector<float> y(out);
    BlockRun run;
    run.x = reinterpret_cast<const Word*>(packed.data());
    run.rows = 1;
    run.y = y.data();
    run.y_stride = out;
    run.scratch = scratch.data();
    (*linear)->Run(run, 0, (*linear)->panels());
    for (size_t i = 0; i < out; ++i)
      EXPECT_EQ(y[i], want[i]) << numbers::DTypeName(type) << " " << i;
  }
}

// Bits, but of NaN: those the processor chooses.
void ExpectSameBits(const std::vector<float>& got, const std::vector<float>& want,
                    const std::string& what) {
  for (size_t i = 0; i < want.size(); ++i) {
    if (std::isnan(want[i]) && std::isnan(got[i])) continue;
    ASSERT_EQ(std::bit_cast<uint32_t>(got[i]), std::bit_cast<uint32_t>(want[i]))
        << what << " element " << i;
  }
}

TEST_P(BlockLinearPackTest, RowsAreReadBack) {
  for (const numbers::DType type : numbers::kStoredTypes) {
    for (const numbers::DType dtype : kDTypes) {
      if (dtype == numbers::DType::kI8 && !numbers::IsBlockType(type)) continue;
      const size_t in = numbers::IsBlockType(type) ? 512 : 77, out = 69;
      std::vector<std::byte> blocks = RandomRows(type, out, in, 21);
      // Codes and scales at their ends; d and m infinite and not a number.
      const size_t row_bytes = numbers::StoredBytes(type, in);
      std::memset(blocks.data(), 0xff, row_bytes);
      std::memset(blocks.data() + row_bytes, 0x80, row_bytes);
      std::memset(blocks.data() + 2 * row_bytes, 0x7c, row_bytes);
      const program::TensorView view = {type, out, static_cast<int64_t>(in), blocks.data()};
      const auto linear = PackOne(view, dtype);
      for (size_t row = 0; row < out; ++row) {
        std::vector<float> got(in), want(in);
        view.CopyToF32(static_cast<int64_t>(row), 1, want.data());
        linear->ReadRow(row, got.data());
        ExpectSameBits(got, want,
                       std::string(numbers::DTypeName(type)) + " as " + numbers::DTypeName(dtype) +
                           " row " + std::to_string(row));
      }
    }
  }
}

TEST_P(BlockLinearPackTest, RowsArePackedInParts) {
  const size_t in = 2048 + 256, rows_max = 64;
  const std::vector<float> x = NormalFloats(rows_max * in, 4, 0.1f, 1);
  const std::vector<std::byte> blocks = RandomRows(numbers::DType::kQ4K, 3, in, 5);
  for (const numbers::DType dtype : kDTypes) {
    const auto linear = PackOne({numbers::DType::kQ4K, 3, in, blocks.data()}, dtype);
    for (const size_t rows : {1, 2, 3, 5, 7, 8, 13, 15, 29, 64}) {
      const size_t words = linear->PackedWords(rows);
      std::vector<uint32_t> whole(words, 0xaaaaaaaa);
      linear->PackRows(x.data(), in, rows, whole.data());
      const size_t tiles = linear->RowTiles(rows);
      ASSERT_EQ(tiles, CeilDiv(PaddedRows(rows), static_cast<size_t>(GetParam()->tile_rows)));
      // One tile after the other from the last on, then all in two parts.
      std::vector<uint32_t> parts(words, 0xbbbbbbbb);
      for (size_t t = tiles; t-- > 0;) linear->PackRows(x.data(), in, rows, parts.data(), t, 1);
      EXPECT_EQ(parts, whole) << numbers::DTypeName(dtype) << " " << rows;
      parts.assign(words, 0xcccccccc);
      linear->PackRows(x.data(), in, rows, parts.data(), tiles / 2, tiles - tiles / 2);
      linear->PackRows(x.data(), in, rows, parts.data(), 0, tiles / 2);
      EXPECT_EQ(parts, whole) << numbers::DTypeName(dtype) << " " << rows;
    }
  }
}

TEST_P(BlockLinearPackTest, RowsArePackedAndRunWithoutAllocating) {
  const size_t in = 512, out = 70;
  for (const numbers::DType type :
       {numbers::DType::kQ4K, numbers::DType::kQ6K, numbers::DType::kF16}) {
    for (const numbers::DType dtype : kDTypes) {
      if (dtype == numbers::DType::kI8 && !numbers::IsBlockType(type)) continue;
      const std::vector<std::byte> blocks = RandomRows(type, out, in, 6);
      const auto linear = PackOne({type, out, in, blocks.data()}, dtype);
      for (const size_t rows : {1, 4, 9, 40}) {
        const std::vector<float> x = NormalFloats(rows * in, 4, 0.1f, 1);
        AlignedBuffer packed(linear->PackedWords(rows), &arena_);
        AlignedBuffer scratch(kBlockScratchBytes / sizeof(float), &arena_);
        std::vector<float> y(rows * out);
        std::vector<float> row(in);
        BlockRun run;
        run.x = reinterpret_cast<const Word*>(packed.data());
        run.rows = rows;
        run.y = y.data();
        run.y_stride = out;
        run.scratch = scratch.data();
        const long before = FailingNew::Allocations();
        linear->PackRows(x.data(), in, rows, reinterpret_cast<Word*>(packed.data()));
        linear->Run(run, 0, linear->panels());
        linear->ReadRow(out - 1, row.data());
        EXPECT_EQ(FailingNew::Allocations(), before)
            << numbers::DTypeName(type) << " as " << numbers::DTypeName(dtype) << ", " << rows
            << " rows";
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, BlockLinearPackTest, testing::ValuesIn(AllKernels()),
                         [](const auto& test) { return std::string(test.param->name); });

// A file of `bytes`, mapped as models are.
class MappedBytes {
 public:
  explicit MappedBytes(const std::vector<std::byte>& bytes) : size_(bytes.size()) {
    std::FILE* file = std::tmpfile();
    PENSTOCK_CHECK(file != nullptr);
    PENSTOCK_CHECK(std::fwrite(bytes.data(), 1, size_, file) == size_ && std::fflush(file) == 0);
    data_ = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fileno(file), 0);
    PENSTOCK_CHECK(data_ != MAP_FAILED);
    std::fclose(file);
  }
  ~MappedBytes() { munmap(data_, size_); }
  MappedBytes(const MappedBytes&) = delete;
  MappedBytes& operator=(const MappedBytes&) = delete;

  const std::byte* data() const { return static_cast<const std::byte*>(data_); }

  // Of the mapping, in this process.
  size_t ResidentBytes() const {
    char begin[32];
    std::snprintf(begin, sizeof(begin), "%lx-", reinterpret_cast<unsigned long>(data_));
    std::ifstream smaps("/proc/self/smaps");
    bool inside = false;
    for (std::string line; std::getline(smaps, line);) {
      if (line.starts_with(begin)) inside = true;
      if (inside && line.starts_with("Rss:")) return std::stoul(line.substr(4)) << 10;
    }
    return SIZE_MAX;
  }

 private:
  size_t size_;
  void* data_;
};

// The largest that ResidentBytes was in this process since the reset; 0 where the system does not
// tell.
size_t PeakBytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::stoul(line.substr(6)) << 10;
  }
  return 0;
}
bool ResetPeakBytes() {
  std::ofstream file("/proc/self/clear_refs");
  file << "5" << std::flush;
  return file.good();
}

TEST(BlockLinearPack, PagesOfAMappedFileAreGivenBack) {
  const int64_t in = 2048, rows = 12288;
  // Parts that do not begin on pages, one of them small.
  std::vector<std::byte> bytes(1000);
  const std::vector<std::byte> blocks = RandomRows(numbers::DType::kQ8_0, rows, in, 8);
  bytes.insert(bytes.end(), blocks.begin(), blocks.end());
  const program::TensorView heap = {numbers::DType::kQ8_0, rows, in, blocks.data()};
  const MappedBytes file(bytes);
  const program::TensorView mapped = {numbers::DType::kQ8_0, rows, in, file.data() + 1000};
  ThreadPool pool(2, false);
  const auto pack = [&](HugePageArena* arena, const program::TensorView& view, bool mapped_file) {
    const program::LinearRows parts[] = {{view.Rows(0, 40), {}}, {view.Rows(40, rows - 40), {}}};
    auto linear = BlockLinear::Pack(parts, {numbers::DType::kI8, {}, mapped_file},
                                    SupportedKernels().back(), &pool, arena);
    PENSTOCK_CHECK(linear.ok());
    return std::move(*linear);
  };
  HugePageArena arena;
  const auto want = pack(&arena, heap, false);
  {
    HugePageArena other;
    pack(&other, mapped, false);
    EXPECT_GT(file.ResidentBytes(), blocks.size() * 9 / 10);  // so the next figures mean something
    const auto linear = pack(&other, mapped, true);
    EXPECT_LT(file.ResidentBytes(), blocks.size() / 20);
    EXPECT_EQ(std::memcmp(linear->panel(0), want->panel(0), want->bytes()), 0);
  }
  HugePageArena other;
  const bool resets = ResetPeakBytes();
  const size_t before = PeakBytes();
  const auto linear = pack(&other, mapped, true);
  const size_t peak = PeakBytes();
  EXPECT_EQ(std::memcmp(linear->panel(0), want->panel(0), want->bytes()), 0);
#ifndef __SANITIZE_THREAD__  // its own memory is resident too
  if (resets && before != 0) EXPECT_LT(peak, before + blocks.size() * 3 / 2);
#endif
  EXPECT_LT(file.ResidentBytes(), blocks.size() / 20);
  // The file can be read as before.
  EXPECT_EQ(std::memcmp(file.data(), bytes.data(), bytes.size()), 0);
}

// Models that serve have turns between the slices, and a slice waits for theirs.
TEST(BlockLinearPack, TakesATurnForEachSlice) {
  const int64_t in = 2048, rows = 12288;
  const std::vector<std::byte> bytes = RandomRows(numbers::DType::kQ8_0, rows, in, 8);
  const program::LinearRows parts = {{numbers::DType::kQ8_0, rows, in, bytes.data()}, {}};
  ThreadPool pool(2, false);
  HugePageArena arena;
  const auto want = BlockLinear::Pack({&parts, 1}, {numbers::DType::kI8, {}},
                                      SupportedKernels().back(), &pool, &arena);
  struct Model final : gate::GateClient {
    gate::GateDemand Demand() const override { return {.interactive = true}; }
  } model;
  gate::ComputeGate gate(1);
  gate::ComputeGate::Turn turn(&gate, &model);
  ASSERT_EQ(turn.Ask(), gate::ComputeGate::Answer::kGranted);
  std::atomic<bool> packed{false};
  Expected<std::unique_ptr<BlockLinear>> linear = Status::Internal("");
  std::thread loader([&] {
    gate::LoadTurn load(&gate, {.beside_interactive = {}, .beside_bulk = {}});
    linear = BlockLinear::Pack({&parts, 1}, {numbers::DType::kI8, {}}, SupportedKernels().back(),
                               &pool, &arena, &load);
    packed = true;
  });
  // Each time the loader waits, it gets one turn, and waits again.
  int turns = 0;
  while (!packed) {
    if (gate.waiting() == 0) {
      std::this_thread::yield();
      continue;
    }
    ++turns;
    turn.End(1, {});
    turn.Drop();
    while (!packed && turn.Ask() != gate::ComputeGate::Answer::kGranted) {
      if (turn.Wait() == gate::ComputeGate::Answer::kGranted) break;
    }
  }
  loader.join();
  turn.Drop();
  ASSERT_TRUE(linear.ok());
  EXPECT_EQ(std::memcmp((*linear)->panel(0), (*want)->panel(0), (*want)->bytes()), 0);
  EXPECT_GE(turns, 2);
}

TEST(BlockLinearPack, NoLargerThanTheFile) {
  ThreadPool pool(1, false);
  HugePageArena arena;
  for (const Kernels* kernels : SupportedKernels()) {
    for (const numbers::DType type : numbers::kStoredTypes) {
      const std::vector<std::byte> blocks = RandomRows(type, 64, 512, 1);
      const program::LinearRows rows = {{type, 64, 512, blocks.data()}, {}};
      const auto linear =
          BlockLinear::Pack({&rows, 1}, {numbers::DType::kBf16, {}}, kernels, &pool, &arena);
      ASSERT_TRUE(linear.ok());
      EXPECT_EQ((*linear)->bytes(), blocks.size()) << numbers::DTypeName(type);
    }
  }
}

class Refusals : public testing::Test {
 protected:
  program::TensorView View(numbers::DType type, int64_t rows, int64_t columns) const {
    return {type, rows, columns, blocks_.data()};
  }
  program::LinearRows Rows(numbers::DType type, int64_t rows, int64_t columns) const {
    return {View(type, rows, columns), {}};
  }
  Status Pack(const std::vector<program::LinearRows>& parts,
              const program::PackOptions& options = {numbers::DType::kI8, {}}) {
    return BlockLinear::Pack(parts, options, ScalarKernels(), &pool_, &arena_).status();
  }

  const std::vector<std::byte> blocks_ = std::vector<std::byte>(1 << 16);
  ThreadPool pool_{1, false};
  HugePageArena arena_;
};

TEST_F(Refusals, OfWeights) {
  for (const numbers::DType type :
       {numbers::DType::kQ4K, numbers::DType::kQ5K, numbers::DType::kQ6K}) {
    const Status status = Pack({Rows(type, 4, 640)});
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find("640"), std::string::npos) << status.message();
    EXPECT_NE(status.message().find("256"), std::string::npos) << status.message();
    EXPECT_TRUE(Pack({Rows(type, 4, 512)}).ok());
  }
  const program::LinearRows q8 = Rows(numbers::DType::kQ8_0, 4, 64);
  EXPECT_TRUE(Pack({q8}).ok());
  EXPECT_EQ(Pack({}).code(), StatusCode::kInvalidArgument);
  for (const program::LinearRows& bad :
       {Rows(numbers::DType::kQ8_0, 4, 40), Rows(numbers::DType::kQ8_0, 4, 0),
        Rows(numbers::DType::kQ8_0, 0, 64), Rows(numbers::DType::kQ8_0, 4, int64_t{1} << 31),
        Rows(numbers::DType::kQ8_0, int64_t{1} << 31, 64)}) {
    EXPECT_EQ(Pack({bad}).code(), StatusCode::kInvalidArgument);
  }
  for (const program::LinearRows& other :
       {Rows(numbers::DType::kQ4_0, 4, 64), Rows(numbers::DType::kQ8_0, 4, 96),
        Rows(numbers::DType::kQ8_0, 0, 64)}) {
    EXPECT_EQ(Pack({q8, other}).code(), StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(Pack({Rows(numbers::DType::kF16, 4, 64)}).code(), StatusCode::kUnsupported);
  EXPECT_TRUE(Pack({Rows(numbers::DType::kF16, 4, 64)}, {numbers::DType::kF32, {}}).ok());
  for (const numbers::DType type :
       {numbers::DType::kF64, numbers::DType::kI8, numbers::DType::kI32, numbers::DType::kBool}) {
    const Status status = Pack({Rows(type, 4, 64)}, {numbers::DType::kF32, {}});
    EXPECT_EQ(status.code(), StatusCode::kUnsupported) << numbers::DTypeName(type);
  }
  for (const auto& rows : {Rows(numbers::DType::kF16, 4, 64), q8}) {
    EXPECT_EQ(Pack({rows}, {numbers::DType::kF16, {}}).message(),
              "the CPU does not multiply in F16");
  }
  const std::vector<float> factors(64, 2.0f);
  EXPECT_EQ(Pack({q8}, {numbers::DType::kI8, factors}).code(), StatusCode::kUnsupported);
}

TEST_F(Refusals, OfBiases) {
  const program::LinearRows q8 = Rows(numbers::DType::kQ8_0, 4, 64);
  const auto with_bias = [&](numbers::DType type, int64_t rows, int64_t columns) {
    return program::LinearRows{q8.weight, View(type, rows, columns)};
  };
  const program::LinearRows good = with_bias(numbers::DType::kF32, 1, 4);
  EXPECT_TRUE(Pack({good}).ok());
  EXPECT_EQ(Pack({with_bias(numbers::DType::kF32, 1, 3)}).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Pack({with_bias(numbers::DType::kF32, 4, 1)}).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Pack({with_bias(numbers::DType::kI32, 1, 4)}).code(), StatusCode::kUnsupported);
  EXPECT_EQ(Pack({good, q8}).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Pack({q8, good}).code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace penstock::cpu

#include "cuda/self_check.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "common/int_math.h"
#include "cuda/epilogue-inl.h"

namespace penstock::cuda {
namespace {

using program::Activation;

constexpr uint64_t kMemoryBytes = uint64_t{2} << 20;

// A region of the memory of a case, which the host has a copy of.
template <typename T>
struct Region {
  T* on_device;
  std::span<T> on_host;
};

// The memory of a case, laid out alike on the host and on the device: inputs, then results.
class Memory {
 public:
  static Expected<Memory> Make(Device* device) {
    Memory memory(device);
    PENSTOCK_ASSIGN_OR_RETURN(memory.device_memory_, DeviceBlock::OnDevice(device, kMemoryBytes));
    PENSTOCK_ASSIGN_OR_RETURN(memory.host_memory_, DeviceBlock::OnHost(device, kMemoryBytes));
    PENSTOCK_ASSIGN_OR_RETURN(memory.event_, device->NewEvent());
    memory.has_event_ = true;
    return memory;
  }
  Memory(Memory&& other) noexcept = default;
  Memory& operator=(Memory&&) = delete;
  ~Memory() {
    if (device_memory_.data() != nullptr && has_event_) device_->FreeEvent(event_);
  }

  // Another case begins. Numbers that are drawn depend on the kernel alone.
  void Begin(KernelId kernel) {
    used_ = 0;
    draws_ = static_cast<uint64_t>(kernel) << 32;
    std::memset(host_memory_.data(), 0xFF, kMemoryBytes);
  }

  template <typename T>
  Region<T> Room(size_t count) {
    const uint64_t at = used_;
    used_ = RoundUp(used_ + count * sizeof(T), 256);
    PENSTOCK_CHECK(used_ <= kMemoryBytes);
    return {reinterpret_cast<T*>(device_memory_.data() + at),
            {reinterpret_cast<T*>(host_memory_.data() + at), count}};
  }
  // Uniform between -scale and scale.
  const float* Floats(size_t count, float scale) {
    const Region<float> region = Room<float>(count);
    for (float& value : region.on_host) value = Draw(scale);
    return region.on_device;
  }
  Region<uint16_t> Operands(size_t count, float scale, bool half) {
    const Region<uint16_t> region = Room<uint16_t>(count);
    for (uint16_t& value : region.on_host) {
      value = static_cast<uint16_t>(PackOperands(Draw(scale), 0, half));
    }
    return region;
  }
  template <typename T>
  const T* Put(std::initializer_list<T> values) {
    const Region<T> region = Room<T>(values.size());
    std::copy(values.begin(), values.end(), region.on_host.begin());
    return region.on_device;
  }

  // Copies all in, runs the launches, copies all out. Results are then in the regions of the host.
  Status Run(std::span<const KernelLaunch> launches) {
    PENSTOCK_RETURN_IF_ERROR(device_->CopyIn(device_memory_.data(), host_memory_.data(), used_));
    for (const KernelLaunch& launch : launches) PENSTOCK_RETURN_IF_ERROR(device_->Launch(launch));
    PENSTOCK_RETURN_IF_ERROR(device_->CopyOut(host_memory_.data(), device_memory_.data(), used_));
    PENSTOCK_RETURN_IF_ERROR(device_->Record(event_));
    return device_->Wait(event_);
  }
  // All bytes, inputs as well: a kernel that writes outside its result is seen. FNV-1a
  // (RFC 9923).
  uint64_t Hash() const {
    uint64_t hash = 0xCBF29CE484222325;
    for (uint64_t i = 0; i < used_; ++i) {
      hash = (hash ^ std::to_integer<uint64_t>(host_memory_.data()[i])) * 0x100000001B3;
    }
    return hash;
  }

 private:
  explicit Memory(Device* device) : device_(device) {}

  // SplitMix64 of a counter (Steele, Lea and Flood 2014, doi 10.1145/2660193.2660195).
  float Draw(float scale) {
    uint64_t z = ++draws_ * 0x9E3779B97F4A7C15;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
    z = (z ^ z >> 27) * 0x94D049BB133111EB;
    return (static_cast<float>((z ^ z >> 31) >> 40) * 0x1p-23F - 1.0F) * scale;
  }

  Device* const device_;
  DeviceBlock device_memory_, host_memory_;
  EventId event_{};
  bool has_event_ = false;
  uint64_t used_ = 0, draws_ = 0;
};

// A product with bias and residual, and one with a gate: rows that end within a tile, chunks of 256
// and of less, features that end within a piece.
std::vector<KernelLaunch> Gemm(KernelId id, Memory* memory, bool half, const DeviceInfo& device) {
  constexpr int kRows = 37, kDepth = 320, kFeatures = 72, kStride = 128;
  GemmArgs args = {.x = memory->Operands(kRows * kDepth, 2, half).on_device,
                   .w = memory->Operands(80 * kDepth, 0.2F, half).on_device,
                   .up = nullptr,
                   .rows = memory->Put({kRows}),
                   .stride = kDepth,
                   .k = kDepth,
                   .to = {}};
  const uint16_t* const up = memory->Operands(80 * kDepth, 0.2F, half).on_device;
  args.to = {.bias = memory->Floats(kFeatures, 1),
             .bias_up = memory->Floats(kFeatures, 1),
             .residual = memory->Floats(kRows * kFeatures, 1),
             .y = nullptr,
             .y16 = nullptr,
             .features = kFeatures,
             .stride16 = kStride,
             .activation = Activation::kGelu,
             .half = half};
  std::vector<KernelLaunch> launches;
  for (const bool gated : {false, true}) {
    args.up = gated ? up : nullptr;
    if (gated) args.to.activation = Activation::kSilu;
    args.to.y = memory->Room<float>(kRows * kFeatures).on_device;
    args.to.y16 = memory->Room<uint16_t>(kRows * kStride).on_device;
    launches.push_back(GemmLaunch(id, args, kRows, gated ? 2 * kStride : kStride, device));
  }
  return launches;
}

std::vector<KernelLaunch> Float32Gemm(KernelId id, Memory* memory) {
  constexpr int kRows = 70, kDepth = 90, kFeatures = 72, kStride = 128;
  GemmF32Args args = {.x = memory->Floats(kRows * kDepth, 2),
                      .w = memory->Floats(kFeatures * kDepth, 0.2F),
                      .rows = memory->Put({kRows}),
                      .k = kDepth,
                      .multiply = false,
                      .to = {}};
  args.to = {.bias = memory->Floats(kFeatures, 1),
             .bias_up = nullptr,
             .residual = nullptr,
             .y = memory->Room<float>(kRows * kFeatures).on_device,
             .y16 = memory->Room<uint16_t>(kRows * kStride).on_device,
             .features = kFeatures,
             .stride16 = kStride,
             .activation = Activation::kGeluTanh,
             .half = true};
  const KernelRow& row = RowOf(id);
  const auto launch = [&] {
    return KernelLaunch::Of(id, BlocksOf(kStride, row.tile_features),
                            BlocksOf(kRows, row.tile_rows), args);
  };
  const KernelLaunch first = launch();
  args.multiply = true;
  args.to.activation = Activation::kTanh;
  return {first, launch()};
}

// A value that cancels in sums, and leaves the bits of those that were cut below it.
uint16_t Large(bool half, bool negative) {
  const float value = half ? 0x1p15F : 0x1p28F;
  return static_cast<uint16_t>(PackOperands(negative ? -value : value, 0, half));
}

// Sequences of 100 and of 7 tokens, with and without a window.
constexpr int kTokens = 107, kHeads = 2, kReach = 4;

const AttentionTile* Tiles(Memory* memory) {
  return memory->Put<AttentionTile>(
      {{0, 100, 0, 64, 0}, {0, 100, 64, 36, 64}, {100, 7, 0, 7, 100}});
}

std::vector<KernelLaunch> Attend(KernelId id, Memory* memory, int depth, bool half, bool bias) {
  const auto width = static_cast<size_t>(kHeads * depth);
  const Region<uint16_t> qkv = memory->Operands(kTokens * 3 * width, 2, half);
  // Every 16 keys begin with two that are the same, of values that are opposite and large.
  for (size_t token = 0; token + 1 < kTokens; token += 16) {
    const auto row = qkv.on_host.begin() + static_cast<ptrdiff_t>(token * 3 * width);
    const auto next = row + static_cast<ptrdiff_t>(3 * width);
    const auto keys = static_cast<ptrdiff_t>(width);
    std::copy_n(row + keys, width, next + keys);
    std::fill_n(row + 2 * keys, width, Large(half, false));
    std::fill_n(next + 2 * keys, width, Large(half, true));
  }
  AttentionArgs args = {.qkv = qkv.on_device,
                        .y = nullptr,
                        .tiles = Tiles(memory),
                        .tile_count = memory->Put({3}),
                        .bias = {nullptr, kReach},
                        .stride = 3 * kHeads * depth,
                        .y_stride = kHeads * depth,
                        .heads = kHeads,
                        .head_size = depth,
                        .window = 0,
                        .scale = 1 / std::sqrt(static_cast<float>(depth))};
  if (bias) args.bias.table = memory->Floats(kHeads * (2 * kReach + 1), 1);
  std::vector<KernelLaunch> launches;
  for (const int window : {0, 40}) {
    args.window = window;
    args.y = memory->Room<uint16_t>(kTokens * width).on_device;
    launches.push_back(KernelLaunch::Of(id, kHeads, 3, args));
  }
  return launches;
}

std::vector<KernelLaunch> Float32Attention(KernelId id, Memory* memory) {
  constexpr int kSize = 24, kWidth = kHeads * kSize;
  AttentionF32Args args = {.qkv = memory->Floats(kTokens * 3 * kWidth, 2),
                           .y = nullptr,
                           .y16 = nullptr,
                           .tiles = Tiles(memory),
                           .tile_count = memory->Put({3}),
                           .bias = {memory->Floats(kHeads * (2 * kReach + 1), 1), kReach},
                           .heads = kHeads,
                           .head_size = kSize,
                           .stride16 = 64,
                           .window = 0,
                           .scale = 0.2F,
                           .half = false};
  std::vector<KernelLaunch> launches;
  for (const int window : {0, 40}) {
    args.window = window;
    args.y = memory->Room<float>(kTokens * kWidth).on_device;
    args.y16 = memory->Room<uint16_t>(kTokens * 64).on_device;
    launches.push_back(KernelLaunch::Of(id, kHeads, 3, args));
  }
  return launches;
}

constexpr int kNormRows = 6, kNormWidth = 100, kNormStride = 128;

NormArgs NormOf(Memory* memory) {
  return {.x = memory->Floats(kNormRows * kNormWidth, 3),
          .gamma = memory->Floats(kNormWidth, 1),
          .beta = memory->Floats(kNormWidth, 1),
          .y = memory->Room<float>(kNormRows * kNormWidth).on_device,
          .y16 = memory->Room<uint16_t>(kNormRows * kNormStride).on_device,
          .rows = memory->Put({kNormRows}),
          .width = kNormWidth,
          .stride16 = kNormStride,
          .epsilon = 1e-5F,
          .half = true,
          .rms = false};
}

std::vector<KernelLaunch> Norm(KernelId id, Memory* memory) {
  std::vector<KernelLaunch> launches;
  for (const bool rms : {false, true}) {
    NormArgs args = NormOf(memory);
    args.rms = rms;
    args.half = !rms;
    launches.push_back(KernelLaunch::Of(id, BlocksOf(kNormRows, RowOf(id).tile_rows), 1, args));
  }
  return launches;
}

std::vector<KernelLaunch> Embed(KernelId id, Memory* memory) {
  const EmbedArgs args = {.ids = memory->Put({3, 0, 9, 9, 1, 4}),
                          .positions = memory->Put({0, 1, 2, 0, 1, 2}),
                          .types = memory->Put({0, 1, 1, 0, 0, 1}),
                          .words = memory->Floats(10 * kNormWidth, 1),
                          .places = memory->Floats(3 * kNormWidth, 1),
                          .kinds = memory->Floats(2 * kNormWidth, 1),
                          .norm = NormOf(memory)};
  return {KernelLaunch::Of(id, BlocksOf(kNormRows, RowOf(id).tile_rows), 1, args)};
}

std::vector<KernelLaunch> Heads(KernelId id, Memory* memory) {
  constexpr int kRows = 5, kSize = 24, kDepth = 32;
  HeadsArgs args = {.x = memory->Floats(kRows * 3 * kHeads * kSize, 2),
                    .y = nullptr,
                    .y16 = nullptr,
                    .places = memory->Put({0, 1, 2, 0, 1}),
                    .cos = memory->Floats(3 * 8, 1),
                    .sin = memory->Floats(3 * 8, 1),
                    .rows = memory->Put({kRows}),
                    .heads = kHeads,
                    .head_size = kSize,
                    .depth = kDepth,
                    .rope_size = 16,
                    .interleaved = false,
                    .half = false};
  std::vector<KernelLaunch> launches;
  for (const bool interleaved : {false, true}) {
    args.interleaved = interleaved;
    args.half = interleaved;
    args.y = memory->Room<float>(kRows * 3 * kHeads * kDepth).on_device;
    args.y16 = memory->Room<uint16_t>(kRows * 3 * kHeads * kDepth).on_device;
    launches.push_back(KernelLaunch::Of(id, BlocksOf(kRows, RowOf(id).tile_rows), 1, args));
  }
  return launches;
}

std::vector<KernelLaunch> Pool(KernelId id, Memory* memory) {
  using program::Pooling;
  constexpr int kWidth = 40, kSequences = 3;
  PoolArgs args = {.x = memory->Floats(12 * kWidth, 2),
                   .offsets = memory->Put({0, 5, 6, 12}),
                   .skip = memory->Put({1, 0, 2}),
                   .sequences = memory->Put({kSequences}),
                   .y = nullptr,
                   .width = kWidth,
                   .y_stride = kWidth,
                   .pooling = Pooling::kCls};
  std::vector<KernelLaunch> launches;
  for (const Pooling pooling : {Pooling::kCls, Pooling::kMean, Pooling::kMax, Pooling::kMeanSqrtLen,
                                Pooling::kWeightedMean, Pooling::kLastToken}) {
    args.pooling = pooling;
    args.y = memory->Room<float>(kSequences * kWidth).on_device;
    launches.push_back(KernelLaunch::Of(id, BlocksOf(kSequences, RowOf(id).tile_rows), 1, args));
  }
  return launches;
}

std::vector<KernelLaunch> LaunchesOf(KernelId id, Memory* memory, const DeviceInfo& device) {
  const std::string_view name = RowOf(id).name;
  const bool half = name.ends_with("_f16");
  const auto begins = [&](std::string_view with) { return name.starts_with(with); };
  if (id == KernelId::gemm_f32) return Float32Gemm(id, memory);
  if (id == KernelId::attention_f32) return Float32Attention(id, memory);
  if (id == KernelId::rows_norm) return Norm(id, memory);
  if (id == KernelId::rows_embed) return Embed(id, memory);
  if (id == KernelId::rows_heads) return Heads(id, memory);
  if (id == KernelId::rows_pool) return Pool(id, memory);
  if (begins("gemm_")) return Gemm(id, memory, half, device);
  const bool bias = begins("attention_bias_");
  const int depth = name.find("_128_") != name.npos  ? 128
                    : name.find("_64_") != name.npos ? 64
                                                     : 32;
  return Attend(id, memory, depth, half, bias);
}

struct Expectation {
  const char* kernel;
  uint64_t before_9, from_9;  // compute capability
};
constexpr Expectation kExpected[] = {
#define PENSTOCK_KERNEL_HASH(kernel, before_9, from_9) {#kernel, before_9, from_9},
#include "cuda/self_check_hashes.inc"
#undef PENSTOCK_KERNEL_HASH
};
static_assert(std::size(kExpected) == kKernels);

}  // namespace

Expected<std::vector<KernelHash>> CheckKernelHashes(Device* device) {
  PENSTOCK_ASSIGN_OR_RETURN(Memory memory, Memory::Make(device));
  std::vector<KernelHash> results;
  for (size_t i = 0; i < kKernels; ++i) {
    const auto id = static_cast<KernelId>(i);
    if (!device->info().Has(id)) continue;
    memory.Begin(id);
    const std::vector<KernelLaunch> launches = LaunchesOf(id, &memory, device->info());
    PENSTOCK_RETURN_IF_ERROR(memory.Run(launches).Annotate(RowOf(id).name));
    const Expectation& expected = kExpected[i];
    results.push_back({RowOf(id).name, memory.Hash(),
                       device->info().major < 9 ? expected.before_9 : expected.from_9});
  }
  return results;
}

}  // namespace penstock::cuda

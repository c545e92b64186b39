// Tables and matrices in a device's memory, and the way there through pinned memory.
//
// A matrix in f32 lies row by row. One of 16-bit operands lies in pieces of 16 features by 64 of k
// (gemm_mma-inl.h), padded with zeros to whole pieces; f16 of programs with a cache with a power of
// two for each row.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <span>

#include "cuda/device.h"
#include "program/backend.h"

namespace penstock::cuda {

// What the programs of a device share. Device calls are made under the mutex.
struct SharedDevice {
  explicit SharedDevice(Device* device_in) : device(device_in) {}
  Device* const device;
  std::mutex mutex;
  // One set of activations, of the run that needs the most; all kernels are in one stream, in order.
  DeviceBlock activations;
  std::atomic<uint64_t> activation_bytes{0};  // what it has. Any thread
  uint64_t generation = 0;                    // of the set: graphs of another one are void
  std::multiset<uint64_t> needs;              // bytes of it that each run needs
  std::atomic<uint64_t> holders{0};           // how many runs these are. Any thread
  const std::shared_ptr<program::DeviceCounters> counters =
      std::make_shared<program::DeviceCounters>();

  // Changes what a run needs, 0 at first and at last. Throws std::bad_alloc without effect.
  void SetNeed(uint64_t bytes, std::atomic<uint64_t>* of_run);
  // The run needs none of the set any more, which shrinks to what the others need. Returns the bytes
  // given back.
  uint64_t Drop(std::atomic<uint64_t>* of_run);
  // Another set, of that size, or none. What runs is waited for.
  Status Reallocate(uint64_t bytes);
};

class DeviceTable final : public program::Table {
 public:
  DeviceTable(int64_t rows, int32_t width, DeviceBlock block)
      : program::Table(rows, width), block_(std::move(block)) {}
  float* data() const { return reinterpret_cast<float*>(block_.data()); }

 private:
  DeviceBlock block_;
};

class DeviceLinear final : public program::PackedLinear {
 public:
  DeviceLinear(int32_t in, int32_t out, numbers::DType dtype, DeviceBlock weights, DeviceBlock bias,
               DeviceBlock scales, BlockForm form = BlockForm::kNone)
      : program::PackedLinear(in, out, dtype),
        form_(form),
        weights_(std::move(weights)),
        bias_(std::move(bias)),
        scales_(std::move(scales)) {}

  uint64_t bytes() const override { return weights_.bytes() + bias_.bytes() + scales_.bytes(); }
  // Bytes of the weights alone.
  static uint64_t WeightBytes(int64_t in, int64_t out, numbers::DType dtype);

  const float* floats() const { return reinterpret_cast<const float*>(weights_.data()); }
  const uint16_t* pieces() const { return reinterpret_cast<const uint16_t*>(weights_.data()); }
  // The weights are blocks in this form, not pieces; kNone: they are not.
  BlockForm form() const { return form_; }
  const std::byte* blocks() const { return weights_.data(); }
  // Null: none.
  const float* bias() const { return reinterpret_cast<const float*>(bias_.data()); }
  // By which the pieces of each row are divided; null: they are not.
  const float* scales() const { return reinterpret_cast<const float*>(scales_.data()); }

 private:
  const BlockForm form_;
  DeviceBlock weights_;
  DeviceBlock bias_;
  DeviceBlock scales_;
};

// Whether rows of a matrix are scaled for the range of f16 (OperandScaleOf): of programs with a
// cache, whose values have no known bounds.
inline bool IsScaled(const program::PackOptions& options) {
  return options.as_stored && options.dtype == numbers::DType::kF16;
}

// Rows of 16 features, [count, k] with count <= 16, as their pieces: RoundUp(k, 64) * 16 operands.
// `scales`: where those of the rows go; null: they are not scaled.
void WritePieces(std::span<const float> rows, size_t k, bool half, uint16_t* to, float* scales);

// Copies to the device through two halves of pinned memory: one is filled while the other is on
// its way. The halves are kept, since pinning takes milliseconds. Any thread; one copies at a time.
class Staging {
 public:
  static constexpr uint64_t kHalfBytes = uint64_t{4} << 20;

  explicit Staging(SharedDevice* shared) : shared_(shared) {}
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  // `unit` bytes at a time, up to kHalfBytes or one unit: fill(first, memory) writes the bytes from
  // unit `first` on. Returns once all is there.
  using Fill = std::function<void(uint64_t first, std::span<std::byte> to)>;
  Status Copy(std::byte* to, uint64_t units, uint64_t unit, const Fill& fill);

 private:
  struct Half {
    DeviceBlock memory;
    EventId copied{};
    bool has_event = false;
    bool pending = false;
  };
  Status Await(Half* half);

  SharedDevice* const shared_;
  std::mutex mutex_;  // before that of the device
  Half halves_[2];
};

}  // namespace penstock::cuda

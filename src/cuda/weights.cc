#include "cuda/weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/int_math.h"
#include "cuda/epilogue-inl.h"

namespace penstock::cuda {

uint64_t DeviceLinear::WeightBytes(int64_t in, int64_t out, numbers::DType dtype) {
  const auto k = static_cast<size_t>(in), features = static_cast<size_t>(out);
  if (dtype == numbers::DType::kF32) return features * k * sizeof(float);
  return RoundUp(features, 16) * RoundUp(k, 64) * sizeof(uint16_t);
}

void WritePieces(std::span<const float> rows, size_t k, bool half, uint16_t* to, float* scales) {
  const size_t padded = RoundUp(k, 64);
  std::fill_n(to, 16 * padded, uint16_t{0});
  for (size_t r = 0; r < rows.size() / k; ++r) {
    const float* const row = rows.data() + r * k;
    float factor = 1;
    if (scales != nullptr) {
      float largest = 0;
      for (size_t at = 0; at < k; ++at) largest = std::max(largest, std::fabs(row[at]));
      const OperandScale scale = OperandScaleOf(largest);
      factor = scale.factor;
      scales[r] = scale.inverse;
    }
    for (size_t at = 0; at < k; ++at) {
      const size_t place = at / 64 * 1024 + r * 64 + (at % 64 / 8 ^ r % 8) * 8 + at % 8;
      to[place] = static_cast<uint16_t>(PackOperands(row[at] * factor, 0, half));
    }
  }
}

void SharedDevice::SetNeed(uint64_t bytes, std::atomic<uint64_t>* of_run) {
  if (bytes > 0) needs.insert(bytes);  // first: where it throws, nothing has changed
  const uint64_t before = of_run->exchange(bytes, std::memory_order_relaxed);
  if (before > 0) needs.erase(needs.find(before));
  holders.store(needs.size(), std::memory_order_relaxed);
}

uint64_t SharedDevice::Drop(std::atomic<uint64_t>* of_run) {
  SetNeed(0, of_run);
  const uint64_t before = activations.bytes();
  const uint64_t most = needs.empty() ? 0 : *needs.rbegin();
  // Where it fails, the next run allocates.
  if (most < before) (void)Reallocate(most);
  return before - activations.bytes();
}

Status SharedDevice::Reallocate(uint64_t bytes) {
  // Freed first: both at once may not fit.
  activations = DeviceBlock();
  activation_bytes.store(0, std::memory_order_relaxed);
  ++generation;
  if (bytes == 0) return Status::Ok();
  PENSTOCK_ASSIGN_OR_RETURN(activations, DeviceBlock::OnDevice(device, bytes));
  activation_bytes.store(bytes, std::memory_order_relaxed);
  return Status::Ok();
}

Staging::~Staging() {
  for (Half& half : halves_) {
    (void)Await(&half);
    if (half.has_event) shared_->device->FreeEvent(half.copied);
  }
}

Status Staging::Await(Half* half) {
  if (!std::exchange(half->pending, false)) return Status::Ok();
  return shared_->device->Wait(half->copied);
}

Status Staging::Copy(std::byte* to, uint64_t units, uint64_t unit, const Fill& fill) {
  const std::lock_guard copying(mutex_);
  const uint64_t step = std::clamp<uint64_t>(kHalfBytes / std::max<uint64_t>(unit, 1), 1, units);
  size_t turn = 0;
  for (uint64_t first = 0; first < units; first += step) {
    Half& half = halves_[turn++ % 2];
    PENSTOCK_RETURN_IF_ERROR(Await(&half));
    const uint64_t bytes = std::min(step, units - first) * unit;
    {
      const std::lock_guard lock(shared_->mutex);
      if (half.memory.bytes() < bytes) {
        half.memory = DeviceBlock();
        PENSTOCK_ASSIGN_OR_RETURN(
            half.memory, DeviceBlock::OnHost(shared_->device, std::max(kHalfBytes, bytes)));
      }
      if (!half.has_event) {
        PENSTOCK_ASSIGN_OR_RETURN(half.copied, shared_->device->NewEvent());
        half.has_event = true;
      }
    }
    fill(first, {half.memory.data(), bytes});
    const std::lock_guard lock(shared_->mutex);
    PENSTOCK_RETURN_IF_ERROR(shared_->device->CopyIn(to + first * unit, half.memory.data(), bytes));
    shared_->counters->bytes_in.fetch_add(bytes, std::memory_order_relaxed);
    half.pending = true;
    PENSTOCK_RETURN_IF_ERROR(shared_->device->Record(half.copied));
  }
  for (Half& half : halves_) PENSTOCK_RETURN_IF_ERROR(Await(&half));
  return Status::Ok();
}

}  // namespace penstock::cuda

#include "batch/tensor_slots.h"

#include <cstring>
#include <new>
#include <utility>

#include "base/int_math.h"

namespace penstock::batch {
namespace {

// Bytes of one row; 0: more than `bytes_max`.
Expected<size_t> RowBytes(const RowSpec& spec, uint64_t bytes_max) {
  uint64_t bytes = signature::ElementBytes(spec.type);
  if (bytes == 0) {
    return Status::Unsupported(std::string("tensor ") + spec.name + ": rows of type " +
                                   signature::ElementTypeName(spec.type) + " have no fixed size",
                               spec.name);
  }
  for (const int64_t dimension : spec.shape) {
    if (dimension < 1) {
      return Status::Unsupported("tensor " + spec.name + ": a row has a dimension of " +
                                     std::to_string(dimension) +
                                     "; only rows of fixed shape share batches",
                                 spec.name);
    }
    const auto size = static_cast<uint64_t>(dimension);
    bytes = bytes > bytes_max / size ? 0 : bytes * size;
    if (bytes == 0) return size_t{0};
  }
  return static_cast<size_t>(bytes);
}

uint64_t SlotBytes(size_t row_bytes, uint32_t rows) {
  return RoundUp(row_bytes * rows, TensorSlots::kAlignment);
}

}  // namespace

void TensorSlots::Arena::Free::operator()(std::byte* bytes) const {
  ::operator delete[](bytes, std::align_val_t{kAlignment});
}

TensorSlots::Arena::Arena(RowSpec spec, size_t row_bytes, size_t slot_bytes, size_t batches)
    : spec_(std::move(spec)),
      row_bytes_(row_bytes),
      slot_bytes_(slot_bytes),
      bytes_(new (std::align_val_t{kAlignment}) std::byte[batches * slot_bytes]) {
  std::memset(bytes_.get(), 0, batches * slot_bytes);
}

Expected<uint64_t> TensorSlots::BytesOf(const Options& options) {
  if (options.batches < 1 || options.batches > BatchRing::kBatchesMax || options.rows < 1 ||
      options.rows > BatchRing::kLimitMax.rows) {
    return Status::InvalidArgument("batches of " + std::to_string(options.rows) +
                                       " rows; from 1 to " +
                                       std::to_string(BatchRing::kLimitMax.rows) + " are possible",
                                   "rows");
  }
  const uint64_t row_bytes_max = kBytesMax / options.batches / options.rows;
  uint64_t bytes = 0;
  for (const auto* specs : {&options.inputs, &options.outputs}) {
    for (const RowSpec& spec : *specs) {
      PENSTOCK_ASSIGN_OR_RETURN(const size_t row_bytes, RowBytes(spec, row_bytes_max));
      if (row_bytes != 0) bytes += options.batches * SlotBytes(row_bytes, options.rows);
      if (row_bytes == 0 || bytes > kBytesMax) {
        return Status::Unsupported("tensor " + spec.name + ": " + std::to_string(options.batches) +
                                       " batches of " + std::to_string(options.rows) +
                                       " rows take more than " + std::to_string(kBytesMax >> 30) +
                                       " GiB; have smaller batches",
                                   spec.name);
      }
    }
  }
  return bytes;
}

Expected<TensorSlots> TensorSlots::Make(Options options) {
  PENSTOCK_RETURN_IF_ERROR(BytesOf(options).status());
  return TensorSlots(std::move(options));
}

TensorSlots::TensorSlots(Options options) {
  const auto make = [&options](std::vector<RowSpec>& specs, std::vector<Arena>* arenas) {
    arenas->reserve(specs.size());
    for (RowSpec& spec : specs) {
      const size_t row_bytes = *RowBytes(spec, kBytesMax);
      arenas->push_back(
          Arena(std::move(spec), row_bytes, SlotBytes(row_bytes, options.rows), options.batches));
    }
  };
  make(options.inputs, &inputs_);
  make(options.outputs, &outputs_);
}

void TensorSlots::MoveInputs(uint32_t slot, uint32_t from, uint32_t to, uint32_t rows) {
  PENSTOCK_CHECK(to <= from);
  for (const Arena& arena : inputs_) {
    std::memmove(arena.RowOf(slot, to), arena.RowOf(slot, from), rows * arena.row_bytes());
  }
}

}  // namespace penstock::batch

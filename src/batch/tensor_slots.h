// TensorSlots: the memory of a BatchRing's slots where a row is a set of tensors of fixed shape, a
// model's inputs and outputs. One reservation addresses all of them.
//
// A tensor has one arena, [slot][row][row_bytes]; a slot begins at a multiple of 64 bytes, its rows
// lie without gaps, as the model sees them: [rows, ...shape]. All is allocated when made, and
// filled with zeros: voids (BatchRing::Claimed) hold what was there before, never uninitialised
// memory.
//
// Any thread; the ring decides which may touch a row. There may be more slots than the ring has,
// for executors that gather batches themselves. A runtime may wrap SlotOf once for each slot: the
// addresses stay.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "batch/batch_ring.h"
#include "signature/element_type.h"

namespace penstock::batch {

// An input or output where all rows have one shape.
struct RowSpec {
  std::string name;
  signature::ElementType type = signature::ElementType::kFp32;  // not kBytes
  std::vector<int64_t> shape;  // of one row, each dimension at least 1; {}: one number
};

class TensorSlots {
 public:
  static constexpr uint64_t kBytesMax = uint64_t{1} << 36;
  static constexpr size_t kAlignment = 64;

  struct Options {
    size_t batches = 0;  // as the ring's
    uint32_t rows = 0;   // of a batch
    std::vector<RowSpec> inputs, outputs;
  };

  // What Make allocates for the arenas, to be admitted before. Refuses, by the tensor's name, what
  // it would refuse.
  static Expected<uint64_t> BytesOf(const Options& options);
  static Expected<TensorSlots> Make(Options options);

  class Arena {
   public:
    const RowSpec& spec() const { return spec_; }
    size_t row_bytes() const { return row_bytes_; }
    // The rows of a producer: [place.rows, ...shape].
    std::span<std::byte> RowsOf(const Reservation& place) const {
      return {RowOf(place.slot, place.row), place.rows * row_bytes_};
    }
    std::byte* RowOf(uint32_t slot, uint32_t row) const { return SlotOf(slot) + row * row_bytes_; }
    // [rows of a batch, ...shape]
    std::byte* SlotOf(uint32_t slot) const { return bytes_.get() + slot * slot_bytes_; }

   private:
    friend class TensorSlots;
    struct Free {
      void operator()(std::byte* bytes) const;
    };
    Arena(RowSpec spec, size_t row_bytes, size_t slot_bytes, size_t batches);

    RowSpec spec_;
    size_t row_bytes_;
    size_t slot_bytes_;
    std::unique_ptr<std::byte[], Free> bytes_;
  };

  const std::vector<Arena>& inputs() const { return inputs_; }
  const std::vector<Arena>& outputs() const { return outputs_; }

  // For the executor of a batch: rows of inputs move towards the start of their slot, over rows
  // that are void. to <= from.
  void MoveInputs(uint32_t slot, uint32_t from, uint32_t to, uint32_t rows);

 private:
  explicit TensorSlots(Options options);

  std::vector<Arena> inputs_, outputs_;
};

}  // namespace penstock::batch

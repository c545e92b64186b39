// The Backend seam: a processor that holds the weights of models and runs their programs.
//
// Ownership: a Backend owns its threads; Tables, PackedLinears and ProgramRuns are owned by the
// caller and must be destroyed before their Backend. Any thread may call; the runs of several
// callers take turns (what they wait is counted, see common/waiting_lock.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "common/dtype.h"
#include "common/status.h"
#include "tensor/compute_gate.h"
#include "tensor/packed_batch.h"
#include "tensor/program.h"
#include "tensor/view.h"

namespace penstock {

// Programs ready to run, and the activations of one batch at a time, which they share. One thread
// at a time; HeldBytes: any thread.
class ProgramRun {
 public:
  virtual ~ProgramRun() = default;
  // Makes room for batches of that size beforehand; Run makes what is missing, and allocates
  // nothing once there is room. kResourceExhausted: there is no memory for it.
  virtual Status Reserve(size_t tokens, size_t sequences) = 0;
  // Bytes of activations, and of scratch that all ProgramRuns of the backend share.
  virtual uint64_t HeldBytes() const = 0;
  // Gives the activations back to the system, and the scratch unless another ProgramRun uses it.
  // Returns the bytes given back. The next Run makes them anew.
  virtual uint64_t Release() = 0;
  // Runs program `index` of those prepared. sinks[s] takes the rows of the result that belong to
  // sequence s: one, or one for each of its tokens. Errors: those of CheckBatch;
  // kResourceExhausted: out of memory, and the next Run is as good as any.
  virtual Status Run(size_t index, const PackedBatch& batch, std::span<float* const> sinks) = 0;
};

// Rows of a Linear as they are stored. bias: [1, weight.rows], or none.
struct LinearRows {
  TensorView weight;
  TensorView bias;
};

// How a weight is multiplied by.
struct PackOptions {
  // Of both operands, kF32, kBf16 or kI8; activations go in and come out as f32 all the same.
  DType dtype = DType::kF32;
  // kI8 only: [in], positive, or empty: all 1. Column k of the weight is multiplied by its factor
  // and x's divided by it, before both are rounded.
  std::span<const float> column_factors;
};

class Backend {
 public:
  // Writes `rows` from row `first` on; called with one block after the other.
  using FillRows = std::function<void(int64_t first, std::span<float> rows)>;

  virtual ~Backend() = default;
  // Whose turn it is to run batches here, over all models; who calls without a turn only waits for
  // single operations.
  ComputeGate& gate() { return gate_; }

  // "cpu (avx512, 2 threads)".
  virtual std::string name() const = 0;
  // kBf16 where this processor multiplies it natively, else kF32.
  virtual DType preferred_dtype() const { return DType::kF32; }
  // Chooses the processors of the calling thread, for one whose work is to run models here.
  virtual void PlaceCaller() const {}

  // Keep and Pack throw std::bad_alloc where memory runs out.
  virtual std::unique_ptr<Table> Keep(int64_t rows, int32_t width, const FillRows& fill) = 0;
  std::unique_ptr<Table> Keep(const TensorView& view);
  // `parts`, one or more with the same number of columns, put on top of each other; all have a bias
  // or none has. Types: those of ConvertToF32.
  virtual std::unique_ptr<PackedLinear> Pack(std::span<const LinearRows> parts,
                                             const PackOptions& options) = 0;
  // For programs that CheckProgram passes, which must outlive the run.
  virtual std::unique_ptr<ProgramRun> Prepare(std::span<const Program* const> programs) = 0;

 private:
  ComputeGate gate_;
};

}  // namespace penstock

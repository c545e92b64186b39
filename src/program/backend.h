// The Backend seam: a processor that holds the weights of models and runs their programs.
//
// Ownership: a Backend owns its threads; Tables, PackedLinears and ProgramRuns are owned by the
// caller and must be destroyed before their Backend. Any thread may call; the runs of several
// callers take turns (the time they wait is counted, see threads/waiting_lock.h).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/status.h"
#include "gate/load_turn.h"
#include "numbers/dtype.h"
#include "program/program.h"
#include "program/program_run.h"
#include "program/view.h"

namespace penstock::program {

// A linear layer's weight and bias as stored. bias: [1, weight.rows], or none.
struct LinearRows {
  TensorView weight;
  TensorView bias;
};
// Rows of all parts.
int64_t RowsOf(std::span<const LinearRows> parts);

// How a linear layer is packed.
struct PackOptions {
  // The type of both operands: kF32, kF16, kBf16 or kI8. The layer's input and output are f32 in any case.
  numbers::DType dtype = numbers::DType::kF32;
  // kI8 only: [in], positive, or empty: all 1. Column k of the weight is multiplied by its factor
  // and column k of x divided by it, before both are rounded.
  std::span<const float> column_factors;
  // The parts lie in a mapping of a file that is private and read only: pages that are packed may
  // be given back to the system, which reads the file again where they are touched.
  bool mapped_file = false;
  // The weights keep the type they are stored in, one for all parts, until they are multiplied: for
  // programs with a cache. Not with column factors.
  bool as_stored = false;
  // The turns that packing as stored takes at this backend's gate; null: turns of its own.
  gate::LoadTurn* turn = nullptr;
};

// What a device apart from the host has done since the start, and holds. Any thread.
struct DeviceCounters {
  std::atomic<double> busy_s{0};      // seconds of batches: their copies and kernels
  std::atomic<uint64_t> bytes_in{0};  // copied to it: weights and batches
  std::atomic<uint64_t> bytes_out{0};
  std::atomic<uint64_t> captures{0};  // sequences of kernels captured into graphs
  std::atomic<uint64_t> graphs{0};    // kept
};

// How batches are given to a backend.
struct BackendSizes {
  // Turns held at once. With more than one, batches queue on a device apart from the host: while it
  // computes one the next is put behind it, so that it never waits for the host.
  uint32_t turns = 1;
  // The least for an encoder: one more than turns, so that bulk batches may have all turns
  // (sched/executors.h).
  int32_t runners = 1;
  // Runners use one set of activations in turn; else each has its own.
  bool shared_activations = false;
  // The most in one batch, where no flag says otherwise.
  int32_t batch_tokens = 8192;
  int32_t batch_rows = 512;
};

// What a device apart from the host can do, by its clocks; 0: not known. The host is measured.
struct PeakRates {
  double operations_per_s = 0;  // with operands of 16 bits
  double bytes_per_s = 0;       // of its memory
};

class Backend {
 public:
  // Writes `rows` from row `first` on; called with one block after the other.
  using FillRows = std::function<void(int64_t first, std::span<float> rows)>;

  explicit Backend(const BackendSizes& sizes = {}) : sizes_(sizes), gate_(sizes.turns) {}
  virtual ~Backend() = default;
  const BackendSizes& sizes() const { return sizes_; }
  // Turns to run batches here, over all models. A caller without a turn waits for single operations
  // only.
  gate::ComputeGate& gate() { return gate_; }

  // "cpu (avx512, 2 threads)".
  virtual std::string name() const = 0;
  // Whether it is the processor of the host, whose memory and threads others may use as well.
  virtual bool is_host() const { return true; }
  // That compute at once.
  virtual int threads() const { return 1; }
  // kBf16 where this processor multiplies it natively, else kF32.
  virtual numbers::DType preferred_dtype() const { return numbers::DType::kF32; }
  // What programs with a cache multiply in, of weights that are stored so.
  virtual numbers::DType StepDType(numbers::DType stored) const {
    return numbers::IsBlockType(stored) ? numbers::DType::kI8 : preferred_dtype();
  }
  virtual PeakRates peak_rates() const { return {}; }
  // Names of what it does to be fast, for PrepareOptions::without.
  virtual std::span<const char* const> optimisations() const { return {}; }
  // Free bytes of the memory that its models lie in; 0: the system does not tell.
  virtual uint64_t AvailableBytes() const = 0;
  // kUnavailable once the device is lost: nothing runs there any more. Any thread.
  virtual Status Health() const { return Status::Ok(); }
  // Null for the host, whose metrics are those of the process. May outlive the backend.
  virtual std::shared_ptr<const DeviceCounters> counters() const { return nullptr; }
  // Sets the processor affinity of the calling thread: for threads that run models here.
  virtual void PlaceCaller() const {}

  // Keep and Pack throw std::bad_alloc where memory runs out, and std::runtime_error where the device
  // is lost.
  virtual std::unique_ptr<Table> Keep(int64_t rows, int32_t width, const FillRows& fill) = 0;
  std::unique_ptr<Table> Keep(const TensorView& view);
  // `parts`, one or more with the same number of columns, are stacked by rows; all have a bias or
  // none has. Types: those of ConvertToF32. As stored, it takes turns at the gate, each for a
  // moment: the caller holds none but options.turn. kUnsupported: this backend does not multiply in that type, or
  // weights of that type; kInvalidArgument: parts or rows that do not fit.
  virtual Expected<std::unique_ptr<PackedLinear>> Pack(std::span<const LinearRows> parts,
                                                       const PackOptions& options) = 0;
  // Bytes that such a layer takes, and kUnsupported where Pack says so; weights are not read. By
  // default as stored, or a weight, and a bias and a scale a row where there are such.
  virtual Expected<uint64_t> LinearBytes(std::span<const LinearRows> parts,
                                         const PackOptions& options) const;
  // What a run of a program with a cache takes besides the cache, about; its weights may be those of
  // a DryBackend. kUnsupported: as Prepare says.
  virtual Expected<uint64_t> StepBytes(const Program& program, const PrepareOptions& options) const;
  // `programs`, one or more, must pass CheckProgram and outlive the run, which they share: they run
  // one at a time. One with a cache is alone. kUnsupported names the operation that this backend
  // does not run, or the kind of its cache; kInvalidArgument: options that do not fit;
  // kResourceExhausted: no memory for activations, or no address space for the cache.
  virtual Expected<std::unique_ptr<ProgramRun>> Prepare(std::span<const Program* const> programs,
                                                        const PrepareOptions& options = {}) = 0;
  Expected<std::unique_ptr<ProgramRun>> Prepare(const Program& program,
                                                const PrepareOptions& options = {}) {
    const Program* const programs[] = {&program};
    return Prepare(programs, options);
  }

  // Bytes of all weights kept and packed since the start, freed ones included: the progress of a
  // load. Any thread.
  uint64_t packed_bytes() const { return packed_bytes_.load(std::memory_order_relaxed); }

 protected:
  void CountPacked(uint64_t bytes) { packed_bytes_.fetch_add(bytes, std::memory_order_relaxed); }

 private:
  const BackendSizes sizes_;
  gate::ComputeGate gate_;
  std::atomic<uint64_t> packed_bytes_{0};
};

}  // namespace penstock::program

// The encoder family: BERT and its kin as programs (encoder_program.h) over packed weights.
//
// EncoderModel holds weights and programs and is immutable: any number of EncoderSessions may share
// it. An EncoderSession owns the activations of one batch at a time; it belongs to one executor
// thread. The Backend's threads work inside each run.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "families/model_folder.h"
#include "files/tensor_store.h"
#include "models/linear_types.h"
#include "program/backend.h"
#include "program/encoder_runner.h"
#include "program/packed_batch.h"
#include "program/program.h"

namespace penstock::models {

class EncoderModel {
 public:
  // Packs the weights named by `folder` for `backend`, which must outlive the model. `types`: of
  // the linear layers of encoder layers, kF32, kBf16 or kI8 (see PackOptions). kUnsupported or
  // kInvalidArgument name the tensor, setting or type override at fault.
  static Expected<std::unique_ptr<EncoderModel>> Load(const families::ModelFolder& folder,
                                                      program::Backend* backend,
                                                      const LinearTypes& types = {});
  ~EncoderModel();

  const families::ModelFolder& folder() const;
  int32_t hidden_size() const;
  int32_t embedding_size() const;  // after dense modules
  int32_t num_labels() const;      // 0: kLogits is not offered
  int32_t max_tokens() const;      // longest sequence
  bool uses_type_ids() const;
  uint64_t parameters() const;
  uint64_t weight_bytes() const;  // packed, in memory
  // Row width of an output, in floats; 0: not offered.
  int32_t OutputWidth(program::EncoderOutput output) const;
  // The program of an output; null: not offered.
  const program::Program* program(program::EncoderOutput output) const;

 private:
  friend class EncoderSession;
  struct Impl;
  explicit EncoderModel(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

class EncoderSession {
 public:
  // Memory of activations grows to the largest batch seen, in steps; Reserve allocates it
  // beforehand.
  explicit EncoderSession(const EncoderModel* model);
  ~EncoderSession();
  // That of Backend::Prepare. Where it is not OK, Reserve and Run return it.
  Status status() const;
  Status Reserve(size_t tokens, size_t sequences);
  // Gives the activations back to the system, and the backend's scratch unless other sessions use
  // it; the next Run allocates again. Not while Run is under way. Returns the bytes given back.
  uint64_t Release();
  // Bytes of activations, and of the scratch that models of one backend share. Any thread.
  uint64_t HeldBytes() const;
  // As ProgramRun::BytesFor.
  uint64_t BytesFor(size_t tokens, size_t sequences) const;

  // Runs the model. sinks[s] is where the result of sequence s goes: OutputWidth(output) floats, or
  // that many for each of its tokens. Refuses (kInvalidArgument): an id outside the vocabulary, a
  // type id outside its table, an empty sequence or one longer than max_tokens, an output that is
  // not offered. Does not allocate for batches that fit; kResourceExhausted: out of memory, and the
  // session can go on. The bits of a sequence's result depend on that sequence alone, whatever
  // shares the batch.
  Status Run(const program::PackedBatch& batch, program::EncoderOutput output,
             std::span<float* const> sinks);
  // The same, results end to end: [rows, OutputWidth], rows being sequences or tokens.
  Status Run(const program::PackedBatch& batch, program::EncoderOutput output,
             std::span<float> out);
  // As ProgramRun::device_seconds.
  double device_seconds() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Finishes a pooled row: `dimensions` < row.size() cuts it (Matryoshka), then `normalize` scales it
// to length 1 in double precision (rows with zero norm stay zero). Returns the row to send.
std::span<float> FinishEmbedding(std::span<float> row, int32_t dimensions, bool normalize);

}  // namespace penstock::models

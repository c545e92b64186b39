// DecoderWeights: a decoder's tables and matrices, packed for a backend. Matrices stay in the types
// of the file. The program (decoder_program.h) points into it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/status.h"
#include "families/decoder_files.h"
#include "numbers/dtype.h"
#include "program/backend.h"
#include "program/program.h"

namespace penstock::models {

struct DecoderOptions {
  // Of both operands of linear layers: kF32, kBf16, or kI8, which is for matrices of block types
  // only. None: kI8 for those, and what the backend prefers for the others.
  std::optional<numbers::DType> dtype;
  // Tokens of the longest sequence, at most the model's own context; 0: that.
  int32_t context = 0;
};

struct DecoderLayer {
  program::Norm attention_norm;
  std::unique_ptr<program::PackedLinear> q, k, v;
  program::Norm q_norm, k_norm;              // of each head; gamma null: none
  const program::Table* rope_cos = nullptr;  // [context, rope_size / 2], or null: not rotated
  const program::Table* rope_sin = nullptr;
  // Of sequences longer than DecoderWeights::rope_switch; then the two above have so many rows.
  const program::Table* long_rope_cos = nullptr;
  const program::Table* long_rope_sin = nullptr;
  int32_t window = 0;
  std::unique_ptr<program::PackedLinear> attention_out;
  program::Norm post_attention_norm;  // gamma null: none
  program::Norm ff_norm;
  std::unique_ptr<program::PackedLinear> gate, up, down;
  program::Norm post_ff_norm;  // gamma null: none
};

struct DecoderWeights {
  std::vector<std::unique_ptr<program::Table>> tables;  // the Tables pointed to here

  std::unique_ptr<program::PackedLinear> embedding;
  program::Norm output_norm;
  std::unique_ptr<program::PackedLinear> untied_output;  // null: the embedding, or none is needed
  std::vector<DecoderLayer> layers;
  int32_t context = 0;
  int32_t rope_switch = 0;  // RopeSwitchOf
  uint64_t parameters = 0;
  uint64_t bytes = 0;  // in memory
};

// The tensors need not be in files: files.store may be null. Errors name the tensor or setting at
// fault: kUnsupported for kI8 of a matrix that is in no block
// type; kInvalidArgument for a context beyond the model's; kUnavailable where a file was cut while
// it was read.
Expected<std::unique_ptr<DecoderWeights>> LoadDecoderWeights(const families::DecoderFiles& files,
                                                             program::Backend* backend,
                                                             const DecoderOptions& options);

}  // namespace penstock::models

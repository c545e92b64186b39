// A ModelInferRequest off the wire. Its bytes are looked through before anything is allocated for
// them: a message of a few bytes may stand for many times its size in memory. Tensors in
// raw_input_contents stay where they are.
#pragma once

#include <grpc/inference.pb.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "threads/byte_budget.h"

namespace penstock::grpc {

class InferRequest {
 public:
  static constexpr size_t kTensorsMax = 1024;     // inputs, and outputs
  static constexpr size_t kParametersMax = 1024;  // of the message and of its tensors together
  static constexpr size_t kDimensionsMax = 64;

  // Reads a message, which is kept. `memory`, which may be null, is asked for what it takes once it
  // is read, besides its bytes.
  // kInvalidArgument: it is no such message, or over a limit; errors of `memory`.
  Status Read(std::string message, RequestMemory* memory);
  // For a message that is used again: drops views, and memory beyond the usual.
  void Clear();

  // All but raw_input_contents.
  const inference::ModelInferRequest& head() const { return head_; }
  const std::vector<std::span<const std::byte>>& raw() const { return raw_; }

 private:
  Status Split();

  inference::ModelInferRequest head_;
  std::vector<std::span<const std::byte>> raw_;
  std::vector<std::span<const std::byte>> runs_;  // the rest, as it lies around raw_
  std::string message_;                           // what views point to
};

}  // namespace penstock::grpc

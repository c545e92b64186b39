// The body of an inference request of the Open Inference Protocol over HTTP, with Triton's
// extensions:
//
//   JSON                                              inputs, outputs, parameters
//   bytes of the first input with binary_data_size    as many as it says; then the next one's
//   ...
//
// Without the header Inference-Header-Content-Length all is JSON.
// Sources: github.com/kserve/open-inference-protocol, "Inference"; Triton's extension_binary_data
// and extension_shared_memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "api/infer.h"
#include "api/infer_parameters.h"
#include "api/shared_memory.h"
#include "base/status.h"
#include "dialects/kserve/tensor_json.h"
#include "threads/byte_budget.h"

namespace penstock::dialects {

struct KserveRequest {
  // How an output is sent: as JSON, behind the JSON, or written to shared memory.
  struct Output {
    bool binary = false;
    std::string region;  // of shared memory; "": none
    uint64_t offset = 0;
    uint64_t bytes = 0;
    api::SharedMemorySlice shared;
  };
  // An input that waits in shared memory.
  struct SharedInput {
    size_t input = 0;
    api::SharedMemorySlice shared;
  };

  std::string id;
  api::InferRequestParameters parameters;
  // `bytes` are of the body or of `made`; empty where a SharedInput stands for them.
  std::vector<api::InferCall::Input> inputs;
  std::vector<SharedInput> shared_inputs;
  std::vector<TensorBytes> made;
  std::vector<api::InferCall::Output> outputs;  // names alone; empty: all
  std::vector<Output> forms;                    // of `outputs`

  Output other_form;  // of outputs that are not named

  // `index` in the outputs of the call, which has all of the model's where none are named.
  const Output& FormOf(size_t index) const {
    return index < forms.size() ? forms[index] : other_form;
  }
};

inline constexpr size_t kRequestTensorsMax = 1024;   // inputs, and outputs, of a request
inline constexpr size_t kRequestDimensionsMax = 64;  // of a tensor

// How many bytes of a body of `body_bytes` are JSON by the header Inference-Header-Content-Length;
// all of it if the header is "". kInvalidArgument: it is not a number, 0, or over `body_bytes`.
Expected<size_t> KserveJsonBytes(std::string_view header, size_t body_bytes);

// Views of the result are of `body`, which must outlive it. Elements made of JSON are counted in
// `memory`, which may be null. Whether the model takes these tensors is not checked here.
// Errors name the tensor: kInvalidArgument; kUnsupported: a parameter that cannot be honoured;
// kNotFound: no such shared memory; those of `memory`.
Expected<KserveRequest> ParseKserveRequest(std::string_view body, size_t json_bytes,
                                           const api::SharedMemory& shared_memory,
                                           RequestMemory* memory);

}  // namespace penstock::dialects

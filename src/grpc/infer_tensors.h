// InferTensors: an InferCall made of a message of the Open Inference Protocol, and the answer made
// of its results. What ModelInfer and ModelStreamInfer have in common. Used again for one call
// after another.
#pragma once

#include <grpc/inference.pb.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "api/infer.h"
#include "api/shared_memory.h"
#include "base/status.h"
#include "grpc/infer_request.h"
#include "grpc/rpc.h"

namespace penstock::api {
class Service;
}  // namespace penstock::api

namespace penstock::grpc {

class InferTensors : public api::InferCall {
 public:
  // The message's tensors become inputs and outputs of this call. Raw contents stay where they
  // are in it; typed ones stay in the message where the elements have the type's own width.
  // `context` is set; its deadline and priority are those of the parameters as well, from `begin`
  // on. kInvalidArgument names the tensor; kUnsupported: a parameter that cannot be honoured;
  // kNotFound: no such shared memory; errors of the context's memory.
  Status Read(std::string message, api::Service* service, Clock::time_point begin);
  // Bytes of inputs in shared memory, which ReadShared copies.
  uint64_t shared_bytes() const { return shared_bytes_; }
  Status ReadShared();
  // Inputs stay until here.
  void Clear();

  const InferRequest& request() const { return request_; }

  // Within Done, where it is OK: the ModelInferResponse of the results, each copied once.
  // kPayloadTooLarge: over --max-response-bytes; errors of shared memory and of the memory budget.
  // `stream`: wrapped in a ModelStreamInferResponse.
  Status Write(bool stream, RpcMessage* answer);

 private:
  // An input whose elements are in shared memory.
  struct SharedInput {
    size_t index = 0;
    api::SharedMemorySlice slice;
  };
  // Where an output is to go; an empty region: into the answer.
  struct Place {
    std::string region;
    uint64_t offset = 0;
    api::SharedMemorySlice slice;
  };

  Status ReadInputs();
  Status ReadInput(const inference::ModelInferRequest::InferInputTensor& tensor, size_t index);
  Status ReadOutputs();
  Status ReadParameters(Clock::time_point begin);
  Expected<std::span<const std::byte>> ReadContents(const inference::InferTensorContents& contents,
                                                    signature::ElementType type);
  Expected<std::span<const std::byte>> JoinTexts(const inference::InferTensorContents& contents);
  // Counted memory until Clear.
  Expected<std::span<std::byte>> Make(size_t bytes);
  Status WriteShared();
  void FillHead(bool stream);

  api::Service* service_ = nullptr;
  InferRequest request_;
  size_t raw_used_ = 0;
  uint64_t shared_bytes_ = 0;
  std::vector<SharedInput> shared_;
  std::vector<Place> places_;  // of `outputs`; fewer: the rest go into the answer
  // Elements that had to be converted or read.
  std::vector<std::unique_ptr<std::byte[]>> made_;
  inference::ModelInferResponse head_;
};

}  // namespace penstock::grpc

// ModelInfer: one request for a tensor model. Everything a call needs is in one object that is used
// again, so that a call allocates nothing of its own once buffers have grown.
//
//   io thread   Start: key, priority, deadline
//   the same one, or a worker   OnMessage: the message's tensors; Service::Infer
//   the same one, or the model's   Done: results into the answer, Finish
//   io thread   OnDone: counted and logged; back into the pool
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "grpc/grpc_front_end.h"

namespace penstock::grpc {

class ModelInferCall;

class ModelInferCalls {
 public:
  // Calls that are kept while they are not used.
  static constexpr size_t kKeptMax = 256;

  explicit ModelInferCalls(GrpcFrontEnd* front_end);
  ~ModelInferCalls();

  void Start(int32_t method, const std::shared_ptr<Rpc>& rpc);

 private:
  friend class ModelInferCall;
  void Release(ModelInferCall* call);

  GrpcFrontEnd* const front_end_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<ModelInferCall>> free_;  // guarded by mutex_
};

}  // namespace penstock::grpc

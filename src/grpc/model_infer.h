// ModelInfer: one request for a tensor model. Everything a call needs is in one object that is used
// again, so that a call allocates nothing of its own once buffers have grown.
//
//   gRPC's thread   Start: key, priority, deadline; the message's tensors; Service::Infer
//   the same one, or the model's   Done: results into the answer, Finish
//   gRPC's thread   OnDone: counted and logged; back into the pool
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <memory>
#include <mutex>
#include <vector>

#include "grpc/grpc_front_end.h"

namespace penstock {

class ModelInferCall;

class ModelInferCalls {
 public:
  // Calls that are kept while they are not used.
  static constexpr size_t kKeptMax = 256;

  ModelInferCalls(GrpcFrontEnd* front_end, int32_t method);
  ~ModelInferCalls();

  grpc::ServerUnaryReactor* Start(grpc::CallbackServerContext* context,
                                  const grpc::ByteBuffer* request, grpc::ByteBuffer* response);

 private:
  friend class ModelInferCall;
  void Release(ModelInferCall* call);

  GrpcFrontEnd* const front_end_;
  const int32_t method_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<ModelInferCall>> free_;  // guarded by mutex_
};

}  // namespace penstock

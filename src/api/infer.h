// InferCall: a request for a tensor model and its response, as native types: what KServe's protocol
// says over HTTP and gRPC alike is parsed into one and printed from it.
//
// Made, owned and used again by the caller; from Service::Infer until Done it is the service's.
// Nothing is copied: inputs are read from where the caller has them (the body of the request,
// shared memory), results from the batch they were computed in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/tensor_engine.h"
#include "registry/lease.h"
#include "sched/tensor_job.h"
#include "signature/element_type.h"
#include "threads/request_context.h"

namespace penstock::api {

class Service;

class InferCall : private sched::TensorJob {
 public:
  struct Input {
    std::string name;
    signature::ElementType type = signature::ElementType::kFp32;
    std::vector<int64_t> shape;
    // Elements row by row, little-endian, at any address. BYTES: each is a length of 4 bytes, then
    // that number of bytes.
    std::span<const std::byte> bytes;
  };
  struct Output {
    std::string name;
    // In: where the result is to be put, which has room for it; empty: it is read from `bytes`.
    std::span<std::byte> sink;
    // Out. `bytes`: in `sink`, or valid until Done returns.
    signature::ElementType type = signature::ElementType::kFp32;
    std::vector<int64_t> shape;
    std::span<const std::byte> bytes;
  };

  InferCall() = default;
  virtual ~InferCall() = default;
  InferCall(const InferCall&) = delete;
  InferCall& operator=(const InferCall&) = delete;

  // The request.
  std::string model;    // "": the only tensor model
  std::string version;  // ServedVersion, or "": the one that is served; another is kNotFound
  std::vector<Input> inputs;
  // Those that are wanted, in this order; empty: all, in the model's order. Filled with results.
  std::vector<Output> outputs;
  using sched::TensorJob::context;
  using sched::TensorJob::may_lead;

  // The response: the name and version of the model that answered; 0: it has no versions.
  const std::string& served_model() const { return served_model_; }
  int64_t served_version() const { return served_version_; }

  // Called once, on the caller's thread within Infer or on one of the model's, which waits for it:
  // it copies or sends the results and leaves long work to others. Not OK: `outputs` hold none.
  // The call belongs to the caller again and may be deleted here. Throws nothing.
  virtual void Done(const Status& status) = 0;

 private:
  friend class InferRun;  // infer.cc

  std::string served_model_;
  int64_t served_version_ = 0;
  Service* service_ = nullptr;
  registry::Lease<engine::TensorEngine> lease_;
  std::shared_ptr<const void> in_run_;  // the bulk run it belongs to
  std::vector<uint8_t> given_;          // by input of the model: whether it is there
  std::vector<uint32_t> order_;         // of `outputs`: which of the model's
};

}  // namespace penstock::api

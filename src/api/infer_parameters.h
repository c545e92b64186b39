// Parameters of an inference request and of its tensors: what the Open Inference Protocol leaves
// open and Triton's extensions fill (github.com/triton-inference-server/server/tree/main/docs/
// protocol), for HTTP and gRPC alike.
//
// Each struct takes its parameters one by one. Those that Penstock cannot honour are refused by
// name; unknown names are ignored, as Triton's own backends do.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>

#include "base/status.h"
#include "threads/request_context.h"

namespace penstock::api {

// Name and value point into the request. The front end
// refuses unsigned numbers over 2^63 - 1, which have no type here.
using InferParameterValue = std::variant<bool, int64_t, double, std::string_view>;
struct InferParameter {
  std::string_view name;
  InferParameterValue value;
};

struct InferRequestParameters {
  // "binary_data_output", HTTP only: outputs are binary unless they say otherwise.
  bool binary_data_output = false;
  // "priority": 1 is the highest, larger numbers are lower, 0 is the server's own choice.
  int64_t priority = 0;
  // "timeout", in microseconds; 0: none.
  int64_t timeout_us = 0;

  // kInvalidArgument: a value of the wrong type or range, or a name that begins with "triton_".
  // kUnsupported: sequence_id, sequence_start or sequence_end that is set. The field is the name.
  Status Set(const InferParameter& parameter);

  // A priority of 2 and more makes the request bulk work; 0 and 1 leave its class as key, header
  // and route have it. The timeout moves the deadline forward to `begin` + timeout, never back.
  void ApplyTo(Clock::time_point begin, RequestContext* context) const;
};

// Part of a region of shared memory that holds a tensor; see shared_memory.h.
struct SharedMemoryParameters {
  std::string_view region;  // "shared_memory_region"; "": none
  uint64_t offset = 0;      // "shared_memory_offset"
  uint64_t bytes = 0;       // "shared_memory_byte_size"

  bool used() const { return !region.empty(); }
};

struct InferInputParameters {
  // "binary_data_size", HTTP only: bytes of this tensor behind the JSON.
  std::optional<uint64_t> binary_data_size;
  SharedMemoryParameters shared_memory;

  // As InferRequestParameters::Set.
  Status Set(const InferParameter& parameter);
};

struct InferOutputParameters {
  // "binary_data", HTTP only. nullopt: as binary_data_output says.
  std::optional<bool> binary_data;
  SharedMemoryParameters shared_memory;

  // As InferRequestParameters::Set. kUnsupported: "classification" other than 0.
  Status Set(const InferParameter& parameter);
};

}  // namespace penstock::api
